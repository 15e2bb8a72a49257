"""One translated function: how it begins and ends, and its statements."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from jtorch.native import layout
from jtorch.native.builtin import DATA_OFFSET
from jtorch.native.llvm_text import NULL, Value, integer
from jtorch.native.subset.expressions import IN_PLACE, Expressions, Surroundings, operation
from jtorch.native.subset.knowledge import assigned_once, stores


def parsed(text: str) -> ast.FunctionDef:
    (tree,) = ast.parse(text).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def _names(tree: ast.FunctionDef) -> list[str]:
    """The arguments, all of which are given by position."""
    names = [a.arg for a in tree.args.args]
    if ast.unparse(tree.args).replace(" ", "") != ",".join(map(ast.unparse, tree.args.args)).replace(" ", ""):
        raise SyntaxError(f"machine code takes arguments by position alone: {ast.unparse(tree.args)}")
    return names


class Function(Expressions):
    """``PyObject *(PyObject *self, PyObject *const *arguments, Py_ssize_t count)``; a helper is
    ``PyObject *(record, PyObject *...)``.

    It leaves by ``end`` with what lies in ``result``, and by ``raised`` after an error of the C API.
    """

    def __init__(self, tree: ast.FunctionDef, symbol: str, unit: Surroundings, builtin: bool) -> None:
        names = _names(tree)
        kinds = {"self": "ptr", "arguments": "ptr", "count": "i64"}
        if not builtin:
            kinds = {"record": "ptr"} | {f"given_{name}": "ptr" for name in names}
        super().__init__(symbol, kinds, tree, unit, is_helper=not builtin)
        self._result, self._once = self.slot(NULL), assigned_once(tree)
        self._blocks = 0  # how many are open
        self._loops: list[str] = []  # where ``continue`` goes on
        self._iterated: list[Value] = []  # what open loops run over
        assigned = dict.fromkeys(name for name in stores(tree) if name not in self.flags)
        self.locals = {name: self.new_place() for name in assigned}
        self._take_arguments(tree.args.args, builtin)
        for statement in tree.body:
            self._statement(statement)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                self.assigned.update(stores(statement))
        self._give(self.word("None"))
        self._ways_out(builtin)

    def _take_arguments(self, arguments: list[ast.arg], builtin: bool) -> None:
        names = [argument.arg for argument in arguments]
        if builtin:
            self.record = self.load(self.parameters["self"], DATA_OFFSET)
            counted = self.same(self.parameters["count"], integer(len(names)))
            self.leave_if(self.negated(counted), "unusual")
            given = [self.load(self.parameters["arguments"], 8 * k) for k in range(len(names))]
        else:
            self.record = self.parameters["record"]
            given = [self.parameters[f"given_{name}"] for name in names]
        for argument, name, value in zip(arguments, names, given, strict=True):
            self._check_class(argument, value)
            if name in self.locals:
                self.keep(value)
                self.store(value, self.locals[name])
                self.assigned.add(name)
            else:
                self.arguments[name] = value

    def _check_class(self, argument: ast.arg, value: Value) -> None:
        """An argument that is annotated with a class whose fields are known is of that class, or an error."""
        cls = ast.unparse(argument.annotation) if argument.annotation else ""
        if any(field.of == cls for field in self.unit.fields.values()):
            self.leave_if(self.negated(self.runtime("is_of", value, self.where(cls), gives="i1")), "bad")
            self.known.classes = self.known.classes | {argument.arg: cls}

    def _ways_out(self, builtin: bool) -> None:
        self.leave("bad")  # from where nothing comes
        self.begin("unusual")
        self.store(self.taken(self.word("None")), self._result)
        self.drop_from(len(self.locals))
        self.leave("end")
        self.begin("bad")
        self.api("PyErr_BadArgument")
        self.leave("raised")
        self.begin("raised")
        self.store(NULL, self._result)
        self.drop_from(len(self.locals))
        self.leave("end")
        self.begin("end")
        self.drop_first(len(self.locals))
        self.give(self.load(self._result))

    # -- statements -----------------------------------------------------------------------------------

    def _statement(self, statement: ast.stmt) -> None:
        write = getattr(self, f"_do_{type(statement).__name__.lower()}", None)
        if write is None:
            raise SyntaxError(f"machine code has no {type(statement).__name__}: {ast.unparse(statement)}")
        write(statement)

    def _block(self, statements: list[ast.stmt]) -> None:
        self._blocks += 1
        for statement in statements:
            self._statement(statement)
        self._blocks -= 1

    def _do_assign(self, statement: ast.Assign) -> None:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            parts = [self.kept(self.expression(v)) for v in value.elts]
            for one, part in zip(target.elts, parts, strict=True):
                self._put(one, part)
        elif isinstance(target, ast.Tuple):
            self._unpack(target.elts, self.alive(value))
        elif isinstance(target, ast.Name) and target.id in self.flags:
            self.store(self.condition(value), self.flags[target.id])
        else:
            found = self.expression(value)
            if len(statement.targets) > 1:
                self.hold(found)  # the first that gets it may let go of it
            for one in statement.targets:
                self._put(one, found)
        self.end_statement()
        self.known.forget(stores(statement))
        for one in statement.targets:
            if isinstance(one, ast.Name):
                self.known.note(one.id, value, self._blocks > 0)

    def _unpack(self, targets: list[ast.expr], sequence: Value) -> None:
        """All parts are at hand before the first is put anywhere: that may let go of the sequence."""
        places, count = [self.place() for _ in targets], integer(len(targets))
        fits = self.is_tuple(sequence, count)
        with self.when(fits):
            for k, place in enumerate(places):
                part = self.load(sequence, layout.TUPLE_ITEMS + 8 * k)
                self.keep(part)
                self.store(part, place)
        with self.when(self.negated(fits)):
            size = self.not_negative(self.runtime("size", sequence, gives="i64"))
            self.leave_if(self.negated(self.same(size, count)), "bad")
            for k, place in enumerate(places):
                part = self.runtime("nth", sequence, integer(k))
                self.leave_if(self.same(part, NULL), "raised")
                self.store(part, place)
        for target, place in zip(targets, places, strict=True):
            self._put(target, self.own_in(place, self.load(place)))

    def _do_annassign(self, statement: ast.AnnAssign) -> None:
        if not isinstance(statement.target, ast.Name) or statement.value is None:
            raise SyntaxError(f"machine code cannot declare {ast.unparse(statement)}")
        self._put(statement.target, self.expression(statement.value))
        self.end_statement()
        self.known.forget(stores(statement))
        self.known.declare(statement.target.id, statement.value, statement.annotation)

    def _do_augassign(self, statement: ast.AugAssign) -> None:
        as_value = ast.parse(ast.unparse(statement.target), mode="eval").body
        old, change = self.alive(as_value), self.alive(statement.value)
        self._put(statement.target, self.new(self.api(operation(statement, IN_PLACE), old, change)))
        self.end_statement()
        self.known.forget(stores(statement))

    def _put(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            for flag in self.known.flags_about(target.id):  # what it tells would no longer hold
                self.leave_if(self.load(self.flags[flag], kind="i1"), "unusual")
            self.replace(self.locals[target.id], 0, value, is_null=target.id in self._once)
        elif isinstance(target, ast.Attribute):
            self._set_attribute(target, value)
        elif isinstance(target, ast.Subscript):
            self._set_item(target, value)
        else:
            raise SyntaxError(f"machine code cannot assign to {ast.unparse(target)}")

    def _set_attribute(self, target: ast.Attribute, value: Value) -> None:
        value, thing, name = self.steady(value), self.alive(target.value), f".{target.attr}"
        field = self.unit.fields.get(target.attr)
        if field is None:
            self.not_negative(self.api("PyObject_SetAttr", thing, self.word(name), value))
        elif self.known.class_of(target.value) == field.of:
            self.replace(thing, field.place, value, is_null=self._is_first(target))
        else:
            facts = (self.where(field.of), integer(field.place), self.where(name))
            self.not_negative(self.runtime("set_field", thing, *facts, value, gives="i32"))

    def _is_first(self, target: ast.Attribute) -> bool:
        """Whether a field of a new object is set for the first time."""
        local = target.value.id if isinstance(target.value, ast.Name) else ""
        already = self.known.new_objects.get(local)
        if already is None or target.attr in already or self._blocks:
            return False
        already.add(target.attr)
        return True

    def _set_item(self, target: ast.Subscript, value: Value) -> None:
        value, thing, number = self.steady(value), self.alive(target.value), self.number(target.slice)
        if number is None:
            self.not_negative(self.api("PyObject_SetItem", thing, self.alive(target.slice), value))
        else:
            key = self.where(str(number))
            self.not_negative(self.runtime("set_item", thing, integer(number), key, value, gives="i32"))

    def _do_expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):  # a docstring
            self.expression(statement.value)
            self.end_statement()

    def _do_if(self, statement: ast.If) -> None:
        test = self._test(statement.test)
        before = self.known.classes
        with self.when(test), self.known.where(statement.test):
            self._block(statement.body)
            held = self.known.classes
        self.known.classes = before
        if statement.orelse:
            with self.when(self.negated(test)):
                self._block(statement.orelse)
            self.known.meet(held)
        elif isinstance(statement.body[-1], ast.Return):
            self.known.note_way_out(statement.test)
        else:
            self.known.meet(held)

    def _test(self, test: ast.expr) -> Value:
        """A condition that lets go of what it took to find out."""
        answer = self.condition(test)
        self.end_statement()
        return answer

    def _do_while(self, statement: ast.While) -> None:
        _refuse_else(statement)
        with self._loop(statement) as after:
            self.leave_if(self.negated(self._test(statement.test)), after)
            self._block(statement.body)

    @contextmanager
    def _loop(self, statement: ast.For | ast.While) -> Iterator[str]:
        self.known.forget(stores(statement))
        again, after = self.label("again"), self.label("after")
        self.leave(again)
        self.begin(again)
        self._loops.append(again)
        yield after
        self._loops.pop()
        self.leave(again)
        self.begin(after)
        self.known.forget(stores(statement))

    def _do_for(self, statement: ast.For) -> None:
        """Over one sequence, or over several side by side (``zip``), to the end of the shortest."""
        _refuse_else(statement)
        source, target = statement.iter, statement.target
        zipped = isinstance(source, ast.Call) and ast.unparse(source.func) == "zip"
        count = len(source.args) if isinstance(source, ast.Call) and zipped else 0
        if zipped and not (isinstance(target, ast.Tuple) and len(target.elts) == count > 1):
            raise SyntaxError(f"machine code zips into as many names: {ast.unparse(statement.target)}")
        sources = source.args if isinstance(source, ast.Call) and zipped else [source]
        targets = target.elts if isinstance(target, ast.Tuple) and zipped else [target]
        sequences = [self.new_place() for _ in sources]
        for one, place in zip(sources, sequences, strict=True):
            self.replace(place, 0, self.alive(one), is_null=False)
        self.end_statement()
        counter = self.slot(integer(0))
        self.store(integer(-1), counter)
        self._iterated += sequences
        with self._loop(statement) as after:
            index = self.plus(self.load(counter, kind="i64"), integer(1))
            self.store(index, counter)
            for place in sequences:
                size = self.not_negative(self.runtime("size", self.load(place), gives="i64"))
                self.leave_if(self.negated(self.less(index, size)), after)
            for one, place in zip(targets, sequences, strict=True):
                self._put(one, self.new(self.runtime("nth", self.load(place), index)))
            self.end_statement()
            self._block(statement.body)
        for place in sequences:
            self.drop(place)
            self._iterated.remove(place)

    def _do_continue(self, statement: ast.Continue) -> None:
        self.leave(self._loops[-1])
        self.begin_unreached()

    def _do_return(self, statement: ast.Return) -> None:
        self._give(self.expression(statement.value) if statement.value else self.word("None"))

    def _give(self, value: Value) -> None:
        self.store(self.taken(value), self._result)
        self.end_statement()
        for place in self._iterated:
            self.drop(place)
        self.leave("end")
        self.begin_unreached()


def _refuse_else(loop: ast.For | ast.While) -> None:
    if loop.orelse:
        raise SyntaxError("machine code has no else of a loop")
