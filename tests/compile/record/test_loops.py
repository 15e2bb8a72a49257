"""``jtorch.compiler.scan``: the same results, gradients and errors in both modes, as one equation where it
can be one, whatever the number of steps; and step by step, or eagerly, where it cannot."""

import re
import warnings

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.compiler import scan
from jtorch.errors import CompileError

F = jtorch.nn.functional


def _numbers(*shape):
    n = 1
    for size in shape:
        n *= size
    return jtorch.arange(float(n)).reshape(shape).mul(0.7).sin()


def _weights():
    cell, lin = nn.LSTMCell(3, 4), nn.Linear(4, 3)
    parameters = [*cell.parameters(), *lin.parameters(), nn.Parameter(jtorch.empty(3))]
    with jtorch.no_grad():
        for k, p in enumerate(parameters):
            p.copy_(_numbers(*p.shape) * 0.5 + 0.1 * k)
    return cell, lin, parameters[-1], parameters


CELL, LIN, W, PARAMETERS = _weights()
GRU = nn.GRUCell(3, 3)
EMBEDDING = nn.Embedding(5, 3)
BUFFER = jtorch.zeros(3)
LOG: list = []


# -- loops ---------------------------------------------------------------------------------------------------


def decayed(x, h):
    return scan(lambda c, v: (c * 0.5 + v, c), h, x)


def no_y(x, h):
    return scan(lambda c, v: (jtorch.tanh(c * W + v), None), h, x)[0]


def no_xs(x, h):
    return scan(lambda c, v: (jtorch.tanh(c * W), c.sum()), h, length=x.shape[0])


def backwards(x, h):
    return scan(lambda c, v: (c * 0.5 + v * W, (c, v)), h, x, reverse=True)


def beneath_its_start(x, h):
    h, x = h.detach(), x.detach()  # or the way back would read the steps, too
    _, ys = scan(lambda c, v: (c * 0.5 + v,) * 2, h, x)
    return jtorch.cat([h[None], ys]) * 2, h * W


def several(x, h):
    def step(carry, part):
        total, count = carry["total"] + part["a"] * part["b"], carry["count"] + 1
        return {"total": total, "count": count}, [total > 0.5, (count, total.sum(-1))]

    return scan(step, {"total": h, "count": jtorch.tensor(0)}, {"a": x, "b": x.sin()})


def lstm(x, h):
    z = jtorch.zeros(h.shape[0], 4)

    def step(carry, v):
        carry = CELL(v, carry)
        return carry, LIN(carry[0])

    return scan(step, (z, z), x)


def of_the_outer_tape(x, h):
    w = (W * 0.5).exp()
    v = w.sin()  # whose graph goes through another one that is used
    last, ys = scan(lambda c, part: (jtorch.tanh(c * w + part) * v, (c * v).sum()), h * w, x * 3)
    return last * w, ys


def passed_on(x, h):
    w = W * 2
    return scan(lambda c, v: ((c[0], v, w * 1), (v, w, c[0], c[1], jtorch.ones(2), c[1])), (h, h, w), x)


def of_the_same(x, h):
    return scan(lambda c, v: ((c[0] + v,) * 2, c[1]), (h, h), x)


def written_inside(x, h):
    def step(c, v):
        made = c.clone()
        made.mul_(0.5)
        made[0] += v[0]
        made[:, 1] = 2.0
        return made, made.t()

    return scan(step, h, x)


def nested(x, h):
    def outer(c, v):
        inner, ys = scan(lambda d, u: (jtorch.tanh(d * u + W), d.sum()), c, v)
        return inner, ys.sum()

    return scan(outer, h[0], x)


def twice(x, h):
    h, ys = scan(lambda c, v: (jtorch.tanh(c * W + v), c * W), h, x)
    return scan(lambda c, v: (c * 0.9 + v * W, c), h, ys)


def of_different_steps(x, h):
    found = [scan(lambda c, v, i=i: (c * W + v * i, c * i), h, x) for i in (1, 2, 2.5)]
    found.append(scan(lambda c, v: (c * W - v, c.to(jtorch.float64)), h, x))
    with jtorch.no_grad():
        found.append(scan(lambda c, v: (c * W - v, c), h, x))
    return found


def with_a_number(x, h, k=3, rate=0.25):
    return scan(lambda c, v: (c * rate + v / k, c * x.shape[0]), h, x)


def looked_up(x, h):
    indices = (x.sum((1, 2)).abs() * 3).long() % 5
    return scan(lambda c, i: (c * 0.5 + EMBEDDING(i), c), h, indices)


def without_gradients(x, h):
    with jtorch.no_grad():
        first, _ = scan(lambda c, v: (jtorch.tanh(c * W + v), None), h, x)
    return scan(lambda c, v: (c * W + v.detach(), c.detach()), first, x)


def checkpointed(x, h):
    from jtorch.utils.checkpoint import checkpoint

    return checkpoint(lambda a, b: no_y(a, b) * 2, x, h, use_reentrant=False)


def of_masks(x, h):
    def step(c, v):
        c = jtorch.where(v > 0, c * 0.5, v)
        return c, (c.argmax(-1), F.softmax(c, -1).log(), c.max(-1).values)

    return scan(step, h, x)


LOOPS = (
    decayed, no_y, no_xs, backwards, several, lstm, of_the_outer_tape, passed_on, of_the_same, written_inside,
    nested, twice, of_different_steps, with_a_number, looked_up, without_gradients, checkpointed, of_masks,
    beneath_its_start,
)  # fmt: skip


# -- none ----------------------------------------------------------------------------------------------------


def drawing(x, h):
    return scan(lambda c, v: (F.dropout(c * W + v, 0.5), c), h, x)


def branching(x, h):
    return scan(lambda c, v: (c * W if v.sum() > 0 else v + c, c), h, x)


def writing(x, h):
    def step(c, v):
        BUFFER.add_(v[0].detach())
        return c * 0.5 + BUFFER, c * W

    return scan(step, h, x)


def sorting(x, h):
    return scan(lambda c, v: ((c * W + v).sort(-1).values, c.cumsum(0)), h, x)


def noting(x, h):
    def step(c, v):
        LOG.append(c.sum().round().item())
        return c * W + v, c

    return scan(step, h, x)


def counting(x, h):
    n = 0

    def step(c, v):
        nonlocal n
        n += 1
        return c * W + v * n, c

    return scan(step, h, x), n


def collecting(x, h):
    kept = []

    def step(c, v):
        kept.append(c)
        return c * W + v, c

    return scan(step, h, x), len(kept)


def differentiated_inside(x, h):
    def step(c, v):
        w = (c * W).detach().requires_grad_()
        (w * v).sum().backward()
        return c * 0.5 + w.grad, c * W

    return scan(step, h, x)


def writing_to_its_carry(x, h):
    c = h * 1

    def step(c, v):
        c.add_(v)
        return c, v * W

    last, ys = scan(step, c, x * 1)
    return last, ys, c


def writing_to_its_part(x, h):
    y = x * 1

    def step(c, v):
        v[0].mul_(2)
        return c + v, c * W

    return scan(step, h, y), y


def carrying_one_tensor_twice(x, h):
    def step(carry, v):
        a, b = carry
        a.add_(v.detach())
        return (a, b + 0), v * W

    z = jtorch.zeros_like(h)
    return scan(step, (z, z), x), z


def giving_what_it_was_given(x, h):
    y = x * 1
    last, ys = scan(lambda c, v: (v, c * W), h, y)
    last = last.detach()
    last.mul_(3.0)
    same, _ = scan(lambda c, v: (c, v * W), last, y)
    same.mul_(3.0)
    return last, ys, y, same


def going_on_with_an_iterator(x, h):
    numbers = iter(range(1, 100))
    return scan(lambda c, v: (c + v * W * next(numbers), c), h, x)


def going_on_with_an_array(x, h):
    state = np.ones(1)

    def step(c, v):
        state[0] += 1
        return c + v * W * float(state[0]), c

    return scan(step, h, x)


def asking_for_its_graph(x, h):
    c = h.detach()
    a = scan(lambda c, v: (c * W if c.requires_grad else c * W * 10, c), c, x.detach())
    b = scan(lambda c, v: (c * W if getattr(c, "is_leaf") else c * 2, c), c, x.detach())  # noqa: B009
    d = scan(lambda e, v: (e + v if e is c else e * W, e), c, x.detach())
    return a, b, d


def of_float16(x, h):
    last, ys = scan(lambda c, v: (c * 0.5 + v, c), h.half(), x.half())
    return last.float() * W, ys.float()


def in_another_order_in_memory(x, h):
    def step(c, v):
        return (c + v * W).t().contiguous().t(), c.view(-1)

    last, ys = scan(step, h.t().contiguous().t(), x.transpose(0, 2).contiguous().transpose(0, 2))
    return last.view(-1), ys


def twice_differentiated(x, h):
    last, ys = scan(lambda c, v: (jtorch.tanh(c * W + v), c), h, x)
    (g,) = jtorch.autograd.grad((last * last).sum() + ys.sum(), W, create_graph=True)
    return (g * g).sum()


def mapped(x, h):
    return jtorch.vmap(lambda a: scan(lambda c, v: (c * 0.5 + v, c.sum()), a, x[:, 0]))(h)


NONE = (
    drawing, branching, writing, sorting, noting, counting, collecting, differentiated_inside,
    writing_to_its_carry, writing_to_its_part, carrying_one_tensor_twice, giving_what_it_was_given,
    going_on_with_an_iterator, going_on_with_an_array, asking_for_its_graph, of_float16,
    in_another_order_in_memory, twice_differentiated, mapped,
)  # fmt: skip


def _tensors(tree):
    if isinstance(tree, jtorch.Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    return (
        [t for part in tree for t in _tensors(part)]
        if isinstance(tree, (tuple, list, type({}.values())))
        else []
    )


def _run(function, n, rows, inside):
    """All that a call leaves: results, gradients, what is outside."""
    LOG.clear()
    with jtorch.no_grad():
        BUFFER.zero_()
    jtorch.manual_seed(0)
    x = _numbers(n, rows, 3).requires_grad_()
    h = _numbers(rows, 3).mul(0.3).requires_grad_()
    for p in (*PARAMETERS, *EMBEDDING.parameters()):
        p.grad = None
    results = function(x, h)
    found = _tensors(results)
    if not inside:
        live = [t for t in found if t.requires_grad]
        if live:
            sum((t * t * (k + 1)).sum() for k, t in enumerate(live)).backward()
    grads = [p.grad for p in (x, h, *PARAMETERS, *EMBEDDING.parameters())]
    others = [part for part in results if isinstance(part, int)] if isinstance(results, tuple) else []
    shown = [None if t is None else t.detach().clone() for t in (*found, *grads, BUFFER)]
    return shown, [t.requires_grad for t in found], [*LOG], others


def _stepped(function):
    """Its gradients inside."""

    def step(x, h):
        found = _tensors(function(x, h))
        loss = sum((t * t * (k + 1)).sum() for k, t in enumerate(t for t in found if t.requires_grad))
        loss.backward()
        return [t.detach() for t in found]

    return step


def _check(expected, got, what):
    assert expected[1:] == got[1:], what
    for a, b in zip(expected[0], got[0], strict=True):
        assert (a is None) == (b is None), what
        if a is not None:
            assert a.dtype == b.dtype and a.shape == b.shape, what
            assert jtorch.allclose(a, b, rtol=1e-4, atol=1e-5), what


SIZES = ((3, 2), (3, 2), (5, 2), (2, 2), (4, 3), (1, 2), (7, 3), (3, 2))


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_loops_are_those_of_eager_mode(function, inside):
    body = _stepped(function) if inside else function
    for options in ({}, {"dynamic": True}, {"dynamic": False}, {"mode": "interpret"}):
        compiled = jtorch.compile(body, fullgraph=True, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jtorch.errors.RetraceWarning)
            for n, rows in SIZES:
                what = options, n, rows
                _check(_run(body, n, rows, inside), _run(compiled, n, rows, inside), what)
        if options == {"dynamic": False} and function not in (checkpointed,):
            graph = compiled.graph(_numbers(5, 2, 3).requires_grad_(), _numbers(2, 3).requires_grad_())
            assert "scan" in graph


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("function", NONE, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_loop_runs_step_by_step(function, inside):
    body = _stepped(function) if inside and function not in (counting, collecting) else function
    compiled = jtorch.compile(body, fullgraph=False)
    for n, rows in SIZES[:5]:
        _check(_run(body, n, rows, inside), _run(compiled, n, rows, inside), (n, rows))


def test_steps_are_recorded_once():
    f = jtorch.compile(_stepped(lstm), fullgraph=True)
    x, h = _numbers(900, 2, 3), _numbers(2, 3)
    f(x, h)
    few = jtorch.compile(_stepped(lstm), fullgraph=True)
    few(x[:4], h)
    graphs = [g.partition("def ")[2].splitlines() for g in (f.graph(x, h), few.graph(x[:4], h))]
    assert len(graphs[0]) == len(graphs[1])
    for n in (5, 6, 90, 400):
        f(x[:n], h)
    assert len(f.retraces) == 1
    for n, rows in ((9, 3), (17, 5), (8, 6), (8, 2), (30, 31)):
        f(_numbers(n, rows, 3), _numbers(rows, 3))
    assert len(f.retraces) == 2


def test_a_kept_tensor_of_a_step_is_refused():
    def f(x, h):
        def step(c, v):
            made = c * v
            step.made = made
            return made, None

        scan(step, h, x)
        return step.made

    with pytest.raises(CompileError, match=r"test_loops.py.*changes a variable, list or object"):
        jtorch.compile(f, fullgraph=True)(_numbers(3, 2, 3), _numbers(2, 3))


def test_an_error_of_a_step_comes_before_anything_is_written():
    count, table = jtorch.zeros(2), jtorch.arange(3)

    def f(c, numbers, kind):
        count.add_(1)
        step = {"/": lambda c, i: (c + i, c // i), "[]": lambda c, i: (c + table[i], None)}[kind]
        return scan(step, c, numbers)[0]

    for kind, wrong in (("/", 0), ("[]", 3)):
        found = []
        for each in (f, jtorch.compile(f, fullgraph=True)):
            count.zero_()
            each(jtorch.tensor(0), jtorch.tensor([1, 2]), kind)
            for _ in range(2):
                with pytest.raises((RuntimeError, IndexError)):
                    each(jtorch.tensor(0), jtorch.tensor([1, wrong]), kind)
            found.append(count.tolist())
        assert found == [[3.0, 3.0]] * 2


def test_what_has_no_gradient_gets_none():
    w, v = (jtorch.ones(3, requires_grad=True) for _ in range(2))

    def f(c, d, xs):
        (c, d), _ = scan(lambda cd, x: ((x * w, cd[1] * 2.0), cd[0] * v), (c, d), xs)
        (c.sum() + d.sum()).backward()
        return c.detach()

    found = []
    for each in (f, jtorch.compile(f, fullgraph=True)):
        leaves = [jtorch.ones(3, requires_grad=True) for _ in range(2)]
        leaves.append(jtorch.ones(4, 3, requires_grad=True))
        w.grad = v.grad = None
        each(*leaves)
        found.append([None if t.grad is None else t.grad.tolist() for t in (w, v, *leaves)])
    assert found[0] == found[1] and found[0][1:3] == [None, None]


def test_an_index_out_of_range_is_eager_modes_error():
    table = nn.Embedding(3, 2)

    def f(indices):
        return scan(lambda c, i: (c + table(i), None), jtorch.zeros(2), indices)[0]

    compiled = jtorch.compile(f, fullgraph=True)
    assert compiled(jtorch.tensor([0, 1, 2])).tolist() == f(jtorch.tensor([0, 1, 2])).tolist()
    for _ in range(2):
        with pytest.raises(IndexError, match="out of range"):
            compiled(jtorch.tensor([0, 1, 3]))
        assert compiled(jtorch.tensor([0, 1, 2])).tolist() == f(jtorch.tensor([0, 1, 2])).tolist()


WRONG = {
    "another shape": (lambda c, v: (c[:1], None), TypeError, "shapes, dtypes and containers must stay"),
    "another dtype": (
        lambda c, v: (c.double(), None),
        TypeError,
        r"jtorch.float32\[2, 3\].*jtorch.float64\[2, 3\]",
    ),
    "another container": (lambda c, v: ((c,), None), TypeError, "containers must stay"),
    "no pair": (lambda c, v: c, TypeError, r"must return a tuple \(carry, y\)"),
    "a number": (lambda c, v: (c, 3), TypeError, "y must be made of tensors, got a int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_the_same_in_both_modes(name):
    step, kind, text = WRONG[name]

    def f(x, h):
        return scan(step, h, x)

    for each in (f, jtorch.compile(f, fullgraph=True)):
        with pytest.raises(kind, match=text):
            each(_numbers(3, 2, 3), _numbers(2, 3))


def test_wrong_lengths_are_refused():
    h = jtorch.zeros(2)
    with pytest.raises(ValueError, match=re.escape("differ: 3, 4")):
        scan(lambda c, v: (c, None), h, (_numbers(3, 2), _numbers(4, 2)))
    with pytest.raises(ValueError, match="say how many steps"):
        scan(lambda c, v: (c, None), h)
    with pytest.raises(ValueError, match="one step at least"):
        scan(lambda c, v: (c, None), h, jtorch.zeros(0, 2))
    with pytest.raises(ValueError, match="none"):
        scan(lambda c, v: (c, None), h, jtorch.tensor(1.0))
    with pytest.raises(TypeError, match="carry must be made of tensors, got a float"):
        scan(lambda c, v: (c, None), 1.0, h)
    for each in (lambda h: scan(lambda c, v: (c, None), h, length=2.0),):
        for mode in (each, jtorch.compile(each, fullgraph=True)):
            with pytest.raises(TypeError, match="integer"):
                mode(h)
