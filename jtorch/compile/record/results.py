"""What a recorded function gave: which of its results are computed, and which are there without that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Var
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.apart import overlap
from jtorch.compile.record.inputs import ArrayInput
from jtorch.compile.record.opaque import is_made_anew
from jtorch.compile.record.sym import Sym
from jtorch.compile.record.tape import is_freed
from jtorch.compile.record.trace import Tracer
from jtorch.compile.record.tree import Shared
from jtorch.core.errors import CompileError
from jtorch.eager.evaluate import EAGER
from jtorch.eager.node import BACKWARD_TWICE
from jtorch.eager.tensor import Tensor


@dataclass
class Result:
    """One leaf of what the function returned. ``kind``: "tensor" (output ``index``), "number" (output
    ``index`` as a float), "view" (memory of an outside array), "argument" (number ``index``), "again"
    (result ``index`` once more), "part" (a view of output ``index``), "grad" (what ``value.grad`` is
    after the call), "same" (``value`` itself), "copy" (a copy of it)."""

    kind: str
    index: int = -1
    value: Any = None
    requires_grad: bool = False  # has a graph, to be differentiated outside
    is_leaf: bool = False  # requires grad and has none
    cls: type = Tensor  # of a leaf
    broken: str = ""  # the error of a backward pass through it
    retains_grad: bool = False
    source: ArrayInput | None = None
    chain: tuple = ()
    version: int = 0  # how often its memory was changed in place


def results_of(
    tracer: Tracer, observer: Observer, outs: list[Any]
) -> tuple[list[Result], list[Atom], list[Tensor]]:
    """(what each of ``outs`` is, the graph's outputs for those computed, those that carry a graph outside)"""
    atoms: list[Atom] = []
    seen: dict[int, int] = {}  # id of a tensor -> which result it was
    whole: dict[int, int] = {}  # id of a storage -> which result is all of it
    grads = {id(now): tensor for tensor, _, now in tracer.grads.values() if now is not None}
    for k, out in enumerate(outs):
        if isinstance(out, Tensor) and isinstance(out._data, Sym) and not out._data.chain:
            whole.setdefault(id(out._data.storage), k)
    order = sorted(range(len(outs)), key=lambda k: k not in whole.values())
    found: dict[int, Result] = {}
    hidden: dict[int, Result] = {}  # id of a storage -> all of it, which is no result
    for storage in _shown_in_parts([o for k, o in enumerate(outs) if k not in whole.values()]):
        if id(storage) not in whole:
            hidden[id(storage)] = Result("tensor", len(atoms))
            atoms.append(storage.current)
    for k in order:
        out = outs[k]
        if isinstance(out, Tensor) and id(out) in seen:
            found[k] = Result("again", seen[id(out)])
        elif isinstance(out, Tensor) and isinstance(out._data, Sym):
            storage = id(out._data.storage)
            base = hidden.get(storage, found.get(whole.get(storage, -1)))
            found[k] = _traced_result(tracer, out, len(atoms), grads.get(id(out)), base)
            if found[k].kind == "tensor":
                atoms.append(tracer.read(out._data))
        elif isinstance(out, Scalar):
            found[k] = Result("number", len(atoms))
            atoms.append(out.var)
        elif id(out) in tracer.places:
            found[k] = Result("argument", tracer.places[id(out)])
        elif isinstance(out, Tensor) and _lies_in_argument(tracer, out):  # x.detach()
            source, is_leaf = tracer.arrays[id(out._data)], out._requires_grad
            found[k] = Result("view", source=source, value=out, is_leaf=is_leaf, cls=type(out))
        else:
            found[k] = Result("copy" if is_made_anew(observer, out) else "same", value=out)
        seen.setdefault(id(out), k)
    results = [found[k] for k in range(len(outs))]
    alive = [outs[k] for k, r in enumerate(results) if r.requires_grad]
    return results, atoms, alive


def grads_of_made(tracer: Tracer, values: list[Any]) -> list[tuple[Tensor, Tensor]]:
    """(tensor, its grad) for those of ``values`` that the function made, and for such gradients in turn."""
    found: dict[int, tuple[Tensor, Tensor]] = {}
    stack = [t for t in reversed(values) if isinstance(t, Tensor)]
    while stack:
        tensor = stack.pop()
        grad = tracer.grads.get(id(tensor), (None, None, None))[2]
        if grad is not None and id(tensor) not in found and tracer.made(tensor):
            found[id(tensor)] = tensor, grad
            stack.append(grad)
    return list(found.values())


def with_plain_keys(structure: Any) -> Any:
    """``structure`` with numbers as keys of dicts where float arguments are: as keys they are guarded."""
    if structure == "*" or isinstance(structure, Shared):
        return structure
    cls, names, parts = structure
    if names is not None:
        names = tuple(float(name) if isinstance(name, Scalar) else name for name in names)
    return cls, names, tuple(map(with_plain_keys, parts))


def _lies_in_argument(tracer: Tracer, tensor: Tensor) -> bool:
    entry = tracer.arrays.get(id(tensor._data))
    return entry is not None and entry.argument is not None


def _shown_in_parts(outs: list[Any]) -> list[Any]:
    """The memory made by the function of which two results show some of the same elements, or of which one
    shows elements that do not lie row by row: it has the strides of eager mode."""
    views: dict[int, list[tuple[Any, np.ndarray]]] = {}
    shared: dict[int, Any] = {}
    for out in {id(o): o for o in outs}.values():
        if not isinstance(out, Tensor) or not isinstance(out._data, Sym):
            continue
        storage = out._data.storage
        if storage.source is not None:
            continue
        current = storage.current
        shape = current.shape if isinstance(current, Var) else ()
        if not out._data.in_order:
            shared[id(storage)] = storage
        mine = _addresses(shape, out._data.chain)
        others = views.setdefault(id(storage), [])
        if any(overlap(mine, other) for _, other in others):
            shared[id(storage)] = storage
        others.append((out, mine))
    return list(shared.values())


_BYTE = np.zeros(1, np.bool_)


def _addresses(shape: tuple[int, ...], chain: tuple) -> np.ndarray:
    """Where the elements of a view lie in memory of ``shape``: an array of bytes that nobody may read."""
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    view = np.lib.stride_tricks.as_strided(_BYTE, shape, strides)
    for op, statics in chain:
        view = op.body(EAGER.xp, view, **statics)
    return view


def _traced_result(
    tracer: Tracer, out: Tensor, index: int, grad_of: Tensor | None, base: Result | None
) -> Result:
    """A traced tensor as a result: ``index`` is the next output, ``grad_of`` the tensor whose grad it is,
    ``base`` an earlier result that is the whole of the same memory."""
    sym: Any = out._data
    source = sym.storage.source
    on_tape = out._requires_grad and out._node is not None
    freed = on_tape and is_freed(out._node)
    graph = on_tape and not freed
    if source is not None:
        if graph:
            raise CompileError(
                f"'{tracer.name}' returns a view of a tensor from outside that requires grad: return "
                "its .clone()"
            )
        return Result("view", source=source, chain=sym.chain, value=out)
    if grad_of is not None and not graph and not tracer.made(grad_of):
        return Result("grad", value=grad_of)
    if base is not None and base.kind == "tensor":
        spent = BACKWARD_TWICE if freed else ""
        kept = out.retains_grad
        return Result(
            "part", base.index, None, graph, broken=spent, retains_grad=kept, chain=sym.chain,
            version=out._version,
        )  # fmt: skip
    is_leaf = out._requires_grad and out._node is None
    spent = BACKWARD_TWICE if freed else ""
    return Result(
        "tensor", index, None, graph, is_leaf, type(out), spent, out.retains_grad, version=out._version
    )
