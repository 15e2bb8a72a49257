"""The innermost loop: a panel of rows times two vectors of columns, in registers."""

from __future__ import annotations

from jtorch.native.llvm_text import Value, Writer, integer
from jtorch.native.packed.vectors import Vectors

_AT_ONCE = 2
"""Products of each element in a turn of the loop; fewer are packed with zeros."""


def panel(v: Vectors, rows: int) -> str:
    """``rows`` of a packed panel times two vectors of columns, and ``addend`` ([row][2 vectors]), to the
    result or, not ``fresh``, added to it.

    The vectors belong at ``c_0`` and ``c_1``, each row at its offset from there; ``columns_0`` and
    ``columns_1`` are the lanes, as bits, that are columns of the result.
    """
    parameters = {
        "a": "ptr", "b": "ptr", "count": "i64", "c_0": "ptr", "c_1": "ptr", "rows": "ptr", "addend": "ptr",
        "fresh": "i1", "columns_0": "i64", "columns_1": "i64",
    }  # fmt: skip
    w = Writer(f"panel_{rows}", parameters, gives="void", internal=True)
    a, b, count, c_0, c_1, row_offsets, addend, fresh, columns_0, columns_1 = w.parameters.values()
    sums = _sums(v, w, rows, a, b, count)

    def places() -> list[tuple[Value, Value]]:
        found = []
        for i in range(rows):
            row = w.load(row_offsets, 8 * i, kind="i64")
            found += [(w.at_bytes(c, row), sums[i, half]) for half, c in enumerate((c_0, c_1))]
        return found

    def with_addend(k: int, total: Value) -> Value:  # last, as if it were added afterwards
        return _added(v, w, total, v.load(w, w.at(addend, v.bytes * k)))

    every = integer(v.every)
    with w.when(w.both(w.same(columns_0, every), w.same(columns_1, every))):
        with w.when(fresh):
            for k, (place, total) in enumerate(places()):
                v.store(w, with_addend(k, total), place)
            w.give_nothing()
            w.begin_unreached()
        for k, (place, total) in enumerate(places()):
            v.store(w, with_addend(k, _added(v, w, v.load(w, place), total)), place)
        w.give_nothing()
        w.begin_unreached()
    masks = [v.mask_of(w, columns) for columns in (columns_0, columns_1)]
    for k, (place, total) in enumerate(places()):
        mask = masks[k % 2]
        kept = w.operation(v.mask, f"select i1 {fresh.name}, {v.mask} zeroinitializer, {mask}")
        added = _added(v, w, v.masked_load(w, place, kept, v.zero), total)
        v.masked_store(w, with_addend(k, w.chosen(fresh, total, added)), place, mask)
    w.give_nothing()
    return w.text()


def _added(v: Vectors, w: Writer, before: Value, total: Value) -> Value:
    return w.operation(v.kind, f"fadd {before}, {total.name}")


def _sums(v: Vectors, w: Writer, rows: int, a: Value, b: Value, count: Value) -> dict[tuple[int, int], Value]:
    """The loop itself: (row, half of the columns) to its sums.

    What changes from turn to turn is written as phis: a vector in a slot would pass through memory wherever
    the optimiser gives up.
    """
    begin, loop, after = w.label("begin"), w.label("loop"), w.label("after")
    for label in (begin, loop):
        w.leave(label)
        w.begin(label)
    names = {(i, half): f"%sum_{i}_{half}" for i in range(rows) for half in range(2)}
    for name in names.values():
        w.instruction(f"{name} = phi {v.kind} [ zeroinitializer, %{begin} ], [ {name}_next, %{loop} ]")
    moving = {"a": ("ptr", a.name), "b": ("ptr", b.name), "k": ("i64", "0")}
    for name, (kind, start) in moving.items():
        w.instruction(f"%{name}_at = phi {kind} [ {start}, %{begin} ], [ %{name}_next, %{loop} ]")
    a_at, b_at = Value("ptr", "%a_at"), Value("ptr", "%b_at")
    sums = {key: Value(v.kind, name) for key, name in names.items()}
    of_a, of_b = v.left * v.bytes, 2 * v.bytes
    for turn in range(_AT_ONCE):
        right = [v.load(w, w.at(b_at, of_b * turn + v.bytes * half)) for half in range(2)]
        for i in range(rows):
            left = v.spread(w, w.load(w.at(a_at, of_a * turn + v.item * i), kind=v.float), v.kind)
            for half in range(2):
                sums[i, half] = v.multiply_add(w, left, right[half], sums[i, half])
    for key, name in names.items():
        w.instruction(f"{name}_next = select i1 true, {sums[key]}, {v.zero}")
    w.instruction(f"%a_next = getelementptr i8, ptr %a_at, i64 {_AT_ONCE * of_a}")
    w.instruction(f"%b_next = getelementptr i8, ptr %b_at, i64 {_AT_ONCE * of_b}")
    w.instruction(f"%k_next = add i64 %k_at, {_AT_ONCE}")
    w.instruction(f"%more = icmp slt i64 %k_next, {count.name}")
    w.instruction(f"br i1 %more, label %{loop}, label %{after}")
    w.begin(after)
    return sums
