"""Recurrent layers over a whole sequence: one node on the tape, whatever the number of steps.

Rows of all steps stand below each other: step ``t`` has ``sizes[t]`` of them, and ``sizes`` never grows, so
that packed sequences and plain ones (all sizes equal) are the same case. The projection of the input
(``x``, with its bias) is made outside, as one matrix product over all steps.

The hidden outputs are the gates. Their gradients are None, but where a second derivative is taken.
Source: https://docs.pytorch.org/docs/stable/nn.html#recurrent-layers
"""

from __future__ import annotations

from jtorch.core.op import composite
from jtorch.ops.contraction import swap
from jtorch.ops.routines import formula

# -- rows and steps --------------------------------------------------------------------------------------


def _part(xp, x, start, stop, axis=0):
    """Positions ``start`` to ``stop`` of one axis of a matrix."""
    rows, columns = x.shape
    if axis:
        return xp.slice(x, start=(0, start), stop=(rows, stop), step=(1, 1))
    return xp.slice(x, start=(start, 0), stop=(stop, columns), step=(1, 1))


def _chunks(xp, x, count):
    """``count`` equal parts of the columns."""
    n = x.shape[1] // count
    return [_part(xp, x, k * n, (k + 1) * n, axis=1) for k in range(count)]


def _steps(sizes, reverse):
    """[(first row, number of rows)] in the order in which the steps are computed."""
    starts = [sum(sizes[:t]) for t in range(len(sizes))]
    found = list(zip(starts, sizes, strict=True))
    return found[::-1] if reverse else found


def _resized(xp, state, n, first, gone):
    """``state`` with ``n`` rows: sequences that end go to ``gone``, those that begin come from ``first``."""
    m = state.shape[0]
    if n < m:
        gone.append(_part(xp, state, n, m))
        return _part(xp, state, 0, n)
    if n > m:
        return xp.cat(state, _part(xp, first, m, n), axis=0)
    return state


def _whole(xp, state, gone):
    """The last state of all sequences: of those that went on to the end, then of those that ended before."""
    return xp.cat(state, *reversed(gone), axis=0) if gone else state


def _joined(xp, parts, reverse):
    """The steps' rows below each other, in the order of time; always memory of its own."""
    return xp.cat(*(reversed(parts) if reverse else parts), axis=0)


def _previous(xp, states, first, sizes, reverse):
    """For each row the state that it was computed from; ``states`` has those after each step."""
    n, rows = sizes[0], states.shape[0]
    if sizes[-1] == n < rows:  # all steps have as many rows: those of the others lie together
        begun = _part(xp, first, 0, n)
        if reverse:
            return xp.cat(_part(xp, states, n, rows), begun, axis=0)
        return xp.cat(begun, _part(xp, states, 0, rows - n), axis=0)
    parts: list = []
    steps = _steps(sizes, reverse)
    before, rows = None, _part(xp, first, 0, steps[0][1])
    for start, n in steps:
        if before is not None:
            rows = _resized(xp, _part(xp, states, before[0], sum(before)), n, first, [])
        parts.append(rows)
        before = (start, n)
    return _joined(xp, parts, reverse)


def _begin(xp, first, sizes, reverse):
    """The state of the sequences that the first computed step has."""
    n = sizes[-1] if reverse else sizes[0]
    return first if n == first.shape[0] else _part(xp, first, 0, n)


def _sum_rows(xp, x):
    return xp.sum(x, axis=(0,), keepdims=False)


def _add(x, y):
    """``x + y``, where either may be None: no gradient came."""
    return y if x is None else x if y is None else x + y


# -- Elman ---------------------------------------------------------------------------------------------------


@composite(n_outputs=2, dtype="as_is", public=None, grad_name="RnnBackward0", fuses=False)
def rnn_layer(xp, x, weight, h, *, sizes, reverse, relu):
    """h = act(x + h @ weight.T): (all states (rows, H), the last of each sequence (B, H))"""
    transposed = swap(xp, weight)
    outs: list = []
    gone: list = []
    state = _begin(xp, h, sizes, reverse)
    for start, n in _steps(sizes, reverse):
        state = _resized(xp, state, n, h, gone)
        z = _part(xp, x, start, start + n) + xp.matmul(state, transposed)
        state = xp.relu(z) if relu else xp.tanh(z)
        outs.append(state)
    return _joined(xp, outs, reverse), _whole(xp, state, gone)


@rnn_layer.vjp
def _(xp, g, out0, weight, h, needs, sizes, reverse, relu):
    # not "> 0": the gradient at NaN is NaN's, as in PyTorch
    slope = 1.0 - (xp.cast(xp.le(out0, 0.0), dtype=g[0].dtype) if relu else out0 * out0)
    parts: list = []
    gone: list = []
    dh = _begin(xp, g[1], sizes, not reverse)
    for start, n in _steps(sizes, not reverse):
        dh = _resized(xp, dh, n, g[1], gone)
        dz = (dh + _part(xp, g[0], start, start + n)) * _part(xp, slope, start, start + n)
        parts.append(dz)
        dh = xp.matmul(dz, weight)
    dx = _joined(xp, parts, not reverse)
    dw = xp.matmul(swap(xp, dx), _previous(xp, out0, h, sizes, reverse)) if needs[1] else None
    return dx, dw, _whole(xp, dh, gone) if needs[2] else None


# -- LSTM ----------------------------------------------------------------------------------------------------


@composite(n_outputs=8, hidden=5, dtype="as_is", public=None, grad_name="LstmBackward0", fuses=False)
def lstm_layer(xp, x, weight, projection, h, c, *, sizes, reverse):
    """Gates i, f, g, o from x + h @ weight.T; c = f c + i g; h = o tanh(c), through ``projection`` if any.

    Returns all outputs (rows, P), the last of each sequence (B, P), the last cells (B, H); hidden: the
    gates and the cells, (rows, H) each. Source: Hochreiter and Schmidhuber 1997; Sak et al. 2014.
    """
    transposed = swap(xp, weight)
    shrink = None if projection is None else swap(xp, projection)
    state, cell = _begin(xp, h, sizes, reverse), _begin(xp, c, sizes, reverse)
    outs: list = []
    cells: list = []
    gates: tuple[list, ...] = ([], [], [], [])
    h_gone: list = []
    c_gone: list = []
    for start, n in _steps(sizes, reverse):
        state = _resized(xp, state, n, h, h_gone)
        cell = _resized(xp, cell, n, c, c_gone)
        product = xp.matmul(state, transposed)
        i, f, g, o, cell, state = formula(xp, _lstm_cell, product, _part(xp, x, start, start + n), cell)
        if shrink is not None:
            state = xp.matmul(state, shrink)
        outs.append(state)
        cells.append(cell)
        for kept, gate in zip(gates, (i, f, g, o), strict=True):
            kept.append(gate)
    last = _whole(xp, state, h_gone), _whole(xp, cell, c_gone)
    joined = [_joined(xp, kept, reverse) for kept in (outs, *gates, cells)]
    return (joined[0], *last, *joined[1:])


def _lstm_cell(xp, product, x, cell):
    """(the four gates, the next cell, the next state)"""
    i, f, g, o = _chunks(xp, x + product, 4)
    i, f, g, o = xp.sigmoid(i), xp.sigmoid(f), xp.tanh(g), xp.sigmoid(o)
    cell = f * cell + i * g
    return i, f, g, o, cell, o * xp.tanh(cell)


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
    parts: list = []
    outs: list = []
    h_gone: list = []
    c_gone: list = []
    dh, dc = (_begin(xp, last, sizes, not reverse) for last in g[1:3])
    for start, n in _steps(sizes, not reverse):
        stop = start + n
        dh = _resized(xp, dh, n, g[1], h_gone) + _part(xp, g[0], start, stop)
        dc = _resized(xp, dc, n, g[2], c_gone)
        if projection is not None:
            outs.append(dh)
            dh = xp.matmul(dh, projection)
        dc = dc + dh * _part(xp, to_cell, start, stop)
        if g[7] is not None:
            dc = dc + _part(xp, g[7], start, stop)
        dz = xp.cat(dc, dc, dc, dh, axis=1) * _part(xp, slopes, start, stop)
        if given is not None:
            dz = dz + _part(xp, given, start, stop)
        parts.append(dz)
        dh = xp.matmul(dz, weight)
        dc = dc * _part(xp, out4, start, stop)
    dx = _joined(xp, parts, not reverse)
    dw = xp.matmul(swap(xp, dx), _previous(xp, out0, h, sizes, reverse)) if needs[1] else None
    dp = None
    if projection is not None and needs[2]:
        dp = xp.matmul(swap(xp, _joined(xp, outs, not reverse)), out6 * xp.tanh(out7))
    return dx, dw, dp, _whole(xp, dh, h_gone), _whole(xp, dc, c_gone)


# -- GRU -----------------------------------------------------------------------------------------------------


@composite(n_outputs=6, hidden=4, dtype="as_is", public=None, grad_name="GruBackward0", fuses=False)
def gru_layer(xp, x, weight, bias, h, *, sizes, reverse):
    """r, u = sigmoid(x + h @ weight.T + bias); n = tanh(x + r (h @ weight.T + bias)); h = (1-u) n + u h

    Returns all states (rows, H), the last of each sequence (B, H); hidden: r, u, n and what r multiplies,
    (rows, H) each. Source: Cho et al. 2014, with the reset gate after the product, as in cuDNN.
    """
    transposed = swap(xp, weight)
    outs: list = []
    gone: list = []
    kept: tuple[list, ...] = ([], [], [], [])
    state = _begin(xp, h, sizes, reverse)
    for start, count in _steps(sizes, reverse):
        state = _resized(xp, state, count, h, gone)
        z = xp.matmul(state, transposed)
        r, u, n, q, state = formula(xp, _gru_cell, z, bias, _part(xp, x, start, start + count), state)
        outs.append(state)
        for parts, value in zip(kept, (r, u, n, q), strict=True):
            parts.append(value)
    gates = [_joined(xp, parts, reverse) for parts in kept]
    return (_joined(xp, outs, reverse), _whole(xp, state, gone), *gates)


def _gru_cell(xp, product, bias, x, state):
    """(r, u, n, what r multiplies, the next state)"""
    zr, zu, q = _chunks(xp, product if bias is None else product + bias, 3)
    xr, xu, xn = _chunks(xp, x, 3)
    r, u = xp.sigmoid(xr + zr), xp.sigmoid(xu + zu)
    n = xp.tanh(xn + r * q)
    return r, u, n, q, n + u * (state - n)


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
    parts: list = []
    totals: list = []
    gone: list = []
    dh = _begin(xp, g[1], sizes, not reverse)
    for start, n in _steps(sizes, not reverse):
        stop = start + n
        dh = _resized(xp, dh, n, g[1], gone) + _part(xp, g[0], start, stop)
        dz = xp.cat(dh, dh, dh, axis=1) * _part(xp, slopes, start, stop)
        if given is not None:
            dz = dz + _part(xp, given, start, stop)
        parts.append(dz)
        totals.append(dh)
        dh = dh * _part(xp, out3, start, stop) + xp.matmul(dz, weight)
    dz = _joined(xp, parts, not reverse)
    new = _add(_joined(xp, totals, not reverse) * to_new, given_new)
    dx = xp.cat(_part(xp, dz, 0, 2 * h.shape[1], axis=1), new, axis=1)
    dw = xp.matmul(swap(xp, dz), before) if needs[1] else None
    db = None if bias is None else _sum_rows(xp, dz)
    return dx, dw, db, _whole(xp, dh, gone)
