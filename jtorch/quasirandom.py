"""Sobol's sequence: points that fill a cube more evenly than random ones do.

The direction numbers are Joe and Kuo's, which lie in the installed SciPy as data.
Sources: https://docs.pytorch.org/docs/stable/generated/torch.quasirandom.SobolEngine.html,
S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections", SIAM J. Sci.
Comput. 30 (2008), https://web.maths.unsw.edu.au/~fkuo/sobol/ (criterion D6, up to dimension 21201);
scrambling: A. B. Owen, "Scrambling Sobol and Niederreiter-Xing points", J. of Complexity 14 (1998).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import jtorch
from jtorch.core import dtypes as dt, op as op_module
from jtorch.eager.public import Tensor, from_numpy

__all__ = ["SobolEngine"]

_WAY_OUT = "Draw points outside of the compiled function and pass them in."


class SobolEngine:
    """Draws the points of a sequence in [0, 1)^dimension, (n, dimension) at a time.

    ``scramble`` mixes them at random, by ``seed`` where one is given: what it draws is not what PyTorch
    draws. Plain points are PyTorch's, bit for bit. Raises ValueError for a dimension above 21201. Compiled
    functions run it eagerly.

    >>> import jtorch
    >>> jtorch.quasirandom.SobolEngine(dimension=2).draw(4)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500],
            [0.2500, 0.7500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension: int, scramble: bool = False, seed: int | None = None) -> None:
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}]")
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        directions = _directions(dimension, self.MAXBIT)
        shift = np.zeros(dimension, np.int64)
        if scramble:
            shift, directions = self._scrambled(directions)
        self.sobolstate, self.shift = from_numpy(directions), from_numpy(shift)
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def _scrambled(self, directions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(a random shift, the directions each mixed by a random triangular matrix of bits)"""
        generator = None
        if self.seed is not None:
            generator = jtorch.Generator()
            generator.manual_seed(self.seed)
        bits = jtorch.randint(2, (self.dimension, self.MAXBIT), generator=generator).numpy()
        shape = (self.dimension, self.MAXBIT, self.MAXBIT)
        triangles = jtorch.randint(2, shape, generator=generator).tril().numpy()
        return bits @ (1 << np.arange(self.MAXBIT)), _mixed(directions, triangles)

    def draw(self, n: int = 1, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next ``n`` points (n, dimension), of the default dtype unless told otherwise; into ``out``."""
        op_module.CONTEXT.get().evaluator.refuse("draws from a SobolEngine", _WAY_OUT)
        changes = _changed_bits(self.num_generated, n)
        steps = self.sobolstate.numpy().T[changes]
        quasi = self.quasi.numpy()
        points = np.bitwise_xor.accumulate(np.concatenate([quasi[None], steps]), axis=0)
        if self.num_generated == 0:
            points = points[:n]  # the first point is the shift itself
        else:
            points = points[1:]
        if n:
            quasi[...] = points[-1]
        self.num_generated += n
        found = from_numpy(points).to(dtype or dt.get_default_dtype()) * 2.0**-self.MAXBIT
        if out is None:
            return found
        out.resize_as_(found).copy_(found)
        return out

    def draw_base2(self, m: int, out: Tensor | None = None, dtype: Any = None) -> Tensor:
        """The next 2 ** m points. Raises ValueError where the count of all is no power of 2 then."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require "
                f"n to be a power of 2. {self.num_generated} points have been "
                f"previously generated, then: n={self.num_generated}+2**{m}={total}. "
                "If you still want to do this, please use "
                "'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self) -> SobolEngine:
        """Begin anew."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n: int) -> SobolEngine:
        """Leave ``n`` points out."""
        op_module.CONTEXT.get().evaluator.refuse("draws from a SobolEngine", _WAY_OUT)
        last = max(self.num_generated - 1, 0)
        self.num_generated += n
        changed = _gray(last) ^ _gray(max(self.num_generated - 1, 0))
        bits = [k for k in range(self.MAXBIT) if changed >> k & 1]
        self.quasi.numpy()[...] ^= np.bitwise_xor.reduce(self.sobolstate.numpy()[:, bits], axis=1)
        return self

    def __repr__(self) -> str:
        facts = [f"dimension={self.dimension}"]
        if self.scramble:
            facts.append("scramble=True")
        if self.seed is not None:
            facts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(facts)})"


def _gray(n: int) -> int:
    """The bits that tell which directions point ``n`` is made of: one changes from point to point."""
    return n ^ n >> 1


def _changed_bits(generated: int, n: int) -> np.ndarray:
    """Which bit changes on the way to each of the next ``n`` points: the lowest zero of the number before."""
    numbers = np.arange(max(generated - 1, 0), generated + n - 1, dtype=np.int64)
    lowest = ~numbers & (numbers + 1)
    return np.log2(lowest).astype(np.int64)  # exact: powers of 2


def _directions(dimension: int, bits: int) -> np.ndarray:
    """(dimension, bits): the direction numbers, each continued by the recurrence of its polynomial."""
    initial, polynomials = _table(dimension)
    found = np.zeros((dimension, bits), np.int64)
    found[0] = 1
    degrees = np.frexp(polynomials.astype(np.float64))[1] - 1
    for m in np.unique(degrees[1:]):
        rows = 1 + np.flatnonzero(degrees[1:] == m)
        found[rows, :m] = initial[rows, :m]
        for j in range(m, bits):
            new = found[rows, j - m].copy()
            for k in range(m):
                has = polynomials[rows] >> (m - 1 - k) & 1
                new ^= has * (found[rows, j - k - 1] << (k + 1))
            found[rows, j] = new
    return found << np.arange(bits - 1, -1, -1)


def _table(dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """(the first numbers of each dimension, its primitive polynomial as bits)"""
    import scipy

    path = Path(scipy.__file__).parent / "stats" / "_sobol_direction_numbers.npz"
    if not path.exists():
        raise RuntimeError(
            f"SobolEngine: this SciPy {scipy.__version__} has no table of directions at {path}"
        )
    with np.load(path) as data:
        return data["vinit"][:dimension].astype(np.int64), data["poly"][:dimension].astype(np.int64)


def _mixed(directions: np.ndarray, triangles: np.ndarray) -> np.ndarray:
    """Each direction as a vector of bits, highest first, times the triangle of its dimension, modulo 2."""
    bits = triangles.shape[-1]
    triangles = triangles.copy()
    triangles[:, range(bits), range(bits)] = 1
    weights = 1 << np.arange(bits - 1, -1, -1)
    rows = triangles @ weights  # (dimension, bits): each row of a triangle as a number
    meets = np.bitwise_count(rows[:, None, :] & directions[:, :, None]) & 1
    return meets.astype(np.int64) @ weights
