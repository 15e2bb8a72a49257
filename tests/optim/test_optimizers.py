"""Optimizers against PyTorch: twenty steps from the same weights, with the same gradients."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import jtorch
from jtorch import nn
from jtorch.core import watch
from jtorch.optim import SGD, Adam, AdamW, Optimizer
from jtorch.optim.optimizer import required

CASES = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "weight_decay": 0.05}),
    ("SGD", {"lr": 0.1, "momentum": 0.9}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.01}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    ("SGD", {"lr": 0.1, "momentum": 0.5, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "maximize": True}),
    ("Adam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.0}),
    ("Adam", {"lr": 0.05, "amsgrad": True}),
    ("AdamW", {"lr": 0.05, "amsgrad": True, "maximize": True}),
    *[(name, {"lr": 0.02}) for name in ("Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta")],
    *[(name, {"lr": 0.02}) for name in ("RMSprop", "Rprop", "ASGD", "Adafactor")],
    *[
        (name, {"lr": 0.02, "weight_decay": 0.1, "maximize": True})
        for name in ("Adamax", "NAdam", "RAdam", "Adagrad", "Adadelta", "ASGD", "Adafactor")
    ],
    ("NAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "momentum_decay": 0.01}),
    ("RAdam", {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 0.02, "betas": (0.5, 0.6)}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.9, "centered": True}),
    ("RMSprop", {"lr": 0.02, "centered": True, "alpha": 0.8, "maximize": True}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Rprop", {"lr": 0.02, "etas": (0.3, 1.5), "step_sizes": (1e-3, 0.05), "maximize": True}),
    ("ASGD", {"lr": 0.02, "lambd": 0.01, "t0": 5, "alpha": 0.6}),
    ("Adafactor", {"lr": 0.02, "eps": (1e-3, 1e-2), "d": 2.0, "beta2_decay": -0.5}),
]
SHAPES = [(4, 3), (3,), (), (2, 3, 2)]


def case_id(case):
    return f"{case[0]}({', '.join(f'{k}={v}' for k, v in case[1].items())})"


def start(lib, dtype):
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(s).astype(dtype) for s in SHAPES]
    return [lib.tensor(v, requires_grad=True, dtype=getattr(lib, dtype)) for v in values]


def gradients(step, dtype):
    rng = np.random.default_rng(100 + step)
    return [np.asarray(rng.standard_normal(s)).astype(dtype) for s in SHAPES]


def run(lib, case, steps, dtype="float32", state=None, params=None, first=0):
    params = params or start(lib, dtype)
    optimizer = getattr(lib.optim, case[0])(params, **({"lr": 1e-3} | case[1]))
    if state is not None:
        optimizer.load_state_dict(state)
    for k in range(first, first + steps):
        for p, g in zip(params, gradients(k, dtype), strict=True):
            p.grad = lib.tensor(g, dtype=getattr(lib, dtype))
        optimizer.step()
    return params, optimizer


def convert(tree, make):
    """Every tensor in a state dict as another library's."""
    if isinstance(tree, dict):
        return {k: convert(v, make) for k, v in tree.items()}
    if isinstance(tree, list):
        return [convert(v, make) for v in tree]
    return make(tree.detach().numpy()) if hasattr(tree, "detach") else tree


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_twenty_steps_equal_pytorch(torch, case, dtype, tolerance):
    ours, _ = run(jtorch, case, 20, dtype)
    theirs, _ = run(torch, case, 20, dtype)
    for p, q in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_state_dicts_are_interchangeable(torch, case):
    """Ten steps here, ten there, in both directions, equal twenty in PyTorch."""
    expected, _ = run(torch, case, 20)
    for first, second in ((jtorch, torch), (torch, jtorch)):
        half, optimizer = run(first, case, 10)

        def make(array, lib=second):
            return lib.from_numpy(np.array(array))

        state = convert(optimizer.state_dict(), make)
        params = [make(p.detach().numpy()).requires_grad_() for p in half]
        params, _ = run(second, case, 10, state=state, params=params, first=10)
        for p, q in zip(params, expected, strict=True):
            np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_layout_and_repr_equal_pytorch(torch, case):
    (_, ours), (_, theirs) = run(jtorch, case, 1), run(torch, case, 1)
    assert repr(ours) == repr(theirs)
    a, b = ours.state_dict(), theirs.state_dict()
    assert a["param_groups"] == b["param_groups"]
    assert list(a["param_groups"][0]) == list(b["param_groups"][0])
    assert {k: list(v) for k, v in a["state"].items()} == {k: list(v) for k, v in b["state"].items()}
    for k, facts in a["state"].items():
        for name, value in facts.items():
            assert str(value.dtype).split(".")[1] == str(b["state"][k][name].dtype).split(".")[1]
            assert tuple(value.shape) == tuple(b["state"][k][name].shape)


@pytest.mark.parametrize("kind", [SGD, Adam, AdamW])
def test_trains_a_network(kind):
    jtorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = kind(model.parameters(), lr=0.05)
    x = jtorch.randn(64, 2)
    y = x[:, :1] * x[:, 1:]
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.85 * losses[0]
    assert all(p.is_leaf and p.requires_grad for p in model.parameters())


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[6]], ids=case_id)
def test_parameters_without_gradient_are_skipped(torch, case):
    def one(lib):
        used, unused = start(lib, "float32")[:2]
        optimizer = getattr(lib.optim, case[0])([unused, used], **case[1])
        for k in range(3):
            used.grad = lib.tensor(gradients(k, "float32")[0])
            if k == 2:
                unused.grad = lib.tensor(gradients(k, "float32")[1])
            optimizer.step()
        return used, unused

    for p, q in zip(one(jtorch), one(torch), strict=True):
        np.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), rtol=2e-6)


def test_updates_in_place_and_moves_versions():
    p = jtorch.ones(2, requires_grad=True)
    view = p.detach()
    optimizer = SGD([p], lr=0.5)
    p.grad = jtorch.ones(2)
    version = p._version
    optimizer.step()
    assert view.tolist() == [0.5, 0.5] and p._version == version + 1
    out = (p * p).sum()
    optimizer.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_nan_and_infinite_gradients_spread_as_in_pytorch(torch):
    def one(lib):
        p = lib.ones(4, requires_grad=True)
        optimizer = lib.optim.Adam([p])
        p.grad = lib.tensor([float("nan"), float("inf"), 0.0, 1e-42])
        optimizer.step()
        return p.detach().numpy()

    np.testing.assert_allclose(one(jtorch), one(torch), rtol=1e-6)


def test_init_state_is_idempotent_and_early():
    p = jtorch.ones(2, requires_grad=True)
    optimizer = Adam([p])
    assert not optimizer.state
    optimizer.init_state()
    average = optimizer.state[p]["exp_avg"]
    p.grad = jtorch.ones(2)
    optimizer.step()
    optimizer.init_state()
    assert optimizer.state[p]["exp_avg"] is average and average.tolist() != [0.0, 0.0]
    step = optimizer.state[p]["step"]
    assert step.ndim == 0 and step.dtype is jtorch.float32 and step.item() == 1.0


def test_momentum_switched_on_later(torch):
    def one(lib):
        p = lib.ones(2, requires_grad=True)
        optimizer = lib.optim.SGD([p], lr=0.1)
        for k in range(4):
            optimizer.param_groups[0]["momentum"] = 0.9 if k else 0.0
            p.grad = lib.tensor([1.0, float(k)])
            optimizer.step()
        return p.detach().numpy()

    np.testing.assert_allclose(one(jtorch), one(torch), rtol=1e-6)


def test_groups_have_their_own_options():
    a, b = jtorch.zeros(1, requires_grad=True), jtorch.zeros(1, requires_grad=True)
    optimizer = SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.1)
    a.grad, b.grad = jtorch.ones(1), jtorch.ones(1)
    optimizer.step()
    assert a.item() == -1.0 and b.item() == pytest.approx(-0.1)
    c = jtorch.zeros(1, requires_grad=True)
    optimizer.add_param_group({"params": [c], "lr": 5.0})
    c.grad = jtorch.ones(1)
    optimizer.step()
    assert c.item() == -5.0
    assert optimizer.state_dict()["param_groups"][2]["params"] == [2]


def test_adding_a_group_keeps_earlier_state():
    a, b = jtorch.ones(1, requires_grad=True), jtorch.ones(1, requires_grad=True)
    optimizer = Adam([a])
    a.grad, b.grad = jtorch.ones(1), jtorch.ones(1)
    optimizer.step()
    optimizer.add_param_group({"params": [b]})
    optimizer.step()
    assert (optimizer.state[a]["step"].item(), optimizer.state[b]["step"].item()) == (2.0, 1.0)


def test_named_parameters():
    model = nn.Linear(2, 1)
    optimizer = SGD(model.named_parameters(), lr=0.1)
    assert optimizer.param_groups[0]["params"] == list(model.parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]


def test_closure_runs_with_gradients():
    p = jtorch.ones(1, requires_grad=True)
    optimizer = SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with jtorch.no_grad():
        loss = optimizer.step(closure)
    assert loss.item() == 1.0 and p.item() == pytest.approx(0.8)


def test_zero_grad():
    p = jtorch.ones(1, requires_grad=True)
    optimizer = SGD([p])
    p.grad = jtorch.ones(1)
    kept = p.grad
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0.0] and kept.tolist() == [0.0]
    optimizer.zero_grad()
    assert p.grad is None


def parameter(lib):
    return lib.ones(2, requires_grad=True)


ERRORS = [
    ("lr", lambda o, p: o.SGD([p], lr=-1)),
    ("momentum", lambda o, p: o.SGD([p], lr=1, momentum=-1)),
    ("weight decay", lambda o, p: o.SGD([p], lr=1, weight_decay=-1)),
    ("nesterov", lambda o, p: o.SGD([p], lr=1, nesterov=True)),
    ("adam lr", lambda o, p: o.Adam([p], lr=-1)),
    ("eps", lambda o, p: o.Adam([p], eps=-1)),
    ("beta 0", lambda o, p: o.Adam([p], betas=(1.0, 0.9))),
    ("beta 1", lambda o, p: o.Adam([p], betas=(0.9, -0.1))),
    ("adam weight decay", lambda o, p: o.Adam([p], weight_decay=-1)),
    ("fused and differentiable", lambda o, p: o.AdamW([p], fused=True, differentiable=True)),
    ("fused and foreach", lambda o, p: o.Adagrad([p], fused=True, foreach=True)),
    ("tensor of rates", lambda o, p: o.SGD([p], lr=p.detach())),
    ("mixed betas", lambda o, p: o.Adam([p], betas=(0.9, p.detach().sum() * 0))),
    ("alpha", lambda o, p: o.RMSprop([p], alpha=-1)),
    ("rmsprop momentum", lambda o, p: o.RMSprop([p], momentum=-1)),
    ("rho", lambda o, p: o.Adadelta([p], rho=1.5)),
    ("lr_decay", lambda o, p: o.Adagrad([p], lr_decay=-1)),
    ("accumulator", lambda o, p: o.Adagrad([p], initial_accumulator_value=-1)),
    ("momentum_decay", lambda o, p: o.NAdam([p], momentum_decay=-1)),
    ("etas", lambda o, p: o.Rprop([p], etas=(1.5, 2))),
    ("asgd", lambda o, p: o.ASGD([p], weight_decay=-1)),
    ("radam", lambda o, p: o.RAdam([p], betas=(0.9, 1.0))),
    ("adamax", lambda o, p: o.Adamax([p], eps=-1)),
    ("adafactor lr", lambda o, p: o.Adafactor([p], lr=-1)),
    ("adafactor decay", lambda o, p: o.Adafactor([p], beta2_decay=1)),
    ("adafactor eps 1", lambda o, p: o.Adafactor([p], eps=(-1, 1e-3))),
    ("adafactor eps 2", lambda o, p: o.Adafactor([p], eps=(None, -1e-3))),
    ("adafactor d", lambda o, p: o.Adafactor([p], d=0.5)),
    ("adafactor weight decay", lambda o, p: o.Adafactor([p], weight_decay=-1)),
    ("lbfgs groups", lambda o, p: o.LBFGS([{"params": [p]}, {"params": [p.detach()]}])),
    ("empty", lambda o, p: o.SGD([])),
    ("set", lambda o, p: o.SGD([{"params": {p}}])),
    ("twice", lambda o, p: o.SGD([p]).add_param_group({"params": [p]})),
    ("no leaf", lambda o, p: o.SGD([p * 2])),
    ("not a dict", lambda o, p: o.SGD([p]).add_param_group([p])),
    ("some names", lambda o, p: o.SGD([("a", p), p * 2])),
    ("other groups", lambda o, p: o.SGD([p]).load_state_dict({"state": {}, "param_groups": []})),
    (
        "other sizes",
        lambda o, p: o.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
    ),
]


@pytest.mark.parametrize("act", [a for _, a in ERRORS], ids=[n for n, _ in ERRORS])
def test_errors_are_word_for_word(torch, act):
    with pytest.raises((ValueError, TypeError, RuntimeError)) as theirs:
        act(torch.optim, parameter(torch))
    with pytest.raises(type(theirs.value)) as ours:
        act(jtorch.optim, parameter(jtorch))
    assert str(ours.value) == str(theirs.value)


def test_other_errors():
    p = parameter(jtorch)
    with pytest.raises(ValueError, match="Invalid learning rate: nan"):
        SGD([p], lr=float("nan"))
    with pytest.raises(TypeError, match="should be an iterable of Tensors or dicts, but got"):
        SGD(p)
    with pytest.raises(TypeError, match="can only optimize Tensors, but one of the params is int"):
        SGD([3])
    with pytest.raises(NotImplementedError, match=r"AdamW\(differentiable=True\)"):
        AdamW([p], differentiable=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        SGD([p, p])


def test_plans_hear_of_structure_not_of_values():
    p, q = parameter(jtorch), parameter(jtorch)
    optimizer = Adam([p])
    p.grad = jtorch.ones(2)
    optimizer.step()
    with watch.listening() as listener:
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.step()
        optimizer.zero_grad()
    assert not listener.heard
    with watch.listening() as listener:
        optimizer.load_state_dict(optimizer.state_dict())
    assert listener.heard
    with watch.listening() as listener:
        optimizer.add_param_group({"params": [q]})
    assert listener.heard


def test_hyper_parameters_come_through_the_evaluator(monkeypatch):
    asked = []
    evaluator = jtorch.core.op.CONTEXT.get().evaluator
    read = type(evaluator).scalar
    monkeypatch.setattr(
        type(evaluator),
        "scalar",
        lambda self, group, key: asked.append(key) or read(self, group, key),
    )
    p = parameter(jtorch)
    p.grad = jtorch.ones(2)
    Adam([p]).step()
    SGD([p], momentum=0.9).step()
    assert set(asked) == {
        "lr", ("betas", 0), ("betas", 1), "eps", "weight_decay", "momentum", "dampening",
    }  # fmt: skip


def test_signatures_equal_pytorch(torch):
    import inspect

    names = {name for name, _ in CASES} | {"LBFGS"}
    for name in names:
        ours, theirs = (inspect.signature(getattr(lib.optim, name)) for lib in (jtorch, torch))
        assert [(p.name, p.default, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.default, p.kind) for p in theirs.parameters.values()
        ], name


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Rprop", "ASGD", "Adagrad", "Adafactor"])
def test_a_rate_that_is_a_tensor(torch, name):
    def one(lib):
        p = lib.tensor([[1.0, 2.0]], dtype=lib.float64, requires_grad=True)
        lr = lib.tensor(0.125, dtype=lib.float64)
        optimizer = getattr(lib.optim, name)([p], lr=lr)
        for k in range(4):
            p.grad = lib.tensor([[1.0, k - 1.5]], dtype=lib.float64)
            optimizer.step()
            lr.fill_(0.125 / (k + 1))
        assert optimizer.param_groups[0]["lr"] is lr
        return p.detach().numpy(), repr(optimizer)

    (ours, text), (theirs, their_text) = one(jtorch), one(torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert text == their_text


@pytest.mark.parametrize("name", ["Rprop", "ASGD", "Adagrad"])
def test_state_begins_with_the_first_gradient(torch, name):
    """The rate counts that holds when a parameter gets its first gradient."""

    def one(lib):
        params = [lib.ones(2, dtype=lib.float64, requires_grad=True) for _ in range(2)]
        optimizer = getattr(lib.optim, name)(params, lr=0.1)
        saved = []
        for k in range(4):
            optimizer.param_groups[0]["lr"] = 0.1 / (k + 1)
            params[0].grad = lib.tensor([1.0, -k], dtype=lib.float64)
            params[1].grad = lib.tensor([2.0, k], dtype=lib.float64) if k > 1 else None
            optimizer.step()
            saved.append(sorted(optimizer.state_dict()["state"]))
        return [p.detach().numpy() for p in params], saved

    (ours, saved), (theirs, their_saved) = one(jtorch), one(torch)
    np.testing.assert_allclose(ours, theirs, rtol=1e-7 if name == "ASGD" else 1e-12)
    assert saved == their_saved


@pytest.mark.parametrize("again", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
@pytest.mark.parametrize("case", [CASES[3], CASES[6], ("NAdam", {})], ids=case_id)
def test_copies_go_on_alike(case, again):
    params, optimizer = run(jtorch, case, 3)
    twin = again(optimizer)
    others = twin.param_groups[0]["params"]
    assert all(p is not q for p, q in zip(params, others, strict=True))
    for some, stepped in ((params, optimizer), (others, twin)):
        for p, g in zip(some, gradients(7, "float32"), strict=True):
            p.grad = jtorch.tensor(g)
        stepped.step()
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def test_groups_stay_the_callers_dicts_and_keep_their_identity_when_loaded():
    p = parameter(jtorch)
    mine = {"params": [p], "lr": 0.5}
    optimizer = SGD([mine], lr=0.1)
    assert optimizer.param_groups[0] is mine and mine["momentum"] == 0
    mine["initial_lr"] = 3.0
    optimizer.load_state_dict(SGD([p], lr=0.25).state_dict())
    assert optimizer.param_groups[0] is mine and mine["lr"] == 0.25
    assert "initial_lr" not in mine and mine["params"] == [p]


def test_an_optimizer_of_ones_own():
    class Plain(Optimizer):
        def __init__(self, params, lr=required):
            super().__init__(params, {"lr": lr})

        @jtorch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self.state[p].setdefault("step", jtorch.zeros(()))
                        p.add_(p.grad * -group["lr"])

    p = parameter(jtorch)
    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        Plain([p])
    optimizer = Plain([p], lr=0.5)
    p.grad = jtorch.ones(2)
    seen = []
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append(o))
    optimizer.step()
    assert p.tolist() == [0.5, 0.5] and seen == [optimizer]
    assert optimizer.state_dict()["state"][0]["step"].item() == 0


def test_an_empty_parameter_and_one_of_strange_strides():
    p = jtorch.zeros(0, 3, requires_grad=True)
    q = jtorch.ones(3, 2).t().detach().requires_grad_()
    for kind in (SGD, Adam, jtorch.optim.RMSprop, jtorch.optim.Rprop):
        p.grad, q.grad = jtorch.zeros(0, 3), jtorch.ones(3, 2).t()
        kind([p, q], lr=0.1).step()
    assert p.shape == (0, 3) and q.tolist()[0][0] < 1


@pytest.mark.parametrize(("options", "count"), [({}, 0), ({"momentum": 0.9}, 2)])
def test_state_has_no_entries_where_there_is_none(torch, options, count):
    for lib in (jtorch, torch):
        params = [lib.ones(2, requires_grad=True) for _ in range(2)]
        optimizer = lib.optim.SGD(params, lr=0.1, **options)
        for _ in range(2):
            (params[0] * params[1]).sum().backward()
            optimizer.step()
            assert len(optimizer.state) == count


SIXTEEN_BITS = {
    "SGD": {"momentum": 0.9, "dampening": 0.1}, "Adam": {}, "AdamW": {"amsgrad": True}, "Adagrad": {},
    "RMSprop": {"lr": 0.01, "centered": True, "momentum": 0.9}, "NAdam": {}, "RAdam": {}, "Adadelta": {},
    "Adamax": {}, "Rprop": {}, "ASGD": {},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_parameters_of_16_bits_are_updated_in_float32(mode):
    """One step from where the state is known is that of float32, rounded: eps of 1e-8 is not 0 there."""
    gradient = jtorch.tensor([30.0, 1e-6, 0.0])
    for name, options in SIXTEEN_BITS.items():
        found = []
        for dtype in (jtorch.float16, jtorch.float32):
            p = jtorch.nn.Parameter(jtorch.tensor([1.0, 2.0, 3.0], dtype=dtype))
            optimizer = getattr(jtorch.optim, name)([p], **options)
            p.grad = gradient.half().to(dtype)
            mode(optimizer.step)()
            found.append(p)
        assert found[0].dtype is jtorch.float16
        assert found[0].tolist() == found[1].half().tolist(), name


def test_adam_in_16_bits_steps_as_pytorchs_fused_one():
    torch = pytest.importorskip("torch")
    results = []
    for library in (jtorch, torch):
        p = library.nn.Parameter(library.tensor([1.0, 2.0, 3.0, -0.5]).half())
        optimizer = library.optim.Adam([p], lr=0.01, fused=True)
        for k in range(5):
            p.grad = library.tensor([30.0, 1e-4, 0.1, -2.0 * k]).half()
            optimizer.step()
        results.append(p.tolist())
    np.testing.assert_allclose(results[0], results[1], rtol=2**-10)


@pytest.mark.slow
@pytest.mark.parametrize("mode", [lambda f: f, jtorch.compile], ids=["eager", "compiled"])
def test_a_parameter_without_a_gradient_has_no_state(mode):
    for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adadelta", "Adamax", "NAdam", "RAdam", "ASGD", "Rprop"):
        p, q = (jtorch.nn.Parameter(jtorch.ones(2)) for _ in range(2))
        optimizer = getattr(jtorch.optim, name)([p, q], **({"momentum": 0.9} if name == "SGD" else {}))

        def train(which, optimizer=optimizer):
            optimizer.zero_grad()
            sum((t * t).sum() for t in which).backward()
            optimizer.step()

        step = mode(train)
        step([p])
        assert list(optimizer.state) == [p], name
        assert list(optimizer.state_dict()["state"]) == [0], name
        step([p, q])
        assert set(optimizer.state) == {p, q}, name
        assert q.tolist() != [1.0, 1.0], name


def test_a_loaded_state_is_made_of_the_tensors_given():
    def trained(dtype=jtorch.float32):
        p = jtorch.ones(2, dtype=dtype, requires_grad=True)
        optimizer = jtorch.optim.Adam([p], lr=0.1)
        p.sum().backward()
        optimizer.step()
        return p, optimizer

    p, optimizer = trained()
    state = optimizer.state_dict()
    other_p, other = trained()
    other.load_state_dict(state)
    assert other.state[other_p] is not state["state"][0]
    assert all(other.state[other_p][name] is value for name, value in state["state"][0].items())
    other.step()  # which counts in both, as in PyTorch
    assert optimizer.state[p]["step"].item() == 2
    wide_p, wide = trained(jtorch.float64)
    wide.load_state_dict(state)
    assert wide.state[wide_p]["exp_avg"].dtype == jtorch.float64
    assert wide.state[wide_p]["step"] is state["state"][0]["step"]
    wide.param_groups[0]["betas"] = (0.0, 0.0)
    assert optimizer.param_groups[0]["betas"] == (0.9, 0.999)


BY_HAND = [  # what was in range when the optimizer was made, and what is set later; both modes, and PyTorch
    *[(name, {"betas": (1.0, 0.9)}, ZeroDivisionError) for name in ("Adam", "AdamW", "Adamax")],
    *[(name, {"betas": (0.9, 1.5)}, RuntimeError) for name in ("Adam", "AdamW")],
    ("RAdam", {"betas": (0.9, 1.0)}, ZeroDivisionError),
    ("Adafactor", {"d": 0.0}, ZeroDivisionError),
    *[(name, {"betas": (1.0, 0.9)}, None) for name in ("NAdam", "RAdam")],
    *[(name, {"betas": (0.9, 1.0)}, None) for name in ("Adam", "Adamax", "NAdam")],
]


def _step_of(library, name, compiled):
    w = library.tensor([[1.0, -2.0]], requires_grad=True)
    optimizer = getattr(library.optim, name)([w], lr=0.125, weight_decay=0.0)

    def step():
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()

    return w, optimizer, library.compile(step) if compiled else step


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["eager", "compiled", "torch"])
def test_numbers_set_by_hand_are_looked_at_at_each_step(mode):
    library = pytest.importorskip("torch") if mode == "torch" else jtorch
    for name, options, error in BY_HAND:
        w, optimizer, step = _step_of(library, name, mode == "compiled")
        group = optimizer.param_groups[0]
        usual = {key: group[key] for key in options}
        for betas in ((0.8, 0.9), (0.75, 0.5)):
            group.update({"betas": betas} if "betas" in options else {})
            step()
        before = w.tolist()
        group.update(options)
        if error is None:
            step()
            continue
        with pytest.raises(error):
            step()
        assert w.tolist() == before, name
        group.update(usual)
        step()
        assert w.tolist() != before, name


def test_nothing_is_divided_where_nothing_is_updated():
    w, optimizer, _ = _step_of(jtorch, "Adam", False)
    optimizer.param_groups[0]["betas"] = (1.0, 0.9)
    optimizer.step()  # no gradient
    assert w.tolist() == [[1.0, -2.0]]


@pytest.mark.parametrize("name", ["Adam", "RMSprop", "Adadelta", "Rprop", "NAdam", "Adagrad"])
def test_a_state_that_is_emptied_begins_anew(torch, name):
    def weights(module):
        w = module.nn.Parameter(module.ones(2))
        optimizer = getattr(module.optim, name)([w], 0.1)
        for k in range(4):
            w.grad = module.full((2,), k + 1.0)
            optimizer.step()
            if k == 1 and name != "Adagrad":  # which makes its state when it is made
                optimizer.state.clear()
                assert optimizer.state[w] == {}
        return w.tolist()

    assert weights(jtorch) == pytest.approx(weights(torch), rel=1e-5)
