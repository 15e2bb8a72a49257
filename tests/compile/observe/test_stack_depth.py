"""The computed depth of the stack, against code of the standard library and against frames that run."""

import argparse
import ast
import contextlib
import ctypes
import dataclasses
import dis
import inspect
import sys
import types
from pathlib import Path

import pytest

from jtorch.compile.observe import frames
from jtorch.compile.observe.observer import watching
from jtorch.compile.observe.stack_depth import depths
from jtorch.compile.observe.stepping import Place, Table

MODULES = [argparse, ast, contextlib, dataclasses, inspect]  # among them async code, generators, matches


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_all_ways_to_an_instruction_agree(module):
    text = Path(module.__file__).read_text(encoding="utf-8")
    for code in codes(compile(text, module.__file__, "exec", dont_inherit=True)):
        instructions = list(dis.get_instructions(code))
        found = depths(code, instructions)
        assert min(found.values()) >= 0
        assert max(found.values()) <= code.co_stacksize
        returns = [found[i.offset] for i in instructions if i.opname == "RETURN_VALUE" and i.offset in found]
        assert set(returns) <= {1}


def test_code_whose_ways_disagree_is_refused():
    """A loop that leaves a value more each time: no compiler writes it."""

    def f(x):
        global _LEFT
        while x:
            _LEFT = x

    instructions = list(dis.get_instructions(f))
    nothing = {"opname": "NOP", "opcode": dis.opmap["NOP"], "arg": None}
    changed = [i._replace(**nothing) if i.opname == "STORE_GLOBAL" else i for i in instructions]
    assert changed != instructions
    with pytest.raises(ValueError, match="ambiguous"):
        depths(f.__code__, changed)


# -- frames that run -----------------------------------------------------------------------------------------


def _loops(n):
    total = 0
    for k in range(n):
        while total < k:
            total += 1
        else:
            total = max([y + total for y in (1, 2, 3)])
    return total


def _exceptions(n):
    found = []
    for k in range(n):
        try:
            try:
                found.append(1 // (k - 1))
            finally:
                found.append(-k)
        except ZeroDivisionError as error:
            found.append(str(error))
    with contextlib.suppress(KeyError):
        found.append({}[n])
    return found


def _calls(n):
    def inner(*args, scale=1, **kwargs):
        return sum(args) * scale + len(kwargs)

    pair = [n, n + 1]
    named = inner(*pair, n, scale=n, **{"a": 1}), inner(n, scale=2)
    return named, f"{n!r:>{n}} {pair}", pair[0:1], inner(*pair)


def _matches(n):
    match {"kind": n, "rest": [n, n]}:
        case {"kind": int() as kind, "rest": [first, *_]} if kind == first:
            return kind, first
    return None


def _generators(n):
    def inner():
        got = yield n
        yield from (k * got for k in range(n))
        return n

    made = inner()
    return [next(made), made.send(2), *made]


SAMPLES = [_loops, _exceptions, _calls, _matches, _generators]


# 3.11 counts the effect of a call at PRECALL, and takes its operands at CALL, where nobody looks
_APART = {dis.opmap["CALL"]} if sys.version_info < (3, 12) else set()


class _Everywhere:
    """An observer that compares the depth at each instruction of this file with the interpreter's own."""

    name = "sample"
    problem = None

    def __init__(self):
        self.pending = {}
        self.found = []
        self.tables = {}

    def enter(self, frame):
        code = frame.f_code
        if code.co_filename != __file__:
            return None, False
        if code not in self.tables:
            instructions = list(dis.get_instructions(code))
            self.tables[code] = Table(
                {k: Place(self.look, depth) for k, depth in depths(code, instructions).items()},
                frames.n_locals(code),
            )
        return self.tables[code], False

    def is_apart(self, frame):
        return False

    def look(self, stop):
        if stop.frame.f_code.co_code[stop.frame.f_lasti] not in _APART:
            self.found.append((stop.place.depth, _known_depth(stop.frame)))


_SIZE = 64  # of the pointer to the stack's top, or the number of words below it, in all known layouts


def _known_depth(frame):
    """The depth that the interpreter keeps, where it does so while it calls us."""
    start = frames.locals_of(frame)
    place = start - frames._layout.locals + _SIZE
    if sys.version_info >= (3, 14):
        words = (ctypes.c_size_t.from_address(place).value - start) // 8
    else:
        words = ctypes.c_int.from_address(place).value
    return words - frames.n_locals(frame.f_code)


@pytest.mark.skipif(
    (3, 12) <= sys.version_info < (3, 14), reason="keeps no depth of the stack while it calls us"
)
@pytest.mark.parametrize("sample", SAMPLES)
def test_the_depth_is_the_interpreter_s_own(sample):
    observer, expected = _Everywhere(), sample(4)
    with watching(observer):
        assert sample(4) == expected
    assert len(observer.found) > 30
    assert [ours for ours, _ in observer.found] == [theirs for _, theirs in observer.found]


@pytest.mark.parametrize("sample", SAMPLES)
def test_what_is_returned_lies_on_top(sample):
    seen = []

    class Returns(_Everywhere):
        def look(self, stop):
            if stop.frame.f_code.co_code[stop.frame.f_lasti] == dis.opmap["RETURN_VALUE"]:
                seen.append(stop.peek(1))

    sample(4)
    with watching(Returns()):
        result = sample(4)
    assert any(value is result for value in seen)
