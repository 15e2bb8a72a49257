"""A tape as a tree of text: from the tensor down to its leaves, each box once."""

from __future__ import annotations

from collections.abc import Sequence

from jtorch.viz.tape import Box

_SHOWN = 200  # lines


def tree_text(boxes: Sequence[Box]) -> str:
    """The boxes as lines; what was shown before is named by its number alone."""
    lines: list[str] = []
    seen: set[int] = set()
    stack = [(len(boxes) - 1, "", "")]
    while stack and len(lines) < _SHOWN:
        number, first, rest = stack.pop()
        box = boxes[number]
        again = number in seen and bool(box.inputs)
        seen.add(number)
        note = f"  {box.detail}" if box.detail else ""
        lines.append(f"{first}{box.name}{note}{' (shown above)' if again else ''}")
        if again:
            continue
        last = len(box.inputs) - 1
        below = [
            (n, f"{rest}{'`-- ' if k == last else '|-- '}", f"{rest}{'    ' if k == last else '|   '}")
            for k, n in enumerate(box.inputs)
        ]
        stack += reversed(below)
    return "\n".join([*lines, *(["..."] if stack else [])])
