"""Results lie in memory as eager mode lays them out: strides, what view() refuses, and who shares memory."""

import pytest

import jtorch
from jtorch import nn
from jtorch.core.op import TABLE, Kind

SIZES = (2, 3, 4)


def _public(op):
    return getattr(jtorch, op.name, None) or getattr(nn.functional, op.name, None)


OPS = [op for op in TABLE if op.kind in (Kind.ELEMENTWISE, Kind.REDUCTION, Kind.COMPOSITE) and _public(op)]
DTYPES = [jtorch.float32, jtorch.int64, jtorch.bool]


def _arguments(dtype):
    """Permuted, expanded and ordered tensors, alone and together."""
    base = (jtorch.arange(24) % 5 + 1).reshape(SIZES)
    base = base.float() / 7 if dtype is jtorch.float32 else base.to(dtype)
    permuted, ordered = base.permute(2, 0, 1), (jtorch.arange(24) % 3 + 1).reshape(4, 2, 3).to(dtype)
    expanded = permuted[:, :1].expand(4, 2, 3)
    return [
        (permuted,), (expanded,), (permuted, 2), (permuted, permuted[0]), (permuted, base.permute(2, 0, 1)),
        (permuted, ordered), (ordered, permuted), (expanded, ordered),
        (permuted, base.permute(2, 0, 1), ordered),
    ]  # fmt: skip


def _strides(tensor):
    """An axis of one element may have any."""
    return [s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1]


@pytest.mark.slow
@pytest.mark.usefixtures("unjitted")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_strides_are_those_of_eager_mode(dtype):
    compared, different = 0, []
    for op in OPS:
        function = _public(op)
        for arguments in _arguments(dtype):
            try:
                expected = function(*arguments)
                found = jtorch.compile(function, mode="interpret")(*arguments)
            except Exception:  # not for these arguments: other tests tell what is refused
                continue
            if isinstance(expected, jtorch.Tensor) and expected.ndim > 1:
                compared += 1
                if _strides(expected) != _strides(found):
                    different.append((op.name, [getattr(a, "stride", int)() for a in arguments]))
    assert compared > 200
    assert different == []


IN_ROWS = {  # in PyTorch, too
    "cat": lambda m, x: m.cat([x, x], 1),
    "stack": lambda m, x: m.stack([x, x]),
    "vstack": lambda m, x: m.vstack([x, x]),
    "cumsum": lambda m, x: m.cumsum(x, 1),
    "cumprod": lambda m, x: x.cumprod(0),
    "logcumsumexp": lambda m, x: x.logcumsumexp(2),
    "cummax": lambda m, x: m.cummax(x, 1),
    "cummin": lambda m, x: m.cummin(x, 1),
    "median": lambda m, x: m.median(x, 1),
    "roll": lambda m, x: m.roll(x, 1, 0),
    "gather": lambda m, x: x.gather(1, (x > 9).long()),
    "index": lambda m, x: x[m.tensor([0, 1, 0])],
    "cross": lambda m, x: m.linalg.cross(x, x),
    "adaptive_avg_pool2d": lambda m, x: m.nn.functional.adaptive_avg_pool2d(x, (2, 2)),
    "interpolate": lambda m, x: m.nn.functional.interpolate(x, size=2),
}  # fmt: skip
MOVING = IN_ROWS | {
    "sort": lambda m, x: m.sort(x, 1),
    "topk": lambda m, x: m.topk(x, 2, 0),
    "index_select": lambda m, x: x.index_select(1, m.tensor([1, 0])),
    "flip": lambda m, x: x.flip(0),
    "pad": lambda m, x: m.nn.functional.pad(x, (1, 1)),
    "matmul": lambda m, x: x @ x.mT,
    "frexp": lambda m, x: m.frexp(x),
    "repeat": lambda m, x: x.repeat(2, 1, 1),
    "tril": lambda m, x: x.tril(),
    "masked_fill": lambda m, x: x.masked_fill(x > 9, 0),
    "where": lambda m, x: m.where(x > 9, x, -x),
    "softmax": lambda m, x: x.softmax(1),
    "group_norm": lambda m, x: m.nn.functional.group_norm(x, 1),
    "norm": lambda m, x: x.norm(dim=1),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MOVING)
def test_what_is_no_elementwise_op_lays_elements_out_as_eager_mode(name):
    def strides(found):
        return [_strides(t) for t in (found if isinstance(found, tuple) else (found,))]

    def permuted(module):
        return ((module.arange(24) * 7 % 24).reshape(SIZES).float() + 1).permute(2, 0, 1)

    function, x = MOVING[name], permuted(jtorch)
    expected = strides(function(jtorch, x))
    assert strides(jtorch.compile(lambda x: function(jtorch, x), mode="interpret")(x)) == expected
    if name in IN_ROWS:
        torch = pytest.importorskip("torch")
        assert strides(function(torch, permuted(torch))) == expected


def _transposed():
    return jtorch.tensor([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]]).t()


def _flattened_shares(x):
    y = x.relu()
    flat = y.reshape(-1)
    y[1:] += 1
    return flat


def _viewed(x):
    return (x * 2).view(-1)


def _asked(x):
    return x * (2 if (x + 1).is_contiguous() else 3), (x + 1).stride()


def _written(x):
    y = x + 1
    y[0] = 7
    y.t()[1] = 8
    return y, y * x


def _summed(x):
    y = jtorch.stack((x, x + 1)).permute(2, 0, 1).sum(0)
    return y.stride(), y.reshape(-1)


def _backward(x):
    w = x.clone().requires_grad_()
    (w * w * x).sum().backward()
    return w.grad, w.grad.is_contiguous()


def _outcome(function, *arguments):
    try:
        found = function(*arguments)
    except RuntimeError as error:
        return str(error).partition(" (at")[0]
    parts = found if isinstance(found, tuple) else (found,)
    return [p.tolist() if isinstance(p, jtorch.Tensor) else p for p in parts]


@pytest.mark.parametrize("mode", ["default", "interpret"])
@pytest.mark.parametrize("function", [_flattened_shares, _viewed, _asked, _written, _summed, _backward])
def test_what_follows_from_the_layout(function, mode):
    compiled = jtorch.compile(function, mode=mode)
    expected = _outcome(function, _transposed())
    for _ in range(2):
        assert _outcome(compiled, _transposed()) == expected
    ordered = _transposed().contiguous()
    assert _outcome(compiled, ordered) == _outcome(function, ordered)


def test_results_keep_their_strides():
    x = _transposed()
    found = jtorch.compile(lambda x: (x * 2, x.exp().sum(1)))(x)
    assert found[0].stride() == (x * 2).stride() == (1, 3)
    assert found[0].tolist() == (x * 2).tolist()


VIEWS = [
    lambda x: x.unsqueeze(0), lambda x: x.unsqueeze(-1), lambda x: x[:, None, ::2], lambda x: x[:, ::2, None],
    lambda x: x.expand(1, 2, 6), lambda x: x.expand(4, 1, 2, 6), lambda x: x[:1].expand(1, 6),
    lambda x: x[:1].expand(3, 1, 2, 6), lambda x: x.t().expand(1, 6, 2), lambda x: x.t()[None],
    lambda x: x.sum(0, keepdim=True), lambda x: x[0, 0].expand(1), lambda x: x[:, 0].reshape(1, 2, 1),
    lambda x: x[..., ::2], lambda x: x[:, 1:3], lambda x: x[:, -1], lambda x: x.diagonal(), lambda x: x[1],
    lambda x: x.unfold(1, 2, 2), lambda x: x.chunk(3, 1)[1], lambda x: x.select(1, 2).unsqueeze(1),
]  # fmt: skip


@pytest.mark.parametrize("view", VIEWS)
def test_views_have_the_strides_of_eager_mode(view):
    """Inside and as results, of arguments and of what was computed; of axes of one element, too."""

    def asked(x):
        inside, made = view(x), view(x + 1)
        return inside.stride(), made.stride(), made.is_contiguous(), inside, made

    x = jtorch.arange(12.0).reshape(2, 6)
    expected, compiled = asked(x), jtorch.compile(asked)
    for _ in range(2):
        found = compiled(x)
        assert found[:3] == expected[:3]
        for ours, theirs in zip(found[3:], expected[3:], strict=True):
            assert ours.stride() == theirs.stride()
            assert ours.tolist() == theirs.tolist()


@pytest.mark.parametrize("shape", [(1, 3), (2, 1, 3), (2, 2, 1, 3), (2, 1, 1, 3)])
def test_new_axes_of_one_element_step_as_in_pytorch(shape):
    torch = pytest.importorskip("torch")
    for make in (lambda m: m.ones(3), lambda m: m.ones(1, 3), lambda m: m.ones(3, 2).t()[1]):
        assert make(jtorch).expand(shape).stride() == make(torch).expand(shape).stride()


FEW = [(0, 6), (6, 0), (0, 1), (1, 0), (0, 0), (1, 1), (1, 6), (6, 1)]
OF_FEW = [
    lambda x: x, lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[::2], lambda x: x[:, :1],
    lambda x: x[1:].t(),
    lambda x: x.t()[None], lambda x: x.t().unsqueeze(-1), lambda x: x.expand(3, *x.shape),
    lambda x: x.expand(1, *x.shape).permute(2, 1, 0), lambda x: x.diagonal(), lambda x: x.t().narrow(0, 0, 0),
]  # fmt: skip


def _layout(y):
    def viewed(*shape):
        try:
            return y.view(*shape).stride()
        except RuntimeError as error:
            return str(error)

    asked = y.stride(), y.is_contiguous(), y.is_contiguous(memory_format=jtorch.channels_last)
    shapes = (-1,), y.shape, (*y.shape, 1), (1, *y.shape), y.shape[::-1]
    return *asked, y.contiguous() is y, [viewed(*shape) for shape in shapes]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("shape", FEW)
def test_views_of_no_elements_and_of_one(shape, dynamic):
    """Nobody sees the strides of an axis of one element, nor any of no elements: both count as in order."""
    x = jtorch.zeros(shape)
    for k, view in enumerate(OF_FEW):
        compiled = jtorch.compile(lambda x, view=view: _layout(view(x)), dynamic=dynamic)
        assert compiled(x) == _layout(view(x)), k


def test_a_view_that_a_size_empties():
    f = jtorch.compile(lambda x: 1 if x[2:].t().is_contiguous() else 2, dynamic=True)
    assert [f(jtorch.zeros(n, 6)) for n in (5, 4, 2, 3, 2)] == [2, 2, 1, 1, 1]


def test_a_returned_slice_cannot_be_flattened_in_place():
    def kept(x):
        return (x + 1)[:, :3]

    x = jtorch.arange(12.0).reshape(2, 6)
    for function in (kept, jtorch.compile(kept)):
        y = function(x)
        y.reshape(-1)[0] = 50.0  # a copy: the rows do not lie one after the other
        assert y[0, 0] == 1.0
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            y.view(-1)
