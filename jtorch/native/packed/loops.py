"""The loops around the innermost one: which blocks are packed when, and where their product goes."""

from __future__ import annotations

from jtorch.native.llvm_text import NULL, Value, Writer, integer
from jtorch.native.packed.vectors import (
    FREE,
    IN_A,
    IN_B,
    IN_C,
    INNER,
    INNER_BLOCK,
    MALLOC,
    PARTS,
    RUN_WORDS,
    Vectors,
)


class _Lanes:
    """Rows or columns in vectors: their offsets in a factor or in the result, and their runs."""

    def __init__(self, v: Vectors, w: Writer, vectors: int) -> None:
        self.v, self.w, self.vectors = v, w, vectors
        self.offsets = w.array("i64", vectors * v.lanes)
        self.runs = w.array("i64", vectors * RUN_WORDS)

    def find(self, axes: Value, which: int, first: Value, count: Value) -> None:
        w, most = self.w, self.vectors * self.v.lanes
        _offsets(w, axes, which, first, count, self.offsets)
        _runs(w, self.offsets, count, integer(self.vectors), self.runs)
        # lanes beyond the end read the last element once more where they are gathered
        last = w.load_nth(self.offsets, w.minus(count, integer(1)), kind="i64")
        with w.repeat(w.minus(integer(most), count)) as k:
            w.store_nth(last, self.offsets, w.plus(count, k))

    def word(self, vector: int, k: int) -> Value:
        """Word ``k`` of how a vector is loaded: see RUN_WORDS."""
        return self.w.load(self.runs, 8 * (RUN_WORDS * vector + k), kind="i64")


class _Inner:
    """A block of the inner axis: offsets in one factor, and their runs."""

    def __init__(self, v: Vectors, w: Writer) -> None:
        self.v, self.w = v, w
        self.offsets = w.array("i64", INNER_BLOCK)
        self.runs = w.array("i64", INNER_BLOCK // v.lanes * RUN_WORDS)

    def find(self, axes: Value, which: int, first: Value, count: Value) -> None:
        w, lanes = self.w, self.v.lanes
        _offsets(w, axes, which, first, count, self.offsets)
        vectors = w.quotient(w.plus(count, integer(lanes - 1)), integer(lanes))
        _runs(w, self.offsets, count, vectors, self.runs)


def _offsets(w: Writer, axes: Value, which: int, first: Value, count: Value, out: Value) -> None:
    w.call(Value("ptr", "@offsets"), axes, integer(which), first, count, out, gives="void")


def _runs(w: Writer, offsets: Value, total: Value, vectors: Value, out: Value) -> None:
    w.call(Value("ptr", "@runs"), offsets, total, vectors, out, gives="void")


def loops(v: Vectors, no_memory: int) -> str:
    """The kernel: a range of the batch, of rows and of columns, see PIECE_WORDS. Its status is 0, or
    ``no_memory``."""
    w = Writer("jtorch_product", {"block": "ptr"}, gives="i64")
    block = w.parameters["block"]
    what = w.load(block)
    first_matrix, last_matrix, *ranges = (w.load(block, 8 * k, kind="i64") for k in range(1, 7))
    rows, columns = w.minus(ranges[1], ranges[0]), w.minus(ranges[3], ranges[2])
    w.give_if(w.either(w.less(rows, integer(1)), w.less(columns, integer(1))), integer(0))
    size = v.panels * v.panel_bytes + INNER_BLOCK * 2 * v.bytes + v.bytes
    memory = w.call(w.load(what, 8 * MALLOC), integer(size))
    w.give_if(w.same(memory, NULL), integer(no_memory))
    ahead = w.operation("i64", f"ptrtoint {memory} to i64")
    beyond = w.operation("i64", f"and {w.plus(ahead, integer(v.bytes - 1))}, {-v.bytes}")
    packed = w.at_bytes(memory, w.minus(beyond, ahead))  # the first multiple of a vector's size
    matrix = _Matrix(v, w, what, packed, ranges[0], rows, ranges[2], columns)
    places = [w.array("i64", 1) for _ in range(3)]
    with w.repeat(w.minus(last_matrix, first_matrix)) as turn:
        here = []
        for which, place in zip((IN_A, IN_B, IN_C), places, strict=True):
            _offsets(w, matrix.axes["batch"], which, w.plus(first_matrix, turn), integer(1), place)
            here.append(w.at_bytes(w.load(what, 8 * (which - 1)), w.load(place, kind="i64")))
        matrix.multiply(*here)
    w.call(w.load(what, 8 * FREE), memory, gives="void")
    w.give(integer(0))
    return w.text()


class _Matrix:
    """The product of one matrix of a and one of b, rows and columns in a range."""

    def __init__(
        self, v: Vectors, w: Writer, what: Value, packed: Value, first_row: Value, rows: Value,
        first_column: Value, columns: Value,
    ) -> None:  # fmt: skip
        self.v, self.w = v, w
        self.axes = {name: w.at(what, 8 * at) for name, at in PARTS.items()}
        self.inner = w.load(what, 8 * INNER, kind="i64")
        self.first_row, self.first_column, self.columns = first_row, first_column, columns
        self.packed_rows, self.packed_columns = packed, w.at(packed, v.panels * v.panel_bytes)
        self.inner_a, self.inner_b = _Inner(v, w), _Inner(v, w)
        self.rows_of_a, self.columns_of_b = _Lanes(v, w, v.left), _Lanes(v, w, 2)
        self.rows_of_c, self.columns_of_c = w.array("i64", v.panels * v.rows), _Lanes(v, w, 2)
        # the product of a panel by itself, where its columns lie apart in the result
        self.apart, self.rows_apart = w.array("i8", v.rows * 2 * v.bytes, align=64), w.array("i64", v.rows)
        for i in range(v.rows):
            w.store(integer(2 * v.bytes * i), self.rows_apart, 8 * i)
        # the rows are dealt to panels as evenly as can be
        self.panels = w.quotient(w.plus(rows, integer(v.rows - 1)), integer(v.rows))
        self.in_panel, self.longer = w.quotient(rows, self.panels), w.remainder(rows, self.panels)

    def _panel(self, panel: Value) -> tuple[Value, Value]:
        """(its first row, from ``first_row`` on, and how many it has)"""
        w = self.w
        start = w.plus(w.times(panel, self.in_panel), w.least(panel, self.longer))
        return start, w.plus(self.in_panel, w.operation("i64", f"zext {w.less(panel, self.longer)} to i64"))

    def multiply(self, a: Value, b: Value, c: Value) -> None:
        w = self.w
        depths = w.quotient(w.plus(self.inner, integer(INNER_BLOCK - 1)), integer(INNER_BLOCK))
        # no products: their sum is written all the same
        with w.repeat(w.chosen(w.less(self.inner, integer(1)), integer(1), depths)) as depth:
            first = w.times(depth, integer(INNER_BLOCK))
            count = w.least(w.minus(self.inner, first), integer(INNER_BLOCK))
            none = w.operation("i64", f"zext {w.less(count, integer(1))} to i64")
            missing = w.plus(w.masked(count, 1), w.times(none, integer(2)))  # to an even number that is not 0
            self.inner_a.find(self.axes["inner"], IN_A, first, count)
            self.inner_b.find(self.axes["inner"], IN_B, first, count)
            fresh = w.same(depth, integer(0))
            blocks = w.quotient(w.plus(self.panels, integer(self.v.panels - 1)), integer(self.v.panels))
            with w.repeat(blocks) as block:
                panel = w.times(block, integer(self.v.panels))
                many = w.least(w.minus(self.panels, panel), integer(self.v.panels))
                self._pack_rows(a, panel, many, count, missing)
                self._columns(b, c, panel, many, count, missing, fresh)

    def _pack_rows(self, a: Value, first: Value, many: Value, count: Value, missing: Value) -> None:
        w = self.w
        with w.repeat(many) as panel:
            start, size = self._panel(w.plus(first, panel))
            row = w.plus(self.first_row, start)
            _offsets(w, self.axes["rows"], IN_C, row, size, self._rows_of_c(panel))
            self.rows_of_a.find(self.axes["rows"], IN_A, row, size)
            self._pack(a, self.rows_of_a, self.inner_a, count, missing, self._packed_panel(panel))

    def _packed_panel(self, panel: Value) -> Value:
        return self.w.at_bytes(self.packed_rows, self.w.times(panel, integer(self.v.panel_bytes)))

    def _rows_of_c(self, panel: Value) -> Value:
        return self.w.nth(self.rows_of_c, self.w.times(panel, integer(self.v.rows)))

    def _pack(
        self, source: Value, lanes: _Lanes, inner: _Inner, count: Value, missing: Value, out: Value
    ) -> None:
        """Vectors of rows or columns, side by side for each product; zeros for those that are ``missing``."""
        v, w = self.v, self.w
        step = lanes.vectors * v.bytes
        for k in range(lanes.vectors):
            w.call(
                Value("ptr", "@pack"), source, w.at(lanes.offsets, 8 * v.lanes * k),
                w.at(lanes.runs, 8 * RUN_WORDS * k), inner.offsets, inner.runs, count, w.at(out, v.bytes * k),
                integer(step), gives="void",
            )  # fmt: skip
        with w.repeat(missing) as more:
            end = w.at_bytes(out, w.times(w.plus(count, more), integer(step)))
            for k in range(lanes.vectors):
                v.store(w, v.zero, w.at(end, v.bytes * k))

    def _columns(
        self, b: Value, c: Value, first: Value, many: Value, count: Value, missing: Value, fresh: Value
    ) -> None:
        """Two vectors of columns at a time: pack them, then multiply all packed rows by them."""
        v, w = self.v, self.w
        wide = integer(2 * v.lanes)
        with w.repeat(w.quotient(w.plus(self.columns, integer(2 * v.lanes - 1)), wide)) as turn:
            at = w.times(turn, wide)
            left, column = w.least(w.minus(self.columns, at), wide), w.plus(self.first_column, at)
            self.columns_of_b.find(self.axes["columns"], IN_B, column, left)
            self.columns_of_c.find(self.axes["columns"], IN_C, column, left)
            self._pack(b, self.columns_of_b, self.inner_b, count, missing, self.packed_columns)
            # where the columns of each vector lie side by side in the result it is stored as it is
            of_c = self.columns_of_c
            scattered = w.either(
                *(w.same(of_c.word(half, 0), integer(0)) for half in range(2)),
                *(w.true(of_c.word(half, 3)) for half in range(2)),  # a second run
            )
            even = w.plus(count, missing)
            with w.repeat(many) as panel:
                _, size = self._panel(w.plus(first, panel))
                factors = (self._packed_panel(panel), self.packed_columns, even)
                rows = self._rows_of_c(panel)
                with w.when(w.negated(scattered)):
                    places = [w.at_bytes(c, of_c.word(half, 2)) for half in range(2)]
                    self._call(size, *factors, *places, rows, fresh, of_c.word(0, 1), of_c.word(1, 1))
                with w.when(scattered):
                    places = [self.apart, w.at(self.apart, v.bytes)]
                    every, anew = integer(v.every), Value("i1", "true")
                    self._call(size, *factors, *places, self.rows_apart, anew, every, every)
                    self._scatter(size, left, c, rows, fresh)

    def _call(self, rows: Value, *arguments: Value) -> None:
        """The innermost loop for so many rows."""
        w = self.w
        ways, done = [w.label("rows") for _ in range(self.v.rows)], w.label("done")
        cases = " ".join(f"i64 {n + 1}, label %{way}" for n, way in enumerate(ways))
        w.instruction(f"switch {rows}, label %{done} [ {cases} ]")
        for n, way in enumerate(ways):
            w.begin(way)
            w.call(Value("ptr", f"@panel_{n + 1}"), *arguments, gives="void")
            w.leave(done)
        w.begin(done)

    def _scatter(self, size: Value, left: Value, c: Value, rows: Value, fresh: Value) -> None:
        """What was computed apart to its places in the result, or added there, one by one."""
        v, w = self.v, self.w
        with w.repeat(size) as i:
            row = w.at_bytes(c, w.load_nth(rows, i, kind="i64"))
            computed = w.at_bytes(self.apart, w.times(i, integer(2 * v.bytes)))
            with w.repeat(left) as k:
                number = w.load(w.at_bytes(computed, w.times(k, integer(v.item))), kind=v.float)
                to = w.at_bytes(row, w.load_nth(self.columns_of_c.offsets, k, kind="i64"))
                added = w.operation(v.float, f"fadd {w.load(to, kind=v.float)}, {number.name}")
                w.store(w.chosen(fresh, number, added), to)
