"""Functions outside a compiled function, and what those read: globals, cells, defaults, hooks."""

import functools
import math
import sys
import threading
import types

import pytest

import jtorch
import jtorch.nn as nn
from tests.compile.observe.observing import assert_noticed, setting

RATE = 0.5
TABLE = [1.0, 2.0]


READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


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
def an_attribute_of_a_function():
    def helper(x):
        return x * helper.rate

    helper.rate = 2.0
    return lambda x: helper(x), setting(helper, "rate", 5.0)


@read
def a_global_by_its_name():
    return lambda x: x * globals()["TABLE"][0], setting(TABLE, 0, 9.0)


@read
def a_value_of_a_thread():
    local = threading.local()
    local.rate = 2.0
    return lambda x: x * local.rate, setting(local, "rate", 5.0)


@read
def a_function_whose_code_is_replaced():
    def scale(x):
        return x * 2

    def other(x):
        return x * 5

    return lambda x: scale(x), setting(scale, "__code__", other.__code__)


@read
def an_expression_that_is_evaluated():
    names = {"rate": 2.0}
    return lambda x: x * eval("rate", names), setting(names, "rate", 5.0)


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


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])
