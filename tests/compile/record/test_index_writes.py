"""Constants that are written through an index, with ``backward()`` outside: nobody wants their gradient."""

from __future__ import annotations

import pytest

import jtorch

INTERPRETED = {"mode": "interpret"}  # what is recorded is at stake here, not its kernels
ROWS = jtorch.tensor([0, 2])
MASK = jtorch.tensor([True, False, True])
WRITES = {
    "tensor": lambda y: y.__setitem__(ROWS, 0.0),
    "list": lambda y: y.__setitem__([0, 2], 0.5),
    "integer": lambda y: y.__setitem__(ROWS, 3),
    "0-d tensor": lambda y: y.__setitem__(jtorch.tensor(1), 0.5),
    "last axis": lambda y: y.__setitem__((slice(None), ROWS), 0.0),
    "ellipsis": lambda y: y.__setitem__((..., ROWS), 0.0),
    "two indices": lambda y: y.__setitem__((ROWS, ROWS), 0.0),
    "outer indices": lambda y: y.__setitem__((ROWS[:, None], ROWS), 0.0),
    "index and number": lambda y: y.__setitem__((-1, ROWS), 0.0),
    "new axis": lambda y: y.__setitem__((None, ROWS), 0.0),
    "no rows": lambda y: y.__setitem__(jtorch.tensor([], dtype=jtorch.int64), 0.0),
    "constant tensor": lambda y: y.__setitem__(ROWS, jtorch.zeros(2, 3)),
    "mask": lambda y: y.__setitem__(y > 1, 0.5),
    "mask of rows": lambda y: y.__setitem__(MASK, 0.5),
    "True": lambda y: y.__setitem__(True, 0.5),
    "False": lambda y: y.__setitem__(False, 0.5),
    "index_put_": lambda y: y.index_put_((ROWS,), jtorch.tensor(2.0)),
    "index_put_ accumulating": lambda y: y.index_put_((ROWS,), jtorch.tensor(2.0), accumulate=True),
    "index_fill_": lambda y: y.index_fill_(1, ROWS, 2.0),
    "index_copy_": lambda y: y.index_copy_(0, ROWS, jtorch.ones(2, 3)),
    "masked_fill_": lambda y: y.masked_fill_(MASK, 0.25),
    "scatter_": lambda y: y.scatter_(0, jtorch.tensor([[0, 1, 2]]), 2.0),
    "put_": lambda y: y.put_(ROWS, jtorch.ones(2)),
    "through a transpose": lambda y: y.t().__setitem__(ROWS, 2.0),
    "through a slice": lambda y: y[1:].__setitem__([0], 2.0),
    "through a row": lambda y: y[0].__setitem__(ROWS, 2.0),
    "an element": lambda y: y.__setitem__(ROWS, y[0, 0].item()),
}


def _gradient(f, x, backward):
    x = x.clone().requires_grad_()
    y = backward(f(x))
    return y.tolist(), x.grad.tolist()


@pytest.mark.slow
def test_constants_have_no_gradient():
    x = jtorch.arange(9.0).reshape(3, 3) / 4
    weight = jtorch.arange(9.0).reshape(3, 3)

    def weighed(y):
        (y * weight).sum().backward()
        return y.detach()

    for name, write in WRITES.items():

        def written(x, write=write):
            y = x * 1.5
            write(y)
            return y + y * y.detach()

        outside = _gradient(jtorch.compile(written, **INTERPRETED), x, weighed)
        inside = jtorch.compile(lambda x, f=written: weighed(f(x)), **INTERPRETED)
        inside = _gradient(inside, x, lambda y: y)
        assert outside == inside == _gradient(written, x, weighed), name


def test_a_constant_that_a_computed_value_is_written_into():
    def f(x, i):
        y = jtorch.zeros(4, 3)
        y[i] = x
        return y

    compiled = jtorch.compile(f)
    i = jtorch.tensor([0, 3])
    x = jtorch.ones(2, 3, requires_grad=True)
    (compiled(x, i) * jtorch.arange(12.0).reshape(4, 3)).sum().backward()
    assert x.grad.tolist() == [[0, 1, 2], [9, 10, 11]]
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(x, i + 1)


class _Looks(jtorch.autograd.Function):
    """2 x, and on the way back an element of the gradient is read that nobody needs."""

    @staticmethod
    def forward(ctx, x, i):
        ctx.save_for_backward(i)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        g[ctx.saved_tensors[0]]
        return g * 2, None


def test_an_index_that_is_wrong_on_the_way_back_is_an_error_there():
    compiled = jtorch.compile(_Looks.apply)
    for rows, is_error in ([0, 1], False), ([0, 7], True), ([2, 1], False):
        x = jtorch.ones(3, requires_grad=True)
        y = compiled(x, jtorch.tensor(rows))
        assert y.tolist() == [2, 2, 2]
        if is_error:
            with pytest.raises(IndexError, match=r"index out of range in self.*test_index_writes\.py"):
                y.sum().backward()
        else:
            y.sum().backward()
            assert x.grad.tolist() == [2, 2, 2]


def test_writing_a_constant_and_backward_inside_reads_no_gradient_for_it():
    @jtorch.compile
    def step(x):
        y = x * 1.5
        y[ROWS] = 0.0
        y.sum().backward()

    step(jtorch.ones(3, 3, requires_grad=True))
    assert " index(" not in step.graph()
