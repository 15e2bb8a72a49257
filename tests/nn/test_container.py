"""Sequential, ModuleList, ModuleDict and ParameterList."""

from __future__ import annotations

from collections import OrderedDict

import pytest

import jtorch
from jtorch import nn


def layers(lib):
    return [lib.nn.Linear(2, 3), lib.nn.ReLU(), lib.nn.Linear(3, 1)]


def test_reprs_equal_pytorch(torch):
    def build(lib):
        n = lib.nn
        return [
            n.Sequential(),
            n.Sequential(*layers(lib)),
            n.Sequential(OrderedDict(a=n.ReLU(), b=n.Sequential(n.Tanh()))),
            n.ModuleList(),
            n.ModuleList([n.Linear(1, 1) for _ in range(3)]),
            n.ModuleList([n.ReLU(), n.ReLU(), n.Sequential(n.Tanh()), n.ReLU()]),
            n.ModuleDict({"one": n.Linear(1, 2), "two": n.Tanh()}),
            n.ParameterList([n.Parameter(lib.ones(2, 3))]),
        ]

    for ours, theirs in zip(build(jtorch), build(torch), strict=True):
        ours_text = repr(ours).replace("jtorch.", "torch.")
        assert ours_text == repr(theirs)


def test_sequential_runs_in_order_and_indexes():
    model = nn.Sequential(*layers(jtorch))
    x = jtorch.ones(4, 2)
    assert model(x).tolist() == model[2](model[1](model[0](x))).tolist()
    assert model[-1] is model[2]
    assert len(model[:2]) == 2 and model[:2][0] is model[0]
    with pytest.raises(IndexError, match="index 3 is out of range"):
        model[3]


def test_list_changes_keep_the_numbers_dense():
    model = nn.Sequential(*layers(jtorch))
    first, second, third = model
    del model[1]
    assert list(model) == [first, third]
    assert [n for n, _ in model.named_children()] == ["0", "1"]
    model.insert(1, second)
    model.append(nn.Tanh())
    assert list(model)[:3] == [first, second, third]
    model[0] = second
    assert model[0] is second


def test_module_list():
    items = nn.ModuleList(layers(jtorch))
    assert isinstance(items[1:], nn.ModuleList)
    assert len(items + [nn.Tanh()]) == 4
    popped = items.pop(-1)
    assert isinstance(popped, nn.Linear) and len(items) == 2
    assert sum(p.numel() for p in items.parameters()) == 9


def test_module_dict():
    items = nn.ModuleDict({"a": nn.ReLU()})
    items["b"] = nn.Linear(2, 2)
    assert list(items) == ["a", "b"] and "a" in items and len(items) == 2
    assert list(items.state_dict()) == ["b.weight", "b.bias"]
    assert items.pop("a").__class__ is nn.ReLU
    assert list(items.keys()) == ["b"]


def test_parameter_list():
    items = nn.ParameterList([nn.Parameter(jtorch.ones(2)), jtorch.zeros(3)])
    assert [p.requires_grad for p in items.parameters()] == [True, True]
    items.append(nn.Parameter(jtorch.ones(1)))
    assert list(items.state_dict()) == ["0", "1", "2"]
    assert items[-1].shape == (1,)
    assert len(items[1:]) == 2


def test_a_module_that_appears_twice_counts_once(torch):
    def build(lib):
        shared = lib.nn.Linear(2, 2)
        return lib.nn.Sequential(shared, lib.nn.ReLU(), shared)

    ours, theirs = build(jtorch), build(torch)
    assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert len(list(ours.modules())) == len(list(theirs.modules())) == 3


def test_tensors_in_parameter_containers_are_trained():
    """As PyTorch: whatever a tensor was, the parameter that is made of it requires grad."""
    items = nn.ParameterList([jtorch.ones(2)])
    items.append(jtorch.ones(2))
    items[0] = jtorch.ones(3)
    named = nn.ParameterDict({"a": jtorch.ones(2)})
    named["b"] = jtorch.ones(2)
    named.update({"c": jtorch.ones(2)})
    assert [p.requires_grad for p in (*items, *named.values())] == [True] * 5
