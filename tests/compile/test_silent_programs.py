"""Programs that a recording could get wrong without a word: each gives what eager gives, or a named error.

A program is a function of ``wrap``, which is the identity for eager and ``jtorch.compile`` for compiled.
"""

import copy
import enum
import threading
from collections import OrderedDict

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.core.errors import CompileError
from tests.compile.collecting import collectors
from tests.compile.observe.observing import t

PROGRAMS, REFUSED, program, refused = collectors()


def leaf(*values):
    return t(*values).requires_grad_()


def plainly(value):
    if isinstance(value, jtorch.Tensor):
        return value.tolist()
    if isinstance(value, (tuple, list)):
        return [plainly(v) for v in value]
    return value


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_equals_eager(name):
    make = PROGRAMS[name]
    assert repr(plainly(make(jtorch.compile))) == repr(plainly(make(lambda f: f)))


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_recording_cannot_keep_is_refused(name):
    make, sentence = REFUSED[name]
    make(lambda f: f)
    with pytest.raises(CompileError, match=sentence):
        make(jtorch.compile)


# -- values that are equal, and not the same ---------------------------------------------------------


class Name(str):
    pass


class Letter(enum.StrEnum):
    A = "a"


class One(enum.IntEnum):
    ONE = 1


class Count(int):
    pass


def by_each(wrap, f, values):
    """The results for each of ``values``, twice in turn."""
    f = wrap(f)
    return [f(value) for _ in range(2) for value in values]


@program
def keys_that_are_equal_numbers(wrap):
    def f(d):
        return sum((k[0] if isinstance(k, tuple) else k) * v for k, v in d.items())

    keys = [1, 1.0, True, One.ONE, Count(1), np.int64(1), np.float64(1), np.float32(1), (1,), (1.0,), (True,)]
    return [[y, str(y.dtype)] for y in by_each(wrap, f, [{k: jtorch.arange(3)} for k in keys])]


@program
def keys_that_are_zeros(wrap):
    def f(d):
        return [v / k for k, v in d["x"][0].items()]

    return by_each(wrap, f, [{"x": [{k: t(1, 2)}]} for k in (0.0, -0.0)])


@program
def keys_that_are_equal_texts(wrap):
    def f(d):
        return [v * len(type(k).__name__) for k, v in d.items()]

    return by_each(wrap, f, [OrderedDict({k: t(1, 2)}) for k in ("a", Name("a"), Letter.A)])


@program
def keys_of_results(wrap):
    config = {"key": 1}
    f = wrap(lambda x: {config["key"]: x * 2})
    found = []
    for key in (1, 1.0, True, 1):
        config["key"] = key
        found.append(repr(f(t(1))))
    return found


@program
def slices_of_equal_numbers(wrap):
    def f(part):
        return jtorch.arange(4)[part] * len(type(part.start).__name__)

    return by_each(wrap, f, [slice(1, 2), slice(Count(1), 2), slice(One.ONE, 2), slice(np.int64(1), 2)])


@program
def settings_that_are_equal_numbers(wrap):
    config = {"scale": 1}
    f = wrap(lambda x: (x * config["scale"], x / config["scale"]))
    found = []
    for scale in (1, 1.0, True, Count(1), 0.0, -0.0, 1):
        config["scale"] = scale
        found.append([(y, str(y.dtype)) for y in f(jtorch.arange(1, 3))])
    return found


# -- one tensor reached in two ways ------------------------------------------------------------------


@program
def an_argument_that_is_also_in_the_closure(wrap):
    w = t(1, 2)
    f = wrap(lambda x: x * w)
    return [f(w), f(t(10, 10)), f(w)]


@program
def a_parameter_as_argument_of_its_own_step(wrap):
    p = leaf(1, 2)
    optimizer = jtorch.optim.SGD([p], lr=0.5)

    def step(weight, x):
        optimizer.zero_grad()
        (weight * x).sum().backward()
        optimizer.step()

    step = wrap(step)
    for k in (1, 2):
        step(p, t(k, 1))
    return [p.detach(), p.grad]


@program
def a_closure_parameter_passed_after_the_recording(wrap):
    p, q = leaf(1, 2), leaf(5, 5)
    f = wrap(lambda x: (x * p).sum().backward())
    f(q)
    p.grad = None
    f(p)
    return [q.grad, p.grad]


@program
def a_detached_twin_before_the_leaf(wrap):
    x = leaf(1, 2)
    wrap(lambda a, b: (a * b * 3).sum())(x.detach(), x).backward()
    return x.grad


@program
def two_leaves_that_become_one(wrap):
    f = wrap(lambda x, y: (x * y).sum().backward())
    a, b, c = leaf(1, 2), leaf(3, 4), leaf(5, 6)
    f(a, b)
    f(c, c)
    return [a.grad, b.grad, c.grad]


@program
def a_written_argument_that_is_also_read_from_outside(wrap):
    w = t(1, 2)

    def f(x):
        x.zero_()
        return x + w

    f = wrap(f)
    return [f(t(1, 1)), f(w), w]


@program
def a_written_argument_in_memory_read_from_outside(wrap):
    w = t(1, 2, 3)

    def f(x):
        x.zero_()
        return w * 2

    f = wrap(f)
    return plainly(f(t(1, 1))), plainly(f(w[1:])), plainly(w)


@program
def a_view_from_outside_read_after_its_base_was_written(wrap):
    base = jtorch.zeros(4)
    view = base[:2]

    def f():
        base.add_(1.0)
        return view * 2

    f = wrap(f)
    return plainly(f()), plainly(f()), plainly(view)


@refused("overlaps another tensor")
def two_arrays_of_one_foreign_buffer(wrap):
    buffer = bytearray(8)
    a, b = (jtorch.from_numpy(np.frombuffer(buffer, np.float32)) for _ in range(2))

    def f(x):
        a.add_(1.0)
        return x * 2

    f = wrap(f)
    f(t(0, 0))
    f(b)


# -- results ------------------------------------------------------------------


@program
def an_argument_with_a_graph_returned_as_it_is(wrap):
    p = leaf(1, 2)
    f = wrap(lambda x: (x, x + 1))
    return [f(p * 2)[0], f(p * 5)[0]]


@program
def results_that_share_memory(wrap):
    def f(x):
        y = x * 2
        return y, y, y[0], y.detach()

    results = wrap(f)(t(1, 2))
    results[0].add_(1.0)
    return results


@program
def a_returned_gradient_is_the_gradient(wrap):
    p = leaf(1, 2)

    def f(x):
        p.grad = None
        (p * x).sum().backward()
        return p.grad

    f = wrap(f)
    first = f(t(1, 1))
    first.mul_(5.0)
    seen = p.grad.clone()
    return [seen, f(t(2, 2)), first, p.grad]


@program
def a_returned_view_shares_its_version(wrap):
    f = wrap(lambda x: x[0:1])
    x, p = t(1, 2), leaf(1, 2)
    loss = (p * x).sum()
    f(x).add_(5.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    return x


@program
def a_new_leaf(wrap):
    return wrap(lambda: jtorch.zeros(2).requires_grad_())().requires_grad


# -- gradients ------------------------------------------------------------------


@program
def each_argument_has_a_gradient_of_its_own(wrap):
    f = wrap(lambda x: (x * x).sum().backward())
    a, b = leaf(1, 2), leaf(3, 4)
    a.grad, b.grad = t(1, 1), t(100, 100)
    f(a)
    f(b)
    return [a.grad, b.grad]


@program
def an_arguments_gradient_cleared(wrap):
    def f(x):
        x.grad = None

    f = wrap(f)
    a, b = t(1, 2), t(3, 4)
    a.grad, b.grad = t(1, 1), t(1, 1)
    f(a)
    f(b)
    return [a.grad, b.grad]


@program
def gradients_clipped_in_a_function_of_their_own(wrap):
    p = leaf(3, 4)
    f = wrap(lambda: nn.utils.clip_grad_norm_([p], 1.0))
    p.grad = t(3, 4)
    kept = p.grad
    f()
    return [p.grad, kept, kept is p.grad]


@program
def zeros_written_into_gradients(wrap):
    p = leaf(3, 4)
    optimizer = jtorch.optim.SGD([p], lr=0.1)

    def step(x):
        optimizer.zero_grad(set_to_none=False)
        (p * x).sum().backward()
        optimizer.step()

    step = wrap(step)
    step(t(1, 1))
    kept = p.grad
    step(t(2, 2))
    step(t(3, 3))
    return [p.detach(), p.grad, kept]


@program
def gradients_accumulated_by_one_function_and_used_by_another(wrap):
    p = leaf(1, 2)
    optimizer = jtorch.optim.SGD([p], lr=0.5)
    accumulate = wrap(lambda x: (p * x).sum().backward())

    def update():
        nn.utils.clip_grad_norm_([p], 1.0)
        optimizer.step()
        optimizer.zero_grad()

    update, seen = wrap(update), []
    for k in range(6):
        accumulate(t(k, 1))
        if k % 3 == 2:
            update()
            seen += [p.detach().clone(), p.grad]
    return seen


@program
def a_failing_step_leaves_gradients_alone(wrap):
    p = jtorch.ones(3, 2).requires_grad_()
    f = wrap(lambda i: (p[i] * 2).sum().backward())
    good, bad = jtorch.tensor([0, 1]), jtorch.tensor([0, 9])
    f(good)
    f(good)
    seen = [p.grad.clone()]  # reading it made it escape
    with pytest.raises(IndexError):
        f(bad)
    seen.append(p.grad.clone())
    f(good)
    p2 = p.grad
    p.grad = None
    with pytest.raises(IndexError):
        f(bad)
    return [*seen, p2, p.grad]


@program
def hooks_run_once_in_a_backward_outside(wrap):
    p = leaf(1, 2)
    p.register_hook(lambda g: g * 10)
    wrap(lambda x: (p * x).sum())(t(1, 1)).backward()
    return p.grad


@program
def a_hook_removed_after_the_recording(wrap):
    p = leaf(1, 2)
    handle = p.register_hook(lambda g: g * 10)

    def f(x):
        p.grad = None
        (p * x).sum().backward()

    f = wrap(f)
    f(t(1, 1))
    handle.remove()
    f(t(1, 1))
    return p.grad


@program
def the_hook_of_one_argument_is_not_anothers(wrap):
    a, b = leaf(1, 2), leaf(1, 2)
    a.register_hook(lambda g: g * 10)
    f = wrap(lambda x: (x * x).sum().backward())
    f(a)
    f(b)
    return [a.grad, b.grad]


@program
def requires_grad_set_on_an_argument(wrap):
    def f(x):
        x.requires_grad_()
        return (x * x).sum()

    f = wrap(f)
    a, b = t(1, 2), t(3, 4)
    f(a).backward()
    f(b).backward()
    return [a.grad, b.grad]


@refused("graph would end with the recording")
def a_graph_written_into_an_argument(wrap):
    p = leaf(1, 2)
    wrap(lambda x: x.mul_(p))(t(1, 1))


@refused("graph would end with the recording")
def a_graph_written_into_a_buffer(wrap):
    p, buffer = leaf(1, 2), t(0, 0)
    wrap(lambda x: buffer.copy_(p * x))(t(1, 1))


def test_a_refused_write_leaves_the_buffer_off_the_tape():
    p, buffer = leaf(1, 2), t(0, 0)
    with pytest.raises(CompileError):
        jtorch.compile(lambda x: buffer.copy_(p * x))(t(1, 1))
    assert not buffer.requires_grad and buffer.grad_fn is None
    assert (buffer + 1).tolist() == [1.0, 1.0]


# -- state outside ------------------------------------------------------------------


@program
def a_tensor_rebound_outside(wrap):
    w = t(1, 2)
    f = wrap(lambda x: x * w)
    first = f(t(1, 1))
    w = t(7, 7)
    return [first, f(t(1, 1))]


@program
def a_module_rebound_outside(wrap):
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(1.0)
    f = wrap(lambda x: model(x))
    first = f(t(1))
    model = nn.Linear(1, 1, bias=False)
    model.weight.data.fill_(9.0)
    return [first, f(t(1))]


@program
def attributes_and_items_of_outside_objects(wrap):
    class Options:
        scale = None

    options, table = Options(), {"shift": 1.0, "w": t(1)}
    options.scale = 2.0
    f = wrap(lambda x: x * options.scale * table["w"] + table["shift"])
    seen = [f(t(1))]
    options.scale = 3.0
    seen.append(f(t(1)))
    table["shift"] = 5.0
    seen.append(f(t(1)))
    table["w"] = t(4)
    return [*seen, f(t(1))]


@program
def a_number_of_the_instance_whose_method_is_compiled(wrap):
    class Scaler:
        def __init__(self):
            self.factor = 2.0

        def apply(self, x):
            return x * self.factor

    scaler = Scaler()
    f = wrap(scaler.apply)
    first = f(t(1))
    scaler.factor = 3.0
    return [first, f(t(1))]


@program
def a_zero_that_changes_its_sign(wrap):
    zero = 0.0
    f = wrap(lambda x: x / zero)
    first = f(t(1))
    zero = -0.0
    return [first, f(t(1))]


@program
def an_ordered_dict_as_argument(wrap):
    d = OrderedDict(x=t(1))
    f = wrap(lambda d: d["x"] * 2)
    first = f(d)
    d["x"] = t(5)
    return [first, f(d)]


@program
def static_arguments_after_something_changed_outside(wrap):
    f, seen = wrap(lambda x, n: (x * 2, n)), []
    for n in (1, 2, 1):
        nn.Linear(1, 1)  # advances the epoch of all plans
        seen.append(f(t(1), n)[1])
    return seen


@program
def a_parameter_replaced_over_the_same_memory(wrap):
    model = nn.Linear(2, 1, bias=False)
    nn.init.ones_(model.weight)
    f = wrap(lambda x: model(x).sum())
    f(t(1, 2)).backward()
    model.weight = nn.Parameter(model.weight.data)
    f(t(1, 2)).backward()
    return model.weight.grad


@program
def optimizer_state_loaded_after_the_recording(wrap):
    p = leaf(1, 2)
    optimizer = jtorch.optim.SGD([p], lr=0.5, momentum=0.5)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()

    step = wrap(step)
    step(t(1, 1))
    saved = copy.deepcopy(optimizer.state_dict())
    step(t(2, 2))
    optimizer.load_state_dict(saved)
    step(t(1, 4))
    return p.detach()


@program
def a_function_of_no_module(wrap):
    namespace = {}
    exec("def f(x): return x * 2", namespace)
    return wrap(namespace["f"])(t(1))


@program
def a_seed_set_inside(wrap):
    def f(x):
        jtorch.manual_seed(3)
        return x + jtorch.rand(2)

    f = wrap(f)
    return [f(t(0, 0)) for _ in range(3)], jtorch.rand(2)


@program
def random_numbers_forked_inside(wrap):
    def f(x):
        with jtorch.random.fork_rng():
            return x + jtorch.rand(2)

    f = wrap(f)
    jtorch.manual_seed(4)
    return [f(t(0, 0)) for _ in range(3)], jtorch.rand(2)


@program
def a_seeded_generator_made_inside(wrap):
    f = wrap(lambda: jtorch.rand(2, generator=jtorch.Generator().manual_seed(4)))
    return [f() for _ in range(3)]


@refused("makes a random generator")
def a_generator_made_inside(wrap):
    wrap(lambda: jtorch.rand(2, generator=jtorch.Generator()))()


@program
def a_list_argument_appended_to(wrap):
    outs = []
    step = wrap(lambda x, outs: outs.append(x * 2))
    for k in range(3):
        step(t(k), outs)
    return outs


@program
def a_scheduler_stepped_inside(wrap):
    p = leaf(1, 2)
    optimizer = jtorch.optim.SGD([p], lr=1.0)
    scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        scheduler.step()

    step = wrap(step)
    for k in range(4):
        step(t(1, k))
    return p.tolist(), scheduler.get_last_lr(), scheduler.last_epoch


@program
def a_learning_rate_changed_inside(wrap):
    p = leaf(1, 2)
    optimizer = jtorch.optim.SGD([p], lr=1.0)

    def step(x):
        optimizer.zero_grad()
        (p * x).sum().backward()
        optimizer.step()
        for group in optimizer.param_groups:
            group["lr"] *= 0.5

    step = wrap(step)
    for k in range(4):
        step(t(k, 1))
    return p.tolist(), optimizer.param_groups[0]["lr"]


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("total", jtorch.zeros(1))


@program
def a_modules_buffer_rebound(wrap):
    class Layer(Counting):
        def forward(self, x):
            self.total = self.total + x
            return self.total * 1

    layer = Layer()
    f = wrap(layer)
    return [f(t(k)) for k in range(4)], layer.total


def test_a_refused_buffer_is_put_back():
    class Layer(Counting):
        def forward(self, x):
            self.total = self.total + x
            return x * round(x.sum().item())

    layer = Layer()
    with pytest.raises(CompileError):
        jtorch.compile(layer)(t(1))
    assert layer.total.tolist() == [0.0]


# -- runtime scalars ------------------------------------------------------------------


@program
def a_float_argument_that_is_nan(wrap):
    f = wrap(lambda x, s: x * s if s > 1.0 else x)
    return [f(t(1, 2), s) for s in (float("nan"), 2.0, 0.5, float("nan"))]


@program
def a_float_argument_compared_with_none_and_made_positive(wrap):
    f = wrap(lambda x, s: x if s is None or s == None or s == "auto" else x * abs(s) + round(s))  # noqa: E711
    return [f(t(1), -2.0), f(t(1), 3.0)]


@program
def a_division_by_a_float_argument_that_is_zero(wrap):
    f = wrap(lambda x, a, b: x * (a / b))
    f(t(1), 1.0, 2.0)
    with pytest.raises(ZeroDivisionError) as error:
        f(t(1), 1.0, 0.0)
    said = str(error.value)  # in the words of this Python
    return f(t(1), 1.0, 4.0), said


# -- memory ------------------------------------------------------------------


@program
def memory_that_must_not_be_written(wrap):
    data = bytes(8)
    frozen = jtorch.from_numpy(np.frombuffer(data, np.float32))
    f = wrap(lambda x: x.add_(1.0))
    f(t(0, 0))
    with pytest.raises(ValueError, match="read-only"):
        f(frozen)
    return list(data)


def test_threads_do_not_mix_calls_with_library_calls_in_the_middle():
    def f(x):
        order = jtorch.randperm(4)
        return ((x * 2)[order] + x * 0).sum()

    f = jtorch.compile(f)
    f(jtorch.ones(4))
    wrong = []

    def work(k):
        x = jtorch.full((4,), float(k))
        wrong.extend(1 for _ in range(100) if f(x).item() != 8.0 * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_hook_removed_after_the_recording():
    p = jtorch.ones(3, requires_grad=True)
    handle = p.register_hook(lambda g: g * 10)
    f = jtorch.compile(lambda x: jtorch.autograd.grad((p * x).sum(), p)[0])
    assert f(jtorch.ones(3)).tolist() == [10.0] * 3
    handle.remove()
    assert f(jtorch.ones(3)).tolist() == [1.0] * 3


def test_the_default_dtype_changed_after_the_recording():
    f = jtorch.compile(lambda n: jtorch.zeros(n) + 1)
    assert f(2).dtype is jtorch.float32
    jtorch.set_default_dtype(jtorch.float64)
    try:
        assert f(2).dtype is jtorch.float64
    finally:
        jtorch.set_default_dtype(jtorch.float32)


@pytest.mark.parametrize("flag", ["maximize", "nesterov"])
def test_a_flag_of_the_optimizer_changed_after_the_recording(flag):
    def make():
        p = jtorch.ones(3, requires_grad=True)
        optimizer = jtorch.optim.SGD([p], lr=0.1, momentum=0.9)

        def step(x):
            optimizer.zero_grad()
            (p * x).sum().backward()
            optimizer.step()

        return p, optimizer, step

    p, optimizer, eager = make()
    q, compiled_optimizer, step = make()
    step, x = jtorch.compile(step), jtorch.ones(3)
    for value in (False, True, False):
        optimizer.param_groups[0][flag] = compiled_optimizer.param_groups[0][flag] = value
        for _ in range(2):
            eager(x)
            step(x)
        np.testing.assert_allclose(q.detach().numpy(), p.detach().numpy(), rtol=1e-6)
