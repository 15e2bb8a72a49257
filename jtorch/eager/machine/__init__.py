"""Machine code for the usual case of eager mode, from the Python text that describes it.

The function of an op that ``eager/source.py`` writes does the whole of it in Python: unwrap, cast, compute,
wrap, hang a node. ``machine_source`` writes the way through it that nearly all calls take, which gives None
where something is not as usual, so that the Python that follows does it all. Ops whose text is the same share
a function. For the backward pass there are ``backward_source`` of ``eager/node.py`` and the loops of
``eager/passes.py``. ``native/subset`` translates all of them; here is what their texts call by name.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import logging
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jtorch.core import config
from jtorch.core.device_array import DeviceArray
from jtorch.core.narrow import narrow_ops, narrowed
from jtorch.core.op import TABLE, Context, Op
from jtorch.eager import formulas, node, passes, results, unusual, views
from jtorch.eager.binding import NAMESPACE
from jtorch.eager.machine import usual
from jtorch.eager.node import Node, backward_source, node_class
from jtorch.eager.source import machine_source
from jtorch.eager.tensor import Tensor
from jtorch.native import cache, cache_files, layout
from jtorch.native.builtin import make_builtin
from jtorch.native.cache import Written
from jtorch.native.immortal import live_forever
from jtorch.native.loader import Effort
from jtorch.native.subset.words import Field, Words

if TYPE_CHECKING:
    from jtorch.native.subset.unit import Unit

_log = logging.getLogger("jtorch.shortcuts")

_DECIDING = (
    "core/op.py", "ops/*.py", "native/subset/*.py", "native/llvm_text.py", "native/layout.py",
    "native/builtin.py", "eager/machine/*.py", "eager/source.py", "eager/node.py", "eager/results.py",
    "eager/passes.py", "eager/unusual.py", "core/casting.py", "core/narrow.py",
)  # fmt: skip
_LOOPS = (passes.count_edges, passes.propagate)
_HELPERS = (
    results.off_tape, results.on_tape, results.edge_of, results.note_view, usual.usual_context,
    usual.uncast_context, passes.add_to, passes.hand_on,
)  # fmt: skip
_MOST_STATICS = 8

_ATTRIBUTES = (
    "_base", "_cell", "_data", "_grad", "_hooks", "_how", "_index", "_node", "_requires_grad", "append",
    "as_value", "autocast", "base", "check_saved", "dtype", "edges", "evaluator", "extras", "get", "grad",
    "kind", "metadata", "pop", "saved", "shape", "table", "versions",
)  # fmt: skip
_LITERALS = (None, True, False, 0, 1, 2, 3, 4, 5, 63, -1, "b", "c", "f", "fcV", ())
_BUILTINS = ("dict", "float", "int", "len", "list", "tuple")
_OWN = ("op", "Node_", "INDEX", "keywords", "vjp", "of_16_bits")
_WORDS = Words({
    **{repr(value): value for value in _LITERALS},
    **{f".{name}": sys.intern(name) for name in _ATTRIBUTES},
    **{name: getattr(builtins, name) for name in _BUILTINS},
    **NAMESPACE,
    "Context": Context, "Node": Node, "GRADIENTS": node.GRADIENTS, "weak_reference": weakref.ref,
    "UNLISTED": views.UNLISTED, "forget_dead_views": views.forget_dead, "EAGER_TABLE": usual.EAGER_TABLE,
    "HOST_TABLE": usual.HOST_TABLE, "DeviceArray": DeviceArray,
    "ONLY_COMPLEX": unusual.ONLY_COMPLEX, "slot_of": passes.slot_of, "add_in_place": passes.add_in_place,
    "sum_of_16_bits": passes.sum_of_16_bits,
}, _OWN)  # fmt: skip
_NUMBERS = {name: getattr(passes, name) for name in ("LEFT", "GRAD", "TARGET", "META", "OWNED", "LEAF")}


def shortcut(op: Op) -> Callable | None:
    """A builtin that takes the arrays and then the statics of ``op``, all by position, or None.

    Compiled once a machine and kept in the cache. None where nothing can be compiled or kept, and where
    objects are laid out otherwise.
    """
    if not _has_usual_case(op):
        return None
    return _builtin(op, machine_source(op), None if op.vjp_function is None else node_class(op))


def backward(op: Op) -> Callable | None:
    """A builtin that does what ``backward`` of the nodes of ``op`` does, or None."""
    return _builtin(op, backward_source(op), None)


def prepare() -> None:
    """Have all of it at hand before something is timed, or observed."""
    _addresses()


def engine_loops() -> tuple[Callable, Callable] | None:
    """``count_edges`` and ``propagate`` of ``eager/passes.py``, or None."""
    addresses = _addresses()
    if not addresses:
        return None
    record = _WORDS.record(**dict.fromkeys(_OWN))
    count, propagate = (make_builtin(f.__name__, addresses[f.__name__], record) for f in _LOOPS)
    return count, propagate


def _has_usual_case(op: Op) -> bool:
    plain = not op.variadic and op.n_outputs == 1 and bool(op.arrays)
    return plain and op.dtype != "where" and len(op.statics) <= _MOST_STATICS


def _builtin(op: Op, text: str, made: type[Node] | None) -> Callable | None:
    addresses = _addresses() if op.narrows is None else _addresses_of_16_bits()
    address = addresses.get(_symbol(text))
    if address is None:
        return None
    own: dict[str, Any] = {
        "op": op, "Node_": made, "INDEX": op.index, "keywords": tuple(op.statics),
        "vjp": formulas.gradient(op), "of_16_bits": None,
    }  # fmt: skip
    if op not in narrowed():
        return make_builtin(f"{op.name}_shortcut", address, _WORDS.record(**own))
    place = _WORDS.place("of_16_bits") // 8

    def at_first_call(*arguments: Any) -> Any:
        of_16_bits = live_forever(shortcut(narrowed()[op]) or _nothing)
        record[place] = id(of_16_bits)
        return of_16_bits(*arguments)

    record = _WORDS.record(**own | {"of_16_bits": at_first_call})
    return make_builtin(f"{op.name}_shortcut", address, record)


def _nothing(*arguments: Any) -> None:
    """What has Python see to it."""


def _symbol(text: str) -> str:
    return f"jtorch_eager_{cache_files.digest(text.encode()).hex()[:16]}"


def _addresses() -> dict[str, int]:
    """Where each function is; nothing where there are none."""
    return _built(("engine", "shortcuts"))


def _addresses_of_16_bits() -> dict[str, int]:
    """The same of ops of 16 bits, which few programs have."""
    return _built(("engine", "shortcuts of 16 bits"))


@functools.cache
def _built(names: tuple[str, ...]) -> dict[str, int]:
    unusual = layout.unusual() if config.jitted() else "JTORCH_JIT is 0"
    fields = _fields()
    if unusual or not fields:
        _log.info("eager ops take Python's way, without machine code: %s", unusual or "slots lie elsewhere")
        return {}
    if cache_files.open_folder(warn=False) is None:
        return {}
    try:
        identity = f"{_sources()} {layout.facts()} {fields} {_WORDS.places} {_NUMBERS}"
        engine, ops = cache.get_or_build_all_written_ir(
            [
                Written(identity, names[0], lambda: _engine(fields).text(), Effort.REGISTERS, is_floor=True),
                Written(identity, names[1], lambda: _ops(fields, _OPS[names[1]]()).text(), Effort.QUICK),
            ]
        )
        return engine | ops
    except (RuntimeError, ImportError, OSError):  # no source, LLVM refuses it, or is not there
        return {}


def _fields() -> dict[str, Field]:
    """What the texts read in structs; nothing where a slot lies elsewhere."""
    fields = {"dtype": Field("ndarray", layout.ARRAY_DTYPE)}
    for cls in (Context, Node, Tensor):
        places = layout.slots(cls)
        if not places:
            return {}
        for slot, place in places.items():
            fields[slot] = Field(cls.__name__, place, "ndarray" if slot == "_data" else "")
    return fields


def _sources() -> str:
    """What stands for all that decides the texts and their translation. Raises OSError without source."""
    package = Path(inspect.getfile(cache)).parents[1]
    paths = [path for pattern in _DECIDING for path in sorted(package.glob(pattern))]
    if len(paths) < len(_DECIDING):
        raise FileNotFoundError(f"no source in {package}, by which machine code is told apart")
    return cache_files.digest(*(path.read_bytes() for path in paths)).hex()


def _engine(fields: dict[str, Field]) -> Unit:
    """The loops, and what all ops call: few functions, worth more of LLVM than the ops."""
    from jtorch.native.subset.unit import Unit  # 20 ms that only the first process pays

    unit = Unit(_WORDS, fields, _NUMBERS)
    for helper in _HELPERS:
        unit.add_helper(inspect.getsource(helper))
    for loop in _LOOPS:
        unit.add(loop.__name__, inspect.getsource(loop))
    _add_all(unit, {backward_source(op) for op in TABLE if op.vjp_function is not None and not op.variadic})
    return unit


_OPS: dict[str, Callable[[], Sequence[Op]]] = {"shortcuts": lambda: TABLE, "shortcuts of 16 bits": narrow_ops}


def _ops(fields: dict[str, Field], ops: Sequence[Op]) -> Unit:
    from jtorch.native.subset.unit import Unit

    unit = Unit(_WORDS, fields, _NUMBERS, floor=_engine(fields))
    _add_all(unit, {machine_source(op) for op in ops if _has_usual_case(op)})
    return unit


def _add_all(unit: Unit, texts: set[str]) -> None:
    for text in sorted(texts):
        try:
            unit.add(_symbol(text), text)
        except SyntaxError as why:
            _log.info("an op takes Python's way, without machine code: %s", why)
