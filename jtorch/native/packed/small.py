"""The products of many small matrices, one after the other.

A small matrix takes less time than finding out where it lies: so that is done once for all of them. Rows are
read where they lie, columns are packed, and each panel is summed over the whole inner axis, of one block:

    tables of rows, columns and the inner axis
    for each matrix:
        for each two vectors of columns:   pack them: [inner][2 vectors]
            for each panel of rows:            registers = single elements x panel, then to the result
"""

from __future__ import annotations

from jtorch.native.llvm_text import Value, Writer, integer
from jtorch.native.packed.direct import sums_where_they_lie
from jtorch.native.packed.loops import Lanes, Matrix, kernel, offsets_of
from jtorch.native.packed.vectors import IN_A, IN_B, IN_C, INNER_BLOCK, SMALL_PAIRS, SMALL_ROWS, Vectors


def small(v: Vectors, no_memory: int) -> str:
    """The kernel, with the argument block and the status of ``loops``, for matrices of SMALL_ROWS rows,
    SMALL_PAIRS pairs of vectors of columns, and an inner axis of INNER_BLOCK at most."""
    panels = [_panel(v, n + 1, halves) for halves in (1, 2) for n in range(v.rows)]
    return "\n".join([*panels, kernel(v, "jtorch_small_product", no_memory, _Small)])


class _Small(Matrix):
    known_pairs = SMALL_PAIRS

    def memory(self) -> Value:
        return integer(INNER_BLOCK * 2 * self.v.bytes)

    def lay_out(self, memory: Value) -> None:
        w, v, first = self.w, self.v, integer(0)
        self.packed_columns = memory
        self.inner_a = w.array("i64", INNER_BLOCK)
        self.rows_of_a, self.rows_of_c = (w.array("i64", SMALL_ROWS) for _ in range(2))
        # a panel by itself, where its columns lie apart in the result
        self.apart, self.rows_apart = w.array("i8", v.rows * 2 * v.bytes, align=64), w.array("i64", v.rows)
        for i in range(v.rows):
            w.store(integer(2 * v.bytes * i), self.rows_apart, 8 * i)
        offsets_of(w, self.axes["inner"], IN_A, first, self.inner, self.inner_a)
        self.inner_b.find(self.axes["inner"], IN_B, first, self.inner)
        for which, found in ((IN_A, self.rows_of_a), (IN_C, self.rows_of_c)):
            offsets_of(w, self.axes["rows"], which, self.first_row, self.rows, found)
        with w.repeat(self.pairs) as pair:
            self.find_columns(*self.pair(pair), self.columns_of_b.of(pair), self.columns_of_c.of(pair))

    def multiply(self, a: Value, b: Value, c: Value) -> None:
        w, v = self.w, self.v
        with w.repeat(self.pairs) as pair:
            _, left = self.pair(pair)
            of_b, of_c = self.columns_of_b.of(pair), self.columns_of_c.of(pair)
            two = w.less(integer(v.lanes), left)
            self.pack_vector(0, b, of_b, self.inner_b, self.inner, self.packed_columns)
            with w.when(two):
                self.pack_vector(1, b, of_b, self.inner_b, self.inner, self.packed_columns)
            scattered = self.are_scattered(of_c)
            with w.repeat(self.panels) as panel:
                start, size = self.panel(panel)
                rows_of_a, rows_of_c = (w.nth(rows, start) for rows in (self.rows_of_a, self.rows_of_c))
                factors = (a, rows_of_a, self.inner_a, self.packed_columns, self.inner)
                with w.when(w.negated(scattered)):
                    self._in_place(size, two, factors, c, rows_of_c, of_c)
                with w.when(scattered):
                    every = integer(v.every)
                    places = (self.apart, w.at(self.apart, v.bytes), self.rows_apart, every, every)
                    self.by_rows(size, "small_panel_2", *factors, *places)
                    self.scatter(self.apart, size, left, c, rows_of_c, Value("i1", "true"), columns=of_c)

    def _in_place(
        self, size: Value, two: Value, factors: tuple[Value, ...], c: Value, rows: Value, columns: Lanes
    ) -> None:
        w = self.w
        places = [w.at_bytes(c, columns.word(half, 2)) for half in range(2)]
        lanes = [columns.word(half, 1) for half in range(2)]
        with w.when(two):
            self.by_rows(size, "small_panel_2", *factors, *places, rows, *lanes)
        with w.when(w.negated(two)):
            self.by_rows(size, "small_panel_1", *factors, *places, rows, *lanes)


def _panel(v: Vectors, rows: int, halves: int) -> str:
    """Some rows, each at its offset from ``a``, times one packed vector of columns or two, to the result: see
    ``panel.py``."""
    parameters = {
        "a": "ptr", "rows_of_a": "ptr", "inner": "ptr", "b": "ptr", "count": "i64", "c_0": "ptr",
        "c_1": "ptr", "rows_of_c": "ptr", "columns_0": "i64", "columns_1": "i64",
    }  # fmt: skip
    w = Writer(f"small_panel_{halves}_{rows}", parameters, gives="void", internal=True)
    a, rows_of_a, inner, b, count, c_0, c_1, rows_of_c, *columns = w.parameters.values()
    offsets = [w.load(rows_of_a, 8 * i, kind="i64") for i in range(rows)]
    sums = sums_where_they_lie(v, w, a, offsets, inner, b, count, halves)
    begins, columns = (c_0, c_1)[:halves], columns[:halves]
    places = [w.at_bytes(c, w.load(rows_of_c, 8 * i, kind="i64")) for i in range(rows) for c in begins]
    every = [w.same(lanes, integer(v.every)) for lanes in columns]
    with w.when(w.both(*every)):
        for total, place in zip(sums, places, strict=True):
            v.store(w, total, place)
        w.give_nothing()
        w.begin_unreached()
    masks = [v.mask_of(w, lanes) for lanes in columns]
    for k, (total, place) in enumerate(zip(sums, places, strict=True)):
        v.masked_store(w, total, place, masks[k % halves])
    w.give_nothing()
    return w.text()
