"""The product of which the rows are read where they lie, and only columns are packed.

It is for rows that are worth no copy: windows of images, which hold each pixel as often as windows share it.
The result of all rows and two vectors of columns is summed apart, over the whole inner axis, and then written
to its places, one number at a time; so it is for inner axes that are long and columns that fill the vectors.

    for each two vectors of columns:
        for each KC of the inner axis:   pack them: [KC][2 vectors]
            for each panel of rows:          registers += single elements x panel, then to the sums
        the sums to the result
"""

from __future__ import annotations

from jtorch.native.llvm_text import Value, Writer, integer
from jtorch.native.packed.loops import Matrix, kernel, offsets_of
from jtorch.native.packed.vectors import IN_A, IN_B, IN_C, INNER_BLOCK, Vectors


def direct(v: Vectors, no_memory: int) -> str:
    """The kernel, with the argument block and the status of ``loops``."""
    panels = [_panel(v, n + 1) for n in range(v.rows)]
    return "\n".join([*panels, kernel(v, "jtorch_direct_product", no_memory, _Direct)])


class _Direct(Matrix):
    """What is apart is, for each panel of rows, [row][2 vectors]."""

    def memory(self) -> Value:
        w, v = self.w, self.v
        every_row = w.times(self.panels, integer(v.rows))
        return w.plus(integer(INNER_BLOCK * 2 * v.bytes), w.times(every_row, integer(2 * v.bytes + 8)))

    def lay_out(self, memory: Value) -> None:
        w, v = self.w, self.v
        self.inner_a, self.rows_of_c = w.array("i64", INNER_BLOCK), w.array("i64", v.rows)
        self.packed_columns, self.apart = memory, w.at(memory, INNER_BLOCK * 2 * v.bytes)
        self.rows_of_a = w.at_bytes(self.apart, w.times(self.panels, integer(v.rows * 2 * v.bytes)))
        with w.repeat(self.panels) as panel:
            self._find_rows(panel, IN_A, self._of(self.rows_of_a, 8, panel))

    def multiply(self, a: Value, b: Value, c: Value) -> None:
        w, v = self.w, self.v
        with self.pairs_of_columns() as (_, left):
            with self.blocks_of_inner() as (first, count, fresh):
                offsets_of(w, self.axes["inner"], IN_A, first, count, self.inner_a)
                self.inner_b.find(self.axes["inner"], IN_B, first, count)
                self.pack(b, self.columns_of_b, self.inner_b, count, self.packed_columns)
                with w.repeat(self.panels) as panel:
                    rows, sums = self._of(self.rows_of_a, 8, panel), self._of(self.apart, 2 * v.bytes, panel)
                    factors = (a, rows, self.inner_a, self.packed_columns, count)
                    self.by_rows(self.panel(panel)[1], "direct_panel", *factors, sums, fresh)
            with w.repeat(self.panels) as panel:
                size = self._find_rows(panel, IN_C, self.rows_of_c)
                sums = self._of(self.apart, 2 * v.bytes, panel)
                self.scatter(sums, size, left, c, self.rows_of_c, Value("i1", "true"))

    def _find_rows(self, panel: Value, which: int, out: Value) -> Value:
        """Where the rows of a panel are; how many they are."""
        w = self.w
        start, size = self.panel(panel)
        offsets_of(w, self.axes["rows"], which, w.plus(self.first_row, start), size, out)
        return size

    def _of(self, words: Value, size: int, panel: Value) -> Value:
        """What belongs to a panel, ``size`` bytes for each of its rows."""
        return self.w.at_bytes(words, self.w.times(panel, integer(self.v.rows * size)))


def _panel(v: Vectors, rows: int) -> str:
    """Some rows, each at its offset from ``a``, times two packed vectors of columns, to ``sums`` or, not
    ``fresh``, added there."""
    parameters = {
        "a": "ptr", "rows": "ptr", "inner": "ptr", "b": "ptr", "count": "i64", "sums": "ptr", "fresh": "i1",
    }  # fmt: skip
    w = Writer(f"direct_panel_{rows}", parameters, gives="void", internal=True)
    a, row_offsets, inner, b, count, sums, fresh = w.parameters.values()
    offsets = [w.load(row_offsets, 8 * i, kind="i64") for i in range(rows)]
    found = sums_where_they_lie(v, w, a, offsets, inner, b, count)
    places = [w.at(sums, v.bytes * k) for k in range(2 * rows)]
    with w.when(fresh):
        for total, place in zip(found, places, strict=True):
            v.store(w, total, place)
        w.give_nothing()
        w.begin_unreached()
    for total, place in zip(found, places, strict=True):
        v.store(w, w.operation(v.kind, f"fadd {v.load(w, place)}, {total.name}"), place)
    w.give_nothing()
    return w.text()


def sums_where_they_lie(
    v: Vectors, w: Writer, a: Value, rows: list[Value], inner: Value, b: Value, count: Value, halves: int = 2
) -> list[Value]:
    """The loop itself: the sums of each row with both vectors, or with the first of them. It reads nothing
    beyond ``count``: zeros packed there would make NaN of an infinity.
    """
    begin, loop, after = (w.label(name) for name in ("begin", "loop", "after"))
    w.leave(begin)
    w.begin(begin)
    w.instruction(f"br {w.less(integer(0), count)}, label %{loop}, label %{after}")
    w.begin(loop)
    names = [f"%sum_{i}_{half}" for i in range(len(rows)) for half in range(halves)]
    for name in names:
        w.instruction(f"{name} = phi {v.kind} [ zeroinitializer, %{begin} ], [ {name}_next, %{loop} ]")
    for name, kind, start in (("inner_at", "ptr", inner), ("b_at", "ptr", b), ("k", "i64", integer(0))):
        w.instruction(f"%{name} = phi {kind} [ {start.name}, %{begin} ], [ %{name}_next, %{loop} ]")
    here = w.at_bytes(a, w.load(Value("ptr", "%inner_at"), kind="i64"))
    right = [v.load(w, w.at(Value("ptr", "%b_at"), v.bytes * half)) for half in range(halves)]
    for i, row in enumerate(rows):
        left = v.spread(w, v.read_one(w, w.at_bytes(here, row)), v.kind)
        for half in range(halves):
            name = names[halves * i + half]
            total = v.in_order(w, v.multiply_add(w, left, right[half], Value(v.kind, name)))
            w.instruction(f"{name}_next = select i1 true, {total}, {v.zero}")
    w.instruction("%inner_at_next = getelementptr i8, ptr %inner_at, i64 8")
    w.instruction(f"%b_at_next = getelementptr i8, ptr %b_at, i64 {2 * v.bytes}")
    w.instruction("%k_next = add i64 %k, 1")
    w.instruction(f"br {w.less(Value('i64', '%k_next'), count)}, label %{loop}, label %{after}")
    w.begin(after)
    for name in names:
        w.instruction(f"{name}_all = phi {v.kind} [ zeroinitializer, %{begin} ], [ {name}_next, %{loop} ]")
    return [Value(v.kind, f"{name}_all") for name in names]
