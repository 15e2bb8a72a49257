"""Calls that fail: what a program can see then is what eager mode leaves, or for failures of the machine what
was there before; and the next good call works.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import inspect
import re
import sys
import traceback
import warnings
import weakref

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
import jtorch.nn.functional as F
from jtorch.compile import pipeline
from jtorch.compile.graph import finalise
from jtorch.compile.observe.guards import ContentsRead, contents
from jtorch.compile.observe.reading import became
from jtorch.compile.run import arena, compiled
from jtorch.core.errors import CompileError
from jtorch.core.generator import default_generator
from jtorch.native import cache


class Training:
    """A step with parameters, buffers, momenta, dropout and a counter; its loss contains ``fault(extra)``."""

    def __init__(self, fault=None):
        jtorch.manual_seed(0)
        layer = nn.Linear(4, 6, bias=False)  # whose gradient the normalisation would make noise
        self.model = nn.Sequential(layer, nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
        self.optimizer = jtorch.optim.Adam(self.model.parameters(), lr=0.01)
        self.seen = jtorch.zeros(3)
        optimizer, model, seen = self.optimizer, self.model, self.seen

        def step(x, y, extra):
            optimizer.zero_grad()
            h = model(x)
            loss = F.cross_entropy(h, y)
            if fault is not None:
                loss = loss + fault(extra)
            loss.backward()
            optimizer.step()
            with jtorch.no_grad():
                seen.add_(h.detach().sum(0))
            return loss

        self.step = step

    def state(self):
        """All that the program can see, by name."""
        found = {f"model {k}": v.numpy().copy() for k, v in self.model.state_dict().items()}
        for k, p in self.model.named_parameters():
            found[f"gradient {k}"] = None if p.grad is None else p.grad.numpy().copy()
            found[f"version {k}"] = p._version
        for k, facts in self.optimizer.state_dict()["state"].items():
            found |= {f"state {k} {name}": np.array(value) for name, value in facts.items()}
        found["seen"], found["seen version"] = self.seen.numpy().copy(), self.seen._version
        found["generator"] = default_generator.position()
        return found


def assert_state(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(found[name], value, err_msg=name)
        else:
            assert found[name] == value, name


def batch(seed=0, rows=5):
    rng = np.random.default_rng(seed)
    x = jtorch.from_numpy(rng.standard_normal((rows, 4)).astype(np.float32))
    return x, jtorch.from_numpy(rng.integers(0, 3, rows)), jtorch.tensor([1, 2, 2])


def assert_like_eager(training, step, fault=None, calls=2):
    """The next calls of ``step`` equal those of an eager twin that is in the same state."""
    twin = Training(fault)
    twin.model.load_state_dict(training.model.state_dict())
    twin.optimizer.load_state_dict(copy.deepcopy(training.optimizer.state_dict()))
    twin.seen.copy_(training.seen)
    position = default_generator.position()
    losses = {}
    for name, run in (("compiled", step), ("eager", twin.step)):
        default_generator.move_to(position)
        losses[name] = [run(*batch(10 + k)).item() for k in range(calls)]
    np.testing.assert_allclose(losses["compiled"], losses["eager"], rtol=2e-5)
    for a, b in zip(training.model.state_dict().values(), twin.model.state_dict().values(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-6)
    for p, q in zip(training.model.parameters(), twin.model.parameters(), strict=True):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=2e-3, atol=2e-6)
    np.testing.assert_allclose(training.seen.numpy(), twin.seen.numpy(), rtol=2e-4, atol=1e-5)


def line_of(function, text):
    lines, first = inspect.getsourcelines(function)
    (at,) = [first + k for k, line in enumerate(lines) if text in line]
    return f"test_failure.py:{at}"


# -- what data can do wrong ------------------------------------------------------------------


def _bad_target(target):
    x, y, extra = batch()
    y[2] = target
    return x, y, extra


def _bad_extra(*values):
    x, y, _ = batch()
    return x, y, jtorch.tensor(values)


TABLE = jtorch.arange(4.0)


def _read(extra):
    return TABLE[extra].sum() * 0.0


def _divide(extra):
    return (7 // extra).sum() * 0.0


def _invert(extra):
    return jtorch.linalg.inv(jtorch.diag(extra.float())).sum() * 0.0


def _decompose(extra):
    return jtorch.linalg.cholesky(jtorch.diag(extra.float())).sum() * 0.0


def _assert(extra):
    if extra.sum() > 50:
        raise KeyError("the user's own")
    return extra.sum() * 0.0


def _scatter(extra):
    out = jtorch.zeros(4)
    out[extra] = 1.0
    return out.sum() * 0.0


OUT = r"out of (range|bounds)"
FAULTS = {
    "a target too large": (None, _bad_target(3), IndexError, OUT),
    "a negative target": (None, _bad_target(-7), IndexError, OUT),
    "an index out of range": (_read, _bad_extra(0, 4, 1), IndexError, OUT),
    "a write out of range": (_scatter, _bad_extra(0, 4, 1), IndexError, OUT),
    "an integer division by zero": (_divide, _bad_extra(1, 0, 1), RuntimeError, "(?i)zero"),
    "a singular matrix": (_invert, _bad_extra(1, 0, 1), RuntimeError, "singular"),
    "a matrix that is not positive": (_decompose, _bad_extra(1, -1, 1), RuntimeError, "positive-definite"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("warm", [True, False], ids=["after good calls", "first call"])
def test_a_step_that_fails_keeps_what_was_done_before_it(name, warm):
    fault, bad, error, words = FAULTS[name]
    states, texts = [], []
    for wrap in (lambda step: step, jtorch.compile):
        training = Training(fault)
        step = wrap(training.step)
        for k in range(2 * warm):
            step(*batch(k))
        for _ in range(2):
            with pytest.raises(error, match=words) as raised:
                step(*bad)
            states.append(training.state())
            texts.append((type(raised.value), str(raised.value)))
    for (kind, text), (other, more) in zip(texts[:2], texts[2:], strict=True):
        assert kind is other and more.startswith(f"{text} (at ")
    for expected, found in zip(states[:2], states[2:], strict=True):
        assert_near(found, expected)
    step(*batch(5))
    assert_like_eager(training, step, fault)


def assert_near(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-6, err_msg=name)
        elif "version" not in name:
            assert found[name] == value, name


@pytest.mark.parametrize("options", [{}, {"mode": "interpret"}, {"verify": "first"}, {"verify": "every:1"}])
def test_a_failing_check_does_everything_outside_once(options):
    found = []
    for wrap in (lambda f: f, lambda f: jtorch.compile(f, **options)):
        jtorch.manual_seed(0)
        n, w, log, state = jtorch.zeros(1), jtorch.ones(2, requires_grad=True), [], {"n": 0}

        def f(i, n=n, w=w, log=log, state=state):
            n.add_(1)
            state["n"] += 1
            log.append(state["n"])
            kept = jtorch.rand(2)
            (w * 2).sum().backward()
            y = w.detach().gather(0, i) + kept[:1]
            n.add_(10)
            return y

        f = wrap(f)
        for i in (0, 5, 1, -3, 1):
            try:
                found.append(f(jtorch.tensor([i])).tolist())
            except RuntimeError as error:
                found.append((type(error), str(error).partition(" (at ")[0]))
            found.append((n.item(), w.grad.tolist(), list(log), dict(state), jtorch.rand(1).item()))
    half = len(found) // 2
    assert found[half:] == found[:half]


@pytest.mark.parametrize("call", [
    lambda w, i: w.gather(0, i[None]), lambda w, i: w.scatter(0, i[None], 5.0),
    lambda w, i: w.scatter_add(0, i[None], w), lambda w, i: w.index_add(0, i, w[:2]),
    lambda w, i: jtorch.take_along_dim(w, i[None], 0), lambda w, i: F.multi_margin_loss(w[:2], i),
    lambda w, i: F.embedding_bag(i[None], w), lambda w, i: w[i], lambda w, i: F.nll_loss(w[:2], i),
    lambda w, i: jtorch.quantile(w, i[0] * 0.5),
])  # fmt: skip
def test_a_failing_check_raises_the_class_of_eager_mode_and_its_text_with_the_line(call):
    w = jtorch.arange(6.0).view(3, 2)
    compiled_call, told = jtorch.compile(call), []
    compiled_call(w, jtorch.tensor([0, 1]))
    for f in (call, compiled_call):
        with pytest.raises((RuntimeError, IndexError)) as raised:
            f(w, jtorch.tensor([3, 0]))
        told.append((type(raised.value), str(raised.value)))
    (kind, text), (other, more) = told
    assert kind is other
    assert re.fullmatch(rf"{re.escape(text)} \(at .*test_failure\.py:\d+ in .*\)", more)


def test_after_a_disabled_callee_a_failing_check_undoes_the_call():
    n, calls = jtorch.zeros(1), []

    @jtorch.compiler.disable
    def count(x):
        calls.append(1)
        return x * 1

    @jtorch.compile
    def f(a, b):
        n.add_(1)
        return count(a) // b

    f(jtorch.tensor([4]), jtorch.tensor([2]))
    with pytest.raises(RuntimeError, match="zero"):
        f(jtorch.tensor([4]), jtorch.tensor([0]))
    assert (len(calls), n.item()) == (2, 1.0)


@pytest.mark.parametrize("warm", [True, False], ids=["after good calls", "first call"])
def test_the_user_s_exception_keeps_what_was_done_before_it(warm):
    """As in eager mode: the draws of dropout, and what the step counted."""
    states = []
    for wrap in (jtorch.compile, lambda step: step):
        jtorch.manual_seed(4)
        training = Training(_assert)
        step = wrap(training.step)
        for k in range(2 * warm):
            step(*batch(k))
        for _ in range(2):
            with pytest.raises(KeyError, match="the user's own"):
                step(*_bad_extra(50, 1, 1))
        step(*batch(5))
        states.append(training.state())
    found, expected = states
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_allclose(found[name], value, rtol=2e-3, atol=2e-6, err_msg=name)


def test_the_error_names_the_line_and_is_eagers_kind():
    """Eager mode raises the same class; the compiled error adds where."""
    for fault, bad, error, words in FAULTS.values():
        with pytest.raises((error, ValueError), match=words):
            Training(fault).step(*bad)
    step = jtorch.compile(Training(_read).step)
    step(*batch())
    with pytest.raises(IndexError, match=line_of(_read, "TABLE[extra]")) as raised:
        step(*_bad_extra(0, 4, 1))
    assert "FailedCheck" not in "".join(traceback.format_exception(raised.value))


# -- what the machine or the user can do ------------------------------------------------------------------


def _raiser(error):
    def fail(*args, **kwargs):
        raise error

    return fail


STAGES = {
    "the arena": (arena, "allocate", MemoryError),
    "the passes": (finalise, "optimise", KeyboardInterrupt),
    "fusing": (pipeline, "fuse", MemoryError),
    "a kernel": (cache, "_get_all", KeyboardInterrupt),
    "the way in": (compiled.caller, "make", KeyboardInterrupt),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("warm", [True, False], ids=["a new shape", "first call"])
def test_compiling_is_cut_short(stage, warm, monkeypatch):
    training = Training()
    step = jtorch.compile(training.step)
    if warm:
        step(*batch(1))
    before = training.state()
    module, name, error = STAGES[stage]
    with monkeypatch.context() as patch:
        patch.setattr(module, name, _raiser(error))
        for _ in range(2):
            with pytest.raises(error):
                step(*batch(2, rows=7))
    assert_state(training.state(), before)
    step(*batch(2, rows=7))
    assert_like_eager(training, step)


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, SystemExit])
@pytest.mark.parametrize("place", ["forward", "backward", "optimizer"])
def test_tracing_is_cut_short(error, place, monkeypatch):
    """At each call of a method that the trace goes through."""
    training = Training()
    step = jtorch.compile(training.step)
    owner, name = {
        "forward": (nn.Dropout, "forward"),
        "backward": (jtorch.Tensor, "backward"),
        "optimizer": (jtorch.optim.Adam, "step"),
    }[place]
    original = getattr(owner, name)

    def interrupted(*args, **kwargs):
        original(*args, **kwargs)
        raise error

    before = training.state()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, interrupted)
        with pytest.raises(error):
            step(*batch(2))
    found = training.state()  # the state that an optimizer makes on its first step may be there
    assert_state({k: v for k, v in found.items() if k in before}, before)
    assert all(not np.any(v) for k, v in found.items() if k not in before)
    assert sys.gettrace() is None or "coverage" in str(sys.gettrace())
    step(*batch(2))
    assert_like_eager(training, step)


def test_an_interrupt_anywhere_in_the_trace_leaves_everything():
    """Raised by the watched function itself, at each of its lines in turn."""
    jtorch.manual_seed(3)
    w, total = jtorch.ones(3, requires_grad=True), jtorch.zeros(3)
    optimizer = jtorch.optim.SGD([w], lr=0.5, momentum=0.9)
    stop = [None]

    def at(k):
        if stop[0] == k:
            raise KeyboardInterrupt

    def step(x):
        at(0)
        optimizer.zero_grad()
        at(1)
        loss = (w * x * jtorch.rand(3)).sum()
        at(2)
        loss.backward()
        at(3)
        optimizer.step()
        at(4)
        total.add_(w.detach())
        at(5)
        with jtorch.no_grad():
            w.mul_(0.5)
            at(6)
        return loss

    f = jtorch.compile(step)
    x = jtorch.tensor([1.0, 2.0, 3.0])

    def everything():
        return [
            w.tolist(), w._version, None if w.grad is None else w.grad.tolist(), total.tolist(),
            total._version, default_generator.position(), w.grad_fn, total.requires_grad,
            jtorch.is_grad_enabled(),
        ]  # fmt: skip

    f(x)
    w.grad = jtorch.full((3,), 4.0)
    for k in range(7):
        stop[0] = k
        before = everything()
        with pytest.raises(KeyboardInterrupt):
            f(x)
        assert everything() == before, k
    stop[0] = None
    assert sum(map(len, f.plans.values())) == 1
    f(x)
    assert sum(map(len, f.plans.values())) == 1


def test_no_memory_for_a_new_gradient_keeps_the_old_ones(monkeypatch):
    """The buffer of a gradient that somebody holds is replaced before the replay."""
    training = Training()
    step = jtorch.compile(training.step)
    for k in range(2):
        step(*batch(k))
    before = training.state()  # reading the gradients hands all of their buffers out
    original, left = np.copy, [2]

    def copy(*args, **kwargs):
        left[0] -= 1
        if left[0] < 0:
            raise MemoryError
        return original(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(np, "copy", copy)
        with pytest.raises(MemoryError):
            step(*batch(2))
    assert_state(training.state(), before)
    step(*batch(2))
    assert_like_eager(training, step)


def test_no_memory_for_a_result(monkeypatch):
    training = Training()
    step = jtorch.compile(training.step)
    step(*batch())
    before = training.state()
    names = step._latest.call.__globals__
    with monkeypatch.context() as patch:
        patch.setitem(names, "empty", _raiser(MemoryError))
        with pytest.raises(MemoryError):
            step(*batch(1))
    assert_state(training.state(), before)
    step(*batch(2))
    assert_like_eager(training, step)


# -- branches, library calls, backward outside ------------------------------------------------------


def test_an_unseen_branch_after_part_of_the_plan_ran_starts_again():
    """The part that ran drew random numbers, inverted a matrix and computed new parameters."""

    def make():
        jtorch.manual_seed(1)
        w, seen = jtorch.ones(3, requires_grad=True), jtorch.zeros(3)
        optimizer = jtorch.optim.Adam([w], lr=0.1)

        def step(x):
            optimizer.zero_grad()
            noise = jtorch.rand(3)
            inverse = jtorch.linalg.inv(jtorch.diag(x + noise))
            seen.add_(noise)
            loss = (w * x).pow(2).sum() + inverse.sum()
            loss.backward()
            optimizer.step()
            if w.sum() > 2.4:
                return loss
            elif noise[0] > 0.5:
                seen.mul_(2.0)
            return loss * 2 + jtorch.rand(3).sum()

        return w, seen, step

    results = []
    for wrap in (lambda f: f, jtorch.compile):
        w, seen, step = make()
        step = wrap(step)
        losses = [step(jtorch.full((3,), float(k % 3 + 1))).item() for k in range(10)]
        results.append((losses, w.tolist(), seen.tolist(), w.grad.tolist(), default_generator.position()))
    assert results[0][4] == results[1][4]
    for a, b in zip(results[0][:4], results[1][:4], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_branch_that_raises_is_raised_each_time_and_keeps_what_was_done():
    seen = jtorch.zeros(1)

    def f(x):
        seen.add_(1.0)
        if x.sum() > 0:
            raise ValueError("positive")
        return x * 2

    f = jtorch.compile(f)
    for value, good in ((-1.0, True), (1.0, False), (1.0, False), (-2.0, True), (3.0, False)):
        if good:
            assert f(jtorch.tensor([value])).tolist() == [2 * value]
        else:
            version = seen._version
            with pytest.raises(ValueError, match="positive"):
                f(jtorch.tensor([value]))
            assert seen._version == version + 1
    assert seen.tolist() == [5.0]


def test_backward_outside_fails_and_the_next_one_works(monkeypatch):
    w = jtorch.ones(3, requires_grad=True)
    f = jtorch.compile(lambda x: (w * x).exp().sum())
    x = jtorch.tensor([1.0, 2.0, 3.0])
    with monkeypatch.context() as patch:
        patch.setattr(arena, "allocate", _raiser(MemoryError))
        with pytest.raises(MemoryError):
            f(x)
    loss = f(x)
    with monkeypatch.context() as patch:
        patch.setattr(arena, "allocate", _raiser(MemoryError))
        with pytest.raises(MemoryError):
            loss.backward()
    assert w.grad is None
    f(x).backward()
    np.testing.assert_allclose(w.grad.numpy(), x.numpy() * np.exp(x.numpy()), rtol=1e-6)


def test_a_refusal_leaves_everything_as_it_was():
    """What cannot be recorded is found after the whole function ran on traced values."""
    w, other = jtorch.ones(3, requires_grad=True), jtorch.zeros(3)

    def step(x):
        (w * x).sum().backward()
        other.add_(w.grad)
        jtorch.seed()
        return x

    f = jtorch.compile(step)
    versions = w._version, other._version
    with pytest.raises(CompileError, match="takes a seed from the system"):
        f(jtorch.ones(3))
    assert w.grad is None and other.tolist() == [0.0] * 3 and (w._version, other._version) == versions
    other.add_(1.0)
    assert other.tolist() == [1.0] * 3


def _interrupting(run, when):
    """``run`` with Ctrl-C before it, or when it has ended and its status is not yet known."""

    def interrupted(*arguments):
        if when == "after":
            run(*arguments)
        raise KeyboardInterrupt

    return interrupted


@pytest.mark.parametrize("mode", ["default", "interpret"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupted_replay_is_done_whole_or_not_at_all(when, mode):
    w, total, log, state = jtorch.ones(3, requires_grad=True), jtorch.zeros(3), [], {"n": 0}

    def step(x):
        loss = (w * x * jtorch.rand(3)).sum()
        loss.backward()
        total.add_(1)
        state["n"] += 1
        log.append(loss.item())
        return loss

    def everything():
        return [
            w.grad.tolist(), w.grad._version, total.tolist(), total._version, state["n"], [*log],
            default_generator.position(), f.calls,
        ]  # fmt: skip

    def run(function, calls):
        jtorch.manual_seed(1)
        w.grad = None
        total.zero_()
        state["n"] = 0
        log.clear()
        for _ in range(calls):
            function(x)
        return everything()

    f = jtorch.compile(step, mode=mode)
    x = jtorch.tensor([1.0, 2.0, 3.0])
    f(x)
    whole, counted = run(f, 3), f.calls
    run(f, 2)
    names = f._newest().call.__globals__
    real = names["run"]
    before = everything()
    names["run"] = _interrupting(real, when)
    with pytest.raises(KeyboardInterrupt):
        f(x)
    names["run"] = real
    if when == "before":
        assert everything() == before
        f(x)
    found = everything()
    for k in (0, 2, 4, 5, 6):
        assert found[k] == whole[k], k
    assert f.calls == counted + 3


def test_two_questions_of_one_argument_after_a_change_of_a_module():
    """What an argument was asked is part of what a plan is, not only that it was asked."""
    module = nn.Linear(1, 1)
    f = jtorch.compile(lambda x: x * x.tag)
    x, y = jtorch.ones(1), jtorch.ones(1)
    x.tag, y.tag = 2, 3
    assert f(x).tolist() == [2.0]
    module.eval()
    assert (f(y).tolist(), f(x).tolist()) == ([3.0], [2.0])


def test_the_version_of_an_argument_after_it_was_changed():
    def step(x):
        x.add_(1)
        return x * x._version

    x, y = jtorch.zeros(2), jtorch.zeros(2)
    f = jtorch.compile(step)
    for _ in range(3):
        assert f(x).tolist() == step(y).tolist()


def _caught(act, x):
    try:
        return act(x)
    except Exception:
        return x * 0


def _caught_bare(act, x):
    try:
        return act(x)
    except:  # noqa: E722
        return x * 0


def _suppressed(act, x):
    with contextlib.suppress(BaseException):
        return act(x)
    return x * 0


with warnings.catch_warnings():  # from CPython 3.14 on it is one (PEP 765)
    warnings.simplefilter("ignore", SyntaxWarning)
    _TEXT = "def _returned_over(act, x):\n    try: return act(x)\n    finally: return x * 0\n"
    exec(compile(_TEXT, __file__, "exec"), _MADE := {"__name__": __name__})
_returned_over = _MADE["_returned_over"]


def _raised_over(act, x):
    try:
        return act(x)
    except BaseException:
        raise KeyError("another") from None


class _Swallow:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return True


def _swallowed_on_exit(act, x):
    with _Swallow():
        return act(x)
    return x * 0


SWALLOWING = [_caught, _caught_bare, _suppressed, _returned_over, _raised_over, _swallowed_on_exit]


@jtorch.compiler.disable
def _aside(x):
    return x + 1


W, SEEN = jtorch.ones(1), set()


def _rebind(x):
    W.data = x
    return x


def _add_to_set(x):
    SEEN.add(1)
    return x


def _branch_after_a_callee(x):
    y = _aside(x)
    return y if y.sum() > 0 else x


REFUSED = {
    "int": lambda x: x * int(x.sum().item()),
    "tolist": lambda x: x * x.repeat(20).tolist()[0],
    "numpy": lambda x: x * float(np.sort(x.numpy())[0]),
    "a write to an array": lambda x: x.numpy().__setitem__(0, 1.0) or x,
    "a text": lambda x: x * len(f"{x.sum().item()}"),
    "other memory": _rebind,
    "a set": _add_to_set,
    "a branch after a callee": _branch_after_a_callee,
}


@pytest.mark.parametrize("swallowing", SWALLOWING)
@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_that_the_function_catches_is_raised_all_the_same(name, swallowing):
    f = jtorch.compile(lambda x: swallowing(REFUSED[name], x))
    for _ in range(2):
        with pytest.raises(CompileError, match=r"test_failure.py:\d+"):
            f(jtorch.ones(1))
    assert not any(f.plans.values())


@pytest.mark.parametrize("swallowing", [_caught_bare, _suppressed, _swallowed_on_exit])
def test_recording_once_more_is_no_exception_that_the_function_can_catch(swallowing):
    """For a number that becomes an input, and an argument that the function also holds."""
    w, state = jtorch.ones(1), {"n": 0}

    def count(x):
        state["n"] += 1
        return x * state["n"]

    f = jtorch.compile(lambda x: swallowing(count, x))
    assert [f(w).tolist() for _ in range(3)] == [[1.0], [2.0], [3.0]]
    f = jtorch.compile(lambda x: swallowing(lambda x: x * 2 if x is w else x * 3, x))
    assert [f(x).tolist() for x in (w, jtorch.ones(1), w)] == [[2.0], [3.0], [2.0]]


def test_what_runs_on_the_way_out_is_recorded_and_undone():
    """A ``finally`` and an ``__exit__`` run once for each call, however often the function is recorded."""

    class Timer:
        total = 0

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.total = self.total + 1

    timer, state, log, w = Timer(), {"n": 0, "m": 0}, [], jtorch.ones(1)

    def step(x):
        try:
            with timer:
                state["n"] += 1
            with timer:
                state["m"] += 1
            return x * 2 if x is w else x * 3
        finally:
            log.append(state["n"])

    f = jtorch.compile(step)
    for _ in range(3):
        f(w)
    assert (timer.total, state, log) == (6, {"n": 3, "m": 3}, [1, 2, 3])


def test_nothing_is_done_on_the_way_out_of_a_refusal():
    seen, log = set(), []

    def step(x):
        try:
            seen.add(1)
        finally:
            log.append(1.0)
        return x

    with pytest.raises(CompileError, match="changes the entries of a set"):
        jtorch.compile(step)(jtorch.ones(1))
    assert (seen, log) == (set(), [])


def test_a_callee_that_catches_a_refusal_has_not_obeyed_it():
    w = jtorch.ones(1)

    @jtorch.compiler.disable
    def careless(x):
        with contextlib.suppress(RuntimeError):
            w.add_(1)

    def step(x):
        careless(x)
        return x * w

    with pytest.raises(CompileError, match="changes a tensor that the compiled function uses"):
        jtorch.compile(step)(jtorch.ones(1))


def test_a_key_without_a_hash_is_the_functions_own_error():
    class Key:
        def __hash__(self):
            raise KeyError("no hash")

    table, key = {}, Key()

    def step(x):
        try:
            return x * table[key]
        except KeyError:
            return x * 0

    assert jtorch.compile(step)(jtorch.ones(1)).tolist() == step(jtorch.ones(1)).tolist() == [0.0]


def test_an_interrupt_after_a_refusal_is_an_interrupt():
    def step(x):
        with contextlib.suppress(RuntimeError):
            x.tolist()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        jtorch.compile(step)(jtorch.ones(1))


def test_a_refusal_takes_back_what_the_library_changed():
    layers, state = nn.ModuleList([nn.ReLU()]), {"n": 0}

    def step(x):
        layers.append(nn.ReLU())
        state["n"] += 1  # records anew
        return x * x.repeat(20).tolist()[0]

    with pytest.raises(CompileError, match="tolist"):
        jtorch.compile(step)(jtorch.ones(1))
    assert len(layers) == 1 and state == {"n": 0}


class _LossError(Exception):
    def __init__(self, loss, **facts):
        super().__init__(loss)
        self.loss, self.facts = loss, facts


def test_an_exception_holds_what_was_computed():
    """The number, the tensor: not what stood for them while the function was recorded."""

    def step(x):
        error = _LossError(x.sum().item(), doubled=x * 2, more=[x.sum().item(), "text"])
        error.x = x
        raise error

    f = jtorch.compile(step)
    for k in (1.0, 2.0):
        x = jtorch.ones(2) * k
        with pytest.raises(_LossError) as raised:
            f(x)
        error = raised.value
        assert (error.args, error.loss, error.facts["more"]) == ((2 * k,), 2 * k, [2 * k, "text"])
        assert all(type(n) is float for n in (*error.args, error.loss, error.facts["more"][0]))
        assert error.facts["doubled"].tolist() == [2 * k] * 2 and error.x is x


def test_the_cause_of_an_exception_holds_nothing_that_was_computed():
    def step(x):
        try:
            raise ValueError(x.sum().item())
        except ValueError as error:
            raise KeyError("mine") from error

    with pytest.raises(CompileError, match="raises KeyError from ValueError, which holds what it computed"):
        jtorch.compile(step)(jtorch.ones(1))


def test_an_exception_after_what_no_replay_accepts_is_told():
    def step(x):
        x.add_(1)
        if x._version >= 0:
            raise ValueError("mine")

    x = jtorch.ones(1)
    with pytest.raises((CompileError, ValueError)) as raised:
        jtorch.compile(step)(x)
    # either the exception and what was done before it, or neither
    assert x.tolist() == ([2.0] if raised.type is ValueError else [1.0])


class CarryingError(Exception):
    def __init__(self, value, *more):
        super().__init__(value, *more)
        self.value = value


@pytest.mark.parametrize("by", ["number", "tensor", "item", "attribute"])
def test_what_an_exception_holds_is_that_of_the_call(by):
    def f(x, k):
        y = x * k
        if by == "number":
            raise CarryingError(k)
        if by == "item":
            raise CarryingError("sum", y.sum().item())
        raise CarryingError(y, [x, 1]) if by == "tensor" else CarryingError({"y": y})

    compiled = jtorch.compile(f)
    for k in (1.5, 2.5):
        x = jtorch.ones(2) * k
        with pytest.raises(CarryingError) as expected:
            f(x, k)
        with pytest.raises(CarryingError) as got:
            compiled(x, k)
        assert repr(got.value.args) == repr(expected.value.args)
        assert repr(got.value.value) == repr(expected.value.value)
        assert by != "tensor" or (got.value.args[1][0] is x and got.value.value is got.value.args[0])


def test_a_finalizer_that_changes_what_was_read():
    died = []

    class Made:
        def __del__(self):
            died.append(1)

    @jtorch.compile
    def f(x):
        Made()
        return x + len(died)

    with pytest.raises(CompileError, match=r"test_failure.*of a list.*\(0 became 1\).*__del__ of the Made"):
        f(jtorch.ones(1))


def test_a_tensor_of_an_earlier_recording_is_named():
    class Owner:
        pass

    owner = Owner()
    registry = weakref.finalize._registry  # in which nobody sees what is put there

    @jtorch.compile
    def f(x, way):
        if way == "keep":
            weakref.finalize(owner, id, x * 2)
            return x
        return x + next(held.args[0] for held in registry.values() if held.weakref() is owner)

    f(jtorch.ones(2), "keep")
    gc.collect()  # what other tests have registered would leave the dict while it is read
    with pytest.raises(CompileError, match="made while 'f' was being compiled"):
        f(jtorch.ones(2), "use")


@pytest.mark.parametrize("name", ["calls", "count"])
def test_a_count_that_hangs_on_the_function_itself(name):
    @jtorch.compile
    def f(x):
        setattr(f, name, getattr(f, name) + 1)
        return x * getattr(f, name)

    setattr(f, name, 0)
    assert [f(jtorch.ones(1)).item() for _ in range(3)] == [1.0, 2.0, 3.0]
    setattr(f, name, 10)
    assert f(jtorch.ones(1)).item() == getattr(f, name) == 11
    assert f.stats(jtorch.ones(1)) is not None


def test_a_message_says_how_entries_changed():
    table = {"a": 1}
    read = ContentsRead(table, None, contents(table))
    table["b"] = 2
    assert became(read) == "1 entries became 2"
    del table["b"]
    table["a"] = 3
    assert became(read) == "1 became 3"


def test_refusals_that_come_when_the_function_has_ended_name_a_line():
    weight, buffer = jtorch.nn.Parameter(jtorch.ones(2)), jtorch.zeros(2)

    def generator(x):
        return (v for v in x)

    def mode(x):
        jtorch.set_grad_enabled(False)
        return x * 2

    def steps(x):
        jtorch.optim.LBFGS([weight]).step(lambda: (weight**2).sum())

    def keeps_its_graph(x):
        buffer.copy_(weight * 2)

    def changes_an_argument(x):
        x.add_(1)

    class Layer(jtorch.nn.Module):
        def forward(self, x):
            return (v for v in x)

    first, second = 0, 1  # the function's own first line, or that of what it does
    cases = [
        (generator, generator, jtorch.ones(2), first),
        (functools.partial(generator), generator, jtorch.ones(2), first),
        (Layer(), Layer.forward, jtorch.ones(2), first),
        (mode, mode, jtorch.ones(2), first),
        (keeps_its_graph, keeps_its_graph, jtorch.ones(2), first),
        (steps, steps, jtorch.ones(2), second),
        (changes_an_argument, changes_an_argument, weight * 1, second),
    ]
    for function, code, x, line in cases:
        where = f"{__file__}:{code.__code__.co_firstlineno + line} in {code.__name__}: "
        with pytest.raises(CompileError) as refused, jtorch.enable_grad():
            jtorch.compile(function)(x)
        assert str(refused.value).startswith(where), (where, str(refused.value))


def test_integers_of_the_program_by_zero():
    def of_constants(x):
        return x + jtorch.full((2,), 2) // 0

    def caught(x):
        try:
            return jtorch.ones_like(x) % 0
        except RuntimeError:
            return -x

    x = jtorch.tensor([1, 2])
    for f in (of_constants, jtorch.compile(of_constants)):
        with pytest.raises(RuntimeError, match="integer division by zero"):
            f(x)
    assert jtorch.compile(caught)(x).tolist() == caught(x).tolist() == [-1, -2]
