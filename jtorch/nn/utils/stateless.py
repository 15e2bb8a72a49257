"""A module as a function of its parameters and buffers.

Source: https://docs.pytorch.org/docs/stable/generated/torch.func.functional_call.html
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jtorch.eager.public import Tensor
from jtorch.nn.module import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors, by dotted name, in the places of its own.

    Several dicts may be given as a tuple. ``tie_weights`` puts a tensor in all places that share the one it
    replaces; ``strict`` raises RuntimeError for names that are missing or unexpected. The module is as before
    afterwards.

    >>> import jtorch
    >>> layer = jtorch.nn.Linear(1, 1)
    >>> given = {"weight": jtorch.tensor([[2.0]]), "bias": jtorch.tensor([1.0])}
    >>> jtorch.func.functional_call(layer, given, jtorch.tensor([[3.0]]))
    tensor([[7.]])
    """
    if isinstance(parameter_and_buffer_dicts, Mapping):
        given = dict(parameter_and_buffer_dicts)
    elif isinstance(parameter_and_buffer_dicts, Sequence):
        given = {k: v for part in parameter_and_buffer_dicts for k, v in part.items()}
    else:
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    arguments = () if args is None else args if isinstance(args, tuple) else (args,)
    with _exchanged(module, given, tie_weights, strict):
        return module(*arguments, **(kwargs or {}))


def _places(module: Module, given: Collection[str]) -> dict[str, tuple[dict[str, Any], str]]:
    """Where each parameter and buffer hangs: dotted name -> (dict, key). One that is None has a place if it
    is ``given``."""
    found: dict[str, tuple[dict[str, Any], str]] = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for held in (part._parameters, part._buffers):
            for key, value in held.items():
                name = f"{prefix}.{key}" if prefix else key
                if value is not None or name in given:
                    found[name] = (held, key)
    return found


def _tied(places: dict[str, tuple[dict[str, Any], str]], given: dict[str, Any]) -> dict[str, Any]:
    """``given`` with the other names of each tensor that it replaces."""
    names: dict[int, list[str]] = {}
    for name, (held, key) in places.items():
        if held[key] is not None:
            names.setdefault(id(held[key]), []).append(name)
    more = dict(given)
    for shared in names.values():
        values = {id(given[n]): given[n] for n in shared if n in given}
        if len(values) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(shared)}, which are tied. Consider "
                "using tie_weights=False"
            )
        for name in shared:
            for value in values.values():
                more[name] = value
    return more


@contextmanager
def _exchanged(module: Module, given: dict[str, Tensor], tie: bool, strict: bool) -> Iterator[None]:
    places = _places(module, given)
    tensors = _tied(places, given) if tie else given
    unexpected = [name for name in tensors if name not in places]
    missing = [name for name in places if name not in tensors]
    if strict and (missing or unexpected):
        raise RuntimeError(
            f"Error(s) in loading state_dict: Unexpected key(s): {unexpected}. Missing key(s): {missing}."
        )
    before = []
    try:
        for name, tensor in tensors.items():
            if name in places:
                held, key = places[name]
                before.append((held, key, held[key]))
                held[key] = tensor
        yield
    finally:
        for held, key, value in before:
            held[key] = value
