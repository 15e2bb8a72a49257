"""Random programs for property tests: straight-line functions of tensors, written op by op.

``generate(rng)`` gives one; a run of numbered seeds is ``of_seed``; ``programs()`` is the strategy for
hypothesis, which shrinks what fails. ``python -m tests.compile.programs [count]`` prints how often each op of
the table occurs in the recordings of that many programs.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

import jtorch
from jtorch.core.op import TABLE, Kind
from tests.compile import programs_ops as ops, programs_views as views
from tests.compile.programs_core import SHAPES, Instruction, Program, Writer

FAMILIES: tuple[tuple[Callable[[Writer], bool], int], ...] = (
    (ops.unary, 5),
    (ops.binary, 6),
    (ops.ternary, 2),
    (ops.whole_numbers, 2),
    (ops.cast, 2),
    (ops.number, 2),
    (ops.reduction, 6),
    (ops.product, 3),
    (ops.layer, 3),
    (ops.chance, 1),
    (ops.branch, 1),
    (views.view, 8),
    (views.write, 4),
    (views.join, 2),
    (views.gather, 3),
)
_CALM = frozenset({ops.chance, ops.branch})  # what the planner's own tests have no use for
FIRST_SEED = int(os.environ.get("JTORCH_TEST_SEED", "0"))


def generate(
    rng: random.Random, max_size: int = 14, in_place: bool = False, grad: bool = False, calm: bool = False
) -> Program:
    """A program of up to ``max_size`` instructions over a few small arrays, that runs as it is, with
    gradients where ``grad``. ``in_place`` ones write their arguments, too; ``calm`` ones neither
    draw nor branch."""
    families = [(f, n) for f, n in FAMILIES if not (calm and f in _CALM)]
    shapes = tuple(rng.choice(SHAPES) for _ in range(rng.randint(1, 4)))
    dtypes = tuple(rng.choice(("float32", "float32", "float64", "int64")) for _ in shapes[1:])
    numbers = () if calm else tuple(rng.choice((0.5, -1.25, 2.0)) for _ in range(rng.randint(0, 1)))
    start = Program(shapes, (), (), (), (rng.choice(("float32", "float32", "float64")), *dtypes), numbers)
    writer = Writer(rng, start, grad, mutate=in_place or grad)
    choices, weights = [f for f, _ in families], [n for _, n in families]
    for _ in range(rng.randint(1, max_size)):
        rng.choices(choices, weights)[0](writer)
    made = _ended(writer, in_place and not grad)
    if grad and not _goes_backward(made):
        return generate(rng, max(1, max_size // 2), in_place, grad, calm)
    return made


def _ended(w: Writer, in_place: bool) -> Program:
    tensors = w.tensors()
    outputs = [w.rng.choice(tensors) for _ in range(w.rng.randint(1, 3))]
    writes: list[tuple[int, int]] = []
    for to in range(w.n_tensors if in_place else 0):
        goal = w.values[to]
        fit = w.tensors(lambda t, g=goal: (t.shape, t.dtype) == (g.shape, g.dtype) and t is not g)
        if fit and w.rng.random() < 0.4:
            writes.append((to, w.rng.choice(fit)))
    return w.finish((*outputs, tensors[-1]), tuple(writes))


def _goes_backward(program: Program) -> bool:
    """Whether eager mode differentiates it: a saved value may have been changed in place."""
    try:
        program.gradients(*program.leaves(requires_grad=True))
    except (RuntimeError, NotImplementedError):
        return False
    return True


def of_seed(seed: int, **options: Any) -> Program:
    """The program of one number: the same on every machine."""
    return generate(random.Random(seed), **options)


@st.composite
def programs(draw: Any, max_size: int = 14, in_place: bool = False, grad: bool = False) -> Program:
    """``generate`` for hypothesis: calm programs."""
    rng = draw(st.randoms(use_true_random=False))
    return generate(rng, max_size, in_place, grad, calm=True)


def minimised(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The program without the instructions and results that a failure does not need."""
    while True:
        fewer = (program.without(k) for k in reversed(range(len(program.instructions))))
        smaller = next((p for p in fewer if p is not None and fails(p)), None)
        if smaller is None:
            return program
        program = smaller


def coverage(seeds: range) -> Counter[str]:
    """How often each op of the IR occurs in recordings of the programs of ``seeds``, backward included."""
    from tests.compile.chain import trace

    found: Counter[str] = Counter()
    for seed in seeds:
        grad = bool(seed % 2)
        program = of_seed(seed, grad=grad, in_place=not grad)
        function = program.gradients if grad else program
        with jtorch.set_grad_enabled(grad):
            made = trace(function, program.leaves(requires_grad=grad))
        found.update(e.op.name for e in made.graph.eqns)
    return found


def _main(count: int) -> None:
    found = coverage(range(FIRST_SEED, FIRST_SEED + count))
    for name, n in found.most_common():
        print(f"{n:8d} {name}")
    missing = [op.name for op in TABLE if op.kind is not Kind.COMPOSITE and op.name not in found]
    print(f"never ({len(missing)}): {' '.join(missing)}")


__all__ = [
    "FIRST_SEED", "SHAPES", "Instruction", "Program", "coverage", "generate", "minimised", "of_seed",
    "programs",
]  # fmt: skip

if __name__ == "__main__":
    _main(int(sys.argv[1]) if len(sys.argv) > 1 else 500)
