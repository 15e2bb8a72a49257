"""``FlopCounterMode``: the floating point operations of products, convolutions and attention, by module.

A multiplication and the addition after it are two; all else that a program computes is not counted.
Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/flop_counter.py
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from math import prod
from typing import Any

from jtorch.compat import aten
from jtorch.core.op import BY_NAME, Op
from jtorch.eager.public import WatchOfAll
from jtorch.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

_SUFFIXES = ("", "K", "M", "B", "T")
_Counts = Iterator[tuple[str, int]]  # PyTorch's name of an op, how many operations


# -- forward: of the values of an op -------------------------------------------------------------------------


def conv_flop_count(x_shape: Any, w_shape: Any, out_shape: Any, transposed: bool = False) -> int:
    """The operations of a convolution, or of a transposed one; those with padding count as all do.

    >>> from jtorch.utils.flop_counter import conv_flop_count
    >>> conv_flop_count((1, 3, 8, 8), (6, 3, 3, 3), (1, 6, 6, 6))  # 2 * 36 places * 9 * 3 * 6
    11664
    """
    c_out, c_in, *kernel = w_shape
    places = (x_shape if transposed else out_shape)[2:]
    return 2 * prod(places) * prod(kernel) * x_shape[0] * c_out * c_in


def _kind(x: Any, y: Any) -> str:
    """One product of matrices, or a batch of them."""
    return "mm" if len(x.shape) <= 2 or len(y.shape) <= 2 else "bmm"


def _of_matmul(values: Any, out: Any, statics: Any) -> _Counts:
    x, y = values
    yield _kind(x, y), 2 * prod(out.shape) * x.shape[-1]


def _of_addmm(values: Any, out: Any, statics: Any) -> _Counts:
    yield "addmm", 2 * prod(out.shape) * values[1].shape[-1]


def _of_linear(values: Any, out: Any, statics: Any) -> _Counts:
    x, _, bias = values
    yield "mm" if bias is None else "addmm", 2 * prod(out.shape) * x.shape[-1]


def _of_dot_general(values: Any, out: Any, statics: Any) -> _Counts:
    inner = prod(values[0].shape[a] for a, _ in statics["inner"])
    yield "bmm" if statics["batch"] else "mm", 2 * prod(out.shape) * inner


def _of_scores(values: Any, out: Any, statics: Any) -> _Counts:
    yield "bmm", 2 * prod(out.shape) * values[0].shape[-1]


def _of_convolution(values: Any, out: Any, statics: Any) -> _Counts:
    x, weight, _ = values
    yield "convolution", conv_flop_count(x.shape, weight.shape, out.shape)


def _of_transposed(values: Any, out: Any, statics: Any) -> _Counts:
    x, weight, _ = values
    yield "convolution", conv_flop_count(x.shape, weight.shape, out.shape, True)


def _of_recurrence(values: Any, out: Any, statics: Any) -> _Counts:
    """What the states are multiplied by in all steps. (The input's part is a product before it.)"""
    x, weight, *others = values
    projection = prod(others[0].shape) if len(others) == 3 and others[0] is not None else 0
    yield "mm", 2 * x.shape[0] * (prod(weight.shape) + projection)


def _of_gru(values: Any, out: Any, statics: Any) -> _Counts:
    x, weight, *_ = values
    yield "mm", 2 * x.shape[0] * prod(weight.shape)


_FORWARD: dict[str, Callable[[Any, Any, Any], _Counts]] = {
    "matmul": _of_matmul, "mm": _of_matmul, "bmm": _of_matmul, "addmm": _of_addmm, "linear": _of_linear,
    "dot_general": _of_dot_general, "attention_weights": _of_scores, "convolution": _of_convolution,
    "convolution_input": _of_transposed, "rnn_layer": _of_gru, "gru_layer": _of_gru,
    "lstm_layer": _of_recurrence,
}  # fmt: skip


# -- backward: of a gradient and what was saved for it -------------------------------------------------------


def _back_matmul(g: Any, x: Any, y: Any, needs: Any, **_: Any) -> _Counts:
    for _needed in filter(None, needs):
        yield _kind(x, y), 2 * prod(g.shape) * x.shape[-1]


def _back_addmm(g: Any, x: Any, needs: Any, **_: Any) -> _Counts:
    for _needed in filter(None, needs[1:]):
        yield "mm", 2 * prod(g.shape) * x.shape[-1]


def _back_linear(g: Any, x: Any, needs: Any, **_: Any) -> _Counts:
    for _needed in filter(None, needs[:2]):
        yield "mm", 2 * prod(g.shape) * x.shape[-1]


def _back_dot_general(g: Any, x: Any, needs: Any, batch: Any, inner: Any, **_: Any) -> _Counts:
    for _needed in filter(None, needs):
        yield "bmm" if batch else "mm", 2 * prod(g.shape) * prod(x.shape[a] for a, _ in inner)


def _back_scores(g: Any, q: Any, needs: Any, **_: Any) -> _Counts:
    for _needed in filter(None, needs[:2]):
        yield "bmm", 2 * prod(g.shape) * q.shape[-1]


def _turned(shape: Any) -> list[int]:
    return [shape[1], shape[0], *shape[2:]]


def _back_convolution(g: Any, x: Any, weight: Any, needs: Any, **_: Any) -> _Counts:
    if needs[0]:
        yield "convolution_backward", conv_flop_count(g.shape, weight.shape, x.shape, True)
    if needs[1]:
        found = conv_flop_count(_turned(x.shape), _turned(g.shape), _turned(weight.shape))
        yield "convolution_backward", found


def _back_transposed(g: Any, x: Any, weight: Any, needs: Any, **_: Any) -> _Counts:
    if needs[0]:
        yield "convolution_backward", conv_flop_count(g.shape, weight.shape, x.shape)
    if needs[1]:
        found = conv_flop_count(_turned(g.shape), _turned(x.shape), _turned(weight.shape))
        yield "convolution_backward", found


def _back_recurrence(g: Any, out0: Any, weight: Any, needs: Any, projection: Any = None, **_: Any) -> _Counts:
    once = 2 * out0.shape[0] * (prod(weight.shape) + (0 if projection is None else prod(projection.shape)))
    yield "mm", once  # from step to step
    if needs[1]:
        yield "mm", once


_BACKWARD: dict[str, Callable[..., _Counts]] = {
    "matmul": _back_matmul, "mm": _back_matmul, "bmm": _back_matmul, "addmm": _back_addmm,
    "linear": _back_linear, "dot_general": _back_dot_general, "attention_weights": _back_scores,
    "convolution": _back_convolution, "convolution_input": _back_transposed, "rnn_layer": _back_recurrence,
    "gru_layer": _back_recurrence, "lstm_layer": _back_recurrence,
}  # fmt: skip


# -- formulas of users ---------------------------------------------------------------------------------------

_REGISTERED: dict[str, Callable[..., int]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable:
    """A decorator: the function below counts the operations of ``targets``, one or a list of functions of
    ``torch.ops.aten``. It gets the shapes of the tensors that an op takes, and ``out_shape``.

    Raises ValueError for what is no such op or is made of others, RuntimeError where it is counted already,
    NotImplementedError for ``get_raw``.
    """
    if get_raw:
        raise NotImplementedError("register_flop_formula: get_raw=True is not there: formulas get shapes")

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            name = _op_of(target)
            if name in _REGISTERED or name in _FORWARD:
                raise RuntimeError(f"duplicate registrations for {target}")
            _REGISTERED[name] = formula
        return formula

    return register


def _op_of(target: Any) -> str:
    if not isinstance(target, aten.OpOverloadPacket) or target.__name__ not in BY_NAME:
        raise ValueError(
            "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
            f"torch.ops.aten.sin) of an op that is not made of others, got {target} which is of type "
            f"{type(target)}"
        )
    return target.__name__


def _by_shapes(name: str, formula: Callable[..., int]) -> Callable[[Any, Any, Any], _Counts]:
    def counts(values: Any, out: Any, statics: Any) -> _Counts:
        yield (
            name,
            formula(*(tuple(v.shape) for v in values if hasattr(v, "shape")), out_shape=tuple(out.shape)),
        )

    return counts


# -- the mode ------------------------------------------------------------------------------------------------


class FlopCounterMode:
    """Count the operations in the ``with`` block, forward and backward; compiled functions run eagerly there.

    ``depth`` is how deep modules are shown in the table that is printed at the end, unless ``display`` is
    False; ``custom_mapping`` has formulas as ``register_flop_formula`` takes them. A product of a matrix and
    a vector is counted as one with a matrix of one column, which it is here; PyTorch has an op of its own for
    it, ``mv``, and does not. Recurrent layers and attention are counted, too.

    >>> import jtorch
    >>> from jtorch.utils.flop_counter import FlopCounterMode
    >>> layer = jtorch.nn.Linear(4, 3)
    >>> with FlopCounterMode() as counter:
    ...     layer(jtorch.ones(2, 4)).sum().backward()
    Module           FLOP    % Total
    -------------  ------  ---------
    Linear             96    100.00%
     - aten.addmm      48     50.00%
     - aten.mm         48     50.00%
    >>> counter.get_total_flops()
    96
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:  # fmt: skip
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mod_tracker = ModuleTracker()
        own = {_op_of(target): formula for target, formula in (custom_mapping or {}).items()}
        given = {name: _by_shapes(name, formula) for name, formula in (_REGISTERED | own).items()}
        self._formulas = _FORWARD | given
        self._watch = WatchOfAll(self._counting, self._count_gradient)

    def __enter__(self) -> FlopCounterMode:
        self._watch.start()
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.mod_tracker.__exit__(*exception)
        self._watch.stop()
        if self.display:
            print(self.get_table(self.depth))

    def _counting(self, op: Op, function: Callable) -> Callable:
        formula = self._formulas.get(op.name)
        if formula is None:
            return function

        def counted(*values: Any, **statics: Any) -> Any:
            out = function(*values, **statics)
            self._add(formula(values, out, statics))
            return out

        return counted

    def _count_gradient(self, node: Any, xp: Any, g: Any, compute: Callable) -> Any:
        op = getattr(node, "op", None)
        formula = _BACKWARD.get(getattr(op, "name", ""))
        if op is not None and formula is not None and node.saved is not None:
            self._add(formula(g, **dict(zip(op.save_list, node.saved, strict=True))))
        return compute(node, xp, g)

    def _add(self, counts: _Counts) -> None:
        for name, count in counts:
            for parent in self.mod_tracker.parents:
                self.flop_counts[parent][getattr(aten, name)] += count

    def get_total_flops(self) -> int:
        """All operations of the latest ``with`` block."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """``{module: {op: operations}}``, with "Global" for the whole program."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a table, of modules down to ``depth``, the mode's own where it is left out."""
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        shown = [m for m in sorted(self.flop_counts) if m != "Global" and m.count(".") < (depth or 999999)]
        rows = [row for m in shown for row in self._rows(m, m.count("."), total)]
        if "Global" not in self.flop_counts or not total:
            rows = [("Global", "0", "0%")]
        elif not any(sum(self.flop_counts[m].values()) >= total for m in shown):
            rows = [(" " + name, *numbers) for name, *numbers in rows]  # type: ignore[misc]
            rows = [*self._rows("Global", 0, total), *rows]
        return _table([("Module", "FLOP", "% Total"), *rows])

    def _rows(self, module: str, indent: int, total: int) -> list[tuple[str, str, str]]:
        counts = self.flop_counts[module]
        lines = [(module, sum(counts.values())), *((f" - {op}", n) for op, n in counts.items())]
        return [(" " * indent + name, _short(n, total), _share(n, total)) for name, n in lines]


def _short(number: int, total: int) -> str:
    """In the unit that fits the whole: 1001M, not 1.001B."""
    power = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
    return f"{number / 1000**power:.3f}{_SUFFIXES[power]}" if power else str(number)


def _share(number: int, total: int) -> str:
    return f"{number / total:.2%}" if total else "0%"


def _table(rows: list[tuple[str, str, str]]) -> str:
    widths = [max(len(row[k]) for row in rows) for k in range(3)]
    widths[1:] = [w + 2 for w in widths[1:]]
    lines = [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}".rstrip() for a, b, c in rows]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)
