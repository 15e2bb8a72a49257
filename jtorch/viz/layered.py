"""Places for the boxes of a tape: in layers, inputs above what is made of them.

Source: K. Sugiyama, S. Tagawa and M. Toda, Methods for visual understanding of hierarchical system
structures, 1981: layers by the longest path, order within a layer by the mean place of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from jtorch.viz.tape import Box

WIDTH, HEIGHT, GAP_X, GAP_Y = 168, 40, 24, 32  # pixels of a box, and between boxes
_SWEEPS = 4


def places(boxes: Sequence[Box]) -> tuple[list[tuple[int, int]], int, int]:
    """The left upper corner of each box, and width and height of the whole, in pixels."""
    layer = _layers(boxes)
    rows: list[list[int]] = [[] for _ in range(max(layer, default=-1) + 1)]
    for number in range(len(boxes)):
        rows[layer[number]].append(number)
    users: list[list[int]] = [[] for _ in boxes]
    for number, box in enumerate(boxes):
        for n in box.inputs:
            users[n].append(number)
    at = {n: k for row in rows for k, n in enumerate(row)}
    for sweep in range(_SWEEPS):
        near = [box.inputs for box in boxes] if sweep % 2 == 0 else users
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda n: sum(at[m] for m in near[n]) / len(near[n]) if near[n] else at[n])
            at.update({n: k for k, n in enumerate(row)})
    most = max(map(len, rows), default=1)
    step_x, step_y = WIDTH + GAP_X, HEIGHT + GAP_Y
    corners = [(0, 0)] * len(boxes)
    for depth, row in enumerate(rows):
        begin = (most - len(row)) * step_x // 2
        for k, n in enumerate(row):
            corners[n] = (GAP_X + begin + k * step_x, GAP_Y + depth * step_y)
    return corners, GAP_X + most * step_x, GAP_Y + len(rows) * step_y


def _layers(boxes: Sequence[Box]) -> list[int]:
    """The longest way to each box; leaves stand right above the first that uses them."""
    layer: list[int] = []
    for box in boxes:
        layer.append(max((layer[n] for n in box.inputs), default=-1) + 1)
    for number in reversed(range(len(boxes))):  # the first user comes last
        for n in boxes[number].inputs:
            if not boxes[n].inputs:
                layer[n] = max(0, layer[number] - 1)
    return layer
