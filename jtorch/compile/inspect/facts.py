"""What a recording was made under, in words: what a later call is compared with to say what changed.

Guards decide; this only explains. A fact is a name and a value, e.g. ``("x.shape", "(32, 64)")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from jtorch.compile.inspect.naming import Named, labels_of, named_by
from jtorch.compile.observe.guards import in_words
from jtorch.compile.observe.values import counts_by_text, counts_by_value
from jtorch.compile.record.arrays import LentNumber
from jtorch.compile.record.tree import Shared
from jtorch.core.casting import OFF, Casting
from jtorch.core.op import Context
from jtorch.eager.tensor import Tensor

Facts = dict[str, str]

_SMALL = (bool, int, str, bytes, type(None))


def facts_of(function: Callable, leaves: list[Any], structure: Any, context: Context) -> Facts:
    """Everything about a call that may make it another program."""
    labels = labels_of(structure, function)
    facts: Facts = {"arguments": _form(structure), "gradients": "on" if context.grad else "off"}
    facts["autocast"] = _autocast(context.casting)
    for label, leaf in zip(labels, leaves, strict=True):
        facts.update(_leaf_facts(label, leaf))
    facts.update(_sharing(labels, leaves))
    named = named_by(function, dict(zip(labels, leaves, strict=True)))
    for label in labels:
        named.tensors.pop(label, None)  # told of already, and other tensors at each call
    facts.update(_state_facts(named))
    return facts


def _autocast(casting: Casting) -> str:
    """What is set: of a switch that is off what a block inside would begin with, unless it is the usual."""
    told = []
    for name, where in (("cpu", ""), ("cuda", "cuda ")):
        setting = casting.on(name)
        if setting.enabled or setting.dtype is not OFF.on(name).dtype:
            told.append(f"{where}{setting.dtype.name}" + ("" if setting.enabled else " off"))
    return ", ".join([*(told or ["off"]), *([] if casting.cache_enabled else ["no cache"])])


def in_short(facts: Facts) -> str:
    """The arguments and the mode of a call in a line: ``x float32 (8, 3), n=2, gradients off``."""
    told = []
    for name in (n[5:-1] for n in facts if n.startswith("type(")):
        if f"{name}.dtype" in facts:
            told.append(f"{name} {facts[f'{name}.dtype']} {facts[f'{name}.shape']}")
        elif name in facts:
            text = facts[name]
            told.append(f"{name}={text if len(text) <= 20 else text[:17] + '...'}")
    autocast = facts.get("autocast", "off")
    told += ["gradients off"] if facts["gradients"] == "off" else []
    return ", ".join([*told, *([] if autocast == "off" else [f"autocast {autocast}"])])


def with_state_now(facts: Facts, function: Callable) -> Facts:
    """``facts`` of a call whose arguments are gone, with the state of the function as it is now."""
    return facts | {k: v for k, v in _state_facts(named_by(function)) if k in facts}


def _form(structure: Any) -> str:
    if structure == "*":
        return "*"
    if isinstance(structure, Shared):
        return f"container {structure.index} again"
    cls, keys, parts = structure
    inner = [*map(_form, parts)]
    if keys is not None:
        names = [k if type(k) is str else in_words(k) for k in keys]
        inner = [f"{name}={part}" for name, part in zip(names, inner, strict=True)]
    return f"{cls.__name__}({', '.join(inner)})"


def _leaf_facts(label: str, leaf: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(leaf, Tensor):
        yield f"type({label})", type(leaf).__name__
        if leaf.__class__ is float:  # read anew at each call
            return
        if counts_by_value(leaf) and not isinstance(leaf, MethodType):
            yield label, repr(leaf) if counts_by_text(leaf) else in_words(leaf)
        else:
            yield f"id({label})", str(id(leaf))
        return
    data = leaf._data
    if type(leaf) is LentNumber:
        yield f"type({label})", type(leaf.lent).__name__
        yield label, repr(leaf.lent)
    else:
        yield f"type({label})", type(leaf).__name__
    yield f"{label}.dtype", str(data.dtype)
    yield f"{label}.shape", str(tuple(data.shape))
    yield f"{label}.stride()", str(tuple(s // data.itemsize for s in data.strides))
    yield f"{label}.requires_grad", str(leaf._requires_grad)
    if leaf._requires_grad:
        yield f"{label}.is_leaf", str(leaf._node is None)
        yield f"{label}.grad", "None" if leaf._grad is None else "a tensor"
    yield f"hooks of {label}", str(len(leaf._hooks or ()))


def _sharing(labels: list[str], leaves: list[Any]) -> Iterator[tuple[str, str]]:
    """Which tensor arguments are one tensor."""
    first: dict[int, str] = {}
    for label, leaf in zip(labels, leaves, strict=True):
        if isinstance(leaf, Tensor):
            same = first.setdefault(id(leaf._data), label)
            yield f"memory of {label}", "its own" if same == label else f"that of {same}"


def _state_facts(named: Named) -> Iterator[tuple[str, str]]:
    for name, module in named.modules.items():
        yield f"{name}.training", str(module.training)
        hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_hooks)
        yield f"hooks of {name}", str(sum(map(len, hooks)))
        yield f"type({name})", type(module).__name__
        for key, value in vars(module).items():
            if not key.startswith("_") and isinstance(value, (*_SMALL, float)) and key != "training":
                yield f"{name}.{key}", in_words(value)
    for name, tensor in named.tensors.items():
        yield f"{name}.requires_grad", str(tensor._requires_grad)
        yield f"{name}.dtype", str(tensor._data.dtype)
        yield f"{name}.shape", str(tuple(tensor._data.shape))
        yield f"memory of {name}", str(id(tensor._data))
        if tensor._node is None and tensor._requires_grad:
            yield f"{name}.grad", "None" if tensor._grad is None else "a tensor"
            yield f"hooks of {name}", str(len(tensor._hooks or ()))
    for name, optimizer in named.optimizers.items():
        for k, group in enumerate(optimizer.param_groups):
            yield f"{name}.param_groups[{k}]['params']", f"{len(group['params'])} tensors"
            for key, value in group.items():
                if isinstance(value, _SMALL):
                    yield f"{name}.param_groups[{k}][{in_words(key)}]", in_words(value)


def differences(before: Facts, now: Facts) -> list[tuple[str, str, str]]:
    """(fact, before, now) for each fact that changed, those of the call's own arguments first."""
    names = list(dict.fromkeys((*before, *now)))
    found = [(n, before.get(n, "absent"), now.get(n, "absent")) for n in names]
    changed = [f for f in found if f[1] != f[2]]
    if any(f[0] == "arguments" for f in changed):  # of another form: the rest follows from that
        return [f for f in changed if f[0] == "arguments"]
    kept = _without_consequences(changed)
    return [c for c in kept if not _is_weak(c)] or [c for c in kept if not _is_of_a_new_tensor(c)] or kept


def _is_weak(change: tuple[str, str, str]) -> bool:
    """A cause only where there is no other: the first step makes gradients and state where none were."""
    name, before, now = change
    return name.endswith(".grad") or is_of_numpy(before) or "absent" in (before, now)


def is_of_numpy(value: str) -> bool:
    """Whether it is a number of NumPy's, which mostly is read at each call."""
    return value.startswith("np.")


def _is_of_a_new_tensor(change: tuple[str, str, str]) -> bool:
    """Optimizer state, mostly, that came with the step that changed something else."""
    name, *values = change
    return "absent" in values and bool(
        re.search(r"^(memory|hooks) of |\.(grad|requires_grad|dtype|shape)$", name)
    )


def _without_consequences(changed: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Strides and memory follow from a shape, a layer's mode from its model's; an address says nothing to a
    reader."""
    names = {c[0] for c in changed}
    kept: list[tuple[str, str, str]] = []
    for name, before, now in changed:
        path, _, last = name.rpartition(".")
        if last == "training" and any(f"{p}.training" in names for p in _above(path)):
            continue
        if name.endswith(".stride()") and name.replace(".stride()", ".shape") in names:
            continue
        if name.startswith("memory of ") and (before.isdecimal() or now.isdecimal()):
            if not names.isdisjoint(name[len("memory of ") :] + what for what in (".shape", ".dtype")):
                continue
            words = {True: "one tensor", False: before}, {True: "another", False: now}
            before, now = words[0][before.isdecimal()], words[1][now.isdecimal()]
        if name.startswith("id("):
            before, now = "one object", "another"
        kept.append((name, before, now))
    return kept


def _above(path: str) -> Iterator[str]:
    while "." in path:
        path = path.rpartition(".")[0]
        yield path
