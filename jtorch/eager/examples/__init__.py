"""Examples of the public functions, in tables of plain text; ``show`` appends them to the docstrings.

A paragraph of a table begins with the names that share the example: ``add`` of the module ``jtorch`` and of
Tensor, ``linalg.inv`` of another module. They are apart from the functions because most of these come from
declarations of a few lines, where an example would be longer than what it is about. As text they are read in
a third of the time that it takes to import them as modules, which was 1.2 % of ``import jtorch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType
from typing import Any

FOLDER = Path(__file__).parent


def _read() -> Iterator[tuple[str, str]]:
    """(name, example) of all tables."""
    for file in sorted(FOLDER.glob("*.txt")):
        _, *paragraphs = file.read_text("ascii").rstrip().split("\n\n")  # the first says what it is about
        for paragraph in paragraphs:
            names, _, example = paragraph.partition("\n")
            yield from ((name, example) for name in names.split())


EXAMPLES: dict[str, str] = dict(_read())


def show(place: Mapping[str, Any], prefix: str = "") -> None:
    """Append to the docstrings of the functions and properties in ``place`` the examples of their names.

    ``prefix`` is what stands before these in the tables: "linalg." for those of that module.
    """
    for name, example in EXAMPLES.items():
        made = place.get(name[len(prefix) :]) if name.startswith(prefix) else None
        if isinstance(made, (FunctionType, property)):
            made.__doc__ = _with_example(made.__doc__ or "", example)


def _with_example(doc: str, example: str) -> str:
    if ">>>" in doc:  # one function under two names, or in two places
        return doc
    last = doc[doc.rfind("\n") + 1 :] if "\n" in doc else ""
    margin = last[: len(last) - len(last.lstrip())]  # from Python 3.13 on the compiler takes it away
    added = f"\n\n>>> import jtorch\n{example}\n"
    return doc.rstrip() + (added.replace("\n", f"\n{margin}") if margin else added)
