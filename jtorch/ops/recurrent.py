"""Recurrent layers over a whole sequence: one node on the tape, whatever the number of steps.

Rows of all steps stand below each other: step ``t`` has ``sizes[t]`` of them, and ``sizes`` never grows, so
that packed sequences and plain ones (all sizes equal) are the same case. The projection of the input
(``x``, with its bias) is made outside, as one matrix product over all steps.

The hidden outputs are the gates. Their gradients are None, but where a second derivative is taken.
Source: https://docs.pytorch.org/docs/stable/nn.html#recurrent-layers
"""

from __future__ import annotations

from functools import wraps
from itertools import accumulate

import numpy as np

from jtorch.core.dtypes import HALVES
from jtorch.core.op import composite
from jtorch.core.sizes import remembered
from jtorch.ops.contraction import swap
from jtorch.ops.recurrent_packed import PackedSteps
from jtorch.ops.recurrent_turns import (
    GRU,
    GRU_BACK,
    LSTM,
    LSTM_BACK,
    RNN,
    RNN_BACK,
    EqualSteps,
    gru_turn,
    gru_turn_back,
    is_loop,
    looped,
    lstm_turn,
    lstm_turn_back,
    part,
    rnn_turn,
    rnn_turn_back,
)
from jtorch.ops.routines import formula, runs_at_once

# -- rows and steps --------------------------------------------------------------------------------------


@remembered
def _steps(sizes, reverse):
    """((first row, number of rows), ...) in the order in which the steps are computed."""
    starts = accumulate(sizes[:-1], initial=0)
    found = list(zip(starts, sizes, strict=True))
    return tuple(found[::-1] if reverse else found)


BLOCK = 8
"""Steps of as many rows that a namespace which runs at once does in one go: kernels are called once for them.
A plan for them is made for each number of rows, in 40 to 80 ms for an LSTM of 64, whose training step takes
1.5 ms then and not 2.6; of 16 steps it takes twice as long to make, and gains no more.
"""
_LEAST_BLOCKS = 3  # of a layer: fewer take too many calls to earn that


def _blocks(xp, sizes, reverse):
    """((first row, number of rows of a step, number of steps), ...), in the order in which they are computed:
    steps that have as many rows; where each call runs at once, BLOCK of them or a single one."""
    return _blocks_of(tuple(sizes), reverse, runs_at_once(xp))


@remembered
def _blocks_of(sizes, reverse, at_once):
    found: list = []
    for start, n in _steps(sizes, reverse):
        if found and found[-1][1] == n:
            begin, _, count = found.pop()
            found.append((min(begin, start), n, count + 1))
        else:
            found.append((start, n, 1))
    return tuple([part for block in found for part in _divided(block, reverse)] if at_once else found)


def _divided(block, reverse):
    start, n, count = block
    whole = count // BLOCK if count >= _LEAST_BLOCKS * BLOCK else 0
    counts = [BLOCK] * whole + [1] * (count - whole * BLOCK)
    before = accumulate(counts[:-1], initial=0)
    if reverse:
        end = start + n * count
        starts = [end - n * (done + many) for done, many in zip(before, counts, strict=True)]
    else:
        starts = [start + n * done for done in before]
    return [(begin, n, many) for begin, many in zip(starts, counts, strict=True)]


@remembered
def _in_turn(n, count, reverse):
    """((first row, end), ...) of the steps of a block."""
    return tuple([(start, start + n) for start, _ in _steps((n,) * count, reverse)])


def _some(xp, x, start, n, count):
    """The rows of a block; None of None."""
    return None if x is None else part(xp, x, start, start + n * count)


def _block(xp, count, function, *values):
    """What the function gives for a block of steps: of a single one it calls kernels itself, which serve any
    number of rows."""
    return function(xp, *values) if count == 1 else formula(xp, function, *values)


def _resized(xp, state, n, first, gone):
    """``state`` with ``n`` rows: sequences that end go to ``gone``, those that begin come from ``first``."""
    m = state.shape[0]
    if n < m:
        gone.append(part(xp, state, n, m))
        return part(xp, state, 0, n)
    if n > m:
        return xp.cat(state, part(xp, first, m, n), axis=0)
    return state


def _whole(xp, state, gone):
    """The last state of all sequences: of those that went on to the end, then of those that ended before."""
    return xp.cat(state, *reversed(gone), axis=0) if gone else state


def _joined(xp, parts, reverse):
    """The steps' rows below each other, in the order of time; always memory of its own."""
    return xp.cat(*(reversed(parts) if reverse else parts), axis=0)


def _previous(xp, states, first, sizes, reverse):
    """For each row the state that it was computed from; ``states`` has those after each step."""
    if sizes.__class__ is PackedSteps:
        return sizes.previous(xp, states, first, reverse)
    n, rows = sizes[0], states.shape[0]
    if (
        sizes.__class__ is EqualSteps or sizes[-1] == n < rows
    ):  # all steps have as many rows: those of the others lie together
        begun = part(xp, first, 0, n)
        if reverse:
            return xp.cat(part(xp, states, n, rows), begun, axis=0)
        return xp.cat(begun, part(xp, states, 0, rows - n), axis=0)
    parts: list = []
    steps = _steps(sizes, reverse)
    before, rows = None, part(xp, first, 0, steps[0][1])
    for start, n in steps:
        if before is not None:
            rows = _resized(xp, part(xp, states, before[0], sum(before)), n, first, [])
        parts.append(rows)
        before = (start, n)
    return _joined(xp, parts, reverse)


def _begin(xp, first, sizes, reverse):
    """The state of the sequences that the first computed step has."""
    n = sizes[-1] if reverse else sizes[0]
    return first if n == first.shape[0] else part(xp, first, 0, n)


def _sum_rows(xp, x):
    return xp.sum(x, axis=(0,), keepdims=False)


def _add(x, y):
    """``x + y``, where either may be None: no gradient came."""
    return y if x is None else x if y is None else x + y


def _rounded_once(function):
    """``function(xp, *values)``, of several steps, which computes with 16 bits in float32."""

    def cast(xp, value, dtype):
        if isinstance(value, tuple):
            return tuple([cast(xp, part, dtype) for part in value])
        return None if value is None else xp.cast(value, dtype=dtype)

    @wraps(function)
    def computed(xp, *values):
        dtype = getattr(values[0].dtype, "numpy", values[0].dtype)
        if dtype not in HALVES:
            return function(xp, *values)
        return cast(xp, function(xp, *cast(xp, values, np.dtype(np.float32))), dtype)

    return computed


# -- Elman ---------------------------------------------------------------------------------------------------


@composite(n_outputs=2, dtype="as_is", public=None, grad_name="RnnBackward0", fuses=False, autocast="lower")
def rnn_layer(xp, x, weight, h, *, sizes, reverse, relu):
    """h = act(x + h @ weight.T): (all states (rows, H), the last of each sequence (B, H))"""
    if is_loop(xp, x, sizes):
        (states,), (last,) = looped(xp, RNN, sizes, reverse, [h], [swap(xp, weight)], [x], relu)
        return states, last
    outs: list = []
    gone: list = []
    state = _begin(xp, h, sizes, reverse)
    for start, n, count in _blocks(xp, sizes, reverse):
        state = _resized(xp, state, n, h, gone)
        rows = _some(xp, x, start, n, count)
        outs += _block(xp, count, _rnn_steps, rows, weight, state, count, reverse, relu)
        state = outs[-1]
    return _joined(xp, outs, reverse), _whole(xp, state, gone)


def _rnn_steps(xp, x, weight, state, count, reverse, relu):
    """The states after each of the steps."""
    transposed = swap(xp, weight)
    outs: list = []
    for start, stop in _in_turn(state.shape[0], count, reverse):
        (state,) = rnn_turn(xp, [state], [transposed], [part(xp, x, start, stop)], relu)
        outs.append(state)
    return tuple(outs)


@_rounded_once
def _tanh_slope(xp, out):
    return 1.0 - out * out


@_rounded_once
def _relu_slope(xp, out):
    """Not "> 0": the gradient at NaN is NaN's, as in PyTorch."""
    return 1.0 - xp.cast(xp.le(out, 0.0), dtype=out.dtype)


@rnn_layer.vjp
def _(xp, g, out0, weight, h, needs, sizes, reverse, relu):
    slope = _relu_slope(xp, out0) if relu else _tanh_slope(xp, out0)
    if is_loop(xp, out0, sizes):
        (dx, _), (_, dh) = looped(xp, RNN_BACK, sizes, not reverse, [g[1]], [weight], [g[0], slope])
    else:
        dx, dh = _rnn_all_back(xp, g, slope, weight, sizes, not reverse)
    dw = xp.matmul(swap(xp, dx), _previous(xp, out0, h, sizes, reverse)) if needs[1] else None
    return dx, dw, dh if needs[2] else None


def _rnn_all_back(xp, g, slope, weight, sizes, reverse):
    """The gradients of what the activation saw, and of the first states."""
    parts: list = []
    gone: list = []
    dh = _begin(xp, g[1], sizes, reverse)
    for start, n, count in _blocks(xp, sizes, reverse):
        dh = _resized(xp, dh, n, g[1], gone)
        rows = (_some(xp, a, start, n, count) for a in (g[0], slope))
        *found, dh = _block(xp, count, _rnn_back, *rows, weight, dh, count, reverse)
        parts += found
    return _joined(xp, parts, reverse), _whole(xp, dh, gone)


def _rnn_back(xp, given, slope, weight, dh, count, reverse):
    """(the gradients of what the activation saw, step by step; that of the state before)"""
    parts: list = []
    for start, stop in _in_turn(dh.shape[0], count, reverse):
        rows = [part(xp, a, start, stop) for a in (given, slope)]
        dz, dh = rnn_turn_back(xp, [dh], [weight], rows)
        parts.append(dz)
    return (*parts, dh)


# -- LSTM ----------------------------------------------------------------------------------------------------


@composite(
    n_outputs=8,
    hidden=5,
    dtype="as_is",
    public=None,
    grad_name="LstmBackward0",
    fuses=False,
    autocast="lower",
)
def lstm_layer(xp, x, weight, projection, h, c, *, sizes, reverse):
    """Gates i, f, g, o from x + h @ weight.T; c = f c + i g; h = o tanh(c), through ``projection`` if any.

    Returns all outputs (rows, P), the last of each sequence (B, P), the last cells (B, H); hidden: the
    gates and the cells, (rows, H) each. Source: Hochreiter and Schmidhuber 1997; Sak et al. 2014.
    """
    if is_loop(xp, x, sizes):
        constants = [swap(xp, w) for w in (weight, projection) if w is not None]
        found, last = looped(xp, LSTM, sizes, reverse, [h, c], constants, [x])
        return (found[0], last[0], last[5], *found[1:])
    state, cell = _begin(xp, h, sizes, reverse), _begin(xp, c, sizes, reverse)
    kept: tuple[list, ...] = ([], [], [], [], [], [])
    h_gone: list = []
    c_gone: list = []
    for start, n, count in _blocks(xp, sizes, reverse):
        state = _resized(xp, state, n, h, h_gone)
        cell = _resized(xp, cell, n, c, c_gone)
        rows = _some(xp, x, start, n, count)
        found = _block(xp, count, _lstm_steps, rows, weight, projection, state, cell, count, reverse)
        for k, parts in enumerate(kept):
            parts += found[k::6]
        state, cell = kept[0][-1], kept[5][-1]
    last = _whole(xp, state, h_gone), _whole(xp, cell, c_gone)
    joined = [_joined(xp, parts, reverse) for parts in kept]
    return (joined[0], *last, *joined[1:])


def _lstm_steps(xp, x, weight, projection, state, cell, count, reverse):
    """(output, i, f, g, o, cell) of each step, one after the other"""
    constants = [swap(xp, w) for w in (weight, projection) if w is not None]
    found: list = []
    for start, stop in _in_turn(state.shape[0], count, reverse):
        made = lstm_turn(xp, [state, cell], constants, [part(xp, x, start, stop)])
        state, *_, cell = made
        found += made
    return tuple(found)


@_rounded_once
def _lstm_slopes(xp, cells, before, gates, extra):
    """What the step by step part needs, for all rows at once.

    d(i, f, g, o) = slopes * (dc, dc, dc, dh) + given, and dc gains dh * to_cell.
    """
    i, f, g, o = gates
    out = xp.tanh(cells)
    own = i * (1.0 - i), f * (1.0 - f), 1.0 - g * g, o * (1.0 - o)
    slopes = xp.cat(g * own[0], before * own[1], i * own[2], out * own[3], axis=1)
    given = None
    if any(e is not None for e in extra):
        given = xp.cat(*(0.0 * s if e is None else e * s for e, s in zip(extra, own, strict=True)), axis=1)
    return slopes, given, o * (1.0 - out * out)


@lstm_layer.vjp
def _(xp, g, out0, out3, out4, out5, out6, out7, weight, projection, h, c, needs, sizes, reverse):
    before = _previous(xp, out7, c, sizes, reverse)
    slopes, given, to_cell = formula(xp, _lstm_slopes, out7, before, (out3, out4, out5, out6), tuple(g[3:7]))
    rows = slopes, g[0], to_cell, out4, g[7], given
    if is_loop(xp, out0, sizes):
        constants = [w for w in (weight, projection) if w is not None]
        there = [a for a in rows if a is not None]
        options = g[7] is not None, given is not None
        (dx, dout, *_), (_, _, dh, dc) = looped(
            xp, LSTM_BACK, sizes, not reverse, g[1:3], constants, there, *options
        )
    else:
        dx, dout, dh, dc = _lstm_all_back(xp, rows, weight, projection, g[1], g[2], sizes, not reverse)
    dw = xp.matmul(swap(xp, dx), _previous(xp, out0, h, sizes, reverse)) if needs[1] else None
    dp = None
    if projection is not None and needs[2]:
        dp = xp.matmul(swap(xp, dout), out6 * xp.tanh(out7))
    return dx, dw, dp, dh, dc


def _lstm_all_back(xp, rows, weight, projection, dh_last, dc_last, sizes, reverse):
    """The gradients of what the gates saw, of the outputs (None without a projection), and of the first
    states."""
    parts: list = []
    outs: list = []
    h_gone: list = []
    c_gone: list = []
    dh, dc = (_begin(xp, last, sizes, reverse) for last in (dh_last, dc_last))
    for start, n, count in _blocks(xp, sizes, reverse):
        dh, dc = _resized(xp, dh, n, dh_last, h_gone), _resized(xp, dc, n, dc_last, c_gone)
        some = (_some(xp, a, start, n, count) for a in rows)
        *found, dh, dc = _block(xp, count, _lstm_back, *some, weight, projection, dh, dc, count, reverse)
        parts += found if projection is None else found[::2]
        outs += [] if projection is None else found[1::2]
    dout = _joined(xp, outs, reverse) if outs else None
    return _joined(xp, parts, reverse), dout, _whole(xp, dh, h_gone), _whole(xp, dc, c_gone)


def _lstm_back(xp, slopes, dout, to_cell, forget, dcells, given, weight, projection, dh, dc, count, reverse):
    """(the gradients of what the gates saw and, with a projection, of the output, step by step; those of the
    states before)"""
    constants = [w for w in (weight, projection) if w is not None]
    there = [a for a in (slopes, dout, to_cell, forget, dcells, given) if a is not None]
    options = dcells is not None, given is not None
    found: list = []
    for start, stop in _in_turn(dh.shape[0], count, reverse):
        rows = [part(xp, a, start, stop) for a in there]
        dz, output, dh, dc = lstm_turn_back(xp, [dh, dc], constants, rows, *options)
        found += (dz,) if projection is None else (dz, output)
    return (*found, dh, dc)


# -- GRU -----------------------------------------------------------------------------------------------------


@composite(
    n_outputs=6, hidden=4, dtype="as_is", public=None, grad_name="GruBackward0", fuses=False, autocast="lower"
)
def gru_layer(xp, x, weight, bias, h, *, sizes, reverse):
    """r, u = sigmoid(x + h @ weight.T + bias); n = tanh(x + r (h @ weight.T + bias)); h = (1-u) n + u h

    Returns all states (rows, H), the last of each sequence (B, H); hidden: r, u, n and what r multiplies,
    (rows, H) each. Source: Cho et al. 2014, with the reset gate after the product, as in cuDNN.
    """
    if is_loop(xp, x, sizes):
        constants = [a for a in (swap(xp, weight), bias) if a is not None]
        (outs, *gates), (last, *_) = looped(xp, GRU, sizes, reverse, [h], constants, [x])
        return (outs, last, *gates)
    gone: list = []
    kept: tuple[list, ...] = ([], [], [], [], [])
    state = _begin(xp, h, sizes, reverse)
    for start, n, count in _blocks(xp, sizes, reverse):
        state = _resized(xp, state, n, h, gone)
        found = _block(
            xp, count, _gru_steps, _some(xp, x, start, n, count), weight, bias, state, count, reverse
        )
        for k, parts in enumerate(kept):
            parts += found[k::5]
        state = kept[0][-1]
    outs, *gates = (_joined(xp, parts, reverse) for parts in kept)
    return (outs, _whole(xp, state, gone), *gates)


def _gru_steps(xp, x, weight, bias, state, count, reverse):
    """(state, r, u, n, what r multiplies) of each step, one after the other"""
    constants = [a for a in (swap(xp, weight), bias) if a is not None]
    found: list = []
    for start, stop in _in_turn(state.shape[0], count, reverse):
        made = gru_turn(xp, [state], constants, [part(xp, x, start, stop)])
        state = made[0]
        found += made
    return tuple(found)


@_rounded_once
def _gru_slopes(xp, before, gates, extra):
    """d(r, u, q) = slopes * (dh, dh, dh) + given, dn = dh * to_new + given_new; for all rows at once."""
    r, u, n, q = gates
    gr, gu, gn, gq = extra
    bend = 1.0 - n * n
    reset = r * (1.0 - r)
    to_new = (1.0 - u) * bend
    slopes = xp.cat(to_new * q * reset, (before - n) * u * (1.0 - u), to_new * r, axis=1)
    if all(e is None for e in extra):
        return slopes, None, to_new, None
    new = None if gn is None else gn * bend
    through = (None, None) if new is None else (new * q, new * r)
    parts = (
        _add(through[0], gr) * reset if _add(through[0], gr) is not None else None,
        None if gu is None else gu * u * (1.0 - u),
        _add(through[1], gq),
    )
    given = xp.cat(*(0.0 * r if p is None else p for p in parts), axis=1)
    return slopes, given, to_new, new


@gru_layer.vjp
def _(xp, g, out0, out2, out3, out4, out5, weight, bias, h, needs, sizes, reverse):
    before = _previous(xp, out0, h, sizes, reverse)
    slopes, given, to_new, given_new = formula(
        xp, _gru_slopes, before, (out2, out3, out4, out5), tuple(g[2:])
    )
    rows = slopes, g[0], out3, given
    if is_loop(xp, out0, sizes):
        there = [a for a in rows if a is not None]
        (dz, totals, _), (*_, dh) = looped(xp, GRU_BACK, sizes, not reverse, [g[1]], [weight], there)
    else:
        dz, totals, dh = _gru_all_back(xp, rows, weight, g[1], sizes, not reverse)
    new = _add(totals * to_new, given_new)
    dx = xp.cat(part(xp, dz, 0, 2 * h.shape[1], axis=1), new, axis=1)
    dw = xp.matmul(swap(xp, dz), before) if needs[1] else None
    db = None if bias is None else _sum_rows(xp, dz)
    return dx, dw, db, dh


def _gru_all_back(xp, rows, weight, last, sizes, reverse):
    """The gradients of the products and of the states, of all steps, and of the first states."""
    parts: list = []
    totals: list = []
    gone: list = []
    dh = _begin(xp, last, sizes, reverse)
    for start, n, count in _blocks(xp, sizes, reverse):
        dh = _resized(xp, dh, n, last, gone)
        some = (_some(xp, a, start, n, count) for a in rows)
        *found, dh = _block(xp, count, _gru_back, *some, weight, dh, count, reverse)
        parts += found[::2]
        totals += found[1::2]
    return _joined(xp, parts, reverse), _joined(xp, totals, reverse), _whole(xp, dh, gone)


def _gru_back(xp, slopes, dout, update, given, weight, dh, count, reverse):
    """(the gradients of the product and of the state, step by step; that of the state before)"""
    there = [a for a in (slopes, dout, update, given) if a is not None]
    found: list = []
    for start, stop in _in_turn(dh.shape[0], count, reverse):
        rows = [part(xp, a, start, stop) for a in there]
        *made, dh = gru_turn_back(xp, [dh], [weight], rows)
        found += made
    return (*found, dh)
