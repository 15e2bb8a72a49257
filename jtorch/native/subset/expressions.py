"""The conditions and expressions of a translated function."""

from __future__ import annotations

import ast
from typing import Protocol, TypeGuard

from jtorch.native import layout
from jtorch.native.llvm_text import NULL, Value, integer
from jtorch.native.subset.frame import Frame
from jtorch.native.subset.knowledge import Knowledge
from jtorch.native.subset.words import Field, Words

_OPERATORS = {ast.Add: "PyNumber_Add", ast.Sub: "PyNumber_Subtract", ast.BitAnd: "PyNumber_And"}
IN_PLACE = {ast.Add: "PyNumber_InPlaceAdd", ast.Sub: "PyNumber_InPlaceSubtract"}
_COMPARISONS = {ast.Lt: 0, ast.LtE: 1, ast.Eq: 2, ast.NotEq: 3, ast.Gt: 4, ast.GtE: 5}  # Py_LT, ...
_METHOD = -(1 << 63)  # PY_VECTORCALL_ARGUMENTS_OFFSET: the place before them is the callee's
_MOST_ARGUMENTS = 24


def _is_call(expression: ast.expr, name: str) -> TypeGuard[ast.Call]:
    return isinstance(expression, ast.Call) and ast.unparse(expression.func) == name


def _of_shape_and_dtype(expression: ast.expr) -> ast.expr | None:
    """``x`` of ``(x.shape, x.dtype)``."""
    if not isinstance(expression, ast.Tuple) or len(expression.elts) != 2:
        return None
    first = expression.elts[0]
    if not isinstance(first, ast.Attribute) or not isinstance(first.value, ast.Name):
        return None
    name = first.value.id
    return first.value if ast.unparse(expression) == f"({name}.shape, {name}.dtype)" else None


def operation(expression: ast.BinOp | ast.AugAssign, known: dict[type[ast.operator], str]) -> str:
    """The function of the C API that computes it."""
    function = known.get(type(expression.op))
    if function is None:
        raise SyntaxError(f"machine code has no such operation: {ast.unparse(expression)}")
    return function


class Surroundings(Protocol):
    """What a function must know of its unit."""

    words: Words
    fields: dict[str, Field]
    numbers: dict[str, int]
    helpers: dict[str, str]


class Expressions(Frame):
    """What gives values: i1 for conditions, pointers to objects for all else."""

    def __init__(
        self, symbol: str, kinds: dict[str, str], tree: ast.FunctionDef, unit: Surroundings, is_helper: bool
    ) -> None:
        super().__init__(symbol, kinds)
        self.words, self.unit, self._is_helper = unit.words, unit, is_helper
        self.known = Knowledge(tree, unit.fields, unit.helpers)
        self._asked = self.array("ptr", 1 + _MOST_ARGUMENTS)
        self.flags = {name: self.slot(integer(0, "i1")) for name in sorted(self.known.flags)}
        self.locals: dict[str, Value] = {}  # name -> place
        self.assigned: set[str] = set()  # those that have a value on every way to here
        self.arguments: dict[str, Value] = {}  # those that are never assigned: the caller owns them

    # -- conditions -----------------------------------------------------------------------------------

    def condition(self, test: ast.expr) -> Value:
        """An i1."""
        if isinstance(test, ast.BoolOp):
            return self._short_circuit(test)
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            return self.negated(self.condition(test.operand))
        if isinstance(test, ast.Compare):
            return self._comparison(test)
        if isinstance(test, ast.Name) and test.id in self.flags:
            return self.load(self.flags[test.id], kind="i1")
        if isinstance(test, ast.BinOp) and isinstance(test.op, ast.BitAnd) and _is_call(test.left, "len"):
            size = self.not_negative(self.api("PyObject_Size", self.alive(test.left.args[0])))
            return self.true(self.masked(size, ast.literal_eval(test.right)))
        if isinstance(test, ast.IfExp):
            return self._chosen_condition(test)
        if _is_call(test, "isinstance"):
            thing, cls = test.args
            return self.runtime("is_of", self.expression(thing), self.where(ast.unparse(cls)), gives="i1")
        return self._truth(self.expression(test))

    def _short_circuit(self, test: ast.BoolOp) -> Value:
        answer, is_or = self.slot(integer(0, "i1")), isinstance(test.op, ast.Or)
        first, *others = test.values
        self.store(self.condition(first), answer)
        for k, other in enumerate(others):
            known = self.load(answer, kind="i1")
            held = ast.BoolOp(ast.And(), [] if is_or else test.values[: k + 1])
            with self.maybe(self.negated(known) if is_or else known), self.known.where(held):
                self.store(self.condition(other), answer)
        return self.load(answer, kind="i1")

    def _chosen_condition(self, test: ast.IfExp) -> Value:
        answer, chosen = self.slot(integer(0, "i1")), self.condition(test.test)
        with self.maybe(chosen), self.known.where(test.test):
            self.store(self.condition(test.body), answer)
        with self.maybe(self.negated(chosen)):
            self.store(self.condition(test.orelse), answer)
        return self.load(answer, kind="i1")

    def _comparison(self, test: ast.Compare) -> Value:
        if len(test.ops) > 1:
            raise SyntaxError(f"machine code compares two things at a time: {ast.unparse(test)}")
        (how,), (right,) = test.ops, test.comparators
        if isinstance(how, (ast.Is, ast.IsNot)):
            same = self.same(self.expression(test.left), self.expression(right))
            return same if isinstance(how, ast.Is) else self.negated(same)
        array = _of_shape_and_dtype(test.left)
        if array is not None and isinstance(how, (ast.Eq, ast.NotEq)):
            given, pair = self.alive(array), self.alive(right)
            answer = self.not_negative(self.runtime("has_shape_and_dtype", given, pair, gives="i32"))
            return self.same(answer, integer(isinstance(how, ast.Eq), "i32"))
        a, b = self.alive(test.left), self.alive(right)
        if isinstance(how, (ast.In, ast.NotIn)):
            answer = self.not_negative(self.api("PySequence_Contains", b, a))
            return self.same(answer, integer(isinstance(how, ast.In), "i32"))
        number = integer(_COMPARISONS[type(how)], "i32")
        if not isinstance(how, (ast.Eq, ast.NotEq)):
            return self.true(self.not_negative(self.api("PyObject_RichCompareBool", a, b, number)))
        answer = self.slot(integer(0, "i1"))  # a thing equals itself, as in a list
        self.store(integer(isinstance(how, ast.Eq), "i1"), answer)
        with self.maybe(self.negated(self.same(a, b))):
            told = self.not_negative(self.api("PyObject_RichCompareBool", a, b, number))
            self.store(self.true(told), answer)
        return self.load(answer, kind="i1")

    def _truth(self, value: Value) -> Value:
        return self.true(self.not_negative(self.runtime("truth", value, gives="i32")))

    # -- expressions ----------------------------------------------------------------------------------

    def expression(self, expression: ast.expr) -> Value:
        """A pointer to what is alive until the next call, or until the end of the statement."""
        write = getattr(self, f"_value_of_{type(expression).__name__.lower()}", None)
        if write is None:
            raise SyntaxError(f"machine code has no {type(expression).__name__}: {ast.unparse(expression)}")
        value: Value = write(expression)
        return value

    def alive(self, expression: ast.expr) -> Value:
        """The same until the end of the statement."""
        return self.steady(self.expression(expression))

    def _value_of_name(self, expression: ast.Name) -> Value:
        name = expression.id
        if name in self.flags:
            return self._as_bool(self.condition(expression))
        if name in self.arguments:
            return self.arguments[name]
        if name not in self.locals:
            return self.word(name)
        value = self.load(self.locals[name])
        if name not in self.assigned:
            self.leave_if(self.same(value, NULL), "bad")
        return value

    def _value_of_constant(self, expression: ast.Constant) -> Value:
        return self.word(repr(expression.value))

    def _value_of_unaryop(self, expression: ast.UnaryOp) -> Value:
        if isinstance(expression.op, ast.Not):
            return self._as_bool(self.condition(expression))
        return self.word(ast.unparse(expression))  # -1

    def _value_of_compare(self, expression: ast.Compare) -> Value:
        return self._as_bool(self.condition(expression))

    def _as_bool(self, condition: Value) -> Value:
        return self.chosen(condition, self.word("True"), self.word("False"))

    def _value_of_boolop(self, expression: ast.BoolOp) -> Value:
        """The first that decides."""
        place, is_or = self.place(), isinstance(expression.op, ast.Or)
        first, *others = expression.values
        self.store(self.taken(self.expression(first)), place)
        for other in others:
            true = self._truth(self.load(place))
            with self.maybe(self.negated(true) if is_or else true):
                self.replace(place, 0, self.expression(other), is_null=False)
        return self.own_in(place, self.load(place))

    def _value_of_ifexp(self, expression: ast.IfExp) -> Value:
        place, test = self.place(), self.condition(expression.test)
        with self.maybe(test), self.known.where(expression.test):
            self.store(self.taken(self.expression(expression.body)), place)
        with self.maybe(self.negated(test)):
            self.store(self.taken(self.expression(expression.orelse)), place)
        return self.own_in(place, self.load(place))

    def _value_of_attribute(self, expression: ast.Attribute) -> Value:
        """From the struct where the class is as expected, else from Python."""
        thing, attr = self.expression(expression.value), expression.attr
        if attr == "__class__":
            return self.type_of(thing)
        field, name = self.unit.fields.get(attr), f".{attr}"
        if field is None:
            return self.new(self.api("PyObject_GetAttr", self.steady(thing), self.word(name)))
        if self.known.class_of(expression.value) != field.of:
            facts = (self.where(field.of), integer(field.place), self.where(name))
            return self.new(self.runtime("field", self.steady(thing), *facts))
        value = self.load(thing, field.place)
        unset = self.same(value, NULL)
        self.leave_if(unset, "unusual" if field.holds else "bad")
        if field.holds:
            if self._is_helper:
                raise SyntaxError(f"a helper cannot give up, as {ast.unparse(expression)} may ask for")
            self.leave_if(self.negated(self.same(self.type_of(value), self.word(field.holds))), "unusual")
        return self.fragile(value)

    def _value_of_subscript(self, expression: ast.Subscript) -> Value:
        thing, number = self.expression(expression.value), self.number(expression.slice)
        if number is None:
            return self.new(self.runtime("item_at", self.steady(thing), self.alive(expression.slice)))
        return self.new(self.runtime("item", thing, integer(number), self.where(str(number))))

    def _value_of_tuple(self, expression: ast.Tuple) -> Value:
        if not expression.elts:
            return self.word("()")
        array = _of_shape_and_dtype(expression)
        if array is not None:
            return self.new(self.runtime("shape_and_dtype", self.alive(array)))
        return self._filled("PyTuple_New", expression.elts)

    def _value_of_list(self, expression: ast.List) -> Value:
        return self._filled("PyList_New", expression.elts)

    def _filled(self, new: str, elements: list[ast.expr]) -> Value:
        """A new tuple or list: nothing else happens between its making and its filling."""
        values = [self.alive(e) for e in elements]
        made = self.new(self.api(new, integer(len(values))))
        is_tuple = new == "PyTuple_New"
        items = self.at(made, layout.TUPLE_ITEMS) if is_tuple else self.load(made, layout.LIST_ITEMS)
        for k, value in enumerate(values):
            self.store(self.taken(value), items, 8 * k)
        return made

    def _value_of_binop(self, expression: ast.BinOp) -> Value:
        if isinstance(expression.op, ast.Add) and ast.unparse(expression.right) == "0":
            return self.new(self.runtime("plus_zero", self.alive(expression.left)))
        function = operation(expression, _OPERATORS)
        return self.new(self.api(function, self.alive(expression.left), self.alive(expression.right)))

    def number(self, key: ast.expr) -> int | None:
        """The number that a key is known to be."""
        if isinstance(key, ast.Name):
            return self.unit.numbers.get(key.id)
        try:
            number = ast.literal_eval(key)
        except ValueError:
            return None
        return number if isinstance(number, int) else None

    def replace(self, thing: Value, offset: int, value: Value, is_null: bool) -> None:
        """A reference goes in, and what was there is given back."""
        before = None if is_null else self.load(thing, offset)
        self.store(self.taken(value), thing, offset)
        if before is not None:
            with self.when(self.negated(self.same(before, NULL))):
                self.api("Py_DecRef", before)

    # -- calls ----------------------------------------------------------------------------------------

    def _value_of_call(self, expression: ast.Call) -> Value:
        function, arguments = expression.func, expression.args
        name = function.id if isinstance(function, ast.Name) else ""
        if name == "isinstance":
            return self._as_bool(self.condition(expression))
        if name == "weak_reference":
            return self.new(self.api("PyWeakref_NewRef", self.alive(arguments[0]), NULL))
        if name == "_new":
            return self.new(self.api("PyType_GenericAlloc", self.alive(arguments[0]), integer(0)))
        if name == "float":
            return self._float(expression)
        if name in self.unit.helpers:
            return self.new(self.runtime(f"helper_{name}", *map(self.alive, arguments)))
        if isinstance(function, ast.Attribute) and not expression.keywords:
            return self._method(function, arguments)
        unpacked = any(isinstance(a, ast.Starred) for a in arguments)
        if unpacked or any(k.arg is None for k in expression.keywords):
            raise SyntaxError(f"machine code passes arguments one by one: {ast.unparse(expression)}")
        values = [self.alive(a) for a in (function, *arguments, *(k.value for k in expression.keywords))]
        count = integer(len(arguments) + _METHOD)
        names = self.word("keywords") if expression.keywords else NULL
        return self.new(self.api("PyObject_Vectorcall", values[0], self._passed(values[1:]), count, names))

    def _float(self, expression: ast.Call) -> Value:
        """Of a whole number; of anything else, and of one that is too large, it is for Python to say."""
        if self._is_helper:
            raise SyntaxError(f"a helper cannot give up, as {ast.unparse(expression)} may ask for")
        found = self.runtime("as_float", self.alive(expression.args[0]))
        self.leave_if(self.same(found, NULL), "unusual")
        return self.new(found)

    def _method(self, function: ast.Attribute, arguments: list[ast.expr]) -> Value:
        if ast.unparse(function) == "CONTEXT.get":
            found = self.slot(NULL)
            self.not_negative(self.api("PyContextVar_Get", self.word("CONTEXT"), NULL, found))
            return self.new(self.load(found))
        values = [self.alive(a) for a in (function.value, *arguments)]
        if function.attr == "append" and len(values) == 2:
            self.not_negative(self.runtime("append", *values, gives="i32"))
            return self.word("None")
        if (function.attr, len(values)) in (("get", 2), ("pop", 1)):
            return self.new(self.runtime(function.attr, *values))
        count, name = integer(len(values) + _METHOD), self.word(f".{function.attr}")
        return self.new(self.api("PyObject_VectorcallMethod", name, self._passed(values), count, NULL))

    def _passed(self, values: list[Value]) -> Value:
        """Where the arguments of a call lie, side by side."""
        if len(values) > _MOST_ARGUMENTS:
            raise SyntaxError(f"machine code has no call with {len(values)} arguments")
        place = self.at(self._asked, 8)
        for k, value in enumerate(values):
            self.store(value, place, 8 * k)
        return place
