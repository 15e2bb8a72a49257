"""``grad``, ``vjp``, ``jvp``, ``linearize``: derivatives of functions of nested tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from jtorch.eager.public import Tensor, enable_grad, flatten, tensors_of, zeros_like
from jtorch.func.level import Level
from jtorch.utils._pytree import tree_flatten

Argnums = int | tuple[int, ...]


def chosen(args: tuple, argnums: Argnums) -> Any:
    """The arguments that are differentiated, a tuple where ``argnums`` is one."""
    several = (argnums,) if isinstance(argnums, int) else argnums
    for k in several:
        if not -len(args) <= k < len(args):
            raise RuntimeError(f"Got argnum={k}, but only {len(args)} positional inputs")
    return args[argnums] if isinstance(argnums, int) else tuple(args[k] for k in argnums)


def replaced(args: tuple, argnums: Argnums, new: Any) -> tuple:
    """``args`` with ``new`` in the places that ``chosen`` took."""
    found = list(args)
    for k, value in [(argnums, new)] if isinstance(argnums, int) else zip(argnums, new, strict=True):
        found[k] = value
    return tuple(found)


def split_aux(found: Any, has_aux: bool, name: str) -> tuple[Any, Any]:
    """(output, aux): aux is None where there is none."""
    if not has_aux:
        return found, None
    if not (isinstance(found, tuple) and len(found) == 2):
        raise RuntimeError(
            f"{name}(f)(*args): output of function f should be a tuple: (output, aux) if has_aux is True"
        )
    return found


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives ``(gradient, value)`` of ``func``, whose output has one element and no dims.

    The gradient has the structure of the arguments that ``argnums`` names. With ``has_aux`` the value is
    ``(output, aux)``.

    >>> import jtorch
    >>> jtorch.func.grad_and_value(lambda x: x**3)(jtorch.tensor(2.0))
    (tensor(12.), tensor(8.))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.grad_and_value.html
    """

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with enable_grad():
            given, rebuild = tensors_of(chosen(args, argnums), "grad_and_value: the inputs to differentiate")
            level = Level(given)
            found = level.called(func, replaced(args, argnums, rebuild(level.inputs)), kwargs)
            output, aux = split_aux(found, has_aux, "grad_and_value")
            _check_scalar(output)
            gradient = rebuild(level.pull([output], [None]))
            value = level.shown(output)
            return gradient, ((value, level.shown(aux)) if has_aux else value)

    return wrapped


def _check_scalar(output: Any) -> None:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a tensor, got {type(output)}"
        )
    if output.dim():
        raise RuntimeError(
            "grad_and_value(f)(*args): Expected f(*args) to return a scalar tensor, got tensor with "
            f"{output.dim()} dims. Maybe you wanted to use the vjp or jacrev APIs instead?"
        )


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that gives the gradient of ``func``; ``(gradient, aux)`` with ``has_aux``. It nests.

    >>> import jtorch
    >>> jtorch.func.grad(lambda x: x**3)(jtorch.tensor(2.0))  # 3 x^2
    tensor(12.)
    >>> jtorch.func.grad(jtorch.func.grad(lambda x: x**3))(jtorch.tensor(2.0))  # 6 x
    tensor(12.)

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.grad.html
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return wrapped


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """``(output, vjp_fn)``: ``vjp_fn(cotangents)`` gives a tuple, a product per primal.

    With ``has_aux`` also what ``func`` returned second.

    >>> import jtorch
    >>> output, vjp_fn = jtorch.func.vjp(lambda x: x**2, jtorch.tensor([1.0, 2.0]))
    >>> output, vjp_fn(jtorch.tensor([1.0, 10.0]))
    (tensor([1., 4.]), (tensor([ 2., 40.]),))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.vjp.html
    """
    with enable_grad():
        given, rebuild = tensors_of(primals, "vjp(f, *primals): primals")
        level = Level(given)
        output, aux = split_aux(level.called(func, rebuild(level.inputs), {}), has_aux, "vjp")
        outputs, _ = tensors_of(output, "vjp(f, *primals): the output of f")

    def pulled(cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        seeds, _ = flatten(cotangents)
        if len(seeds) != len(outputs):
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to "
                "the "
                f"function: {len(outputs)} tensors, but got {len(seeds)}"
            )
        with enable_grad():
            return rebuild(level.pull(outputs, seeds))

    shown = level.shown(output)
    return (shown, pulled, level.shown(aux)) if has_aux else (shown, pulled)


def jvp(
    func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False
) -> tuple:
    """``(output, product)``: the derivative of ``func`` at ``primals`` along ``tangents``.

    Made of two backward passes: the first is linear in its cotangents, the second differentiates it.

    >>> import jtorch
    >>> jtorch.func.jvp(lambda x: x**2, (jtorch.tensor([1.0, 2.0]),), (jtorch.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.jvp.html
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call "
            "f(*primals)."
        )
    with enable_grad():
        given, rebuild = tensors_of(primals, "jvp(f, primals, tangents): primals")
        along, _ = tensors_of(tangents, "jvp(f, primals, tangents): tangents")
        _check_tangents(given, along)
        level = Level(given)
        output, aux = split_aux(level.called(func, rebuild(level.inputs), {}), has_aux, "jvp")
        outputs, rebuild_output = tensors_of(output, "jvp(f, primals, tangents): the output of f")
        if strict and not all(o.requires_grad for o in outputs):
            raise RuntimeError(
                "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. "
                "This is "
                "not allowed with strict=True."
            )
        product = rebuild_output(_pushed(level, outputs)(along))
        shown = level.shown(output)
        return (shown, product, level.shown(aux)) if has_aux else (shown, product)


def _pushed(level: Level, outputs: list[Tensor]) -> Callable[[list[Tensor]], list[Tensor]]:
    """What takes tangents of the inputs to tangents of ``outputs``: a gradient, linear in its cotangents, and
    the gradient of that."""
    cotangents = Level([zeros_like(o) for o in outputs])
    pulled = level.pull(outputs, list(cotangents.inputs), again=True)
    both = level.joined(cotangents)

    def along(tangents: list[Tensor]) -> list[Tensor]:
        with enable_grad():
            return both.shown(both.pull(pulled, list(tangents)))

    return along


def linearize(func: Callable, *primals: Any) -> tuple[Any, Callable]:
    """``(output, jvp_fn)``: ``jvp_fn(*tangents)`` gives the derivative of ``func`` at ``primals`` along
    tangents, which have the structure, shapes and dtypes of the primals.

    For several tangents: ``func`` runs once, and what its gradients need is kept as long as ``jvp_fn`` is.
    Raises RuntimeError for tangents that don't match.

    >>> import jtorch
    >>> output, jvp_fn = jtorch.func.linearize(lambda x: x**2, jtorch.tensor([1.0, 2.0]))
    >>> output, jvp_fn(jtorch.tensor([1.0, 0.0])), jvp_fn(jtorch.tensor([0.0, 1.0]))
    (tensor([1., 4.]), tensor([2., 0.]), tensor([0., 4.]))

    Source: https://docs.pytorch.org/docs/stable/generated/torch.func.linearize.html
    """
    with enable_grad():
        given, rebuild = tensors_of(primals, "linearize(f, *primals): primals")
        level = Level(given)
        output = func(*rebuild(level.inputs))
        outputs, rebuild_output = tensors_of(output, "linearize(f, *primals): the output of f")
        pushed = _pushed(level, outputs)
    facts = [(t.shape, t.device, t.dtype) for t in given]

    def jvp_fn(*tangents: Any) -> Any:
        along, spec = tree_flatten(tangents)
        if spec != expected:
            raise RuntimeError(
                f"Expected the tangents {spec} to have the same argspec as the primals {expected}"
            )
        for k, (tangent, fact) in enumerate(zip(along, facts, strict=True)):
            _check_fact(k, tangent, *fact)
        return rebuild_output(pushed(along))

    _, expected = tree_flatten(primals)
    return level.shown(output), jvp_fn


def _check_fact(k: int, tangent: Any, shape: Any, device: Any, dtype: Any) -> None:
    for name, own in (("shape", shape), ("device", device), ("dtype", dtype)):
        if (its := getattr(tangent, name, None)) != own:
            raise RuntimeError(
                f"tangent:{k} with {name} {its} in flattened pytree doesn't match the {name} {own} of the "
                "corresponding primal."
            )


def _check_tangents(primals: list[Tensor], tangents: list[Tensor]) -> None:
    if len(primals) != len(tangents):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. "
            f"For example, if primals is a tuple of {len(primals)} tensors, tangents also must be."
        )
    for p, t in zip(primals, tangents, strict=True):
        if p.shape != t.shape:
            raise RuntimeError(
                f"jvp(f, primals, tangents): a tangent of shape {tuple(t.shape)} for a primal of shape "
                f"{tuple(p.shape)}"
            )
