"""What several distributions share: broadcast parameters, probabilities and logits, random uniforms."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import jtorch
from jtorch.core.number_ranges import fits, is_number
from jtorch.eager.public import Tensor, has_elements


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """``values`` as tensors of one shape; numbers get the dtype of the tensors beside them.

    Raises ValueError for anything but numbers and tensors.
    """
    if not all(isinstance(v, Tensor) or is_number(v) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, torch.Tensor or objects implementing "
            "__torch_function__."
        )
    tensors = [v for v in values if isinstance(v, Tensor)]
    floats = [t.dtype for t in tensors if t.is_floating_point()]
    dtype = floats[0] if floats else jtorch.get_default_dtype()
    made = [v if isinstance(v, Tensor) else _of_number(v, dtype) for v in values]
    return tuple(jtorch.broadcast_tensors(*made))


def _of_number(value: Any, dtype: Any) -> Tensor:
    """One beyond the dtype is infinite there, as for ``tensor``."""
    if not fits(value, dtype.numpy):
        value = math.inf if value > 0 else -math.inf
    return jtorch.full((), value, dtype=dtype)


def clamp_probs(probs: Tensor) -> Tensor:
    """``probs`` kept off 0 and 1 by one rounding step, where logarithms are taken."""
    tiny = {jtorch.float64: 2.0**-52, jtorch.float16: 2.0**-10}.get(probs.dtype, 2.0**-23)
    return probs.clamp(min=tiny, max=1 - tiny)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The logarithms of ``probs``; for a binary variable the log of the odds."""
    safe = clamp_probs(probs)
    return safe.log() - jtorch.log1p(-safe) if is_binary else safe.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    return jtorch.sigmoid(logits) if is_binary else jtorch.softmax(logits, -1)


def uniform(shape: Any, like: Tensor) -> Tensor:
    """Random numbers in (0, 1): both ends are left out, so that logarithms are finite."""
    u = jtorch.rand(tuple(shape), dtype=like.dtype)
    tiny = {jtorch.float64: 2.0**-54}.get(like.dtype, 2.0**-25)
    return jtorch.where(u == 0, jtorch.full_like(u, tiny), u)


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """The sum over the ``dims`` last dims."""
    return value.sum(tuple(range(-dims, 0))) if dims > 0 else value


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of ``mat`` on and below the diagonal ``diag``, row by row, in the last dim."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    places = [i * n + j for i in range(n) for j in range(min(max(i + diag + 1, 0), n))]
    return mat.flatten(-2).index_select(-1, jtorch.tensor(places, dtype=jtorch.int64))


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """A square matrix of zeros with ``vec`` in its elements on and below the diagonal ``diag``."""
    count, shift = vec.shape[-1], 1 + 2 * diag
    size = (math.sqrt(shift**2 + 8 * count + 4 * abs(diag) * (diag + 1)) - shift) / 2
    n = round(size)
    if n - size > jtorch.finfo(vec.dtype).eps:
        raise ValueError(
            f"The size of last dimension is {count} which cannot be expressed as the lower triangular part "
            "of a square D x D matrix."
        )
    numbers = iter(range(count))
    places = [next(numbers) if j <= i + diag else count for i in range(n) for j in range(n)]
    padded = jtorch.nn.functional.pad(vec, (0, 1))
    return padded.index_select(-1, jtorch.tensor(places, dtype=jtorch.int64)).unflatten(-1, (n, n))


class lazy_property(functools.cached_property):  # noqa: N801
    """A property that is computed at its first use and then is an attribute; not where the value is only
    recorded and has no elements."""

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with jtorch.enable_grad():
            value = self.func(instance)
        if has_elements(value):
            setattr(instance, self.func.__name__, value)
        return value


def standard_gamma(concentration: Tensor, shape: Any) -> Tensor:
    """Draws from Gamma(concentration, 1), off the tape: a stream of NumPy's, begun by a draw of jtorch's.

    Looks at the elements of ``concentration``, so it can't be compiled.
    """
    drawn = _stream().standard_gamma(concentration.detach().double().expand(tuple(shape)).numpy())
    return jtorch.from_numpy(np.asarray(drawn)).to(concentration.dtype)


def log_standard_gamma(concentration: Tensor, shape: Any) -> Tensor:
    """The logarithms of such draws, in float64: finite where the draws themselves would be 0.

    G(a) has the distribution of G(a + 1) U^(1/a). Source: Marsaglia and Tsang 2000, "A simple method for
    generating gamma variables", section 6.
    """
    stream, a = _stream(), concentration.detach().double().expand(tuple(shape)).numpy()
    above = np.log(stream.standard_gamma(a + 1.0))
    return jtorch.from_numpy(np.asarray(above - stream.standard_exponential(a.shape) / a))


def standard_von_mises(concentration: Tensor, shape: Any) -> Tensor:
    """Draws from VonMises(0, concentration), in float64, as for ``standard_gamma``."""
    wide = concentration.detach().double().expand(tuple(shape)).numpy()
    return jtorch.from_numpy(np.asarray(_stream().vonmises(0.0, wide)))


def _stream() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(int(jtorch.randint(0, 2**62, ()).item())))
