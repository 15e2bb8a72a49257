"""Modules, optimizers and tensors that library code changes inside: an error, and nothing is left changed."""

from pathlib import Path

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import t


def _optimizer():
    return jtorch.optim.SGD([nn.Parameter(t(1))], lr=0.1)


CHANGES = {
    "register_forward_hook": (nn.Identity, lambda m: m.register_forward_hook(lambda *a: None)),
    "register_forward_pre_hook": (nn.Identity, lambda m: m.register_forward_pre_hook(lambda *a: None)),
    "register_buffer": (nn.Identity, lambda m: m.register_buffer("b", t(1))),
    "register_parameter": (nn.Identity, lambda m: m.register_parameter("p", nn.Parameter(t(1)))),
    "add_module": (nn.Identity, lambda m: m.add_module("m", nn.Identity())),
    "append": (nn.Sequential, lambda m: m.append(nn.Identity())),
    "extend": (nn.ModuleList, lambda m: m.extend([nn.Identity()])),
    "insert": (nn.ModuleList, lambda m: m.insert(0, nn.Identity())),
    "__setitem__": (lambda: nn.Sequential(nn.Identity()), lambda m: m.__setitem__(0, nn.ReLU())),
    "an item": (lambda: nn.ModuleDict({"a": nn.Identity()}), lambda m: operator_setitem(m, "b", nn.ReLU())),
    "update": (nn.ModuleDict, lambda m: m.update({"a": nn.Identity()})),
    "add_param_group": (_optimizer, lambda o: o.add_param_group({"params": [nn.Parameter(t(2))]})),
    "register_hook": (lambda: nn.Parameter(t(1)), lambda p: p.register_hook(lambda g: g)),
}


def operator_setitem(owner, key, value):
    owner[key] = value


def _state(owner):
    if isinstance(owner, jtorch.Tensor):
        return len(owner._hooks or {})
    if isinstance(owner, nn.Module):
        hooks = len(owner._forward_hooks) + len(owner._forward_pre_hooks)
        return list(map(repr, owner._modules.items())), [*owner._parameters], [*owner._buffers], hooks
    return len(owner.param_groups)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_an_error_and_is_taken_back(name):
    make, change = CHANGES[name]
    owner = make()
    before = _state(owner)

    def f(x):
        change(owner)
        return x * 2

    compiled = jtorch.compile(f)
    for _ in range(2):
        with pytest.raises(CompileError, match=r"test_changes.py:\d+.*which changes it at each call"):
            compiled(t(1))
        assert _state(owner) == before
    change(owner)
    assert _state(owner) != before


def test_a_hook_that_is_removed_again_is_no_change():
    m = nn.Identity()

    def f(x):
        handle = m.register_forward_hook(lambda module, args, out: out * 2)
        y = m(x)
        handle.remove()
        return y

    compiled = jtorch.compile(f)
    assert [compiled(t(1)).tolist() for _ in range(3)] == [[2.0]] * 3


def test_what_is_made_inside_may_be_changed():
    def f(x):
        net = nn.Sequential()
        net.append(nn.ReLU())
        return net(x)

    compiled = jtorch.compile(f)
    assert [compiled(t(-1, 2)).tolist() for _ in range(2)] == [[0.0, 2.0]] * 2


def _flags(module):
    return [m.training for m in module.modules()], [p.requires_grad for p in module.parameters()]


def _evaluated(module, x, counts):
    was = module.training
    module.eval()
    counts[0] += 1
    y = module(x)
    module.train(was)
    return y


def _frozen(module, x, counts):
    module[0].requires_grad_(False)
    counts[0] += 1
    y = module(x)
    module[0].requires_grad_()
    return y


def _replaced(module, x, counts):
    old, module[1] = module[1], nn.Tanh()
    counts[0] += 1
    y = module(x)
    module[1] = old
    return y


def _hooked(module, x, counts):
    handle = module.register_forward_hook(lambda m, args, y: y * 2)
    counts[0] += 1
    y = module(x)
    handle.remove()
    return y


def _stepped_on(module, x, counts):
    module.train(not module.training)
    counts[0] += 1
    return module(x) * (2 if module.training else 1)


def _frozen_in_turn(module, x, counts):
    module[0].weight.requires_grad_(not module[0].weight.requires_grad)
    counts[0] += 1
    y = module(x)
    y.sum().backward()
    return y.detach()


def _made_inside(module, x, counts):
    counts[0] += 1
    return nn.Dropout(0.5).eval()(module(x))


@pytest.mark.parametrize(
    "change", [_evaluated, _frozen, _replaced, _hooked, _stepped_on, _frozen_in_turn, _made_inside]
)
def test_what_a_first_attempt_changed_is_as_before_in_the_second(change):
    seen = []
    for compile in (lambda f: f, jtorch.compile):
        jtorch.manual_seed(0)
        module, counts, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [0], t(1, 2)
        f = compile(lambda x, module=module, counts=counts: change(module, x, counts))
        out = []
        for _ in range(4):
            y = f(x).round(decimals=4).tolist()
            out.append((y, counts[0], _flags(module), repr(module), len(module._forward_hooks)))
        seen.append(out)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("change", [_stepped_on, _frozen_in_turn])
def test_what_a_recording_changed_that_failed_is_as_before(change):
    module = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    before = _flags(module)

    @jtorch.compile
    def f(x):
        change(module, x, [0])
        Path("nowhere").exists()

    for _ in range(2):
        with pytest.raises(CompileError, match="exists"):
            f(t(1, 2))
        assert _flags(module) == before


@pytest.mark.parametrize("compile", [lambda f: f, jtorch.compile])
def test_modes_that_change_at_each_call(compile):
    module, seen = nn.Dropout(0.5), []

    @compile
    def f(x):
        module.train(not module.training)
        return module(x)

    for _ in range(4):
        seen.append((module.training, f(jtorch.ones(64)).eq(1).all().item()))
    assert seen == [(True, True), (False, False)] * 2


def test_modes_that_are_set_before_they_are_used_make_no_further_plan():
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(1, 1))

    @jtorch.compile
    def step(x):
        module.train()
        return module(x)

    for _ in range(3):
        step(t(1))
        step(t(1))
        module.eval()
    assert sum(map(len, step.plans.values())) == 1


def test_a_recording_of_an_argument_that_is_switched_holds_for_many_calls():
    @jtorch.compile
    def f(x):
        x.requires_grad_()
        return jtorch.autograd.grad((x * x).sum(), x)[0]

    for _ in range(3):
        assert f(t(3)).tolist() == [6]
    assert str(f.retraces) == "no retraces"


# -- hooks that are removed, gradients that are one, memory under two names --------------------------------


def test_a_hook_that_removes_itself_is_refused_and_stays():
    net, handles = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), {}

    def once(module, inputs, output):
        handles["once"].remove()
        return output * 0

    handles["once"] = net[1].register_forward_hook(once)
    with pytest.raises(CompileError, match=r"in once: .* calls remove\(\) of a RemovableHandle"):
        jtorch.compile(lambda x: net(x))(jtorch.ones(2, 3))
    assert list(net[1]._forward_hooks.values()) == [once]


@pytest.mark.parametrize("of", ["tensor", "optimizer"])
def test_removing_a_hook_from_outside_is_refused(of):
    w = jtorch.ones(3, requires_grad=True)
    optimizer = jtorch.optim.SGD([w], lr=0.1)
    add = w.register_hook if of == "tensor" else optimizer.register_step_post_hook
    handle = add(lambda *given: None)

    @jtorch.compile
    def step(x):
        handle.remove()
        (w * x).sum().backward()
        optimizer.step()

    with pytest.raises(CompileError, match=r"remove\(\) of a RemovableHandle"):
        step(jtorch.ones(3))


def test_a_hook_of_its_own_may_be_removed():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    @jtorch.compile
    def seen(x):
        kept = []
        handle = net[1].register_forward_hook(lambda module, inputs, output: kept.append(output))
        net(x)
        handle.remove()
        return kept[0]

    for n in range(3):
        x = jtorch.full((2, 3), float(n))
        jtorch.testing.assert_close(seen(x), net(x))
    assert not net[1]._forward_hooks


@pytest.mark.parametrize("how", ["one tensor", "a view", "detached"])
def test_one_gradient_for_two_tensors_is_refused(how):
    a, b = (jtorch.ones(3, requires_grad=True) for _ in range(2))
    given = {"one tensor": lambda g: g, "a view": lambda g: g[:], "detached": lambda g: g.detach()}[how]

    @jtorch.compile
    def step(x):
        ((a + b) * x).sum().backward()
        mean = (a.grad + b.grad) / 2
        a.grad, b.grad = mean, given(mean)

    with pytest.raises(CompileError, match="the gradient of two"):
        step(jtorch.ones(3))


def test_elements_of_an_array_under_a_tensor_that_is_written_are_refused():
    total = jtorch.zeros(3)
    array = total.numpy()

    @jtorch.compile
    def step(x):
        total.add_(x)
        return total * (1 if array[0] > 2 else -1)

    with pytest.raises(CompileError, match="shares memory with a tensor"):
        step(jtorch.ones(3))
    only_read = jtorch.compile(lambda x: x * float(array[0]))
    for value in (1.0, 4.0):
        total.fill_(value)
        assert only_read(jtorch.ones(2)).tolist() == [value, value]


def test_what_a_backward_that_comes_later_writes_is_refused():
    log = []

    class Logged(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            log.append(1)
            return g * 2

    w = jtorch.ones(3, requires_grad=True)
    with pytest.raises(CompileError, match="on the way back"):
        jtorch.compile(lambda x: Logged.apply(w * x))(jtorch.ones(3))
    assert log == []

    @jtorch.compile
    def inside(x):
        Logged.apply(w * x).sum().backward()

    inside(jtorch.ones(3))
    inside(jtorch.ones(3))
    assert log == [1, 1]


@pytest.mark.parametrize("start", [0, 2, 9])
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_an_out_that_is_resized_is_new_at_each_call(start):
    def joined(x):
        out = jtorch.empty(start)
        jtorch.cat([x, x[:1]], out=out)
        return out

    compiled = jtorch.compile(joined)
    found = [compiled(jtorch.full((3,), float(n))) for n in range(3)]
    assert [f.tolist() for f in found] == [joined(jtorch.full((3,), float(n))).tolist() for n in range(3)]


def test_half_precision_that_is_written_in_place():
    def writing(kept):
        def write(x):
            kept.copy_(x)
            kept.add_(1)
            kept[1].copy_(x[0].long() * 3)
            kept[:, 0].mul_(2)
            return kept.float().sum()

        return write

    kept, expected = (jtorch.zeros(2, 3, dtype=jtorch.float16) for _ in range(2))
    eager, compiled = writing(expected), jtorch.compile(writing(kept))
    for n in range(3):
        x = jtorch.arange(6.0).reshape(2, 3) * (n + 0.3)
        assert compiled(x) == eager(x)
        assert jtorch.equal(kept, expected)
