"""The machine code of the ops of one form, as LLVM IR: what ``eager/source.py`` writes in Python."""

from __future__ import annotations

from jtorch.eager.machine import layout
from jtorch.eager.machine import op_record as rec
from jtorch.eager.machine.function import Function
from jtorch.native.llvm_text import NULL, Value, integer


class OpCode(Function):
    """The function of the ops of one form: arrays and statics to a Tensor, or None.

    Whether to leave it to Python is decided before the op computes. From then on only errors end it.
    """

    def __init__(self, form: rec.Form, places: layout.Places) -> None:
        super().__init__(form.function, rec.RECORD)
        self.form = form
        self.tensor, self.node, self.context = places
        self.pool = self.array("ptr", rec.POOL)
        self._take_arguments()
        self._look_at_dtypes()
        self._look_at_context()
        out = self._computed()
        cell = self._cell_of(out)
        made = self._tensor(out, cell)
        taped = self._is_wanted()
        with self.when(taped):
            self.set_slot(made, self.tensor["_node"], self._node(out, cell))
            self.set_slot(made, self.tensor["_requires_grad"], self.word("true"))
        with self.when(self.negated(taped)):
            self.set_slot(made, self.tensor["_node"], self.word("none"))
            self.set_slot(made, self.tensor["_requires_grad"], self.word("false"))
        if form.view:
            self._link_view(made, cell)
        self.own(made)
        self.store(made, self.result)
        self.leave("end")
        self._ways_out()

    def _ways_out(self) -> None:
        self.begin("too_large")
        self.api("clear_error", gives="void")
        self.leave("unusual")
        self.begin("unusual")
        self.own(self.word("none"))
        self.store(self.word("none"), self.result)
        self.leave("end")
        self.finish()

    # From arguments to arrays.

    def _take_arguments(self) -> None:
        """The arrays of tensors; numbers and None as they are; and the statics."""
        arguments, n = self.parameters["arguments"], self.form.arrays
        expected = self.plus(self.word("statics", "i64"), integer(n))
        self.leave_if(self.negated(self.same(self.parameters["count"], expected)), "unusual")
        self.things = [self.load(arguments, 8 * k) for k in range(n)]
        self.are, self.dtypes = self.array("i64", n), self.array("ptr", n)
        self.asks, self.all_real = self.slot(integer(0, "i1")), self.slot(integer(1, "i1"))
        for k, thing in enumerate(self.things):
            is_tensor, value = self._is_tensor(thing), self.slot(NULL)
            self.store(self._as_word(is_tensor), self.are, 8 * k)
            self.store(thing, value)
            with self.when(is_tensor):
                self.store(self._take_tensor(thing, k), value)
            with self.when(self.negated(is_tensor)):
                self._take_other(thing, k, value)
            self.store(self.keep(self.load(value)), self.pool, 8 * k)
        self.values = [self.load(self.pool, 8 * k) for k in range(n)]
        with self.repeat(self.word("statics", "i64")) as index:
            place = self.plus(index, integer(n))
            self.store_nth(self.load_nth(arguments, place), self.pool, place)

    def _is_tensor(self, thing: Value) -> Value:
        found = self.slot(integer(0, "i1"))
        cls = self.type_of(thing)
        self.store(self.equals(cls, "tensor"), found)
        with self.when(self.negated(self.load(found, kind="i1"))):
            derived = self.api("is_subtype", cls, self.word("tensor"), gives="i32")
            self.store(self.true(derived), found)
        return self.load(found, kind="i1")

    def _take_tensor(self, thing: Value, k: int) -> Value:
        """Its array; and that it has a version cell."""
        array, cell = self.load(thing, self.tensor["_data"]), self.load(thing, self.tensor["_cell"])
        self.leave_if(self.either(self.same(array, NULL), self.same(cell, NULL)), "unusual")
        usual = self.both(self.equals(self.type_of(array), "array"), self.equals(self.type_of(cell), "list"))
        self.leave_if(self.negated(usual), "unusual")
        dtype = self.load(array, layout.ARRAY_DTYPE)
        self.store(dtype, self.dtypes, 8 * k)
        real = self.both(self.load(self.all_real, kind="i1"), self._is_real(dtype))
        self.store(real, self.all_real)
        self.store(self.either(self.load(self.asks, kind="i1"), self._wants_gradient(k)), self.asks)
        return array

    def _take_other(self, thing: Value, k: int, value: Value) -> None:
        """What is no tensor, where it may stand: an int beside the other of two counts as a float."""
        n, casts = self.form.arrays, self.form.casts
        self.leave_if(self.flag("shapes"), "unusual")  # it has none to save
        fits, cls = integer(0, "i1"), self.type_of(thing)
        if k and (n > 2 or not casts):
            fits = self.equals(thing, "none")
        if casts and (k or n == 2):
            is_int = self.both(self.equals(cls, "int"), integer(n == 2, "i1"))
            numbers = self.either(self.equals(cls, "float"), is_int)
            fits = self.either(fits, self.both(self.flag("numbers"), numbers))
            with self.when(is_int):
                number = self.api("to_float", thing)
                self.leave_if(self.same(number, NULL), "too_large")
                self.store(self.hold(number), value)
        self.leave_if(self.negated(fits), "unusual")

    def _as_word(self, condition: Value) -> Value:
        return self.chosen(condition, integer(1), integer(0))

    def _is_tensor_at(self, k: int) -> Value:
        return self.true(self.load(self.are, 8 * k, "i64"))

    def _wants_gradient(self, k: int) -> Value:
        """Of a tensor."""
        return self.equals(self.load(self.things[k], self.tensor["_requires_grad"]), "true")

    def _look_at_dtypes(self) -> None:
        """Of tensors that are cast all have one dtype, and it is one that the op computes in."""
        n, dtype = self.form.arrays, self.slot(NULL)
        for k in range(min(n, 2) if self.form.casts else 1):
            with self.when(self.both(self._is_tensor_at(k), self.same(self.load(dtype), NULL))):
                self.store(self.load(self.dtypes, 8 * k), dtype)
        found = self.load(dtype)
        self.leave_if(self.same(found, NULL), "unusual")  # two numbers
        floats = self._is_real(found)
        if self.form.casts:
            for k in range(n if n > 1 else 0):
                with self.when(self._is_tensor_at(k)):
                    self.leave_if(self.negated(self.same(self.load(self.dtypes, 8 * k), found)), "unusual")
                known = self.either(self._is_tensor_at(k), self.equals(self.things[k], "none"))
                self.leave_if(self.negated(self.either(known, floats)), "unusual")  # a number beside integers
        self.leave_if(self.both(self.flag("floats"), self.negated(floats)), "unusual")
        no_bool = self.either(floats, self.equals(found, "int64"))
        self.leave_if(self.both(self.flag("no_bools"), self.negated(no_bool)), "unusual")

    def _is_real(self, dtype: Value) -> Value:
        return self.either(self.equals(dtype, "float32"), self.equals(dtype, "float64"))

    # From arrays to the array of the result.

    def _look_at_context(self) -> None:
        """Ops are run at once, and nothing watches but what sees to complex results, which this has not."""
        found = self.slot(NULL)
        self.api("get_variable", self.word("variable"), NULL, found, gives="i32")
        context = self.hold(self.load(found))
        table = self.load(context, self.context["table"])
        self.leave_if(self.negated(self.equals(table, "table")), "unusual")
        self.grad = self.equals(self.load(context, self.context["grad"]), "true")
        taped = self.both(self.load(self.asks, kind="i1"), self.grad)
        self.leave_if(self.both(taped, self.flag("own_dtype")), "unusual")
        watchers = self.word("watchers")
        count, calm = self.size_of(watchers), self.slot(integer(1, "i1"))
        self.store(integer(1, "i1"), calm)
        with self.when(self.true(count)):
            first = self.load(self.load(watchers, layout.LIST_ITEMS))
            for_complex = self.both(self.same(count, integer(1)), self.equals(first, "complex_watcher"))
            harmless = self.either(self.load(self.all_real, kind="i1"), self.negated(taped))
            self.store(self.both(for_complex, harmless), calm)
        self.leave_if(self.negated(self.load(calm, kind="i1")), "unusual")

    def _computed(self) -> Value:
        functions = self.load(self.word("table"), layout.LIST_ITEMS)
        function = self.keep(self.load_nth(functions, self.word("index", "i64")))
        count, names = integer(self.form.arrays), self.word("names")
        first = self.hold(self.api("vectorcall", function, self.pool, count, names))
        out = self.slot(NULL)
        self.store(first, out)
        with self.when(self.negated(self.equals(self.type_of(first), "array"))):
            wrapped = self.api("vectorcall", self.word("as_value"), out, integer(1), NULL)
            self.store(self.hold(wrapped), out)
        self.store(self.load(out), self.pool, 8 * rec.OUT)
        return self.load(out)

    # From the array to the Tensor.

    def _cell_of(self, out: Value) -> Value:
        """The version cell: its own, or that of the memory it is a view of."""
        cell = self.slot(NULL)
        shares = {"": integer(0, "i1"), "view": integer(1, "i1")}.get(self.form.view)
        if shares is None:
            shares = self._shares_memory(out)
        with self.when(shares):
            self.store(self.keep(self.load(self.things[0], self.tensor["_cell"])), cell)
        with self.when(self.negated(shares)):
            made = self.hold(self.api("new_list", integer(1)))
            self.set_slot(self.load(made, layout.LIST_ITEMS), 0, self.word("zero"))
            self.store(made, cell)
        return self.load(cell)

    def _shares_memory(self, out: Value) -> Value:
        """Whether a reshape gave a view of its argument, or of what that is a view of: see ``binding.py``."""
        (x,), same = self.values, self.slot(integer(0, "i1"))
        base, under = self.load(out, layout.ARRAY_BASE), self.load(x, layout.ARRAY_BASE)
        behind = self.both(self.same(base, under), self.negated(self.same(base, NULL)))
        self.store(self.either(self.same(base, x), behind), same)
        with self.when(self.negated(self.load(same, kind="i1"))):
            asked = self.array("ptr", 2)
            self.store(x, asked)
            self.store(out, asked, 8)
            answer = self.hold(self.api("vectorcall", self.word("shares_memory"), asked, integer(2), NULL))
            self.store(self.equals(answer, "true"), same)
        return self.load(same, kind="i1")

    def _is_wanted(self) -> Value:
        """Whether a node is to be hung. Who wants a gradient is asked when the op has run, as in Python."""
        self.want = self.array("i64", self.form.arrays)
        for k in range(self.form.arrays):
            self.store(integer(0), self.want, 8 * k)
            with self.when(self._is_tensor_at(k)):
                self.store(self._as_word(self._wants_gradient(k)), self.want, 8 * k)
        some = self.either(*(self._wanted(k) for k in range(self.form.arrays)))
        return self.both(some, self.grad, self.negated(self.same(self.word("node_class"), NULL)))

    def _wanted(self, k: int) -> Value:
        return self.true(self.load(self.want, 8 * k, "i64"))

    def _tensor(self, out: Value, cell: Value) -> Value:
        made = self.hold(self.api("allocate", self.word("tensor"), integer(0)))
        none = self.word("none")
        return self.with_slots(
            made, self.tensor, _data=out, _cell=cell, _base=none, _grad=none, _hooks=none,
            _index=self.word("zero"),
        )  # fmt: skip

    def _node(self, out: Value, cell: Value) -> Value:
        edges = self.new_tuple(*(self._edge(k) for k in range(self.form.arrays)))
        saved, versions = self._saved(), self._versions(cell)
        metadata = self._metadata(out)
        node = self.hold(self.api("allocate", self.word("node_class"), integer(0)))
        return self.with_slots(
            node, self.node, edges=edges, saved=saved, versions=versions, metadata=metadata,
            extras=self.word("none"),
        )  # fmt: skip

    def _metadata(self, out: Value) -> Value:
        """(shape, dtype) of the result. That of the last one is kept: a program computes the same again.

        Nothing is allocated between the stores, so they agree whatever the garbage collector may run.
        """
        dims, dtype = self.load(out, layout.ARRAY_DIMS), self.load(out, layout.ARRAY_DTYPE)
        count = self.widened(self.load(out, layout.ARRAY_NDIM, "i32"))
        last_dims = self.at(self.record, rec.LAST_DIMS)
        same, kept = self.slot(integer(0, "i1")), self.slot(NULL)
        alike = self.both(
            self.same(count, self.load(self.record, rec.LAST_NDIM, "i64")),
            self.same(dtype, self.load(self.record, rec.LAST_DTYPE)),
        )
        self.store(alike, same)
        with self.when(alike), self.repeat(count) as k:
            equal = self.same(self.load_nth(dims, k, "i64"), self.load_nth(last_dims, k, "i64"))
            self.store(self.both(self.load(same, kind="i1"), equal), same)
        found = self.load(same, kind="i1")
        with self.when(found):
            self.store(self.load(self.record, rec.LAST), kept)
            self.own(self.load(kept))
        with self.when(self.negated(found)):
            shape = self.hold(self.api("get_attribute", out, self.word("shape")))
            made = self.new_tuple(shape, dtype)
            self.own(made)
            self.store(made, kept)
            with self.when(self.less(count, integer(rec.MOST_DIMS + 1))):
                self.store(count, self.record, rec.LAST_NDIM)
                self.store(dtype, self.record, rec.LAST_DTYPE)
                with self.repeat(count) as k:
                    self.store_nth(self.load_nth(dims, k, "i64"), last_dims, k)
                self.replace(self.record, rec.LAST, made)
        return self.hold(self.load(kept))

    def _edge(self, k: int) -> Value:
        edge = self.slot(NULL)
        self.store(self.word("none"), edge)
        with self.when(self._wanted(k)):
            node = self.load(self.things[k], self.tensor["_node"])
            target = self.keep(self.chosen(self.equals(node, "none"), self.things[k], node))
            index = self.keep(self.load(self.things[k], self.tensor["_index"]))
            self.store(self.new_tuple(target, index), edge)
        return self.load(edge)

    def _saved(self) -> Value:
        with self.when(self.flag("needs")):
            answers = (self.word("true"), self.word("false"))
            needs = [self.chosen(self._wanted(k), *answers) for k in range(self.form.arrays)]
            self.store(self.new_tuple(*needs), self.pool, 8 * rec.NEEDS)
        with self.when(self.flag("shapes")):
            for k, value in enumerate(self.values):
                shape = self.api("get_attribute", value, self.word("shape"))
                self.store(self.hold(shape), self.pool, 8 * (rec.SHAPES + k))
        count = self.word("saved", "i64")
        made = self.hold(self.api("new_tuple", count))
        with self.repeat(count) as index:
            place = self.load_nth(self.at(self.record, rec.SAVED), index, "i64")
            self.set_nth(self.at(made, layout.TUPLE_ITEMS), index, self.load_nth(self.pool, place))
        return made

    def _versions(self, cell: Value) -> Value:
        """(version cell, version now, ...) of what was saved and could be changed."""
        pairs = self.word("watched", "i64")
        made = self.hold(self.api("new_tuple", self.plus(pairs, pairs)))
        items, numbers = self.at(made, layout.TUPLE_ITEMS), self.at(self.record, rec.WATCHED)
        found, kept = self.slot(NULL), self.owner()
        with self.repeat(pairs) as index:
            first = self.plus(index, index)
            second = self.plus(first, integer(1))
            place, wanting = self.load_nth(numbers, first, "i64"), self.load_nth(numbers, second, "i64")
            self.store(self.word("unchanged"), found)
            of_result = self.same(place, integer(rec.OUT))
            with self.when(of_result):
                self.store(cell, found)
            with self.when(self.negated(of_result)):
                always = self.same(wanting, integer(-1))
                asked = self.chosen(always, integer(0), wanting)
                wanted = self.either(always, self.true(self.load_nth(self.want, asked, "i64")))
                with self.when(self.both(self.true(self.load_nth(self.are, place, "i64")), wanted)):
                    thing = self.load_nth(self.parameters["arguments"], place)
                    self.store(self.load(thing, self.tensor["_cell"]), found)
            held = self.keep_in(kept, self.load(found))
            now = self.load(self.load(held, layout.LIST_ITEMS))
            version = self.checked(self.api("add", now, self.word("zero")))
            self.set_nth(items, first, held)
            self.store_nth(version, items, second)
        return made

    def _link_view(self, made: Value, cell: Value) -> None:
        """A view tells what it is a view of and how it was made: ``_memory_lines`` of ``source.py``."""
        x = self.things[0]
        with self.when(self.same(cell, self.load(x, self.tensor["_cell"]))):
            under = self.load(x, self.tensor["_base"])
            base = self.chosen(self.equals(under, "none"), x, under)
            self.replace(made, self.tensor["_base"], base)
            with self.when(self.grad):
                statics = self.word("statics", "i64")
                how = self.hold(self.api("new_tuple", self.plus(statics, integer(2))))
                items = self.at(how, layout.TUPLE_ITEMS)
                self.set_slot(items, 0, x)
                self.set_slot(items, 8, self.word("op"))
                with self.repeat(statics) as index:
                    static = self.load_nth(self.parameters["arguments"], self.plus(index, integer(1)))
                    self.set_nth(items, self.plus(index, integer(2)), static)
                self.set_slot(made, self.tensor["_how"], how)
                wants = self.equals(self.load(base, self.tensor["_requires_grad"]), "true")
                leaf = self.equals(self.load(base, self.tensor["_node"]), "none")
                unlisted = self.both(wants, leaf)
                with self.when(unlisted):
                    self._note_unlisted(cell)
                with self.when(self.negated(unlisted)):
                    self._list(made, cell)
            with self.when(self.negated(self.grad)):
                self.set_slot(made, self.tensor["_how"], self.word("none"))

    def _note_unlisted(self, cell: Value) -> None:
        mark = self.word("unlisted")
        end = self.plus(self.size_of(cell), integer(-1))
        last = self.load_nth(self.load(cell, layout.LIST_ITEMS), end)
        with self.when(self.negated(self.same(last, mark))):
            known = self.api("contains", cell, mark, gives="i32")
            self.leave_if(self.same(known, integer(-1, "i32")), "raised")
            with self.when(self.same(known, integer(0, "i32"))):
                self.append(cell, mark)

    def _list(self, made: Value, cell: Value) -> None:
        self.append(cell, self.hold(self.api("new_reference", made, NULL)))
        length = self.size_of(cell)
        with self.when(self.same(self.masked(length, 63), integer(0))):
            asked = self.slot(NULL)
            self.store(cell, asked)
            self.hold(self.api("vectorcall", self.word("forget_dead"), asked, integer(1), NULL))
