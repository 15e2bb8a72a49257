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

pytestmark = pytest.mark.usefixtures("as_users_run_it")

OPTIONS = doctest.NORMALIZE_WHITESPACE
PROGRAMS = ("__main__", "as_torch.preload")  # importing them changes the process
SHOWN = ("Linear", "Adam", "DataLoader", "Tensor", "einsum", "Sequential")  # some of those with an example
# how many names of each have an example; of PyTorch's, those lack one that need a GPU, warn, or are not there
WITH_EXAMPLE = {
    "jtorch": 544, "jtorch.Tensor": 533, "jtorch.linalg": 39, "jtorch.special": 44, "jtorch.fft": 22,
}  # fmt: skip


def modules():
    found = []
    for package in (jtorch, tools):
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return ["jtorch", *(name for name in found if not name.endswith(PROGRAMS))]


def offered(namespace):
    """(name, docstring) of the functions, methods and properties that a namespace offers."""
    place = jtorch if namespace == "jtorch" else getattr(jtorch, namespace.rpartition(".")[2])
    for name in dir(place):
        value = inspect.getattr_static(place, name, None) if inspect.isclass(place) else getattr(place, name)
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value.__doc__ or ""


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
    parser, seen = doctest.DocTestParser(), {test.docstring for test in found.values()}
    for namespace in WITH_EXAMPLE:
        for name, text in offered(namespace):
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
    assert not told, told


def test_examples_are_found_where_they_are():
    names = {name.rpartition(".")[2] for name in EXAMPLES}
    assert names.issuperset(SHOWN) and len(EXAMPLES) >= 20


@pytest.mark.parametrize("namespace", WITH_EXAMPLE)
def test_names_with_an_example_do_not_become_fewer(namespace):
    count = sum(">>>" in text for _, text in offered(namespace))
    assert count >= WITH_EXAMPLE[namespace], f"{count} names of {namespace} have an example"


@pytest.mark.parametrize("namespace", WITH_EXAMPLE)
def test_a_sentence_stands_before_each_example(namespace):
    alone = [name for name, text in offered(namespace) if text.lstrip().startswith(">>>")]
    assert not alone


def test_every_example_of_the_tables_is_shown():
    shown = {
        f"{namespace}.{name}".removeprefix("jtorch.").removeprefix("Tensor.")
        for namespace in WITH_EXAMPLE
        for name, text in offered(namespace)
        if ">>>" in text
    }
    assert not TABLE.keys() - shown
