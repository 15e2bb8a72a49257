"""Examples in docstrings as code blocks of the reference: an extension of Griffe, which reads the sources."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts a fence around each paragraph that begins with ``>>>``: Markdown sees three quotations there."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """
    >>> print(fenced("Adds.\\n\\n    >>> 1 + 1\\n    2"))
    Adds.
    <BLANKLINE>
        ```pycon
        >>> 1 + 1
        2
        ```
    """
    return _EXAMPLE.sub(lambda m: f"{m[1]}```pycon\n{m[0]}\n{m[1]}```", text)
