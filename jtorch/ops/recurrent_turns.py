"""The turns of recurrent layers: what one step computes of what the step before left, and back.

A layer calls a turn for each of its steps. A recording holds all steps of equal sizes as one loop, see
``scanning.py``. Sources as in ``recurrent.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jtorch.ops.recurrent_packed import MASKED, PackedSteps, loop
from jtorch.ops.routines import formula, records
from jtorch.ops.scanning import scanned


@dataclass(frozen=True, slots=True)
class EqualSteps:
    """Sizes that are all equal: ``rows`` in each of the ``steps``."""

    rows: Any
    steps: Any

    def __iter__(self):
        return iter((self.rows,) * self.steps)

    def __getitem__(self, k):
        return self.rows


def is_loop(xp, x, sizes):
    """Whether a layer over the rows ``x`` is one loop of a recording. Other dtypes have no kernels."""
    if not (records(xp) and x.dtype in (np.float32, np.float64)):
        return False
    return sizes.__class__ is PackedSteps or (sizes.__class__ is EqualSteps and sizes.steps > 1)


def looped(xp, op, sizes, reverse, carries, constants, rows, *options):
    """The outputs of a loop ``op``: of all steps, as matrices like ``rows``; and of the last one."""
    n, steps = sizes.rows, sizes.steps
    packed = sizes.__class__ is PackedSteps
    if packed:
        op, xs = MASKED[op.name], [*(sizes.padded(xp, x) for x in rows), sizes.live]
    else:
        xs = [xp.reshape(x, shape=(steps, n, x.shape[1])) for x in rows]
    facts = {"constants": len(constants), "reverse": reverse, "options": options}
    found = scanned(xp, op, *carries, *constants, *xs, **facts)
    many = found if op.n_outputs > 1 else (found,)
    flat = [xp.reshape(out, shape=(steps * n, out.shape[2])) for out in many]
    first = 0 if reverse else (steps - 1) * n
    last = [part(xp, out, first, first + n) for out in flat]
    return [sizes.taken(xp, out) for out in flat] if packed else flat, last


def part(xp, x, start, stop, axis=0):
    """Positions ``start`` to ``stop`` of one axis of a matrix."""
    rows, columns = x.shape
    if stop - start == (columns if axis else rows):  # a cell has a single step
        return x
    if axis:
        return xp.slice(x, start=(0, start), stop=(rows, stop), step=(1, 1))
    return xp.slice(x, start=(start, 0), stop=(stop, columns), step=(1, 1))


def _chunks(xp, x, count):
    """``count`` equal parts of the columns."""
    n = x.shape[1] // count
    return [part(xp, x, k * n, (k + 1) * n, axis=1) for k in range(count)]


# -- Elman


def rnn_turn(xp, carries, constants, xs, relu):
    """The next state."""
    (state,), (transposed,), (x,) = carries, constants, xs
    z = x + xp.matmul(state, transposed)
    return (xp.relu(z) if relu else xp.tanh(z),)


def rnn_turn_back(xp, carries, constants, xs):
    """(the gradient of what the activation saw, that of the state before)"""
    (dh,), (weight,), (given, slope) = carries, constants, xs
    dz = (dh + given) * slope
    return dz, xp.matmul(dz, weight)


RNN = loop(rnn_turn, "rnn_scan", outputs=1, carried=(0,), shapes=lambda carries, constants, xs, relu: carries)
RNN_BACK = loop(
    rnn_turn_back, "rnn_scan_back", outputs=2, carried=(1,),
    shapes=lambda carries, constants, xs: (xs[0], *carries),
)  # fmt: skip


# -- LSTM


def lstm_turn(xp, carries, constants, xs):
    """(output, i, f, g, o, cell)"""
    (state, cell), (transposed, *shrink), (x,) = carries, constants, xs
    product = xp.matmul(state, transposed)
    i, f, g, o, cell, state = formula(xp, _lstm_cell, product, x, cell)
    if shrink:
        state = xp.matmul(state, shrink[0])
    return state, i, f, g, o, cell


def _lstm_cell(xp, product, x, cell):
    """(the four gates, the next cell, the next state)"""
    i, f, g, o = _chunks(xp, x + product, 4)
    i, f, g, o = xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)
    cell = f * cell + i * g
    return i, f, g, o, cell, o * xp.tanh(cell)


def lstm_turn_back(xp, carries, constants, xs, with_cells, with_given):
    """The gradients (of what the gates saw, of the output, of the state before, of the cell before); ``xs``
    has those of all cells and of all gates, where they are given, last."""
    (dh, dc), (weight, *projection) = carries, constants
    slopes, dout, to_cell, forget, *others = xs
    output = dh = dh + dout
    if projection:
        dh = xp.matmul(dh, projection[0])
    dc = dc + dh * to_cell
    if with_cells:
        dc = dc + others[0]
    dz = xp.cat(dc, dc, dc, dh, axis=1) * slopes
    if with_given:
        dz = dz + others[-1]
    return dz, output, xp.matmul(dz, weight), dc * forget


def _lstm_shapes(carries, constants, xs):
    state, cell = carries
    return (state, *[cell] * 5)


def _lstm_back_shapes(carries, constants, xs, *options):
    dh, dc = carries
    return xs[0], dh, dh, dc


LSTM = loop(lstm_turn, "lstm_scan", outputs=6, carried=(0, 5), shapes=_lstm_shapes)
LSTM_BACK = loop(lstm_turn_back, "lstm_scan_back", outputs=4, carried=(2, 3), shapes=_lstm_back_shapes)


# -- GRU


def gru_turn(xp, carries, constants, xs):
    """(state, r, u, n, what r multiplies)"""
    (state,), (transposed, *bias), (x,) = carries, constants, xs
    z = xp.matmul(state, transposed)
    r, u, new, q, state = formula(xp, _gru_cell, z, bias[0] if bias else None, x, state)
    return state, r, u, new, q


def _gru_cell(xp, product, bias, x, state):
    """(r, u, n, what r multiplies, the next state)"""
    zr, zu, q = _chunks(xp, product if bias is None else product + bias, 3)
    q = xp.clone(q)  # a result: it has memory of its own
    xr, xu, xn = _chunks(xp, x, 3)
    r, u = xp.sigmoid(xr + zr), xp.sigmoid(xu + zu)
    n = xp.tanh(xn + r * q)
    return r, u, n, q, n + u * (state - n)


def gru_turn_back(xp, carries, constants, xs):
    """The gradients (of the product, of the state, of the state before); ``xs`` has those of the gates last,
    where they are given."""
    (dh,), (weight,), (slopes, dout, update, *given) = carries, constants, xs
    dh = dh + dout
    dz = xp.cat(dh, dh, dh, axis=1) * slopes
    if given:
        dz = dz + given[0]
    return dz, dh, dh * update + xp.matmul(dz, weight)


GRU = loop(
    gru_turn, "gru_scan", outputs=5, carried=(0,), shapes=lambda carries, constants, xs: list(carries) * 5
)
GRU_BACK = loop(
    gru_turn_back, "gru_scan_back", outputs=3, carried=(2,),
    shapes=lambda carries, constants, xs: (xs[0], *carries, *carries),
)  # fmt: skip
