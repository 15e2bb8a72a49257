"""A tape as an SVG picture that stands by itself, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from jtorch.viz.layered import HEIGHT, WIDTH, places
from jtorch.viz.tape import Box

_STYLE = """
.box { fill: #fff; stroke: #b8bcc4 } .leaf .box { fill: #eef3fb; stroke: #3b6fb6 }
.result .box { stroke: #3b6fb6; stroke-width: 2 }
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1c1f24; text-anchor: middle }
.detail { font-size: 10px; fill: #666c77 } .edge { fill: none; stroke: #9aa0aa }
@media (prefers-color-scheme: dark) {
.box { fill: #1d2025; stroke: #4a505b } .leaf .box { fill: #1c2a3d; stroke: #7aa9e9 }
.result .box { stroke: #7aa9e9 } text { fill: #e4e6ea } .detail { fill: #9aa0aa } .edge { stroke: #666c77 } }
"""


def svg_text(boxes: Sequence[Box]) -> str:
    """The picture: inputs above what is made of them."""
    corners, width, height = places(boxes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="tape of {len(boxes)} boxes">',
        f"<style>{_STYLE}</style>",
    ]
    for number, box in enumerate(boxes):
        x, y = corners[number]
        for n in box.inputs:
            a, b = corners[n]
            start, end, middle = (a + WIDTH // 2, b + HEIGHT), (x + WIDTH // 2, y), (b + HEIGHT + y) // 2
            parts.append(
                f'<path class="edge" d="M{start[0]} {start[1]} C{start[0]} {middle} {end[0]} {middle} '
                f'{end[0]} {end[1]}"/>'
            )
    for box, (x, y) in zip(boxes, corners, strict=True):
        middle, line = x + WIDTH // 2, y + (18 if box.detail else 24)
        parts.append(
            f'<g class="{box.kind}"><title>{escape(f"{box.name} {box.detail}".strip())}</title>'
            f'<rect class="box" x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>'
            f'<text x="{middle}" y="{line}">{escape(_short(box.name))}</text>'
        )
        if box.detail:
            parts.append(
                f'<text class="detail" x="{middle}" y="{y + 32}">{escape(_short(box.detail))}</text>'
            )
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def _short(text: str, most: int = 22) -> str:
    return text if len(text) <= most else f"...{text[3 - most :]}"
