"""The loops around the innermost one: which blocks are packed when, and where their product goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy

from jtorch.native.llvm_text import NULL, Value, Writer, integer
from jtorch.native.packed.vectors import (
    BIAS,
    FIRST,
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

_AT_HAND = 64
"""Of the inner axis: so many rows of a row-major factor are in reach together. A multiple of all lanes."""


class Lanes:
    """Rows or columns in vectors: their offsets in a factor or in the result, and their runs."""

    def __init__(self, v: Vectors, w: Writer, vectors: int, panels: int = 1) -> None:
        self.v, self.w, self.vectors = v, w, vectors
        self.offsets = w.array("i64", panels * vectors * v.lanes)
        self.runs = w.array("i64", panels * vectors * RUN_WORDS)

    def of(self, panel: Value) -> Lanes:
        """Those of one of several panels."""
        w, its = self.w, copy(self)
        its.offsets = w.nth(self.offsets, w.times(panel, integer(self.vectors * self.v.lanes)))
        its.runs = w.nth(self.runs, w.times(panel, integer(self.vectors * RUN_WORDS)))
        return its

    def find(self, axes: Value, which: int, first: Value, count: Value) -> None:
        w, most = self.w, self.vectors * self.v.lanes
        offsets_of(w, axes, which, first, count, self.offsets)
        item = self.v.item if which == IN_C else self.v.factor_item
        runs_of(w, item, self.offsets, count, integer(self.vectors), self.runs)
        # lanes beyond the end read the last element once more where they are gathered
        last = w.load_nth(self.offsets, w.minus(count, integer(1)), kind="i64")
        with w.repeat(w.minus(integer(most), count)) as k:
            w.store_nth(last, self.offsets, w.plus(count, k))

    def word(self, vector: int, k: int) -> Value:
        """Word ``k`` of how a vector is loaded: see RUN_WORDS."""
        return self.w.load(self.runs, 8 * (RUN_WORDS * vector + k), kind="i64")


class Inner:
    """A block of the inner axis: offsets in one factor, and their runs."""

    def __init__(self, v: Vectors, w: Writer) -> None:
        self.v, self.w = v, w
        self.offsets = w.array("i64", INNER_BLOCK)
        self.runs = w.array("i64", INNER_BLOCK // v.lanes * RUN_WORDS)

    def part(self, first: Value) -> Inner:
        """From ``first`` on, a multiple of a vector's lanes."""
        w, its = self.w, copy(self)
        its.offsets = w.nth(self.offsets, first)
        its.runs = w.nth(self.runs, w.times(w.quotient(first, integer(self.v.lanes)), integer(RUN_WORDS)))
        return its

    def find(self, axes: Value, which: int, first: Value, count: Value) -> None:
        w, lanes = self.w, self.v.lanes
        offsets_of(w, axes, which, first, count, self.offsets)
        vectors = w.quotient(w.plus(count, integer(lanes - 1)), integer(lanes))
        runs_of(w, self.v.factor_item, self.offsets, count, vectors, self.runs)


def offsets_of(w: Writer, axes: Value, which: int, first: Value, count: Value, out: Value) -> None:
    w.call(Value("ptr", "@offsets"), axes, integer(which), first, count, out, gives="void")


def runs_of(w: Writer, item: int, offsets: Value, total: Value, vectors: Value, out: Value) -> None:
    w.call(Value("ptr", f"@runs_{item}"), offsets, total, vectors, out, gives="void")


def loops(v: Vectors, no_memory: int) -> str:
    """The kernel: a range of the batch, of rows and of columns, see PIECE_WORDS. Its status is 0, or
    ``no_memory``."""
    return kernel(v, "jtorch_product", no_memory, BothPacked)


def kernel(v: Vectors, name: str, no_memory: int, way: type[Matrix]) -> str:
    """A function over the matrices of a range of the batch, each multiplied in a ``way``."""
    w = Writer(name, {"block": "ptr"}, gives="i64")
    block = w.parameters["block"]
    what = w.load(block)
    first_matrix, last_matrix, *ranges = (w.load(block, 8 * k, kind="i64") for k in range(1, 7))
    rows, columns = w.minus(ranges[1], ranges[0]), w.minus(ranges[3], ranges[2])
    w.give_if(w.either(w.less(rows, integer(1)), w.less(columns, integer(1))), integer(0))
    matrix = way(v, w, what, (ranges[0], rows), (ranges[2], columns))
    count = w.minus(last_matrix, first_matrix)
    blocks, its_places = matrix.memory(), w.times(count, integer(8))
    memory = w.call(
        w.load(what, 8 * MALLOC), w.plus(w.plus(blocks, integer(v.bytes)), w.times(its_places, integer(3)))
    )
    w.give_if(w.same(memory, NULL), integer(no_memory))
    ahead = w.operation("i64", f"ptrtoint {memory} to i64")
    beyond = w.operation("i64", f"and {w.plus(ahead, integer(v.bytes - 1))}, {-v.bytes}")
    aligned = w.at_bytes(memory, w.minus(beyond, ahead))  # the first multiple of a vector's size
    matrix.lay_out(aligned)
    first = w.load(what, 8 * FIRST, kind="i64")
    begins = [w.load_nth(what, k) for k in (first, w.minus(integer(1), first), integer(2))]
    places = [w.at_bytes(aligned, w.plus(blocks, w.times(its_places, integer(k)))) for k in range(3)]
    for which, place in zip((IN_A, IN_B, IN_C), places, strict=True):
        offsets_of(w, matrix.axes["batch"], which, first_matrix, count, place)
    with w.repeat(count) as turn:
        here = [w.load_nth(place, turn, kind="i64") for place in places]
        matrix.multiply(*map(w.at_bytes, begins, here))
    w.call(w.load(what, 8 * FREE), memory, gives="void")
    w.give(integer(0))
    return w.text()


class Matrix:
    """The product of one matrix of a and one of b; ``rows`` and ``columns`` are the first, and how many."""

    known_pairs = 1
    """Pairs of vectors of columns of which it is known at the same time where they lie."""

    def __init__(
        self, v: Vectors, w: Writer, what: Value, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> None:
        self.v, self.w = v, w
        self.axes = {name: w.at(what, 8 * at) for name, at in PARTS.items()}
        self.inner = w.load(what, 8 * INNER, kind="i64")
        self.bias = w.load(what, 8 * BIAS)
        (self.first_row, self.rows), (self.first_column, self.columns) = rows, columns
        self.inner_b = Inner(v, w)
        self.columns_of_b, self.columns_of_c = (Lanes(v, w, 2, self.known_pairs) for _ in range(2))
        self.pairs = w.quotient(w.plus(self.columns, integer(2 * v.lanes - 1)), integer(2 * v.lanes))
        # the rows are dealt to panels as evenly as can be
        self.panels = w.quotient(w.plus(self.rows, integer(v.rows - 1)), integer(v.rows))
        self.in_panel = w.quotient(self.rows, self.panels)
        self.longer = w.remainder(self.rows, self.panels)

    def memory(self) -> Value:
        """Bytes that are needed for blocks."""
        raise NotImplementedError

    def lay_out(self, memory: Value) -> None:
        """Where the blocks are."""
        raise NotImplementedError

    def multiply(self, a: Value, b: Value, c: Value) -> None:
        raise NotImplementedError

    def panel(self, panel: Value) -> tuple[Value, Value]:
        """(its first row, from ``first_row`` on, and how many it has)"""
        w = self.w
        start = w.plus(w.times(panel, self.in_panel), w.least(panel, self.longer))
        return start, w.plus(self.in_panel, w.operation("i64", f"zext {w.less(panel, self.longer)} to i64"))

    @contextmanager
    def blocks_of_inner(self) -> Iterator[tuple[Value, Value, Value]]:
        """For each block of the inner axis its first element, how many it has, and whether it is the first
        block.

        Where there are no products their sum is written all the same.
        """
        w = self.w
        depths = w.quotient(w.plus(self.inner, integer(INNER_BLOCK - 1)), integer(INNER_BLOCK))
        with w.repeat(w.chosen(w.less(self.inner, integer(1)), integer(1), depths)) as depth:
            first = w.times(depth, integer(INNER_BLOCK))
            yield first, w.least(w.minus(self.inner, first), integer(INNER_BLOCK)), w.same(depth, integer(0))

    @contextmanager
    def pairs_of_columns(self) -> Iterator[tuple[Value, Value]]:
        """For each two vectors of columns the first and how many, once it is known where they lie."""
        with self.w.repeat(self.pairs) as pair:
            column, left = self.pair(pair)
            self.find_columns(column, left, self.columns_of_b, self.columns_of_c)
            yield column, left

    def pair(self, pair: Value) -> tuple[Value, Value]:
        """(the first column of two vectors, how many they have)"""
        w, wide = self.w, integer(2 * self.v.lanes)
        at = w.times(pair, wide)
        return w.plus(self.first_column, at), w.least(w.minus(self.columns, at), wide)

    def find_columns(self, column: Value, left: Value, of_b: Lanes, of_c: Lanes) -> None:
        of_b.find(self.axes["columns"], IN_B, column, left)
        of_c.find(self.axes["columns"], IN_C, column, left)

    def are_scattered(self, columns: Lanes) -> Value:
        """Whether those of one of two vectors do not lie side by side in the result."""
        w = self.w
        return w.either(
            *(w.same(columns.word(half, 0), integer(0)) for half in range(2)),
            *(w.true(columns.word(half, 3)) for half in range(2)),  # a second run
        )

    def pack(self, source: Value, lanes: Lanes, inner: Inner, count: Value, out: Value) -> None:
        """Vectors of rows or columns, side by side for each product."""
        for k in range(lanes.vectors):
            self.pack_vector(k, source, lanes, inner, count, out)

    def pack_vector(
        self, k: int, source: Value, lanes: Lanes, inner: Inner, count: Value, out: Value
    ) -> None:
        v, w = self.v, self.w
        w.call(
            Value("ptr", "@pack"), source, w.at(lanes.offsets, 8 * v.lanes * k),
            w.at(lanes.runs, 8 * RUN_WORDS * k), inner.offsets, inner.runs, count, w.at(out, v.bytes * k),
            integer(lanes.vectors * v.bytes), gives="void",
        )  # fmt: skip

    def by_rows(self, rows: Value, name: str, *arguments: Value) -> None:
        """The innermost loop for so many rows."""
        w = self.w
        ways, done = [w.label("rows") for _ in range(self.v.rows)], w.label("done")
        cases = " ".join(f"i64 {n + 1}, label %{way}" for n, way in enumerate(ways))
        w.instruction(f"switch {rows}, label %{done} [ {cases} ]")
        for n, way in enumerate(ways):
            w.begin(way)
            w.call(Value("ptr", f"@{name}_{n + 1}"), *arguments, gives="void")
            w.leave(done)
        w.begin(done)

    def scatter(
        self, computed: Value, size: Value, left: Value, c: Value, rows: Value, fresh: Value,
        addend: Value | None = None, columns: Lanes | None = None,
    ) -> None:  # fmt: skip
        """A panel that was ``computed`` apart to its places in the result, or added there, one by one; then
        ``addend``, a number per column."""
        columns = columns or self.columns_of_c
        v, w = self.v, self.w
        with w.repeat(size) as i:
            row = w.at_bytes(c, w.load_nth(rows, i, kind="i64"))
            here = w.at_bytes(computed, w.times(i, integer(2 * v.bytes)))
            with w.repeat(left) as k:
                number = w.load(w.at_bytes(here, w.times(k, integer(v.item))), kind=v.float)
                to = w.at_bytes(row, w.load_nth(columns.offsets, k, kind="i64"))
                added = w.operation(v.float, f"fadd {w.load(to, kind=v.float)}, {number.name}")
                total = w.chosen(fresh, number, added)
                if addend is not None:
                    bias = w.load(w.at_bytes(addend, w.times(k, integer(v.item))), kind=v.float)
                    total = w.operation(v.float, f"fadd {total}, {bias.name}")
                w.store(total, to)


class BothPacked(Matrix):
    """Both factors are packed: rows once for all columns, columns once for each block of rows."""

    def __init__(
        self, v: Vectors, w: Writer, what: Value, rows: tuple[Value, Value], columns: tuple[Value, Value]
    ) -> None:
        super().__init__(v, w, what, rows, columns)
        self.inner_a, self.rows_of_a = Inner(v, w), Lanes(v, w, v.left, v.panels)
        self.rows_of_c = w.array("i64", v.panels * v.rows)
        # the product of a panel by itself, where its columns lie apart in the result
        self.apart, self.rows_apart = w.array("i8", v.rows * 2 * v.bytes, align=64), w.array("i64", v.rows)
        # what a panel adds: nothing, or the bias
        self.nothing, self.addend = (w.array("i8", v.rows * 2 * v.bytes, align=64) for _ in range(2))
        for i in range(v.rows):
            w.store(integer(2 * v.bytes * i), self.rows_apart, 8 * i)
            for half in range(2):
                for block in (self.nothing, self.addend):
                    v.store(w, v.nothing, w.at(block, v.bytes * (2 * i + half)))

    def memory(self) -> Value:
        return integer(self.v.panels * self.v.panel_bytes + INNER_BLOCK * 2 * self.v.bytes)

    def lay_out(self, memory: Value) -> None:
        self.packed_rows = memory
        self.packed_columns = self.w.at(memory, self.v.panels * self.v.panel_bytes)

    def multiply(self, a: Value, b: Value, c: Value) -> None:
        w, v = self.w, self.v
        with self.blocks_of_inner() as (first, count, fresh):
            none = w.operation("i64", f"zext {w.less(count, integer(1))} to i64")
            missing = w.plus(w.masked(count, 1), w.times(none, integer(2)))  # to an even number that is not 0
            self.inner_a.find(self.axes["inner"], IN_A, first, count)
            self.inner_b.find(self.axes["inner"], IN_B, first, count)
            blocks = w.quotient(w.plus(self.panels, integer(v.panels - 1)), integer(v.panels))
            with w.repeat(blocks) as block:
                panel = w.times(block, integer(v.panels))
                many = w.least(w.minus(self.panels, panel), integer(v.panels))
                self._pack_rows(a, panel, many, count, missing)
                last = w.negated(w.less(w.plus(first, count), self.inner))
                self._columns(b, c, panel, many, count, missing, fresh, last)

    def _pack_rows(self, a: Value, first: Value, many: Value, count: Value, missing: Value) -> None:
        w = self.w
        with w.repeat(many) as panel:
            start, size = self.panel(w.plus(first, panel))
            row = w.plus(self.first_row, start)
            offsets_of(w, self.axes["rows"], IN_C, row, size, self._rows_of_c(panel))
            self.rows_of_a.of(panel).find(self.axes["rows"], IN_A, row, size)
        # some of the inner axis for all panels: where rows lie side by side the next panel's are at hand
        with w.repeat(w.quotient(w.plus(count, integer(_AT_HAND - 1)), integer(_AT_HAND))) as turn:
            begin = w.times(turn, integer(_AT_HAND))
            here, inner = w.least(w.minus(count, begin), integer(_AT_HAND)), self.inner_a.part(begin)
            with w.repeat(many) as panel:
                rows = self.rows_of_a.of(panel)
                ahead = w.times(begin, integer(rows.vectors * self.v.bytes))
                self.pack(a, rows, inner, here, w.at_bytes(self._packed_panel(panel), ahead))
        with w.repeat(many) as panel:
            self._pad(self.rows_of_a, count, missing, self._packed_panel(panel))

    def _packed_panel(self, panel: Value) -> Value:
        return self.w.at_bytes(self.packed_rows, self.w.times(panel, integer(self.v.panel_bytes)))

    def _rows_of_c(self, panel: Value) -> Value:
        return self.w.nth(self.rows_of_c, self.w.times(panel, integer(self.v.rows)))

    def _pad(self, lanes: Lanes, count: Value, missing: Value, out: Value) -> None:
        """Zeros for those that are ``missing`` after ``count``."""
        v, w = self.v, self.w
        step = lanes.vectors * v.bytes
        with w.repeat(missing) as more:
            end = w.at_bytes(out, w.times(w.plus(count, more), integer(step)))
            for k in range(lanes.vectors):
                v.store(w, v.zero, w.at(end, v.bytes * k))

    def _columns(
        self, b: Value, c: Value, first: Value, many: Value, count: Value, missing: Value, fresh: Value,
        last: Value,
    ) -> None:  # fmt: skip
        """Two vectors of columns at a time: pack them, then multiply all packed rows by them."""
        v, w = self.v, self.w
        with self.pairs_of_columns() as (column, left):
            self.pack(b, self.columns_of_b, self.inner_b, count, self.packed_columns)
            self._pad(self.columns_of_b, count, missing, self.packed_columns)
            with w.when(w.negated(w.same(self.bias, NULL))):
                self._add_bias(column, left, last)
            of_c = self.columns_of_c
            scattered = self.are_scattered(of_c)  # else vectors are stored as they are
            even = w.plus(count, missing)
            with w.repeat(many) as panel:
                _, size = self.panel(w.plus(first, panel))
                factors = (self._packed_panel(panel), self.packed_columns, even)
                rows = self._rows_of_c(panel)
                with w.when(w.negated(scattered)):
                    places = [w.at_bytes(c, of_c.word(half, 2)) for half in range(2)]
                    lanes = [of_c.word(half, 1) for half in range(2)]
                    self.by_rows(size, "panel", *factors, *places, rows, self.addend, fresh, *lanes)
                with w.when(scattered):
                    places = [self.apart, w.at(self.apart, v.bytes)]
                    every, anew = integer(v.every), Value("i1", "true")
                    anywhere = (self.rows_apart, self.nothing, anew, every, every)
                    self.by_rows(size, "panel", *factors, *places, *anywhere)
                    self.scatter(self.apart, size, left, c, rows, fresh, self.addend)

    def _add_bias(self, column: Value, left: Value, last: Value) -> None:
        """Each row of a panel adds the bias of the columns when the ``last`` products are summed."""
        v, w = self.v, self.w
        for half in range(2):
            here = w.at_bytes(self.bias, w.times(w.plus(column, integer(half * v.lanes)), integer(v.item)))
            lanes = v.first(w, w.minus(left, integer(half * v.lanes)))
            bias = w.chosen(last, v.masked_load(w, here, lanes, v.nothing), v.nothing)
            for i in range(v.rows):
                v.store(w, bias, w.at(self.addend, v.bytes * (2 * i + half)))
