"""What a ``backward()`` outside finds where an argument was changed after the call: the copies that the
function made of it, and what it computed of it, are as they were."""

import jtorch
from jtorch import nn
from tests.each import each

W = nn.Parameter(jtorch.tensor([1.0, -2.0, 3.0]))


class Masked(jtorch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward((x > 4).float().sum(0), x.clone())
        return w * 2

    @staticmethod
    def backward(ctx, g):
        mask, x = ctx.saved_tensors
        return None, g * mask + x.sum(0)


def copied_over(x):
    y = jtorch.empty_like(x)
    y.copy_(x)
    return y * W


def written_as_a_whole(x):
    y = jtorch.zeros(3, 3)
    y[:] = x
    return y * W


def put_behind(x):
    y = x * 2
    y.data = x.clone()
    return y * W


def hooked(of):
    def f(x):
        found, y = of(x), W * 1
        y.register_hook(lambda g: g * found)
        return y

    return f


COPIES = {  # what eager mode computes, or copies, when the function runs
    "clone": lambda x: x.clone() * W,
    "of a part": lambda x: x[1:].clone() * W,
    "contiguous": lambda x: x.t().contiguous() * W,
    "to": lambda x: x.to(jtorch.float32, copy=True) * W,
    "reshape": lambda x: x.t().reshape(9)[3:6] * W,
    "flatten": lambda x: x[:, :2].flatten()[:3] * W,
    "repeat": lambda x: x.repeat(2, 1) * W,
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0) * W,
    "expand, as memory": lambda x: x.expand(2, 3, 3).reshape(6, 3) * W,
    "flip": lambda x: x.flip(0) * W,
    "flips": lambda x: x.flip(0).flip(0) * W,
    "negatives": lambda x: x.neg().neg() * W,
    "of one factor": lambda x: jtorch.maximum(x.clone(), W),
    "product": lambda x: x.clone() @ W,
    "pad": lambda x: nn.functional.pad(x, (0, 0)) * W,
    "item": lambda x: x[0, 1].item() * W,
    "numpy": lambda x: jtorch.from_numpy(x.numpy().copy()) * W,
    "rows": lambda x: jtorch.stack([x, x.clone()])[1] * W,
    "copy_": copied_over,
    "all items": written_as_a_whole,
    "other memory": put_behind,
    "a Function's": lambda x: Masked.apply(x, W),
    "a hook's mask": hooked(lambda x: (x > 4).float().sum(0)),
    "a hook's copy": hooked(lambda x: x.clone().sum(0)),
    "a hook's number": hooked(lambda x: x.sum().item()),
}
THEMSELVES = {  # and what it keeps as it is
    "an argument": lambda x: x * W,
    "a view": lambda x: x.t()[1:] * W,
    "reshaped": lambda x: x.contiguous().view(9)[3:6] * W,
    "and a copy": lambda x: x.clone() * W + x * W,
}
CHANGES = {
    "in place": lambda x: x.add_(1),
    "behind the tape's back": lambda x: x.data.add_(1),
    "by NumPy": lambda x: x.numpy().__iadd__(1),
}
WAYS = {"compiled": {}, "interpreted": {"mode": "interpret"}, "by symbols": {"dynamic": True}}


def gradients(f, change, turned):
    found = []
    for k in range(2):
        x = jtorch.arange(9.0).view(3, 3) + k
        x = x.t() if turned else x
        W.grad = None
        y = f(x)
        change(x)
        try:
            y.square().sum().backward()
            found.append(W.grad.tolist())
        except RuntimeError as error:  # of what is no copy where x is turned
            found.append("inplace" in str(error))
    return found


@each("turned", [False, True])
@each("way", WAYS)
@each("name", COPIES)
def test_copies_are_as_they_were(name, way, turned):
    compiled = jtorch.compile(COPIES[name], **WAYS[way])
    for change in CHANGES.values():
        assert gradients(compiled, change, turned) == gradients(COPIES[name], change, turned)


@each("name", THEMSELVES)
def test_arguments_themselves_raise_where_they_were_changed(name):
    compiled = jtorch.compile(THEMSELVES[name])
    for f in (THEMSELVES[name], compiled):
        assert gradients(f, CHANGES["in place"], False) == [True, True]


def test_arguments_that_are_kept_themselves_are_not_copied():
    for f, n_kept in ((lambda x: (x.t() * W).sum(), 0), (lambda x: (x.clone() * W).sum(), 1)):
        compiled, x = jtorch.compile(f), jtorch.ones(3, 3)
        compiled(x)
        *_, results = compiled.graph(x).partition("return (")
        assert results.count(",") == 1 + n_kept, results
