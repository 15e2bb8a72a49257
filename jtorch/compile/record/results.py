"""What a recorded function gave: which of its results are computed, and which are there without that."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from jtorch.compile.graph.ir import Atom, Var
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.reach import holds_sizes
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.record.numpy_arrays import NumpyArray
from jtorch.compile.record.opaque import is_made_anew
from jtorch.compile.record.returned import (
    Again,
    Argument,
    ArrayOf,
    Container,
    Copy,
    GradOf,
    Number,
    Output,
    Part,
    Result,
    Same,
    ShapeOf,
    SizeOf,
    ViewOf,
    ViewOfGrad,
    ViewOnTape,
)
from jtorch.compile.record.shared_memory import overlap
from jtorch.compile.record.sym import Sym
from jtorch.compile.record.tape import is_freed, nodes_under
from jtorch.compile.record.trace import Tracer, normal
from jtorch.compile.record.tree import Shared
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, user_source
from jtorch.core.op import BY_NAME, Op
from jtorch.core.sizes import settled
from jtorch.eager.evaluate import EAGER
from jtorch.eager.node import BACKWARD_TWICE, Node
from jtorch.eager.rebase import FromFunction, OneOfSeveral, steps_of
from jtorch.eager.tensor import Size, Tensor, wrap


def results_of(
    tracer: Tracer, observer: Observer, outs: list[Any]
) -> tuple[list[Result], list[Atom], list[Tensor]]:
    """(what each of ``outs`` is, the graph's outputs for those computed, those that carry a graph outside)"""
    arrays = _with_tensors(outs)
    _add_bases(outs, {id(storage) for storage in _shown_in_parts(outs)})
    atoms: list[Atom] = []
    seen: dict[int, int] = {}  # id of a tensor -> which result it was
    cells: dict[int, int] = {}  # id of a version cell -> the first result that has it
    whole: dict[int, int] = {}  # id of a storage -> which result is all of it
    grads = {id(now): tensor for tensor, _, now in tracer.grads.values() if now is not None}
    shown = _memory_of_gradients(tracer)
    for k, out in enumerate(outs):
        is_new = isinstance(out, Tensor) and isinstance(out._data, Sym) and id(out) not in tracer.rebound
        if is_new and not out._data.chain:
            whole.setdefault(id(out._data.storage), k)
    order = sorted(range(len(outs)), key=lambda k: k not in whole.values())
    found: dict[int, Result] = {}
    memory: dict[int, int] = {}  # id of a storage -> the output that is all of it
    for storage in _shown_in_parts([o for k, o in enumerate(outs) if k not in whole.values()]):
        if id(storage) not in whole:
            memory[id(storage)] = len(atoms)
            atoms.append(storage.current)
    for k in order:
        out = outs[k]
        if isinstance(out, Tensor) and id(out) in seen:
            found[k] = Again(seen[id(out)])
        elif id(out) in tracer.rebound:
            found[k] = Same(out)
        elif (of := _of_grad(out, shown)) is not None:
            found[k] = ViewOfGrad(of, out._data.chain, out._base is not None)
        elif isinstance(out, Tensor) and isinstance(out._data, Sym) and id(out) not in tracer.places:
            storage = id(out._data.storage)
            found[k] = _traced_result(
                tracer, observer, out, len(atoms), grads.get(id(out)), memory.get(storage)
            )
            if isinstance(found[k], Output):
                if whole.get(storage) == k:
                    memory[storage] = len(atoms)
                atoms.append(tracer.read(out._data))
            if isinstance(found[k], (Output, Part)) and out._base is None:
                cells.setdefault(id(out._cell), k)
        elif isinstance(out, Scalar):
            found[k] = Number(len(atoms))
            atoms.append(out.var)
        elif id(out) in arrays:
            found[k] = ArrayOf(arrays[id(out)], out.is_number)
        elif is_symbolic(out):
            found[k] = SizeOf(out)
        elif id(out) in observer.numbers:
            found[k] = Container(observer.numbers[id(out)])
        elif id(out) in tracer.places:
            found[k] = Argument(tracer.places[id(out)])
        elif isinstance(out, Tensor) and tracer.made(out):  # x.detach()
            alias = _alias(tracer, out)
            if alias is None:  # a custom Function gave it back as it was
                raise _more_than_views(tracer, out)
            found[k] = alias
        elif tracer.has_symbols and type(out) is Size and any(map(is_symbolic, out)):
            found[k] = ShapeOf(out)
        elif tracer.has_symbols and holds_sizes(out):
            raise Exact(f"it keeps or returns a {type(out).__name__} that holds a size")
        else:
            is_new = is_made_anew(observer, out)
            if is_new and type(out) is np.ndarray:
                _check_apart(tracer, out)
            found[k] = Copy(out) if is_new else Same(out)
        seen.setdefault(id(out), k)
    results = [found[k] for k in range(len(outs))]
    for k, (out, result) in enumerate(zip(outs, results, strict=True)):
        if isinstance(result, Part):
            _hang(result, out, k, seen, cells)
    alive = [outs[k] for k, r in enumerate(results) if r.requires_grad]
    under = [nodes_under(out._node) for out in alive if out._node is not None]
    for out, result in zip(outs, results, strict=True):
        if isinstance(result, ViewOnTape):
            result.inner = any(out._node in nodes for nodes in under)
    return results, atoms, alive


def _check_apart(tracer: Tracer, out: np.ndarray) -> None:
    """Raise for a view of an array from outside, of which a replay would give a copy."""
    if any(np.may_share_memory(out, entry.array) for entry in tracer.arrays.values()):
        raise CompileError(
            f"'{tracer.name}' returns a view of a NumPy array from outside, which may be another each time: "
            "return its .copy(), or take the view outside."
        )


def _with_tensors(outs: list[Any]) -> dict[int, int]:
    """Add to ``outs`` tensors over what its arrays lie in; by id of an array, which of ``outs`` that is."""
    found: dict[int, int] = {}
    for out in [*outs]:
        if type(out) is NumpyArray and id(out) not in found:
            found[id(out)] = len(outs)
            outs.append(wrap(out.memory if out.is_number else out.shared()))
    return found


def _add_bases(outs: list[Any], shared: set[int]) -> None:
    """Add to ``outs`` the tensors that those over the ``shared`` storages are views of, which nobody else may
    hold: what is written to a view moves them on the tape."""
    known = {id(out) for out in outs}
    for out in list(outs):
        if isinstance(out, Tensor) and isinstance(out._data, Sym) and out._base is not None:
            base = out._base
            made = isinstance(base._data, Sym) and base._data.storage is out._data.storage
            if made and id(base._data.storage) in shared and id(base) not in known:
                known.add(id(base))
                outs.append(base)


def _hang(result: Part, out: Tensor, k: int, seen: dict[int, int], cells: dict[int, int]) -> None:
    """Note what ``result``, the tensor ``out``, is a view of, or else shares its version with."""
    if out._base is None:
        first = cells.get(id(out._cell), k)
        result.cell = None if first == k else first
        return
    result.base = seen.get(id(out._base))
    if result.base is not None:
        found = _steps(out)
        if found is not None and found[0] is out._base:
            result.steps = found[1]


def _steps(out: Tensor) -> tuple[Tensor, tuple] | None:
    """(the tensor that ``out`` is a view of, (op, statics, place among several) for each step from there), as
    far as the views are recorded. None where one was made under no_grad, or by a custom Function, or was
    given other memory since."""
    steps: list[tuple] = []
    view = out
    while isinstance(view._data, Sym) and view._base is not None:
        how = view._how
        if how is None or how.__class__ is FromFunction:
            return None
        several = (how.place, how.name) if how.__class__ is OneOfSeveral else None
        view, made = steps_of(how)
        for op, statics in reversed(made):
            steps.append((op, {name: normal(static) for name, static in statics.items()}, several))
    steps.reverse()
    return (view, tuple(steps)) if not steps or _leads_to(out._data, view, steps) else None


def _leads_to(sym: Any, root: Tensor, steps: list[tuple]) -> bool:
    """Whether ``steps`` from ``root``, as it lies in memory now, give what ``sym`` shows: either may have
    been given other memory (.data =) since the view was made."""
    now = sym.tracer.lift(root._data)
    return now.storage is sym.storage and _texts((*now.chain, *steps)) == _texts(sym.chain)


def _texts(chain: Sequence[tuple]) -> list[tuple]:
    """A chain of views to be compared with others: to compare its sizes themselves would ask for them."""
    return [
        (_renamed(op), sorted((name, _text(static)) for name, static in statics.items()))
        for op, statics, *_ in chain
    ]


def _text(static: Any) -> str:
    if isinstance(static, (tuple, list)):
        return f"({', '.join(map(_text, static))})"
    return static.text if is_symbolic(static) else repr(normal(static))


def _renamed(op: Op) -> str:
    """The name of the view that ``op`` is, perhaps under another name."""
    return op.name if op.renames is None else _renamed(BY_NAME[op.renames])


def _memory_of_gradients(tracer: Tracer) -> dict[int, tuple[Tensor, Tensor]]:
    """id of a storage -> (the gradient that is all of it, the tensor from outside whose gradient that is)"""
    grads = ((now, tensor) for tensor, _, now in tracer.grads.values() if now is not None)
    traced = ((now, tensor) for now, tensor in grads if isinstance(now._data, Sym) and not now._data.chain)
    return {id(now._data.storage): (now, tensor) for now, tensor in traced if not tracer.made(tensor)}


def _of_grad(out: Any, shown: dict[int, tuple[Tensor, Tensor]]) -> Tensor | None:
    """The tensor from outside of whose gradient ``out`` shows the memory, without being that gradient."""
    if type(out) is not Tensor or out._requires_grad or not isinstance(out._data, Sym):
        return None
    grad, of = shown.get(id(out._data.storage), (out, None))
    return None if grad is out else of


def _alias(tracer: Tracer, tensor: Tensor) -> ViewOf | None:
    """``tensor`` as a result, where it was made inside over memory from outside, e.g. by ``detach()``."""
    sym: Any = tracer.lift(tensor._data)
    source = sym.storage.source
    if source is None or tensor._node is not None or tensor._base is not None:
        return None
    own = any(tensor._cell is cell for _, cell in tracer.begun.values())
    version = tensor._version if own else None
    return ViewOf(source, tensor, sym.chain, tensor._requires_grad, type(tensor), version=version)


def _is_from_outside(tracer: Tracer, observer: Observer, tensor: Tensor) -> bool:
    return id(tensor) in tracer.places or is_read(observer, tensor)


def is_read(observer: Observer, tensor: Tensor) -> bool:
    """Whether the function has found ``tensor`` outside: others over such memory it has made itself."""
    modules = [*observer.relied.met.values(), *observer.relied.handed.values()]
    held = [t for m in modules for t in (*m._parameters.values(), *m._buffers.values())]
    return any(value is tensor for value in (*(r.value for r in observer.reads.values()), *held))


def _viewed(out: Tensor) -> Tensor | None:
    """The leaf that ``out`` is a view of, if its graph is nothing but that, and nobody hooked into it."""
    target: Any = out._node
    while isinstance(target, Node):
        op = getattr(type(target), "op", None)
        edge = target.edges[0] if target.edges else None
        if op is None or not op.aliases or target.foreign or target.extras is not None or edge is None:
            return None
        target = edge[0]
    return target


def grads_of_made(tracer: Tracer, values: list[Any]) -> list[tuple[Tensor, Tensor]]:
    """(tensor, its grad) for those of ``values`` that the function made, and for such gradients in turn; and
    for leaves of which nothing but the gradient is among ``values``, where a later ``backward()`` adds to it.
    """
    found: dict[int, tuple[Tensor, Tensor]] = {}
    tensors = [t for t in values if isinstance(t, Tensor)]
    stack = [*reversed(tensors), *_leaves_of_shown_gradients(tracer, tensors)]
    while stack:
        tensor = stack.pop()
        grad = tracer.grads.get(id(tensor), (None, None, None))[2]
        if grad is not None and id(tensor) not in found and tracer.made(tensor):
            found[id(tensor)] = tensor, grad
            stack.append(grad)
    return list(found.values())


def _leaves_of_shown_gradients(tracer: Tracer, tensors: list[Tensor]) -> list[Tensor]:
    """The leaves under ``tensors`` that the function made, and of whose gradients these show the memory."""
    pairs = ((tensor, grad) for tensor, _, grad in tracer.grads.values() if grad is not None)
    made = {id(t): (t, grad) for t, grad in pairs if tracer.made(t) and isinstance(grad._data, Sym)}
    shown = {id(t._data.storage) for t in tensors if isinstance(t._data, Sym)}
    mine = {k: t for k, (t, grad) in made.items() if id(grad._data.storage) in shown}  # type: ignore[attr-defined]
    if not mine:
        return []
    alive = {t._node for t in tensors if t._node is not None and not is_freed(t._node)}
    nodes = {node for top in alive for node in nodes_under(top)}
    edges = {id(edge[0]) for node in nodes for edge in node.edges if edge is not None}
    return [t for k, t in mine.items() if k in edges]


def with_plain_keys(structure: Any) -> Any:
    """``structure`` with numbers as keys of dicts where float arguments are: as keys they are guarded."""
    if structure == "*" or isinstance(structure, Shared):
        return structure
    cls, names, parts = structure
    if names is not None:
        names = type(names)(float(name) if isinstance(name, Scalar) else settled(name) for name in names)
    return cls, names, tuple(map(with_plain_keys, parts))


def _shown_in_parts(outs: list[Any]) -> list[Any]:
    """The memory made by the function of which two results show some of the same elements, or of which one
    shows elements that do not lie row by row: it has the strides of eager mode."""
    views: dict[int, list[tuple[Any, tuple, tuple]]] = {}
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
        views.setdefault(id(storage), []).append((storage, shape, out._data.chain))
    for views_of_one in views.values():
        if len(views_of_one) > 1:
            addresses = [_addresses(shape, chain) for _, shape, chain in views_of_one]
            if any(overlap(a, b) for a, b in itertools.combinations(addresses, 2)):
                storage, *_ = views_of_one[0]
                shared[id(storage)] = storage
    return list(shared.values())


_BYTE = np.zeros(1, np.bool_)


def _addresses(shape: tuple[int, ...], chain: tuple) -> np.ndarray:
    """Where the elements of a view lie in memory of ``shape``: an array of bytes that nobody may read."""
    strides = [int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
    view = np.lib.stride_tricks.as_strided(_BYTE, shape, strides)
    for op, statics in chain:
        view = op.body(EAGER.xp, view, **statics)
    return view


def _more_than_views(tracer: Tracer, out: Tensor) -> CompileError:
    made = None if out._node is None else tracer.graphs.made.get(out._node)
    return CompileError(
        f"{made or user_source()}: '{tracer.name}' returns memory of a tensor from outside with a graph that "
        "is more than views of it: return its .clone()"
    )


def _view_of_outside(tracer: Tracer, observer: Observer, out: Tensor) -> ViewOf:
    """A traced tensor without a graph over the memory of one from outside."""
    sym: Any = out._data
    made = ViewOf(sym.storage.source, out, sym.chain, out._requires_grad and out._node is None, type(out))
    known = _steps(out)
    if known is not None and known[1]:
        if _is_from_outside(tracer, observer, known[0]):
            made.root, made.steps = known
        elif alias := _alias(tracer, known[0]):
            made.base, made.steps = alias, known[1]
    elif out._base is not None and not _is_from_outside(tracer, observer, out._base):
        made.base = _alias(tracer, out._base)
    return made


def outside_of_gradients(tracer: Tracer, observer: Observer) -> None:
    """Note with the tracer the gradients that show memory from outside without being the tensor that has it:
    a replay makes them anew, as views."""
    for tensor, at_entry, now in tracer.grads.values():
        if now is None or now is at_entry or tracer.made(tensor) or not tracer.made(now):
            continue
        if id(now) in tracer.places or tracer.lift(now._data).storage.source is None:
            continue
        traced = isinstance(now._data, Sym)
        shown = _view_of_outside(tracer, observer, now) if traced else _alias(tracer, now)
        if shown is not None:
            tracer.shown_grads[id(now)] = shown


def _traced_result(
    tracer: Tracer, observer: Observer, out: Tensor, index: int, grad_of: Tensor | None, memory: int | None
) -> Result:
    """A traced tensor as a result: ``index`` is the next output, ``grad_of`` the tensor whose grad it is,
    ``memory`` the output that is the whole of the same memory."""
    sym: Any = out._data
    source = sym.storage.source
    on_tape = out._requires_grad and out._node is not None
    freed = on_tape and is_freed(out._node)
    graph = on_tape and not freed
    if source is not None:
        if not graph:
            return _view_of_outside(tracer, observer, out)
        viewed = _viewed(out)
        if viewed is None or (viewed._data is not source.array):
            raise _more_than_views(tracer, out)
        return ViewOnTape(viewed, sym.chain)
    if grad_of is not None and not graph and not tracer.made(grad_of):
        return GradOf(grad_of)
    about: dict[str, Any] = {
        "requires_grad": graph,
        "broken": BACKWARD_TWICE if freed else "",
        "retains_grad": out.retains_grad,
        "version": out._version,
    }
    about |= {"is_leaf": out._requires_grad and out._node is None, "cls": type(out)}
    if memory is not None:
        return Part(memory, chain=sym.chain, **about)
    return Output(index, **about)
