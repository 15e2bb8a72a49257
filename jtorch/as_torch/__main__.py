"""``python -m jtorch.as_torch [--report] script.py arguments...`` or ``... -m module arguments...``"""

from __future__ import annotations

import importlib.util
import runpy
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from jtorch.as_torch.aliases import install
from jtorch.as_torch.missing import reason
from jtorch.as_torch.report import lines
from jtorch.core.command import run

USAGE = (
    "usage: python -m jtorch.as_torch [--report] script.py [arguments ...]\n"
    "       python -m jtorch.as_torch -m module [arguments ...]\n\n"
    "Runs a PyTorch script on jtorch. --report lists the names of PyTorch that jtorch lacks, without running."
)


def run_script(path: str, arguments: list[str]) -> int:
    """Run the file as Python does."""
    source = Path(path).read_bytes()
    module = types.ModuleType("__main__")
    module.__file__, module.__builtins__ = str(Path(path).absolute()), __builtins__  # type: ignore[attr-defined]
    sys.modules["__main__"] = module
    sys.argv = [path, *arguments]
    sys.path[0] = str(Path(path).resolve().parent)
    return _as_script(lambda: exec(compile(source, path, "exec"), module.__dict__))


def _as_script(program: Callable[[], Any]) -> int:
    """0, or 1 after an exception, which is printed without this module's frames."""
    try:
        program()
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        _explain(error)
        trace = _of_script(error.__traceback__)
        error.__traceback__ = trace
        sys.excepthook(type(error), error, trace)
        return 1
    return 0


def _of_script(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback without the frames of this package: of the run at its head, of the hook at its end."""
    frames = []
    while trace is not None:
        if Path(trace.tb_frame.f_code.co_filename).parent != Path(__file__).parent:
            frames.append(trace)
        trace = trace.tb_next
    kept = None
    for part in reversed(frames):
        kept = types.TracebackType(kept, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return kept


def _explain(error: BaseException) -> None:
    """Say of a missing method of a tensor or module that it is jtorch that lacks it."""
    owner: Any = getattr(error, "obj", None)
    if isinstance(error, AttributeError) and not isinstance(owner, types.ModuleType) and owner is not None:
        kind = owner if isinstance(owner, type) else type(owner)
        if kind.__module__.partition(".")[0] in ("jtorch", "torch"):
            error.add_note(f"jtorch has no torch.{kind.__name__}.{error.name}: {reason('torch')}")


def _is_there(module: str) -> bool:
    sys.path[0] = str(Path.cwd())
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError as error:  # of the package that it is to be in
        if error.name is None or not module.startswith(error.name):
            raise
        return False


def main(arguments: list[str]) -> int:
    report = arguments[:1] == ["--report"]
    rest = arguments[1:] if report else arguments
    if not rest or rest == ["-m"] or rest[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if rest and rest != ["-m"] else 2
    if rest[0] != "-m" and not Path(rest[0]).is_file():
        said = f"python -m jtorch.as_torch: can't open file {rest[0]!r}: no such file"
        print(f"{said}\n{USAGE}", file=sys.stderr)
        return 2
    install()
    if report:
        print("\n".join(lines(Path(rest[0]).read_text(encoding="utf-8"), rest[0])))
        return 0
    if rest[0] == "-m":
        if not _is_there(rest[1]):
            print(f"python -m jtorch.as_torch: no module named {rest[1]!r}", file=sys.stderr)
            return 2
        sys.argv, sys.path[0] = rest[1:], str(Path.cwd())
        return _as_script(partial(runpy.run_module, rest[1], run_name="__main__", alter_sys=True))
    return run_script(rest[0], rest[1:])


if __name__ == "__main__":
    sys.exit(run(partial(main, sys.argv[1:]), "python -m jtorch.as_torch"))
