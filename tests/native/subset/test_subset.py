"""Translated functions do to objects what the same text does in Python, and keep no reference."""

from __future__ import annotations

import gc
import sys
import weakref

import numpy as np
import pytest

from jtorch.native import cache, layout
from jtorch.native.builtin import make_builtin
from jtorch.native.subset.unit import Unit
from jtorch.native.subset.words import Field, Words
from tests.machine_code import needs_kernels

pytestmark = needs_kernels


class Box:
    __slots__ = ("held", "other")


class Kind(Box):
    __slots__ = ()


class Asked:
    """Of no known class: everything about it is asked of Python."""

    def __init__(self, held):
        self.held = held
        self.items = []

    def append(self, thing):
        self.items.append(thing)

    def get(self, key):
        return self.held if key == 1 else None

    def pop(self):
        return self.items.pop()

    def __getitem__(self, key):
        return (self.held, key)

    def __len__(self):
        return len(self.items)


def combine(a, b, **rest):
    return (a, b, *rest.items())


_new = object.__new__
ATTRIBUTES = ("held", "other", "append", "get", "pop", "kind", "dtype", "shape", "items")
SHARED = {
    **{repr(v): v for v in (None, True, False, 0, 1, 2, 63, -1, "f", ())},
    **{f".{name}": sys.intern(name) for name in ATTRIBUTES},
    "Box": Box, "Kind": Kind, "ndarray": np.ndarray, "list": list, "tuple": tuple, "dict": dict, "int": int,
    "float": float, "len": len, "combine": combine, "weak_reference": weakref.ref,
}  # fmt: skip
WORDS = Words(SHARED, ("keywords",))
NAMESPACE = {name: value for name, value in SHARED.items() if name.isidentifier()}
NAMESPACE |= {"_new": _new, "FIRST": 0}


def fields():
    found = {slot: Field("Box", place) for slot, place in layout.slots(Box).items()}
    return found | {"dtype": Field("ndarray", layout.ARRAY_DTYPE)}


def translated(text, helpers=(), words=WORDS, made_of=None):
    """(the function in machine code, the same in Python)"""
    unit = Unit(words, fields() if made_of is None else made_of, {"FIRST": 0})
    namespace = dict(NAMESPACE)
    for helper in helpers:
        unit.add_helper(helper)
        exec(helper, namespace)
    unit.add("translated", text)
    addresses = cache.get_or_build_written_ir(unit.text(), "test_subset", unit.text)
    exec(text, namespace)
    record = words.record(keywords=("x", "y"))
    return make_builtin("translated", addresses["translated"], record), namespace[text.split("(")[0][4:]]


def outcome(function, *arguments):
    try:
        return function(*arguments)
    except Exception as error:
        return type(error)


FUNCTIONS = {
    "constants": ("def f(a):\n    return (None, True, False, 1, 'f', -1, ())", [(0,)]),
    "locals": ("def f(a, b):\n    c = a\n    a = b\n    b = c\n    return [a, b, c]", [(1, 2), ([], {})]),
    "swap": ("def f(a, b):\n    a, b = b, a\n    return (a, b)", [(1, 2), ([3], "x")]),
    "chain": ("def f(a):\n    b = c = (a, a)\n    return [b, c]", [(1,), ([],)]),
    "condition": (
        "def f(a, b):\n    if a:\n        return 1\n    else:\n        b = [b]\n    return b",
        [(0, 1), (1, 1), ([], 2), ([0], 2), ({}, 1), (np.zeros(2), 1), ("", 0)],
    ),
    "and or not": (
        "def f(a, b):\n    return (a or b, not a, a is b, a is not None, (a or b) is a)",
        [(0, 1), (1, 0), (None, None), ([], []), (np.ones(3), 1)],
    ),
    "flags": (
        "def f(a, b):\n    both = isinstance(a, Box) and isinstance(b, Box)\n"
        "    same = both and a.held is b.held\n    return (both, same)",
        [(1, 2), ("box", 2), ("box", "box"), ("kind", "box")],
    ),
    "comparisons": (
        "def f(a, b):\n    return (a == b, a != b, a < b, a >= b)",
        [(1, 2), (2, 2), ("a", "b"), (1, "a"), ([1], [1])],
    ),
    "contains": ("def f(a, b):\n    return (a in b, a not in b)", [(1, [1]), (1, ()), (1, {2: 3}), (1, 2)]),
    "chosen": ("def f(a, b):\n    return a if b else [a]", [(1, 0), (1, 1), ("box", None)]),
    "chosen in a condition": (
        "def f(a, b):\n    if a is b if b else a is None:\n        return 1\n    return 2",
        [(1, 1), (None, 0), (2, 0), (1, 2)],
    ),
    "fields": (
        "def f(a, b):\n    a.held = b\n    a.other = a.held\n    return [a.other, a.held is b]",
        [("box", 1), ("kind", [2]), ("asked", 3), (1, 2)],
    ),
    "unset": ("def f(a):\n    return a.other", [("box",), ("kind",), ("asked",)]),
    "class": ("def f(a):\n    return a.__class__", [(1,), ("box",), (None,)]),
    "array": (
        "def f(a):\n    return (a.dtype, a.shape, a.dtype.kind == 'f')",
        [(np.ones(3),), (np.ones((), int),), (1,)],
    ),
    "shape and dtype": (
        "def f(a):\n    return (a.shape, a.dtype)",
        [(np.ones((2, 3)),), (np.ones((2, 3)),), (np.ones((3, 2)),), (np.ones((2, 3), "f"),), (np.ones(()),),
         (np.ones((1,) * 6),), (np.float32(1),), (1,), (np.ones((2, 3)),)],
    ),
    "new objects": (
        "def f(a):\n    made: Kind = _new(Kind)\n    made.held, made.other = a, [a]\n"
        "    made.held = made.other\n    return [made.held, made.__class__]", [(1,), ([],)],
    ),
    "items": (
        "def f(a, b):\n    return (a[0], a[FIRST], a[b], a[-1])",
        [([1, 2], 1), ((1, 2), 1), ([1], 5), ([], 0), ({0: 1, -1: 2}, 0), ("asked", 7), ([1, 2], -1), (3, 0),
         ([1], True), ([1], 1 << 80), ("ab", 1)],
    ),
    "set items": (
        "def f(a, b):\n    a[0] = b\n    a[b] = a[0]\n    a[0] += 1\n    return a",
        [([1, 2], 1), ({}, 0), ([], 0), ((1,), 0)],
    ),
    "nothing more": (
        "def f(a):\n    return a + 0", [(3,), (True,), (1.5,), (1 << 80,), ("a",), (np.ones(2),)],
    ),
    "floats": (
        "def f(a):\n    if a.__class__ is int:\n        return float(a)\n    return 0",
        [(3,), (-1,), (1 << 80,), (-(1 << 1023),), (1.5,), ("a",)],
    ),
    "an equal shape and dtype": (
        "def f(a, b):\n    return ((a.shape, a.dtype) == b, (a.shape, a.dtype) != b)",
        [(np.ones((2, 3)), ((2, 3), np.dtype(float))), (np.ones((2, 3)), ((3, 2), np.dtype(float))),
         (np.ones((2, 3)), ((2, 3), np.dtype("f4"))), (np.ones((2, 3)), ((2, 3, 1), np.dtype(float))),
         (np.ones((2, 3)), [(2, 3), np.dtype(float)]), (np.ones((2, 3)), ((2.0, 3), np.dtype(float))),
         (np.ones((2, 3)), ((1 << 80, 3), np.dtype(float))), (np.ones((2, 3)), (("a", 3), np.dtype(float))),
         (np.ones((2, 3)), ([2, 3], np.dtype(float))), (np.ones(()), ((), np.dtype(float))),
         (np.ones(2), None),
         (np.float64(1), ((), np.dtype(float))), (1, 2), ("asked", 2)],
    ),
    "the same": (
        "def f(a, b):\n    return (a == a, a != a, b == a)", [(1, 1), ([1], [1]), ("a", 2), (1.5, 1.5)],
    ),
    "a class that is asked for": (
        "def f(a):\n    if isinstance(a, Box):\n        a.other = a.held\n        return a.other\n"
        "    return a",
        [("box",), ("kind",), ("asked",), (1,)],
    ),
    "sums": ("def f(a, b):\n    return (a + b, a - b)", [(1, 2), (1.5, 2), ("a", "b"), (np.ones(2), 1)]),
    "bits": ("def f(a, b):\n    return a & b", [(6, 3), ({1, 2}, {2}), (1.0, 2)]),
    "length": (
        "def f(a):\n    if not len(a) & 63:\n        return 1\n    return 2",
        [([],), ([0] * 64,), ([0],), (1,), ({},)],
    ),
    "calls": (
        "def f(a, b):\n    return [combine(a, b), combine(a, (b, a), x=b, y=a), float(2)]",
        [(1, 2), ([], ())],
    ),
    "methods": (
        "def f(a, b):\n    a.append(b)\n    a.append(2)\n    last = a.pop()\n    return [a.pop(), last]",
        [([], 1), ("asked", [4]), ((), 1), ({}, 1)],
    ),
    "get": ("def f(a, b):\n    return (a.get(b), a.get(1))", [({1: 2}, 3), ("asked", 1), ({}, []), (1, 2)]),
    "empty": ("def f(a):\n    return a.pop()", [([],), (1,), ({1},), ({1: 2},)]),
    "weak": ("def f(a):\n    return weak_reference(a)() is a", [("kind",), (1,)]),
    "while": (
        "def f(a):\n    found = []\n    while a:\n        last = a.pop()\n        if last is None:\n"
        "            continue\n        found.append(last)\n    return found", [([1, None, 2],), ([],)],
    ),
    "for": (
        "def f(a, b):\n    found = []\n    for x in a:\n        if x is None:\n            continue\n"
        "        for y in b:\n            if y == 2:\n                return (x, found)\n"
        "            found.append((x, y))\n    return found",
        [([1, 2], (3, 4)), ([1, None, 1], [0, 2]), ((), ()), ([1], "ab"), (1, 2), ([1], 1)],
    ),
    "zip": (
        "def f(a, b):\n    found = []\n    for x, y in zip(a, b):\n        found.append([y, x])\n"
        "    return found",
        [((1, 2), [3, 4]), ([1, 2, 3], (4,)), ((), [1]), ("ab", (1, 2)), (1, ())],
    ),
    "unpacking": (
        "def f(a):\n    x, y = a\n    return [y, x]",
        [((1, 2),), ([[], {}],), (1,), ("ab",), ((1,),), ([1],), ((1, 2, 3),)],
    ),
}  # fmt: skip


def _argument(thing):
    if not isinstance(thing, str) or thing not in ("box", "kind", "asked"):
        return thing.copy() if isinstance(thing, (list, dict, set)) else thing
    if thing == "asked":
        return Asked(5)
    made = Kind() if thing == "kind" else Box()
    made.held = 4
    return made


def _plain(value):
    """Something that equals what Python's way gives."""
    if isinstance(value, np.ndarray):
        return ("array", value.tolist())
    if isinstance(value, (Box, Asked)):
        return type(value)
    return type(value)(map(_plain, value)) if type(value) in (tuple, list) else value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_it_does_what_python_does(name):
    text, calls = FUNCTIONS[name]
    native, python = translated(text)
    for arguments in calls:
        ours = outcome(native, *map(_argument, arguments))
        theirs = outcome(python, *map(_argument, arguments))
        known_to_differ = name == "unpacking" and isinstance(theirs, type)  # which error says so
        if known_to_differ or name == "unset":
            assert isinstance(ours, type) == isinstance(theirs, type), arguments
        else:
            assert _plain(ours) == _plain(theirs), arguments


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_reference_is_given_back(name):
    text, calls = FUNCTIONS[name]
    native, _ = translated(text)
    given = [tuple(map(_argument, arguments)) for arguments in calls]
    lasting = [thing for arguments in given for thing in arguments if not isinstance(thing, (int, str))]

    def once():
        for arguments in calls:
            outcome(native, *map(_argument, arguments))

    for _ in range(20):
        once()
    gc.collect()
    counts, blocks = [sys.getrefcount(thing) for thing in lasting], sys.getallocatedblocks()
    for _ in range(300):
        once()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in lasting] == counts
    assert sys.getallocatedblocks() - blocks < 100


def test_helpers():
    inner = "def inner(a, b) -> Kind:\n    made: Kind = _new(Kind)\n    made.held = (a, b)\n    return made"
    native, python = translated("def f(a):\n    made = inner(a, 1)\n    return made.held", [inner])
    assert native(3) == python(3) == (3, 1)


def test_a_flag_that_no_longer_holds_is_noticed():
    text = "def f(a, b):\n    is_box = isinstance(a, Box)\n    a = b\n    return a.held if is_box else 2"
    native, _ = translated(text)
    assert native(Box(), 3) is None  # and not what lies in the struct of an int
    assert native(1, 3) == 2
    text = (
        "def f(a, b):\n    x_is = False is True\n    if b:\n        x_is = isinstance(a, Box)\n"
        "    return a.held if x_is else 2"
    )
    box = _argument("box")
    native, _ = translated(text)
    assert (native(box, 1), native(box, 0), native(Asked(1), 1)) == (4, 2, 2)


def test_a_flag_of_an_earlier_round_tells_nothing():
    text = (
        "def f(a, b, n):\n    is_ = isinstance(a, Box)\n    c = 1\n    for k in n:\n        if is_:\n"
        "            c = a.held\n        is_ = isinstance(b, Box)\n    return c"
    )
    native, python = translated(text)
    given = Asked(7), _argument("box"), [0, 1]
    assert native(*given) == python(*given) == 7
    native, python = translated("def f(a):\n    a = a is None\n    return a")
    assert native(None) is python(None) is True and native(1) is False
    native, python = translated("def f(a, b):\n    x: Box = a\n    x += b\n    return x.held")
    assert outcome(native, [1], [2]) is outcome(python, [1], [2]) is AttributeError


def test_what_changes_in_place():
    native, _ = translated("def f(a, b):\n    a += b\n    return a")
    given = [1]
    assert native(given, [2]) is given == [1, 2]


def test_ways_out_and_branches_give_all_back():
    made_of = fields() | {"held": Field("Box", layout.slots(Box)["held"], "list")}
    text = (
        "def f(a, b):\n    is_box = isinstance(a, Box)\n    for x in b:\n"
        "        c = ([b], a.held if is_box else 1)\n    return 1"
    )
    native, _ = translated(text, made_of=made_of)
    other, _ = translated("def f(a, b):\n    c, d = a, (a if b else b)\n    return [c, d]")
    box, given = _argument("box"), [[], []]
    counts = sys.getrefcount(box), sys.getrefcount(given)
    for _ in range(50):
        assert native(box, given) is None
        other(given, 0)
        other(given, 1)
    assert (sys.getrefcount(box), sys.getrefcount(given)) == counts


def test_a_chain_of_targets_owns_what_it_hands_on():
    class Resetting:
        def __init__(self, box):
            self.box = box

        def __del__(self):
            self.box.held = None

    native, _ = translated("def f(a, b):\n    a.held = c = (b, b)\n    return c")
    box = Box()
    for _ in range(20):
        box.held = Resetting(box)
        assert native(box, "x") == ("x", "x")


def test_a_local_without_a_value():
    native, _ = translated("def f(a):\n    if a:\n        b = a\n    return b")
    assert native(1) == 1
    with pytest.raises(TypeError, match="bad argument"):
        native(0)


def test_a_float_that_is_too_large_is_for_python():
    native, python = translated("def f(a):\n    return float(a)")
    assert native(3) == 3.0 and native(1 << 1023) == float(1 << 1023)
    for large in (1 << 1024, -(10**400)):
        assert native(large) is None and outcome(python, large) is OverflowError


def test_an_argument_of_a_known_class_is_checked():
    native, _ = translated("def f(a: Box):\n    return a.held")
    assert native(_argument("box")) == native(_argument("kind")) == 4
    for other in (Asked(1), 3, None):
        with pytest.raises(TypeError):
            native(other)


def test_a_class_that_was_asked_for_is_forgotten_with_its_name():
    native, python = translated(
        "def f(a, b):\n    if isinstance(a, Box):\n        a = b\n        return a.held\n    return 1"
    )
    assert native(_argument("box"), Asked(7)) == python(_argument("box"), Asked(7)) == 7


def test_a_part_that_is_put_may_let_go_of_the_sequence():
    class Emptying:
        def __del__(self):
            box.other = None

    native, _ = translated("def f(a):\n    a.held, a.other = a.other\n    return a")
    box = Box()
    for _ in range(20):
        box.held, box.other = Emptying(), ([1], [2])
        assert native(box) is box


def test_numbers_of_references_that_mean_forever_stay():
    native, _ = translated("def f(a):\n    return [a, None, True, (), 1]")
    before = [sys.getrefcount(x) for x in (None, True, ())]
    for _ in range(1000):
        assert native(()) == [(), None, True, (), 1]
    after = [sys.getrefcount(x) for x in (None, True, ())]
    assert all(abs(a - b) < 50 for a, b in zip(after, before, strict=True))


def test_a_class_is_known_only_where_all_ways_agree():
    text = (
        "def f(a, b):\n    if b:\n        made: Box = a\n    else:\n        made = b\n"
        "    made.held = 1\n    return made.held"
    )
    native, _ = translated(text)
    assert native(_argument("box"), 1) == 1
    with pytest.raises(AttributeError):
        native(_argument("box"), 0)  # an int has no such attribute, and no place for it


def test_what_is_held_otherwise_is_left_to_python():
    made_of = fields() | {"held": Field("Box", layout.slots(Box)["held"], "list")}
    text = (
        "def f(a):\n    is_box = isinstance(a, Box)\n    held = a.held if is_box else 1\n"
        "    return (held, held)"
    )
    native, _ = translated(text, made_of=made_of)
    box, empty = _argument("box"), Box()
    assert native(box) is None and native(empty) is None
    box.held = [2]
    assert native(box) == ([2], [2]) and native(5) == (1, 1)
    assert native() is None and native(box, box) is None
    with pytest.raises(SyntaxError, match="a helper cannot give up"):
        helper = "def g(a):\n    b: Box = a\n    return b.held"
        translated("def f(a):\n    return g(a)", [helper], made_of=made_of)


def test_a_slot_that_was_never_set():
    native, _ = translated("def f():\n    made: Box = _new(Box)\n    return made.held")
    with pytest.raises(TypeError, match="bad argument"):
        native()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def f(a):\n    return unknown", "nothing called unknown"),
        ("def f(a):\n    return a.unknown", "nothing called .unknown"),
        ("def f(a):\n    return 77", "nothing called 77"),
        ("def f(a):\n    return a * a", "no such operation: a \\* a"),
        ("def f(a):\n    return a < a < a", "two things at a time"),
        ("def f(a):\n    try:\n        return a\n    except TypeError:\n        return 1", "no Try"),
        ("def f(a):\n    return lambda: a", "no Lambda"),
        ("def f(a):\n    with a:\n        return a", "no With"),
        ("def f(a):\n    [*b] = a\n    return b", "cannot assign"),
        ("def f(a, b=2):\n    return a", "by position alone"),
        ("def f(*a):\n    return a", "by position alone"),
        ("def f(a):\n    return combine(*a)", "one by one"),
        ("def f(a):\n    return combine(**a)", "one by one"),
        ("def f(a):\n    for x in a:\n        a = x\n    else:\n        return 1", "no else of a loop"),
        ("def f(a):\n    for x in zip(a):\n        a = x", "zips into as many names"),
        (f"def f(a):\n    combine({', '.join('a' * 30)})\n    return a", "no call with 30 arguments"),
    ],
)  # fmt: skip
def test_what_it_does_not_know_is_an_error(text, said):
    with pytest.raises(SyntaxError, match=said):
        translated(text)


def test_an_error_in_the_middle_loses_nothing():
    """Whatever step fails, what the function owned by then is given back."""
    text = (
        "def f(a, b):\n    c = (a, [b, a])\n    for x in b:\n"
        "        c = [combine(c, x), (c, b[x], a.held)]\n    return c"
    )
    native, python = translated(text)
    a, b = _argument("kind"), [0, 1, "x"]
    for things in ((a, b), (a, [0, 5]), (1, [0]), (a, 3)):
        assert outcome(native, *things) == outcome(python, *things)
    counts = sys.getrefcount(a), sys.getrefcount(b)
    for _ in range(50):
        outcome(native, a, b)
    assert (sys.getrefcount(a), sys.getrefcount(b)) == counts


def test_a_finalizer_may_run_at_any_point():
    """What a struct holds may change while the function runs: it owns what it still needs."""

    class Meddling:
        def __init__(self, box):
            self.box = box

        def __call__(self, *_):
            self.box.held = None
            gc.collect()
            return self.box

    text = "def f(a, b):\n    return (a.held, b(a.held), a.held)"
    native, python = translated(text)
    for function in (native, python):
        box = _argument("box")
        box.held = [1, 2]
        assert function(box, Meddling(box)) == ([1, 2], box, None)
