"""Names of arguments that PyTorch's functions take, beside the usual ones."""

from __future__ import annotations

import pytest

import jtorch

T = jtorch.arange(4.0)


def test_flip_takes_dims_by_name() -> None:
    assert T.flip(dims=[0]).tolist() == jtorch.flip(T, dims=(0,)).tolist() == [3, 2, 1, 0]
    assert T.reshape(2, 2).flip(0, 1).tolist() == [[3, 2], [1, 0]]


def test_splits_take_indices_or_sections_by_name() -> None:
    for split in (jtorch.tensor_split, jtorch.hsplit):
        assert [t.tolist() for t in split(T, indices=[1])] == [[0], [1, 2, 3]]
        assert [t.tolist() for t in split(input=T, sections=2)] == [[0, 1], [2, 3]]
    assert [t.tolist() for t in T.reshape(2, 2).vsplit(sections=2)] == [[[0, 1]], [[2, 3]]]
    with pytest.raises(TypeError):
        jtorch.tensor_split(T)


def test_functions_in_place_take_their_input_by_name() -> None:
    for f in (jtorch.relu_, jtorch.nn.functional.relu_):
        x = jtorch.tensor([-1.0, 2.0])
        assert f(input=x) is x and x.tolist() == [0, 2]


@pytest.mark.parametrize("name", ["float", "double", "half", "int", "long", "bool", "bfloat16"])
def test_casts_take_a_memory_format(name: str) -> None:
    cast = getattr(T, name)
    assert cast(memory_format=jtorch.preserve_format).dtype is cast().dtype


def test_a_histogram_has_a_hundred_bins() -> None:
    assert jtorch.histogram(T).hist.shape == (100,)


def test_modules_take_backward_hooks_under_their_older_name() -> None:
    layer, seen = jtorch.nn.Linear(2, 1), []
    handle = layer.register_backward_hook(lambda module, inputs, outputs: seen.append(outputs[0].tolist()))
    layer(jtorch.ones(1, 2, requires_grad=True)).sum().backward()
    handle.remove()
    layer(jtorch.ones(1, 2)).sum().backward()
    assert seen == [[[1.0]]]
