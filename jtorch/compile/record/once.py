"""What eager mode computes once, and keeps: the first call of a function that ``functools`` caches.

It runs while the recording is at the call, as plain Python: what it changes and draws is changed and drawn
once, and what it gives is then one from outside. It may not see what the compiled function has changed until
then, which is written when the call ends, nor change what that has read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.compile.observe.observer import quietly
from jtorch.compile.observe.reach import reached
from jtorch.compile.observe.relied import names_of
from jtorch.compile.record.callees import Watchful
from jtorch.core import op as op_module, watch
from jtorch.core.environment import Exact
from jtorch.core.errors import CompileError, Source


class Once:
    """``name``, which the compiled function ``caller`` asks for the first time at ``source``."""

    def __init__(self, name: str, source: Source | None, caller: str) -> None:
        self.name, self.source, self.caller = name, source, caller

    def error(self, does: str, way_out: str = "") -> CompileError:
        return CompileError(
            f"{self.source}: '{self.caller}' asks '{self.name}' for the first time, whose result functools "
            f"caches, and it {does}. Call it once before, outside, or compute that without a cache."
        )


def run_once(
    tracer: Any, observer: Any, source: Source | None, name: str, function: Any, args: Any, call: Callable
) -> bool:
    """Run ``call()``, which runs ``function`` for ``args`` and keeps what it gives; False where it may see
    what was written before, or is run by a later backward(): it must be recorded then."""
    if observer.has_symbols:  # it would run once more where these very sizes have to be recorded
        raise Exact(f"{name} runs for the first time, which a recording does once")
    if tracer.on_the_way_back or tracer.generators.seeded or observer.drawn.draws:
        return False
    if _may_see_what_is_written(tracer, observer, function, args):
        return False
    positions = _positions(tracer)
    broken = {id(read) for read in observer.reads.values() if not read.holds()}  # by what it wrote itself
    once = Once(name, source, tracer.name)
    before = op_module.CONTEXT.get()
    journal, seeding = watch.journal.get(), watch.seeding.get()
    try:  # before the change: Ctrl-C may come right after it
        op_module.CONTEXT.set(before.replace(evaluator=Watchful(once, tracer)))
        watch.journal.set(None)
        watch.seeding.set(None)
        with watch.listening() as heard, observer.as_met.keeping():
            quietly(call)()
    except Exception as error:
        if isinstance(error, CompileError):
            raise
        raise once.error(f"raises {type(error).__name__} ({error})") from error
    finally:
        after = op_module.CONTEXT.get()
        op_module.CONTEXT.set(before)
        watch.journal.set(journal)
        watch.seeding.set(seeding)
    if _positions(tracer) != positions:
        raise once.error("seeds a random generator that the compiled function draws from, too")
    if after.mode != before.mode or _has_changed_what_is_relied_on(observer, heard):
        raise once.error("changes a module, an optimizer or a mode")
    for read in [r for r in observer.reads.values() if id(r) not in broken and not r.holds()]:
        raise once.error(f"changes {read.label()}, which '{tracer.name}' has read before")
    return True


def _may_see_what_is_written(tracer: Any, observer: Any, function: Any, args: Any) -> bool:
    places = [*tracer.written_places(), *observer.effects.stood_in.values()]
    return reached((function, args), places) is not None


def _positions(tracer: Any) -> list[tuple[int, int]]:
    return [(e.generator.key, e.generator.call) for e in tracer.generators.entries.values()]


def _has_changed_what_is_relied_on(observer: Any, heard: watch.Listener) -> bool:
    """Whether any of what was told is about what code of the library's, which is not watched, may have read:
    of modules that the recording has come upon, and of optimizers and their groups."""
    modules = (*observer.relied.met.values(), *observer.relied.handed.values())
    own = {id(module.__dict__): module for module in modules}
    known = {id(held) for module in modules for held in module.__dict__.values()} | observer.outside.keys()

    def counts(container: Any, key: Any) -> bool:
        module = own.get(id(container))
        if module is None or key is watch.WHOLE or id(module) in observer.relied.handed:
            return container is None or module is not None or id(container) in known
        return key in names_of(type(module))

    return not heard.is_as_before(counts)
