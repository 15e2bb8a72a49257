"""Sums of products in index notation.

Every operand is reduced to the labels that matter (diagonals of repeated ones, sums of lonely ones); then
pairs are contracted, the pair with the smallest result first, each as one batched matrix product.

Source: https://docs.pytorch.org/docs/stable/generated/torch.einsum.html
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core.op import BY_NAME
from jtorch.eager.autocasting import autocasts
from jtorch.eager.binding import APPLY, public_function
from jtorch.eager.tensor import Tensor

_mm = public_function(BY_NAME["mm"])
_bmm = public_function(BY_NAME["bmm"])
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DOTS = "..."
Label = Any  # a letter, or ("...", k) for the k-th dim from the end that an ellipsis stands for
Part = tuple[Tensor, tuple[Label, ...]]


@autocasts(cuda="lower")
def einsum(*args: Any) -> Tensor:
    """``einsum("ij,jk->ik", x, y)``, or with lists of dims: ``einsum(x, [0, 1], y, [1, 2], [0, 2])``."""
    if not args:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand "
            "and its subscripts list"
        )
    if isinstance(args[0], Tensor):
        inputs, output, operands = _of_sublists(args)
    else:
        operands = args[1:]
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        inputs, output = _parsed(args[0])
    if not operands:
        raise RuntimeError("einsum(): must provide at least one operand")
    if len(inputs) != len(operands):
        few = "fewer" if len(operands) < len(inputs) else "more"
        raise RuntimeError(f"einsum(): {few} operands were provided than specified in the equation")
    labelled = [_labels(term, t.ndim, k) for k, (term, t) in enumerate(zip(inputs, operands, strict=True))]
    wanted = _output_labels(output, labelled)
    parts = [_diagonals(t, labels, k) for k, (t, labels) in enumerate(zip(operands, labelled, strict=True))]
    _check_sizes(parts)
    out = _contract(parts, wanted)
    return out.permute(range(out.ndim)) if any(out is t for t in operands) else out


# -- notation --------------------------------------------------------------------------------------


def _parsed(equation: str) -> tuple[list[list[str]], list[str] | None]:
    """The terms of an equation, each a list of letters and at most one "..."."""
    left, arrow, right = equation.partition("->")
    terms, at = [], 0
    for k, text in enumerate(left.split(",")):
        terms.append(_term(text, at, f"operand {k}"))
        at += len(text) + 1
    return terms, _term(right, len(left) + 2, "the output") if arrow else None


def _term(text: str, start: int, owner: str) -> list[str]:
    found: list[str] = []
    k = 0
    while k < len(text):
        letter = text[k]
        if letter == " ":
            k += 1
        elif letter == ".":
            if _DOTS in found:
                raise RuntimeError(f"einsum(): found '.' for {owner} for which an ellipsis was already found")
            if text[k : k + 3] != _DOTS:
                raise RuntimeError(f"einsum(): found '.' for {owner} that is not part of any ellipsis")
            found.append(_DOTS)
            k += 3
        elif letter in _LETTERS:
            found.append(letter)
            k += 1
        else:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + k} in the equation string, subscripts "
                "must be in [a-zA-Z]"
            )
    return found


def _of_sublists(args: tuple) -> tuple[list[list[str]], list[str] | None, tuple]:
    def term(sublist: Sequence[Any]) -> list[str]:
        for s in sublist:
            if s is not Ellipsis and not 0 <= s < 52:
                raise ValueError(f"einsum(): subscript {s} is not within the valid range [0, 52)")
        return [_DOTS if s is Ellipsis else (_LETTERS[26:] + _LETTERS[:26])[s] for s in sublist]

    output = term(args[-1]) if len(args) % 2 else None
    pairs = args[: len(args) - len(args) % 2]
    return [term(s) for s in pairs[1::2]], output, pairs[::2]


def _labels(term: list[str], ndim: int, k: int) -> tuple[Label, ...]:
    """One label per dim of operand ``k``: what an ellipsis stands for is counted from the end."""
    letters = len(term) - (_DOTS in term)
    if _DOTS not in term and letters != ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({letters}) does not match the number of "
            f"dimensions ({ndim}) for operand {k} and no ellipsis was given"
        )
    if letters > ndim:
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({letters}) is more than the number of "
            f"dimensions ({ndim}) for operand {k}"
        )
    return _spelled_out(term, ndim - letters)


def _spelled_out(term: list[str], width: int) -> tuple[Label, ...]:
    found: list[Label] = []
    for s in term:
        found += [(_DOTS, width - 1 - j) for j in range(width)] if s == _DOTS else [s]
    return tuple(found)


def _output_labels(output: list[str] | None, labelled: list[tuple[Label, ...]]) -> tuple[Label, ...]:
    used = [s for labels in labelled for s in labels]
    width = max((s[1] + 1 for s in used if s.__class__ is tuple), default=0)
    if output is None:  # the ellipsis first, then letters that appear once, in order
        once = sorted({s for s in used if s.__class__ is not tuple and used.count(s) == 1})
        return (*_spelled_out([_DOTS], width), *sorted(once, key=(_LETTERS[26:] + _LETTERS[:26]).index))
    for s in output:
        if s == _DOTS:
            continue
        if output.count(s) > 1:
            raise RuntimeError(f"einsum(): output subscript {s} appears more than once in the output")
        if s not in used:
            raise RuntimeError(
                f"einsum(): output subscript {s} does not appear in the equation for any input operand"
            )
    return _spelled_out(output, width)


def _diagonals(t: Tensor, labels: tuple[Label, ...], k: int) -> Part:
    """The operand with the diagonal of every repeated label."""
    for s in dict.fromkeys(labels):
        while labels.count(s) > 1:
            i = labels.index(s)
            j = labels.index(s, i + 1)
            if t.shape[i] != t.shape[j]:
                raise RuntimeError(
                    f"einsum(): subscript {s} is repeated for operand {k} but the sizes don't match, "
                    f"{t.shape[j]} != {t.shape[i]}"
                )
            t = t.diagonal(0, i, j)
            labels = (*(x for m, x in enumerate(labels) if m not in (i, j)), s)
    return t, labels


def _check_sizes(parts: list[Part]) -> None:
    sizes: dict[Label, int] = {}
    for k, (t, labels) in enumerate(parts):
        for s, n in zip(labels, t.shape, strict=True):
            seen = sizes.get(s, 1)
            if n != seen and 1 not in (n, seen):
                name = s if s.__class__ is str else _DOTS
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {n} for operand {k} which does not broadcast with "
                    f"previously seen size {seen}"
                )
            sizes[s] = max(seen, n) if 0 not in (seen, n) else 0


# -- contraction -----------------------------------------------------------------------------------


def _contract(parts: list[Part], wanted: tuple[Label, ...]) -> Tensor:
    parts = [_summed(p, {*wanted, *_others(parts, k)}) for k, p in enumerate(parts)]
    while len(parts) > 1:
        i, j = _cheapest(parts, wanted)
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        keep = {*wanted, *(s for _, labels in rest for s in labels)}
        parts = [*rest, _pair(parts[i], parts[j], keep)]
    t, labels = parts[0]
    for s in wanted:  # an ellipsis in the output that no operand has
        if s not in labels:
            t, labels = t.unsqueeze(0), (s, *labels)
    order = [labels.index(s) for s in wanted]
    return t if order == list(range(t.ndim)) else t.permute(order)


def _others(parts: list[Part], k: int) -> set[Label]:
    return {s for m, (_, labels) in enumerate(parts) if m != k for s in labels}


def _summed(part: Part, keep: set[Label]) -> Part:
    """Without the dims whose labels nobody else has."""
    t, labels = part
    gone = [k for k, s in enumerate(labels) if s not in keep]
    if not gone:
        return part
    summed = t.sum(gone)
    return summed.to(t.dtype), tuple(s for s in labels if s in keep)


def _cheapest(parts: list[Part], wanted: tuple[Label, ...]) -> tuple[int, int]:
    """The pair whose contraction has the fewest elements; the first one among equals."""
    if len(parts) == 2:
        return 0, 1
    best: tuple[int, int, int] | None = None
    for j in range(len(parts)):
        for i in range(j):
            keep = {*wanted, *(s for k, (_, ls) in enumerate(parts) if k not in (i, j) for s in ls)}
            sizes: dict[Label, int] = {}
            for t, labels in (parts[i], parts[j]):
                for s, n in zip(labels, t.shape, strict=True):
                    sizes[s] = max(n, sizes.get(s, 1))
            cost = math.prod(n for s, n in sizes.items() if s in keep)
            if best is None or cost < best[0]:
                best = (cost, i, j)
    assert best is not None
    return best[1], best[2]


def _pair(x: Part, y: Part, keep: set[Label]) -> Part:
    """Two operands as one: labels of both that nobody needs later are summed in a matrix product."""
    (a, a_labels), (b, b_labels) = x, y
    a_size, b_size = (dict(zip(labels, t.shape, strict=True)) for t, labels in (x, y))
    shared = [s for s in a_labels if s in b_size]
    for s in shared:  # a dim of size 1 broadcasts: sum over the other's alone
        if s not in keep and a_size[s] != b_size[s]:
            if a_size[s] != 1:
                a = a.sum(a_labels.index(s), keepdim=True)
            else:
                b = b.sum(b_labels.index(s), keepdim=True)
            a_size[s] = b_size[s] = 1
    batch = [s for s in shared if s in keep]
    inside = [s for s in shared if s not in keep]
    only_a = [s for s in a_labels if s not in b_size]
    only_b = [s for s in b_labels if s not in a_size]
    labels = (*batch, *only_a, *only_b)
    if not inside:
        return _broadcast_product(x, y, labels), labels
    lead = [b_size[s] if a_size[s] == 1 else a_size[s] for s in batch]
    rows, columns = [a_size[s] for s in only_a], [b_size[s] for s in only_b]
    depth = math.prod(a_size[s] for s in inside)
    left = _ordered(a, a_labels, [*batch, *only_a, *inside])
    right = _ordered(b, b_labels, [*batch, *inside, *only_b])
    if not batch:
        out = _mm(left.reshape(math.prod(rows), depth), right.reshape(depth, math.prod(columns)))
        return out.reshape(*rows, *columns), labels
    left = left.expand(*lead, *left.shape[len(batch) :])
    right = right.expand(*lead, *right.shape[len(batch) :])
    count = math.prod(lead)
    out = _bmm(left.reshape(count, math.prod(rows), depth), right.reshape(count, depth, math.prod(columns)))
    return out.reshape(*lead, *rows, *columns), labels


def _broadcast_product(x: Part, y: Part, labels: tuple[Label, ...]) -> Tensor:
    """Where nothing is summed: each operand with dims of size 1 for the labels it lacks."""
    wide = []
    for t, own in (x, y):
        t = _ordered(t, own, [s for s in labels if s in own])
        missing = tuple(k for k, s in enumerate(labels) if s not in own)
        wide.append(APPLY["unsqueeze"](t, axes=missing) if missing else t)
    if wide[0].dtype is not wide[1].dtype:
        from jtorch.eager.messages import long_name

        a, b = (long_name(t._data.dtype) for t in wide)
        raise RuntimeError(f"expected scalar type {a} but found {b}")
    return wide[0] * wide[1]


def _ordered(t: Tensor, labels: tuple[Label, ...], order: list[Label]) -> Tensor:
    axes = [labels.index(s) for s in order]
    return t if axes == list(range(len(axes))) else t.permute(axes)


FUNCTIONS: dict[str, Callable] = {"einsum": einsum}
METHODS: dict[str, Any] = {}
