"""What a function may not have done by the end of its recording, each with the way out."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from jtorch.compile.observe.fact_guards import ArrayRead
from jtorch.compile.observe.guards import Read
from jtorch.compile.observe.observer import Observer
from jtorch.compile.record.closing import Effects
from jtorch.compile.record.inputs import GradInput, Input, ScalarInput, of
from jtorch.compile.record.results import is_read
from jtorch.compile.record.sym import Sym
from jtorch.compile.record.trace import Tracer
from jtorch.core import op as op_module, watch
from jtorch.core.device_array import ARRAYS
from jtorch.core.errors import CompileError
from jtorch.core.op import Context
from jtorch.eager.evaluate import EAGER
from jtorch.eager.rebase import LEAF, LEAF_WRITTEN, UNKNOWN_VIEW, VIEW_OF_LEAF
from jtorch.eager.saved_hooks import leave_all
from jtorch.eager.tensor import Tensor


def explain(error: Exception, leaves: list[Any], name: str) -> None:
    """Raise a CompileError for what is an error of the recording alone."""
    if isinstance(error, RuntimeError):
        of_leaves = str(error) in (LEAF, LEAF_WRITTEN, VIEW_OF_LEAF)
        if of_leaves and any(isinstance(a, Tensor) and a._node for a in leaves):
            raise CompileError(
                f"{error} In a compiled function an argument that was computed outside counts as a leaf, "
                "too: change its clone() and return that, or change it outside."
            ) from error
        if str(error) == UNKNOWN_VIEW and any(isinstance(a, Tensor) and a._base is not None for a in leaves):
            raise CompileError(
                f"'{name}' writes a value that requires grad into an argument that is a view, whose graph "
                "would end with the recording. Write its .detach(), or into a clone() that it returns."
            ) from error


def check_mode(context: Context, name: str) -> None:
    now = op_module.CONTEXT.get()
    if now.casting.number != context.casting.number:
        raise CompileError(
            f"'{name}' leaves autocast set otherwise for what follows it, which a recording would not: use "
            "autocast() as a context manager, or call it outside."
        )
    if now.mode != context.mode:
        raise CompileError(
            f"'{name}' leaves gradients switched {'on' if now.enabled else 'off'} for what follows it, which "
            "a recording would not: use set_grad_enabled() as a context manager, or call it outside."
        )
    if leave_all():
        raise CompileError(
            f"'{name}' enters saved_tensors_hooks, or their opposite, and does not leave it, which a "
            "recording would not: use it as a context manager, or enter it outside."
        )


def check_generators(tracer: Tracer) -> None:
    """A generator that nobody outside holds was made by the function, anew at each eager call: what it draws
    must not depend on where it was found."""
    seeded = tracer.generators.seeded
    for entry in tracer.generators.entries.values():
        # held by the input, its two counters, the effects, and the argument of getrefcount
        inside = 5 + (id(entry.generator) in seeded)
        if entry.drew and sys.getrefcount(entry.generator) <= inside:
            raise CompileError(
                f"'{tracer.name}' makes a random generator, which a recording would not do again: make it "
                "outside, pass it in, or give it a seed."
            )


def check_arrays(observer: Observer, name: str, written: list[np.ndarray]) -> None:
    """Raise where elements of a NumPy array were read that are those of a tensor the function writes."""
    for read in observer.reads.values():
        if isinstance(read, ArrayRead) and any(np.may_share_memory(read.container, w) for w in written):
            raise CompileError(
                f"{read.source}: '{name}' reads elements of a NumPy array that shares memory with a tensor "
                "which it changes in place, and a recording does not see when. Read the tensor."
            )


def check_graphs(tracer: Tracer, observer: Observer, problems: list[str]) -> None:
    """Note that the function moves tensors from outside on the tape; the journal puts them back."""
    if any(not tracer.began(t) for t in observer.journal.owners(watch.WRITTEN)):
        problems.append(
            f"'{tracer.name}' writes a value that requires grad into a tensor from outside, whose "
            "graph would end with the recording. Write its .detach(), or return it."
        )
    given = observer.journal.owners(watch.GIVEN)
    if given and any(id(t) in tracer.places or is_read(observer, t) for t in given):
        problems.append(
            f"forward of a custom Function in '{tracer.name}' returns a tensor from outside that is not "
            "among its inputs, whose graph would end with the recording. Return its .clone()."
        )


def check_arguments(effects: Effects, traced: dict[int, Tensor], leaves: list[Any], name: str) -> None:
    """What the function did to its tensor arguments, other than to their elements, must be known here."""
    for tensor, _ in effects.grads:
        if any(t is tensor and leaves[k]._node is not None for k, t in traced.items()):
            raise CompileError(
                f"backward() inside '{name}' reaches an argument that was computed outside, whose "
                "graph is not part of the function. Call backward() outside, or pass the tensor detached."
            )
    for k, twin in traced.items():
        leaf = leaves[k]
        source = twin._data.storage.source if isinstance(twin._data, Sym) else None
        same = twin._data.__class__ in ARRAYS or (source is not None and twin._data is source.sym)
        if leaf._node is None and (twin._hooks is not leaf._hooks or not same):
            raise CompileError(
                f"'{name}' changes the data or the hooks of argument {k}, which a recording would not. Do it "
                "before the call, or work on x.detach()."
            )


def check_gradients_read(inputs: Iterable[Input], reads: Iterable[Read], name: str) -> None:
    """Raise where a gradient from outside is a tensor that the function reads by another name, too: a
    recording has two tensors of it."""
    known = {id(read.value) for read in reads if isinstance(read.value, Tensor)}
    for entry in of(GradInput, inputs):
        grad = EAGER.get_grad(entry.tensor) if entry.present else None
        if grad is not None and id(grad) in known:
            raise CompileError(
                f"'{name}' reads the gradient of a tensor of shape {entry.var.shape} by another name, too, "
                "of which a recording would have two tensors. Read it as the tensor's .grad, or .clone() it."
            )


def check_scalars(tracer: Tracer, name: str) -> None:
    for entry in of(ScalarInput, tracer.inputs):
        if entry.changed():
            raise CompileError(
                f"'{name}' changes {'.'.join(map(str, entry.path))!r} of an optimizer that it steps, which a "
                "recording would not. Set it where the function sees it (`group['lr'] = rate`), or outside."
            )
