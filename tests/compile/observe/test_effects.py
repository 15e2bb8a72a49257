"""Plain Python state that a function changes outside: the same after each call as in eager mode."""

import collections
import operator
import threading
import types

import pytest

import jtorch
from jtorch import nn
from jtorch.compile.observe import effects
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import Config, Slotted, t

COUNT = 0
CASES = {}


def effect(recordings=1):
    """A case: ``make()`` gives (function, state). ``recordings`` of four calls, at most."""

    def decorator(make):
        CASES[make.__name__] = (make, recordings)
        return make

    return decorator


@effect()
def a_global():
    global COUNT
    COUNT = 0

    def f(x):
        global COUNT
        COUNT += 1
        return x * COUNT

    return f, lambda: COUNT


@effect()
def a_cell():
    count = 0

    def f(x):
        nonlocal count
        count = count + 2
        return x * count

    return f, lambda: count


@effect()
def items_by_methods():
    d, seen = {"n": 0}, [0, 0, 0]

    def f(x):
        d.__setitem__("n", d["n"] + 1)
        dict.__setitem__(d, "made", x * 2)
        seen.__setitem__(1, d["n"])
        operator.setitem(seen, -1, d["made"].sum())
        return d["made"] * d["n"] + seen[2]

    return f, lambda: (d, seen)


@effect()
def features_that_a_hook_keeps():
    layer, kept = nn.Linear(2, 2), {}
    layer.weight.data.fill_(0.5), layer.bias.data.zero_()
    layer.register_forward_hook(lambda module, given, out: kept.__setitem__("out", out.detach()))

    def f(x):
        return layer(x.expand(2)) + kept["out"]

    return f, lambda: kept


@effect()
def a_namespace():
    state = types.SimpleNamespace(steps=0, total=0.0)

    def f(x):
        state.steps += 1
        state.total = state.total * 0.5 + 1.0
        return x * state.total

    return f, lambda: (state.steps, state.total)


@effect()
def a_counting_module():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.seen = 0.0

        def forward(self, x):
            self.calls += 1
            self.seen += x.sum().item()
            return x * 2

    layer = Layer()
    return layer, lambda: (layer.calls, layer.seen)


@effect(recordings=2)  # at first it is the class's
def a_count_that_begins_on_the_class():
    class Layer(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    layer = Layer()
    return layer, lambda: (layer.calls, Layer.calls)


@effect(recordings=2)
def a_count_of_an_object_that_begins_on_the_class():
    class Counter:
        calls = 0

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    counter = Counter()
    return counter.__call__, lambda: (counter.calls, Counter.calls)


@effect()
def counters_in_a_dict():
    state = {"steps": 0, "last": None}

    def f(x):
        state["steps"] += 1
        state["last"] = (x * 2).sum().item()
        return x

    return f, lambda: state


@effect()
def an_item_of_a_list_in_a_callee():
    state = {"counts": [0, 1]}

    def inner():
        state["counts"][0] = 5
        state["counts"][-1] += 1

    def f(x):
        inner()
        return x

    return f, lambda: state


@effect()
def losses():
    kept, w = [], jtorch.ones(2, requires_grad=True)
    optimizer = jtorch.optim.SGD([w], lr=0.1)

    def f(x):
        optimizer.zero_grad()
        loss = ((w * x) ** 2).sum()
        loss.backward()
        optimizer.step()
        kept.append(loss.item())
        return loss

    return f, lambda: (kept, w.tolist())


@effect()
def tensors_kept():
    kept, queue = {}, collections.deque(maxlen=2)

    def f(x):
        y = x * 2
        kept["y"], kept["pair"] = y, (y + 1, [x, 3])
        queue.append(y.detach())
        return y

    def state():
        first, (second, (third, number)) = kept["y"], kept["pair"]
        return first.tolist(), second.tolist(), third.tolist(), number, [q.tolist() for q in queue]

    return f, state


@effect()
def an_activation_on_a_module():
    class Net(nn.Module):
        def forward(self, x):
            self.last = x * 2
            return self.last + 1

    net = Net()
    return net, lambda: net.last.tolist()


@effect(recordings=4)  # another tensor is read at each call: correct, and told after a few
def a_hidden_state():
    state = types.SimpleNamespace(h=t(0, 0))

    def f(x):
        state.h = state.h * 0.5 + x
        return state.h * 2

    return f, lambda: state.h.tolist()


@effect(recordings=2)
def the_first_call():
    class Net:
        first = True

        def __call__(self, x):
            if self.first:
                self.first = False
                return x * 10
            return x

    net = Net()
    return net.__call__, lambda: net.first


@effect()
def an_object_of_slots():
    slotted = Slotted()

    def f(x):
        slotted.rate = slotted.rate * 2.0
        return x * slotted.rate

    return f, lambda: slotted.rate


@effect()
def setattr_of_an_object():
    config = Config()

    def f(x):
        setattr(config, "ra" + "te", 3.0)
        return x * config.rate

    return f, lambda: config.rate


@effect(recordings=4)  # the length is read, and another one at each call
def a_list_whose_length_is_read():
    kept = []

    def f(x):
        n = len(kept)
        kept.append(n)
        return x * n

    return f, lambda: kept


@effect()
def the_same_place_twice():
    state = {"a": 1}

    def f(x):
        state["a"] = 2
        state["a"] = state["a"] + 3
        return x * state["a"]

    return f, lambda: state


@effect()
def a_method_of_another_object():
    class Meter:
        def __init__(self):
            self.total, self.count, self.history = 0.0, 0, []

        def update(self, value, n=1):
            self.total += value * n
            self.count += n
            self.history.append(value)

    meter = Meter()

    def f(x):
        meter.update(x.sum().item(), n=3)
        return x * 2

    return f, lambda: (meter.total, meter.count, meter.history)


@effect()
def items_of_a_list_from_its_end():
    state = [0.0, 1.0, 2.0]

    def f(x):
        state[-1] = 7.0
        state[0] = state[2]
        state[1] += x.sum().item()
        return x * state[2] * state[-3]

    return f, lambda: state


@effect()
def a_count_at_the_end_of_a_list():
    state = [0.0, 1, 2]

    def f(x):
        state[-1] += 1
        state[1] = state[-2] + 1
        return x * state[2] * state[-1] * state[1]

    return f, lambda: state


@effect()
def a_module_that_sets_attributes_its_own_way():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain, self.calls, self.last = 0.0, 0, None

        def __setattr__(self, name, value):
            super().__setattr__(name, value * 2 if name == "gain" else value)

        def forward(self, x):
            self.gain = 3.0
            self.calls += 1
            super().__setattr__("last", x * self.calls)
            return x * self.gain

    layer = Layer()
    return layer, lambda: (layer.gain, layer.calls, layer.last)


@effect()
def an_object_that_sets_attributes_its_own_way():
    class State:
        def __setattr__(self, name, value):
            object.__setattr__(self, name, value + 1)

    state = State()

    def f(x):
        state.n = 3
        object.__setattr__(state, "m", x.sum().item())
        return x

    return f, lambda: vars(state)


def _with_property(base):
    class Held(base):
        def __init__(self):
            super().__init__()
            self._h = None

        @property
        def h(self):
            return self._h

        @h.setter
        def h(self, value):
            self._h = value

        def forward(self, x):
            self.h = x * 2
            return x

    held = Held()
    return held.forward, lambda: (held.h, "h" in vars(held))


@effect()
def a_property_of_a_module():
    return _with_property(nn.Module)


@effect()
def a_property_of_an_object():
    return _with_property(object)


@effect()
def a_descriptor():
    class Doubled:
        def __set__(self, owner, value):
            owner._h = value * 2

        def __get__(self, owner, cls):
            return owner._h

    class State:
        h = Doubled()

    state = State()

    def f(x):
        state.h = x.sum().item()
        return x

    return f, lambda: (state.h, vars(state))


@effect()
def a_list_from_outside_that_is_written_elsewhere():
    """It is that list, with what it then holds: not what it held when the function was recorded."""
    table, row, log = [1.0, 2.0], [0.0], []
    state = types.SimpleNamespace(now=None, tables=(), initial=[jtorch.zeros(1)], hidden=None)

    def f(x):
        state.now = table
        state.tables = (table, [row], {"row": row})
        state.hidden = state.initial
        log.append(row)
        return x * 2

    def look():
        same = (state.now is table, state.tables[2]["row"] is row, state.hidden is state.initial)
        seen = repr((same, log[-1] is row, state, log))
        table[0] += 1.0
        row.append(table[0])
        state.initial[0] = jtorch.full((1,), table[0])
        return seen

    return f, look


@effect()
def a_list_that_is_changed_and_written_elsewhere():
    log, table, state = [], [0.0], {}

    def f(x):
        log.append(x.sum().item())
        table[0] = x * 2
        state["log"], state["table"] = log, table
        return x

    return f, lambda: (log, table, state["log"] is log, state["table"] is table)


@effect()
def a_list_that_contains_itself():
    ring, state = [1.0], {}
    ring.append(ring)

    def f(x):
        state["ring"] = ring
        return x

    return f, lambda: (state, state["ring"] is ring)


@pytest.mark.parametrize("mode", ["default", "interpret"])
@pytest.mark.parametrize("name", CASES)
def test_state_is_that_of_eager_mode_after_each_call(name, mode):
    make, recordings = CASES[name]
    seen = []
    for wrap in (lambda f: f, lambda f: jtorch.compile(f, mode=mode)):
        function, state = make()
        call = wrap(function)
        seen.append([(call(t(1, k)).tolist(), repr(state())) for k in range(4)])
    assert seen[0] == seen[1]
    assert len(call.retraces) < recordings


@pytest.mark.parametrize("name", sorted(set(CASES) - {"a_hidden_state"}))
def test_verified_calls_change_it_once(name):
    make, _ = CASES[name]
    function, state = make()
    verified, expected = jtorch.compile(function, verify="every:1"), []
    for k in range(3):
        verified(t(1, k))
    found = repr(state())
    function, state = make()
    for k in range(3):
        expected = function(t(1, k))
    assert found == repr(state()) and expected is not None


def test_an_exception_keeps_what_was_written_before_it():
    state = {"n": 0, "kept": []}

    def f(x):
        state["n"] += 1
        state["kept"].append((x * 2).sum().item())
        if x.sum() > 5:
            raise ValueError
        state["n"] += 10
        return x

    f = jtorch.compile(f)
    f(t(1))
    for _ in range(2):
        with pytest.raises(ValueError):
            f(t(9))
    f(t(2))
    assert state == {"n": 24, "kept": [2.0, 18.0, 18.0, 4.0]}


def test_what_is_refused_changes_nothing():
    state, kept = {"n": 0}, []

    def f(x):
        state["n"] += 1
        kept.append(x)
        return x * round(x.sum().item())

    for _ in range(2):
        with pytest.raises(CompileError, match=r"round\(\)"):
            jtorch.compile(f)(t(1))
    assert (state, kept) == ({"n": 0}, [])


def test_a_function_of_another_recording_notices():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 1

        def forward(self, x):
            return x * self.scale

    layer = Layer()

    def grow(x):
        layer.scale = 7
        return x

    scaled, grown = jtorch.compile(layer), jtorch.compile(grow)
    assert scaled(t(1)).tolist() == [1.0]
    grown(t(1))
    assert scaled(t(1)).tolist() == [7.0]
    layer.scale = 2
    grown(t(1))
    assert scaled(t(1)).tolist() == [7.0]


def test_a_count_that_becomes_another_kind_of_number():
    state = {"n": 0}

    def f(x):
        state["n"] += 1
        return x * state["n"]

    f = jtorch.compile(f)
    assert [f(t(1)).tolist() for _ in range(2)] == [[1.0], [2.0]]
    state["n"] = 0.5
    assert [f(t(1)).tolist() for _ in range(2)] == [[1.5], [2.5]]
    state["n"] = 2**70
    with pytest.raises(CompileError, match="too large"):
        f(t(1))


@pytest.mark.parametrize(
    "ask", [list, lambda values: values[0], lambda values: 2.0 in values, lambda values: sum(values)]
)
def test_a_list_that_is_read_after_it_was_appended_to(ask):
    values = []

    def f(x):
        values.append(2.0)
        ask(values)
        return x

    with pytest.raises(CompileError, match=r"test_effects.py:\d+.*has changed.*read before you write"):
        jtorch.compile(f)(t(1))
    assert values == []


def test_a_number_that_cannot_be_counted_on_leaves_the_others_alone():
    state = {"a": 0, "b": 2**62}

    def f(x):
        state["a"] += 1
        state["b"] += 1
        return x

    for _ in range(2):
        with pytest.raises(CompileError, match="too large"):
            jtorch.compile(f)(t(1))
        assert state == {"a": 0, "b": 2**62} and type(state["a"]) is int


def test_everything_is_undone_where_one_part_cannot_be():
    class Stubborn(dict):
        def pop(self, *args):
            raise KeyError("it stays")

    first, stubborn, last = {"n": 1}, Stubborn(), {"n": 1}

    def f(x):
        for state in (first, stubborn, last):
            state["n"] = x.sum().item()
        return x

    with pytest.raises(KeyError, match="it stays"):
        jtorch.compile(f)(t(1))
    assert (first, last) == ({"n": 1}, {"n": 1})
    assert (t(1) + 1).tolist() == [2.0]  # eager mode is on again


@pytest.mark.parametrize("keywords", [{}, {"verify": "every:1"}], ids=str)
def test_a_list_from_outside_is_returned_as_it_is(keywords):
    table, weights = [1.0], [jtorch.ones(2, requires_grad=True), jtorch.ones(2)]
    config, pair = Config(), (table, weights)

    def f(x):
        return x * 2, table, [weights, (x * weights[0]).sum()], config, pair

    f = jtorch.compile(f, **keywords)
    for k in range(3):
        double, found, (held, loss), settings, both = f(t(1, 2))
        assert found is table and held is weights and settings is config and both is pair
        assert double.tolist() == [2.0, 4.0] and loss.item() == 3.0
        weights[0].grad = None
        loss.backward()
        assert weights[0].grad.tolist() == [1.0, 2.0]
        found.append(float(k))
    assert table == [1.0, 0.0, 1.0, 2.0] and not f.retraces


def test_a_list_is_returned_after_it_was_appended_to():
    log = []

    def f(x):
        log.append((x * 2).sum().item())
        return log

    f = jtorch.compile(f)
    for k in range(3):
        assert f(t(k)) is log
    assert log == [0.0, 2.0, 4.0]


def test_an_attribute_that_the_library_sets_its_own_way_is_refused():
    class Layer(nn.Module):
        def forward(self, x):
            return x

    layer, inner = Layer(), Layer()
    wrapped = jtorch.compile(inner)  # which hands attributes on

    def f(x):
        wrapped.gain = 3.0
        return layer(x)

    with pytest.raises(CompileError, match="changes 'gain'"):
        jtorch.compile(f)(t(1))
    assert not hasattr(inner, "gain")


def test_an_item_of_a_list_that_has_become_shorter():
    """It is missed before anything was done, as in eager mode."""
    state, total = [0.0, 0.0], jtorch.zeros(1)

    def f(x):
        state[1] = x.sum().item()
        total.add_(1.0)
        return x

    f = jtorch.compile(f)
    f(t(3))
    state.pop()
    for _ in range(2):
        with pytest.raises(IndexError, match="assignment index out of range"):
            f(t(4))
    state += [5.0, 6.0]
    f(t(4))
    assert (state, total.tolist()) == ([0.0, 4.0, 6.0], [2.0])


@pytest.mark.parametrize("keywords", [{}, {"verify": "first"}], ids=str)
def test_an_item_of_a_list_that_was_appended_to(keywords):
    log = []

    def f(x):
        log.append(1.0)
        log[-1] = 2.0
        return x

    with pytest.raises(CompileError, match=r"test_effects.py:\d+.*replaces an item.*Replace it before"):
        jtorch.compile(f, **keywords)(t(1))
    assert log == []


def test_what_another_thread_appends_meanwhile_stays():
    log, turn, done = [], threading.Event(), threading.Event()

    def append():
        turn.wait(5)
        log.append("other")
        done.set()

    @jtorch.compiler.disable
    def meet(x, turn=turn, done=done):
        turn.set()
        done.wait(5)

    thread = threading.Thread(target=append)
    thread.start()

    def f(x):
        log.append("mine")
        meet(x)
        return x

    jtorch.compile(f)(t(1))
    thread.join()
    assert sorted(log) == ["mine", "other"]


def test_appends_are_undone_one_by_one():
    log = [0.0] * 1000
    undo = effects.Effects()
    for k in range(3):
        undo.write(effects.End(log, "the end"), k)
        log.append(k)
    log.insert(1001, "other")
    undo.undo()
    assert log == [0.0] * 1000 + ["other"]


def test_a_full_deque_has_what_it_had_again():
    kept = collections.deque([1.0, 2.0], maxlen=2)

    def f(x):
        kept.append(3.0)
        return x * round(x.sum().item())

    with pytest.raises(CompileError):
        jtorch.compile(f)(t(1))
    assert list(kept) == [1.0, 2.0]


FLAG = "pos"
SAME = {}


def same(make):
    """A case: ``make()`` gives (function, state, what changes the state between two calls)."""
    SAME[make.__name__] = make
    return make


@same
def an_attribute():
    state = types.SimpleNamespace(k=1)

    def f(x):
        state.k = 1
        return x + 1

    return f, lambda: state.k, lambda: setattr(state, "k", 2)


@same
def a_slot():
    state = Slotted(1.0)

    def f(x):
        state.rate = 1.0
        return x + 1

    return f, lambda: state.rate, lambda: setattr(state, "rate", 2.0)


@same
def an_attribute_that_is_read_after():
    state = types.SimpleNamespace(k=1)

    def f(x):
        state.k = 1
        return x * state.k

    return f, lambda: state.k, lambda: setattr(state, "k", 2)


@same
def an_attribute_that_is_read_before():
    state = types.SimpleNamespace(k=1)

    def f(x):
        y = x * state.k
        state.k = 1
        return y

    return f, lambda: state.k, lambda: setattr(state, "k", 2)


@same
def items():
    state = {"a": 1, "l": [1, 2]}

    def f(x):
        state["a"] = 1
        state["l"][-1] = 2
        return x + len([v for v in state.values() if v])

    return f, lambda: (state["a"], state["l"]), lambda: state["l"].__setitem__(1, 8)


@same
def a_flag_global():
    global FLAG
    FLAG = "pos"

    def f(x):
        global FLAG
        FLAG = "pos"
        return x

    return f, lambda: FLAG, lambda: globals().update(FLAG="neg")


@same
def a_variable_outside():
    last = "pos"

    def f(x):
        nonlocal last
        last = "pos"
        return x

    def spoil():
        nonlocal last
        last = "neg"

    return f, lambda: last, spoil


@same
def a_flag_of_each_way():
    state = {"m": "mid"}

    def f(x):
        if x.sum() > 4:
            state["m"] = "high"
        elif x.sum() < 3:
            state["m"] = "low"
        else:
            state["m"] = "mid"
        return x

    return f, lambda: state, lambda: state.update(m="none")


class Flagged(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = True

    def forward(self, x):
        self.seen = True
        return x + 1


@same
def a_flag_of_a_module():
    layer = Flagged()
    return layer, lambda: layer.seen, lambda: setattr(layer, "seen", False)


@pytest.mark.parametrize("name", SAME)
def test_what_was_there_already_is_written_again(name):
    seen = []
    for wrap in (lambda f: f, jtorch.compile):
        function, state, spoil = SAME[name]()
        function = wrap(function)
        found = []
        for k in (1, 2, 0, 2, 1):
            found.append((function(t(1, k)).tolist(), repr(state())))
            spoil()
        seen.append(found)
    assert seen[0] == seen[1]


@pytest.mark.parametrize("kind", ["class", "object"])
def test_what_no_replay_writes_is_guarded_where_it_was_there_already(kind):
    class Net:
        mode = "a"
        held = Config()

    net, held = Net(), Net.held
    net.held = held

    def f(x):
        if kind == "class":
            Net.mode = "a"
        else:
            net.held = held
        return x + 1

    f = jtorch.compile(f)
    for _ in range(3):
        f(t(1))
    assert not len(f.retraces)
    Net.mode, net.held = "b", Config()
    if kind == "class":
        with pytest.raises(CompileError, match="'mode' of Net"):
            f(t(1))
    else:  # an object from outside is written as it is
        f(t(1))
        assert net.held is held


def test_a_flag_that_is_written_again_has_nobody_recorded_again():
    layer = Flagged()
    write, read = jtorch.compile(layer), jtorch.compile(lambda x: x * 2 if layer.seen else x)
    read(t(1))
    for _ in range(3):
        write(t(1))
        read(t(1))
    assert not len(read.retraces) and not len(write.retraces)
