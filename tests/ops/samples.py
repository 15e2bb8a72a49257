"""Sample inputs for every op, at the level of ``APPLY[name]``: arrays and numbers, then statics.

``samples(name)`` gives a list of ``Sample``. Ops of a regular kind need no entry here: the defaults draw
arrays for each array argument. An entry is needed where values are restricted (logarithms, indices) or
statics have to be chosen. Floats are float64, so that gradients can be checked; ``Sample.cast`` gives the
same sample in another dtype.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jtorch.op import BY_NAME, Kind, Op


@dataclass(frozen=True)
class Sample:
    """Arguments of one call: ``APPLY[op](*args, **statics)``. ``args`` are arrays, numbers or None."""

    args: tuple[Any, ...]
    statics: dict[str, Any] = field(default_factory=dict)

    def cast(self, dtype: Any) -> Sample:
        """This sample with its floating-point arrays in ``dtype``."""
        args = tuple(
            a.astype(dtype) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a
            for a in self.args
        )
        statics = {
            k: np.dtype(dtype) if k == "dtype" and v == np.dtype(np.float64) else v
            for k, v in self.statics.items()
        }
        return Sample(args, statics)


class Draw:
    """Random arrays from a stream of the op's own, so that adding an op changes no other's samples."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))

    def floats(self, *shape: int, low: float = -2.0, high: float = 2.0) -> np.ndarray:
        return np.asarray(self.rng.uniform(low, high, shape))

    def apart(self, *shape: int, shift: float = 0.0) -> np.ndarray:
        """Distinct values at least 0.05 apart and away from 0: no ties and no kinks."""
        n = math.prod(shape)
        values = (self.rng.permutation(n) - n / 2 + 0.37) * 0.05 + shift
        return values.reshape(shape)

    def ints(self, *shape: int, low: int, high: int) -> np.ndarray:
        return np.asarray(self.rng.integers(low, high, shape))

    def bools(self, *shape: int) -> np.ndarray:
        return np.asarray(self.rng.random(shape) < 0.5)


_ENTRIES: dict[str, Callable[[Draw], list[Sample]]] = {}


def entry(*names: str) -> Callable:
    """Register the function below as what makes the samples of ``names``."""

    def decorator(function: Callable[[Draw], list[Sample]]) -> Callable:
        for name in names:
            _ENTRIES[name] = function
        return function

    return decorator


def samples(name: str) -> list[Sample]:
    """Sample inputs of the op called ``name``. Raises KeyError where neither entry nor default fits."""
    op = BY_NAME[name]
    draw = Draw(name)
    if name in _ENTRIES:
        return _ENTRIES[name](draw)
    if op.kind is Kind.ELEMENTWISE or (op.kind is Kind.COMPOSITE and not op.statics):
        return _elementwise(op, draw)
    if op.kind is Kind.REDUCTION and set(op.statics) == {"axis", "keepdims"}:
        return _reductions(draw)
    raise KeyError(f"op {name!r} needs an entry in tests/ops/samples.py")


def _elementwise(op: Op, draw: Draw) -> list[Sample]:
    n = len(op.arrays)
    shapes = [(3, 4), (), (0, 3), (5,)]
    found = [Sample(tuple(draw.apart(*shape) for _ in range(n))) for shape in shapes]
    if n == 2:
        found.append(Sample((draw.apart(2, 3, 4), draw.apart(3, 1))))
        found.append(Sample((draw.apart(1, 4), draw.apart(3, 1))))
    return found


def _reductions(draw: Draw) -> list[Sample]:
    cases = [
        ((3, 4), (0,), False), ((3, 4), (1,), True), ((2, 3, 4), (0, 2), False), ((5,), (0,), False),
        ((2, 3), (0, 1), False), ((2, 3), (0, 1), True),
    ]  # fmt: skip
    return [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in cases]


# -- elementwise ---------------------------------------------------------------------------------------------


@entry("log", "sqrt", "rsqrt", "log1p")
def _(draw):
    return [Sample((draw.floats(*s, low=0.3, high=3.0),)) for s in ((3, 4), (), (0, 2), (5,))]


@entry("div", "floor_divide", "remainder")
def _(draw):
    divisors = [((3, 4), (3, 4)), ((), ()), ((2, 1, 4), (3, 1)), ((0, 2), (2,))]
    found = [Sample((draw.apart(*a), draw.floats(*b, low=0.6, high=1.9))) for a, b in divisors]
    return [*found, Sample((draw.apart(3), 1.5))]


@entry("pow")
def _(draw):
    base = lambda *s: draw.floats(*s, low=0.4, high=2.0)  # noqa: E731
    return [
        Sample((base(3, 4), draw.floats(3, 4))),
        Sample((base(3, 1), draw.floats(4))),
        Sample((draw.apart(5), 2.0)),
        Sample((draw.apart(5), 3.0)),
        Sample((base(5), 0.5)),
        Sample((base(4), -1.0)),
    ]


@entry("add", "sub", "mul", "maximum", "minimum")
def _(draw):
    shapes = [((3, 4), (3, 4)), ((), ()), ((2, 3, 4), (3, 1)), ((1, 4), (3, 1)), ((0, 3), (3,))]
    found = [Sample((draw.apart(*a), draw.apart(*b, shift=0.013))) for a, b in shapes]
    return [*found, Sample((draw.apart(5), 0.51))]


@entry("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or")
def _(draw):
    few = lambda *s: draw.ints(*s, low=0, high=3).astype(np.float64)  # noqa: E731
    return [
        Sample((few(3, 4), few(3, 4))), Sample((few(), few())), Sample((few(2, 1, 4), few(3, 1))),
        Sample((few(0, 2), few(2))),
    ]  # fmt: skip


@entry("clamp_min", "clamp_max")
def _(draw):
    return [
        Sample((draw.apart(3, 4), 0.11)),
        Sample((draw.apart(3, 4), draw.apart(3, 4, shift=0.013))),
        Sample((draw.apart(0, 4), 0.0)),
    ]


@entry("where")
def _(draw):
    return [
        Sample((draw.bools(3, 4), draw.apart(3, 4), draw.apart(3, 4))),
        Sample((draw.bools(3, 1), draw.apart(4), draw.apart(2, 1, 1))),
        Sample((np.asarray(True), draw.apart(), draw.apart())),
        Sample((draw.bools(0, 2), draw.apart(0, 2), draw.apart(0, 2))),
    ]


@entry("erf", "exp", "expm1", "sin", "cos", "tanh", "sigmoid", "silu", "logsigmoid")
def _(draw):
    return [Sample((draw.floats(*s, low=-3.0, high=3.0),)) for s in ((3, 4), (), (0, 2), (5,))]


@entry("cast")
def _(draw):
    x = draw.apart(3, 4)
    return [
        Sample((x,), {"dtype": np.dtype(np.float64)}),
        Sample((draw.ints(5, low=-3, high=4),), {"dtype": np.dtype(np.float64)}),
        Sample((x,), {"dtype": np.dtype(np.int64)}),
        Sample((draw.ints(4, low=0, high=2),), {"dtype": np.dtype(np.bool_)}),
    ]


@entry("full")
def _(draw):
    return [
        Sample((1.5,), {"shape": (2, 3), "dtype": np.dtype(np.float64)}),
        Sample((3,), {"shape": (), "dtype": np.dtype(np.int64)}),
        Sample((0.0,), {"shape": (0, 2), "dtype": np.dtype(np.float64)}),
    ]


@entry("iota")
def _(draw):
    return [
        Sample((), {"shape": (5,), "axis": 0, "dtype": np.dtype(np.int64)}),
        Sample((), {"shape": (2, 3, 4), "axis": 1, "dtype": np.dtype(np.float64)}),
    ]


@entry("leaky_relu", "elu")
def _(draw):
    return [
        Sample((draw.apart(3, 4), 0.3)),
        Sample((draw.apart(), 0.01)),
        Sample((draw.apart(0, 2), 1.0)),
    ]


@entry("softplus")
def _(draw):
    return [Sample((draw.apart(3, 4), 1.0, 20.0)), Sample((draw.apart(6), 2.5, 1.0))]


@entry("hardtanh")
def _(draw):
    return [Sample((draw.apart(8, 9), -1.0, 1.0)), Sample((draw.apart(5), 0.0, 6.0))]


@entry("gelu")
def _(draw):
    return [Sample((draw.floats(3, 4),), {"tanh": t}) for t in (False, True)]


# -- reductions ----------------------------------------------------------------------------------------------


@entry("sum", "any", "all", "mean")
def _(draw):
    extra = [((), (), False), ((0, 3), (0,), False), ((3, 0), (0,), True), ((3, 2), (), False)]
    more = [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in extra]
    return _reductions(draw) + more


@entry("prod")
def _(draw):
    with_zero = draw.apart(3, 4)
    with_zero[1, 2] = 0.0
    return [
        Sample((draw.apart(3, 4),), {"axis": (0,), "keepdims": False}),
        Sample((with_zero,), {"axis": (1,), "keepdims": True}),
        Sample((draw.apart(5),), {"axis": (0,), "keepdims": False}),
    ]


@entry("argmax", "argmin", "max_along", "min_along")
def _(draw):
    cases = [
        ((3, 4), (0,), False),
        ((3, 4), (1,), True),
        ((2, 3, 4), (1,), False),
        ((5,), (0,), False),
    ]
    return [Sample((draw.apart(*s),), {"axis": a, "keepdims": k}) for s, a, k in cases]


@entry("var")
def _(draw):
    return [
        Sample((draw.floats(*s),), {"axis": a, "keepdims": k, "correction": c})
        for s, a, k, c in [
            ((3, 4), (1,), False, 1),
            ((2, 3, 4), (0, 2), True, 0),
            ((5,), (0,), False, 1),
        ]
    ]


# -- views ---------------------------------------------------------------------------------------------------


def _views(*cases: tuple[tuple[int, ...], dict[str, Any]]) -> Callable[[Draw], list[Sample]]:
    return lambda draw: [Sample((draw.apart(*shape),), statics) for shape, statics in cases]


entry("reshape")(_views(
    ((3, 4), {"shape": (2, 6)}), ((3, 4), {"shape": (12,)}), ((1,), {"shape": ()}),
    ((0, 3), {"shape": (3, 0)}), ((2, 3, 4), {"shape": (6, 1, 4)}),
))  # fmt: skip
entry("unsqueeze")(_views(((3, 4), {"axes": (1,)}), ((), {"axes": (0,)}), ((3,), {"axes": (0, 2)})))
entry("squeeze")(
    _views(((3, 1, 4), {"axes": (1,)}), ((1, 2, 1), {"axes": (0, 2)}), ((2,), {"axes": ()}))
)
entry("permute")(
    _views(((2, 3, 4), {"axes": (2, 0, 1)}), ((2, 3), {"axes": (1, 0)}), ((), {"axes": ()}))
)
entry("t")(_views(((2, 3), {"axes": (1, 0)}), ((3,), {"axes": (0,)})))
entry("transpose")(_views(((2, 3, 4), {"axes": (2, 1, 0)}), ((2, 3), {"axes": (1, 0)})))
entry("flip")(_views(((2, 3), {"axes": (0,)}), ((2, 3, 4), {"axes": (0, 2)}), ((3,), {"axes": ()})))
entry("expand")(_views(
    ((3, 1), {"shape": (3, 4)}), ((4,), {"shape": (2, 3, 4)}), ((), {"shape": (2, 2)}),
    ((1,), {"shape": (0,)}),
))  # fmt: skip
entry("slice")(_views(
    ((5, 6), {"start": (1, 0), "stop": (4, 6), "step": (1, 2)}),
    ((5, 6), {"start": (2, 1), "stop": (2, 5), "step": (1, 3)}),
    ((7,), {"start": (1,), "stop": (7,), "step": (3,)}),
))  # fmt: skip
entry("select")(_views(((3, 4), {"axis": 0, "index": 2}), ((2, 3, 4), {"axis": 1, "index": 0})))
entry("windows")(_views(
    ((2, 5, 6), {"kernel": (3, 2), "stride": (1, 2), "dilation": (1, 1)}),
    ((2, 3, 6, 6), {"kernel": (2, 2), "stride": (2, 2), "dilation": (2, 1)}),
    ((7,), {"kernel": (3,), "stride": (2,), "dilation": (1,)}),
))  # fmt: skip
entry("pad")(_views(
    ((2, 3), {"low": (1, 0), "high": (0, 2), "interior": (0, 0)}),
    ((3, 2), {"low": (0, 1), "high": (1, 1), "interior": (2, 0)}),
    ((0, 2), {"low": (1, 0), "high": (1, 0), "interior": (0, 0)}),
))  # fmt: skip


@entry("slice_put")
def _(draw):
    where = {"start": (1, 0), "stop": (4, 6), "step": (1, 2)}
    whole = {"start": (0, 0), "stop": (2, 3), "step": (1, 1)}
    return [
        Sample((draw.apart(5, 6), draw.apart(3, 3)), where),
        Sample((draw.apart(2, 3), draw.apart(2, 3)), whole),
        Sample((draw.apart(4), draw.apart(0)), {"start": (2,), "stop": (2,), "step": (1,)}),
    ]


@entry("cat")
def _(draw):
    return [
        Sample((draw.apart(2, 3), draw.apart(4, 3)), {"axis": 0}),
        Sample((draw.apart(2, 1), draw.apart(2, 3), draw.apart(2, 0)), {"axis": 1}),
        Sample((draw.apart(3),), {"axis": 0}),
    ]


# -- indexing and scatter ------------------------------------------------------------------------------------


@entry("index")
def _(draw):
    rows, columns = draw.ints(4, low=0, high=5), draw.ints(4, low=0, high=3)
    return [
        Sample((draw.apart(5, 3), rows), {"axes": (0,)}),
        Sample((draw.apart(5, 3), rows, columns), {"axes": (0, 1)}),
        Sample((draw.apart(2, 5, 3), draw.ints(2, 2, low=0, high=5)), {"axes": (1,)}),
        Sample((draw.apart(5, 3), np.zeros((0,), np.int64)), {"axes": (0,)}),
    ]


@entry("index_add")
def _(draw):
    rows, columns = np.array([0, 2, 2, 4]), np.array([1, 0, 0, 2])
    return [
        Sample((draw.apart(4, 3), rows), {"axes": (0,), "shape": (5, 3)}),
        Sample((draw.apart(4), rows, columns), {"axes": (0, 1), "shape": (5, 3)}),
        Sample((draw.apart(2, 4, 3), rows), {"axes": (1,), "shape": (2, 5, 3)}),
        Sample((draw.apart(0, 3), np.zeros((0,), np.int64)), {"axes": (0,), "shape": (5, 3)}),
    ]


@entry("index_put")
def _(draw):
    rows, columns = np.array([0, 2, 3]), np.array([1, 0, 2])
    return [
        Sample((draw.apart(5, 3), draw.apart(3, 3), rows), {"axes": (0,)}),
        Sample((draw.apart(5, 3), draw.apart(3), rows, columns), {"axes": (0, 1)}),
        Sample((draw.apart(2, 5), draw.apart(2, 3), rows), {"axes": (1,)}),
    ]


@entry("fold")
def _(draw):
    return [
        Sample((draw.apart(2, 3, 3, 3, 2),),
               {"shape": (2, 5, 6), "kernel": (3, 2), "stride": (1, 2), "dilation": (1, 1)}),
        Sample((draw.apart(1, 2, 2, 2, 2),),
               {"shape": (1, 4, 4), "kernel": (2, 2), "stride": (2, 2), "dilation": (1, 1)}),
        Sample((draw.apart(3, 3),), {"shape": (7,), "kernel": (3,), "stride": (2,), "dilation": (1,)}),
    ]  # fmt: skip


@entry("embedding")
def _(draw):
    return [
        Sample((draw.apart(5, 3), draw.ints(4, low=0, high=5))),
        Sample((draw.apart(5, 3), draw.ints(2, 2, low=0, high=5))),
    ]


@entry("sort_order")
def _(draw):
    return [
        Sample((draw.apart(3, 4),), {"axis": 1}),
        Sample((draw.ints(6, low=0, high=3),), {"axis": 0}),
    ]


# -- products and convolutions -------------------------------------------------------------------------------


@entry("matmul")
def _(draw):
    shapes = [
        ((2, 3), (3, 4)),
        ((5, 2, 3), (5, 3, 2)),
        ((5, 2, 3), (3, 4)),
        ((2, 3), (5, 3, 4)),
        ((0, 3), (3, 2)),
    ]
    return [Sample((draw.floats(*a), draw.floats(*b))) for a, b in shapes]


@entry("mm")
def _(draw):
    return [
        Sample((draw.floats(*a), draw.floats(*b))) for a, b in [((2, 3), (3, 4)), ((0, 3), (3, 2))]
    ]


@entry("bmm")
def _(draw):
    return [
        Sample((draw.floats(5, 2, 3), draw.floats(5, 3, 2))),
        Sample((draw.floats(0, 2, 3), draw.floats(0, 3, 1))),
    ]


@entry("addmm")
def _(draw):
    arrays = draw.floats(4), draw.floats(2, 3), draw.floats(3, 4)
    return [
        Sample(arrays, {"beta": 1, "alpha": 1}),
        Sample((draw.floats(2, 4), *arrays[1:]), {"beta": 0.5, "alpha": 2.0}),
    ]


@entry("linear")
def _(draw):
    return [
        Sample((draw.floats(2, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 5, 3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(3), draw.floats(4, 3), draw.floats(4))),
        Sample((draw.floats(2, 3), draw.floats(4, 3), None)),
        Sample((draw.floats(0, 3), draw.floats(4, 3), draw.floats(4))),
    ]


def _conv(stride=(1, 1), low=(0, 0), high=(0, 0), dilation=(1, 1), groups=1):
    return {"stride": stride, "low": low, "high": high, "dilation": dilation, "groups": groups}


@entry("conv2d")
def _(draw):
    f = draw.floats
    return [
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 2), f(3)), _conv()),
        Sample((f(2, 2, 5, 6), f(3, 2, 3, 3), None), _conv(stride=(2, 1), low=(1, 0), high=(1, 2))),
        Sample((f(1, 4, 5, 5), f(6, 2, 2, 2), f(6)), _conv(dilation=(2, 1), groups=2)),
        Sample((f(2, 3, 3, 3), f(4, 3, 1, 1), f(4)), _conv()),
        Sample((f(2, 3, 3, 3), f(8, 3, 3, 3), f(8)), _conv()),
    ]


def _pool(kernel, stride, padding=(0, 0)):
    return {"kernel": kernel, "stride": stride, "padding": padding}


@entry("max_pool2d")
def _(draw):
    return [
        Sample((draw.apart(2, 2, 4, 6),), _pool((2, 2), (2, 2)) | {"dilation": (1, 1)}),
        Sample((draw.apart(2, 1, 5, 5),), _pool((3, 2), (2, 1), (1, 1)) | {"dilation": (1, 1)}),
        Sample((draw.apart(1, 1, 6, 6),), _pool((2, 2), (1, 1)) | {"dilation": (2, 1)}),
    ]


@entry("avg_pool2d")
def _(draw):
    plain = {"count_borders": True, "divisor": 0}
    return [
        Sample((draw.apart(2, 2, 4, 6),), _pool((2, 2), (2, 2)) | plain),
        Sample((draw.apart(2, 1, 5, 5),), _pool((3, 2), (2, 1), (1, 1)) | plain),
        Sample(
            (draw.apart(2, 1, 5, 5),),
            _pool((3, 2), (2, 1), (1, 1)) | plain | {"count_borders": False},
        ),
        Sample((draw.apart(1, 1, 5, 6),), _pool((5, 5), (1, 1)) | plain | {"divisor": 3}),
    ]


# -- normalisation, probabilities and losses -----------------------------------------------------------------


@entry("softmax", "log_softmax")
def _(draw):
    cases = [((3, 4), (1,)), ((3, 4), (0,)), ((2, 3, 4), (1,)), ((5,), (0,))]
    return [Sample((draw.floats(*s),), {"axis": a}) for s, a in cases]


@entry("layer_norm")
def _(draw):
    return [
        Sample((draw.floats(3, 4), draw.floats(4), draw.floats(4)), {"axes": (1,), "eps": 1e-5}),
        Sample((draw.floats(2, 3, 4), draw.floats(3, 4), None), {"axes": (1, 2), "eps": 1e-3}),
        Sample((draw.floats(3, 4), None, None), {"axes": (1,), "eps": 1e-5}),
    ]


@entry("cross_entropy", "nll_loss")
def _(draw):
    found = []
    for reduction in ("mean", "sum", "none"):
        target = draw.ints(5, low=0, high=4)
        statics = {"reduction": reduction, "ignore_index": -100}
        found.append(Sample((draw.floats(5, 4), target), statics))
        ignored = target.copy()
        ignored[2] = -100
        found.append(Sample((draw.floats(5, 4), ignored), statics))
    return found


def _reductions_of(make: Callable[[], tuple], **statics: Any) -> list[Sample]:
    return [Sample(make(), {"reduction": r, **statics}) for r in ("mean", "sum", "none")]


@entry("mse_loss", "l1_loss")
def _(draw):
    return _reductions_of(lambda: (draw.apart(3, 4), draw.apart(3, 4, shift=0.013)))


@entry("smooth_l1_loss", "huber_loss")
def _(draw):
    return _reductions_of(lambda: (draw.apart(3, 4), draw.apart(3, 4, shift=0.013), 0.2))


@entry("binary_cross_entropy")
def _(draw):
    p = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    return _reductions_of(lambda: (p(), p(), None)) + _reductions_of(lambda: (p(), p(), p()))


@entry("binary_cross_entropy_with_logits")
def _(draw):
    t = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    plain = _reductions_of(lambda: (draw.apart(3, 4), t(), None, None))
    return plain + _reductions_of(lambda: (draw.apart(3, 4), t(), t(), draw.floats(4, low=0.5)))


@entry("kl_div")
def _(draw):
    p = lambda: draw.floats(3, 4, low=0.1, high=0.9)  # noqa: E731
    logs = _reductions_of(lambda: (np.log(p()), np.log(p())), log_target=True)
    return _reductions_of(lambda: (np.log(p()), p()), log_target=False) + logs


# -- random --------------------------------------------------------------------------------------------------


def _bits(draw: Draw, *shape: int) -> np.ndarray:
    return np.asarray(draw.rng.integers(0, 2**64, shape, dtype=np.uint64))


@entry("random_bits")
def _(draw):
    return [
        Sample((7, 3), {"shape": s, "dtype": np.dtype(np.uint64)}) for s in ((5,), (2, 3), (), (0,))
    ]


@entry("uniform", "normal")
def _(draw):
    return [
        Sample((_bits(draw, *s),), {"dtype": np.dtype(np.float64)})
        for s in ((9,), (2, 3), (), (0,))
    ]


@entry("bounded")
def _(draw):
    return [Sample((_bits(draw, 9), 0, 10)), Sample((_bits(draw, 2, 3), -3, 4))]


@entry("dropout_with")
def _(draw):
    return [Sample((draw.apart(3, 4), 7, 3, 0.4)), Sample((draw.apart(5), 7, 4, 0.0))]


# -- optimizer updates ---------------------------------------------------------------------------------------


@entry("sgd_update")
def _(draw):
    return [
        Sample((draw.floats(3, 4), draw.floats(3, 4), 0.1, 0.01), {"decay": d})
        for d in (False, True)
    ]


@entry("momentum_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4)
    numbers = 0.1, 0.01, 0.9, 0.2
    return [
        Sample((*arrays, *numbers), {"decay": d, "nesterov": n, "first": f})
        for d, n, f in [(False, False, True), (True, False, False), (True, True, False)]
    ]


@entry("adam_update")
def _(draw):
    arrays = draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4), draw.floats(3, 4, low=0.01)
    rest = np.asarray(3.0), 0.1, 0.9, 0.999, 1e-8, 0.01
    return [Sample((*arrays, *rest), {"decay": d}) for d in ("", "l2", "decoupled")]
