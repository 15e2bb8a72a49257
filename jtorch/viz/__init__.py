"""``jtorch.viz``: pictures of tapes, and pages about compiled functions.

``show(x)`` in a terminal or a notebook, ``save(x, "page.html")`` for a file, and
``python -m jtorch.viz script.py --html page.html`` for all that a script compiles.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jtorch.eager.public import Tensor
from jtorch.viz.dot import dot_text
from jtorch.viz.page import framed, page_of_documents, page_of_tape
from jtorch.viz.svg import svg_text
from jtorch.viz.tape import tape_of
from jtorch.viz.trace import trace_events
from jtorch.viz.tree import tree_text

__all__ = ["Shown", "save", "show"]


class Shown:
    """What ``show`` gives: text for a terminal, HTML for a notebook."""

    def __init__(self, text: str, html: str) -> None:
        self._text, self._html = text, html

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


def show(obj: Any, *, names: Mapping[str, Tensor] | None = None) -> Shown:
    """The tape of a tensor, as a tree of text or a picture; of a compiled function what ``explain()`` tells,
    or its page in a frame.

    ``names`` names leaves, as ``dict(model.named_parameters())``. Raises TypeError for other objects,
    RuntimeError for a compiled function that was not called yet.

    >>> import jtorch, jtorch.viz
    >>> x = jtorch.ones(3, requires_grad=True)
    >>> jtorch.viz.show((x * 2).sum(), names={"x": x})
    tensor  float32 []
    `-- SumBackward0
        `-- MulBackward0
            `-- x  float32 [3]

    Source: https://github.com/szagoruyko/pytorchviz
    """
    if isinstance(obj, Tensor):
        boxes = tape_of(obj, names)
        return Shown(tree_text(boxes), svg_text(boxes))
    _check(obj)
    return Shown(str(obj.explain()), framed(_page_of(obj), "compiled function"))


def save(obj: Any, path: str | Path, *, names: Mapping[str, Tensor] | None = None) -> Path:
    """Write a page or picture of a tensor or a compiled function to ``path``, by its ending, and return it.

    ``.html`` is a page that needs no network. Of a tensor also ``.svg`` and ``.dot`` (Graphviz); of a
    compiled function ``.json``, a trace of its steps for https://ui.perfetto.dev, with times where
    ``f.profile()`` was called before. ``names`` names leaves. Raises ValueError for other endings, TypeError
    for other objects, RuntimeError for a compiled function that was not called yet.
    """
    path = Path(path)
    if isinstance(obj, Tensor):
        makers = {".html": page_of_tape, ".svg": svg_text, ".dot": dot_text}
        text = _chosen(makers, path)(tape_of(obj, names))
    else:
        _check(obj)
        chosen = _chosen({".html": _page_of, ".json": _trace_of}, path)
        text = chosen(obj)
    path.write_text(text, encoding="utf-8")
    return path


def _chosen(makers: dict[str, Any], path: Path) -> Any:
    if path.suffix not in makers:
        raise ValueError(f"save() writes {', '.join(makers)} of this object, not '{path.suffix}' ({path})")
    return makers[path.suffix]


def _check(obj: Any) -> None:
    if not callable(getattr(obj, "document", None)):
        raise TypeError(f"viz takes a Tensor or what jtorch.compile() gave, got {type(obj).__name__}")


def _page_of(function: Any) -> str:
    return page_of_documents([function.document(with_reasons=True)])


def _trace_of(function: Any) -> str:
    return json.dumps(trace_events(function.document()))
