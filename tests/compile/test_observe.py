"""Plain Python state outside a compiled function: changed between calls it counts, from inside it may not."""

import array
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import linecache
import math
import os
import random
import sys
import time
import types
import warnings

import numpy as np
import pytest

import jtorch
import jtorch.nn as nn
from jtorch.compile import frames
from jtorch.errors import CompileError

RATE = 0.5
TABLE = [1.0, 2.0]
SETTINGS = types.SimpleNamespace(rate=2.0, nested=types.SimpleNamespace(power=3))


def t(*values):
    return jtorch.tensor([float(v) for v in values])


@dataclasses.dataclass
class Config:
    rate: float = 0.1
    sizes: list = dataclasses.field(default_factory=lambda: [1, 2])


@dataclasses.dataclass(slots=True)
class Slotted:
    rate: float = 0.1


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


READS = {}


def read(function):
    """A case: answers (f, change). ``f(x)`` is called, then ``change()``, then ``f(x)`` again."""
    READS[function.__name__] = function
    return function


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    f, change = READS[name]()
    compiled, x, seen = jtorch.compile(f), t(1, 2), []
    seen.append((compiled(x), f(x)))
    seen.append((compiled(x), f(x)))
    before = sum(map(len, compiled.plans.values()))
    assert before == 1  # what did not change makes no plan
    undo = change()
    try:
        seen.append((compiled(x), f(x)))
    finally:
        if callable(undo):
            undo()
    for got, expected in seen:
        assert got.tolist() == expected.tolist()
    assert seen[-1][0].tolist() != seen[0][0].tolist()


def setting(container, key, value):
    """A change of an item, or of an attribute."""

    def change():
        if isinstance(container, (dict, list, np.ndarray, collections.deque)):
            container[key] = value
        else:
            setattr(container, key, value)

    return change


@read
def item_of_a_list():
    table = [0.1, 0.2]
    return lambda x: x * table[0], setting(table, 0, 5)


@read
def item_of_a_list_by_negative_index():
    table = [0.1, 0.2]
    return lambda x: x * table[-1], lambda: table.append(7.0)


@read
def slice_of_a_list():
    table = [0.1, 0.2, 0.3]
    return lambda x: x * sum(table[:2]), setting(table, 1, 5)


@read
def list_inside_a_dict_inside_a_list():
    tree = [{"rates": [1.0, 2.0]}]
    return lambda x: x * tree[0]["rates"][1], setting(tree[0]["rates"], 1, 5.0)


@read
def item_of_a_tuple_of_lists():
    pair = ([1.0], [2.0])
    return lambda x: x * pair[1][0], setting(pair[1], 0, 5.0)


@read
def item_of_a_deque():
    queue = collections.deque([1.0, 2.0])
    return lambda x: x * queue[0], setting(queue, 0, 5.0)


@read
def item_of_an_ordered_dict():
    options = collections.OrderedDict(rate=1.0)
    return lambda x: x * options["rate"], setting(options, "rate", 5.0)


@read
def item_by_a_tuple_as_key():
    options = {(1, 2): 3.0}
    return lambda x: x * options[1, 2], setting(options, (1, 2), 5.0)


@read
def a_key_that_is_missing_at_first():
    options = {}
    return lambda x: x * options.get("rate", 2.0), setting(options, "rate", 5.0)


@read
def length_of_a_list():
    layers = ["a"]
    return lambda x: x * len(layers), lambda: layers.append("b")


@read
def truth_of_a_list():
    flags = []
    return lambda x: x * (2 if flags else 3), lambda: flags.append(1)


@read
def not_of_a_dict():
    flags = {}
    return lambda x: x * (2 if not flags else 3), setting(flags, "k", 1)


@read
def membership_in_a_set():
    frozen = {"a"}
    return lambda x: x * (2 if "b" in frozen else 3), lambda: frozen.add("b")


@read
def membership_in_a_dict():
    options = {"a": 1}
    return lambda x: x * (2 if "b" not in options else 3), setting(options, "b", 1)


@read
def membership_in_a_list():
    names = ["a"]
    return lambda x: x * (2 if "b" in names else 3), setting(names, 0, "b")


@read
def iteration_over_a_list():
    scales = [1.0, 2.0]

    def f(x):
        for scale in scales:
            x = x * scale
        return x

    return f, setting(scales, 1, 5.0)


@read
def iteration_over_a_list_that_grows():
    scales = [1.0, 2.0]
    return lambda x: x * sum(s for s in scales), lambda: scales.append(3.0)


@read
def iteration_over_items():
    scales = {"a": 1.0, "b": 2.0}

    def f(x):
        for key, scale in scales.items():
            x = x * scale + len(key)
        return x

    return f, setting(scales, "b", 5.0)


@read
def iteration_with_zip_and_enumerate():
    a, b = [1.0, 2.0], [3.0, 4.0]

    def f(x):
        for k, (p, q) in enumerate(zip(a, b, strict=True)):
            x = x * p + q * k
        return x

    return f, setting(b, 1, 5.0)


@read
def list_comprehension():
    scales = [1.0, 2.0]
    return lambda x: x * [2 * s for s in scales][1], setting(scales, 1, 5.0)


@read
def comprehension_over_objects():
    configs = [Config(1.0), Config(2.0)]
    return lambda x: x * max([c.rate for c in configs]), setting(configs[1], "rate", 5.0)


@read
def a_list_unpacked():
    pair = [1.0, 2.0]

    def f(x):
        a, b = pair
        return x * a + b

    return f, setting(pair, 1, 5.0)


@read
def a_list_spread_into_a_call():
    pair = [1.0, 2.0]
    return lambda x: x * max(*pair), setting(pair, 1, 5.0)


@read
def a_dict_spread_into_a_call():
    options = {"rate": 1.0}

    def inner(x, rate):
        return x * rate

    return lambda x: inner(x, **options), setting(options, "rate", 5.0)


@read
def a_list_handed_to_a_builtin():
    scales = [1.0, 2.0]
    return lambda x: x * max(scales), setting(scales, 0, 5.0)


@read
def a_list_handed_to_the_library():
    scales = [1.0, 2.0]
    return lambda x: x * math.fsum(scales), setting(scales, 0, 5.0)


@read
def a_list_handed_to_jtorch():
    scales = [1.0, 2.0]
    return lambda x: x * jtorch.tensor(scales), setting(scales, 0, 5.0)


@read
def a_list_of_tensors():
    weights = [t(1, 1), t(2, 2)]
    return lambda x: x * jtorch.stack(weights).sum(0), setting(weights, 0, t(5, 5))


@read
def lists_compared():
    a, b = [1, 2], [1, 2]
    return lambda x: x * (2 if a == b else 3), setting(b, 0, 9)


@read
def lists_joined():
    a, b = [1.0], [2.0]
    return lambda x: x * sum(a + b), setting(b, 0, 9.0)


@read
def a_text_made_of_a_list():
    names = ["a"]
    return lambda x: x * len(f"{names}"), setting(names, 0, "abc")


@read
def an_object_reached_through_a_local():
    config = Config()

    def get():
        return config

    def f(x):
        c = get()
        return x * c.rate

    return f, setting(config, "rate", 5.0)


@read
def an_object_reached_through_a_call():
    config = Config()

    def get():
        return config

    return lambda x: x * get().rate, setting(config, "rate", 5.0)


@read
def an_object_reached_through_getattr():
    config = types.SimpleNamespace(inner=Config())
    return lambda x: x * getattr(config, "in" + "ner").rate, setting(config.inner, "rate", 5.0)


@read
def an_attribute_that_is_missing_at_first():
    config = Config()
    return lambda x: x * getattr(config, "power", 2.0), setting(config, "power", 5.0)


@read
def hasattr_of_an_object():
    config = Config()
    return lambda x: x * (2 if hasattr(config, "power") else 3), setting(config, "power", 5.0)


@read
def a_dataclass():
    config = Config()
    return lambda x: x * config.rate, setting(config, "rate", 5.0)


@read
def a_list_of_a_dataclass():
    config = Config()
    return lambda x: x * config.sizes[1], setting(config.sizes, 1, 5)


@read
def a_dataclass_with_slots():
    config = Slotted()
    return lambda x: x * config.rate, setting(config, "rate", 5.0)


@read
def a_dataclass_as_a_dict():
    config = Config()
    return lambda x: x * dataclasses.asdict(config)["rate"], setting(config, "rate", 5.0)


@read
def a_namespace():
    return lambda x: x * SETTINGS.rate**SETTINGS.nested.power, setting(SETTINGS.nested, "power", 2)


@read
def vars_of_an_object():
    config = Config()
    return lambda x: x * vars(config)["rate"], setting(config, "rate", 5.0)


@read
def an_enum():
    options = {"mode": Mode.FAST}
    return lambda x: x * (2 if options["mode"] is Mode.FAST else 3), setting(options, "mode", Mode.SLOW)


@read
def the_value_of_an_enum():
    options = types.SimpleNamespace(mode=Mode.FAST)
    return lambda x: x * (options.mode.value + 3), setting(options, "mode", Mode.SLOW)


@read
def a_class_attribute():
    class Constants:
        rate = 2.0

    return lambda x: x * Constants.rate, setting(Constants, "rate", 5.0)


@read
def a_class_attribute_through_an_instance():
    class Scaler:
        rate = 2.0

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(Scaler, "rate", 5.0)


@read
def a_class_attribute_hidden_by_an_instance():
    class Scaler:
        rate = 2.0

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(scaler, "rate", 5.0)


@read
def a_class_attribute_of_a_base_overridden():
    class Base:
        rate = 2.0

    class Derived(Base):
        pass

    return lambda x: x * Derived.rate, setting(Derived, "rate", 5.0)


@read
def a_class_method_and_a_static_one():
    class Constants:
        rate = 2.0

        @classmethod
        def scale(cls, x):
            return x * cls.rate

        @staticmethod
        def shift(x):
            return x + 1

    return lambda x: Constants.shift(Constants.scale(x)), setting(Constants, "rate", 5.0)


@read
def a_property():
    class Scaler:
        def __init__(self):
            self._rate = 2.0

        @property
        def rate(self):
            return self._rate * 2

    scaler = Scaler()
    return lambda x: x * scaler.rate, setting(scaler, "_rate", 5.0)


@read
def a_dynamic_attribute():
    class Options:
        def __init__(self):
            self.store = {"rate": 2.0}

        def __getattr__(self, name):
            return self.store[name]

    options = Options()
    return lambda x: x * options.rate, setting(options.store, "rate", 5.0)


@read
def an_object_that_is_called():
    class Scaler:
        def __init__(self):
            self.rate = 2.0

        def __call__(self, x):
            return x * self.rate

    scaler = Scaler()
    return scaler, setting(scaler, "rate", 5.0)


@read
def operators_of_an_object():
    class Rate:
        def __init__(self):
            self.value = 2.0

        def __rmul__(self, other):
            return other * self.value

        def __len__(self):
            return int(self.value)

    rate = Rate()
    return lambda x: x * (3 * rate) + len(rate), setting(rate, "value", 5.0)


@read
def a_method():
    class Scaler:
        def __init__(self):
            self.rates = [2.0]

        def scale(self, x):
            return x * self.rates[0]

    scaler = Scaler()
    return scaler.scale, setting(scaler.rates, 0, 5.0)


@read
def a_method_replaced():
    class Scaler:
        def scale(self, x):
            return x * 2

    scaler = Scaler()
    return lambda x: scaler.scale(x), setting(Scaler, "scale", lambda self, x: x * 5)


@read
def a_method_replaced_on_the_instance():
    class Scaler:
        def scale(self, x):
            return x * 2

    scaler = Scaler()
    return lambda x: scaler.scale(x), setting(scaler, "scale", lambda x: x * 5)


@read
def a_partial():
    table = [2.0]

    def scale(table, x):
        return x * table[0]

    return functools.partial(scale, table), setting(table, 0, 5.0)


@read
def a_default_argument():
    def f(x, table=[2.0]):  # noqa: B006
        return x * table[0]

    return f, setting(f.__defaults__[0], 0, 5.0)


@read
def a_default_argument_replaced():
    def f(x, *, rate=2.0):
        return x * rate

    return (lambda x: f(x)), setting(f, "__kwdefaults__", {"rate": 5.0})


@read
def nested_callees():
    rates = {"deep": [2.0]}

    def inner(x):
        return x * rates["deep"][0]

    def middle(x, function):
        return function(x) + 1

    return lambda x: middle(x, inner), setting(rates["deep"], 0, 5.0)


@read
def a_callee_found_in_a_table():
    functions = {"f": lambda x: x * 2}
    return lambda x: functions["f"](x), setting(functions, "f", lambda x: x * 5)


@read
def a_callee_called_by_a_builtin():
    rates = [1.0, 2.0]
    return lambda x: x * max(rates, key=lambda r: -r), setting(rates, 0, 9.0)


@read
def a_generator_function():
    rates = [1.0, 2.0]

    def scaled():
        for k in range(len(rates)):
            yield rates[k] * 2

    return lambda x: x * sum(scaled()), setting(rates, 1, 5.0)


@read
def a_closure_made_inside():
    rate = [2.0]

    def f(x):
        offset = 1.0

        def inner(y):
            return y * rate[0] + offset

        return inner(x)

    return f, setting(rate, 0, 5.0)


@read
def a_global_number():
    return lambda x: x * RATE, lambda: globals().update(RATE=5.0) or (lambda: globals().update(RATE=0.5))


@read
def a_global_list():
    return lambda x: x * TABLE[1], setting(TABLE, 1, 5.0)


@read
def a_number_of_a_module():
    def change():
        before, math.pi = math.pi, 3.0
        return lambda: setattr(math, "pi", before)

    return lambda x: x * math.pi, change


@read
def a_function_of_a_module_replaced():
    def change():
        before, math.sqrt = math.sqrt, lambda value: 7.0
        return lambda: setattr(math, "sqrt", before)

    return lambda x: x * math.sqrt(4.0), change


@read
def a_function_of_jtorch_replaced():
    def change():
        before, jtorch.tanh = jtorch.tanh, jtorch.neg
        return lambda: setattr(jtorch, "tanh", before)

    return lambda x: jtorch.tanh(x), change


@read
def a_builtin_hidden_by_a_global():
    return lambda x: x * abs(-2), lambda: globals().update(abs=lambda v: 5) or (lambda: globals().pop("abs"))


@read
def a_name_imported_inside():
    module = types.ModuleType("observed_constants")
    module.rate = 2.0
    sys.modules["observed_constants"] = module

    def f(x):
        from observed_constants import rate

        return x * rate

    return f, setting(module, "rate", 5.0)


@read
def a_pattern():
    command = {"kind": "scale", "rate": 2.0}

    def f(x):
        match command:
            case {"kind": "scale", "rate": rate}:
                return x * rate
            case _:
                return x

    return f, setting(command, "kind", "none")


@read
def a_pattern_of_a_class():
    config = Config()

    def f(x):
        match config:
            case Config(rate=0.1):
                return x * 2
            case _:
                return x

    return f, setting(config, "rate", 5.0)


@read
def a_number_of_numpys():
    table = [np.float32(2.0)]
    return lambda x: x * table[0], setting(table, 0, np.float32(5.0))


@read
def an_item_of_an_array():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * float(table[0]), setting(table, 0, 5.0)


@read
def a_sum_of_an_array():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * float(table.sum()), setting(table, 0, 5.0)


@read
def an_array_handed_to_numpy():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * float(np.max(table)), setting(table, 0, 5.0)


@read
def arithmetic_of_an_array():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * float((table * 2 + 1)[0]), setting(table, 0, 5.0)


@read
def iteration_over_an_array():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * sum(float(v) for v in table), setting(table, 0, 5.0)


@read
def an_array_made_a_tensor():
    table = np.array([2.0, 3.0], np.float32)
    return lambda x: x * jtorch.tensor(table), setting(table, 0, 5.0)


@read
def a_context_variable():
    rate = contextvars.ContextVar("rate", default=2.0)
    return lambda x: x * rate.get(), lambda: rate.set(5.0) and None


@read
def a_mapping_proxy():
    options = {"rate": 2.0}
    proxy = types.MappingProxyType(options)
    return lambda x: x * proxy["rate"], setting(options, "rate", 5.0)


@read
def a_chain_of_maps():
    options = {"rate": 2.0}
    chain = collections.ChainMap({}, options)
    return lambda x: x * chain["rate"] * len(chain), setting(options, "rate", 5.0)


@read
def the_environment(name="JTORCH_TEST_OBSERVED"):
    os.environ[name] = "2"


    def change():
        os.environ[name] = "3"
        return lambda: os.environ.pop(name)

    return lambda x: x * float(os.environ[name]), change


@read
def the_dict_of_an_object():
    config = Config()
    return lambda x: x * config.__dict__["rate"], setting(config, "rate", 5.0)


@read
def a_view_of_a_dict():
    options = {"rate": 2.0}
    values = options.values()
    return lambda x: x * sum(values), setting(options, "rate", 5.0)


@read
def a_typed_array():
    table = array.array("d", [1.0, 2.0])
    return lambda x: x * table[1], lambda: table.append(3.0) or table.__setitem__(1, 5.0)


@read
def a_flag_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.flag = True

        def forward(self, x):
            return x * 2 if self.flag else x * 3

    net = Net()
    return net, setting(net, "flag", False)


@read
def a_list_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.rates = [2.0]

        def forward(self, x):
            return x * self.rates[0]

    net = nn.Sequential(Net(), nn.Identity())
    return (lambda x: net(x)), setting(net[0].rates, 0, 5.0)


@read
def a_config_of_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()

        def forward(self, x):
            return x * self.config.rate

    net = Net()
    return net, setting(net.config, "rate", 5.0)


@read
def a_class_attribute_of_a_module():
    class Net(nn.Module):
        rate = 2.0

        def forward(self, x):
            return x * self.rate

    return Net(), setting(Net, "rate", 5.0)


@read
def an_argument_of_a_class_of_its_own():
    class Option:
        rate = 2.0

    option = Option()
    return (lambda x, option=option: x * option.rate), setting(option, "rate", 5.0)


@read
def a_hook():
    table, net = [2.0], nn.Linear(2, 2, bias=False)
    nn.init.ones_(net.weight)
    net.register_forward_hook(lambda module, args, out: out * table[0])
    return (lambda x: net(x).detach()), setting(table, 0, 5.0)


@read
def a_function_with_its_own_gradient():
    table = [2.0]

    class Scale(jtorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.rate = 7.0
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * table[0] + ctx.rate

    def f(x):
        y = x.detach().requires_grad_()
        return jtorch.autograd.grad(Scale.apply(y).sum(), y)[0]

    return f, setting(table, 0, 5.0)


@read
def a_rate_read_from_an_optimizer():
    optimizer = jtorch.optim.SGD([t(1).requires_grad_()], lr=0.1)
    return lambda x: x * optimizer.param_groups[0]["lr"], setting(optimizer.param_groups[0], "lr", 5.0)


@read
def a_rate_asked_of_a_scheduler():
    optimizer = jtorch.optim.SGD([t(1).requires_grad_()], lr=1.0)
    scheduler = jtorch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    optimizer.step()
    return lambda x: x * scheduler.get_last_lr()[0], scheduler.step


@read
def a_returned_list_from_outside():
    table = [2.0]

    def f(x):
        return x * 1, table

    return (lambda x: x * jtorch.compile(f)(x)[1][0] + f(x)[1][0]), setting(table, 0, 5.0)


def test_a_list_from_outside_that_is_returned():
    table = [2.0]
    f = jtorch.compile(lambda x: (x * 1, table))
    assert f(t(1))[1] == [2.0]
    table[0] = 5.0
    assert f(t(1))[1] == [5.0]


def test_numbers_equal_by_value_are_the_same_and_by_type_are_not():
    options = {"a": 1000, "b": (1.5, "x"), "c": float("nan")}
    f = jtorch.compile(lambda x: x * options["a"] + len(options["b"]) + (options["c"] != options["c"]))
    f(t(1))
    options.update(a=int("1000"), b=(float("1.5"), "".join(["x"])), c=float("nan"))
    f(t(1))
    assert sum(map(len, f.plans.values())) == 1
    options["a"] = 1000.0
    f(t(1))
    assert sum(map(len, f.plans.values())) == 2


def test_a_thing_that_disappears_is_eagers_error():
    options, config = {"rate": 2.0}, Config()
    f = jtorch.compile(lambda x: x * options["rate"] * config.rate)
    f(t(1))
    del options["rate"]
    with pytest.raises(KeyError, match="rate"):
        f(t(1))
    options["rate"] = 3.0
    del config.rate
    config.rate = 4.0
    assert f(t(1)).tolist() == [12.0]


# -- writes -------------------------------------------------------------------------------------------------

COUNT = 0
WRITES = {}


def write(sentence):
    """A case: answers (f, state). Compiled, ``f(x)`` is a CompileError that names this file and the line, and
    ``state()`` is what it was."""

    def decorator(function):
        WRITES[function.__name__] = (function, sentence)
        return function

    return decorator


@pytest.mark.parametrize("name", WRITES)
def test_a_change_from_inside_is_refused_before_it_happens(name):
    make, sentence = WRITES[name]
    f, state = make()
    before = copy.deepcopy(state())
    sentence = rf"test_observe\.py:\d+ in .*{sentence}.*reads from outside.*Pass"
    with pytest.raises(CompileError, match=sentence) as found:
        jtorch.compile(f)(t(1))
    assert state() == before
    line = int(str(found.value).split(".py:")[1].split(" ")[0])
    assert "# here" in linecache.getline(__file__, line)


@write("changes 'COUNT'")
def a_global():
    def f(x):
        global COUNT
        COUNT += 1  # here
        return x * COUNT

    return f, lambda: COUNT


@write("changes 'count'")
def a_cell():
    count = 0

    def f(x):
        nonlocal count
        count = count + 1  # here
        return x

    return f, lambda: count


@write("changes 'steps' of a SimpleNamespace")
def an_attribute():
    state = types.SimpleNamespace(steps=0)

    def f(x):
        state.steps += 1  # here
        return x

    return f, lambda: state.steps


@write("changes 'steps' of a dict")
def an_item():
    state = {"steps": 0}

    def f(x):
        state["steps"] += 1  # here
        return x

    return f, lambda: state


@write("changes 0 of a list")
def an_item_of_a_list_in_a_callee():
    state = {"counts": [0]}

    def inner():
        state["counts"][0] = 5  # here

    def f(x):
        inner()
        return x

    return f, lambda: state


@write("changes 'last' of a Net")
def a_tensor_kept_on_a_module():
    class Net(nn.Module):
        def forward(self, x):
            self.last = x * 2  # here
            return x

    net = Net()
    return net, lambda: hasattr(net, "last")


@write("changes 'count' of Net")
def a_class_attribute_set():
    class Net:
        count = 0

        def f(self, x):
            type(self).count += 1  # here
            return x

    return Net().f, lambda: Net.count


@write("changes the entries of a dict")
def an_update():
    state = {}

    def f(x):
        state.update(a=1)  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_pop():
    state = [1.0, 2.0]
    return (lambda x: x * state.pop()), lambda: state  # here


@write("changes the entries of a set")
def an_addition_to_a_set():
    state = set()

    def f(x):
        state.add(3)  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_list_joined_in_place():
    state = [1]

    def f(x):
        nonlocal state
        state += [2]  # here
        return x

    return f, lambda: state


@write("changes the entries of a list")
def a_bound_method_of_a_list():
    state = [2, 1]
    sort = state.sort

    def f(x):
        sort()  # here
        return x

    return f, lambda: state


@write("changes 'rate' of a Config")
def setattr_of_an_object():
    config = Config()

    def f(x):
        setattr(config, "ra" + "te", 3.0)  # here
        return x

    return f, lambda: config.rate


@write("changes 'rate' of a Config")
def a_deletion():
    config = Config()

    def f(x):
        del config.rate  # here
        return x

    return f, lambda: config.rate


@write("changes 0 of a NumPy array")
def an_element_of_an_array():
    table = np.zeros(2)

    def f(x):
        table[0] = 1.0  # here
        return x

    return f, lambda: table.tolist()


@write("changes 'value' of a Node")
def an_object_reached_through_a_library_call():
    class Node:
        value = 1.0

    nodes = {"a": Node()}

    def f(x):
        found = sorted(nodes.values(), key=id)[0]
        found.value = 2.0  # here
        return x

    return f, lambda: nodes["a"].value


def test_an_error_that_the_function_catches_is_raised_all_the_same():
    state = {}

    def f(x):
        with contextlib.suppress(RuntimeError):
            state["k"] = 1
        return x

    with pytest.raises(CompileError, match="changes 'k' of a dict"):
        jtorch.compile(f)(t(1))
    assert not state


def test_own_containers_and_objects_may_be_changed():
    class Pair:
        def __init__(self, a):
            self.a = a
            self.a = self.a * 2

        def bump(self):
            self.a = self.a + 1
            return self

    class Bare:
        pass

    outer = [1.0, 2.0]

    def f(x, pair):
        values, table, seen = [], {}, set()
        for k in range(3):
            values.append(x * k)
            table[k] = values[-1]
            seen.add(k)
        values[0] = x
        values += [x]
        made, bare = Pair(x).bump(), Bare()
        bare.x = made.a
        config = Config()
        config.rate = 3.0
        config.sizes.append(4)
        mine = copy.copy(outer)
        mine[0] = 7.0
        mine2 = list(outer)
        mine2.append(1.0)
        clone = copy.deepcopy(config)
        clone.rate = 2.0
        count = 0

        def bump():
            nonlocal count
            count += 1

        bump()
        counts = collections.defaultdict(int)
        counts["a"] += 1
        del table[0]
        numbers = (mine[0], clone.rate, count, mine2.pop(), counts["a"])
        return sum(values) + bare.x + config.rate + sum(numbers) + pair[0]

    x, pair = t(1, 2), [t(3, 3)]
    assert jtorch.compile(f)(x, pair).tolist() == f(x, pair).tolist()
    assert outer == [1.0, 2.0]


def test_tensors_from_outside_may_be_changed_in_place():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", jtorch.zeros(1))

        def forward(self, x):
            self.total += x
            return self.total * 1

    def run(wrap):
        total, kept, net = t(0), {"sum": t(0)}, Net()

        def f(x):
            nonlocal total
            total += x
            kept["sum"] += x * 2
            return total + net(x)

        f = wrap(f)
        return [f(t(1)).tolist(), f(t(2)).tolist(), total.tolist(), kept["sum"].tolist(), net.total.tolist()]

    assert run(jtorch.compile) == run(lambda f: f)


def test_a_default_dict_that_would_grow_is_refused():
    counts = collections.defaultdict(float)
    with pytest.raises(CompileError, match=r"'a' of a defaultdict.*call the function once before"):
        jtorch.compile(lambda x: x * counts["a"])(t(1))
    assert not counts


def test_writing_what_is_there_already_changes_nothing():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.mode = "a"

        def forward(self, x):
            self.mode = "a"
            return x * 2

    f = jtorch.compile(Net())
    for _ in range(3):
        assert f(t(1)).tolist() == [2.0]
    assert sum(map(len, f.plans.values())) == 1


@pytest.mark.parametrize("kind", ["print", "append"])
def test_what_happens_while_recording_alone_warns_once(kind, capsys):
    kept = []

    def f(x):
        if kind == "print":
            print("called")
        else:
            kept.append(1)
        return x * 2

    f = jtorch.compile(f)
    with pytest.warns(UserWarning, match=f"calls {kind}.*when the function is recorded, not at each call"):
        f(t(1))
    f(t(1))
    f(t(1, 2))  # recorded once more, and not warned again
    assert len(kept) + capsys.readouterr().out.count("called") == 2


def test_reading_the_length_of_a_list_that_grows_inside_is_an_error():
    kept = []

    def f(x):
        n = len(kept)
        kept.append(n)
        return x * n

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(CompileError, match=r"test_observe.py:\d+ in f: .*the length of a list"):
            jtorch.compile(f)(t(1))


# -- what cannot be observed ---------------------------------------------------------------------------------

WORLD = {
    "random.random": lambda: random.random(),
    "random.uniform": lambda: random.uniform(1, 2),
    "random.shuffle": lambda: random.shuffle([1, 2, 3]) or 1.0,
    "a Random": lambda: random.Random(3).random(),
    "numpy.random.rand": lambda: np.random.rand(),
    "numpy.random.default_rng": lambda: np.random.default_rng(0).standard_normal(),
    "time.time": lambda: time.time(),
    "time.perf_counter": lambda: time.perf_counter(),
    "open": lambda: len(open(__file__).read()),  # noqa: PTH123, SIM115
    "input": lambda: len(input()),
}


@pytest.mark.parametrize("name", WORLD)
def test_what_differs_at_each_call_is_refused(name):
    function = WORLD[name]
    with pytest.raises(CompileError, match=r"test_observe.py:\d+.*(would keep|outside)"):
        jtorch.compile(lambda x: x * function())(t(1))


def test_an_iterator_from_outside_is_refused():
    batches = iter([t(1), t(2)])
    with pytest.raises(CompileError, match="from outside, which a recording would do once"):
        jtorch.compile(lambda x: x + next(batches))(t(1))
    with pytest.raises(CompileError, match="takes elements from a list_iterator"):
        jtorch.compile(lambda x: [x + b for b in batches])(t(1))
    assert next(batches).tolist() == [1.0]


def test_a_loader_from_outside_is_refused():
    from jtorch.utils.data import DataLoader, TensorDataset

    loader = DataLoader(TensorDataset(jtorch.ones(4, 2)), batch_size=2)
    with pytest.raises(CompileError, match="takes elements from a DataLoader"):
        jtorch.compile(lambda x: [x + b[0] for b in loader])(t(1, 1))


def test_elements_of_a_large_array_are_refused_and_the_array_as_an_operand_is_read_anew():
    table = np.zeros(100_000, np.float32)
    with pytest.raises(CompileError, match=r"elements of a NumPy array.*from_numpy"):
        jtorch.compile(lambda x: x * float(table[0]))(t(1))
    for convert in (lambda array: array, jtorch.from_numpy, jtorch.as_tensor):
        compiled = jtorch.compile(lambda x, convert=convert: x + convert(table))
        for value in (1.0, 2.0):
            table[:] = value
            assert compiled(t(1))[0].item() == 1.0 + value
        assert sum(map(len, compiled.plans.values())) == 1


# -- the mechanism -------------------------------------------------------------------------------------------


def test_another_trace_function_is_put_back():
    seen = []

    def trace(frame, event, arg):
        seen.append(frame.f_code.co_name)

    f = jtorch.compile(lambda x: x * TABLE[0])
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        f(t(1))
        assert sys.gettrace() is trace
        with pytest.raises(KeyError):
            jtorch.compile(lambda x: {}["missing"])(t(1))
        assert sys.gettrace() is trace
    finally:
        sys.settrace(before)


def test_a_function_that_sets_a_trace_function_is_refused():
    def f(x):
        sys.settrace(None)
        return x

    with pytest.raises(CompileError, match=r"sys\.settrace"):
        jtorch.compile(f)(t(1))


def test_frames_laid_out_otherwise_are_an_error(monkeypatch):
    frames.check()
    assert frames._probe()
    for field in ("code", "function", "size", "slots"):
        wrong = dataclasses.replace(frames._layout, **{field: getattr(frames._layout, field) + 8})
        monkeypatch.setattr(frames, "_layout", wrong)
        monkeypatch.setattr(frames, "_SIZE", wrong.size)
        monkeypatch.setattr(frames, "_SLOTS", wrong.slots)
        assert not frames._probe(), field


def test_reads_are_distinct_and_do_not_grow_with_layers():
    class Layer(nn.Module):
        scale = 2.0

        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)
            self.flag = True

        def forward(self, x):
            return self.linear(x) * self.scale * RATE if self.flag else x

    def guards(n):
        net = nn.Sequential(*[Layer() for _ in range(n)])
        f = jtorch.compile(lambda x: net(x))
        f(t(1, 2))
        return sum(read.guarded for read in f._newest().capture.plain)

    assert guards(2) == guards(20) < 8


def test_a_long_function_with_many_names():
    """More than 256 names: instructions with extended arguments."""
    names = {f"n{k}": float(k) for k in range(400)}
    text = "def f(x):\n    return x * (" + " + ".join(names) + ")\n"
    exec(text, names)
    f = jtorch.compile(names["f"])
    before = f(t(1)).item()
    names["n333"] += 1.0
    assert f(t(1)).item() == before + 1.0


def test_a_module_first_imported_inside(tmp_path, monkeypatch):
    (tmp_path / "observed_first.py").write_text("COUNT = []\nRATE = 2.0\nCOUNT.append(1)\nCOUNT[0] = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    def f(x):
        import observed_first

        return x * observed_first.RATE

    compiled = jtorch.compile(f)
    assert compiled(t(1)).tolist() == [2.0]
    monkeypatch.setattr(sys.modules["observed_first"], "RATE", 3.0)
    assert compiled(t(1)).tolist() == [3.0]
    monkeypatch.delitem(sys.modules, "observed_first")
