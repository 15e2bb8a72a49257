"""Where the elements of a block are, and copying them into the order the innermost loop reads them in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

from jtorch.native.llvm_text import Value, Writer, integer
from jtorch.native.packed.vectors import AXES, AXIS_WORDS, PLAIN, RUN_WORDS, RUNS, Vectors


def offsets() -> str:
    """Bytes from the first element of a part to ``count`` of them from ``first`` on."""
    parameters = {"axes": "ptr", "which": "i64", "first": "i64", "count": "i64", "out": "ptr"}
    w = Writer("offsets", parameters, gives="void", internal=True)
    axes, which, first, count, out = w.parameters.values()
    sizes, steps, at = (w.array("i64", AXES) for _ in range(3))
    rest, offset = w.slot(integer(0)), w.slot(integer(0))
    w.store(first, rest)
    for k in reversed(range(AXES)):
        size = w.load(axes, 8 * AXIS_WORDS * k, kind="i64")
        step = w.load_nth(axes, w.plus(which, integer(AXIS_WORDS * k)), kind="i64")
        left = w.load(rest, kind="i64")
        here = w.remainder(left, size)
        w.store(w.quotient(left, size), rest)
        w.store(w.plus(w.load(offset, kind="i64"), w.times(here, step)), offset)
        w.store(size, sizes, 8 * k)
        w.store(step, steps, 8 * k)
        w.store(here, at, 8 * k)
    last = 8 * (AXES - 1)
    size, step = (w.load(words, last, kind="i64") for words in (sizes, steps))
    done, again, after = w.slot(integer(0)), w.label("again"), w.label("after")
    w.leave(again)
    w.begin(again)
    ready = w.load(done, kind="i64")
    here = w.load(at, last, kind="i64")
    run = w.least(w.minus(size, here), w.minus(count, ready))  # along the last axis no other one moves
    start, out_here = w.load(offset, kind="i64"), w.nth(out, ready)
    with w.repeat(run) as n:
        w.store_nth(w.plus(start, w.times(n, step)), out_here, n)
    ready = w.plus(ready, run)
    w.store(ready, done)
    w.leave_if(w.negated(w.less(ready, count)), after)
    w.store(integer(0), at, last)
    w.store(w.minus(start, w.times(here, step)), offset)
    for axis in reversed(range(AXES - 1)):
        size, step = (w.load(words, 8 * axis, kind="i64") for words in (sizes, steps))
        following = w.plus(w.load(at, 8 * axis, kind="i64"), integer(1))
        w.store(following, at, 8 * axis)
        w.store(w.plus(w.load(offset, kind="i64"), step), offset)
        w.leave_if(w.less(following, size), again)  # else the next axis moves, too
        w.store(integer(0), at, 8 * axis)
        w.store(w.minus(w.load(offset, kind="i64"), w.times(size, step)), offset)
    w.leave(again)
    w.begin(after)
    w.give_nothing()
    return w.text()


def runs(v: Vectors, item: int) -> str:
    """For each of some vectors of ``total`` offsets of elements of ``item`` bytes how it is loaded: see
    ``RUN_WORDS``.

    A run are lanes whose elements lie side by side in memory. Lanes beyond the end are in none.
    """
    parameters = {"offsets": "ptr", "total": "i64", "vectors": "i64", "out": "ptr"}
    w = Writer(f"runs_{item}", parameters, gives="void", internal=True)
    offsets, total, vectors, out = w.parameters.values()
    wide, bits = v.offsets, v.bits
    expected = f"<{', '.join(f'i64 {k * item}' for k in range(v.lanes))}>"
    with w.repeat(vectors) as k:
        begin = w.times(k, integer(v.lanes))
        place = w.nth(offsets, begin)
        found = w.operation(wide, f"load {wide}, {place}, align 8")
        here = w.minus(total, begin)
        whole = w.operation(bits, f"bitcast {v.first(w, here)} to {bits}")
        left = w.slot(integer(0, bits))
        w.store(whole, left)
        runs = w.slot(integer(0))
        w.store(integer(0), runs)
        to = w.at_bytes(out, w.times(k, integer(8 * RUN_WORDS)))
        for n in range(RUNS):
            w.store(integer(0), to, 8 * (1 + 2 * n))
            w.store(integer(0), to, 8 * (2 + 2 * n))
        found_all = w.label("found_all")
        for n in range(RUNS):
            rest = w.load(left, kind=bits)
            w.leave_if(w.negated(w.true(rest)), found_all)
            zeros = w.operation(bits, f"call {bits} @llvm.cttz.{bits}({rest}, i1 true)")
            lane = w.operation("i64", f"zext {zeros} to i64")
            start = w.minus(w.load_nth(place, lane, kind="i64"), w.times(lane, integer(item)))
            apart = w.operation(wide, f"sub {found}, {v.spread(w, start, wide).name}")
            same = w.operation(v.mask, f"icmp eq {apart}, {expected}")
            lanes = w.operation(bits, f"bitcast {same} to {bits}")
            mask = w.operation(bits, f"and {lanes}, {rest.name}")
            w.store(w.operation(bits, f"xor {rest}, {mask.name}"), left)
            w.store(w.operation("i64", f"zext {mask} to i64"), to, 8 * (1 + 2 * n))
            w.store(start, to, 8 * (2 + 2 * n))
            w.store(integer(n + 1), runs)
        w.leave(found_all)
        w.begin(found_all)
        count, more = w.load(runs, kind="i64"), w.true(w.load(left, kind=bits))
        count = w.chosen(w.less(count, integer(1)), integer(1), count)  # of no lanes: a run of none
        one_run, first_run = w.same(count, integer(1)), w.load(to, 8, kind="i64")
        plain = w.both(one_run, w.same(first_run, integer(v.every)))
        w.store(w.chosen(more, integer(0), w.chosen(plain, integer(PLAIN), count)), to)
    w.give_nothing()
    return w.text()


def pack(v: Vectors) -> str:
    """One vector of rows or columns: element (k, lane) of it to ``out + k * step``.

    Lanes that make few runs are loaded by them; where the inner axis does so instead, squares are
    transposed; else elements are gathered. Rows beyond ``count`` up to a whole square may be written.
    """
    parameters = {
        "source": "ptr", "lanes": "ptr", "lane_runs": "ptr", "inner": "ptr", "inner_runs": "ptr",
        "count": "i64", "out": "ptr", "step": "i64",
    }  # fmt: skip
    w = Writer("pack", parameters, gives="void", internal=True)
    source, lanes, lane_runs, inner, inner_runs, count, out, step = w.parameters.values()

    def to(k: Value) -> Value:
        return w.at_bytes(out, w.times(k, step))

    def ways(words: Value) -> Iterator[Callable[[Value], Value]]:
        """The block once for each number of runs, with what loads a vector from a place then."""
        found = w.load(words, kind="i64")
        with w.when(w.same(found, integer(PLAIN))):
            first = w.load(words, 16, kind="i64")
            yield lambda place: v.read(w, w.at_bytes(place, first))
        for fewest, most in ((1, 1), (2, 2), (3, RUNS)):
            fits = w.both(w.less(integer(fewest - 1), found), w.less(found, integer(most + 1)))
            with w.when(fits):
                yield functools.partial(_loaded, v, w, _runs_at(v, w, words, most))

    for load in ways(lane_runs):
        with w.repeat(count) as k:
            v.store(w, load(w.at_bytes(source, w.load_nth(inner, k, kind="i64"))), to(k))
        w.give_nothing()
        w.begin_unreached()

    offsets = w.operation(v.offsets, f"load {v.offsets}, {lanes}, align 8")
    squares = w.quotient(w.plus(count, integer(v.lanes - 1)), integer(v.lanes))
    with w.repeat(squares) as square:
        begin = w.times(square, integer(v.lanes))
        words = w.at_bytes(inner_runs, w.times(square, integer(8 * RUN_WORDS)))
        for load in ways(words):
            found = [w.load(lanes, 8 * n, kind="i64") for n in range(v.lanes)]
            read = [load(w.at_bytes(source, offset)) for offset in found]
            for n, vector in enumerate(_transposed(v, w, read)):
                v.store(w, vector, to(w.plus(begin, integer(n))))
        rest = w.least(w.minus(count, begin), integer(v.lanes))
        with w.when(w.same(w.load(words, kind="i64"), integer(0))), w.repeat(rest) as turn:
            k = w.plus(begin, turn)
            place = w.at_bytes(source, w.load_nth(inner, k, kind="i64"))
            v.store(w, v.gather(w, place, offsets), to(k))
    w.give_nothing()
    return w.text()


def _loaded(v: Vectors, w: Writer, runs: list[tuple[Value, Value]], place: Value) -> Value:
    """A vector put together from (mask, offset) runs, 0 in lanes of none."""
    vector = v.zero
    for mask, offset in runs:
        vector = v.masked_read(w, w.at_bytes(place, offset), mask, vector)
    return vector


def _runs_at(v: Vectors, w: Writer, words: Value, count: int) -> list[tuple[Value, Value]]:
    """The first ``count`` runs that ``runs`` wrote."""
    found = []
    for n in range(count):
        mask = v.mask_of(w, w.load(words, 8 * (1 + 2 * n), kind="i64"))
        found.append((mask, w.load(words, 8 * (2 + 2 * n), kind="i64")))
    return found


def _transposed(v: Vectors, w: Writer, rows: list[Value]) -> list[Value]:
    """As many vectors as lanes, with rows and columns exchanged."""
    n = v.lanes
    step = 1
    while step < n:
        out = list(rows)
        for i in range(n):
            if i & step:
                continue
            a, b = rows[i], rows[i + step]
            low = [n + j - step if j & step else j for j in range(n)]
            high = [n + j if j & step else j + step for j in range(n)]
            for k, picks in ((i, low), (i + step, high)):
                mask = ", ".join(f"i32 {p}" for p in picks)
                out[k] = w.operation(v.kind, f"shufflevector {a}, {b}, <{n} x i32> <{mask}>")
        rows = out
        step *= 2
    return rows
