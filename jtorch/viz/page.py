"""One HTML page that needs nothing else: of a tape, or of the documents of compiled functions."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from html import escape
from importlib import resources
from typing import Any

from jtorch.viz.svg import svg_text
from jtorch.viz.tape import Box


def page_of_documents(documents: Sequence[dict[str, Any]]) -> str:
    """A page that shows ``documents`` one at a time. They are in it compressed, which browsers of 2023 and
    later undo."""
    text = json.dumps(list(documents), separators=(",", ":"))
    data = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    title = ", ".join(dict.fromkeys(str(d["function"]) for d in documents))
    return _page(
        title,
        f'<header><h1>{escape(title)}</h1><select id="pick" aria-label="program" hidden></select>'
        '<p id="told"></p></header><main></main><footer><p>Hover, or tab and use the arrow keys: '
        "what belongs together lights up. A click or Enter brings it into sight.</p></footer>"
        f'<script type="application/octet-stream" id="data">{data}</script>'
        f"<script>{_part('page.js')}</script>",
    )


def page_of_tape(boxes: Sequence[Box]) -> str:
    """A page with the picture of a tape."""
    picture = svg_text(boxes)
    return _page(
        f"tape of {boxes[-1].name}",
        f"<header><h1>Tape</h1><p>{len(boxes)} boxes, inputs above what is made of them.</p></header><main>"
        f'<div class="picture">{picture}</div></main>',
    )


def framed(page: str, title: str) -> str:
    """An element that shows a page within another one; a folded one draws it when it is opened."""
    return (
        f'<iframe srcdoc="{escape(page)}" sandbox="allow-scripts" loading="lazy" title="{escape(title)}" '
        'style="width: 100%; height: 720px; border: 0"></iframe>'
    )


def _page(title: str, body: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_part('page.css')}</style></head><body>{body}</body></html>"
    )


def _part(name: str) -> str:
    return resources.files("jtorch.viz").joinpath(name).read_text(encoding="utf-8")
