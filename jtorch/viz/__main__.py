"""``python -m jtorch.viz script.py [arguments] --html page.html``: run it and draw what it compiles."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from jtorch import compiler
from jtorch.viz.page import page_of_documents

_USAGE = "usage: python -m jtorch.viz script.py [arguments] --html page.html"


def main(arguments: list[str]) -> int:
    """Run the script as ``python script.py`` does. 2 for wrong arguments, 1 where it compiled nothing."""
    if arguments.count("--html") != 1 or "--html" in (arguments[0], arguments[-1]):
        print(_USAGE, file=sys.stderr)
        return 2
    k = arguments.index("--html")
    page, rest = Path(arguments[k + 1]), [*arguments[:k], *arguments[k + 2 :]]
    held = compiler.held_from_now_on()
    sys.argv, sys.path[0] = rest, str(Path(rest[0]).resolve().parent)
    ended: int | str | None = None
    try:
        runpy.run_path(rest[0], run_name="__main__")
    except SystemExit as error:
        ended = error.code
    documents = [f.document(with_reasons=True) for f in held if any(f.plans.values())]
    if not documents:
        print(f"{rest[0]} called no compiled function", file=sys.stderr)
        return 1
    page.write_text(page_of_documents(documents), encoding="utf-8")
    print(f"{page}: {', '.join(d['function'] for d in documents)}", file=sys.stderr)
    return ended if isinstance(ended, int) else int(ended is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
