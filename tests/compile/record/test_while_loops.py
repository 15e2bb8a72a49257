"""``jtorch.compiler.while_loop``: a Python loop's results and gradients in both modes; compiled, one equation
for any number of steps where it can be one, and step by step, or eagerly, where it cannot."""

import pytest

import jtorch
from jtorch import nn
from jtorch.compiler import scan, while_loop
from jtorch.errors import CompileError

W = nn.Parameter(jtorch.tensor([0.75, 0.5, 0.875]))
TABLE = jtorch.tensor([0.5, 0.25, 2.0, 1.5, 0.125])
EMBEDDING = nn.Embedding(5, 3)
BUFFER = jtorch.zeros(3)
LOG: list = []
MOST = 12


def python_loop(cond, body, carry, *, max_steps):
    """What it is to compute, written out."""
    n = 0
    while n < max_steps and bool(cond(carry)):
        carry, n = body(carry), n + 1
    return carry, jtorch.tensor(n)


# -- loops: sums, products and comparisons, which are the same bits in both modes ----------------------------


def halved(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=MOST)


def with_a_constant(loop, x, h):
    w = W * 0.5
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * 0.5 + w * x[0, 0] * 0.125, h * 2, max_steps=MOST)


def several(loop, x, h):
    def body(carry):
        total, left = carry["total"], carry["left"]
        return {"total": total * 0.5 + x[0, 0], "left": left - 1, "odd": ~carry["odd"]}

    begin = {"total": h, "left": h[0].detach().abs().long(), "odd": jtorch.tensor(False)}
    return loop(lambda c: c["left"] > 0, body, begin, max_steps=MOST)


def swapped(loop, x, h):
    def body(carry):
        a, b, c = carry
        return b, a * 0.5 + W, c + 1

    return loop(lambda c: c[0].max() > 2.0, body, (h, h * 2, jtorch.zeros(2)), max_steps=MOST)


def to_the_bound(loop, x, h):
    return loop(lambda c: (c == c).all(), lambda c: c * W + 1.0, h, max_steps=3)


def two_at_most(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=2)


def in_rows_as_many(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=x.shape[0] + 2)


def looked_up(loop, x, h):
    """Places of a table, beyond whose end the steps that are left out would be."""

    def body(carry):
        c, k = carry
        return c * TABLE[k] + EMBEDDING(k), k + 1

    first = (5 - h[0].detach().abs().long()).clamp(0, 5)
    return loop(lambda c: c[1] < 5, body, (h, first), max_steps=MOST)


def written_inside(loop, x, h):
    def body(c):
        made = c.clone()
        made.mul_(0.5)
        made[0] += W[0]
        return made

    return loop(lambda c: c.abs().max() > 1.0, body, h, max_steps=MOST)


def twice(loop, x, h):
    h, n = loop(lambda c: c.abs().max() > 4.0, lambda c: c * W, h, max_steps=MOST)
    last, m = loop(lambda c: c.abs().max() > 0.5, lambda c: c * 0.5, h * 0.75, max_steps=MOST)
    return last, n, m, last * n


def cut_off(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c.detach() * 0.5, h, max_steps=MOST)


def begun_without_a_gradient(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h.detach(), max_steps=MOST)


def without_gradients(loop, x, h):
    with jtorch.no_grad():
        return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=10**12)


def in_a_scan(loop, x, h):
    def step(c, v):
        c, n = loop(lambda d: d.abs().max() > 1.0, lambda d: d * W, c + v[0], max_steps=MOST)
        return c, (c * 2, n)

    return scan(step, h, x)


def of_scans(loop, x, h):
    def body(c):
        return scan(lambda d, v: (d * 0.5 + v[0] * 0.125, None), c, x)[0]

    return loop(lambda c: c.abs().max() > 1.0, body, h, max_steps=MOST)


def in_itself(loop, x, h):
    def body(carry):
        c, total = carry
        inner, n = loop(lambda d: d.abs().max() > 1.0, lambda d: d * W, c, max_steps=MOST)
        return inner * 0.75 + x[0, 0] * 0.25, total + n

    begin = h, jtorch.tensor(0)
    return loop(lambda c: c[0].abs().max() > 0.75, body, begin, max_steps=MOST)


def a_cond_that_is_known(loop, x, h):
    return loop(lambda c: jtorch.tensor(True), lambda c: c * W, h, max_steps=4)


def a_cond_of_outside(loop, x, h):
    limit = W.sum() * 0.25
    return loop(lambda c: c.abs().max() > limit, lambda c: c * 0.5, h, max_steps=MOST)


LOOPS = (
    halved, with_a_constant, several, swapped, to_the_bound, two_at_most, in_rows_as_many, looked_up,
    written_inside, twice, cut_off, begun_without_a_gradient, without_gradients, in_a_scan, of_scans,
    in_itself, a_cond_that_is_known, a_cond_of_outside,
)  # fmt: skip


# two chains, which eager mode goes back through one after the other; sums of sums, some of no step at all
IN_SEVERAL_ORDERS = (swapped, in_a_scan, in_itself)


# -- none ----------------------------------------------------------------------------------------------------


def drawing(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * jtorch.rand(()), h, max_steps=MOST)


def drawing_whether(loop, x, h):
    return loop(lambda c: c.abs().max() > jtorch.rand(()), lambda c: c * W, h, max_steps=MOST)


def branching(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W if c[0] > 1 else c * 0.5, h, max_steps=MOST)


def writing(loop, x, h):
    def body(c):
        BUFFER.add_(c.detach())
        return c * W

    return loop(lambda c: c.abs().max() > 0.5, body, h, max_steps=MOST)


def writing_in_cond(loop, x, h):
    def cond(c):
        BUFFER.add_(1)
        return c.abs().max() > 0.5

    return loop(cond, lambda c: c * W, h, max_steps=MOST)


def sorting(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: (c * W).sort().values, h, max_steps=MOST)


def noting(loop, x, h):
    def cond(c):
        LOG.append(c[0].item())
        return c.abs().max() > 0.5

    return loop(cond, lambda c: c * W, h, max_steps=MOST)


def writing_to_its_carry(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c.mul_(0.5), h * 1, max_steps=MOST)


def once_at_most(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=1)


def never(loop, x, h):
    return loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=0)


NONE = (
    drawing, drawing_whether, branching, writing, writing_in_cond, sorting, noting, writing_to_its_carry,
    once_at_most, never,
)  # fmt: skip


def _tensors(tree):
    if isinstance(tree, jtorch.Tensor):
        return [tree]
    parts = tree.values() if isinstance(tree, dict) else tree
    return [t for part in parts for t in _tensors(part)]


def _loss(found):
    live = [t for t in found if t.requires_grad]
    return sum((t * t * (k + 1)).sum() for k, t in enumerate(live)) if live else None


PARAMETERS = [W, *EMBEDDING.parameters()]


def _arguments(scale, rows):
    x = jtorch.arange(rows * 6.0).reshape(rows, 2, 3) * 0.25
    return x.requires_grad_(), (jtorch.tensor([1.0, -0.5, 0.75]) * scale).requires_grad_()


def _run(function, loop, scale, rows=2, inside=False):
    """All that a call leaves: results, gradients, what is outside."""
    LOG.clear()
    with jtorch.no_grad():
        BUFFER.zero_()
        EMBEDDING.weight.copy_(jtorch.arange(15.0).reshape(5, 3) * 0.125)
    jtorch.manual_seed(0)
    x, h = _arguments(scale, rows)
    for p in PARAMETERS:
        p.grad = None
    found = _tensors(function(loop, x, h))
    if not inside and (loss := _loss(found)) is not None:
        loss.backward()
    grads = [None if p.grad is None else p.grad.clone() for p in (x, h, *PARAMETERS)]
    given, sums = [t.detach().clone() for t in (*found, BUFFER)] + grads[:2], grads[2:]
    return given, sums, [*LOG], [t.requires_grad for t in found]


def _stepped(function):
    """Its gradients inside."""

    def step(loop, x, h):
        found = _tensors(function(loop, x, h))
        if (loss := _loss(found)) is not None:
            loss.backward()
        return [t.detach() for t in found]

    return step


def _check(expected, got, what, orders=False):
    """That both are the same bits, but for sums over steps that were added up in several ``orders``, of which
    there may be none in eager mode."""
    assert expected[2:] == got[2:], what
    assert len(expected[0]) == len(got[0]), what
    for k, (a, b) in enumerate(zip(expected[0] + expected[1], got[0] + got[1], strict=True)):
        is_sum = orders and k >= len(expected[0])
        if is_sum and a is None and b is not None:
            a = jtorch.zeros_like(b)
        assert (a is None) == (b is None), (what, k)
        if a is not None and b is not None:
            assert a.dtype == b.dtype and a.shape == b.shape, (what, k)
            assert jtorch.allclose(a, b, rtol=1e-6) if is_sum else jtorch.equal(a, b), (what, k, a, b)


SCALES = (1.0, 4.0, 0.25, 30.0, 0.0, 1.0, 9.0, 0.5, 1e9, 2.0)


@pytest.mark.parametrize("function", (*LOOPS, *NONE), ids=lambda f: f.__name__)
def test_eager_mode_computes_what_a_python_loop_does(function):
    if function is without_gradients:
        return  # whose bound no list of steps has
    for scale in SCALES:
        expected, got = (_run(function, loop, scale) for loop in (python_loop, while_loop))
        if function is not writing_to_its_carry:  # which is memory of its own at the end
            _check(expected, got, scale)


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("function", LOOPS, ids=lambda f: f.__name__)
def test_loops_are_those_of_eager_mode(function, inside):
    body = _stepped(function) if inside else function
    for options in ({}, {"dynamic": True}, {"dynamic": False}, {"mode": "interpret"}):
        compiled = jtorch.compile(body, fullgraph=True, **options)
        for rows in (4, 5, 4):
            for scale in SCALES:
                expected = _run(body, while_loop, scale, rows, inside)
                got = _run(compiled, while_loop, scale, rows, inside)
                _check(expected, got, (options, scale, rows), function in IN_SEVERAL_ORDERS)
        # two numbers of rows; with gradients no step at all is a way of its own
        ways = {without_gradients: 1, in_a_scan: 1, twice: 4}.get(function, 2)
        assert len(compiled.retraces) < 2 * ways, compiled.retraces
        if not inside and function is not in_a_scan:
            assert "while_loop" in compiled.graph(while_loop, *_arguments(1.0, 4))


@pytest.mark.slow
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("function", NONE, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore")
def test_what_is_no_loop_runs_step_by_step(function, inside):
    body = _stepped(function) if inside else function
    compiled = jtorch.compile(body, fullgraph=False)
    for scale in SCALES:
        expected = _run(body, while_loop, scale, inside=inside)
        _check(expected, _run(compiled, while_loop, scale, inside=inside), scale)


def test_each_number_of_steps_is_the_same_plan():
    f = jtorch.compile(
        lambda c: while_loop(lambda c: c < 1e6, lambda c: c * 2, c, max_steps=40), fullgraph=True
    )
    found = [int(f(jtorch.tensor(2.0**k))[1]) for k in (19, 0, 5, 25, 18, 20, 1)]
    assert found == [1, 20, 15, 0, 2, 0, 19] and not f.retraces


def test_steps_that_are_not_taken_cost_nothing():
    """Neither time, nor, without gradients, memory: this bound would have a hundred days of them."""
    f = jtorch.compile(
        lambda c: while_loop(lambda c: c < 10, lambda c: c + 1, c, max_steps=10**13), fullgraph=True
    )
    assert f(jtorch.tensor(0.5))[0] == 10.5 and int(f(jtorch.tensor(-90))[1]) == 100


@pytest.mark.slow
def test_memory_of_other_calls_is_not_seen():
    """Places that no step has written hold what calls before have left there."""
    w = jtorch.tensor(0.5, requires_grad=True)

    def f(c):
        c = c.clone().requires_grad_()
        last, n = while_loop(lambda c: (c > 1).all(), lambda c: c * w, c, max_steps=9)
        last.sum().backward()
        return last.detach(), n

    compiled = jtorch.compile(f, fullgraph=True)
    for value in (float("inf"), 64.0, float("nan"), 1.0, float("inf"), 3.0, 0.5, 300.0):
        found = []
        for each in (f, compiled):
            w.grad = None
            last, n = each(jtorch.full((3,), value))
            found.append((str(last), int(n), "0.0" if w.grad is None else str(w.grad.item())))
        assert found[0] == found[1], value


def test_the_carry_that_comes_back_is_memory_of_its_own():
    for each in (while_loop, jtorch.compile(while_loop)):
        for begin in (jtorch.zeros(2), jtorch.ones(2) * 3):
            last, _ = each(lambda c: c.max() > 1, lambda c: c - 1, begin, max_steps=5)
            kept = begin.clone()
            last.add_(7)
            assert jtorch.equal(begin, kept)


def test_an_error_of_a_step_comes_where_the_step_is_taken():
    count, table = jtorch.zeros(()), jtorch.arange(3)

    def f(k):
        count.add_(1)
        return while_loop(lambda c: c[0] >= 0, lambda c: (table[c[0]] - 3 + c[1], c[1] - 1), k, max_steps=9)[
            0
        ]

    compiled = jtorch.compile(f, fullgraph=True)
    for first, second in ((0, 0), (2, 1), (1, 2), (1, 9), (-1, 5), (3, 0), (1, 1)):
        found = []
        for each in (f, compiled):
            count.zero_()
            try:
                result = [t.item() for t in each((jtorch.tensor(first), jtorch.tensor(second)))]
            except IndexError as error:
                result = str(error).partition(" (at ")[0]
            found.append((result, count.item() if isinstance(result, list) else None))
        assert found[0] == found[1], (first, second)


@pytest.mark.slow
def test_checkpoints_and_hooks():
    """A checkpoint runs it again as a Python loop, whose branches a later backward() could not take."""
    from jtorch.utils.checkpoint import checkpoint

    def loop(h):
        h = h * W
        h.register_hook(lambda g: g * 2)
        return while_loop(lambda c: c.abs().max() > 0.5, lambda c: c * W, h, max_steps=8)[0]

    def plain(h):
        loop(h).sum().backward()

    def again(h):
        checkpoint(loop, h, use_reentrant=False).sum().backward()

    for f in (plain, again):
        compiled = jtorch.compile(f, fullgraph=True)
        for scale in (4.0, 0.25, 9.0, 1.0):
            found = []
            for each in (f, compiled):
                W.grad = None
                h = (jtorch.ones(3) * scale).requires_grad_()
                each(h)
                found.append((h.grad, W.grad))
            assert all(map(jtorch.equal, *found)), scale
    with pytest.raises(CompileError, match="second run of a checkpoint branches"):
        jtorch.compile(lambda h: checkpoint(loop, h, use_reentrant=False), fullgraph=True)(
            jtorch.ones(3, requires_grad=True)
        )


@pytest.mark.slow
def test_each_of_a_batch_takes_its_own_steps():
    def of_all(a, limit):
        c, _ = while_loop(lambda c: c[1] < limit, lambda c: (c[0] * 2, c[1] + 1), (a, limit * 0), max_steps=9)
        return c[0]

    def of_each(a):
        return while_loop(lambda c: c < 5, lambda c: c * a, a * 2, max_steps=9)

    def slopes(a):
        return jtorch.func.grad(lambda a: of_each(a)[0])(a)

    x = jtorch.arange(1.0, 4.0)
    f = jtorch.compile(jtorch.vmap(of_all, in_dims=(0, None)))
    for n, expected in ((2, [4, 8, 12]), (0, [1, 2, 3]), (3, [8, 16, 24])):
        assert f(x, jtorch.tensor(n)).tolist() == expected
    for mode in (lambda f: f, jtorch.compile):
        last, n = mode(jtorch.vmap(of_each))(x)
        assert last.tolist() == [2.0, 8.0, 6.0] and n.tolist() == [9, 1, 0]
        assert mode(jtorch.vmap(slopes))(x).tolist() == [20.0, 8.0, 2.0]


@pytest.mark.slow
def test_a_profile_does_not_count_steps_that_nobody_takes():
    w = jtorch.eye(64) * 0.5
    f = jtorch.compile(lambda c: while_loop(lambda c: c.max() > 1, lambda c: c @ w, c, max_steps=10**6))
    x = jtorch.ones(64, 64) * 8
    assert int(f(x)[1]) == 3
    (loop,) = [step for step in f.profile(x).steps if "while_loop" in step.name]
    assert loop.flops == loop.nbytes == 0


WRONG = {
    "another shape": (lambda c: c.sum() > 0, lambda c: c[:1], "shapes, dtypes and containers must stay"),
    "another dtype": (
        lambda c: c.sum() > 0, lambda c: c.double(), r"body got .* jtorch.float32\[3\].*jtorch.float64\[3\]",
    ),
    "another container": (lambda c: c.sum() > 0, lambda c: (c,), "containers must stay"),
    "a number": (lambda c: c.sum() > 0, lambda c: 3.0, "the carry that body returns must be made of tensors"),
    "a Python bool": (lambda c: True, lambda c: c, "got a bool: what it asks must follow from the carry"),
    "several": (lambda c: c > 0, lambda c: c, r"got jtorch.bool\[3\]: compare, and use .any\(\)"),
    "no bool": (lambda c: c.sum(), lambda c: c, r"without axes, got jtorch.float32\[\]"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_the_same_in_both_modes(name):
    cond, body, text = WRONG[name]

    def f(h):
        return while_loop(cond, body, h, max_steps=5)

    for each in (f, jtorch.compile(f, fullgraph=True)):
        with pytest.raises(TypeError, match=text):
            each(jtorch.ones(3))


def test_wrong_arguments_are_refused():
    h = jtorch.ones(2)
    with pytest.raises(TypeError, match="carry must be made of tensors, got a float"):
        while_loop(lambda c: c.sum() > 0, lambda c: c, 1.0, max_steps=3)
    for f in (lambda h, n: while_loop(lambda c: c.sum() > 0, lambda c: c, h, max_steps=n),):
        for mode in (f, jtorch.compile(f, fullgraph=True)):
            with pytest.raises(TypeError, match="integer"):
                mode(h, 2.0)
            with pytest.raises(ValueError, match="0 or more, got -1"):
                mode(h, -1)


def test_what_a_recording_cannot_hold_is_refused():
    def counting(h):
        n = 0

        def body(c):
            nonlocal n
            n += 1
            return c * 0.5 * n

        return while_loop(lambda c: c.sum() > 1, body, h, max_steps=5)[0]

    def keeping(h):
        def body(c):
            body.kept = c * 2
            return c * 0.5

        return while_loop(lambda c: c.sum() > 1, body, h, max_steps=5)[0]

    def twice_differentiated(h):
        last, _ = while_loop(lambda c: c.sum() > 1, lambda c: c * W, h, max_steps=5)
        (g,) = jtorch.autograd.grad((last * last).sum(), W, create_graph=True)
        return (g * g).sum()

    texts = {
        counting: r"hands to while_loop\(\) changes a variable, list or object .*: carry it\.",
        keeping: "changes a variable, list or object",
        twice_differentiated: r"differentiates the gradient of a while_loop\(\)",
    }
    for function, text in texts.items():
        with pytest.raises(CompileError, match=text):
            jtorch.compile(function, fullgraph=True)(jtorch.ones(3))
