"""Packing and padding: round trips, PyTorch's layouts, gradients, errors."""

from __future__ import annotations

import numpy as np
import pytest

import jtorch
from jtorch.nn.utils import rnn
from tests.nn.twins import draw, same

LENGTHS = [[4, 2, 1], [2, 4, 1], [3, 3, 3], [1, 1, 2]]


def sides(torch):
    return ((jtorch, rnn), (torch, torch.nn.utils.rnn))


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("tail", [(), (2,), (2, 3)])
def test_packing_equals_pytorch(torch, lengths, batch_first, tail):
    x = draw(*((3, 4) if batch_first else (4, 3)), *tail)
    found = []
    for lib, utils in sides(torch):
        leaf = lib.tensor(x, requires_grad=True)
        packed = utils.pack_padded_sequence(leaf, lib.tensor(lengths), batch_first, enforce_sorted=False)
        padded, back = utils.pad_packed_sequence(packed, batch_first, padding_value=7.0)
        (padded * padded).sum().backward()
        assert back.tolist() == lengths
        found.append((tuple(packed), padded, leaf.grad))
    same(found[0], found[1])
    assert [t.dtype for t in found[0][0][1:]] == [jtorch.int64] * 3


def test_sorted_sequences_have_no_indices():
    packed = rnn.pack_padded_sequence(jtorch.arange(6).reshape(3, 2), [3, 1])
    assert packed.data.tolist() == [0, 1, 2, 4]
    assert packed.batch_sizes.tolist() == [2, 1, 1]
    assert packed.sorted_indices is None
    assert packed.unsorted_indices is None
    assert repr(packed) == (
        "PackedSequence(data=tensor([0, 1, 2, 4]), batch_sizes=tensor([2, 1, 1]), sorted_indices=None, "
        "unsorted_indices=None)"
    )


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_pad_sequence_equals_pytorch(torch, side, batch_first):
    arrays = [draw(n, 2) for n in (2, 4, 0, 1)]
    found = []
    for lib, utils in sides(torch):
        leaves = [lib.tensor(a, requires_grad=True) for a in arrays]
        padded = utils.pad_sequence(leaves, batch_first, -2.0, side)
        (padded * padded).sum().backward()
        found.append((padded, [t.grad for t in leaves]))
    same(found[0], found[1])


def test_round_trips():
    sequences = [jtorch.tensor(draw(n, 2)) for n in (2, 4, 1)]
    packed = rnn.pack_sequence(sequences, enforce_sorted=False)
    for unpacked in (
        rnn.unpack_sequence(packed),
        rnn.unpad_sequence(rnn.pad_sequence(sequences), jtorch.tensor([2, 4, 1])),
        rnn.unpad_sequence(rnn.pad_sequence(sequences, True), [2, 4, 1], batch_first=True),
    ):
        for a, b in zip(unpacked, sequences, strict=True):
            np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_casts_of_a_packed_sequence():
    packed = rnn.pack_sequence([jtorch.ones(2), jtorch.ones(1)])
    assert packed.to(jtorch.float32) is packed
    assert packed.double().data.dtype is jtorch.float64
    assert packed.double().batch_sizes is packed.batch_sizes
    assert packed.long().data.dtype is jtorch.int64
    assert not packed.is_cuda
    with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
        packed.pin_memory()


def test_invert_permutation():
    assert rnn.invert_permutation(None) is None
    assert rnn.invert_permutation(jtorch.tensor([2, 0, 1])).tolist() == [1, 2, 0]


BAD_CALLS = [
    (lambda r, z: r.pack_padded_sequence(z(4, 3), [2, 4, 1]), "must be sorted in decreasing order"),
    (lambda r, z: r.pack_padded_sequence(z(4, 3), [2, 1, 0]), "has to be greater than 0"),
    (lambda r, z: r.pack_padded_sequence(z(4, 3), [2, 1]), r"but got 2 \(batch_size=3\)"),
    (lambda r, z: r.pack_padded_sequence(z(4, 3), [[2, 1, 1]]), "be a 1D CPU int64 tensor, but got 2D"),
    (lambda r, z: r.pack_padded_sequence(z(0, 3), [2, 1, 1]), "Cannot pack empty tensors"),
    (lambda r, z: r.pad_sequence([]), "received an empty list of sequences"),
    (lambda r, z: r.pad_sequence(3), "for input sequences, but got arg of type: <class 'int'"),
    (lambda r, z: r.pad_sequence([z(2)], padding_side="up"), "left or right, but got up"),
    (
        lambda r, z: r.pad_packed_sequence(r.pack_padded_sequence(z(4, 1), [3]), total_length=2),
        "got total_length=2 and max sequence length being 3",
    ),
]


@pytest.mark.parametrize(("call", "text"), BAD_CALLS)
def test_errors(call, text):
    with pytest.raises((RuntimeError, ValueError), match=text):
        call(rnn, jtorch.zeros)


@pytest.mark.parametrize(("call", "text"), BAD_CALLS)
def test_errors_are_pytorchs(torch, call, text):
    with pytest.raises((RuntimeError, ValueError), match=text):
        call(torch.nn.utils.rnn, torch.zeros)


def test_lengths_beyond_the_input_are_an_error():
    with pytest.raises(RuntimeError, match="lengths of at most 4"):
        rnn.pack_padded_sequence(jtorch.zeros(4, 2), [5, 1])
