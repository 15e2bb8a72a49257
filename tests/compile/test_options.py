"""The keywords of ``jtorch.compile``: PyTorch's and our own, and what each does."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile.module import OptimizedModule
from jtorch.core.errors import CompileError


def scaled(x):
    return x * 2


@pytest.mark.parametrize(
    "keywords",
    [
        {"fullgraph": True}, {"dynamic": False}, {"dynamic": None}, {"dynamic": True},
        {"mode": "default"}, {"mode": "reduce-overhead"}, {"mode": "max-autotune"},
        {"mode": "max-autotune-no-cudagraphs"}, {"backend": "inductor"}, {"options": {}},
        {"options": {"verify": "first"}}, {"backend": "inductor", "dynamic": False, "fullgraph": True},
    ],
    ids=str,
)  # fmt: skip
def test_what_pytorch_takes(keywords):
    f = jtorch.compile(scaled, **keywords)
    assert f(jtorch.ones(3)).tolist() == [2.0] * 3 and f.calls == 1
    g = jtorch.compile(**keywords)(scaled)
    assert g(jtorch.ones(3)).tolist() == [2.0] * 3


def test_options_are_taken_without_a_word():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for keywords in (
            {},
            {"fullgraph": True},
            {"fullgraph": False},
            {"dynamic": False},
            {"dynamic": True},
        ):
            assert jtorch.compile(scaled, **keywords)(jtorch.ones(3)).tolist() == [2.0] * 3


@pytest.mark.parametrize(
    ("keywords", "error", "sentence"),
    [
        ({"fast": True}, TypeError, "unexpected keyword argument 'fast'"),
        ({"mode": "fastest"}, RuntimeError, "Unrecognized mode=fastest, should be one of: default"),
        ({"mode": "default", "options": {}}, RuntimeError, "Either mode or options can be specified"),
        ({"options": {"triton": 1}}, RuntimeError, "Unexpected optimization option triton, known options"),
        ({"backend": "tvm"}, ValueError, "Invalid backend: 'tvm'"),
        ({"backend": lambda graph, inputs: graph}, NotImplementedError, "a backend that is a function"),
        ({"fullgraph": 1}, TypeError, "fullgraph is a bool"),
        ({"verify": "sometimes"}, ValueError, "verify='sometimes'"),
        ({"verify": "every:0"}, ValueError, "every:N"),
        ({"on_retrace": "ignore"}, ValueError, "on_retrace='ignore'"),
    ],
)
def test_what_is_refused(keywords, error, sentence):
    with pytest.raises(error, match=sentence):
        jtorch.compile(scaled, **keywords)


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="takes a function or a Module, got Tensor"):
        jtorch.compile(jtorch.ones(3))


def test_positional_options_are_refused():
    with pytest.raises(TypeError):
        jtorch.compile(scaled, True)


@pytest.mark.parametrize("keywords", [{"disable": True}, {"backend": "eager"}], ids=str)
def test_disabled_runs_the_function_itself(keywords):
    f = jtorch.compile(lambda x: x * x.sum().item(), **keywords)  # which a recording could not
    assert f(jtorch.ones(3)).tolist() == [3.0] * 3 and f.calls == 0


def test_mode_interpret_compiles_no_kernel_and_trains_alike():
    def trained(**keywords):
        jtorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        optimizer = jtorch.optim.Adam(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = jtorch.compile(step, **keywords)
        losses = [step(jtorch.ones(2, 3)).item() for _ in range(4)]
        return losses, [p.detach().numpy() for p in model.parameters()], step

    expected, parameters, _ = trained(disable=True)
    losses, found, step = trained(mode="interpret")
    assert losses == expected  # the same NumPy calls in the same order
    for a, b in zip(parameters, found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert step.timings.kernels_compiled == 0 and step.calls == 4


def test_mode_interpret_with_backward_outside_and_errors_inside():
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * x).tanh(), mode="interpret")
    f(jtorch.ones(3)).sum().backward()
    np.testing.assert_allclose(w.grad.numpy(), 1 - np.tanh(1.0) ** 2, rtol=1e-6)
    g = jtorch.compile(lambda x, k: x[k], mode="interpret")
    with pytest.raises(IndexError):
        g(jtorch.ones(3), jtorch.tensor([5]))


# -- modules -----------------------------------------------------------------------------------------------


def test_a_compiled_module_is_a_module():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    compiled = jtorch.compile(model)
    assert isinstance(compiled, nn.Module) and isinstance(compiled, OptimizedModule)
    assert list(compiled.state_dict()) == ["_orig_mod.0.weight", "_orig_mod.0.bias"]
    assert [p is q for p, q in zip(compiled.parameters(), model.parameters(), strict=True)] == [True, True]
    assert repr(compiled).startswith("OptimizedModule(\n  (_orig_mod): Sequential(")
    compiled.eval()
    assert not model.training and not compiled.training
    x = jtorch.ones(4, 3)
    assert (compiled(x) - model(x)).abs().max().item() < 1e-6
    model.train()
    assert compiled.training
    compiled.note = "kept"
    assert model.note == "kept"
    assert compiled.retraces == [] and compiled._orig_mod is model


def test_a_module_compiled_in_place():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    x = jtorch.ones(4, 3)
    expected = model(x).detach()
    assert model.compile(mode="max-autotune") is None
    assert (model(x).detach() - expected).abs().max().item() < 1e-6
    assert type(model) is nn.Sequential and model._compiled_call_impl.calls == 1
    model.register_forward_hook(lambda module, args, out: out + 1)
    assert (model(x).detach() - expected - 1).abs().max().item() < 1e-6
    twin = copy.deepcopy(model)
    assert twin._compiled_call_impl is None
    assert (twin(x).detach() - expected - 1).abs().max().item() < 1e-6


def test_a_module_compiled_in_place_inside_a_compiled_function():
    model = nn.Linear(3, 2)
    model.compile()
    f = jtorch.compile(lambda x: model(x) * 2)
    x = jtorch.ones(4, 3)
    assert (f(x) - model(x) * 2).abs().max().item() < 1e-6


def test_copies_record_for_themselves():
    model = nn.Sequential(nn.Linear(3, 2))
    compiled, x = jtorch.compile(model, on_retrace="raise"), jtorch.ones(4, 3)
    compiled(x)
    twin = copy.deepcopy(compiled)
    assert isinstance(twin, OptimizedModule) and twin.plans == {}
    with jtorch.no_grad():
        model[0].weight.zero_()
    assert (twin(x) - compiled(x)).abs().max().item() > 0.1
    f = jtorch.compile(scaled, mode="interpret")
    f(x)
    g = copy.deepcopy(f)
    assert g.plans == {} and g.options.interpreted and g(x).tolist() == f(x).tolist()
    again = pickle.loads(pickle.dumps(f))
    assert again(x).tolist() == f(x).tolist()


# -- jtorch.compiler ----------------------------------------------------------------------------------------


def test_is_compiling():
    seen = []

    def f(x):
        seen[:] = [jtorch.compiler.is_compiling(), jtorch.compiler.is_dynamo_compiling()]
        return x * 2 if jtorch.compiler.is_compiling() else x * 3

    assert not jtorch.compiler.is_compiling() and not jtorch.compiler.is_exporting()
    assert f(jtorch.ones(())).item() == 3.0 and seen == [False, False]


def test_disable():
    @jtorch.compiler.disable
    def log(x):
        """Note the norm."""
        return x * x.sum().item()

    assert log(jtorch.ones(2)).tolist() == [2.0, 2.0] and log.__doc__ == "Note the norm."
    for x in (jtorch.ones(2), jtorch.ones(2) * 3):
        assert jtorch.compile(lambda x: log(x) + 1)(x).tolist() == (log(x) + 1).tolist()
    assert jtorch.compile(log)(jtorch.ones(2)).tolist() == [2.0, 2.0]

    @jtorch.compiler.disable(reason="writes a file")
    def write(x):
        return x

    with pytest.raises(CompileError, match=r"test_options.py:\d+ in .*write \(writes a file\)', which is"):
        jtorch.compile(lambda x: write(x))(jtorch.ones(2))
    with pytest.raises(NotImplementedError, match="decorate the module's forward"):
        jtorch.compiler.disable(nn.Linear(1, 1))
    with pytest.raises(NotImplementedError, match="recursive=False"):
        jtorch.compiler.disable(log, recursive=False)


def test_reset_forgets_recordings():
    f = jtorch.compile(scaled)
    f(jtorch.ones(2))
    f(jtorch.ones(3))
    jtorch.compiler.reset()
    assert f.plans == {} and f.retraces == [] and f.calls == 0
    assert f(jtorch.ones(2)).tolist() == [2.0, 2.0]


def test_explain_of_the_compiler_and_no_ops():
    told = jtorch.compiler.explain(scaled)(jtorch.ones(2))
    assert told.ops == {"mul": 1}
    assert jtorch.compiler.cudagraph_mark_step_begin() is None
    assert "jtorch" in jtorch.compiler.list_backends()
