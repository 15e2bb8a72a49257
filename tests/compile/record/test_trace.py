"""Recording: what becomes an input, an output and an equation, and that aliasing is eager's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jtorch
from jtorch.compile.graph.ir import check
from jtorch.compile.record.inputs import ArrayInput, ConstantInput, GradInput, ScalarInput
from jtorch.core.errors import CompileError
from jtorch.core.op import Kind
from tests.compile.chain import assert_chain, trace


def floats(*shape, seed=0):
    return jtorch.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def test_everything_touched_is_an_input_once():
    outside = floats(3)

    def program(x, y, s):
        return x * outside + outside * s, jtorch.tensor([1.0, 2.0, 3.0]) + y

    made = trace(program, [floats(3), floats(3, seed=1), 2.5])
    kinds = [type(e) for e in made.inputs]
    assert kinds.count(ArrayInput) == 3
    assert kinds.count(ScalarInput) == 1
    assert kinds.count(ConstantInput) == 1
    assert [e.argument for e in made.inputs if isinstance(e, ArrayInput)] == [0, 1, None]
    check(made.graph)


def test_equations_are_primitives_with_the_users_lines():
    made = trace(lambda x: jtorch.softmax(x, -1), [floats(3, 4)])
    assert all(e.op.kind is not Kind.COMPOSITE for e in made.graph.eqns)
    assert {e.source.file for e in made.graph.eqns} == {__file__}


def test_gradients_are_effects():
    def program(x):
        (x * x).sum().backward()

    x = floats(3).requires_grad_(True)
    made = trace(program, [x])
    ((tensor, atom),) = made.effects.grads
    assert tensor.is_leaf
    assert atom.shape == (3,)
    (entry,) = [e for e in made.inputs if isinstance(e, GradInput)]
    assert not entry.present
    assert x.grad is None  # tracing itself changes nothing


def test_tracing_changes_no_memory():
    x = floats(3)
    before = x.numpy().copy()
    made = trace(lambda t: t.add_(1.0).mul_(2.0), [x])
    np.testing.assert_array_equal(x.numpy(), before)
    assert [e.argument for e in made.effects.writes] == [0]


def test_integers_beside_random_bits_keep_their_sign():
    """The bounds of bounded(bits, low, high) are int64 next to uint64 bits."""
    bits = jtorch.from_numpy(np.arange(5, dtype=np.uint64))
    from jtorch.eager.binding import APPLY

    assert_chain(lambda b: APPLY["bounded"](b, -3, 4), [bits])


# -- aliasing: a view shares memory with what it is a view of, exactly where it does in NumPy ----------------

VIEWS = {
    "column": lambda x: x[:, 1],
    "column reshaped": lambda x: x[:, 1].reshape(-1),
    "column in another shape": lambda x: x[:, 1].reshape(2, 2),
    "columns split": lambda x: x[:, :4].reshape(4, 2, 2),
    "flattened": lambda x: x.reshape(-1),
    "transposed, then flattened: a copy": lambda x: x.t().reshape(-1),
    "every other row": lambda x: x[::2].reshape(2, 3, 2),
    "with new axes": lambda x: x[1].unsqueeze(0).unsqueeze(2).reshape(6),
    "reversed: a copy": lambda x: x.flip(0),
    "permuted and back": lambda x: x.reshape(2, 2, 6).permute(1, 0, 2).permute(1, 0, 2).reshape(4, 6),
    "seen by view()": lambda x: x[:, 2].view(2, 2),
}


@pytest.mark.parametrize("write", [lambda v: v.mul_(2.0), lambda v: v.fill_(7.0)], ids=["mul_", "fill_"])
@pytest.mark.parametrize("name", VIEWS)
def test_writes_through_views(name, write):
    def program(x):
        seen = VIEWS[name](x)
        write(seen)
        return seen.clone(), x.sum(0)

    assert_chain(program, [floats(4, 6)], jit=False)


@pytest.mark.parametrize("name", VIEWS)
def test_views_see_writes(name):
    def program(x):
        seen = VIEWS[name](x)
        x.mul_(3.0)
        return seen.clone()

    assert_chain(program, [floats(4, 6)], jit=False)


def test_two_views_of_one_memory():
    def program(x):
        row, column = x[1], x[:, 1]
        row.add_(1.0)
        column.mul_(2.0)
        x.sub_(0.5)
        row.neg_()
        return row.clone(), column.clone()

    assert_chain(program, [floats(3, 4)], jit=False)


@pytest.mark.parametrize(("ask", "told"), [
    (lambda x: x.data_ptr(), r"data_ptr\(\) asks where a tensor lies in memory"),
    (lambda x: x.storage_offset(), r"storage_offset\(\) asks where"),
    (lambda x: x.untyped_storage(), "asks where"),
    (lambda x: x.is_shared(), "asks where"),
    (lambda x: copy.deepcopy(x), r"deepcopy\(\) of a tensor is not recorded. Take x.clone\(\)"),
    (lambda x: copy.copy(x), r"copy\(\) of a tensor is not recorded"),
    (lambda x: copy.deepcopy({"kept": [x]}), r"deepcopy\(\) of a tensor"),
    (lambda x: pickle.dumps(x), "pickle of a tensor"),
])  # fmt: skip
def test_what_asks_for_memory_or_a_copy_names_the_line_and_the_way_out(ask, told):
    with pytest.raises(CompileError, match=rf"test_trace\.py:\d+ in .*{told}"):
        jtorch.compile(lambda x: (ask(x), x + 1))(jtorch.ones(2))
