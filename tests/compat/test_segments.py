"""``segment_reduce`` and ``hash_tensor``: against PyTorch's, in both modes."""

from __future__ import annotations

import math

import numpy as np
import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    import torch

RNG = np.random.default_rng(0)
VECTOR, ROWS, BATCH = RNG.standard_normal(6), RNG.standard_normal((6, 2)), RNG.standard_normal((2, 5, 3))
VECTOR[3] = VECTOR[2]  # two highest ones, maybe
SEGMENTS = {
    "vector": (VECTOR, {"lengths": [2, 3, 1]}),
    "an empty one": (VECTOR, {"lengths": [0, 4, 0, 2]}),
    "rows": (ROWS, {"lengths": [4, 2]}),
    "offsets": (ROWS, {"offsets": [0, 1, 1, 6]}),
    "initial": (ROWS, {"lengths": [4, 0, 2], "initial": 2.0}),
    "axis": (BATCH, {"lengths": [[2, 3], [5, 0]], "axis": 1}),
    "offsets along an axis": (BATCH, {"offsets": [[0, 2, 5], [0, 1, 5]], "axis": 1}),
}
KINDS = ["sum", "mean", "max", "min", "prod"]


def _reduced(L, case, kind, compiled=False):
    values, options = SEGMENTS[case]
    options = {k: L.tensor(v) if isinstance(v, list) else v for k, v in options.items()}

    def run(x):
        return L.segment_reduce(x, kind, **options)

    x = L.tensor(values, requires_grad=True)
    found = (jtorch.compile(run) if compiled else run)(x)
    (gradient,) = L.autograd.grad(found[found.isfinite()].sum(), x)
    return found.detach().numpy(), gradient.numpy()


@needs_torch
@each("case, kind", [(c, k) for c in SEGMENTS for k in KINDS])
def test_segments_equal_pytorch_s(case, kind):
    for ours, theirs in zip(_reduced(jtorch, case, kind), _reduced(torch, case, kind), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


@each("case, kind", [("axis", k) for k in KINDS])
def test_segments_compiled(case, kind):
    values, options = SEGMENTS[case]
    lengths = jtorch.tensor(options["lengths"])
    run = jtorch.compile(lambda x, n: jtorch.segment_reduce(x, kind, lengths=n, axis=1))
    eager = _reduced(jtorch, case, kind)[0]
    np.testing.assert_allclose(run(jtorch.tensor(values), lengths).numpy(), eager, rtol=1e-12)


@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize(
    ("values", "initial", "shares"),
    [
        ([2.0, 2.0], 2.0, [0.5, 0.5]),
        ([0.0], 0.0, [1.0]),
        ([3.0, 3.0], float("nan"), [0.0, 0.0]),
        ([3.0, 3.0], None, [0.5, 0.5]),
        ([-math.inf, -math.inf], None, [0.5, 0.5]),
        ([math.inf, math.inf], None, [0.5, 0.5]),
        ([math.nan, 1.0, math.nan, math.inf], None, [0.5, 0.0, 0.5, 0.0]),
        ([1.0, math.nan], math.nan, [0.0, 1.0]),
    ],
)
def test_what_a_segment_begins_with_takes_no_share_of_a_gradient(kind, values, initial, shares):
    x = jtorch.tensor(values, requires_grad=True)
    lengths = jtorch.tensor([len(values), 0])
    jtorch.segment_reduce(x, kind, lengths=lengths, initial=initial)[0].backward()
    assert x.grad.tolist() == shares
    if HAS_TORCH:
        x = torch.tensor(values, requires_grad=True)
        lengths = torch.tensor([len(values), 0])
        torch.segment_reduce(x, kind, lengths=lengths, initial=initial)[0].backward()
        assert x.grad.tolist() == shares


def test_segments_by_hand():
    x = jtorch.tensor([1.0, 5.0, 3.0, 2.0])
    found = {k: jtorch.segment_reduce(x, k, lengths=jtorch.tensor([3, 0, 1])).tolist() for k in KINDS}
    assert found["sum"] == [9.0, 0.0, 2.0]
    assert (found["mean"][0], found["mean"][2]) == (3.0, 2.0)
    assert np.isnan(found["mean"][1])
    assert found["max"] == [5.0, -np.inf, 2.0]
    assert found["min"] == [1.0, np.inf, 2.0]
    assert found["prod"] == [15.0, 1.0, 2.0]


def test_segments_that_do_not_fit():
    x = jtorch.ones(4)
    with pytest.raises(RuntimeError, match="Either lengths or offsets"):
        jtorch.segment_reduce(x, "sum")
    with pytest.raises(RuntimeError, match="negative"):
        jtorch.segment_reduce(x, "sum", lengths=jtorch.tensor([5, -1]))
    with pytest.raises(RuntimeError, match="to sum to"):
        jtorch.segment_reduce(x, "sum", lengths=jtorch.tensor([2, 1]))
    with pytest.raises(RuntimeError, match="begin with 0"):
        jtorch.segment_reduce(x, "sum", offsets=jtorch.tensor([1, 4]))
    with pytest.raises(RuntimeError, match="Unsupported reduction 'median'"):
        jtorch.segment_reduce(x, "median", lengths=jtorch.tensor([4]))
    with pytest.raises(NotImplementedError, match="indices"):
        jtorch.segment_reduce(x, "sum", indices=jtorch.tensor([4]))


HASHED = {
    "floats": RNG.standard_normal((3, 5)).astype(np.float32),
    "doubles": RNG.standard_normal((3, 4)),
    "integers": np.arange(12).reshape(3, 4) - 5,
    "bytes": np.arange(6, dtype=np.uint8).reshape(2, 3),
    "bools": RNG.standard_normal((3, 3)) > 0,
}
DIMS = [{}, {"dim": 0}, {"dim": -1, "keepdim": True}, {"dim": (0, 1)}, {"dim": (1,)}]


@needs_torch
@each("case, options", [(c, o) for c in HASHED for o in DIMS])
def test_hashes_equal_pytorch_s(case, options):
    ours, theirs = (L.hash_tensor(L.tensor(HASHED[case]), **options) for L in (jtorch, torch))
    assert (ours.dtype, tuple(ours.shape)) == (jtorch.uint64, tuple(theirs.shape))
    assert (ours.numpy() == theirs.numpy()).all()


def test_hashes_by_hand():
    x = jtorch.tensor([[1, 2, 4], [1, 8, -1]])
    assert jtorch.hash_tensor(x, 0).tolist() == [0, 10, 2**64 - 5]
    assert jtorch.hash_tensor(jtorch.tensor(1.5)).item() == int(np.float64(1.5).view(np.uint64))
    assert jtorch.hash_tensor(jtorch.zeros(0, 2), 0).tolist() == [0, 0]


def test_hashes_are_refused_in_compiled_code():
    with pytest.raises(CompileError, match=r"test_segments.py:\d+ in .*view\(dtype\)"):
        jtorch.compile(lambda x: jtorch.hash_tensor(x, 1), fullgraph=True)(jtorch.ones(2, 2))


def test_what_is_not_hashed():
    with pytest.raises(RuntimeError, match="Unknown HashMode"):
        jtorch.hash_tensor(jtorch.ones(2), mode=1)
    with pytest.raises(RuntimeError, match="reduction dim to be specified"):
        jtorch.hash_tensor(jtorch.ones(0))
    with pytest.raises(RuntimeError, match="complex64 is not there"):
        jtorch.hash_tensor(jtorch.ones(2, dtype=jtorch.complex64))
