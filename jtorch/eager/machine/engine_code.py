"""The two loops of the backward pass that every op pays for, as LLVM IR: see ``eager/engine.py``.

They run where values are NumPy arrays. What is unusual goes to Python: a node with hooks or of several
outputs, a leaf, a gradient that does not fit. Both have the same record.
"""

from __future__ import annotations

import numpy as np

from jtorch.eager import engine
from jtorch.eager.machine import layout
from jtorch.eager.machine.function import Function, Record
from jtorch.eager.node import GRADIENTS, Node
from jtorch.native.llvm_text import NULL, Value, integer

NAMES = ("jtorch_count_dependencies", "jtorch_propagate")
_MOST_SAVED = 12  # by a node that is visited here
SLOT = (engine.LEFT, engine.GRAD, engine.TARGET, engine.META, engine.OWNED, engine.LEAF)
_EQUAL = integer(2, "i32")  # Py_EQ
RECORD = Record({
    "none": None, "true": True, "false": False, "one": 1, "nothing": (), "array": np.ndarray,
    "tuple": tuple, "list": list, "node": Node, "gradients": GRADIENTS, "add_in_place": np.add,
})  # fmt: skip


class _EngineCode(Function):
    def __init__(self, name: str, count: int, places: layout.Places) -> None:
        super().__init__(name, RECORD)
        self.node = places.node
        wrong = self.negated(self.same(self.parameters["count"], integer(count)))
        self.leave_if(wrong, "bad")

    def argument(self, k: int) -> Value:
        return self.load(self.parameters["arguments"], 8 * k)

    def popped(self, items: Value, owner: Value) -> Value:
        """The last of a list that is not empty: its reference goes over."""
        last = self.plus(self.size_of(items), integer(-1))
        value = self.load_nth(self.load(items, layout.LIST_ITEMS), last)
        self.store(last, items, layout.SIZE)
        return self.hold_in(owner, value)

    def item(self, slot: Value, place: int) -> Value:
        return self.load(self.load(slot, layout.LIST_ITEMS), 8 * place)

    def set_item(self, slot: Value, place: int, value: Value) -> None:
        """The list becomes the owner of a new reference."""
        self.swap(self.load(slot, layout.LIST_ITEMS), 8 * place, self.checked(value))

    def found(self, table: Value, key: Value) -> Value:
        """What a dict has under ``key``, or null."""
        value = self.api("find", table, key)
        with self.when(self.same(value, NULL)):
            self.leave_if(self.negated(self.same(self.api("error"), NULL)), "raised")
        return value

    def check_tuple(self, thing: Value) -> None:
        """A TypeError for what a node must not hold there."""
        self.leave_if(self.negated(self.equals(self.type_of(thing), "tuple")), "bad")

    def close(self) -> None:
        self.begin("done")
        self.own(self.word("none"))
        self.store(self.word("none"), self.result)
        self.leave("end")
        self.finish()


class Count(_EngineCode):
    """``count(slots, stack, make_slot)``: of ``_count_dependencies``."""

    def __init__(self, places: layout.Places) -> None:
        super().__init__(NAMES[0], 3, places)
        self.slots, self.stack, self.make_slot = (self.argument(k) for k in range(3))
        self.made, self.asked = self.owner(), self.array("ptr", 2)
        node, edges = self.owner(), self.owner()
        self.leave("next")
        self.begin("next")
        self.leave_if(self.same(self.size_of(self.stack), integer(0)), "done")
        found = self.keep_in(edges, self.load(self.popped(self.stack, node), self.node["edges"]))
        self.check_tuple(found)
        with self.repeat(self.size_of(found)) as k:
            edge = self.load_nth(self.at(found, layout.TUPLE_ITEMS), k)
            with self.when(self.negated(self.equals(edge, "none"))):
                self.check_tuple(edge)
                self._meet(self.load(edge, layout.TUPLE_ITEMS))
        self.leave("next")
        self.close()

    def _meet(self, target: Value) -> None:
        slot = self.found(self.slots, target)
        known = self.negated(self.same(slot, NULL))
        with self.when(known):
            left = self.item(slot, engine.LEFT)
            self.set_item(slot, engine.LEFT, self.api("add", left, self.word("one")))
        with self.when(self.negated(known)):
            is_node = self.api("is_subtype", self.type_of(target), self.word("node"), gives="i32")
            with self.when(self.true(is_node)):
                self._add_node(target)
            with self.when(self.negated(self.true(is_node))):
                self.store(target, self.asked)
                self.store(self.word("one"), self.asked, 8)
                made = self.api("vectorcall", self.make_slot, self.asked, integer(2), NULL)
                self._put(target, self.hold_in(self.made, made))

    def _add_node(self, node: Value) -> None:
        made = self.hold_in(self.made, self.api("new_list", integer(len(SLOT))))
        facts = {
            engine.LEFT: self.word("one"), engine.GRAD: self.word("none"), engine.TARGET: node,
            engine.META: self.load(node, self.node["metadata"]), engine.OWNED: self.word("false"),
            engine.LEAF: self.word("false"),
        }  # fmt: skip
        items = self.load(made, layout.LIST_ITEMS)
        for place, fact in facts.items():
            self.set_slot(items, 8 * place, fact)
        self._put(node, made)
        self.append(self.stack, node)

    def _put(self, target: Value, slot: Value) -> None:
        self.leave_if(self.true(self.api("put", self.slots, target, slot, gives="i32")), "raised")


class Propagate(_EngineCode):
    """``propagate(ready, slots, xp, keep, take)``: of ``_work``. Gives a slot for Python to visit, if any."""

    def __init__(self, places: layout.Places) -> None:
        super().__init__(NAMES[1], 5, places)
        self.ready, self.slots, self.xp, self.retain, self.take = (self.argument(k) for k in range(5))
        self.asked = self.array("ptr", _MOST_SAVED + 2)
        self.again = self.owner()
        slot, node, saved, versions, g, grads, edges = (self.owner() for _ in range(7))
        self.leave("next")
        self.begin("next")
        self.leave_if(self.same(self.size_of(self.ready), integer(0)), "done")
        self.popped(self.ready, slot)
        self._check_usual(self.load(slot))
        self.keep_in(node, self.item(self.load(slot), engine.TARGET))
        self.keep_in(g, self.item(self.load(slot), engine.GRAD))
        entry = self.found(self.word("gradients"), self.type_of(self.load(node)))
        self.leave_if(self.same(entry, NULL), "unusual")
        self._check_saved(self.load(node), saved, versions)
        self._clear_gradient(self.load(slot))
        self.hold_in(grads, self._gradients(entry, self.load(g), self.load(saved)))
        for owner in (saved, versions, g):  # the memory is needed
            self.let_go(owner)
        self._release(self.load(node), entry)
        self.check_tuple(self.keep_in(edges, self.load(self.load(node), self.node["edges"])))
        self._hand_on(self.load(edges), self.load(grads), grads)
        self.leave("next")
        self.begin("unusual")
        self.own(self.load(slot))
        self.store(self.load(slot), self.result)
        self.leave("end")
        self.close()

    def _check_usual(self, slot: Value) -> None:
        leaf = self.equals(self.item(slot, engine.LEAF), "true")
        one = self.equals(self.type_of(self.item(slot, engine.GRAD)), "array")
        self.leave_if(self.either(leaf, self.negated(one)), "unusual")
        extras = self.load(self.item(slot, engine.TARGET), self.node["extras"])
        self.leave_if(self.negated(self.equals(extras, "none")), "unusual")

    def _check_saved(self, node: Value, saved_owner: Value, versions_owner: Value) -> None:
        """Keep what the node saved, unless it was freed or changed, of which Python tells."""
        saved = self.keep_in(saved_owner, self.load(node, self.node["saved"]))
        versions = self.keep_in(versions_owner, self.load(node, self.node["versions"]))
        both = self.both(*(self.equals(self.type_of(t), "tuple") for t in (saved, versions)))
        self.leave_if(self.negated(both), "unusual")
        self.leave_if(self.less(integer(_MOST_SAVED), self.size_of(saved)), "unusual")
        items = self.at(versions, layout.TUPLE_ITEMS)
        with self.repeat(self.halved(self.size_of(versions))) as index:
            first = self.plus(index, index)
            cell = self.load_nth(items, first)
            self.leave_if(self.negated(self.equals(self.type_of(cell), "list")), "unusual")
            now = self.load(self.load(cell, layout.LIST_ITEMS))
            then = self.load_nth(items, self.plus(first, integer(1)))
            with self.when(self.negated(self.same(now, then))):
                answer = self.api("equal", now, then, _EQUAL, gives="i32")
                self.leave_if(self.same(answer, integer(-1, "i32")), "raised")
                self.leave_if(self.same(answer, integer(0, "i32")), "unusual")

    def _clear_gradient(self, slot: Value) -> None:
        self.own(self.word("none"))
        self.set_item(slot, engine.GRAD, self.word("none"))

    def _gradients(self, entry: Value, g: Value, saved: Value) -> Value:
        """What the gradient of the op gives."""
        self.store(self.xp, self.asked)
        self.store(g, self.asked, 8)
        count = self.size_of(saved)
        with self.repeat(count) as k:
            item = self.load_nth(self.at(saved, layout.TUPLE_ITEMS), k)
            self.store_nth(item, self.at(self.asked, 16), k)
        vjp = self.load(entry, layout.TUPLE_ITEMS)
        return self.api("vectorcall", vjp, self.asked, self.plus(count, integer(2)), NULL)

    def _release(self, node: Value, entry: Value) -> None:
        frees = self.equals(self.load(entry, layout.TUPLE_ITEMS + 8), "true")
        with self.when(self.both(frees, self.negated(self.equals(self.retain, "true")))):
            self.replace(node, self.node["saved"], self.word("none"))
            self.replace(node, self.node["versions"], self.word("nothing"))

    def _hand_on(self, edges: Value, grads: Value, alone: Value) -> None:
        """One value for each edge; ``alone`` is where the only one lies that is no tuple."""
        parts, count = self.slot(NULL), self.slot(integer(0))
        self.store(alone, parts)
        self.store(integer(1), count)
        with self.when(self.equals(self.type_of(grads), "tuple")):
            self.store(self.at(grads, layout.TUPLE_ITEMS), parts)
            self.store(self.size_of(grads), count)
        given, wanted = self.load(count, kind="i64"), self.size_of(edges)
        with self.repeat(self.chosen(self.less(given, wanted), given, wanted)) as k:
            edge = self.load_nth(self.at(edges, layout.TUPLE_ITEMS), k)
            with self.when(self.negated(self.equals(edge, "none"))):
                target = self.found(self.slots, self.load(edge, layout.TUPLE_ITEMS))
                with self.when(self.negated(self.same(target, NULL))):
                    part = self.load_nth(self.load(parts), k)
                    with self.when(self.negated(self.equals(part, "none"))):
                        self._take(target, edge, part)
                    self._count_down(target)

    def _take(self, target: Value, edge: Value, part: Value) -> None:
        fits, before = self._fits(target, part), self.item(target, engine.GRAD)
        first = self.equals(before, "none")
        with self.when(self.both(fits, first)):
            self.own(part)
            self.set_item(target, engine.GRAD, part)
        with self.when(self.both(fits, self.negated(first))):
            self.store(before, self.asked)
            self.store(part, self.asked, 8)
            self.store(before, self.asked, 16)
            owned = self.equals(self.item(target, engine.OWNED), "true")
            with self.when(owned):
                added = self.api("vectorcall", self.word("add_in_place"), self.asked, integer(3), NULL)
                self.hold_in(self.again, added)
            with self.when(self.negated(owned)):
                total = self.keep_in(self.again, self.checked(self.api("add", before, part)))
                self.set_item(target, engine.GRAD, total)
                is_array = self.equals(self.type_of(total), "array")
                mine = self.chosen(is_array, self.word("true"), self.word("false"))
                self.own(mine)
                self.set_item(target, engine.OWNED, mine)
        with self.when(self.negated(fits)):
            self.store(target, self.asked)
            self.store(self.load(edge, layout.TUPLE_ITEMS + 8), self.asked, 8)
            self.store(part, self.asked, 16)
            done = self.api("vectorcall", self.take, self.asked, integer(3), NULL)
            self.hold_in(self.again, done)

    def _fits(self, target: Value, part: Value) -> Value:
        """Whether ``part`` is an array of the shape and dtype that the target has."""
        same, meta = self.slot(integer(0, "i1")), self.item(target, engine.META)
        self.store(integer(0, "i1"), same)
        plain = self.both(
            self.equals(self.type_of(part), "array"), self.equals(self.type_of(meta), "tuple")
        )
        with self.when(plain):
            shape, dtype = (self.load(meta, layout.TUPLE_ITEMS + 8 * k) for k in range(2))
            count = self.widened(self.load(part, layout.ARRAY_NDIM, "i32"))
            alike = self.both(
                self.equals(self.type_of(shape), "tuple"), self.same(count, self.size_of(shape)),
                self.same(self.load(part, layout.ARRAY_DTYPE), dtype),
            )  # fmt: skip
            self.store(alike, same)
            with self.when(alike):
                dims = self.load(part, layout.ARRAY_DIMS)
                with self.repeat(count) as k:
                    number = self.load_nth(self.at(shape, layout.TUPLE_ITEMS), k)
                    size = self.api("get_int", number, gives="i64")
                    equal = self.same(size, self.load_nth(dims, k, "i64"))
                    self.store(self.both(self.load(same, kind="i1"), equal), same)
        return self.load(same, kind="i1")

    def _count_down(self, target: Value) -> None:
        left = self.api("get_int", self.item(target, engine.LEFT), gives="i64")
        fewer = self.plus(left, integer(-1))
        self.set_item(target, engine.LEFT, self.api("new_int", fewer))
        with self.when(self.same(fewer, integer(0))):
            self.append(self.ready, target)


def functions(places: layout.Places) -> list[Function]:
    """Both, in the order of ``NAMES``."""
    return [Count(places), Propagate(places)]
