"""The examples in docstrings run and print what they show: in the files, and on what the op table makes."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import jtorch
import tools
from jtorch.eager.methods import FUNCTIONS

pytestmark = [
    pytest.mark.usefixtures("as_users_run_it"),
    pytest.mark.filterwarnings("ignore:Lazy modules"),  # what PyTorch says of them, too
    pytest.mark.filterwarnings("ignore:Anomaly Detection"),
]

OPTIONS = doctest.NORMALIZE_WHITESPACE
PROGRAMS = ("__main__", "as_torch.preload")  # importing them changes the process
SHOWN = ("Linear", "Adam", "DataLoader", "Tensor", "einsum", "Sequential")  # some of those with an example


# Of how many public names of a namespace the docstring has an example, at least: it is a number to raise.
SHOWN_OF = {
    "nn": 163,  # of 164
    "nn.functional": 103,  # of 104
    "nn.init": 15,  # of 27
    "nn.utils": 9,  # of 11
    "nn.utils.rnn": 8,  # of 8
    "nn.utils.parametrize": 6,  # of 6
    "nn.utils.parametrizations": 3,  # of 4
    "nn.utils.prune": 17,  # of 17
    "optim": 15,  # of 15
    "optim.lr_scheduler": 16,  # of 16
    "optim.swa_utils": 7,  # of 7
    "utils.data": 19,  # of 19
    "distributions": 66,  # of 66
    "func": 10,  # of 10
    "autograd": 13,  # of 17
    "autograd.functional": 6,  # of 6
    "autograd.graph": 7,  # of 8
    "autograd.profiler": 2,  # of 3
}


def modules():
    found = []
    for package in (jtorch, tools):
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return ["jtorch", *(name for name in found if not name.endswith(PROGRAMS))]


def public(namespace):
    """The classes and functions of a namespace: those of ``__all__``, or those that are defined below it."""
    module = importlib.import_module(f"jtorch.{namespace}")
    values = {n: getattr(module, n) for n in getattr(module, "__all__", dir(module)) if n[0] != "_"}
    known = {n: inspect.unwrap(v) for n, v in values.items() if callable(v)}
    listed = hasattr(module, "__all__")
    return {n: values[n] for n, v in known.items() if listed or _is_below(v, module.__name__)}


def _is_below(value, package):
    return (inspect.isclass(value) or inspect.isroutine(value)) and value.__module__.startswith(package)


def examples():
    """One test a docstring. Modules that need what is not installed have none here."""
    finder, found = doctest.DocTestFinder(), {}
    for name in modules():
        try:
            module = importlib.import_module(name)
        except ImportError:  # an extra: Griffe, CuPy, ...
            continue
        for test in finder.find(module):
            if test.examples:
                found[test.name] = test
    made = dict(FUNCTIONS)  # the finder leaves out what the op table and decorators make
    for namespace in SHOWN_OF:
        made |= {f"{namespace}.{name}": value for name, value in public(namespace).items()}
    parser, seen = doctest.DocTestParser(), {test.docstring for test in found.values()}
    for name, value in made.items():
        text = value.__doc__ or ""
        if ">>>" in text and text not in seen:
            found[name] = parser.get_doctest(text, {}, f"jtorch.{name}", None, None)
            seen.add(text)
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_prints_what_it_shows(name):
    told = []
    jtorch.manual_seed(0)
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(EXAMPLES[name], out=told.append, clear_globs=False)
    assert not runner.failures, "".join(told)


def test_examples_are_found_where_they_are():
    names = {name.rpartition(".")[2] for name in EXAMPLES}
    assert names.issuperset(SHOWN) and len(EXAMPLES) >= 20


@pytest.mark.parametrize("namespace", SHOWN_OF)
def test_as_many_names_have_an_example_as_before(namespace):
    names = public(namespace)
    bare = sorted(name for name, value in names.items() if ">>>" not in (value.__doc__ or ""))
    shown = len(names) - len(bare)
    assert shown >= SHOWN_OF[namespace], f"{shown} of {len(names)} have one, these none: {', '.join(bare)}"
