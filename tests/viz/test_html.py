"""What notebooks show of tensors, modules and optimizers, and how compiled functions print."""

import pytest

import jtorch
import jtorch.nn as nn


def test_a_tensor_unfolds_to_what_it_prints():
    x = jtorch.ones(2, requires_grad=True)
    assert "Tensor float32 [2], requires grad" in x._repr_html_()
    html = (x * 2)._repr_html_()
    assert "MulBackward0" in html and "grad_fn=&lt;MulBackward0&gt;" in html and html.startswith("<details")


def test_a_module_unfolds_to_its_children_and_text_is_escaped():
    class Odd(nn.Module):
        def extra_repr(self):
            return "<script>"

    html = nn.Sequential(nn.Linear(3, 4), Odd())._repr_html_()
    assert "16 parameters" in html and "weight: float32 [4, 3]" in html
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_an_optimizer_shows_its_groups():
    html = jtorch.optim.SGD([jtorch.ones(2, requires_grad=True)], lr=0.25)._repr_html_()
    assert "SGD, 1 parameter groups" in html and "lr: 0.25" in html


def test_what_is_compiled_prints_as_one_sentence():
    f = jtorch.compile(lambda x: x * 2)
    assert repr(f) == "<compiled '<lambda>', not recorded yet: call it>"
    f(jtorch.ones(2))
    plan = f._newest()
    assert repr(f).startswith("<compiled '<lambda>' with 1 plan, replayed 1 times: ask explain()")
    assert repr(plan.capture).startswith("<recording of '<lambda>': 1 equations, 1 inputs, 1 results")
    assert "1 steps" in repr(plan) and repr(plan.program.plan).startswith("<plan of 1 steps over 0 bytes")


@pytest.mark.slow
def test_a_notebook_shows_each_of_them():
    nbclient = pytest.importorskip("nbclient", reason="needs nbclient to run a notebook")
    nbformat = pytest.importorskip("nbformat", reason="needs nbformat to run a notebook")
    pytest.importorskip("ipykernel", reason="needs ipykernel to run a notebook")
    cells = [
        "import jtorch, jtorch.viz; x = jtorch.ones(2, requires_grad=True); x",
        "jtorch.nn.Linear(2, 3)",
        "jtorch.optim.SGD([x], lr=0.1)",
        "jtorch.viz.show(x * 2)",
        "f = jtorch.compile(lambda x: x * 2); f(jtorch.ones(2)); jtorch.viz.show(f)",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in cells])
    book.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbclient.NotebookClient(book, timeout=120).execute()
    shown = [cell.outputs[-1].data["text/html"] for cell in book.cells]
    wanted = ["Tensor float32 [2]", "weight: float32 [3, 2]", "lr: 0.1", "<svg", "<iframe"]
    assert all(text in html for text, html in zip(wanted, shown, strict=True))
