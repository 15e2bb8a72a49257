"""``functional_call`` inside compiled functions, of modules two of whose weights are one."""

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError
from jtorch.func import functional_call


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mean", jtorch.zeros(4))
        self.out = nn.Linear(4, 5, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.norm(self.embedding(tokens))
        self.mean = self.mean * 0.5 + x.detach().mean(0)
        return self.out(x + self.mean)


def given(module, k):
    names = dict(module.named_parameters())
    return {n: (p.detach() * (k + 1)).requires_grad_() for n, p in names.items()}


def untied(module, params, tokens):
    return functional_call(module, params, (tokens,), tie_weights=False)


def both_names(module, params, tokens):
    return functional_call(module, params | {"out.weight": params["embedding.weight"]}, tokens)


def the_other_name(module, params, tokens):
    params = dict(params)
    params["out.weight"] = params.pop("embedding.weight")
    return functional_call(module, params, tokens)


def computed(module, params, tokens):
    return functional_call(module, {n: p * 2 for n, p in params.items()}, tokens) + module(tokens)


def one_step(module, params, tokens):
    own = dict(module.named_parameters())
    loss = functional_call(module, own, tokens).pow(2).mean()
    grads = jtorch.autograd.grad(loss, list(own.values()), create_graph=True)
    stepped = {n: p - 0.1 * g for (n, p), g in zip(own.items(), grads, strict=True)}
    return functional_call(module, stepped, tokens) * params["embedding.weight"].sum()


def with_buffers(module, params, tokens):
    buffers = {n: b.clone() for n, b in module.named_buffers()}
    return functional_call(module, (params, buffers), tokens)


@pytest.mark.usefixtures("unjitted")
@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("call", [untied, both_names, the_other_name, computed, one_step])
def test_tied_weights(call, inside):
    ours, eager = Tied(), Tied()
    eager.load_state_dict(ours.state_dict())

    def step(module, params, tokens):
        out = call(module, params, tokens)
        if inside:
            out.pow(2).mean().backward()
        return out

    f = jtorch.compile(lambda params, tokens: step(ours, params, tokens))
    tokens = jtorch.tensor([0, 1, 2, 1])
    for k in range(4):
        a, b = given(ours, k), given(eager, k)
        out, expected = f(a, tokens), step(eager, b, tokens)
        if not inside:
            out.pow(2).mean().backward()
            expected.pow(2).mean().backward()
        assert out.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-3, abs=1e-4)
        for name in a:
            if b[name].grad is None:
                assert a[name].grad is None, name
                continue
            found, wanted = (p[name].grad.flatten().tolist() for p in (a, b))
            assert found == pytest.approx(wanted, rel=1e-3, abs=1e-3), name
        assert ours.out.weight is ours.embedding.weight
        for (name, found), wanted in zip(ours.named_buffers(), eager.buffers(), strict=True):
            assert found.tolist() == pytest.approx(wanted.tolist(), rel=1e-4, abs=1e-5), name
    assert len(f.retraces) <= 2, str(f.retraces)


def test_a_buffer_that_is_lent_for_the_call_and_assigned_is_refused():
    module = Tied()
    f = jtorch.compile(lambda params, tokens: with_buffers(module, params, tokens))
    with pytest.raises(CompileError, match="changes 'mean'"):
        f(given(module, 1), jtorch.tensor([0, 1]))
    assert module.mean.tolist() == [0.0] * 4
