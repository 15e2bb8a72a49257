"""Which ops share machine code for their usual case, and what it must know of each: see ``op_code.py``."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

from jtorch.core import op as op_module
from jtorch.core.op import Op
from jtorch.eager import unusual, views
from jtorch.eager.binding import UNCHANGED, shares_memory
from jtorch.eager.evaluate import EAGER
from jtorch.eager.machine.function import Record
from jtorch.eager.node import node_class, watched
from jtorch.eager.source import CASTING, needs_floats, refuses_two_bools, takes_numbers
from jtorch.eager.tensor import Tensor
from jtorch.native.immortal import live_forever

_MOST_ARRAYS, _MOST_STATICS, _MOST_SAVED, MOST_DIMS = 3, 8, 10, 4


class Form(NamedTuple):
    """What decides the code."""

    arrays: int
    casts: bool  # whether the arguments are brought to one dtype: numbers may stand beside tensors then
    view: str  # "", "view", or "relabels" where the memory may also be new

    @property
    def function(self) -> str:
        """The name of the function."""
        casts = "casts" if self.casts else "as_is"
        return f"jtorch_shortcut_{self.arrays}_{casts}_{self.view or 'new'}"


def form(op: Op) -> Form | None:
    """The form of ``op``; None where it has no shortcut."""
    if op.variadic or op.n_outputs > 1 or not 1 <= len(op.arrays) <= _MOST_ARRAYS or op.dtype == "where":
        return None
    if len(op.statics) > _MOST_STATICS or len(op.save_list) > _MOST_SAVED:
        return None
    view = "" if not op.aliases else "relabels" if op.relabels else "view"
    return Form(len(op.arrays), op.dtype in CASTING, view)


_OBJECTS: dict[str, Any] = {
    "shape": sys.intern("shape"), "none": None, "true": True, "false": False, "zero": 0,
    "unchanged": UNCHANGED, "list": list, "array": np.ndarray, "tensor": Tensor, "float": float,
    "int": int, "variable": op_module.CONTEXT, "table": EAGER.table, "watchers": unusual.WATCHERS,
    "complex_watcher": unusual.give_complex_class, "as_value": EAGER.as_value,
    "shares_memory": shares_memory, "unlisted": views.UNLISTED, "forget_dead": views.forget_dead,
    "float32": np.dtype(np.float32), "float64": np.dtype(np.float64), "int64": np.dtype(np.int64),
}  # fmt: skip
_OWN = (
    "op", "node_class", "names",  # the last: of the statics
    "index",  # in the evaluator's table
    "numbers",  # whether one may stand beside tensors
    "floats", "no_bools",  # what tensors it takes
    "own_dtype",  # whether the result may be no real number where the arguments are: then never on the tape
    "needs", "shapes",  # what else than arrays it saves
    "statics", "saved", "watched",  # how many; the last: of what was saved and could be changed
)  # fmt: skip
RECORD = Record(_OBJECTS, _OWN)
SAVED = RECORD.size  # places in the pool
WATCHED = SAVED + 8 * _MOST_SAVED  # pairs: an argument (or OUT), the one whose gradient wants it (or -1)
LAST = WATCHED + 16 * _MOST_SAVED  # the metadata of the last node, with the dtype and dims in it
LAST_DTYPE, LAST_NDIM, LAST_DIMS = LAST + 8, LAST + 16, LAST + 24

# The pool is what a node may save: the arguments, the statics, and from here the result and facts
OUT = _MOST_ARRAYS + _MOST_STATICS
NEEDS, SHAPES = OUT + 1, OUT + 2
POOL = SHAPES + _MOST_ARRAYS


def record(op: Op) -> np.ndarray:
    """The record of ``op``."""
    own_dtype = not isinstance(op.dtype, str) or op.dtype == "static"
    taped = op.vjp_function is not None and op.differentiable and not own_dtype
    names = tuple(op.statics)
    made = node_class(op) if taped else None
    for thing in (op, made, names):
        live_forever(thing)
    pool = {name: k for k, name in enumerate((*op.arrays, *op.statics))} | {"out": OUT, "needs": NEEDS}
    pool |= {f"{name}_shape": SHAPES + k for k, name in enumerate(op.arrays)}
    saved = [pool[name] for name in op.save_list] if taped else []
    pairs = [(pool[name], pool.get(op.saved_for.get(name, ""), -1)) for name in watched(op) if taped]
    own: dict[str, int] = {
        "op": id(op), "node_class": id(made) if taped else 0, "names": id(names) if names else 0,
        "index": op.index, "numbers": takes_numbers(op), "floats": needs_floats(op),
        "no_bools": refuses_two_bools(op), "own_dtype": own_dtype,
        "needs": "needs" in op.save_list, "shapes": any(k >= SHAPES for k in saved),
        "statics": len(op.statics), "saved": len(saved), "watched": len(pairs),
    }  # fmt: skip
    words = saved + [0] * (_MOST_SAVED - len(saved))
    words += [word for pair in pairs for word in pair] + [0] * 2 * (_MOST_SAVED - len(pairs))
    return RECORD.new(own, *words, 0, 0, -1, *[0] * MOST_DIMS)
