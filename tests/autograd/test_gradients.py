"""``backward``, ``grad``, edges of the graph, ``Variable``, and the places PyTorch keeps names in."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

import jtorch
from jtorch import autograd
from jtorch.autograd import Variable, graph


def leaf(*values):
    return jtorch.tensor(values, dtype=jtorch.float64, requires_grad=True)


def error_of(call):
    with pytest.raises((RuntimeError, TypeError, ValueError)) as error:
        call()
    return type(error.value), str(error.value)


MISTAKES = {
    "count": lambda t, x, y: t.autograd.grad((y.sum(), y.sum()), x, t.ones(())),
    "shape": lambda t, x, y: t.autograd.grad(y, x, t.ones(3)),
    "unused": lambda t, x, y: t.autograd.grad(y.sum(), t.ones(2, requires_grad=True)),
    "untracked": lambda t, x, y: t.autograd.grad(y.sum(), t.ones(2)),
    "no inputs": lambda t, x, y: t.autograd.backward(y.sum(), inputs=[]),
    "not scalar": lambda t, x, y: t.autograd.backward(y),
    "materialize": lambda t, x, y: t.autograd.grad(y.sum(), x, allow_unused=False, materialize_grads=True),
    "edge": lambda t, x, y: t.autograd.graph.get_gradient_edge(t.ones(2)),
    "variable": lambda t, x, y: t.autograd.Variable(3),
    "own grad": lambda t, x, y: setattr(x, "grad", x),
    "retain": lambda t, x, y: t.ones(2).retain_grad(),
    "disabled": lambda t, x, y: disabled(t),
    "mode": lambda t, x, y: t.autograd.graph.register_multi_grad_hook((x,), print, mode="some"),
}


def disabled(library):
    graph = library.autograd.graph
    with graph.disable_saved_tensors_hooks("not here"), graph.save_on_cpu():
        pass


@pytest.mark.parametrize("name", MISTAKES)
def test_error_sentences(name):
    torch = pytest.importorskip("torch")
    said = []
    for library in (torch, jtorch):
        x = library.tensor([1.0, 2.0], requires_grad=True)
        said.append(error_of(lambda library=library, x=x: MISTAKES[name](library, x, x * 2)))
    assert said[1] == said[0]


def test_batched_gradients():
    x = leaf(1.0, 2.0)
    rows = jtorch.eye(2, dtype=jtorch.float64)
    (found,) = autograd.grad(x**2, x, rows, is_grads_batched=True)
    assert found.tolist() == [[2.0, 0.0], [0.0, 4.0]]


def test_deprecated_arguments_warn():
    x = leaf(1.0)
    with pytest.warns(FutureWarning, match="only_inputs argument is deprecated"):
        autograd.grad(x * 2, x, only_inputs=False)
    with pytest.warns(FutureWarning, match="`grad_variables` is deprecated"):
        autograd.backward(x * 2, grad_variables=jtorch.ones(1, dtype=jtorch.float64))
    assert x.grad.item() == 2


def test_gradient_edges_stand_for_tensors():
    x = leaf(1.0, 2.0)
    y = x * 3
    z = (y**2).sum()
    edges = graph.get_gradient_edge(y), graph.get_gradient_edge(x)
    assert edges[0].node is y.grad_fn
    assert edges[0].output_nr == 0
    found = autograd.grad(z, edges, retain_graph=True)
    assert [t.tolist() for t in found] == [[6.0, 12.0], [18.0, 36.0]]
    autograd.backward(graph.get_gradient_edge(z), inputs=[edges[1]])
    assert x.grad.tolist() == [18.0, 36.0]


def test_inputs_of_backward_may_be_results():
    x = leaf(1.0, 2.0)
    y = x * 3
    (y**2).sum().backward(inputs=[y])
    assert x.grad is None
    assert y.grad.tolist() == [6.0, 12.0]


def test_post_accumulate_hooks_run_for_inputs():
    x, seen = leaf(1.0, 2.0), []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 2).sum().backward(inputs=[x])
    assert seen == [[2.0, 2.0]]


def test_graph_shows_its_nodes():
    x = leaf(1.0)
    y = x.exp() * 2
    (below, index), _ = y.grad_fn.next_functions
    assert isinstance(y.grad_fn, graph.Node)
    assert (below.name(), index) == ("ExpBackward0", 0)
    place = below.next_functions[0][0]
    assert isinstance(place, graph.Node)
    assert place.variable is x
    assert below._saved_result.tolist() == x.exp().tolist()
    assert (x * y).grad_fn._saved_self is x
    assert y.output_nr == 0
    with pytest.raises(AttributeError, match="_saved_nothing"):
        _ = below._saved_nothing


def test_retained_gradient_is_what_hooks_left():
    x = leaf(1.0, 1.0)
    y = x * 1
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    assert not x.retains_grad
    y.register_hook(lambda g: g * 3)
    y.sum().backward()
    assert y.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [3.0, 3.0]


def test_hooks_on_the_place_of_a_leaf():
    x, seen = leaf(1.0), []
    place = (x * 2).grad_fn.next_functions[0][0]
    place.register_prehook(lambda grads: (grads[0] * 10,))
    place.register_hook(lambda _, grads: seen.append(grads[0].item()))
    (x * 2).sum().backward()
    assert x.grad.item() == 20
    assert seen == [20.0]


def test_hook_of_several_gradients():
    torch = pytest.importorskip("torch")
    found = []
    for library in (torch, jtorch):
        a, b = (library.ones(2, requires_grad=True) for _ in range(2))
        c, d, seen = a * b, a * b, []
        register = library.autograd.graph.register_multi_grad_hook
        handle = register((a, b, c, d), lambda grads, seen=seen: seen.append([g is not None for g in grads]))
        first = register((a, c), lambda g, seen=seen: seen.append(g.tolist()), mode="any")
        c.sum().backward(retain_graph=True)
        c.sum().backward(inputs=(a,), retain_graph=True)
        handle.remove()
        first.remove()
        (c + d).sum().backward()
        found.append(seen)
    assert found[1] == found[0]


def test_version_can_be_advanced_by_hand():
    x = leaf(1.0)
    y = x.exp()
    graph.increment_version(y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_variable_is_a_tensor():
    x = jtorch.tensor([1.0])
    v = Variable(x, requires_grad=True)
    assert isinstance(x, Variable)
    assert type(v) is jtorch.Tensor
    assert v.requires_grad
    assert not x.requires_grad
    assert v.data_ptr() == x.data_ptr()
    assert not Variable(v).requires_grad
    with pytest.warns(UserWarning, match="volatile was removed"):
        Variable(x, volatile=True)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("function", "Function"), ("function", "once_differentiable"), ("function", "InplaceFunction"),
        ("gradcheck", "gradcheck"), ("grad_mode", "no_grad"), ("anomaly_mode", "detect_anomaly"),
        ("variable", "Variable"), ("functional", "jacobian"), ("graph", "Node"),
    ],
)  # fmt: skip
def test_names_are_where_programs_import_them_from(module, name):
    assert hasattr(importlib.import_module(f"jtorch.autograd.{module}"), name)
    assert callable(autograd.gradcheck)


def test_multithreading_mode_is_accepted():
    x = leaf(2.0)
    with autograd.set_multithreading_enabled(False):
        (x * x).sum().backward()
    assert x.grad.item() == 4


def test_second_gradient_through_a_promoted_leaf():
    x = jtorch.tensor([1.0, 2.0], requires_grad=True)
    y = leaf(3.0, 4.0)
    (g,) = autograd.grad((x * y * y).sum(), y, create_graph=True)
    (again,) = autograd.grad(g.sum(), x)
    assert again.dtype is jtorch.float32
    np.testing.assert_allclose(again.numpy(), [6.0, 8.0])


def test_the_second_gradient_of_the_absolute_value_of_complex_numbers():
    """d2|z| is no zero, as it is for reals: the direction of z changes with z."""
    x = leaf(3.0)
    (g,) = autograd.grad(jtorch.complex(x, leaf(4.0)).abs().sum(), x, create_graph=True)
    assert g.item() == pytest.approx(3 / 5)
    (h,) = autograd.grad(g, x)
    assert h.item() == pytest.approx(1 / 5 - 3 * 3 / 5**3)
    zero = jtorch.complex(leaf(0.0), leaf(0.0))
    assert autograd.grad(zero.abs().sum(), zero)[0].item() == 0
