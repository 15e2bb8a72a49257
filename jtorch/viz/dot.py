"""A tape in the language of Graphviz.

Source: https://graphviz.org/doc/info/lang.html
"""

from __future__ import annotations

from collections.abc import Sequence

from jtorch.viz.tape import Box

_SHAPES = {"node": "box", "leaf": "box, style=filled, fillcolor=lightblue", "result": "box, penwidth=2"}


def dot_text(boxes: Sequence[Box]) -> str:
    """What ``dot -Tsvg`` draws."""
    lines = ["digraph tape {", '  node [fontname="monospace", fontsize=10];']
    for number, box in enumerate(boxes):
        label = _quoted(f"{box.name}\n{box.detail}".strip())
        lines.append(f"  b{number} [label={label}, shape={_SHAPES[box.kind]}];")
        lines += [f"  b{n} -> b{number};" for n in box.inputs]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
