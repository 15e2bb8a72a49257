"""What a plan over symbols puts into its argument blocks: constants, expressions, and addresses to come.

The words of all blocks lie side by side. Each is a constant, an expression of the sizes, an address in a slot
of scratch memory, one of memory that is known, or one that a call brings; expressions are Python, by the
names of the symbols. They are found once; ``run/instances.py`` works them out for a call's sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jtorch.compile.codegen.code import Code
from jtorch.compile.codegen.emitter import Edge, Pointer
from jtorch.compile.graph.ir import Var
from jtorch.compile.graph.products import product_of
from jtorch.compile.plan.fuse import StepKind
from jtorch.compile.plan.order import loops_of
from jtorch.compile.plan.pieces import LINE, divided, time_of_element
from jtorch.compile.plan.plan import Place, Task, Where
from jtorch.compile.run.expressions import Expressions
from jtorch.compile.run.products import ProductShape
from jtorch.compile.run.replay import word_of
from jtorch.compile.run.scans import HEAD, Loop, scans_of
from jtorch.compile.target import Binding
from jtorch.core.dim import Dim, DimFloat
from jtorch.core.environment import Exact
from jtorch.core.products import blas_matrices
from jtorch.native.contraction import is_usual, usual_kernel, usual_words
from jtorch.native.executor import SCAN_WORDS


@dataclass
class Words:
    """``-1`` stands for no expression: then the bytes alone count."""

    constants: list[int] = field(default_factory=list)
    ints: list[tuple[int, int]] = field(default_factory=list)  # (word, expression)
    floats: list[tuple[int, int]] = field(default_factory=list)  # (word, expression of a float)
    fixed: list[tuple[Place, int, int, int]] = field(default_factory=list)  # (where, word, expression, bytes)
    slots: list[tuple[int, int, int, int]] = field(default_factory=list)  # (word, slot, expression, bytes)
    patches: list[tuple[int, int, int, int]] = field(default_factory=list)  # (argument, word, ...)
    in_slots: list[Var] = field(default_factory=list)  # what lies at each of ``slots``

    def take(self) -> int:
        """One more word: its index."""
        self.constants.append(0)
        return len(self.constants) - 1


@dataclass(eq=False)
class LoopBlock:
    """The block of a kernel: ``n`` words from ``first`` on. ``edges``: which of them are where the piece that
    it runs begins (False) or ends. ``time``: its number among the loops of the plan."""

    task: Task
    first: int
    n: int
    edges: list[tuple[int, bool]]
    time: int

    @property
    def words(self) -> range:
        return range(self.first, self.first + self.n)


@dataclass(eq=False)
class ProductBlock:
    """A product: three words from ``first`` on are the addresses of its factors and its result. ``moving`` is
    Python for a tuple of the numbers of its shape that depend on sizes. Where it is ``usual``, which is
    Python, too, for most sizes, its block begins at ``usual_at``, with these addresses from its second word
    on, and goes to ``kernel``."""

    task: Task
    first: int
    shape: ProductShape
    moving: tuple[Any, ...]
    usual: str = "False"
    usual_at: int = 0
    kernel: int = 0


@dataclass(eq=False)
class ScanBlock:
    """A loop over time: the block of ``scan_kernel`` for all rows. ``sizes``, ``steps`` are expressions."""

    task: Task
    first: int
    n: int
    loop: Loop
    sizes: tuple[int, ...]
    steps: int

    def sizes_of(self, values: Any) -> tuple[int, ...]:
        """Those of a turn, where the expressions have these values."""
        return tuple(int(values[k]) for k in self.sizes)


@dataclass(eq=False)
class HostBlock:
    """A library call: which word is the address of a variable that it reads or writes, or which argument of
    the call brings it."""

    task: Task
    words: dict[Var, int] = field(default_factory=dict)
    arguments: dict[Var, int] = field(default_factory=dict)


class Functions(NamedTuple):
    """Of the sizes of a call: all expressions, ints with a 0 at the end, and floats; the moving numbers of
    products; whether the guards hold; whether each product is a usual one."""

    numbers: Callable[..., tuple[list[int], list[float]]]
    parts: Callable[..., list[tuple[int, ...]]]
    holds: Callable[..., bool]
    usual: Callable[..., list[bool]]


class Template:
    """The words of a plan, and its blocks in order."""

    def __init__(self, code: Code, binding: Binding) -> None:
        self.code, self.plan, self.binding = code, code.plan, binding
        self.words, self.ints, self.floats = Words(), Expressions(), Expressions()
        self.blocks: list[LoopBlock | ProductBlock | ScanBlock | HostBlock] = []
        self.times: list[tuple[float, int, int, int]] = []  # of loops: us an element, elements, turns, line
        self.flops: list[int] = []  # of products
        scans = scans_of(self.plan)
        for task in self.plan.tasks:
            if task.in_background:
                raise Exact(f"{task.name} runs in the background, in memory of these very sizes")
            if task.step.kind is StepKind.HOST:
                self.blocks.append(self._host(task))
            elif task in scans:
                self.blocks.append(self._scan(task, scans[task]))
            else:
                self.blocks.append(self._product(task) if task.nest is None else self._loop(task))
        self.slots = self.numbers_of(self.plan.slots or ((self.plan.arena_bytes,),))  # of numbers one is made

    def numbers_of(self, slots: Iterable[Iterable[Any]]) -> list[list[int]]:
        """The numbers of the expressions of the sizes that slots must have."""
        return [[self.ints.of(n) for n in sizes] for sizes in slots]

    def _loop(self, task: Task) -> LoopBlock:
        kernel, words = self.code.kernels[task], self.words
        nest = task.nest
        assert nest is not None
        loop = divided(nest)
        first, edges = len(words.constants), []
        for argument in kernel.arguments:
            k = words.take()
            if isinstance(argument, Pointer):
                self._point(k, argument.var, argument.offset * argument.var.dtype.itemsize)
            elif isinstance(argument, Edge):
                edges.append((k - first, argument.last))
                if argument.last and loop is not None:
                    self._number(k, loop.size)
            elif type(argument.value) in (Dim, DimFloat):
                self._number(k, argument.value)
            else:
                words.constants[k] = word_of(argument)
        elements: Any = 1
        for n in nest.sizes:
            elements = elements * n
        line = LINE if loop is not None and loop == loops_of(nest)[-1] else 1
        turns = loop.size if loop is not None and not task.can_fail else 1
        self.times.append((time_of_element(nest), self.ints.of(elements), self.ints.of(turns), line))
        return LoopBlock(task, first, len(words.constants) - first, edges, len(self.times) - 1)

    def _product(self, task: Task) -> ProductBlock:
        (eqn,) = task.step.eqns
        factors = product_of(eqn, self.plan.fused.find)
        assert factors is not None  # see graph/finalise.py
        x, y, product = factors
        out = eqn.outputs[0]
        first = len(self.words.constants)
        for var, offset in ((x.owner, x.offset), (y.owner, y.offset), (out, 0)):
            self._point(self.words.take(), var, offset * var.dtype.itemsize)
        parts = (product.batch, product.rows, product.columns, product.inner)
        numbers = tuple(n for part in parts for axis in part for n in axis)
        still = tuple(None if type(n) is Dim else n for n in numbers)
        axes = len(parts[0]), len(parts[1]), len(parts[2]), len(parts[3])
        shape = ProductShape(axes, still, x.owner.dtype)
        found = ProductBlock(task, first, shape, tuple(n for n in numbers if type(n) is Dim))
        self.flops.append(self.ints.of(product.flops))
        kernel = usual_kernel(x.owner.dtype)
        matrices = blas_matrices(product) if kernel is not None else None
        if matrices is not None and kernel is not None:
            found.usual_at, found.kernel = len(self.words.constants), kernel
            for number in usual_words(product, matrices, out.dtype):
                k = self.words.take()
                if number is not None:
                    self._number(k, number)
            walked = matrices.x.transposed or matrices.y.transposed
            found.usual = f"is_usual({', '.join(map(str, product.sizes))}, {walked})"
        return found

    def _scan(self, task: Task, loop: Loop) -> ScanBlock:
        first = len(self.words.constants)
        head = [self.words.take() for _ in range(HEAD)]
        self._number(head[1], loop.steps)
        self._number(head[2], len(loop.arguments))
        if loop.skipped is not None:
            self._point(head[3], *loop.skipped)
        self._number(head[4], loop.ends)
        for argument in loop.arguments:
            _, begin, later, *rest = [self.words.take() for _ in range(SCAN_WORDS)]
            if argument.first is not None:
                self._point(begin, *argument.first)
            self._point(later, *argument.later)
            for k, number in zip(rest, (argument.stride, argument.mask, argument.late), strict=True):
                self._number(k, number)
        sizes = tuple(map(self.ints.of, loop.sizes))
        return ScanBlock(task, first, loop.n_words, loop, sizes, self.ints.of(loop.steps))

    def _host(self, task: Task) -> HostBlock:
        found = HostBlock(task)
        for var in (*task.reads, *task.writes):
            place = self.plan.places[var]
            if place.kind is Where.ARENA or place in self.binding.fixed:
                found.words[var] = self.words.take()
                self._point(found.words[var], var, 0)
            else:
                found.arguments[var] = self.binding.dynamic[place]
        return found

    def _number(self, k: int, value: Any) -> None:
        """Word ``k`` is this number."""
        if type(value) is DimFloat:
            self.words.floats.append((k, self.floats.of(value)))
        elif type(value) is Dim:
            self.words.ints.append((k, self.ints.of(value)))
        else:
            self.words.constants[k] = value

    def _point(self, k: int, var: Var, nbytes: Any) -> None:
        """Word ``k`` is the address of ``var`` and so many bytes."""
        words, place = self.words, self.plan.places[var]
        if place.kind is Where.ARENA:
            slot, begin = place.at if self.plan.slots else (0, place.at)
            words.slots.append((k, slot, *self._bytes(begin + nbytes)))
            words.in_slots.append(var)
        elif place in self.binding.fixed:
            words.fixed.append((place, k, *self._bytes(nbytes)))
        else:
            words.patches.append((self.binding.dynamic[place], k, *self._bytes(nbytes)))

    def _bytes(self, nbytes: Any) -> tuple[int, int]:
        """(expression, constant), of which one counts."""
        return (self.ints.of(nbytes), 0) if type(nbytes) is Dim else (-1, nbytes)

    def functions(self, names: Sequence[str], guards: Sequence[str], space: dict[str, Any]) -> Functions:
        """What works the template out for sizes of these ``names``; texts see ``space``."""
        products = [b for b in self.blocks if isinstance(b, ProductBlock)]
        ints, floats = (", ".join(e.texts) for e in (self.ints, self.floats))
        given = ", ".join(names)
        lines = [
            f"def numbers({given}): return [{ints}{', ' if ints else ''}0], [{floats}]",
            f"def parts({given}): return [{', '.join(repr(b.moving) for b in products)}]",
            f"def holds({given}): return {' and '.join(guards)}",
            f"def usual({given}): return [{', '.join(b.usual for b in products)}]",
        ]
        space = space | {"is_usual": is_usual}
        exec(compile("\n".join(lines), "<jtorch sizes>", "exec"), space)
        return Functions(*(space[name] for name in Functions._fields))
