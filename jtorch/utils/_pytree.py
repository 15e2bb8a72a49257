"""Trees of containers, as PyTorch keeps them in ``torch.utils._pytree``: what libraries take from there.

Tuples, named tuples, lists, dicts, ordered ones and deques are nodes, all else is a leaf, None too. A dict's
leaves follow its order. Classes of one's own become nodes by ``register_pytree_node``.
Source: https://github.com/pytorch/pytorch/blob/main/torch/utils/_pytree.py
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

__all__ = [
    "LeafSpec", "TreeSpec", "register_pytree_node", "tree_all", "tree_any", "tree_flatten", "tree_iter",
    "tree_leaves", "tree_map", "tree_map_", "tree_map_only", "tree_structure", "tree_unflatten",
]  # fmt: skip

IsLeaf = Callable[[Any], bool] | None


class _Node(NamedTuple):
    """``open`` gives (children, context) of a node, ``close`` makes one of these."""

    open: Callable[[Any], tuple[Iterable[Any], Any]]
    close: Callable[[list[Any], Any], Any]


@dataclass(frozen=True)
class TreeSpec:
    """The form of a tree: the class of its root, what is not among the children, and their forms."""

    type: Any
    context: Any
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        return sum(child.num_leaves for child in self.children_specs)

    @property
    def num_nodes(self) -> int:
        return 1 + sum(child.num_nodes for child in self.children_specs)

    @property
    def num_children(self) -> int:
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        return False


class LeafSpec(TreeSpec):
    """That of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None)

    @property
    def num_leaves(self) -> int:
        return 1

    def is_leaf(self) -> bool:
        return True


def _entries(tree: dict) -> tuple[Iterable[Any], Any]:
    return tree.values(), list(tree)


_NODES: dict[Any, _Node] = {
    tuple: _Node(lambda t: (t, None), lambda found, _: tuple(found)),
    list: _Node(lambda t: (t, None), lambda found, _: list(found)),
    dict: _Node(_entries, lambda found, keys: dict(zip(keys, found, strict=True))),
    OrderedDict: _Node(_entries, lambda found, keys: OrderedDict(zip(keys, found, strict=True))),
    defaultdict: _Node(
        lambda t: (t.values(), (t.default_factory, list(t))),
        lambda found, context: defaultdict(context[0], zip(context[1], found, strict=True)),
    ),
    deque: _Node(lambda t: (t, t.maxlen), lambda found, most: deque(found, maxlen=most)),
}
_NAMED = _Node(lambda t: (t, type(t)), lambda found, cls: cls(*found))


def register_pytree_node(
    cls: type, flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Iterable[Any], Any], Any], **options: Any,
) -> None:  # fmt: skip
    """Have instances of ``cls`` be nodes: ``flatten_fn(x)`` gives (children, context), of which
    ``unflatten_fn(children, context)`` makes one again. Further options say how to write one down."""
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _NODES[cls] = _Node(flatten_fn, unflatten_fn)


def _node_of(tree: Any, is_leaf: IsLeaf) -> tuple[Any, _Node] | None:
    """(the kind, how to open it) of a node; None of a leaf."""
    if is_leaf is not None and is_leaf(tree):
        return None
    cls = type(tree)
    if cls in _NODES:
        return cls, _NODES[cls]
    named = isinstance(tree, tuple) and cls.__bases__ == (tuple,) and hasattr(cls, "_fields")
    return (NamedTuple, _NAMED) if named else None


def tree_flatten(tree: Any, is_leaf: IsLeaf = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, form); what ``is_leaf`` says True of is one.

    >>> from jtorch.utils._pytree import tree_flatten, tree_unflatten
    >>> leaves, spec = tree_flatten({"a": [1, 2], "b": (3,)})
    >>> leaves
    [1, 2, 3]
    >>> tree_unflatten([4, 5, 6], spec)
    {'a': [4, 5], 'b': (6,)}
    """
    leaves: list[Any] = []
    return leaves, _flattened(tree, leaves, is_leaf)


def _flattened(tree: Any, leaves: list[Any], is_leaf: IsLeaf) -> TreeSpec:
    found = _node_of(tree, is_leaf)
    if found is None:
        leaves.append(tree)
        return LeafSpec()
    kind, node = found
    children, context = node.open(tree)
    return TreeSpec(kind, context, [_flattened(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of this form with these leaves. Raises ValueError where there are more or fewer."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"Expected `treespec` to be an instance of TreeSpec but got {type(treespec)}.")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten(leaves, treespec): `leaves` has length {len(leaves)} but the spec refers to a "
            f"pytree that holds {treespec.num_leaves} items ({treespec})."
        )
    return _unflattened(iter(leaves), treespec)


def _unflattened(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(leaves)
    node = _NAMED if spec.type is NamedTuple else _NODES[spec.type]
    return node.close([_unflattened(leaves, child) for child in spec.children_specs], spec.context)


def tree_iter(tree: Any, is_leaf: IsLeaf = None) -> Iterator[Any]:
    """The leaves, one after the other."""
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: Any, is_leaf: IsLeaf = None) -> list[Any]:
    """The leaves."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: IsLeaf = None) -> TreeSpec:
    """The form."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable, tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """A tree of the same form, of what ``func`` gives for each leaf, and those of ``rests`` in its place.

    >>> from jtorch.utils._pytree import tree_map
    >>> tree_map(lambda x, y: x + y, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [_leaves_like(rest, spec) for rest in rests]
    return tree_unflatten(map(func, leaves, *others), spec)


def _leaves_like(tree: Any, spec: TreeSpec) -> list[Any]:
    """The parts of ``tree`` where one of this form has its leaves."""
    if spec.is_leaf():
        return [tree]
    found = _node_of(tree, None)
    kind, node = found if found is not None else (None, None)
    if node is None or kind is not spec.type:
        raise ValueError(f"Node type mismatch; expected {spec.type!r}, but got {type(tree)!r}.")
    children = list(node.open(tree)[0])
    if len(children) != spec.num_children:
        raise ValueError(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}.")
    if isinstance(tree, dict):  # in the order of the other one
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if tree.keys() != set(keys):
            missing = sorted(map(str, set(keys) - tree.keys()))
            raise ValueError(f"Node keys mismatch; missing key(s): {missing}.")
        children = [tree[key] for key in keys]
    pairs = zip(children, spec.children_specs, strict=True)
    return [leaf for child, form in pairs for leaf in _leaves_like(child, form)]


def tree_map_(func: Callable, tree: Any, *rests: Any, is_leaf: IsLeaf = None) -> Any:
    """``tree`` itself, after ``func`` was called for each leaf."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_map_only(type_or_types_or_pred: Any, func: Callable, tree: Any, is_leaf: IsLeaf = None) -> Any:
    """``tree_map`` of the leaves of a class, of several, or of those that a function says True of; the others
    stay."""
    chosen = type_or_types_or_pred
    by_class = isinstance(chosen, (type, tuple))

    def mapped(leaf: Any) -> Any:
        return func(leaf) if (isinstance(leaf, chosen) if by_class else chosen(leaf)) else leaf

    return tree_map(mapped, tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` is true of all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: IsLeaf = None) -> bool:
    """Whether ``pred`` is true of any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))
