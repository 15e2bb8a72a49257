"""The examples in docstrings run and print what they show: in the files, and on what the op table makes."""

import doctest
import importlib
import pkgutil

import pytest

import jtorch
import tools
from jtorch.eager.methods import FUNCTIONS

pytestmark = pytest.mark.usefixtures("as_users_run_it")

OPTIONS = doctest.NORMALIZE_WHITESPACE
PROGRAMS = ("__main__", "as_torch.preload")  # importing them changes the process
SHOWN = ("Linear", "Adam", "DataLoader", "Tensor", "einsum", "Sequential")  # some of those with an example


def modules():
    found = []
    for package in (jtorch, tools):
        found += [m.name for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return ["jtorch", *(name for name in found if not name.endswith(PROGRAMS))]


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
    parser = doctest.DocTestParser()
    for name, function in FUNCTIONS.items():
        text = function.__doc__ or ""
        if ">>>" in text and not any(test.docstring == text for test in found.values()):
            found[name] = parser.get_doctest(text, {}, f"jtorch.{name}", None, None)
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
