"""What users hang on tensors and parameters."""

from __future__ import annotations

import copy
import pickle

import pytest

import jtorch
from jtorch.core.errors import CompileError


def test_tensors_and_parameters_take_attributes() -> None:
    weight = jtorch.nn.Linear(2, 2).weight
    weight.tag = 1
    x = jtorch.ones(2)
    x.tag = {"a": [1]}
    assert weight.tag == 1 and x.tag == {"a": [1]} and vars(x) == {"tag": {"a": [1]}}
    assert not hasattr(x + 1, "tag") and not hasattr(x.view(-1), "tag")
    del x.tag
    assert not hasattr(x, "tag")


def test_copies_of_tensors_have_their_attributes() -> None:
    x = jtorch.ones(2)
    x.tag = {"a": [1]}
    assert copy.copy(x).tag is x.tag
    deep = copy.deepcopy(x)
    assert deep.tag == x.tag and deep.tag is not x.tag
    assert pickle.loads(pickle.dumps(x)).tag == x.tag


def test_a_compiled_function_sees_the_attribute_of_a_captured_tensor() -> None:
    p = jtorch.nn.Parameter(jtorch.ones(1))
    p.tag = 2
    f = jtorch.compile(lambda x: x * p.tag * getattr(p, "other", 1))
    assert f(jtorch.ones(1)).item() == 2
    p.tag = 5
    assert f(jtorch.ones(1)).item() == 5
    p.other = 3
    assert f(jtorch.ones(1)).item() == 15


def test_a_compiled_function_sees_the_attribute_of_its_argument() -> None:
    f = jtorch.compile(lambda x: x * getattr(x, "tag", 1) * (2 if hasattr(x, "mark") else 3))
    a, b = jtorch.ones(1), jtorch.ones(1)
    assert f(a).item() == 3
    a.tag, b.mark = 2.0, True
    assert (f(a).item(), f(b).item()) == (6, 2)
    a.tag = 7.0
    assert f(a).item() == 21


def test_a_compiled_function_counts_on_a_captured_tensor() -> None:
    p = jtorch.nn.Parameter(jtorch.ones(1))
    p.count = 0

    def step(x: jtorch.Tensor) -> jtorch.Tensor:
        p.count += 1
        return x * 1

    f = jtorch.compile(step)
    for _ in range(3):
        f(jtorch.ones(1))
    assert p.count == 3


def test_a_compiled_function_refuses_to_hang_anything_on_its_arguments() -> None:
    def f(x: jtorch.Tensor) -> jtorch.Tensor:
        x.tag = 3
        return x * 1

    with pytest.raises(CompileError, match="hangs 'tag' on a tensor that it is given"):
        jtorch.compile(f)(jtorch.ones(1))
