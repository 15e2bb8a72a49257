"""Examples in docstrings as code blocks of the reference: an extension of Griffe, which reads the sources."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)


class FencedExamples(griffe.Extension):
    """Puts a fence around each paragraph that begins with ``>>>``: Markdown sees three quotations there."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """``text`` with a fence around its examples, which move to the left margin."""
    return _EXAMPLE.sub(lambda m: f"```pycon\n{textwrap.dedent(m[0])}\n```", text)
