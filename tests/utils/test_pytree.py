"""``torch.utils._pytree`` against PyTorch's: leaves, forms, and trees made of them again."""

from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import jtorch
from jtorch.utils import _pytree as ours
from tests.each import each
from tests.ops.support import HAS_TORCH, needs_torch

if HAS_TORCH:
    from torch.utils import _pytree as theirs

Point = namedtuple("Point", "x y")
TREES = {
    "leaf": 1,
    "none": None,
    "tuple": (1, (2, 3), ()),
    "list": [1, [2, [3]], []],
    "dict": {"b": 1, "a": [2, {"c": 3}]},
    "ordered": OrderedDict([("z", 1), ("a", (2,))]),
    "default": defaultdict(list, {"a": [1], "b": [2, 3]}),
    "named": Point(1, [2, Point(3, None)]),
    "deque": deque([1, 2], maxlen=3),
    "text": ["ab", {1, 2}],
}


@needs_torch
@each("name", TREES)
def test_equals_pytorchs(name):
    tree = TREES[name]
    (leaves, spec), (their_leaves, their_spec) = ours.tree_flatten(tree), theirs.tree_flatten(tree)
    assert leaves == their_leaves == ours.tree_leaves(tree) == list(ours.tree_iter(tree))
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()) == (
        their_spec.num_leaves, their_spec.num_nodes, their_spec.num_children, their_spec.is_leaf()
    )  # fmt: skip
    back = ours.tree_unflatten(leaves, spec)
    assert back == theirs.tree_unflatten(their_leaves, their_spec) == tree and type(back) is type(tree)


@each("name", TREES)
def test_a_tree_comes_back(name):
    tree = TREES[name]
    leaves, spec = ours.tree_flatten(tree)
    back = ours.tree_unflatten(leaves, spec)
    assert back == tree and type(back) is type(tree)
    assert spec == ours.tree_structure(back)
    assert ours.tree_map(lambda leaf: leaf, tree) == tree


def test_maps():
    tree = {"a": [1, 2.0], "b": Point(3, "x")}
    assert ours.tree_map(lambda x, y: (x, y), tree, {"b": Point(7, 8), "a": [5, 6]}) == {
        "a": [(1, 5), (2.0, 6)], "b": Point((3, 7), ("x", 8)),
    }  # fmt: skip
    assert ours.tree_map_only(int, lambda x: -x, tree) == {"a": [-1, 2.0], "b": Point(-3, "x")}
    assert ours.tree_map_only((int, float), str, tree)["a"] == ["1", "2.0"]
    assert ours.tree_map_only(lambda x: x == "x", str.upper, tree)["b"].y == "X"
    assert ours.tree_map(len, [[1, 2], [3]], is_leaf=lambda x: x in ([1, 2], [3])) == [2, 1]
    seen = []
    assert ours.tree_map_(seen.append, tree) is tree and seen == [1, 2.0, 3, "x"]
    assert ours.tree_any(lambda x: x == 3, tree) and not ours.tree_all(lambda x: x == 3, tree)


def test_other_forms_are_refused():
    _, spec = ours.tree_flatten([1, (2, 3)])
    for leaves in ([1], [1, 2, 3, 4]):
        with pytest.raises(ValueError, match="refers to a pytree that holds 3 items"):
            ours.tree_unflatten(leaves, spec)
    for other in ((1, (2, 3)), [1], [1, [2, 3]], [1, 2]):
        with pytest.raises(ValueError, match="mismatch"):
            ours.tree_map(max, [1, (2, 3)], other)
    with pytest.raises(ValueError, match="missing key"):
        ours.tree_map(max, {"a": 1}, {"b": 1})
    with pytest.raises(TypeError, match="TreeSpec"):
        ours.tree_unflatten([1], "a form")


def test_classes_of_ones_own():
    class Box:
        def __init__(self, *parts):
            self.parts = parts

    ours.register_pytree_node(Box, lambda box: (box.parts, "label"), lambda parts, label: Box(*parts, label))
    assert ours.tree_leaves([Box(1, [2]), 3]) == [1, 2, 3]
    assert ours.tree_map(str, Box(1, 2)).parts == ("1", "2", "label")
    with pytest.raises(ValueError, match="already registered"):
        ours.register_pytree_node(Box, None, None)


def test_a_compiled_function_may_use_them():
    def step(tree):
        return ours.tree_map(lambda x: x * 2, tree)

    tree = {"a": jtorch.ones(2), "b": [jtorch.zeros(1)]}
    found = jtorch.compile(step, fullgraph=True)(tree)
    assert found["a"].tolist() == [2.0, 2.0] and found["b"][0].tolist() == [0.0]


def test_marks_that_say_nothing_here():
    assert jtorch.compiler.allow_in_graph([len, max]) == [len, max]
    with pytest.raises(TypeError, match="callable"):
        jtorch.compiler.allow_in_graph(3)
