"""``autograd.forward_ad``: values as in PyTorch, and as ``func.jvp`` of every op has them."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest

import jtorch
from jtorch import func, nn
from jtorch.autograd import Function, forward_ad as fw
from jtorch.core.errors import CompileError
from jtorch.core.op import BY_NAME
from jtorch.eager.tensor import leaf
from tests.autograd.forward_programs import PROGRAMS
from tests.each import each
from tests.ops.samples import samples
from tests.ops.support import ALL_CASES, call, needs_torch


@pytest.fixture
def x():
    return jtorch.tensor([1.0, 2.0, 3.0])


@pytest.fixture
def v():
    return jtorch.tensor([1.0, 10.0, 100.0])


def along(function, x, v, grad=True):
    with jtorch.set_grad_enabled(grad), fw.dual_level():
        return fw.unpack_dual(function(fw.make_dual(x, v))).tangent


# -- values ------------------------------------------------------------------------------------------------


def both(T, forward_ad, program, grad):
    """(primal, tangent or zeros) in doubles"""
    values, tangents = program.arrays()
    default = T.get_default_dtype()
    T.set_default_dtype(T.float64)
    try:
        with T.set_grad_enabled(grad), forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(T.tensor(a), T.tensor(t)) for a, t in zip(values, tangents, strict=True)
            ]
            primal, tangent = forward_ad.unpack_dual(program.function(T, *duals))
        primal = primal.detach().numpy()
        return primal, np.zeros_like(primal) if tangent is None else tangent.detach().numpy()
    finally:
        T.set_default_dtype(default)


@needs_torch
@each("grad", [True, False])
@each("name", PROGRAMS)
def test_tangents_are_those_of_pytorch(name, grad):
    import torch
    import torch.autograd.forward_ad as theirs

    program = PROGRAMS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own, of what it scripts for forward mode
        expected = both(torch, theirs, program, grad)
    found = both(jtorch, fw, program, grad)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-6, atol=1e-8)


@each("name", PROGRAMS)
def test_gradients_go_through_primals_and_tangents(name):
    """Backward through what ``unpack_dual`` gives: against central differences along one direction."""
    program = PROGRAMS[name]
    if name == "dtypes":  # float32 in between has too few digits
        return
    values, tangents = program.arrays()
    directions = [np.cos(a + 1) for a in values]

    def total(step, requires_grad=False):
        xs = [
            jtorch.tensor(a + step * d, requires_grad=requires_grad)
            for a, d in zip(values, directions, strict=True)
        ]
        primal, tangent = None, None
        jtorch.set_default_dtype(jtorch.float64)
        try:
            with fw.dual_level():
                duals = [fw.make_dual(a, jtorch.tensor(t)) for a, t in zip(xs, tangents, strict=True)]
                primal, tangent = fw.unpack_dual(program.function(jtorch, *duals))
        finally:
            jtorch.set_default_dtype(jtorch.float32)
        return xs, primal.sum() + (0.0 if tangent is None else (tangent * 0.7).sum())

    xs, y = total(0.0, requires_grad=True)
    if not y.requires_grad:
        return
    grads = jtorch.autograd.grad(y, xs, allow_unused=True)
    found = sum(float((g.numpy() * d).sum()) for g, d in zip(grads, directions, strict=True) if g is not None)
    eps = 1e-6
    expected = (total(eps)[1].item() - total(-eps)[1].item()) / (2 * eps)
    if name in ("detach",):  # whose primal moves without a gradient
        return
    assert found == pytest.approx(expected, rel=2e-4, abs=2e-5)


OPS = [
    (name, k)
    for name, k in ALL_CASES
    if BY_NAME[name].vjp_function is not None
    and BY_NAME[name].differentiable
    and any(
        isinstance(a, np.ndarray) and a.dtype.kind in "fc" and i not in samples(name)[k].constant
        for i, a in enumerate(samples(name)[k].args)
    )
]


@each("name, k", OPS)
def test_every_op_as_func_jvp_has_it(name, k):
    sample, rng = samples(name)[k], np.random.default_rng(0)
    places = [
        i
        for i, a in enumerate(sample.args)
        if isinstance(a, np.ndarray) and a.dtype.kind in "fc" and i not in sample.constant
    ]
    base = [leaf(np.array(a), False) if isinstance(a, np.ndarray) else a for a in sample.args]
    given = tuple(base[i] for i in places)
    tangents = tuple(leaf(rng.standard_normal(t.shape).astype(t.numpy().dtype), False) for t in given)

    def outputs(*replaced):
        arguments = list(base)
        for i, t in zip(places, replaced, strict=True):
            arguments[i] = t
        return tuple(o for o in call(name, arguments, sample) if o.is_floating_point() or o.is_complex())

    if not outputs(*given):
        return
    _, expected = func.jvp(outputs, given, tangents)
    for grad in (True, False):
        with jtorch.set_grad_enabled(grad), fw.dual_level():
            outs = outputs(*map(fw.make_dual, given, tangents))
            found = [fw.unpack_dual(o).tangent for o in outs]
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f.detach().numpy(), e.numpy(), rtol=2e-4, atol=1e-5)


# -- levels ------------------------------------------------------------------------------------------------


def test_outside_of_a_level(x, v):
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fw.make_dual(x, v)
    assert fw.unpack_dual(x).tangent is None
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()


def test_levels_do_not_nest():
    with fw.dual_level() as level:
        assert level == 0
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported at the moment"):
            fw.enter_dual_level()
        with pytest.raises(RuntimeError, match="not the last one that was created"):
            fw.exit_dual_level(level=3)
    assert fw.enter_dual_level() == 0
    fw.exit_dual_level(level=0)


def test_tangents_are_freed_at_the_end(x, v):
    w = leaf(x.numpy().copy())
    with fw.dual_level():
        y = (fw.make_dual(w, v).exp() * 2)[1:]
        gone = weakref.ref(fw.unpack_dual(y).tangent)
        assert "tangent=" in repr(y)
    gc.collect()
    assert gone() is None
    assert fw.unpack_dual(y).tangent is None
    with fw.dual_level():
        assert fw.unpack_dual(y).tangent is None
        assert fw.unpack_dual(y * 2).tangent is None
    y.sum().backward()
    assert jtorch.allclose(w.grad[1:], 2 * x[1:].exp())


def test_an_error_ends_the_level(x):
    with pytest.raises(ZeroDivisionError), fw.dual_level():
        raise ZeroDivisionError
    with fw.dual_level():
        pass


def test_a_level_that_began_inside_of_a_block_that_ended(x, v):
    with jtorch.no_grad():
        fw.enter_dual_level()
        y = fw.make_dual(x, v)
    try:
        with pytest.raises(RuntimeError, match="was entered inside a block"):
            fw.unpack_dual(y)
    finally:
        fw.exit_dual_level()


def test_as_a_decorator(x, v):
    @fw.dual_level()
    def tangent(a, t):
        return fw.unpack_dual(fw.make_dual(a, t) ** 2).tangent

    assert tangent(x, v).tolist() == [2.0, 40.0, 600.0]
    assert tangent(x, v).tolist() == [2.0, 40.0, 600.0]


# -- errors ------------------------------------------------------------------------------------------------


def test_what_can_be_made_dual(x, v):
    with fw.dual_level():
        with pytest.raises(RuntimeError, match=r"different size .* is of size \[3\] .* of size \[2\]"):
            fw.make_dual(x, v[:2])
        with pytest.raises(
            ValueError, match=r"primal to be floating point or complex, but got: torch\.int64"
        ):
            fw.make_dual(x.long(), v)
        with pytest.raises(
            ValueError, match=r"tangent to be floating point or complex, but got: torch\.int64"
        ):
            fw.make_dual(x, v.long())
        dual = fw.make_dual(x, v)
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level 0"):
            fw.make_dual(dual, v)
        with pytest.raises(RuntimeError, match="Setting a forward grad that itself has a forward gradient"):
            fw.make_dual(x, dual)
        with pytest.raises(RuntimeError, match="Invalid level given to _make_dual"):
            fw.make_dual(x, v, level=1)
        with pytest.raises(RuntimeError, match="Invalid level given to _fw_primal"):
            fw.unpack_dual(dual, level=1)


@each(
    "name",
    ["bessel_j0", "heaviside", "floor_divide", "unique", "bincount", "histogram", "unique_consecutive"],
)
def test_what_has_no_gradient_is_refused(name):
    x = jtorch.tensor([1.0, 2.0, 3.0])
    programs = {
        "bessel_j0": jtorch.special.bessel_j0,
        "heaviside": lambda d: jtorch.heaviside(d, x),
        "floor_divide": lambda d: d // 2,
        "unique": jtorch.unique,
        "unique_consecutive": jtorch.unique_consecutive,
        "bincount": lambda d: jtorch.bincount(jtorch.tensor([0, 1, 1]), d),
        "histogram": lambda d: jtorch.histogram(d, 3),
    }
    with fw.dual_level(), pytest.raises(NotImplementedError, match="Trying to use forward AD with"):
        programs[name](fw.make_dual(x, x))


def test_writes_that_are_refused(x, v):
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        for out, argument in ((jtorch.zeros(3), dual), (dual, x)):
            with pytest.raises(NotImplementedError, match="add_out that does not support it"):
                jtorch.add(argument, 1, out=out)
        with pytest.raises(RuntimeError, match="cannot resize variables that has a forward grad"):
            (dual * 1).resize_(2)
        with pytest.raises(RuntimeError, match="a function that forward mode can't follow"):
            dual.clone().map_(x, lambda a, b: a)


def test_a_write_through_a_view_of_unknown_origin(x, v):
    buffer = jtorch.zeros(2, 3)
    with jtorch.no_grad():
        row = buffer[0]  # outside of the level nobody notes how it was made
    with fw.dual_level(), jtorch.no_grad(), pytest.raises(RuntimeError, match="created in no_grad mode"):
        row.copy_(fw.make_dual(x, v))


# -- what a dual tensor is ---------------------------------------------------------------------------------


def test_the_primal_is_the_same_memory(x, v):
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        assert dual.data_ptr() == x.data_ptr()
        assert not dual.requires_grad
        assert fw.unpack_dual(dual).tangent is v
        assert fw.unpack_dual(fw.unpack_dual(dual).primal).tangent is None
        dual.mul_(2)
        assert x.tolist() == [2.0, 4.0, 6.0]
        assert fw.unpack_dual(x).tangent is None
        assert fw.unpack_dual(dual).tangent.tolist() == [2.0, 20.0, 200.0]
    assert v.tolist() == [1.0, 10.0, 100.0]


def test_what_has_no_tangent(x, v):
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        y = dual * 1
        y.detach_()
        copies = [copy.copy(dual), copy.deepcopy(dual), pickle.loads(pickle.dumps(dual))]
        for t in (dual.detach(), dual.data, dual > 0, dual.int(), x, nn.Parameter(dual), y, *copies):
            assert fw.unpack_dual(t).tangent is None


def test_views_made_under_no_grad(x, v):
    with fw.dual_level(), jtorch.no_grad():
        buffer = jtorch.zeros(2, 3)
        row = buffer[1]
        buffer[0] = fw.make_dual(x, v)
        row.add_(fw.make_dual(x, v) * 2)
        assert fw.unpack_dual(buffer).tangent.tolist() == [[1.0, 10.0, 100.0], [2.0, 20.0, 200.0]]
        pickle.dumps(row)


def test_a_subclass_has_the_tangent(x, v):
    class Named(jtorch.Tensor):
        pass

    assert along(lambda d: d.as_subclass(Named) * 2, x, v).tolist() == [2.0, 20.0, 200.0]


def test_dtypes_of_16_bits_and_autocast(x, v):
    found = along(lambda d: (d * 0.1).softmax(0), x.bfloat16(), v.bfloat16())
    assert found.dtype is jtorch.bfloat16
    assert jtorch.allclose(found.float(), along(lambda d: (d * 0.1).softmax(0), x, v), rtol=0.05)
    with jtorch.autocast("cpu", dtype=jtorch.bfloat16):
        assert along(lambda d: d @ d, x, v).item() == pytest.approx(2 * (x @ v).item(), rel=0.02)


# -- backward ----------------------------------------------------------------------------------------------


def curve(a):
    return a.softmax(0)[0] * a.tanh().sum() + (a**3).sum()


def test_forward_over_reverse(x, v):
    expected = func.hessian(curve)(x) @ v
    w = x.clone().requires_grad_()
    for create_graph in (False, True):
        with fw.dual_level():
            dual = fw.make_dual(w, v)
            (g,) = jtorch.autograd.grad(curve(dual), w, create_graph=create_graph)
            primal, tangent = fw.unpack_dual(g)
            assert tangent.requires_grad is primal.requires_grad is create_graph
            assert jtorch.allclose(tangent, expected, rtol=1e-4)
    with fw.dual_level():
        curve(fw.make_dual(w, v)).backward()
    assert jtorch.allclose(w.grad, func.grad(curve)(x))
    assert not w.grad.requires_grad


def test_reverse_over_forward(x, v):
    w, t = x.clone().requires_grad_(), v.clone().requires_grad_()
    with fw.dual_level():
        tangent = fw.unpack_dual(curve(fw.make_dual(w, t))).tangent
    gw, gt = jtorch.autograd.grad(tangent, (w, t))
    assert jtorch.allclose(gw, func.hessian(curve)(x) @ v, rtol=1e-4)
    assert jtorch.allclose(gt, func.grad(curve)(x), rtol=1e-4)


def test_backward_of_other_things_inside_a_level(x, v):
    w = jtorch.ones(3, requires_grad=True)
    compiled = jtorch.compile(lambda a: (a * a).sum())
    before = compiled(w)
    optimizer = jtorch.optim.SGD([w], 0.1)
    with fw.dual_level():
        (w * fw.make_dual(x, v)).sum().backward()
        before.backward()
        optimizer.step()
    assert w.grad.tolist() == [3.0, 4.0, 5.0]
    assert jtorch.allclose(w, 1 - 0.1 * w.grad)


def test_func_inside_a_level(x, v):
    expected = func.hessian(curve)(x) @ v
    assert jtorch.allclose(along(func.grad(curve), x, v), expected, rtol=1e-4)
    assert jtorch.allclose(
        along(lambda d: func.jvp(curve, (d,), (x,))[1], x, v), (func.hessian(curve)(x) @ v) @ x, rtol=1e-4
    )


# -- modules, custom Functions, vmap, compile --------------------------------------------------------------


def layers():
    yield nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2)), jtorch.randn(5, 3)
    yield (
        nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2)
        ),
        jtorch.randn(2, 1, 6, 6),
    )
    yield nn.LSTM(3, 4, batch_first=True), jtorch.randn(2, 5, 3)
    yield nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), jtorch.randn(2, 5, 4)


@each("k", range(4))
def test_parameters_may_be_dual(k):
    jtorch.manual_seed(0)
    model, x = list(layers())[k]
    names, parameters = zip(*model.named_parameters(), strict=True)
    tangents = tuple(jtorch.randn(*p.shape) for p in parameters)

    def output(*given):
        found = func.functional_call(model, dict(zip(names, given, strict=True)), (x,))
        return found[0] if isinstance(found, tuple) else found

    _, expected = func.jvp(output, tuple(p.detach() for p in parameters), tangents)
    for grad in (True, False):
        with jtorch.set_grad_enabled(grad), fw.dual_level():
            found = fw.unpack_dual(output(*map(fw.make_dual, parameters, tangents))).tangent
        assert jtorch.allclose(found, expected, rtol=1e-3, atol=1e-4)


def test_parameters_replaced_one_by_one():
    """As PyTorch's tutorial does it."""
    model, x = nn.Linear(3, 2), jtorch.randn(4, 3)
    parameters = dict(model.named_parameters())
    tangents = {name: jtorch.rand_like(p) for name, p in parameters.items()}
    with fw.dual_level():
        for name, p in parameters.items():
            delattr(model, name)
            setattr(model, name, fw.make_dual(p, tangents[name]))
        tangent = fw.unpack_dual(model(x)).tangent
    assert jtorch.allclose(tangent, x @ tangents["weight"].T + tangents["bias"], atol=1e-5)


class Power(Function):
    @staticmethod
    def forward(ctx, x, y, exponent):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        ctx.exponent = exponent
        return x**exponent * y, (x > 0)

    @staticmethod
    def backward(ctx, g, _):
        x, y = ctx.saved_tensors
        return g * y * ctx.exponent * x ** (ctx.exponent - 1), g * x**ctx.exponent, None

    @staticmethod
    def jvp(ctx, tx, ty, nothing):
        assert nothing is None
        x, y = ctx.saved_tensors
        return tx * y * ctx.exponent * x ** (ctx.exponent - 1) + ty * x**ctx.exponent, None


def test_a_custom_function(x, v):
    w = x.clone().requires_grad_()
    with fw.dual_level():
        out, mask = Power.apply(fw.make_dual(w, v), x, 3)
        tangent = fw.unpack_dual(out).tangent
        assert fw.unpack_dual(mask).tangent is None
        assert jtorch.allclose(tangent, 3 * x**3 * v)
        (g,) = jtorch.autograd.grad(out.sum(), w)
        assert jtorch.allclose(fw.unpack_dual(g).tangent, 6 * x * x * v)
    assert jtorch.allclose(jtorch.autograd.grad(tangent.sum(), w)[0], 6 * x * x * v)


def custom(jvp, materialize=True):
    class Custom(Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.set_materialize_grads(materialize)
            assert fw.unpack_dual(x).tangent is None
            return x * 2 + y

    if jvp is not None:
        Custom.jvp = staticmethod(jvp)
    return Custom


def test_errors_of_custom_functions(x, v):
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        for jvp, kind, message in (
            (None, NotImplementedError, "You must implement the jvp function for custom autograd.Function"),
            (lambda ctx, *t: (t[0], t[0]), RuntimeError, r"expected 1 but got 2"),
            (lambda ctx, *t: t[0][:2], RuntimeError, "different size than that of the original Tensor"),
            (lambda ctx, *t: 2.0, RuntimeError, r"expected Variable or None \(got float\)"),
            (lambda ctx, *t: fw.make_dual(x, v), RuntimeError, "inside forward"),
        ):
            with pytest.raises(kind, match=message):
                custom(jvp).apply(dual, x)
    with fw.dual_level():
        seen = []
        custom(lambda ctx, *t: seen.append(t), False).apply(fw.make_dual(x, v), x)
        custom(lambda ctx, *t: seen.append(t)).apply(fw.make_dual(x, v), x)
    assert seen[0][1] is None
    assert seen[1][1].tolist() == [0.0] * 3


def test_a_custom_function_in_place(x, v):
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t * 2

    def function(d):
        y = d * 1
        z = y.view(3, 1)
        Double.apply(y)
        return z

    assert along(function, x, v).tolist() == [[2.0], [20.0], [200.0]]


def test_vmap(x, v):
    rows, tangents = jtorch.randn(4, 3), jtorch.randn(4, 3)
    assert jtorch.allclose(
        along(func.vmap(lambda r: (r**2).sum()), rows, tangents), (2 * rows * tangents).sum(1)
    )
    with fw.dual_level():
        columns = func.vmap(lambda t: fw.unpack_dual(fw.make_dual(x, t) ** 2).tangent)(jtorch.eye(3))
        assert jtorch.equal(columns, jtorch.diag(2 * x))
        dual = fw.make_dual(x, v)
        assert (
            fw.unpack_dual(func.vmap(lambda r: (r * dual).sum())(jtorch.ones(2))).tangent.tolist()
            == [111.0] * 2
        )
        with pytest.raises(RuntimeError, match="changed in place, and forward mode can't follow that"):
            func.vmap(lambda r: r.mul_(2))(dual * 1)


def test_compiled_functions(x, v):
    compiled = jtorch.compile(lambda a: (a * a).sin())
    value = compiled(x)
    assert jtorch.allclose(along(compiled, x, v), 2 * x * (x * x).cos() * v)
    assert jtorch.equal(compiled(x), value)

    @jtorch.compile(fullgraph=True)
    def inside(a):
        with fw.dual_level():
            return fw.unpack_dual(fw.make_dual(a, a)).tangent

    with pytest.raises(CompileError, match="Enter it outside of the compiled function"):
        inside(x)


def test_hooks_and_checkpoints(x, v):
    from jtorch.utils.checkpoint import checkpoint

    model = nn.Linear(3, 2)
    model.register_full_backward_hook(lambda *a: None)
    w = x.clone().requires_grad_()
    assert jtorch.allclose(along(model, w, v), model.weight @ v)
    again = along(lambda d: checkpoint(lambda a: a.sin() * a, d, use_reentrant=False), w, v)
    assert jtorch.allclose(again, (x.cos() * x + x.sin()) * v)


def test_dropout_keeps_the_same_elements():
    jtorch.manual_seed(0)
    ones = jtorch.ones(100)
    with fw.dual_level():
        primal, tangent = fw.unpack_dual(nn.functional.dropout(fw.make_dual(ones, ones * 3), 0.5))
    assert jtorch.equal(tangent, primal * 3)


@pytest.mark.slow
def test_scripts_of_pytorch_see_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, torch.autograd.forward_ad as fwAD\n"
        "with fwAD.dual_level():\n"
        "    print(fwAD.unpack_dual(fwAD.make_dual(torch.ones(2), torch.ones(2)) * 3).tangent)\n"
    )
    run = [sys.executable, "-m", "jtorch.as_torch", str(script)]
    found = subprocess.run(run, capture_output=True, text=True, check=False)
    assert found.stdout == "tensor([3., 3.])\n", found.stderr
