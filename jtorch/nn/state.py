"""State dicts: a module's tensors by dotted name, out and in again, with PyTorch's keys and messages."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jtorch import dtypes as dt
from jtorch.eager.grad_mode import no_grad
from jtorch.eager.tensor import Tensor
from jtorch.nn.parameter import Parameter


class IncompatibleKeys(NamedTuple):
    """What ``load_state_dict`` found to differ; both empty where all keys matched."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


def _entries(module: Any, prefix: str) -> Iterator[tuple[str, Any, str, Tensor]]:
    """(key, owner, name, tensor) of everything persistent, in PyTorch's order."""
    for name, param in module._parameters.items():
        if param is not None:
            yield prefix + name, module, name, param
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield prefix + name, module, name, buffer
    for name, child in module._modules.items():
        if child is not None:
            yield from _entries(child, f"{prefix}{name}.")


def collect(module: Any, prefix: str, keep_vars: bool) -> OrderedDict[str, Tensor]:
    """The state dict of ``module``; detached unless ``keep_vars``."""
    return OrderedDict(
        (key, tensor if keep_vars else tensor.detach())
        for key, _, _, tensor in _entries(module, prefix)
    )


def load(module: Any, given: Mapping[str, Tensor], strict: bool, assign: bool) -> IncompatibleKeys:
    """Check everything, then copy (or assign): a state dict that does not fit changes nothing."""
    if not isinstance(given, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(given)}.")
    entries = list(_entries(module, ""))
    expected = {key for key, *_ in entries}
    missing = [key for key, *_ in entries if key not in given]
    unexpected = [key for key in given if key not in expected]
    errors = []
    if strict and unexpected:
        errors.append(f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
    if strict and missing:
        errors.insert(0, f"Missing key(s) in state_dict: {_quoted(missing)}. ")
    pairs = []
    for key, owner, name, tensor in entries:
        if key not in given:
            continue
        value = given[key]
        problem, value = _fitted(key, tensor, value)
        if problem:
            errors.append(problem)
        else:
            pairs.append((owner, name, tensor, value))
    if errors:
        joined = "\n\t".join(errors)
        raise RuntimeError(
            f"Error(s) in loading state_dict for {type(module).__name__}:\n\t{joined}"
        )
    with no_grad():
        for owner, name, tensor, value in pairs:
            if assign:
                _assign(owner, name, tensor, value)
            else:
                tensor.copy_(value)
    return IncompatibleKeys(missing, unexpected)


def _fitted(key: str, tensor: Tensor, value: Any) -> tuple[str, Any]:
    """(what is wrong or "", the value in the tensor's shape)."""
    if not isinstance(value, Tensor):
        return (
            f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like object from '
            f"checkpoint but received {type(value)}"
        ), value
    if tensor.ndim == 0 and tuple(value.shape) == (1,):
        value = value.detach().reshape(())
    if value.shape != tensor.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {value.shape} from checkpoint, the shape "
            f"in current model is {tensor.shape}."
        ), value
    return "", value


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
