"""State dicts of models and optimizers for checkpoints: by the names of parameters, whatever wraps the model.

Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jtorch.distributed as dist
from jtorch.distributed.checkpoint.broadcasting import from_rank0
from jtorch.distributed.checkpoint.names import Names
from jtorch.distributed.optim import ZeroRedundancyOptimizer
from jtorch.distributed.sharded import ShardedTensor
from jtorch.eager.public import Tensor
from jtorch.nn.module import Module
from jtorch.nn.state import IncompatibleKeys
from jtorch.optim.optimizer import Optimizer


@dataclass
class StateDictOptions:
    """How state dicts are made and taken.

    ``full_state_dict``: whole tensors instead of parts; with ``cpu_offload``, too, in rank 0 alone, {} in the
    others. ``ignore_frozen_params`` leaves out parameters that don't require grad, ``strict`` is that of
    ``load_state_dict``, and with ``broadcast_from_rank0`` rank 0 gives whole tensors to all.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        if self.flatten_optimizer_state_dict:
            raise NotImplementedError("StateDictOptions: flatten_optimizer_state_dict is not implemented")
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("full_state_dict must be True when broadcast_from_rank0 is True.")


def get_model_state_dict(
    model: Module, *, submodules: set[Module] | None = None, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The model's parameters and buffers by name, without what DistributedDataParallel puts before.

    Sharded ones are the parts of this process; of ``full_state_dict`` all processes take part.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    _refuse_submodules(submodules)
    options, names = options or StateDictOptions(), Names(model)
    frozen = names.frozen() if options.ignore_frozen_params else set()
    found = {names.clean(key): value for key, value in model.state_dict().items()}
    return _given({key: value for key, value in found.items() if key not in frozen}, options)


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> dict[str, Any]:  # fmt: skip
    """``{"state": {name: {...}}, "param_groups": [...]}``, parameters by their names in the model.

    State that is made at the first step is made now, so that a checkpoint can be loaded into it. Of a
    ZeroRedundancyOptimizer it is what this process keeps; with ``full_state_dict`` that of all processes,
    each of which calls this.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    _refuse_submodules(submodules)
    options, names = options or StateDictOptions(), Names(model)
    frozen = names.frozen() if options.ignore_frozen_params else set()
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _many(optimizers):
        own = {names.of(p): facts for p, facts in _state(optimizer)}
        if options.full_state_dict and isinstance(optimizer, ZeroRedundancyOptimizer):
            own = _of_all(own, [names.of(p) for p in optimizer._all_params()], optimizer.process_group)
        state.update({name: facts for name, facts in own.items() if name not in frozen})
        for group in optimizer.param_groups:
            kept = [name for name in map(names.of, group["params"]) if name not in frozen]
            groups.append({**_options(group), "params": kept})
    return _given({"state": state, "param_groups": groups}, options)


def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, submodules: set[Module] | None = None,
    options: StateDictOptions | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:  # fmt: skip
    """(``get_model_state_dict``, ``get_optimizer_state_dict``)

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    model_state = get_model_state_dict(model, submodules=submodules, options=options)
    return model_state, get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options)


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Load what ``get_model_state_dict`` gave: parts, or whole tensors, of which each process takes its rows.

    Raises RuntimeError, as ``load_state_dict`` does, where names or shapes differ.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    options, names = options or StateDictOptions(), Names(model)
    if options.broadcast_from_rank0:
        model_state_dict = from_rank0(model_state_dict, lambda path: names.sharding(path[0]))
    given = {names.own(key): value for key, value in model_state_dict.items()}
    return model.load_state_dict(given, strict=options.strict)


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: Mapping[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Load what ``get_optimizer_state_dict`` gave: state and options of the parameters, found by name.

    All that a process needs must be there: the state of each parameter that requires grad, and that it
    updates. Raises ValueError for one that has none, or is in no group, or a group of parameters that were
    in several, before any optimizer is changed.
    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    options, names = options or StateDictOptions(), Names(model)
    if options.broadcast_from_rank0:
        optim_state_dict = from_rank0(optim_state_dict, lambda path: names.sharding(path[1]))
    many = _many(optimizers)
    for optimizer in many:
        _check_state(optimizer, names, optim_state_dict["state"])
    found = [_by_number(optimizer, names, optim_state_dict) for optimizer in many]
    for optimizer, state in zip(many, found, strict=True):
        optimizer.load_state_dict(state)


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any], options: StateDictOptions | None = None,
) -> IncompatibleKeys:  # fmt: skip
    """``set_model_state_dict`` and ``set_optimizer_state_dict``

    Source: https://docs.pytorch.org/docs/stable/distributed.checkpoint.html
    """
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found


def _refuse_submodules(submodules: Any) -> None:
    if submodules:
        raise NotImplementedError("submodules is not implemented: pass the submodule as the model")


def _many(optimizers: Any) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in group.items() if name not in ("params", "param_names")}


def _state(optimizer: Optimizer) -> list[tuple[Tensor, dict[str, Any]]]:
    """(parameter, its state) of those that this process keeps any of."""
    kept = _kept(optimizer)
    found = []
    for p in kept._all_params():
        facts = dict(kept.state[p]) if p in kept.state else {}
        sharding = getattr(p, "sharding", None)
        if facts:
            found.append((p, facts if sharding is None else sharding.state(facts, p)))
    return found


def _kept(optimizer: Optimizer) -> Optimizer:
    """The optimizer that has this process's state, which is made where it was not yet."""
    kept = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer
    assert kept is not None
    if type(kept)._new_state is not Optimizer._new_state:
        kept.init_state()
    return kept


def _of_all(mine: dict[str, Any], order: list[str], group: Any) -> dict[str, Any]:
    """The state of all parameters, of what each process of ``group`` keeps; their names in ``order``."""
    everyone: list[Any] = [None] * group.size()
    dist.all_gather_object(everyone, mine, group)
    found = {name: facts for part in everyone for name, facts in part.items()}
    return {name: found[name] for name in order if name in found}


def _check_state(optimizer: Optimizer, names: Names, given: Mapping[str, Any]) -> None:
    """Raise ValueError where a parameter that this process updates would go on without its state."""
    kept = _kept(optimizer)
    needing = [p for p in kept._all_params() if p.requires_grad and kept.state.get(p)]
    missing = [name for name in map(names.of, needing) if not given.get(name)]
    if missing:
        raise ValueError(
            f"the state dict has no optimizer state of {', '.join(missing)}: it may be that of one process "
            "of a ZeroRedundancyOptimizer, which keeps a part; full_state_dict=True gives the whole"
        )


def _given(found: dict[str, Any], options: StateDictOptions) -> dict[str, Any]:
    """What is handed out: with ``full_state_dict`` whole tensors, made one after another in all processes."""
    if not options.full_state_dict:
        return found
    here = not options.cpu_offload or not dist.is_initialized() or dist.get_rank() == 0
    whole = _whole(found, here)
    return whole if here else {}


def _whole(value: Any, here: bool) -> Any:
    if isinstance(value, dict):
        return {key: _whole(inner, here) for key, inner in value.items()}
    if isinstance(value, ShardedTensor):
        made = value.full_tensor()
        return made if here else None  # the others send theirs, and keep none
    return value


def _by_number(optimizer: Optimizer, names: Names, given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` as a state dict of this optimizer."""
    numbers = iter(range(sum(len(group["params"]) for group in optimizer.param_groups)))
    state: dict[int, Any] = {}
    groups = []
    for group in optimizer.param_groups:
        own = [names.of(p) for p in group["params"]]
        found = [saved for saved in given["param_groups"] if set(own) & set(saved["params"])]
        if len(found) != 1 or not set(own) <= set(found[0]["params"]):
            missing = set(own).difference(*(saved["params"] for saved in given["param_groups"]))
            raise ValueError(
                f"the optimizer's group of {', '.join(own)} is no group of the state dict"
                + (f", which has nothing of {', '.join(sorted(missing))}" if missing else "")
            )
        mine = [next(numbers) for _ in own]
        state.update({k: given["state"][n] for k, n in zip(mine, own, strict=True) if n in given["state"]})
        groups.append({**_options(found[0]), "params": mine})
    return {"state": state, "param_groups": groups}
