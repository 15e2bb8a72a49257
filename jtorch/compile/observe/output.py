"""Output: what a function prints, logs and writes to streams.

What a call puts out each replay puts out when it has ended, see ``output_effects.py``. Where that cannot be,
it runs eagerly, or, where that is not wanted (``fullgraph=True``), is let through with a warning, once for
each line: it happens when the function is recorded, not later. What a stream from
outside is asked or made to do otherwise (reading, seeking, closing) the program may rest on: that is refused.
What a class of the user's does with a text that it is given to write is watched, and done again.
"""

from __future__ import annotations

import logging
import types
from typing import Any, NamedTuple

from jtorch.compile.observe.attributes import find
from jtorch.compile.observe.guards import MISSING, AttributeRead
from jtorch.compile.observe.kinds import FUNCTIONS, Kind, kind_of
from jtorch.compile.observe.observer import Observer
from jtorch.compile.observe.output_effects import LEVEL_OF, Call, append_later, is_stream, put_off
from jtorch.compile.observe.scalar import Scalar
from jtorch.compile.observe.stepping import Stop
from jtorch.core.dim import is_symbolic
from jtorch.core.environment import Exact

_WRITING = frozenset({"write", "writelines", "flush", "writerow", "writerows", "writeheader"})
_ASKING = frozenset({"isatty", "fileno", "readable", "writable", "seekable"})
_TELLING = frozenset({
    ("builtins", "print"), ("sys", "displayhook"), ("sys", "excepthook"), ("pprint", "pprint"),
    ("pprint", "pp"), ("json", "dump"), ("pickle", "dump"), ("_pickle", "dump"), ("_csv", "writer"),
    ("csv", "DictWriter"), ("dis", "dis"), ("dis", "disassemble"), ("dis", "show_code"),
    ("syslog", "syslog"), ("traceback", "print"),
})  # fmt: skip
_LOGGING = ("logging", "warnings", "_warnings")
_LEVELS = frozenset({"isEnabledFor", "getEffectiveLevel"})
_LEVEL_OF = {**LEVEL_OF, "exception": 40}
_SILENT = frozenset({"getLogger", "getLevelName", "makeRecord", "hasHandlers", "LoggerAdapter", "LogRecord"})


class _Called(NamedTuple):
    """A call that is about to be made; ``owner`` is the stream whose method that is."""

    stop: Stop
    callee: Any
    args: list[Any]
    names: tuple[str, ...]
    owner: Any = None


def see_output(stop: Stop, callee: Any, args: list[Any], names: tuple[str, ...]) -> bool:
    """``callee(*args)`` is about to be called, which is no user's, with the last of ``args`` by ``names``;
    whether nothing else is to be seen there. Raises CompileError for a stream that is not only written to."""
    is_late = stop.observer.late_texts.are_in(args)
    if is_late and append_later(stop, callee, args):
        return True
    seen = _see(_Called(stop, callee, args, names))
    if is_late and not seen:  # a stream or list that the function made
        raise _text_is_late(stop.observer, stop.frame, callee, args)
    return seen


def _see(called: _Called) -> bool:
    stop, callee, args, *_ = called
    observer, frame = stop.observer, stop.frame
    name, module = getattr(callee, "__name__", ""), str(getattr(callee, "__module__", None))
    owner = _owner(callee, args)
    if module.partition(".")[0] in _LOGGING:
        return _see_logging(observer, frame, name, module, owner, called)
    if is_stream(owner):
        return _see_stream(observer, frame, name, owner, called._replace(owner=owner))
    streams = [value for value in args if is_stream(value)]
    outside = [value for value in streams if id(value) in observer.outside]
    if _tells(module, name) and (outside or not streams):
        _say(observer, frame, f"calls {name}()", called)
        return True
    if outside:
        raise observer.error(
            frame,
            f"hands a {type(outside[0]).__name__} from outside to {name}(), which a recording would do once",
            _ELSEWHERE,
        )
    others = kind_of(type(owner)) in (Kind.FOREIGN, Kind.ITERATOR)
    if name in _WRITING and others and id(owner) in observer.outside:
        _say(observer, frame, f"calls {name}() of a {type(owner).__name__}")
        return True
    for value in args:
        _see_handed(observer, frame, value)
    return False


def see_call_out(stop: Stop) -> None:
    """A function is about to run that is disabled for compiling: what it puts out comes in the middle of
    each call, and may not come before what the compiled function has put out by then."""
    if any(isinstance(place, Call) for place in stop.observer.effects.places):
        raise stop.observer.error(
            stop.frame,
            "calls a function that is disabled for compiling after it has put something out, which a replay "
            "does when it has ended",
            "Put it out after that call.",
        )


_UNUSED = "Call it on a list from outside and leave its result unused, or do that outside."
_ELSEWHERE = "Do that outside, or in a function that is disabled for compiling (jtorch.compiler.disable)."


def _say(observer: Observer, frame: types.FrameType, text: str, called: _Called | None = None) -> None:
    """It is about to put something out. Each call does so when it has ended, if that can be."""
    if called is not None:
        if put_off(*called):
            return
        if observer.late_texts.are_in(called.args):
            raise _text_is_late(observer, frame, called.callee, called.args)
    if not observer.whole:
        raise observer.error(frame, f"{text}, which a recording would do once", _ELSEWHERE)
    observer.warn(frame, text)


def _text_is_late(
    observer: Observer, frame: types.FrameType, callee: Any, args: list[Any]
) -> BaseException:  # fmt: skip
    """What to raise for a text, or elements, of what only a replay knows that are not put off."""
    values = observer.late_texts.values_in(args)
    if any(issubclass(type(value), Scalar) for value in values):
        return next(v for v in values if issubclass(type(v), Scalar)).refuse("a text")
    if any(map(is_symbolic, values)):
        return Exact("it makes a text of a size")
    if not _has_text(args):
        name = getattr(callee, "__name__", "a function")
        text = f"hands the elements of a tensor, which only a replay knows, to {name}()"
        return observer.error(frame, text, _UNUSED)
    return observer.error(frame, "makes the text of a tensor, which only a replay knows", _ELSEWHERE)


def _has_text(value: Any) -> bool:
    return type(value) is str or (type(value) in (list, tuple) and any(map(_has_text, value)))


def _owner(callee: Any, args: list[Any]) -> Any:
    """The object of which a method is called, None for a function."""
    owner = getattr(callee, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        return owner
    name = getattr(callee, "__name__", "")
    is_method = args and not isinstance(callee, type) and find(type(args[0]), name) is not MISSING
    return args[0] if is_method else None


def _tells(module: str, name: str) -> bool:
    return (module, name) in _TELLING or (module == "traceback" and name.startswith("print_"))


def _see_stream(
    observer: Observer, frame: types.FrameType, name: str, stream: Any, called: _Called | None = None
) -> bool:
    if id(stream) not in observer.outside:
        return False
    if name in _WRITING:
        _say(observer, frame, f"calls {name}() of a {type(stream).__name__}", called)
    elif name not in _ASKING:
        raise observer.error(
            frame,
            f"calls {name}() of a {type(stream).__name__} from outside, which a recording would do once",
            _ELSEWHERE,
        )
    return True


def _see_handed(observer: Observer, frame: types.FrameType, function: Any) -> None:
    """``map(print, names)``, ``map(file.write, lines)``: somebody else calls it."""
    if not isinstance(function, FUNCTIONS) or isinstance(function, types.FunctionType):
        return
    name, module = getattr(function, "__name__", ""), str(getattr(function, "__module__", None))
    owner = getattr(function, "__self__", None)
    if is_stream(owner):
        _see_stream(observer, frame, name, owner)
    elif _tells(module, name) or (isinstance(owner, logging.Logger) and name in _LEVEL_OF):
        _say(observer, frame, f"hands over {name}(), which is called")


def _see_logging(
    observer: Observer, frame: types.FrameType, name: str, module: str, owner: Any, called: _Called
) -> bool:
    args = called.args
    if isinstance(owner, logging.Logger):
        level = _LEVEL_OF.get(name)
        if name == "log" and len(args) > 1 and isinstance(args[1], int):
            level = args[1]
        if name in _LEVELS:
            _read_levels(observer, frame, owner)
            return True
        if level is not None and not owner.isEnabledFor(level):
            _read_levels(observer, frame, owner)
            return True
    if name not in _SILENT:
        _say(observer, frame, f"calls {module.removeprefix('_')}.{name}()", called)
    return True


def _read_levels(observer: Observer, frame: types.FrameType, logger: Any) -> None:
    """What decides whether a logger says something: levels up to the root's, and the manager's."""
    observer.read(AttributeRead, frame, logger.manager, "disable", logger.manager.disable)
    while logger is not None:
        for name in ("level", "disabled", "parent"):
            observer.read(AttributeRead, frame, logger, name, getattr(logger, name))
        logger = logger.parent
