"""What jtorch's own code goes by: methods that are replaced, lists of layers, attributes of its objects."""

import contextlib
import functools

import pytest

import jtorch
from jtorch import distributions as d, nn
from jtorch.core.errors import CompileError
from jtorch.utils import data
from tests.compile.observe.observing import t

F = nn.functional


class Plain(nn.ReLU):
    pass


class Triple(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 3

    @staticmethod
    def backward(ctx, g):
        return g * 3


@contextlib.contextmanager
def _replaced(owner, name, value):
    own = name in vars(owner)
    before = vars(owner).get(name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before) if own else delattr(owner, name)


NORMAL = d.Normal(t(0), t(1))
CALLED = nn.Module.__call__
REPLACED = {
    "forward of a layer": (nn.ReLU(), nn.ReLU, "forward", lambda self, x: x * 9),
    "forward of a layer inside": (nn.Sequential(nn.ReLU()), nn.ReLU, "forward", lambda self, x: x * 9),
    "forward that a subclass gets": (nn.Sequential(Plain()), Plain, "forward", lambda self, x: x * 9),
    "__call__ of all": (nn.ReLU(), nn.Module, "__call__", lambda self, x: CALLED(self, x) + 1),
    "a function of layers": (nn.Linear(2, 2), F, "linear", lambda x, *rest: x * 9),
    "a method of tensors": (lambda x: x.exp(), jtorch.Tensor, "exp", lambda self: self * 9),
    "forward of a Function": (lambda x: Triple.apply(x), Triple, "forward", staticmethod(lambda c, x: x * 9)),
    "log_prob": (lambda x: NORMAL.log_prob(x), d.Normal, "log_prob", lambda self, x: x * 9),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_is_noticed(name):
    function, owner, attribute, value = REPLACED[name]
    compiled, x = jtorch.compile(lambda x: function(x)), t(1, 2)
    before = compiled(x).tolist()
    assert compiled(x).tolist() == before
    with _replaced(owner, attribute, value):
        assert compiled(x).tolist() == pytest.approx(function(x).tolist())
        assert compiled(x).tolist() != before
    assert compiled(x).tolist() == before


def test_the_layers_of_a_compiled_module_are_looked_at():
    compiled = jtorch.compile(nn.Sequential(nn.ReLU()))
    assert compiled(t(1)).tolist() == [1]
    with _replaced(nn.ReLU, "forward", lambda self, x: x * 9):
        assert compiled(t(1)).tolist() == [9]


def test_a_backward_that_is_replaced():
    @jtorch.compile
    def f(x):
        return jtorch.autograd.grad(Triple.apply(x.requires_grad_()).sum(), x)[0]

    assert f(t(1)).tolist() == [3]
    with _replaced(Triple, "backward", staticmethod(lambda ctx, g: g * 7)):
        assert f(t(1)).tolist() == [7]


@pytest.mark.parametrize("where", ["class", "instance"])
def test_a_step_that_is_replaced(where):
    p = nn.Parameter(t(1))
    optimizer = jtorch.optim.SGD([p], lr=0.5)

    @jtorch.compile
    def step():
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()

    step()
    assert p.tolist() == [0.5]
    owner, value = (type(optimizer), lambda self: None) if where == "class" else (optimizer, lambda: None)
    with _replaced(owner, "step", value):
        step()
        assert p.tolist() == [0.5]
    step()
    assert p.tolist() == [0.0]


def _conv():
    layer = nn.Conv2d(1, 1, 1)
    layer.stride = [1, 1]
    return layer, lambda: layer.stride.__setitem__(0, 2)


def _pool():
    layer = nn.MaxPool2d(1)
    layer.kernel_size = [1, 1]
    return nn.Sequential(layer), lambda: layer.kernel_size.__setitem__(0, 2)


def _pad():
    layer = nn.ReflectionPad2d(1)
    layer.padding = [1, 1, 1, 1]
    return layer, lambda: layer.padding.__setitem__(0, 2)


def _norm():
    layer = nn.LayerNorm(2, elementwise_affine=False)
    layer.normalized_shape = [2, 2]
    return layer, lambda: layer.normalized_shape.pop()


@pytest.mark.slow
@pytest.mark.parametrize("make", [_conv, _pool, _pad, _norm])
def test_lists_of_layers_that_change_in_place(make):
    layer, change = make()
    compiled, x = jtorch.compile(lambda x: layer(x)), jtorch.arange(4.0).reshape(1, 1, 2, 2) * 3 + 1
    x = jtorch.cat([x, x * x], 2) if make is _pad else x
    x = jtorch.cat([x, -x], 3) if make is _pad else x
    first = compiled(x)
    change()
    assert jtorch.equal(compiled(x), layer(x)) or jtorch.allclose(compiled(x), layer(x))
    assert compiled(x).shape != first.shape or not jtorch.equal(compiled(x), first)


def _normal():
    n = d.Normal(t(0), t(1))
    return n.log_prob, lambda: setattr(n, "loc", t(3))


def _inner():
    n = d.Normal(t(0, 1), t(1, 1))
    outer = d.Independent(n, 1)
    return outer.log_prob, lambda: setattr(n, "scale", t(3, 3))


def _categorical():
    c = d.Categorical(logits=t(0, 0, 0))
    return lambda x: c.log_prob(x.long()), lambda: setattr(c, "logits", t(-3, -2, -1))


def _mean():
    n = d.Normal(t(0), t(1))
    return lambda x: x + n.mean, lambda: setattr(n, "loc", t(3))


def _divergence():
    n = d.Normal(t(0), t(1))
    return lambda x: d.kl_divergence(n, d.Normal(x, t(1))), lambda: setattr(n, "loc", t(3))


@pytest.mark.parametrize("make", [_normal, _inner, _categorical, _mean, _divergence])
def test_attributes_of_objects_of_the_library(make):
    function, change = make()
    compiled, x = jtorch.compile(lambda x: function(x)), t(1, 2)
    first = compiled(x).tolist()
    assert compiled(x).tolist() == first
    assert str(compiled.retraces) == "no retraces"
    change()
    assert compiled(x).tolist() == pytest.approx(function(x).tolist())
    assert compiled(x).tolist() != first


def test_what_a_distribution_computes_once_is_not_left_there_by_a_recording():
    b = d.Bernoulli(0.5)
    compiled = jtorch.compile(lambda x: b.log_prob(x))
    assert compiled(t(1)).tolist() == pytest.approx(b.log_prob(t(1)).tolist())
    b = d.Bernoulli(0.75)
    assert compiled(t(1)).tolist() == pytest.approx(b.log_prob(t(1)).tolist())


def test_a_compiled_function_that_is_called_guards_for_itself():
    """What it holds, plans and counts, changes with each of its own calls."""
    inner = jtorch.compile(lambda x: x * 2)
    outer = jtorch.compile(lambda x: inner(x))
    for k in range(1, 5):
        assert outer(t(1, 2)).tolist() == [2.0, 4.0]
        inner(jtorch.ones(k))
    assert str(outer.retraces) == "no retraces"
    assert sum(read.guarded for read in outer._newest().capture.plain) <= 3


def test_methods_of_tensors_tell_of_their_replacement_and_cost_no_guard():
    f = jtorch.compile(lambda x: x.exp().relu().sum().view(1))
    f(t(1, 2))
    assert sum(read.guarded for read in f._newest().capture.plain) == 1  # its own code
    with _replaced(jtorch.Tensor, "relu", lambda self: self * 0):
        assert f(t(1, 2)).tolist() == [0.0]


def _own_function(scale):
    def own(self):
        return self * 1

    own.scale, own.options = scale, {"a": scale}
    return own


def _attribute_of_a_method(monkeypatch):
    own = _own_function(2.0)
    monkeypatch.setattr(jtorch.Tensor, "own", own, raising=False)
    return lambda x: x * x.own.scale, lambda: setattr(own, "scale", 5.0)


def _entry_of_a_methods_dict(monkeypatch):
    own = _own_function(2.0)
    monkeypatch.setattr(jtorch.Tensor, "own", own, raising=False)
    return lambda x: x * x.own.options["a"], lambda: own.options.update(a=5.0)


def _dict_on_the_class(monkeypatch):
    options = {"a": 2.0}
    monkeypatch.setattr(jtorch.Tensor, "options", options, raising=False)
    return lambda x: x * x.options["a"], lambda: options.update(a=5.0)


def _partial_method(monkeypatch):
    options = {"a": 2.0}
    own = functools.partialmethod(lambda self, found: self * found["a"], options)
    monkeypatch.setattr(jtorch.Tensor, "own", own, raising=False)
    return lambda x: x.own(), lambda: options.update(a=5.0)


def _mixed_in(monkeypatch):
    class Mixin:
        factor = 2.0

        def twice(self):
            return self * 2

    class Mixed(Mixin, jtorch.Tensor):
        pass

    def change():
        Mixin.factor, Mixin.twice = 5.0, lambda self: self * 7

    def f(x):
        x = x.as_subclass(Mixed)
        return (x.twice() * x.factor).as_subclass(jtorch.Tensor)

    return f, change


def _subset(monkeypatch):
    subset = data.Subset([1.0, 2.0, 3.0], [0, 1])
    return lambda x: x * subset[0], lambda: subset.indices.__setitem__(0, 2)


def _under_a_subset(monkeypatch):
    entries = [1.0, 2.0]
    both = data.ConcatDataset([data.Subset(entries, [0]), [4.0]])
    return lambda x: x * both[0] + len(both), lambda: entries.__setitem__(0, 9.0)


def _tensors_of_a_dataset(monkeypatch):
    held = data.TensorDataset(t(1, 2, 3))
    return lambda x: x * held[0][0] + len(held), lambda: setattr(held, "tensors", (t(7, 8),))


def _length_of_a_loader(monkeypatch):
    entries = [1.0, 2.0]
    loader, sampler = data.DataLoader(entries, batch_size=1), data.SequentialSampler(entries)
    return lambda x: x * len(loader) + len(sampler), lambda: entries.append(3.0)


def _scaler_that_is_switched_off(monkeypatch):
    scaler = jtorch.amp.GradScaler("cpu")
    return lambda x: scaler.scale(x), lambda: setattr(scaler, "_enabled", False)


@pytest.mark.parametrize("make", [
    _attribute_of_a_method, _entry_of_a_methods_dict, _dict_on_the_class, _partial_method, _mixed_in, _subset,
    _under_a_subset, _tensors_of_a_dataset, _length_of_a_loader, _scaler_that_is_switched_off,
])  # fmt: skip
def test_what_is_reached_through_the_librarys_objects_is_noticed(make, monkeypatch):
    f, change = make(monkeypatch)
    compiled = jtorch.compile(f)
    x = t(1, 2)
    assert compiled(x).tolist() == f(x).tolist()
    change()
    assert compiled(x).tolist() == f(x).tolist()


def test_what_a_method_on_the_class_collects_is_collected_at_each_call(monkeypatch):
    own = _own_function(2.0)
    own.seen = []
    monkeypatch.setattr(jtorch.Tensor, "own", own, raising=False)

    @jtorch.compile
    def f(x):
        x.own.seen.append(1)
        return x

    for k in range(3):
        f(t(1, 2))
        assert len(own.seen) == k + 1


def test_a_step_that_is_replaced_under_a_scaler():
    p = nn.Parameter(t(1, 2))
    optimizer, scaler = jtorch.optim.SGD([p], lr=0.1), jtorch.amp.GradScaler("cpu")

    @jtorch.compile
    def f(x):
        optimizer.zero_grad()
        scaler.scale((p * x).sum()).backward()
        scaler.step(optimizer)

    f(t(1, 2))
    scaler.update()
    optimizer.step = lambda *args, **options: None
    before = p.tolist()
    f(t(1, 2))
    assert p.tolist() == before


def test_a_users_optimizer_that_gets_a_group_inside_is_refused():
    class Own(jtorch.optim.SGD):
        pass

    optimizer = Own([nn.Parameter(t(1, 2))], lr=0.1)

    @jtorch.compile
    def f(x):
        optimizer.add_param_group({"params": [nn.Parameter(t(1))]})
        return x

    with pytest.raises(CompileError, match="add_param_group"):
        f(t(1, 2))
    assert len(optimizer.param_groups) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm", "prune"])
def test_hooks_that_set_a_weight_set_it_at_each_call(name):
    from jtorch.nn.utils import prune

    def made():
        jtorch.manual_seed(0)
        layer = nn.Linear(3, 2)
        if name == "prune":
            return prune.l1_unstructured(layer, "weight", 0.5)
        return getattr(nn.utils, name)(layer)

    def stepping(layer):
        optimizer = jtorch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = layer(x).pow(2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = made(), made()
    step, compiled_step = stepping(eager), jtorch.compile(stepping(compiled))
    for n in range(4):
        x = jtorch.full((2, 3), n / 3 + 0.5)
        jtorch.testing.assert_close(compiled_step(x), step(x))
        jtorch.testing.assert_close(compiled.weight.detach().clone(), eager.weight.detach().clone())
        assert compiled.weight.requires_grad is eager.weight.requires_grad is True
