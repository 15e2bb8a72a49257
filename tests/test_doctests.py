"""The examples in docstrings run and print what they show: in the files, and on what is made from tables."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

import jtorch
import tools
from jtorch.eager.examples import EXAMPLES as TABLE
from tests.each import each
from tests.ops.support import needs_torch

pytestmark = [
    pytest.mark.usefixtures("as_users_run_it"),
    pytest.mark.filterwarnings("ignore:Lazy modules"),  # what PyTorch says of them, too
    pytest.mark.filterwarnings("ignore:Anomaly Detection"),
]

OPTIONS = doctest.NORMALIZE_WHITESPACE
PROGRAMS = ("__main__", "as_torch.preload")  # importing them changes the process
SHOWN = ("Linear", "Adam", "DataLoader", "Tensor", "einsum", "Sequential")  # some of those with an example
TABLES = ("jtorch", "Tensor", "linalg", "special", "fft")  # whose examples are in tables
# Of how many public names of a namespace the docstring has an example, at least: it is a number to raise. Of
# the first five, those lack one that need a GPU, warn, or that PyTorch does not document.
SHOWN_OF = {
    "jtorch": 546,  # of 622
    "Tensor": 533,  # of 551
    "linalg": 41,  # of 41
    "special": 44,  # of 45
    "fft": 22,  # of 22
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
    "masked": 19,  # of 19
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


def docstrings(namespace):
    """Those of the public names of a namespace, by name."""
    if namespace in TABLES:
        return dict(_offered(jtorch if namespace == "jtorch" else getattr(jtorch, namespace)))
    module = importlib.import_module(f"jtorch.{namespace}")
    values = {n: getattr(module, n) for n in getattr(module, "__all__", dir(module)) if n[0] != "_"}
    known = {n: inspect.unwrap(v) for n, v in values.items() if callable(v)}
    listed = hasattr(module, "__all__")
    return {n: values[n].__doc__ or "" for n, v in known.items() if listed or _is_below(v, module.__name__)}


def _offered(place):
    """The functions, methods and properties."""
    for name in dir(place):
        value = inspect.getattr_static(place, name, None) if inspect.isclass(place) else getattr(place, name)
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value.__doc__ or ""


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
    # the finder leaves out what the op table and decorators make
    parser, seen = doctest.DocTestParser(), {test.docstring for test in found.values()}
    for namespace in SHOWN_OF:
        for name, text in docstrings(namespace).items():
            if ">>>" in text and text not in seen:
                seen.add(text)
                found[f"{namespace}.{name}"] = parser.get_doctest(text, {}, f"{namespace}.{name}", None, None)
    return found


EXAMPLES = examples()


def run(test):
    """What a doctest says is wrong."""
    told = []
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    runner.run(test, out=told.append, clear_globs=False)
    return "".join(told) if runner.failures else ""


@each("name", EXAMPLES)
def test_the_example_prints_what_it_shows(name):
    jtorch.manual_seed(0)
    told = run(EXAMPLES[name])
    assert not told, told


@needs_torch
@each("name", TABLE)
@pytest.mark.filterwarnings("ignore")
def test_pytorch_prints_the_same(name):
    import torch

    torch.manual_seed(0)
    text = re.sub(r"\bjtorch\b", "torch", TABLE[name])
    told = run(doctest.DocTestParser().get_doctest(text, {"torch": torch}, name, None, None))
    torch.set_default_device(None)  # one of them sets it, and tests after it would run under its mode
    assert not told, told


def test_examples_are_found_where_they_are():
    names = {name.rpartition(".")[2] for name in EXAMPLES}
    assert names.issuperset(SHOWN) and len(EXAMPLES) >= 20


@pytest.mark.parametrize("namespace", SHOWN_OF)
def test_as_many_names_have_an_example_as_before(namespace):
    found = docstrings(namespace)
    bare = sorted(name for name, text in found.items() if ">>>" not in text)
    shown = len(found) - len(bare)
    assert shown >= SHOWN_OF[namespace], f"{shown} of {len(found)} have one, these none: {', '.join(bare)}"


@pytest.mark.parametrize("namespace", SHOWN_OF)
def test_a_sentence_stands_before_each_example(namespace):
    assert not [name for name, text in docstrings(namespace).items() if text.lstrip().startswith(">>>")]


def test_every_example_of_the_tables_is_shown():
    shown = {
        f"{namespace}.{name}".removeprefix("jtorch.").removeprefix("Tensor.")
        for namespace in TABLES
        for name, text in docstrings(namespace).items()
        if ">>>" in text
    }
    assert not TABLE.keys() - shown
