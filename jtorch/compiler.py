"""``jtorch.compiler``: questions to the compiler, and exceptions from it.

Source: https://docs.pytorch.org/docs/stable/torch.compiler_api.html
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from jtorch.core import op

__all__ = [
    "allow_in_graph", "cudagraph_mark_step_begin", "disable", "explain", "is_compiling",
    "is_dynamo_compiling", "is_exporting", "list_backends", "mark_dynamic", "reset", "scan", "while_loop",
]  # fmt: skip


def is_compiling() -> bool:
    """Whether a function is being recorded in this thread of control."""
    trace = sys.modules.get("jtorch.compile.record.trace")  # not loaded: nothing was ever compiled
    return trace is not None and isinstance(op.CONTEXT.get().evaluator, trace.Tracer)


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether ``torch.export`` is at work, which jtorch does not have: False."""
    return False


def disable(fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Decorator: ``fn`` runs eagerly, at its place in a compiled function, too, once at each call.

    There it may take tensors, numbers, strings and objects from outside, and gives tensors (of the same
    shapes and dtypes at each call) or None. Gradients do not go through it. What else would tie it to the
    compiled part (a write into tensors that this uses, a branch that follows) raises ``CompileError``.

    >>> import jtorch
    >>> seen = []
    >>> @jtorch.compiler.disable
    ... def note(x):
    ...     seen.append(x.item())
    >>> @jtorch.compile
    ... def double(x):
    ...     note(x.sum())
    ...     return x * 2
    >>> _ = double(jtorch.ones(3)), double(jtorch.zeros(3))
    >>> seen
    [3.0, 0.0]

    ``recursive=False``, which would compile what ``fn`` calls, raises NotImplementedError.
    Source: https://docs.pytorch.org/docs/stable/generated/torch.compiler.disable.html
    """
    if not recursive:
        raise NotImplementedError("disable(recursive=False): compile the functions that fn calls instead")
    if fn is None:
        return lambda function: disable(function, reason=reason)
    from jtorch.compile import compiler

    return compiler.disabled(fn, reason)


def allow_in_graph(fn: Any) -> Any:
    """``fn`` itself, or a list of these: any function is recorded, with what it calls.

    >>> import jtorch
    >>> jtorch.compiler.allow_in_graph(jtorch.nn.functional.relu) is jtorch.nn.functional.relu
    True
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(one) for one in fn]
    if not callable(fn):
        raise TypeError(f"allow_in_graph expects a callable, but got {type(fn).__name__}")
    return fn


def mark_dynamic(
    t: Any, index: int | Sequence[int], *, min: int | None = None, max: int | None = None
) -> None:
    """Say that size ``index`` of ``t`` (or several) will be another one at other calls: a function that is
    recorded with ``t`` takes it for a symbol, and has one plan for all of its sizes from ``min`` to ``max``.

    Later arguments need no mark. A function that is compiled with ``dynamic=False`` does not care. Raises
    IndexError for an axis that ``t`` lacks, ValueError where its size is not between ``min`` and ``max``.

    >>> import jtorch
    >>> double = jtorch.compile(lambda x: x * 2)
    >>> x = jtorch.ones(5, 3)
    >>> jtorch.compiler.mark_dynamic(x, 0, max=1000)
    >>> double(x).shape, double(jtorch.ones(7, 3)).shape, len(double.retraces)
    (torch.Size([5, 3]), torch.Size([7, 3]), 0)

    Source: torch._dynamo.mark_dynamic of PyTorch 2.13
    """
    from jtorch.compile import compiler

    compiler.mark_dynamic(t, index, min, max)


def scan(
    f: Callable, carry: Any, xs: Any = None, *, length: int | None = None, reverse: bool = False
) -> tuple[Any, Any]:
    """A loop over time: ``carry, y = f(carry, x)`` for each ``x`` of the first axis of ``xs``, or ``length``
    times with None; (the last carry, all ``y``, stacked along a new first axis).

    ``carry``, ``xs`` and ``y`` are tensors, or tuples, lists and dicts of tensors, nested; ``y`` and ``xs``
    may be None. ``reverse`` goes from the last step to the first, and gives ``y`` in the order of ``xs``.
    Gradients flow to ``carry``, ``xs`` and all that ``f`` uses. ``f`` gets contiguous tensors, and what comes
    out has memory of its own. Raises TypeError where the carry changes its structure, shapes or dtypes,
    ValueError where first axes differ, or there is no step.

    A compiled function records one step, whatever their number: recording and compiling 1,000 steps takes as
    long as 2, and another number of steps is another size (a Python loop is recorded step by step, once for
    each number of them). It is run step by step, as a Python loop is, where ``f`` writes to tensors or state
    outside, branches on tensors, draws random numbers, or uses an op that is a library call.

    >>> import jtorch
    >>> @jtorch.compile
    ... def decayed(xs):
    ...     def step(total, x):
    ...         total = total * 0.5 + x
    ...         return total, total
    ...     return jtorch.compiler.scan(step, jtorch.zeros(2), xs)
    >>> last, all_of_them = decayed(jtorch.ones(3, 2))
    >>> last, all_of_them.shape
    (tensor([1.7500, 1.7500]), torch.Size([3, 2]))

    Source: jax.lax.scan; torch._higher_order_ops.scan of PyTorch 2.13
    """
    from jtorch.eager import scanning

    return scanning.scan(f, carry, xs, length=length, reverse=reverse)


def while_loop(cond: Callable, body: Callable, carry: Any, *, max_steps: int) -> tuple[Any, Any]:
    """``carry = body(carry)`` while ``cond(carry)`` holds, ``max_steps`` times at most; (the last carry, how
    many times ``body`` was called, an int64 tensor without axes).

    ``carry`` is a tensor, or tuples, lists and dicts of tensors, nested; ``body`` returns one of the same
    structure, shapes and dtypes. ``cond`` returns a bool tensor without axes, and is asked before each step;
    where it does not hold at the beginning, the carry comes back as it is. Whether the bound ended the loop
    is ``cond(carry)`` of what comes out. Gradients flow through the steps that were done to ``carry`` and all
    that ``body`` uses, none through ``cond`` and the number of steps. ``body`` gets contiguous tensors, and
    what comes out has memory of its own. Raises TypeError where the carry changes its structure, shapes or
    dtypes, or ``cond`` returns something else, ValueError for a negative ``max_steps``.

    A compiled function records one step, and each call takes as many as its elements ask for. Where gradients
    are wanted it keeps memory for ``max_steps`` of them, and no step at all is a branch of its own. It is run
    step by step, as a Python loop is, which is recorded for each number of steps, where ``scan`` would be.
    A carry that has a gradient after some number of steps has one after any there: of zeros where eager mode
    has none.

    >>> import jtorch
    >>> @jtorch.compile
    ... def root(a):
    ...     def far(x):
    ...         return (x * x - a).abs().max() > 1e-4
    ...     return jtorch.compiler.while_loop(far, lambda x: (x + a / x) / 2, a, max_steps=50)
    >>> root(jtorch.tensor([4.0, 9.0]))
    (tensor([2., 3.]), tensor(5))
    >>> root(jtorch.tensor([1.0, 1.0]))
    (tensor([1., 1.]), tensor(0))

    Source: jax.lax.while_loop; torch._higher_order_ops.while_loop of PyTorch 2.13
    """
    from jtorch.eager import while_loops

    return while_loops.while_loop(cond, body, carry, max_steps=max_steps)


def reset() -> None:
    """Forget the recordings of all compiled functions; each is recorded anew at its next call.

    Source: https://docs.pytorch.org/docs/stable/generated/torch.compiler.reset.html
    """
    if "jtorch.compile.api" in sys.modules:
        from jtorch.compile import compiler

        compiler.reset()


def explain(f: Callable) -> Callable[..., Any]:
    """``explain(f)(*args)`` calls ``f`` compiled with ``args`` and gives what ``f.explain()`` tells.

    >>> import jtorch
    >>> told = jtorch.compiler.explain(lambda x: (x * 2).sum())(jtorch.ones(3))
    >>> print(str(told).splitlines()[0])
    <lambda>: 2 ops as 1 kernels and 0 library calls
    """
    from jtorch.compile import compiler

    return compiler.explain(f)


def held_from_now_on() -> list[Any]:
    """A list that gets each compiled function that the process makes from now on, and keeps it alive."""
    from jtorch.compile import compiler

    return compiler.held_from_now_on()


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that ``jtorch.compile(backend=...)`` takes for compiling."""
    return ["inductor", "jtorch"]


def cudagraph_mark_step_begin() -> None:
    """A new step begins. Nothing to do: results own their memory and no later step changes them."""
