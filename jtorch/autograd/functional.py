"""Products with Jacobians and Hessians, and these matrices themselves, of functions of tensors.

All are made of backward passes: ``J v`` by differentiating ``u -> u J``, which is linear, so that its value
at any ``u`` serves.
Source: https://docs.pytorch.org/docs/stable/autograd.html#functional-higher-level-api
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jtorch.autograd import gradients
from jtorch.autograd.strictness import Stage, fill_zeros, require_tracked
from jtorch.core import op
from jtorch.eager.creation import zeros_like
from jtorch.eager.grad_mode import enable_grad, is_grad_enabled, set_grad_enabled
from jtorch.eager.methods import FUNCTIONS
from jtorch.eager.tensor import Tensor

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]

_STRATEGY = (
    'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more '
    "outputs "
    'than inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
)
Tensors = tuple[Tensor, ...]


class _Called:
    """``func`` called with fresh tensors in the inputs' stead: it is differentiated at these alone."""

    def __init__(self, name: str, func: Callable, inputs: Any, create_graph: bool, strict: bool) -> None:
        self.create_graph, self.strict, self.name = create_graph, strict, name
        self.several_inputs, given = _as_tuple(inputs, "inputs", name)
        self.inputs = _fresh(given, create_graph, needs_grad=True)
        found = func(*self.inputs)
        self.several_outputs, self.outputs = _as_tuple(found, "outputs of the user-provided function", name)
        require_tracked(self.outputs, "outputs", strict)

    def direction(self, v: Any, of: Tensors, several: bool, otherwise: str) -> Tensors | None:
        """``v`` checked against ``of``; it may only be None where that is one element."""
        if v is None:
            if len(of) != 1 or of[0].nelement() != 1:
                raise RuntimeError(otherwise)
            return None
        _, v = _as_tuple(v, "v", self.name)
        _check_direction(v, of, several)
        return _fresh(v, self.create_graph, needs_grad=False)

    def single_output(self) -> Tensor:
        if self.several_outputs:
            raise RuntimeError(f"The function given to {self.name} should return a single Tensor")
        if self.outputs[0].nelement() != 1:
            raise RuntimeError(
                f"The Tensor returned by the function given to {self.name} should contain a single element"
            )
        return self.outputs[0]

    def product(self, grads: tuple, like: Tensors, stage: Stage, several: bool) -> tuple[Any, Any]:
        """(what ``func`` returned, the product), both off the tape unless it is wanted."""
        filled = fill_zeros(grads, like, self.strict, self.create_graph, stage)
        outputs, filled = _finish(self.outputs, self.create_graph), _finish(filled, self.create_graph)
        return _as_given(outputs, self.several_outputs), _as_given(filled, several)


def vjp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), v J)``: ``v`` is like the outputs, the product like the inputs.

    >>> import jtorch
    >>> jtorch.autograd.functional.vjp(lambda x: x**2, jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.vjp.html
    """
    with enable_grad():
        call = _Called("vjp", func, inputs, create_graph, strict)
        v = call.direction(
            v, call.outputs, call.several_outputs,
            "The vector v can only be None if the user-provided function returns a single Tensor with a "
            "single element.",
        )  # fmt: skip
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _grad(call.outputs, call.inputs, v, create_graph)
        return call.product(found, call.inputs, "back", call.several_inputs)


def jvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), J v)``: ``v`` is like the inputs, the product like the outputs. Two backward passes.

    >>> import jtorch
    >>> jtorch.autograd.functional.jvp(lambda x: x**2, jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 10.0]))
    (tensor([1., 4.]), tensor([ 2., 40.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jvp.html
    """
    with enable_grad():
        call = _Called("jvp", func, inputs, create_graph, strict)
        v = call.direction(
            v, call.inputs, call.several_inputs,
            "The vector v can only be None if the input to the user-provided function is a single Tensor "
            "with "
            "a single element.",
        )  # fmt: skip
        u = tuple(zeros_like(out, requires_grad=True) for out in call.outputs)
        pulled = _grad(call.outputs, call.inputs, u, True)
        require_tracked(pulled, "grad_inputs", strict)
        found = _grad(pulled, u, v, create_graph)
        return call.product(found, call.outputs, "back_trick", call.several_outputs)


def vhp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), v H)`` for a function with one output of one element.

    >>> import jtorch
    >>> x, v = jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 10.0])
    >>> jtorch.autograd.functional.vhp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([  6., 120.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.vhp.html
    """
    with enable_grad():
        call, v, slope = _slope("vhp", func, inputs, v, create_graph, strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _grad(slope, call.inputs, v, create_graph)
        return call.product(found, call.inputs, "double_back", call.several_inputs)


def hvp(
    func: Callable, inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False
) -> tuple[Any, Any]:
    """``(func(inputs), H v)``: the numbers of ``vhp`` where the Hessian is symmetric, at a higher cost.

    >>> import jtorch
    >>> x, v = jtorch.tensor([1.0, 2.0]), jtorch.tensor([1.0, 10.0])
    >>> jtorch.autograd.functional.hvp(lambda x: (x**3).sum(), x, v)
    (tensor(9.), tensor([  6., 120.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.hvp.html
    """
    with enable_grad():
        call, v, slope = _slope("hvp", func, inputs, v, create_graph, strict)
        u = tuple(zeros_like(t, requires_grad=True) for t in call.inputs)
        pulled = _grad(slope, call.inputs, u, True)
        require_tracked(slope, "hessian", strict)
    with set_grad_enabled(create_graph or is_grad_enabled()):
        found = _grad(pulled, u, v, create_graph)
        return call.product(found, call.inputs, "double_back_trick", call.several_inputs)


def _slope(
    name: str, func: Callable, inputs: Any, v: Any, create_graph: bool, strict: bool
) -> tuple[_Called, Tensors | None, tuple]:
    """(the call, the direction, the gradient of the one output, on the tape)"""
    call = _Called(name, func, inputs, create_graph, strict)
    v = call.direction(
        v, call.inputs, call.several_inputs,
        "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
        "single element.",
    )  # fmt: skip
    slope = _grad((call.single_output(),), call.inputs, None, True)
    require_tracked(slope, "jacobian", strict)
    return call, v, slope


def jacobian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """All derivatives of outputs by inputs: a tensor of shape (*output, *input) for each pair.

    One tensor, a tuple, or a tuple of tuples, as inputs and outputs are. A pass per output element;
    with ``strategy="forward-mode"`` two per input element. ``vectorize`` changes nothing but what may be
    combined. Raises RuntimeError where ``strict`` and an output is independent of an input.

    >>> import jtorch
    >>> jtorch.autograd.functional.jacobian(lambda x: x**2, jtorch.tensor([1.0, 2.0]))
    tensor([[2., 0.],
            [0., 4.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.jacobian.html
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(_STRATEGY)
    if strategy == "forward-mode":
        return _by_columns(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        call = _Called("jacobian", func, inputs, create_graph, strict)
        if vectorize and strict:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported "
                "together. Please either set `strict=False` or `vectorize=False`."
            )
        blocks = tuple(_rows(call, i) for i in range(len(call.outputs)))
    return _blocks_as_given(_finish(blocks, create_graph), call.several_outputs, call.several_inputs)


def _rows(call: _Called, i: int) -> Tensors:
    """The derivatives of output ``i`` by each input."""
    out, rows = call.outputs[i], []
    flat = out.reshape(-1)
    op.CONTEXT.get().evaluator.unrolls(
        "a backward pass for each element of the output of jacobian or hessian", out.nelement(),
        "Ask for the products that you need (vjp, jvp), or leave this function uncompiled.",
    )  # fmt: skip
    for j in range(out.nelement()):
        found = _grad((flat[j],), call.inputs, None, call.create_graph, retain_graph=True)
        if call.strict:
            _check_row(found, i, call.create_graph)
        rows.append([zeros_like(t) if g is None else g for g, t in zip(found, call.inputs, strict=True)])
    if not rows:
        return tuple(out.new_zeros((*out.shape, *t.shape)) for t in call.inputs)
    columns = zip(*rows, strict=True)
    return tuple(
        FUNCTIONS["stack"](list(column)).reshape((*out.shape, *t.shape))
        for column, t in zip(columns, call.inputs, strict=True)
    )


def _check_row(found: tuple, i: int, create_graph: bool) -> None:
    for k, g in enumerate(found):
        if g is None:
            raise RuntimeError(
                f"Output {i} of the user-provided function is independent of input {k}. This is not "
                "allowed in "
                "strict mode."
            )
        if create_graph and not g.requires_grad:
            raise RuntimeError(
                f"The jacobian of the user-provided function is independent of input {i}. This is not "
                "allowed "
                "in strict mode when create_graph=True."
            )


def _by_columns(func: Callable, inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    """The Jacobian by a product per input element."""
    if create_graph:
        raise NotImplementedError(
            'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
            'supported together (yet). Please either set `create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not '
            "supported "
            'together (yet). Please either set `strict=False` or `strategy="reverse-mode"`.'
        )
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is"
            "only implemented for `vectorize=True`."
        )
    several_inputs, given = _as_tuple(inputs, "inputs", "jacobian")
    shapes, several_outputs, columns = [], False, []
    for k, t in enumerate(given):
        column = []
        for j in range(t.numel()):
            v = tuple(zeros_like(other) for other in given)
            v[k].view(-1)[j] = 1
            found, product = jvp(func, given, v)
            several_outputs, outputs = _as_tuple(found, "outputs of the user-provided function", "jacobian")
            shapes = [out.shape for out in outputs]
            column.append(_as_tuple(product, "outputs", "jacobian")[1])
        columns.append(column)
    blocks = tuple(
        tuple(
            FUNCTIONS["stack"]([c[i] for c in column], dim=-1).reshape((*shape, *t.shape))
            for column, t in zip(columns, given, strict=True)
        )
        for i, shape in enumerate(shapes)
    )
    return _blocks_as_given(blocks, several_outputs, several_inputs)


def hessian(
    func: Callable,
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function with one output of one element, as the Jacobian of its gradient.

    A tensor of shape (*input, *input), or a tuple of tuples of them for several inputs.

    >>> import jtorch
    >>> jtorch.autograd.functional.hessian(lambda x: (x**3).sum(), jtorch.tensor([1.0, 2.0]))
    tensor([[ 6.,  0.],
            [ 0., 12.]])

    Source: https://docs.pytorch.org/docs/stable/generated/torch.autograd.functional.hessian.html
    """
    several, inputs = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def single(*given: Tensor) -> Tensor:
        out = func(*given)
        many, outs = _as_tuple(out, "outputs of the user-provided function", "hessian")
        require_tracked(outs, "outputs", strict)
        if many:
            raise RuntimeError("The function given to hessian should return a single Tensor")
        if out.nelement() != 1:
            raise RuntimeError(
                "The Tensor returned by the function given to hessian should contain a single element"
            )
        return out.squeeze()

    def slope(*given: Tensor) -> Tensors:
        found = jacobian(single, given, create_graph=True)
        require_tracked(found, "jacobian", strict)
        return found

    found = jacobian(slope, inputs, create_graph, strict, vectorize, outer_jacobian_strategy)
    return _blocks_as_given(found, several, several)


# -- tuples and single tensors -------------------------------------------------------------------------------


def _as_tuple(given: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """(whether ``given`` is a tuple, ``given`` as one)"""
    many = isinstance(given, tuple)
    for k, t in enumerate(given if many else (given,)):
        if not isinstance(t, Tensor):
            place = f"value at index {k}" if many else f"given {what}"
            raise TypeError(
                f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {place} "
                "has "
                f"type {type(t)}."
            )
    return many, given if many else (given,)


def _as_given(found: tuple, several: bool) -> Any:
    return found if several else found[0]


def _blocks_as_given(blocks: tuple, several_outputs: bool, several_inputs: bool) -> Any:
    return _as_given(tuple(_as_given(row, several_inputs) for row in blocks), several_outputs)


def _fresh(tensors: Tensors, create_graph: bool, needs_grad: bool) -> Tensors:
    """Other tensors of the same elements: what ``func`` got from elsewhere must not count as its input."""
    return tuple(
        t.view_as(t) if create_graph and t.requires_grad else t.detach().requires_grad_(needs_grad)
        for t in tensors
    )


def _finish(found: Any, create_graph: bool) -> Any:
    """Off the tape, unless the caller wants to differentiate again."""
    if create_graph:
        return found
    return tuple(t.detach() if isinstance(t, Tensor) else _finish(t, create_graph) for t in found)


def _check_direction(v: Tensors, of: Tensors, several: bool) -> None:
    if len(v) != len(of):
        raise RuntimeError(
            f"v is a tuple of invalid length: should be {len(of)} but got {len(v)}."
            if several
            else "The given v should contain a single Tensor."
        )
    for k, (have, want) in enumerate(zip(v, of, strict=True)):
        if have.shape != want.shape:
            entry = f"Entry {k} in " if several else ""
            raise RuntimeError(f"{entry}v has invalid size: should be {want.shape} but got {have.shape}.")


def _grad(
    outputs: tuple, inputs: Tensors, v: Tensors | None, create_graph: bool, retain_graph: bool | None = None
) -> tuple[Tensor | None, ...]:
    """``grad`` of those outputs that have one; all None where none has."""
    seeds = v or (None,) * len(outputs)
    pairs = [(o, s) for o, s in zip(outputs, seeds, strict=True) if o is not None and o.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    kept = [o for o, _ in pairs]
    return gradients.grad(kept, inputs, [s for _, s in pairs], retain_graph, create_graph, allow_unused=True)
