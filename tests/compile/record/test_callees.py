"""``jtorch.compiler.disable``: callees that run eagerly in the middle of compiled functions."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import jtorch
from jtorch.compiler import disable
from jtorch.core.errors import CompileError

INPUTS = [jtorch.arange(3.0) + k for k in (0.0, 1.0, -2.0)]


def check(make, **keywords):
    """``make(wrap)`` gives a function; wrapped by the compiler it gives what it gives unwrapped."""
    plain, compiled = make(lambda f: f), make(lambda f: jtorch.compile(f, **keywords))
    for x in INPUTS:
        assert repr(compiled(x)) == repr(plain(x))


def refused(make, match):
    with pytest.raises(CompileError, match=rf"test_callees\.py:\d+ in .*{match}"):
        f = make(jtorch.compile)
        for x in INPUTS:
            f(x)


@pytest.mark.parametrize("keywords", [{}, {"mode": "interpret"}], ids=str)
def test_a_training_step_with_a_log_and_a_library_in_it(keywords):
    def make(wrap):
        jtorch.manual_seed(0)
        model = jtorch.nn.Linear(3, 2)
        optimizer = jtorch.optim.Adam(model.parameters(), lr=0.1)
        seen = []

        @disable
        def log(loss, tag):
            seen.append((tag, round(loss.item(), 4)))

        @disable
        def ranks(x):
            order = np.argsort(x.detach().numpy())
            return {"order": jtorch.from_numpy(order), "none": None, "size": jtorch.tensor(len(order))}

        def step(x):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            log(loss, "before")
            found = ranks(x)
            loss.backward()
            optimizer.step()
            log(loss * 2, "after")
            return loss, found["order"] * 2 + found["size"]

        step = wrap(step)
        return lambda x: ([round(v, 4) for v in step(x)[0].detach().reshape(1).tolist()], list(seen))

    check(make, **keywords)


def test_each_call_runs_it_once_and_in_order():
    def make(wrap):
        order = []
        first, second = disable(lambda x: order.append("a")), disable(lambda: order.append("b"))

        def f(x):
            second()
            first(x * 2)
            second()
            return x + 1

        f = wrap(f)
        return lambda x: (f(x), "".join(order))

    check(make)


def test_its_own_state_is_its_own():
    def make(wrap):
        class Counter:
            count = 0

            @disable
            def scaled(self, x):
                self.count += 1
                return x * self.count

            def step(self, x):
                return self.scaled(x) + 1

        return wrap(Counter().step)

    check(make)


def test_objects_numbers_and_nested_arguments():
    def make(wrap):
        class Meter:
            total = 0.0

        meter, options = Meter(), {"scale": 2.0}

        @disable
        def take(x, meter, *, by=1.0, parts=None):
            meter.total += x.sum().item()
            return x * by + sum(parts["more"]) + meter.total

        f = wrap(lambda x, s: take(x, meter, by=s, parts={"more": [x, x * 2]}) + options["scale"])

        def run(x):
            options["scale"] += 1.0
            return f(x, options["scale"] / 2)

        return run

    check(make)


def test_numbers_of_item_and_reads_of_outside_tensors():
    def make(wrap):
        total = jtorch.zeros(3)
        get = disable(lambda x, s, n: x * s + n + total)

        def f(x):
            out = get(x, x.sum().item(), (x > 0).sum().item())
            total.add_(x)  # after the callee has read it
            return out, total.sum()

        return wrap(f)

    check(make)


def test_backward_outside_goes_around_it():
    def make(wrap):
        w = jtorch.ones(3, requires_grad=True)
        count = []
        note = disable(lambda y: count.append(y.requires_grad))

        def f(x):
            y = w * x
            note(y)
            return (y * y).sum()

        f = wrap(f)

        def run(x):
            w.grad = None
            f(x).backward()
            return w.grad.clone(), list(count)

        return run

    check(make)


def test_an_error_in_it_is_the_programs_and_leaves_no_half_done_state():
    p = jtorch.zeros(3)
    runs = []

    @disable
    def fails(x):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("mine")

    @jtorch.compile
    def f(x):
        p.add_(1.0)
        fails(x)
        return x * 2

    f(INPUTS[0])
    with pytest.raises(KeyError, match="mine"):
        f(INPUTS[0])
    f(INPUTS[0])
    assert p.tolist() == [2.0] * 3 and len(runs) == 3


def returns(value):
    return lambda wrap: wrap(lambda x: disable(lambda y: value(y))(x * 2))


def changes_its_class(wrap):
    given = iter((1.5, 2.5, 3, 3))
    get = disable(lambda: next(given))
    return wrap(lambda x: x * get())


@pytest.mark.parametrize("keywords", [{}, {"mode": "interpret"}], ids=str)
def test_numbers_that_it_gives(keywords, capsys):
    def make(wrap):
        @disable
        def look(y):
            return {"sum": y.sum().item(), "n": len(y) - 1, "is": bool(y[0] > 1), "none": None}, -0.5

        def f(x):
            found, b = look(x * 2)
            print(f"{found['sum']:.2f} {found['n']}")
            return x * found["sum"] + b, found["n"] + 1, found["is"], found["none"], found["sum"] / 2

        return wrap(f)

    check(make, **keywords)
    lines = capsys.readouterr().out.splitlines()
    assert lines[::2] == lines[1::2] and len(lines) == 2 * len(INPUTS)


def branch(wrap):
    def f(x):
        y = get(x)
        return y if x.sum() > 0 else -y

    get = disable(lambda x: x * 2)
    return wrap(f)


def stale(wrap):
    p = jtorch.zeros(3)
    get = disable(lambda: p.sum())

    def f(x):
        p.add_(x)
        return get()

    return wrap(f)


def shared_write(wrap):
    p = jtorch.zeros(3)

    @disable
    def change():
        p.add_(1.0)

    def f(x):
        change()
        return p * x

    return wrap(f)


def their_gradient(wrap):
    p = jtorch.ones(3, requires_grad=True)
    get = disable(lambda: p.grad * 2)

    def f(x):
        p.grad = None
        (p * x).sum().backward()
        return get()

    return wrap(f)


def both_draw(wrap):
    draw = disable(lambda: jtorch.rand(3))
    return wrap(lambda x: x + jtorch.rand(3) + draw())


def changes_what_is_read(wrap):
    n = [0]

    @disable
    def count():
        n[0] += 1

    def f(x):
        count()
        return x * n[0]

    return wrap(f)


def grows(wrap):
    n = [0]

    @disable
    def more():
        n[0] += 1
        return jtorch.ones(n[0])

    return wrap(lambda x: more() * 2)


def appends(wrap):
    put = disable(lambda x, seen: seen.append(x))
    seen = []
    return wrap(lambda x: put(x, seen))


def made_inside(wrap):
    call = disable(lambda x, f: f(x))
    return wrap(lambda x: call(x, lambda y: y * 2))


def result_changed(wrap):
    get = disable(lambda x: x * 2)
    return wrap(lambda x: get(x).add_(1.0))


def toggles(wrap):
    model = jtorch.nn.Dropout(0.0)
    call = disable(lambda: model.train(not model.training) and None)

    def f(x):
        call()
        return model(x)

    return wrap(f)


W = jtorch.ones(3, requires_grad=True)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (returns(lambda y: str(y.sum().item())), "returns a str"),
        (returns(lambda y: 2**70), "returns a int"),
        (changes_its_class, r"gave f64\[\] when it was recorded and now i64\[\]"),
        (returns(lambda y: y[1:]), "returns its argument or a view of it"),
        (returns(lambda y: y.mul_(2)), "changes its argument in place"),
        (returns(lambda y: y * W), "gives a tensor that requires grad"),
        (branch, "a branch on the elements of a tensor after"),
        (stale, "reads a tensor that the compiled function has changed"),
        (shared_write, "changes a tensor that the compiled function uses"),
        (their_gradient, "uses the gradient of a tensor"),
        (both_draw, "draws from the random generator"),
        (changes_what_is_read, "changes something that the compiled function reads"),
        (grows, r"gave f32\[1\] when it was recorded and now f32\[2\]"),
        (appends, "changes a list or dict among its arguments"),
        (made_inside, "is passed an object that the compiled function makes"),
        (result_changed, "is changed in place"),
        (toggles, "changes a module, an optimizer or a mode"),
    ],
)
def test_what_would_tie_it_to_the_compiled_part_is_refused(make, match):
    refused(make, match)


def test_explain_counts_it():
    note = disable(lambda x: None)

    @jtorch.compile
    def f(x):
        note(x * 2)
        return x * 3

    f(INPUTS[0])
    assert f.explain().host_calls == 1
    with pytest.raises(CompileError, match="cannot be written into a script"):
        f.save_repro("nowhere")


STATE = {"n": 0}


class Log:
    def __init__(self):
        self.n, self.kept = 0, []

    def read_later(self):
        return self.n

    @disable
    def look(self, x):
        self.read_later()


def _a_global():
    look = disable(lambda x: STATE["n"])

    def f(x):
        STATE["n"] = 5
        look(x)

    return f


def _a_global_of_a_helper():
    look = disable(lambda x: [_helper() for _ in range(1)])

    def f(x):
        STATE["n"] += 1
        look(x)

    return f


def _helper():
    return STATE


def _an_attribute_of_self():
    log = Log()

    def f(x):
        log.n += 1
        log.look(x)

    return f


def _a_list_in_an_argument():
    log = Log()
    look = disable(lambda x, log: log)

    def f(x):
        log.kept.append(x.sum().item())
        look(x, log)

    return f


def _a_cell():
    count = 0

    @disable
    def look(x):
        return count

    def f(x):
        nonlocal count
        count += 1
        look(x)

    return f


def _a_list_that_both_append_to():
    kept = []
    look = disable(functools.partial(lambda kept, x: kept.append(1), kept))

    def f(x):
        kept.append(2.0)
        look(x)

    return f


@pytest.mark.parametrize("make", [
    _a_global, _a_global_of_a_helper, _an_attribute_of_self, _a_list_in_an_argument, _a_cell,
    _a_list_that_both_append_to,
])  # fmt: skip
def test_state_that_was_written_before_it_is_out_of_its_reach(make):
    """It would find traced values while the function is recorded, and at a replay what there was before."""
    f = jtorch.compile(make())
    with pytest.raises(CompileError, match=r"test_callees.py:\d+.*can reach .*Write it after the call"):
        f(jtorch.ones(3))


def test_state_that_is_written_after_it_or_elsewhere():
    log, other = Log(), Log()

    def f(x):
        other.n += 1
        other.kept.append(x.sum().item())
        log.look(x)
        log.n += 1
        return x

    f = jtorch.compile(f)
    for _ in range(3):
        f(jtorch.ones(3))
    assert (log.n, other.n, other.kept) == (3, 3, [3.0] * 3)
