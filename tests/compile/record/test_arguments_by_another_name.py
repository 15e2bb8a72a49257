"""A tensor whose ``requires_grad`` a function sets by another name than the argument that it is."""

from __future__ import annotations

import jtorch
from jtorch import nn


def both(program, make):
    """What four calls give, compiled and in eager mode."""
    found = []
    for compile in (lambda f: f, jtorch.compile):
        held = make()
        step, seen = compile(lambda *args, held=held: program(held, *args)), []
        for k in range(4):
            seen.append(step(*held.arguments(k)))
            seen.append(
                [(t.requires_grad, None if t.grad is None else t.grad.tolist()) for t in held.tensors()]
            )
        found.append(seen)
    return found


class Held(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(jtorch.ones(2))
        self.other = jtorch.ones(2)

    def tensors(self):
        return [self.weight, self.other]

    def arguments(self, k):
        return self.weight, k


def test_a_flag_that_is_set():
    class Other(Held):
        def arguments(self, k):
            return self.other, k

    def program(held, x, k):
        held.other.requires_grad_()
        return (x * 2).requires_grad

    eager, compiled = both(program, Other)
    assert compiled == eager and eager[0] is True


def test_a_flag_that_changes_from_call_to_call():
    def program(held, w, k):
        held.weight.requires_grad_(k % 2 == 0)
        y = (w * 3).sum()
        if y.requires_grad:
            y.backward()
        return y.requires_grad

    eager, compiled = both(program, Held)
    assert compiled == eager and eager[::2] == [True, False, True, False]


def test_a_module_that_is_frozen_meanwhile():
    class InADict(Held):
        def arguments(self, k):
            return {"w": self.weight}, k

    def program(held, batch, k):
        held.requires_grad_(False)
        y = (batch["w"] * 2).sum()
        held.requires_grad_(True)
        return y.requires_grad

    eager, compiled = both(program, InADict)
    assert compiled == eager and eager[0] is False


def test_a_new_tensor_over_memory_that_is_used_by_another_name():
    class OfData(Held):
        def arguments(self, k):
            return self.weight.data, k

    def program(held, data, k):
        total = held.weight.sum()
        held.other.requires_grad_()
        return total.shape, held.other.requires_grad

    eager, compiled = both(program, OfData)
    assert compiled == eager
