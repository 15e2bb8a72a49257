"""Names that are looked up in namespaces: eval, exec, builtins, cells."""

import builtins

import pytest

import jtorch
from jtorch.core.errors import CompileError
from tests.compile.observe.observing import assert_noticed, setting, t

READS = {}


def read(function):
    """A case of ``assert_noticed``."""
    READS[function.__name__] = function
    return function


@read
def a_name_among_the_locals_of_eval():
    names = {"k": 2.0}
    return lambda x: x * eval("k * 1.0", {}, names), setting(names, "k", 5.0)


@read
def a_name_among_the_locals_of_exec():
    names, found = {"k": 2.0}, {}
    return lambda x: exec("y = k", names, found) or x * names["k"], setting(names, "k", 5.0)


@read
def a_name_that_the_locals_of_eval_get():
    names = {}
    return lambda x: x * eval("k", {"k": 2.0}, names), setting(names, "k", 5.0)


@read
def a_name_added_to_builtins():
    builtins.observed_gain = 2.0

    def change():
        builtins.observed_gain = 5.0
        return lambda: delattr(builtins, "observed_gain")

    return lambda x: x * observed_gain, change  # noqa: F821


@read
def a_builtin_hidden_by_a_global():
    names = {"__builtins__": builtins}
    exec("def f(x): return x * len([1, 2])", names)
    return names["f"], setting(names, "len", lambda values: 5.0)


@read
def what_a_cell_holds():
    k = 2.0

    def get():
        return k

    def change():
        nonlocal k
        k = 5.0

    return lambda x: x * get.__closure__[0].cell_contents, change


@pytest.mark.parametrize("name", READS)
def test_a_change_outside_is_noticed(name):
    assert_noticed(READS[name])


def test_what_exec_stores_is_stored_by_each_call():
    outer, inner = {"n": 0}, {"n": 0}

    def f(x):
        exec("n = n + 1", outer)
        exec("n = n + 2", {}, inner)
        return x

    compiled = jtorch.compile(f)
    for _ in range(3):
        compiled(t(1))
    assert (outer["n"], inner["n"]) == (3, 6)


def test_what_exec_deletes_is_refused():
    names = {"n": 0}
    with pytest.raises(CompileError, match="changes 'n'"):
        jtorch.compile(lambda x: exec("del n", {}, names) or x)(t(1))
    assert names == {"n": 0}


def test_names_of_a_class_and_of_an_exec_inside_are_its_own():
    def f(x):
        class Local:
            n = 1
            n = n + 1

        names = {}
        exec("n = 3", names)
        return x * Local.n * names["n"]

    compiled = jtorch.compile(f)
    assert compiled(t(1)).tolist() == compiled(t(1)).tolist() == [6.0]


def test_a_variable_that_is_no_more_is_eagers_error():
    k = 2.0

    def drop():
        nonlocal k
        del k

    f = jtorch.compile(lambda x: x * k)
    f(t(1))
    drop()
    with pytest.raises(NameError, match="'k'"):
        f(t(1))


def test_builtins_are_no_reads():
    f = jtorch.compile(lambda x: x * len([1, 2]) * max(1, 2) * abs(-1))
    f(t(1))
    reads = [str(read) for read in f._newest().capture.plain]
    assert sorted(reads) == sorted({*reads})
    assert not [read for read in reads if "builtin" in read]
