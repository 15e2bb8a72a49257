"""Lists, dicts, sets and arrays outside a compiled function: what it reads of them counts at each call."""

import array
import collections
import contextvars
import functools
import math
import operator
import os
import types

import numpy as np
import pytest

import jtorch
from tests.compile.observe.observing import Config, assert_noticed, setting, t

READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


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
def a_list_in_a_named_tuple():
    Pair = collections.namedtuple("Pair", "rates name")
    pair = Pair([1.0, 2.0], "a")
    return lambda x: x * pair.rates[1], setting(pair.rates, 1, 5.0)


@read
def keywords_of_a_partial():
    table = {"rate": 2.0}

    def scale(x, options):
        return x * options["rate"]

    return functools.partial(scale, options=table), setting(table, "rate", 5.0)


@read
def getenv():
    def change():
        os.environ["JTORCH_TEST_GETENV"] = "3"
        return lambda: os.environ.pop("JTORCH_TEST_GETENV")

    return lambda x: x * float(os.getenv("JTORCH_TEST_GETENV", "2")), change


@read
def indices_in_a_list():
    order = [1, 0]
    return lambda x: x[order], lambda: order.reverse()


@read
def indices_in_an_array():
    order = np.array([1, 0])
    return lambda x: x[order], setting(order, 0, 0)


@read
def indices_of_a_write():
    order = [1]

    def f(x):
        x = x * 1
        x[order] = 7.0
        return x

    return f, setting(order, 0, 0)


@read
def a_shape_in_a_list():
    shape = [1, 2]
    return lambda x: x.reshape(shape).sum(0), setting(shape, slice(0, 2), [2, 1])


@read
def a_list_reduced():
    scales = [1.0, 2.0]
    return lambda x: x * functools.reduce(lambda a, b: a + b, scales), setting(scales, 0, 5.0)


@read
def a_list_mapped():
    scales = [1.0, 2.0]
    return lambda x: x * sum(map(float.__neg__, scales)), setting(scales, 0, 5.0)


@read
def a_list_spread_into_a_list():
    scales = [1.0, 2.0]

    def f(x):
        first, *rest = [*scales, 3.0]
        return x * first + rest[0]

    return f, setting(scales, 1, 5.0)


@read
def a_dict_spread_into_a_dict():
    options = {"rate": 1.0}
    return lambda x: x * {**options, "k": 1}["rate"], setting(options, "rate", 5.0)


@read
def a_loop_with_a_condition():
    scales = [1.0, 2.0]

    def f(x):
        k = 0
        while k < len(scales) and scales[k] < 3:
            x = x * 2
            k += 1
        return x

    return f, setting(scales, 1, 5.0)


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
def a_view_of_a_dict():
    options = {"rate": 2.0}
    values = options.values()
    return lambda x: x * sum(values), setting(options, "rate", 5.0)


@read
def a_typed_array():
    table = array.array("d", [1.0, 2.0])
    return lambda x: x * table[1], lambda: table.append(3.0) or table.__setitem__(1, 5.0)


@read
def a_returned_list_from_outside():
    table = [2.0]

    def f(x):
        return x * 1, table

    return (lambda x: x * jtorch.compile(f)(x)[1][0] + f(x)[1][0]), setting(table, 0, 5.0)


@read
def a_method_by_the_class_of_its_argument():
    class Scales:
        @functools.singledispatchmethod
        def of(self, value):
            return 1

    def change():
        vars(Scales)["of"].register(int, lambda self, value: 5)

    scales = Scales()
    return lambda x: x * scales.of(3), change


@read
def the_args_of_an_exception():
    error = ValueError(2.0, "b")
    return lambda x: x * error.args[0], setting(error, "args", (5.0, "b"))


@read
def the_text_of_an_exception():
    error = ValueError("2.0")
    return lambda x: x * float(str(error)), setting(error, "args", ("5.0",))


@read
def an_exception_in_a_text():
    error = ValueError([1.0])
    return lambda x: x * len(f"{error!r}"), setting(error, "args", (5.0, 6.0))


@read
def an_exception_of_a_users_class():
    class MyError(Exception):
        pass

    error = MyError("ab")
    return lambda x: x * len(str(error)), setting(error, "args", ("abc",))


@read
def a_flag_of_an_array():
    table = np.ones(3)
    return lambda x: x * (2 if table.flags.writeable else 1), setting(table.flags, "writeable", False)


@read
def a_flag_of_an_array_by_its_name():
    table = np.ones(3)
    return lambda x: x * (2 if table.flags["WRITEABLE"] else 1), setting(table.flags, "writeable", False)


@read
def a_flag_of_a_large_array():
    table = np.ones(10_000)
    return lambda x: x * (2 if table.flags.writeable else 1), setting(table.flags, "writeable", False)


@read
def the_flags_of_an_array_in_a_loop():
    tables = [np.ones(3), np.ones(2)]
    change = setting(tables[1].flags, "writeable", False)
    return lambda x: x * sum(table.flags.writeable for table in tables), change


@read
def the_flags_of_an_array_that_came_back():
    table = np.ones((2, 2))
    change = setting(table.flags, "writeable", False)
    return lambda x: x * (2 if np.asarray(table).flags.writeable else 1), change


@read
def the_memory_of_an_array():
    table = np.ones((2, 2))
    return lambda x: x * (2 if memoryview(table).readonly else 1), setting(table.flags, "writeable", False)


@read
def the_flags_of_a_view():
    table = np.ones((2, 2))
    return lambda x: x * (2 if table.view().flags.writeable else 1), setting(table.flags, "writeable", False)


@read
def the_flags_of_a_row():
    table = np.ones((2, 2))
    return lambda x: x * (2 if table[0].flags.writeable else 1), setting(table.flags, "writeable", False)


@read
def the_flags_of_rows_in_a_loop():
    table = np.ones((2, 2))
    change = setting(table.flags, "writeable", False)
    return lambda x: x * sum(2 if row.flags.writeable else 1 for row in table), change


@read
def the_flags_of_a_transpose():
    table = np.ones((2, 2))
    return lambda x: x * (2 if table.T.flags.writeable else 1), setting(table.flags, "writeable", False)


@read
def an_array_got_by_an_attrgetter():
    table, get = np.ones(3), operator.attrgetter("flags.writeable")
    return lambda x: x * (2 if get(table) else 1), setting(table.flags, "writeable", False)


@read
def an_array_got_by_getattr():
    table = np.ones(3)
    return lambda x: x * (2 if getattr(table, "flags").writeable else 1), setting(  # noqa: B009
        table.flags, "writeable", False
    )


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


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
