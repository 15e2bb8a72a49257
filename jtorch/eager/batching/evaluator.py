"""The evaluator that computes each op for all examples at once, by the evaluator below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.op import BY_NAME, TABLE, Evaluator, Kind, Op
from jtorch.eager.batching import layers, ordering, places, products, views  # noqa: F401 - the rules
from jtorch.eager.batching.filling import TABLE_RULES
from jtorch.eager.batching.loop import gradients_looped
from jtorch.eager.batching.rules import rule_of
from jtorch.eager.batching.values import DYNAMIC, ESCAPED, Batched, MappedAxis, Pending

RANDOM = (
    "vmap: called random operation while in randomness error mode. Please either use the 'same' or "
    "'different' randomness flags on vmap or perform the randomness operation out of vmap"
)
WRITTEN = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
    "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
    "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
    "arithmetic."
)
BACKWARD = (
    "backward() called inside a function that vmap maps, for a tensor that all examples share. This is not "
    "supported: use jtorch.func.grad or jtorch.func.vjp instead, or call backward() outside."
)
OVERLAPPING = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory "
    "location. Please clone() the tensor before performing the operation."
)


class _Written:
    """What stands for a tensor where memory is written: that of all examples, and its version cell."""

    __slots__ = ("_cell", "_data")

    def __init__(self, data: Any, cell: list) -> None:
        self._data = data
        self._cell = cell


class _Table(dict):
    """The ops by number, each made when it is asked for: most programs use few."""

    def __init__(self, batching: Batching) -> None:
        self.batching = batching

    def __missing__(self, index: int) -> Callable:
        found = self[index] = _evaluating(self.batching, TABLE[index])
        return found


class _Namespace:
    """``xp`` over batches: primitives are taken from the table when they are asked for."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def __getattr__(self, name: str) -> Any:
        op = BY_NAME.get(name)
        if op is None or op.kind is Kind.COMPOSITE:
            raise AttributeError(f"no op of the dialect is called {name!r}")
        found = self._table[op.index]
        setattr(self, name, found)
        return found


def _evaluating(batching: Batching, op: Op) -> Callable:
    """What computes ``op`` on values, batched or not."""
    special = TABLE_RULES.get(op.name)
    if special is not None:
        return special(batching, op)
    axis, below, rule = batching.axis, batching.table_below[op.index], rule_of(op)
    if batching.sums and _is_linear(op):
        rule = _put_off(rule)

    def evaluate(*values: Any, **statics: Any) -> Any:
        for v in values:
            if isinstance(v, Batched) and v.axis is axis:
                return rule(batching, op, values, statics)
        return below(*values, **statics)

    return evaluate


def _is_linear(op: Op) -> bool:
    """Whether it may as well be computed of the sum of a batch."""
    return op.kind is Kind.VIEW or op.renames == "permute" or op.name == "sum"


def _put_off(rule: Callable) -> Callable:
    """``rule`` for a single value that may be pending, and then stays so."""

    def put_off(batching: Batching, op: Op, values: tuple, statics: dict[str, Any]) -> Any:
        (first, *others) = values
        if others or first.__class__ is not Pending:
            return rule(batching, op, values, statics)
        ((dtype, shape),) = op_module.infer(op, [first.dtype], [tuple(first.shape)], statics)
        return Pending(
            batching.axis, dtype, shape, lambda: rule(batching, op, values, statics).value,
            lambda: batching.table_below[op.index](first.summed(), **statics),
        )  # fmt: skip

    return put_off


class Batching(Evaluator):
    """Computes values of which some have the batch axis ``axis``, by the evaluator ``below``.

    ``sums``: what all examples share gets the sum of its gradients, so these need not be computed one by one.
    """

    def __init__(self, axis: MappedAxis, below: Evaluator, sums: bool = False) -> None:
        self.axis = axis
        self.below = below
        self.table_below = below.table
        self.xp_below = below.xp
        self.sums = sums
        self.table: Any = _Table(self)
        self.xp = _Namespace(self.table)
        self.reads_elements = below.reads_elements
        self.counts_masks = below.counts_masks

    runs_nodes = False
    skips_table = False
    narrows = False  # rules are those of the table

    def __getattr__(self, name: str) -> Any:
        """What evaluators of a kind alone have."""
        return getattr(self.below, name)

    # -- values ------------------------------------------------------------------------------------------

    def has(self, value: Any) -> bool:
        """Whether ``value`` has this batch axis."""
        return isinstance(value, Batched) and value.axis is self.axis

    def wrap(self, value: Any) -> Batched:
        """A value with the batch axis first as one of each example."""
        if value.__class__ is not np.ndarray:
            value = self.below.as_value(value)
        return Batched(value, self.axis)

    def wrapped(self, op: Op, out: Any) -> Any:
        """What ``op`` gave for the batch."""
        return self.wrap(out) if op.n_outputs == 1 else tuple([self.wrap(o) for o in out])

    def front(self, value: Any, ndim: int) -> Any:
        """``value`` to be broadcast with batches of examples that have ``ndim`` axes."""
        if not (isinstance(value, Batched) and value.axis is self.axis):
            return value
        missing = ndim - value.ndim
        if missing <= 0:
            return value.value
        return self.xp_below.unsqueeze(value.value, axes=tuple(range(1, 1 + missing)))

    def whole(self, value: Any, shape: tuple | None = None) -> Any:
        """``value`` with the batch axis, repeated along it where all examples share it; of examples of this
        ``shape`` if it broadcasts to one."""
        shape = tuple(value.shape) if shape is None else tuple(shape)
        if self.has(value):
            if tuple(value.shape) == shape:
                return value.value
            return self.xp_below.expand(self.front(value, len(shape)), shape=(self.axis.size, *shape))
        return self.xp_below.expand(self.below.as_value(value), shape=(self.axis.size, *shape))

    # -- the evaluator's duties -----------------------------------------------------------------------------

    def as_value(self, value: Any) -> Any:
        return value if isinstance(value, Batched) else self.below.as_value(value)

    def new(self, array: np.ndarray) -> Any:
        return self.below.new(array)

    def move(self, value: Any, device: Any, later: bool = False) -> Any:
        if self.has(value):
            return self.wrap(self.below.move(value.value, device, later))
        return self.below.move(value, device, later)

    def namespace(self, value: Any) -> Any:
        return self.xp if self.has(value) else self.below.namespace(value)

    def namespace_at(self, place: Any) -> Any:
        return self.xp  # whose draws say which examples share one

    def limit(self, wanted: Any, targets: Any) -> None:
        self.below.limit(wanted, targets)

    def lift(self, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return tuple(map(self.lift, value))
        return value if isinstance(value, Batched) else self.below.lift(value)

    def backward(self, node: Any, xp: Any, g: Any) -> Any:
        if node.takes_arrays and any(map(self.has, g if isinstance(g, list) else (g,))):
            return gradients_looped(self, node, g)
        if node.foreign or self.reads_elements:
            return node.backward(xp, g)
        return node.vjp(xp, g, *map(self.lift, node.check_saved()))  # all of it is recorded

    def like(self, value: Any, of: Any) -> Any:
        if not self.has(of):
            return self.below.like(value, of)
        if self.has(value):
            return value
        return self.wrap(self.below.like(self.xp_below.clone(self.whole(value)), of.value))

    def every(self, value: Any) -> Any:
        if self.has(value):
            value = self.below.as_value(self.xp_below.all(value.value, axis=(0,), keepdims=False))
        return self.below.every(value)

    def write(self, tensor: Any, value: Any) -> None:
        data = tensor._data
        if not self.has(data):
            if self.has(value):
                raise RuntimeError(WRITTEN)
            self.below.write(tensor, value)
            return
        target = data.value
        if target.__class__ is np.ndarray and not target.strides[0] and target.shape[0] > 1:
            raise RuntimeError(OVERLAPPING)
        if hasattr(value, "shape"):
            value = self.whole(value, data.shape)
        self.below.write(_Written(target, tensor._cell), value)

    def concrete(self, value: Any, wanted_by: str) -> Any:
        return (
            value.concrete(wanted_by) if isinstance(value, Batched) else self.below.concrete(value, wanted_by)
        )

    def own(self, value: Any, given: set[int]) -> Any:
        if self.has(value):
            return Batched(self.xp_below.clone(value.value), self.axis)
        return self.below.own(value, given)

    def window(self, value: Any) -> tuple[Any, int]:
        return self.below.window(value.value if self.has(value) else value)

    def knows(self, value: Any) -> bool:
        return self.has(value) or self.below.knows(value)

    def places_of_mask(self, mask: Any) -> Any:
        if self.has(mask):
            raise RuntimeError(DYNAMIC.format(wanted_by="a boolean mask"))
        return self.below.places_of_mask(mask)

    def repeated_places(self, repeats: Any) -> Any:
        if self.has(repeats):
            raise RuntimeError(DYNAMIC.format(wanted_by="repeat_interleave()"))
        return self.below.repeated_places(repeats)

    def next_call(self, generator: Any) -> tuple[Any, Any]:
        if self.axis.randomness == "error":
            raise RuntimeError(RANDOM)
        found = self.below.next_call(generator)
        if self.axis.randomness == "different":
            self.axis.drawn.append(found)
        return found

    def exchange(self, collective: Any, values: Sequence[Any]) -> Any:
        if any(map(self.has, values)):
            raise RuntimeError(ESCAPED)
        return self.below.exchange(collective, values)

    def scan(self, steps: Any, count: int, reverse: bool) -> Any:
        """Step by step: the turn of a loop would have to know of the batch."""
        self.below.unrolls("a scan inside vmap", count, "Map the function of a step instead.")

    def while_loop(self, turns: Any, bound: int) -> Any:
        """Turn by turn, while one example goes on."""
        from jtorch.eager.batching import turns as of_batches

        return of_batches.while_loop(self, turns, bound)

    # -- gradients of tensors --------------------------------------------------------------------------------

    def get_grad(self, tensor: Any) -> Any:
        return tensor._grad if isinstance(tensor._data, Batched) else self.below.get_grad(tensor)

    def set_grad(self, tensor: Any, grad: Any) -> None:
        if isinstance(tensor._data, Batched):
            tensor._grad = grad
            return
        if grad is not None and self.has(grad._data):
            raise RuntimeError(BACKWARD)
        self.below.set_grad(tensor, grad)

    def add_to_grad(self, before: Any, g: Any) -> Any:
        if isinstance(before._data, Batched) or self.has(g):
            return None
        return self.below.add_to_grad(before, g)

    def takes_grad(self, leaf: Any) -> bool:
        return bool(leaf._requires_grad) if self.has(leaf._data) else self.below.takes_grad(leaf)

    # -- what is not about values ----------------------------------------------------------------------------

    def follows(self, array: Any) -> bool:
        return self.below.follows(array)

    def lends(self, array: Any) -> bool:
        return self.below.lends(array)

    def walk(self, targets: Iterable[Any]) -> None:
        self.below.walk(targets)

    def check_text(self) -> None:
        self.below.check_text()

    def is_argument(self, tensor: Any) -> bool:
        return not self.has(tensor._data) and self.below.is_argument(tensor)

    def outside(self, owner: Any = None) -> AbstractContextManager:
        return self.below.outside(owner)

    def runs_again(self, function: Callable, goes_back: bool = False) -> None:
        self.below.runs_again(function, goes_back)

    def picked(self, tensor: Any, of: Any, indices: tuple, axes: tuple[int, ...]) -> None:
        if not any(map(self.has, (tensor._data, of._data, *indices))):
            self.below.picked(tensor, of, indices, axes)

    def scalar(self, container: Any, key: Any) -> Any:
        return self.below.scalar(container, key)

    def option(self, container: Any, key: Any) -> Any:
        return self.below.option(container, key)

    def keep(self, container: Any, key: Any, value: Any) -> None:
        self.below.keep(container, key, value)

    @property
    def afterwards(self) -> Callable | None:  # type: ignore[override]
        return self.below.afterwards

    def unrolls(self, what: str, times: int, way_out: str) -> None:
        self.below.unrolls(what, times, way_out)

    def refuse(self, what: str, way_out: str) -> None:
        self.below.refuse(what, way_out)

    def made(self, tensor: Any) -> bool:
        return self.has(tensor._data) or self.below.made(tensor)

    def rebinding(self, tensor: Any, value: Any) -> None:
        if not self.has(tensor._data):
            self.below.rebinding(tensor, value)
