"""Planted miscompiles: each must be found, by the random programs or by one written for it.

A test of the tests. What is broken here is one line of the compiler, as a slip would break it; a harness that
does not notice has a hole. To be found means a wrong number, memory that is not the kernel's, or an assertion
of the compiler, known by its sentence, that the slip cannot get past: any other crash counts for nothing.
Broken kernels run unjitted, but for those of BLAS.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import pytest

import jtorch
from jtorch.compile.graph import access, passes, rules
from jtorch.compile.graph.ir import Eqn, Literal
from jtorch.compile.plan import fuse, loops, memory, scratch
from jtorch.compile.record.trace import Tracer
from jtorch.core.op import BY_NAME
from jtorch.core.products import BlasMatrices
from jtorch.native import contraction
from tests.compile.chain import assert_chain
from tests.compile.programs import of_seed
from tests.compile.programs_check import RefusedError, check_program

pytestmark = pytest.mark.slow

PROGRAMS = 300  # how many are tried until one fails


def floats(*shape, seed=0, dtype=np.float32):
    return jtorch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(dtype))


WRONG = ("eager -> ", "a kernel addresses element")  # a number of some link, or memory of someone else


def random_programs_fail(signs: tuple[str, ...] = WRONG) -> bool:
    for seed in range(PROGRAMS):
        grad = bool(seed % 2)
        try:
            program = of_seed(seed, grad=grad, in_place=not grad)
        except Exception:
            continue  # what is broken may be broken for eager mode, too
        try:
            with contextlib.suppress(RefusedError):
                check_program(program, grad)
        except (AssertionError, IndexError) as error:
            if any(sign in str(error) for sign in signs):
                return True
        except Exception:
            continue
    return False


def chain_fails(function: Callable, *leaves, jit: bool = False, signs: bool = False) -> bool:
    jtorch.manual_seed(3)
    try:
        with jtorch.no_grad():
            assert_chain(lambda *t: [o.clone() for o in function(*t)], leaves, jit, exact=False, signs=signs)
    except (AssertionError, IndexError) as error:
        return any(sign in str(error) for sign in (" -> ", "a kernel addresses element"))
    return False


def wrapped(monkeypatch, where, name, change):
    """Replace ``where.name`` by ``change(original)``."""
    monkeypatch.setattr(where, name, change(getattr(where, name)))


# -- found by random programs ------------------------------------------------------------------------------


def _any_fusion_is_legal(patch):
    """Groups merge although a value is read at another position than where it is computed."""
    patch.setattr(fuse, "reads_in_place", lambda *a: True)


def _sums_are_used_too_early(patch):
    patch.setattr(fuse, "_late_of", lambda a, b, *_: a.late | b.late)


def _a_third_step_is_forgotten(patch):
    patch.setattr(fuse.Fuser, "leads_to", lambda *a: False)


def _the_wrong_value_is_stored(patch):
    """Of two values that a kernel writes to memory the first goes to both places."""

    def build(old):
        def confused(self):
            nest = old(self)
            if len(nest.stores) < 2:
                return nest
            *others, last = nest.stores
            if (others[0].level, others[0].value.dtype) == (last.level, last.value.dtype):
                last = dataclasses.replace(last, value=others[0].value)
            return dataclasses.replace(nest, stores=(*others, last))

        return confused

    wrapped(patch, loops._Builder, "build", build)


def _memory_is_reused_too_soon(patch):
    """The arena gives memory away while it is still read."""

    def stale(order, elsewhere, *_):
        return {var: 0 for task in order for var in task.writes if var not in elsewhere}, 8192

    patch.setattr(memory, "lay_out", stale)


def _scratch_is_overwritten_at_will(patch):
    """A loop writes over whatever it reads for the last time."""
    patch.setattr(scratch, "written_over", lambda task: itertools.product(task.writes, task.reads))


def _in_place_hazards_are_ignored(patch):
    """A result is written over an argument that is read after that."""
    patch.setattr(memory, "overwrites_safely", lambda *a: True)
    wrapped(
        patch, memory._Planner, "_write_in_place",
        lambda old: lambda self, var, into: _in_place_at_once(self, var, into),
    )  # fmt: skip


def _in_place_at_once(planner, var, old):
    planner.places[var] = planner.places[old]
    planner.writer[var].visible = True
    return True


def _sharing_forgets_statics(patch):
    """Equations that differ only in their axes become one."""

    def share(graph, fuel):
        seen, new, kept = {}, {}, []
        for eqn in graph.eqns:
            inputs = tuple(new.get(a, a) for a in eqn.inputs)
            key = (eqn.op.index, tuple(map(id, inputs)), eqn.outputs[0].type)
            if key in seen and eqn.inputs:
                new.update(zip(eqn.outputs, seen[key], strict=True))
                continue
            seen[key] = eqn.outputs
            kept.append(eqn.replace(inputs=inputs))
        return graph.replace(eqns=tuple(kept), outputs=tuple(new.get(a, a) for a in graph.outputs))

    _swap_pass(patch, "share", share)


def _swap_pass(patch, name, new):
    patch.setattr(passes, "PASSES", tuple(new if p.__name__ == name else p for p in passes.PASSES))


def _pruning_drops_writes(patch):
    """An output that is only an effect is taken for its argument."""

    def prune(graph, fuel):
        last = graph.outputs[-1]
        same = next((v for v in graph.inputs if v.type == last.type), last)
        return passes.prune(graph.replace(outputs=(*graph.outputs[:-1], same)), fuel)

    patch.setattr(passes, "PASSES", (prune, *passes.PASSES[1:]))


def _rule(patch, name, rule):
    patch.setitem(passes._RULES_OF, name, [rule, *passes._RULES_OF.get(name, [])])


def _differences_are_turned_round(patch):
    """x - y as y - x, once for each equation."""

    def rule(eqn: Eqn, find):
        x, y = eqn.inputs
        return None if find(eqn.outputs[0]) or x is y else eqn.replace(op=BY_NAME["mul"], inputs=(y, x))

    _rule(patch, "sub", rule)


def _transposes_vanish(patch):
    """permute(x) = x where the shapes agree."""
    _rule(patch, "permute", rules._unchanged)


def _flips_vanish(patch):
    _rule(patch, "flip", rules._unchanged)


def _powers_lose_a_factor(patch):
    """sqrt(x) as x."""
    _rule(patch, "sqrt", rules._unchanged)


def _off_by_one(old, name):
    def moved(eqn, coordinates, n_axes):
        found = old(eqn, coordinates, n_axes)
        if found is None or eqn.op.name != name or not found:
            return found
        return (access.Affine(found[0].offset + 1, found[0].strides), *found[1:])

    return moved


def _selects_take_the_next(patch):
    patch.setattr(access, "moved", _off_by_one(access.moved, "select"))


def _combines_wrongly(name):
    def plant(patch):
        """A sum that starts at one, a maximum that starts at zero."""
        old = BY_NAME[name].identity
        wrong = {"sum": 1.0, "max": 0.0, "prod": 0.0}[name]
        new = (lambda dtype: dtype.type(wrong)) if callable(old) else wrong
        patch.setattr(BY_NAME[name], "identity", new)

    return plant


def _text_of(name, old, new):
    def plant(patch):
        op = BY_NAME[name]
        assert old in op.text
        patch.setattr(op, "text", op.text.replace(old, new))

    return plant


def _maps_without_borders(patch):
    """Padding reads its neighbour instead of the fill."""
    old = loops._Builder._choice

    def choice(self, tree, eqn, place):
        if isinstance(tree, loops.ix.Select):
            return old(
                self, tree.then if isinstance(tree.otherwise, loops.ix.Fill) else tree.otherwise, eqn, place
            )
        return old(self, tree, eqn, place)

    patch.setattr(loops._Builder, "_choice", choice)


def _scatters_overwrite(patch):
    """The last of several values that meet in one place wins."""
    wrapped(
        patch, loops._Builder, "_scatter",
        lambda old: lambda self, eqn: dataclasses.replace(
            old(self, eqn), terms=tuple((s, v) for s, v in old(self, eqn).terms[:0])
        ),
    )  # fmt: skip


PLANTED = {
    "any fusion is legal": _any_fusion_is_legal,
    "column sums used in their loop": _sums_are_used_too_early,
    "third step forgotten": _a_third_step_is_forgotten,
    "wrong value stored": _the_wrong_value_is_stored,
    "arena reused too soon": _memory_is_reused_too_soon,
    "scratch is overwritten at will": _scratch_is_overwritten_at_will,
    "in-place hazards ignored": _in_place_hazards_are_ignored,
    "sharing forgets statics": _sharing_forgets_statics,
    "a write is dropped": _pruning_drops_writes,
    "sub becomes mul": _differences_are_turned_round,
    "permute vanishes": _transposes_vanish,
    "flip vanishes": _flips_vanish,
    "sqrt vanishes": _powers_lose_a_factor,
    "select takes the next": _selects_take_the_next,
    "slice starts one late": lambda p: p.setattr(access, "moved", _off_by_one(access.moved, "slice")),
    "sum starts at one": _combines_wrongly("sum"),
    "operands of sub swapped": _text_of("sub", "{x} - {y}", "{y} - {x}"),
    "padding without borders": _maps_without_borders,
    "scatter into one place": _scatters_overwrite,
}


# what the compiler itself notices before there is a kernel
NOTICED = {
    "column sums used in their loop": "a sum is needed in the loop that makes it",
    "third step forgotten": "the groups wait for each other",
}


@pytest.mark.parametrize("name", PLANTED)
def test_random_programs_find(name, monkeypatch):
    PLANTED[name](monkeypatch)
    assert random_programs_fail((NOTICED[name],) if name in NOTICED else WRONG)


def test_nothing_planted():
    """The same programs pass when nothing is broken."""
    assert not random_programs_fail()


# -- found by a program written for it ---------------------------------------------------------------------


def _numbers_lose_half_their_digits(patch):
    """A float64 factor is kept as a float32."""

    def rule(eqn: Eqn, find):
        x, y = eqn.inputs
        if not isinstance(y, Literal) or y.value == float(np.float32(y.value)):
            return None
        return eqn.replace(inputs=(x, Literal(float(np.float32(y.value)), y.dtype, y.static)))

    _rule(patch, "mul", rule)


def _zero_adds_nothing(patch):
    """x + 0 as x, which turns 0.0 back into -0.0."""

    def rule(eqn: Eqn, find):
        x, y = eqn.inputs
        return x if isinstance(y, Literal) and y.value == 0 else None

    _rule(patch, "add", rule)


def _draws_are_counted_wrong(patch):
    """All random ops of a step draw the numbers of the first."""

    def next_call(old):
        def first(self, generator):
            seed, _ = old(self, generator)
            entry = self.generators.entries[id(generator)]
            return seed, self.fresh(entry.call.var)

        return first

    wrapped(patch, Tracer, "next_call", next_call)


def _gemm_forgets_to_transpose(patch):
    def blas_matrices(old):
        def forgetful(product):
            found = old(product)
            return found and BlasMatrices(*(matrix._replace(transposed=False) for matrix in found))

        return forgetful

    wrapped(patch, contraction, "blas_matrices", blas_matrices)


def _broadcasts_walk(patch):
    """A repeated axis has the stride of a real one."""
    op = BY_NAME["expand"]
    old = op.affine

    def affine(x_shape, strides, *, shape):
        offset, found = old(x_shape, strides, shape=shape)
        new = len(shape) - len(x_shape)
        return offset, found[-1:] * new + found[new:]

    patch.setattr(op, "affine", affine)


WRITTEN = {
    "maximum starts at zero": (
        _combines_wrongly("max"), lambda x: (x.amax(1),), [-floats(3, 4).abs() - 1.0], {},
    ),
    "product starts at zero": (_combines_wrongly("prod"), lambda x: (x.prod(1),), [floats(3, 4)], {}),
    "NaN is lost": (
        _text_of("relu", "maximum({kind}(0), {x})", "({x} if {x} > {kind}(0) else {kind}(0))"),
        lambda x: (x.relu(),), [jtorch.tensor([1.0, float("nan"), -2.0])], {},
    ),
    "float32 where float64": (
        _numbers_lose_half_their_digits, lambda x: (x * 0.1,), [floats(3, dtype=np.float64)], {},
    ),
    "zero adds nothing": (
        _zero_adds_nothing, lambda x: (x + 0.0,), [jtorch.tensor([-0.0, 1.0])], {"signs": True},
    ),
    "draws counted wrong": (
        _draws_are_counted_wrong, lambda x: (x + jtorch.rand(4), x + jtorch.rand(4)), [floats(4)], {},
    ),
    "gemm forgets to transpose": (
        _gemm_forgets_to_transpose, lambda x: (x @ x.t(),), [floats(3, 3)], {"jit": True},
    ),
    "broadcasts walk": (_broadcasts_walk, lambda x, y: (x + y,), [floats(3, 4), floats(4)], {}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_a_program_finds(name, monkeypatch):
    plant, function, leaves, options = WRITTEN[name]
    assert not chain_fails(function, *leaves, **options)
    plant(monkeypatch)
    assert chain_fails(function, *leaves, **options)
