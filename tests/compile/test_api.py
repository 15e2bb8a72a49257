"""What ``jtorch.compile`` accepts, guards, refuses and shows."""

import copy
import functools
import importlib
import threading

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch.core.errors import CompileError
from jtorch.native import cache


def numbers(*shape):
    return jtorch.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-6, atol=2e-6)


def plans_of(compiled):
    return sum(map(len, compiled.plans.values()))


def test_the_package_is_the_decorator_however_it_is_imported():
    import jtorch.compile as first
    from jtorch import compile as second

    for decorator in (jtorch.compile, first, second, importlib.import_module("jtorch.compile")):
        assert float(decorator(lambda x: x + 1)(jtorch.zeros(()))) == 1.0
    assert jtorch.compile.graph.ir.Graph  # and still a package


def test_decorator_with_and_without_parentheses():
    @jtorch.compile
    def double(x):
        """Twice."""
        return x * 2

    @jtorch.compile()
    def triple(x):
        return x * 3

    assert double.__name__ == "double" and double.__doc__ == "Twice."
    assert float(double(jtorch.ones(()))) == 2.0 and float(triple(jtorch.ones(()))) == 3.0


def test_keywords_and_positions_are_one_call():
    f = jtorch.compile(lambda x, y: x - y)
    x, y = numbers(3), jtorch.ones(3)
    for result in (f(x, y), f(x, y=y), f(y=y, x=x)):
        same(result, x - y)
    assert plans_of(f) == 1


def test_floats_are_read_at_each_call_and_other_numbers_guarded():
    f = jtorch.compile(lambda x, scale, power: x * scale**2 + power)
    x = numbers(4)
    for scale in (0.5, 1.5, -2.0):
        same(f(x, scale, 2), x * scale**2 + 2)
    assert plans_of(f) == 1
    same(f(x, 0.5, 3), x * 0.25 + 3)
    assert plans_of(f) == 2


def test_a_branch_on_a_float_is_guarded():
    f = jtorch.compile(lambda x, t: x * t if t > 1.0 else x - t)
    x = numbers(3)
    for t in (0.5, 0.75, 2.0, 3.0, 0.25):
        same(f(x, t), x * t if t > 1.0 else x - t)
    assert plans_of(f) == 2


def test_nested_arguments_and_results():
    f = jtorch.compile(lambda d, pair: {"sum": d["a"] + pair[0], "parts": [pair[1] * 2, 7, "text", None]})
    d, pair = {"a": numbers(2)}, (numbers(2), jtorch.ones(3))
    for _ in range(2):
        result = f(d, pair)
        same(result["sum"], d["a"] + pair[0])
        same(result["parts"][0], pair[1] * 2)
        assert result["parts"][1:] == [7, "text", None]


def test_new_shapes_and_dtypes_are_recorded_anew_and_compile_no_kernel():
    f = jtorch.compile(lambda x, w: F.softmax(jtorch.tanh(x @ w) * 2.0, dim=-1))
    w = numbers(5, 6)
    same(f(numbers(8, 5), w), F.softmax(jtorch.tanh(numbers(8, 5) @ w) * 2.0, dim=-1))
    before = cache.counters.compiled + cache.counters.hits
    for rows in (3, 1, 17):
        x = numbers(rows, 5)
        same(f(x, w), F.softmax(jtorch.tanh(x @ w) * 2.0, dim=-1))
    assert cache.counters.compiled + cache.counters.hits == before
    double = f(numbers(8, 5).double(), w.double())
    assert double.dtype is jtorch.float64


def test_results_kept_from_earlier_calls_stay():
    f = jtorch.compile(lambda x: x * 2)
    results = [f(jtorch.full((3,), float(k))) for k in range(5)]
    assert [r.tolist()[0] for r in results] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_an_output_as_the_next_input():
    f = jtorch.compile(lambda x: x * 2)
    x = jtorch.ones(3)
    for _ in range(10):
        x = f(x)
    assert x.tolist() == [1024.0] * 3


def test_the_same_tensor_twice_and_then_not():
    f = jtorch.compile(lambda x, y: x * 10 + y)
    x, y = numbers(3), jtorch.ones(3)
    same(f(x, x), x * 11)
    same(f(x, y), x * 10 + y)
    same(f(y, y), y * 11)


def test_views_with_other_strides():
    f = jtorch.compile(lambda x: x.exp().sum(0))
    x = numbers(4, 6)
    for v in (x, x.t(), x[1:3], x[:, ::2], x[:, 1:4]):
        same(f(v), v.exp().sum(0))


def test_an_argument_changed_in_place():
    def bump(x, y):
        x.add_(y)
        x[0] = 5.0
        return x * 2

    eager, compiled = numbers(4, 3), numbers(4, 3)
    y = jtorch.ones(4, 3)
    f = jtorch.compile(bump)
    for _ in range(3):
        version = compiled._version
        same(f(compiled, y), bump(eager, y))
        same(compiled, eager)
        assert compiled._version > version


def test_in_place_through_a_view_of_an_argument():
    def change(x):
        x[1:].mul_(2.0)
        x.t()[0].add_(1.0)
        return x.sum()

    eager, compiled = numbers(3, 4), numbers(3, 4)
    f = jtorch.compile(change)
    for _ in range(2):
        same(f(compiled), change(eager))
        same(compiled, eager)


def test_a_result_that_is_an_argument_or_a_view_of_it():
    f = jtorch.compile(lambda x: (x, x[1], x + 1))
    x = numbers(3, 2)
    for _ in range(2):
        a, b, c = f(x)
        assert a is x or np.shares_memory(a.numpy(), x.numpy())
        assert np.shares_memory(b.numpy(), x.numpy())
        assert not np.shares_memory(c.numpy(), x.numpy())


def test_grad_mode_and_training_mode_are_guarded():
    layer = nn.Dropout(0.5)
    f = jtorch.compile(lambda x: layer(x) * 1.0)
    x = jtorch.ones(100)
    assert 0.0 in f(x).tolist()
    layer.eval()
    assert f(x).tolist() == [1.0] * 100
    layer.train()
    assert 0.0 in f(x).tolist()


def test_no_grad_outside():
    linear = nn.Linear(3, 2)
    f = jtorch.compile(lambda x: linear(x))
    x = numbers(4, 3)
    assert f(x).requires_grad
    with jtorch.no_grad():
        assert not f(x).requires_grad
    assert f(x).grad_fn is not None


def test_a_parameter_replaced_after_the_recording():
    linear = nn.Linear(3, 2, bias=False)
    f = jtorch.compile(lambda x: linear(x))
    x = numbers(4, 3)
    same(f(x), linear(x))
    linear.weight = nn.Parameter(jtorch.ones(2, 3))
    same(f(x), linear(x))
    linear.weight.data = jtorch.full((2, 3), 3.0)
    same(f(x), linear(x))


def test_a_frozen_layer():
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 1))
    f = jtorch.compile(lambda x: model(x).sum())
    x = numbers(4, 3)
    f(x).backward()
    assert model[0].weight.grad is not None
    model.zero_grad()
    model[0].requires_grad_(False)
    f(x).backward()
    assert model[0].weight.grad is None and model[1].weight.grad is not None


def test_random_numbers_are_new_at_each_call_and_those_of_eager():
    def draw(x):
        return F.dropout(x, 0.5) + jtorch.rand(8) + jtorch.randn(8)

    f, x = jtorch.compile(draw), jtorch.ones(8)
    jtorch.manual_seed(5)
    expected = [draw(x) for _ in range(3)]
    jtorch.manual_seed(5)
    for e in expected:
        np.testing.assert_array_equal(f(x).numpy(), e.numpy())


def test_backward_outside():
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    f = jtorch.compile(lambda x, scale: model(x) * scale)
    x = numbers(5, 4).requires_grad_()

    def gradients(forward):
        model.zero_grad()
        x.grad = None
        (forward(x * 2, 1.5) ** 2).sum().backward()
        return [t.grad.numpy().copy() for t in (x, *model.parameters())]

    eager = gradients(lambda x, scale: model(x) * scale)
    for _ in range(2):
        for a, b in zip(gradients(f), eager, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_many_forwards_before_one_backward():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * x).tanh())
    xs = [jtorch.full((3,), 0.1 * k) for k in range(5)]
    sum((f(x).sum() for x in xs), jtorch.zeros(())).backward()
    compiled = w.grad.numpy().copy()
    w.grad = None
    sum(((w * x).tanh().sum() for x in xs), jtorch.zeros(())).backward()
    np.testing.assert_allclose(compiled, w.grad.numpy(), rtol=1e-6)


def test_backward_outside_after_a_parameter_changed_is_an_error():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * w * x).sum())
    loss = f(jtorch.ones(3))
    with jtorch.no_grad():
        w.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_second_backward_outside_is_pytorchs_error():
    w = jtorch.ones(3, requires_grad=True)
    loss = jtorch.compile(lambda x: (w * w * x).sum())(jtorch.ones(3))
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_compiled_functions_nest():
    inner = jtorch.compile(lambda x: x * 2)
    outer = jtorch.compile(lambda x: inner(x) + 1)
    x = numbers(3)
    same(outer(x), x * 2 + 1)
    assert plans_of(inner) == 0


def test_methods_and_partials():
    class Scaler:
        def __init__(self, factor):
            self.factor = jtorch.tensor(factor)

        @jtorch.compile
        def apply(self, x):
            return x * self.factor

    a, b, x = Scaler(2.0), Scaler(3.0), numbers(3)
    for _ in range(2):
        same(a.apply(x), x * 2)
        same(b.apply(x), x * 3)
    same(jtorch.compile(functools.partial(lambda k, x: x * k, jtorch.full((), 4.0)))(x), x * 4)


def test_a_module():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    compiled = jtorch.compile(model)
    x = numbers(4, 3)
    same(compiled(x), model(x))
    assert [p.shape for p in compiled.parameters()] == [p.shape for p in model.parameters()]


def test_a_library_call_in_the_middle():
    def order(x):
        best = jtorch.randperm(4)  # sorts random bits: no kernel, a call to NumPy
        return (x * 2)[best] + 1

    f, x = jtorch.compile(order), numbers(4)
    jtorch.manual_seed(1)
    expected = [order(x) for _ in range(2)]
    jtorch.manual_seed(1)
    for e in expected:
        same(f(x), e)
    assert len(f._latest.runner.segments) == 3


def test_two_plans_that_take_turns_are_at_hand():
    f = jtorch.compile(lambda x, flag: x * 2 if flag else x + 1)
    other = jtorch.compile(lambda x: x / 2 if x.sum() > 0 else x * 3)
    x, looks = numbers(3), []
    for g, calls in ((f, [(x, True), (x, False)]), (other, [(x.abs(),), (-x.abs(),)])):
        find = g._find
        g._find = lambda *args, find=find: looks.append(args) or find(*args)
        for _ in range(3):
            for args in calls:
                same(g(*args), g.function(*args))
        assert len(g.retraces) == 1
        last = g.last_call.plan
        assert last is g._latest and g._previous.plan is not last
    assert sum(len(args[0]) == 2 for args in looks) == 2  # the second time both are known


def test_no_tensor_op_at_all():
    f = jtorch.compile(lambda x, n: (n + 1, "done"))
    assert f(numbers(2), 3) == (4, "done")


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: str(t.item()),
        lambda t: round(t.item()),
        lambda t: t.repeat(20).tolist(),
        lambda t: np.sort(t.numpy()),
    ],
    ids=["text", "round", "tolist", "numpy"],
)
def test_asking_for_elements_is_an_error_that_names_the_line(ask):
    with pytest.raises(CompileError, match=r"test_api.py:\d+.*not known while a function is compiled"):
        jtorch.compile(lambda x: ask(x.sum()))(numbers(3))


def test_elements_of_a_captured_tensor_are_not_frozen_either():
    w = jtorch.ones(())
    f = jtorch.compile(lambda x: x * w.item())
    same(f(numbers(3)), numbers(3))
    w.fill_(4.0)
    same(f(numbers(3)), numbers(3) * 4.0)
    with pytest.raises(CompileError, match="item"):
        jtorch.compile(lambda x: x * round(w.item()))(numbers(3))


def test_a_leaked_value_says_so():
    def f(x):
        doubled = x * 2
        raise ValueError(doubled.shape)

    with pytest.raises(ValueError) as found:
        jtorch.compile(f)(numbers(3))
    with pytest.raises(CompileError, match="used after that"):
        found.traceback[-1].frame.f_locals["doubled"] + 1


def test_an_exception_keeps_what_was_done_before_it():
    w = jtorch.ones(3, requires_grad=True)

    def step(x):
        with jtorch.no_grad():
            w.add_(1.0)
        (w * x).sum().backward()
        raise KeyError("user")

    f = jtorch.compile(step)
    for _ in range(2):
        with pytest.raises(KeyError):
            f(jtorch.ones(3))
    assert w.tolist() == [3.0] * 3 and w.grad.tolist() == [2.0] * 3
    assert (w * 2).sum().item() == 18.0  # ops run eagerly again


def test_backward_inside_that_reaches_outside():
    w = jtorch.ones(3, requires_grad=True)

    def step(x):
        x.sum().backward()

    with pytest.raises(CompileError, match="computed outside"):
        jtorch.compile(step)(w * w)


def test_create_graph_through_a_compiled_function_is_refused():
    w = jtorch.ones(3, requires_grad=True)
    loss = jtorch.compile(lambda x: (w * w * x).sum())(jtorch.ones(3))
    told = r"test_api.py:\d+.*create_graph=True.*Compile a function that holds the derivative"
    with pytest.raises(CompileError, match=told):
        jtorch.autograd.grad(loss, w, create_graph=True)


def test_two_threads():
    f = jtorch.compile(lambda x: (x * 2).sum())
    f(jtorch.ones(1000))
    wrong = []

    def work(k):
        x = jtorch.full((1000,), float(k))
        wrong.extend(1 for _ in range(300) if f(x).item() != 2000.0 * k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_looking_inside():
    f = jtorch.compile(lambda x: jtorch.tanh(x).sum())
    with pytest.raises(RuntimeError, match="call it once"):
        f.graph()
    f(numbers(3))
    assert "tanh(a)" in f.graph() and "tanh_f32" in f.source() and "arena" in f.plan()
    assert "sum" in f.recording()
    assert f.timings.first_call > f.timings.trace > 0
    assert [k.entry for k in f.kernels()] == ["row_tanh_sum"]


def test_empty_batches():
    f = jtorch.compile(lambda x: (x * 2, x.sum(), x.sum(0)))
    for rows in (3, 0):
        x = numbers(rows, 4)
        for a, b in zip(f(x), (x * 2, x.sum(), x.sum(0)), strict=True):
            assert a.shape == b.shape
            same(a, b)


SCALE = 2.0


def test_a_global_number_is_guarded(monkeypatch):
    f, x = jtorch.compile(lambda x: x * SCALE), numbers(3)
    same(f(x), x * 2)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    same(f(x), x * 3)


def test_a_closure_number_is_guarded_also_in_a_function_it_calls():
    factor = 2

    def inner(x):
        return x * factor

    f, x = jtorch.compile(lambda x: inner(x) + 1), numbers(3)
    for factor in (2, 5, 2):
        same(f(x), x * factor + 1)
    assert plans_of(f) == 2


def test_a_modules_number_is_guarded():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = 2.0

        def forward(self, x):
            return x * self.factor

    module, x = Scaled(), numbers(3)
    f = jtorch.compile(module)
    same(f(x), x * 2)
    module.factor = 4.0
    same(f(x), x * 4)


def test_a_number_outside_that_the_function_counts():
    calls = 0

    def step(x):
        nonlocal calls
        calls += 1
        return x * calls

    step = jtorch.compile(step)
    assert [step(numbers(3)).tolist() for _ in range(3)] == [(numbers(3) * k).tolist() for k in (1, 2, 3)]
    assert calls == 3 and not step.retraces


def test_questions_about_a_method(tmp_path):
    class Model:
        def __init__(self, weight):
            self.weight = weight

        @jtorch.compile
        def step(self, x, k=1.0):
            """One step."""
            return x * self.weight * k

    small, large, x = Model(2.0), Model(3.0), jtorch.ones(3)
    assert small.step(x).tolist() == [2, 2, 2] and large.step(x).tolist() == [3, 3, 3]
    assert "3.0" in large.step.graph() and "2.0" in small.step.graph(x)
    assert small.step.calls == Model.step.calls and small.step.retraces is Model.step.retraces
    assert small.step.explain(x).name == "step" and small.step.stats().calls == Model.step.calls
    assert "2.0" in small.step.save_repro(tmp_path, x).read_text()
    with pytest.raises(AttributeError, match="nothing"):
        small.step.nothing  # noqa: B018
    assert copy.deepcopy(small.step)(x).tolist() == [2, 2, 2]
