"""Machine code for the usual case of eager mode: from tensors to the Tensor of a result, and back.

The function of an op that ``eager/source.py`` writes does the whole of it in Python: unwrap, cast, compute,
wrap, hang a node. Here is the way through it that nearly all calls take, for ops with one output: tensors of
one dtype that the op computes in as they are, and nothing that watches. Beside NumPy's own time that costs
half. Where something is not as expected it gives None before the op computes, and the Python that follows
does it all.

Ops of one form share a function, which ``op_code.py`` writes; what is an op's own lies in the builtin's
``self``, see ``op_record.py``. The loops of the backward pass are in ``engine_code.py``. What all of them
take for granted of the objects of Python and NumPy, ``layout.py`` tries.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

from jtorch.core import config
from jtorch.core.op import TABLE, Op
from jtorch.eager.machine import engine_code, layout, op_code, op_record
from jtorch.native import cache, cache_files
from jtorch.native.builtin import DATA_OFFSET, make_builtin


def shortcut(op: Op) -> Callable | None:
    """A builtin that takes the arrays and then the statics of ``op``, all by position, or None.

    Compiled once a machine (0.5 s for all of them together) and kept in the cache. None where nothing can be
    compiled or kept, and where objects are laid out otherwise.
    """
    form = op_record.form(op)
    address = None if form is None else _addresses().get(form.function)
    if address is None:
        return None
    return make_builtin(f"{op.name}_shortcut", address, op_record.record(op))


def prepare() -> None:
    """Have all of it at hand before something is timed, or observed."""
    _addresses()


def engine_loops() -> tuple[Callable, Callable] | None:
    """What the engine runs in place of the loops of ``_count_dependencies`` and ``_work``, or None."""
    addresses = _addresses()
    if not addresses:
        return None
    record = engine_code.RECORD.new({})
    count, propagate = (make_builtin(name, addresses[name], record) for name in engine_code.NAMES)
    return count, propagate


@functools.cache
def _addresses() -> dict[str, int]:
    """Where each function is; nothing where there are none."""
    if not config.jitted() or cache_files.open_folder(warn=False) is None:
        return {}
    places = layout.places()
    if places is None:
        return {}
    forms = sorted({form for op in TABLE if (form := op_record.form(op)) is not None})

    def write() -> str:
        functions = [*(op_code.OpCode(form, places) for form in forms), *engine_code.functions(places)]
        return "\n".join(function.text() for function in functions)

    texts = [path.read_text() for path in sorted(Path(__file__).parent.glob("*.py"))]
    if not texts:  # installed without its source: nothing would tell one version's code from another's
        return {}
    decisive = "\n".join([*texts, f"{forms} {places} {engine_code.SLOT} {DATA_OFFSET}"])
    try:
        return cache.get_or_build_written_ir(decisive, "shortcuts", write)
    except (RuntimeError, ImportError, OSError):  # LLVM refuses it, or is not there
        return {}
