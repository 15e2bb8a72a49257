"""``fully_shard``: which parameters a module's group has, and that they can be shared out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import jtorch.distributed as dist
from jtorch.distributed.alike import check_alike
from jtorch.distributed.errors import refuse_recording
from jtorch.distributed.fsdp.group import ParameterGroup
from jtorch.distributed.fsdp.module import FSDPModule
from jtorch.distributed.fsdp.policies import MixedPrecisionPolicy, OffloadPolicy
from jtorch.distributed.fsdp.state import Owner, State
from jtorch.distributed.sharded import ShardedParameter, shard_parameter
from jtorch.nn.module import Module
from jtorch.nn.parameter import UninitializedTensor


def fully_shard(
    module: Any, *, mesh: Any = None, reshard_after_forward: bool | None = True,
    shard_placement_fn: Callable | None = None, mp_policy: MixedPrecisionPolicy | None = None,
    offload_policy: OffloadPolicy | None = None, ignored_params: Iterable[Any] | None = None,
    dp_mesh_dims: Any = None, process_group: Any = None,
) -> Any:  # fmt: skip
    """Let each process keep its rows of the module's parameters, and have the whole ones while it is called.

    The parameters below ``module`` that are not sharded yet form one group: they are gathered by one
    collective before the module's forward, released after it, gathered again when backward needs them, and
    released for good when their gradients are there, which are averaged over all processes, each of which
    gets its rows' as ``p.grad``. So inner modules come first::

        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)

    That is ZeRO's stage 3. With ``reshard_after_forward=False`` parameters stay whole from forward to
    backward (stage 2). A parameter stays the same object, and gets the shape of its part: rows in chunks of
    ceil(rows / n), the last ones smaller or empty. Optimizers that work element by element step on parts as
    they are; Adafactor and L-BFGS refuse them. ``mp_policy`` gives whole ones another dtype. Parameters must
    be alike in all processes (one seed): nothing is broadcast. ``process_group``, or ``mesh``, which may be
    one, are the processes; all of them without.

    ``module`` itself is given back, with a class before its own that has the methods of ``FSDPModule``. Of a
    list of modules, which is called one after another, all parameters are one group.

    Raises ValueError without a process group, for a 0-d parameter, one without a shape, and one that is
    shared with a module outside; RuntimeError where processes have other parameters; NotImplementedError
    for ``shard_placement_fn`` and a mesh; a call in a compiled function is
    a CompileError.
    Source: https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html; Rajbhandari et al. 2020,
    "ZeRO", arXiv:1910.02054
    """
    refuse_recording("fsdp.fully_shard")
    _refuse_options(reshard_after_forward, shard_placement_fn, dp_mesh_dims)
    modules = list(module) if isinstance(module, (list, tuple)) else [module]
    for each in modules:
        _check_module(each)
    group = _process_group(mesh, process_group)
    owners, named = _found(modules, {id(p) for p in ignored_params or ()})
    check_alike("fully_shard", named, group)
    for _, p in named:
        shard_parameter(p, group)
    parameters = ParameterGroup(named, group, mp_policy or MixedPrecisionPolicy())
    state = State(modules, parameters, owners, reshard_after_forward is not False)
    for each in modules:
        _convert(each, state)
    return module


def _convert(module: Any, state: State) -> None:
    """Put ``FSDPModule`` before the class of ``module``, and name what is sharded in it as it does."""
    plain: Any = type(module)
    module.__class__ = _sharded_class(plain)
    module.__dict__["_fsdp"] = state
    names = {id(p): name for name, p in module.named_parameters()}
    for path, inner in module.named_modules():
        if isinstance(inner, FSDPModule):
            inner._fsdp.group.exchange.rename(names)
            if path:
                inner._fsdp.name_by(path)


def _refuse_options(reshard: Any, placement: Any, dims: Any) -> None:
    if reshard is not None and not isinstance(reshard, bool):
        raise NotImplementedError(
            f"fully_shard: reshard_after_forward={reshard!r}: resharding to fewer processes is not "
            "implemented; use True or False"
        )
    for wanted, name in ((placement, "shard_placement_fn"), (dims, "dp_mesh_dims")):
        if wanted:
            raise NotImplementedError(f"fully_shard: {name} is not implemented")


def _check_module(module: Any) -> None:
    if not isinstance(module, Module):
        raise TypeError(f"fully_shard takes a Module, got {type(module).__name__}")
    if isinstance(module, FSDPModule):
        raise ValueError(f"fully_shard has been applied to this {module._fsdp.name} already")


def _process_group(mesh: Any, process_group: Any) -> Any:
    given = process_group if mesh is None else mesh
    found = dist.group.WORLD if given is None else given
    if found is None:
        raise ValueError(
            "Default process group has not been initialized, please call init_process_group first"
        )
    if not isinstance(found, dist.ProcessGroup):
        raise NotImplementedError(
            f"fully_shard: {type(found).__name__} as mesh: there are no device meshes; give a process "
            "group of new_group()"
        )
    return found


def _found(modules: list[Any], ignored: set[int]) -> tuple[list[Owner], list[tuple[str, Any]]]:
    """(whose the parameters of the group are, (name, parameter) of each); a shared one is there once."""
    numbers: dict[int, int] = {}
    owners: list[Owner] = []
    named: list[tuple[str, Any]] = []
    for module, prefix, owner in _managed(modules):
        for name, p in owner._parameters.items():
            if p is None or id(p) in ignored:
                continue
            full = f"{prefix}{name}"
            if id(p) not in numbers:
                _check_parameter(module, full, p)
                numbers[id(p)] = len(named)
                named.append((full, p))
            owners.append(Owner(owner, name, numbers[id(p)]))
    return owners, named


def _managed(modules: list[Any]) -> Iterator[tuple[Any, str, Any]]:
    """(one of the modules, prefix, module) here and below, but for what is sharded already."""
    seen = set()
    for module in modules:
        for name, each in module.named_modules(remove_duplicate=False):
            if id(each) not in seen and not _is_inside(module, name):
                seen.add(id(each))
                yield module, f"{name}." if name else "", each


def _is_inside(module: Any, name: str) -> bool:
    """Whether the module of this name is sharded, or one between it and ``module``."""
    here = module
    for step in name.split(".") if name else ():
        here = here._modules[step]
        if isinstance(here, FSDPModule):
            return True
    return False


def _check_parameter(module: Any, name: str, p: Any) -> None:
    """Raise ValueError, naming the parameter of this module, for one that can't be shared out."""
    where = f"fully_shard({type(module).__name__}): parameter {name}"
    if isinstance(p, UninitializedTensor):
        raise ValueError(f"{where} has no shape yet: call the module once on an input before")
    if isinstance(p, ShardedParameter):
        raise ValueError(
            f"{where} is shared with {_other_owner(module, p)}, which was sharded by itself. Both need it "
            "whole: apply fully_shard to neither, but to a module that holds both"
        )
    if p.ndim == 0:
        raise ValueError(
            f"{where} has no axis to be shared out along: fully_shard doesn't support scalar parameters. "
            "Change it to a 1D tensor with numel equal to 1."
        )


def _other_owner(module: Any, p: Any) -> str:
    """The name of the module that was sharded with this parameter."""
    for path, inner in module.named_modules():
        if isinstance(inner, FSDPModule) and any(q is p for q in inner._fsdp.group.params):
            return path
    return "a module outside"


@functools.cache
def _sharded_class(plain: Any) -> type:
    return type(f"FSDP{plain.__name__}", (FSDPModule, plain), {"__module__": plain.__module__})
