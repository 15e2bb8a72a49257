"""Users' own optimizers: subclasses that step around the library's, or make their state as they step."""

import copy
from pathlib import Path

import pytest

import jtorch
from jtorch import nn
from jtorch.core.errors import CompileError


class Around(jtorch.optim.SGD):
    def __init__(self, params, lr):
        super().__init__(params, lr, momentum=0.9)
        self.steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)


class _Momentum(jtorch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @jtorch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.one(p, group)


class BySubscript(_Momentum):
    def one(self, p, group):
        state = self.state[p]
        if not state:
            state["m"] = jtorch.zeros_like(p)
            state["t"] = 0
        state["t"] += 1
        state["m"].mul_(0.9).add_(p.grad)
        p.sub_(state["m"], alpha=group["lr"] / state["t"])


class ByLength(_Momentum):
    def one(self, p, group):
        if len(self.state[p]) == 0:
            self.state[p]["m"] = p.grad.clone()
        else:
            self.state[p]["m"].mul_(0.9).add_(p.grad)
        p.sub_(self.state[p]["m"] * group["lr"])


class ByMembership(_Momentum):
    def one(self, p, group):
        if p not in self.state:
            self.state[p] = {"m": jtorch.zeros_like(p), "kind": "plain"}
        self.state[p]["m"].mul_(0.9).add_(p.grad)
        p.sub_(self.state[p]["m"] * group["lr"])


class ByKey(_Momentum):
    def one(self, p, group):
        if "m" not in self.state[p]:
            self.state[p]["m"] = jtorch.zeros_like(p)
        self.state[p]["m"].mul_(0.9).add_(p.grad)
        p.sub_(self.state[p]["m"] * group["lr"])


def _content(optimizer, model):
    return [
        {k: v.tolist() if isinstance(v, jtorch.Tensor) else v for k, v in optimizer.state[p].items()}
        for p in model.parameters()
        if p in optimizer.state
    ]


@pytest.mark.parametrize("cls", [Around, BySubscript, ByLength, ByMembership, ByKey])
def test_steps_are_those_of_eager_mode(cls):
    def train(compile):
        jtorch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
        optimizer = cls(model.parameters(), lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        x, found = jtorch.linspace(-1, 1, 6).reshape(2, 3), []
        for k in range(7):
            if k == 4:
                saved = copy.deepcopy(optimizer.state_dict())
            if k == 6:
                optimizer.load_state_dict(saved)
            found.append((step(x).item(), model[0].weight.tolist(), _content(optimizer, model)))
        return found, step

    expected, _ = train(lambda f: f)
    found, compiled = train(jtorch.compile)
    assert len(found) == len(expected)
    for (loss, weight, state), (a_loss, a_weight, a_state) in zip(found, expected, strict=True):
        assert loss == pytest.approx(a_loss, rel=1e-5)
        for row, a_row in zip(weight, a_weight, strict=True):
            assert row == pytest.approx(a_row, rel=1e-5)
        assert [sorted(s) for s in state] == [sorted(s) for s in a_state]
        assert [s.get("t") for s in state] == [s.get("t") for s in a_state]
    assert sum(map(len, compiled.plans.values())) <= 3


def test_a_step_that_cannot_be_recorded_leaves_the_state_as_it_was():
    p = nn.Parameter(jtorch.ones(2))
    optimizer = ByKey([p], lr=0.1)

    @jtorch.compile
    def step():
        p.sum().backward()
        optimizer.step()
        Path("nowhere").exists()

    step()  # which makes state, in eager mode
    before, p.grad = repr(_content(optimizer, nn.ParameterList([p]))), None
    with pytest.raises(CompileError, match="exists"):
        step()
    assert repr(_content(optimizer, nn.ParameterList([p]))) == before
    assert p.grad is None


ASKS = {
    "its length": lambda state: len(state), "its truth": lambda state: bool(state),
    "an entry": lambda state: state.get("step") is None, "nothing": lambda state: 0,
}  # fmt: skip


@pytest.mark.parametrize("first", [False, True], ids=["at once", "after a count"])
@pytest.mark.parametrize("ask", ASKS)
@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD", "RMSprop", "Adadelta", "Adagrad", "Rprop", "NAdam"])
def test_state_that_is_asked_for_before_the_first_step_is_made_once(kind, ask, first):
    def trained(wrap):
        w, counts = nn.Parameter(jtorch.ones(2)), {"n": 0}
        options = {"momentum": 0.9} if kind == "SGD" else {}
        optimizer = getattr(jtorch.optim, kind)([w], 0.1, **options)

        @wrap
        def step(x):
            if first:
                counts["n"] += 1
            found = ASKS[ask](optimizer.state[w])
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            return found

        for _ in range(4):
            yield step(jtorch.ones(2)), sorted(optimizer.state[w]), counts["n"], w.tolist()
            yield sorted(optimizer.state_dict()["state"])

    for found, expected in zip(trained(jtorch.compile), trained(lambda f: f), strict=True):
        assert str(found) == str(expected)


class Lookahead:
    def __init__(self, optimizer):
        self.optimizer, self.n = optimizer, 0

    def __getattr__(self, name):
        return getattr(self.__dict__["optimizer"], name)

    def step(self):
        self.optimizer.step()
        self.n += 1
        if self.n == 2:
            self.n = 0
            for group in self.param_groups:
                for p in group["params"]:
                    p.detach().mul_(0.5)


def test_a_wrapper_that_passes_on_what_it_lacks():
    def train(compile):
        p = nn.Parameter(jtorch.ones(2))
        optimizer, found = Lookahead(jtorch.optim.SGD([p], lr=0.1)), []

        @compile
        def step():
            optimizer.zero_grad()
            (p * p).sum().backward()
            optimizer.step()

        for _ in range(5):
            step()
            found += [*p.tolist(), optimizer.n]
        return found

    assert train(jtorch.compile) == pytest.approx(train(lambda f: f))


def test_parameters_without_axes_that_have_gradients():
    def run(compiled):
        a, b = (nn.Parameter(jtorch.tensor(v)) for v in (0.5, -1.0))
        optimizer = jtorch.optim.SGD([a, b], lr=0.1, momentum=0.9)

        def step(x, both):
            loss = (a - x) ** 2 + ((b - x) ** 2 if both else 0.0)
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = jtorch.compile(step) if compiled else step
        found = []
        for both in (True, True, False, False, True):
            loss = step(jtorch.tensor(2.0), both)
            found += [v.tolist() for v in (loss, a, b, a.grad, b.grad)]
        return found

    assert run(True) == pytest.approx(run(False))


class ByCorrection(_Momentum):
    def __init__(self, params, lr):
        jtorch.optim.Optimizer.__init__(self, params, {"lr": lr, "beta": 0.5})

    def one(self, p, group):
        p.sub_(p.grad, alpha=group["lr"] / (1.0 - group["beta"]))


def test_a_division_by_a_number_of_a_group_is_looked_at_at_each_step():
    found = []
    for wrap in (lambda f: f, jtorch.compile):
        w = jtorch.tensor([1.0, -2.0], requires_grad=True)
        optimizer = ByCorrection([w], 0.125)

        def step(w=w, optimizer=optimizer):
            w.grad = None
            (w * w).sum().backward()
            optimizer.step()

        step = wrap(step)
        for beta in (0.5, 0.25, 1.0, 0.75):
            optimizer.param_groups[0]["beta"] = beta
            if beta == 1.0:
                with pytest.raises(ZeroDivisionError):
                    step()
            else:
                step()
        found.append(w.tolist())
    assert found[0] == found[1]
