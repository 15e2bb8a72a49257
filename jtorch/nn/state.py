"""State dicts: a module's tensors by dotted name, out and in again, with PyTorch's keys and messages."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from jtorch.core import dtypes as dt
from jtorch.eager.public import Tensor, no_grad
from jtorch.nn.parameter import Parameter, UninitializedTensor


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` found to differ; both empty where all keys matched."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Report(NamedTuple):
    """What goes wrong while a state dict is loaded, collected over all modules."""

    strict: bool
    missing: list[str]
    unexpected: list[str]
    errors: list[str]


EXTRA = "_extra_state"  # the key of what a module keeps besides tensors


def positional(args: tuple, destination: Any, prefix: str, keep_vars: bool) -> tuple[Any, str, bool]:
    """(destination, prefix, keep_vars) of a ``state_dict`` call in the old form, with PyTorch's warning."""
    warnings.warn(
        "Positional args are being deprecated, use kwargs instead. Refer to "
        "https://pytorch.org/docs/main/generated/torch.nn.Module.html#torch.nn.Module.state_dict for "
        "details.",
        FutureWarning,
        stacklevel=3,
    )
    given = dict(enumerate(args))
    return (
        given.get(0) if destination is None else destination,
        given.get(1, "") if prefix == "" else prefix,
        keep_vars or given.get(2, False),
    )


def _own(module: Any) -> dict[str, Any]:
    """This module's parameters and persistent buffers by name, in PyTorch's order."""
    hidden = module._non_persistent_buffers_set
    buffers = {k: v for k, v in module._buffers.items() if k not in hidden}
    return {k: v for k, v in (module._parameters | buffers).items() if v is not None}


def save_own(module: Any, destination: Any, prefix: str, keep_vars: bool) -> None:
    """Put the module's own tensors into ``destination``; detached unless ``keep_vars``."""
    for name, tensor in _own(module).items():
        destination[prefix + name] = tensor if keep_vars else tensor.detach()


def collect(module: Any, destination: Any, prefix: str, keep_vars: bool) -> Any:
    """The state dict of ``module`` and those below, with the version of each module's layout as _metadata."""
    if destination is None:
        destination = OrderedDict()
        destination._metadata = OrderedDict()
    facts = {"version": module._version}
    if hasattr(destination, "_metadata"):
        destination._metadata[prefix[:-1]] = facts
    for hook in module._state_dict_pre_hooks.values():
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in module._state_dict_hooks.values():
        changed = hook(module, destination, prefix, facts)
        if changed is not None:
            destination = changed
    return destination


def load(module: Any, given: Mapping[str, Tensor], strict: bool, assign: bool) -> IncompatibleKeys:
    """Check everything, then copy (or assign): a state dict that does not fit changes nothing.

    Modules with loading code or hooks of their own are filled at once, as that code may look at them.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(given)}.")
    metadata = getattr(given, "_metadata", None)
    copied = OrderedDict(given)
    if metadata is not None:
        copied._metadata = metadata  # type: ignore[attr-defined]
    report = Report(True, [], [], [])
    writes: list[Callable[[], None]] = []
    _load_tree(module, copied, "", metadata, assign, report, writes)
    errors = report.errors
    if strict:
        if report.unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(report.unexpected)}. ")
        if report.missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(report.missing)}. ")
    if errors:
        joined = "\n\t".join(errors)
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{joined}")
    for write in writes:
        write()
    return IncompatibleKeys(report.missing, report.unexpected)


def _load_tree(
    module: Any, given: Any, prefix: str, metadata: Any, assign: bool, report: Report, writes: list
) -> None:
    facts = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        facts["assign_to_params_buffers"] = assign
    loads = type(module)._load_from_state_dict
    if getattr(loads, "__module__", "") == "jtorch.nn.module" and not module._load_state_dict_pre_hooks:
        writes += load_own(module, given, prefix, facts, report)
    else:
        module._load_from_state_dict(
            given, prefix, facts, True, report.missing, report.unexpected, report.errors
        )
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            part = {k: v for k, v in given.items() if k.startswith(inner)}
            _load_tree(child, part, inner, metadata, assign, report, writes)
    if module._load_state_dict_post_hooks:
        for write in writes:
            write()
        writes.clear()
    incompatible = IncompatibleKeys(report.missing, report.unexpected)
    for hook in module._load_state_dict_post_hooks.values():
        if hook(module, incompatible) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to return new "
                "values, if incompatible_keys need to be modified, it should be done inplace."
            )


def load_own(module: Any, given: Any, prefix: str, facts: Any, report: Report) -> list[Callable[[], None]]:
    """Check what ``given`` has for the module's own tensors; what is to be written, as functions."""
    for hook in module._load_state_dict_pre_hooks.values():
        hook(given, prefix, facts, report.strict, report.missing, report.unexpected, report.errors)
    module._upgrade_state_dict(given, prefix, facts.get("version"))
    own = _own(module)
    writes: list[Callable[[], None]] = []
    assign = facts.get("assign_to_params_buffers", False)
    for name, tensor in own.items():
        key = prefix + name
        if key not in given:
            if report.strict:
                report.missing.append(key)
            continue
        problem, value = _fitted(key, tensor, given[key])
        if problem:
            report.errors.append(problem)
        elif assign and getattr(tensor, "sharding", None) is None:
            writes.append(partial(_assign, module, name, tensor, value))
        else:
            writes.append(partial(_copy, tensor, value))
    _load_extra(module, given, prefix + EXTRA, report)
    if report.strict:
        report.unexpected.extend(
            k for k in given if k.startswith(prefix) and _unexpected(module, k[len(prefix) :], own)
        )
    return writes


def _load_extra(module: Any, given: Any, key: str, report: Report) -> None:
    if getattr(type(module).set_extra_state, "__module__", "") != "jtorch.nn.module":
        if key in given:
            module.set_extra_state(given[key])
        elif report.strict:
            report.missing.append(key)
    elif report.strict and key in given:
        report.unexpected.append(key)


def _unexpected(module: Any, name: str, own: dict[str, Any]) -> bool:
    first, dot, _ = name.partition(".")
    if dot:
        return first not in module._modules
    return first != EXTRA and first not in own


def _copy(tensor: Tensor, value: Tensor) -> None:
    with no_grad():
        tensor.copy_(value)


def _fitted(key: str, tensor: Tensor, value: Any) -> tuple[str, Any]:
    """(what is wrong or "", the value in the tensor's shape)."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
            f"checkpoint but received {type(value)}"
        ), value
    sharding = getattr(tensor, "sharding", None)
    if sharding is not None:  # a parameter that processes share: each takes its rows of a whole one
        value = sharding.taken_from(value)
    if is_lazy(tensor):  # it takes the shape that it is given
        return "", value
    if tensor.ndim == 0 and tuple(value.shape) == (1,):
        value = value.detach().reshape(())
    if value.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape "
            f"in current model is {tensor.shape}."
        ), value
    return "", value


def is_lazy(tensor: Any) -> bool:
    """Whether ``tensor`` is still to get its shape."""
    return isinstance(tensor, UninitializedTensor)


def _assign(owner: Any, name: str, tensor: Tensor, value: Tensor) -> None:
    if isinstance(tensor, Parameter):
        if not isinstance(value, Parameter):
            value = Parameter(value, requires_grad=tensor.requires_grad)
        else:
            value.requires_grad_(tensor.requires_grad)
    setattr(owner, name, value)


def _quoted(keys: list[str]) -> str:
    return ", ".join(f'"{k}"' for k in keys)


def wanted(args: tuple, kwargs: dict[str, Any]) -> tuple[dt.dtype | None, Any]:
    """(dtype, device) that the arguments of ``Module.to`` ask for."""
    dtype, device = kwargs.get("dtype"), kwargs.get("device")
    for a in args:
        if isinstance(a, dt.dtype):
            dtype = a
        elif isinstance(a, Tensor):
            dtype = a.dtype
        elif not isinstance(a, bool):
            device = a
    return dtype, device
