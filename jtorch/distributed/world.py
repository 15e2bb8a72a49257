"""The default group and those made from it: joining, asking, leaving.

Source: https://docs.pytorch.org/docs/stable/distributed.html#initialization
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from jtorch.distributed import mpi, steps
from jtorch.distributed.errors import DistBackendError, refuse_recording
from jtorch.distributed.group import ProcessGroup, report_termination
from jtorch.distributed.work import Order, poll, seconds

default_pg_timeout = timedelta(minutes=30)
_BACKENDS = ("mpi", "gloo")
_NOT_IN = "Default process group has not been initialized, please make sure to call init_process_group."


class GroupMember:
    """``WORLD`` is the group of all processes; ``NON_GROUP_MEMBER`` what a group is to those not in it."""

    WORLD: ProcessGroup | None = None
    NON_GROUP_MEMBER: Any = -100


class _Group(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802 - PyTorch's name
        return GroupMember.WORLD


class group(metaclass=_Group):  # noqa: N801 - PyTorch's name
    """``group.WORLD`` is the group of all processes; None before ``init_process_group``."""


class _Registry:
    groups: list[ProcessGroup] = []  # noqa: RUF012 - one for the process
    count = 0


def is_available() -> bool:
    """Whether there is an MPI for Python (mpi4py)."""
    return mpi.is_installed()


def is_mpi_available() -> bool:
    """Whether there is an MPI for Python (mpi4py)."""
    return mpi.is_installed()


def is_gloo_available() -> bool:
    """Whether ``backend="gloo"`` works: it is another name of MPI here."""
    return mpi.is_installed()


def is_nccl_available() -> bool:
    """Tensors on a device are sent by way of the host's memory, never by NCCL: False."""
    return False


def get_default_backend_for_device(device: Any) -> str:
    """The backend for tensors of this device: "gloo" for the CPU; ValueError for others."""
    if str(device).partition(":")[0] != "cpu":
        raise ValueError(f"Default backend not registered for device : {device}")
    return "gloo"


def is_initialized() -> bool:
    """Whether this process is in the default group."""
    return GroupMember.WORLD is not None


def is_torchelastic_launched() -> bool:
    """Whether the launcher (``python -m jtorch.distributed.run``) started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None, init_method: str | None = None,
    timeout: timedelta | float | None = None, world_size: int = -1, rank: int = -1, store: Any = None,
    group_name: str = "", pg_options: Any = None, device_id: Any = None,
) -> None:  # fmt: skip
    """Join the processes that ``mpiexec`` or ``python -m jtorch.distributed.run`` started with this one.

    ``backend`` is "mpi", or "gloo", another name of it here. A program that was started alone is rank 0 of 1.
    ``timeout`` (30 minutes) is how long any wait may last; then it is a ``DistBackendError``. Rank and world
    size are MPI's: ``init_method`` and ``store`` are not needed, ``rank`` and ``world_size`` only compared.

    Waits for all processes to come here, those that never do included only if MPI itself has started.
    Raises ModuleNotFoundError without mpi4py, ValueError where MPI counts other processes than the arguments
    or the environment (``WORLD_SIZE``) say: then something else than MPI started them.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.init_process_group
    """
    refuse_recording("init_process_group")
    if is_initialized():
        raise ValueError("trying to initialize the default process group twice!")
    backend = _checked_backend(backend)
    MPI = mpi.load()
    comm = MPI.COMM_WORLD
    _check_world(comm, rank, world_size)
    limit = seconds(timeout, default_pg_timeout.total_seconds())
    if limit <= 0:
        raise ValueError(f"init_process_group: a timeout of {limit} s; it must be positive")
    _meet(comm, limit, "init_process_group")
    world = ProcessGroup(comm.Dup(), list(range(comm.size)), "default_pg", limit, backend)
    GroupMember.WORLD = world
    _Registry.groups = [world]
    _fill_environment(MPI, comm)
    last = comm.Dup()
    mpi.at_the_end(lambda: world.all_came(last))
    report_termination(world)


def _checked_backend(backend: str | None) -> str:
    name = "mpi" if backend in (None, "undefined") else str(backend).lower()
    if ":" in name:  # "cpu:gloo,cuda:nccl"
        name = dict(part.split(":", 1) for part in name.split(",")).get("cpu", name)
    if name not in _BACKENDS:
        raise ValueError(
            f"init_process_group: backend {backend!r}: tensors are sent from the host's memory, where those "
            "of a device are copied to; use 'mpi', or 'gloo', another name of it"
        )
    return name


def _check_world(comm: Any, rank: int, world_size: int) -> None:
    said = world_size if world_size != -1 else int(os.environ.get("WORLD_SIZE", comm.size))
    if said != comm.size:
        raise ValueError(
            f"init_process_group: a world of {said} processes was announced (world_size or WORLD_SIZE), and "
            f"MPI has started {comm.size}. Start them with 'mpiexec -n {said} python script.py' or "
            f"'python -m jtorch.distributed.run --nproc-per-node {said} script.py'"
        )
    if rank not in (-1, comm.rank):
        raise ValueError(f"init_process_group: rank={rank}, and MPI numbers this process {comm.rank}")


def _meet(comm: Any, limit: float, name: str) -> None:
    """Wait until all processes have come here: what blocks after it returns at once."""
    if not poll(comm.Ibarrier().Test, limit, lambda _: None):
        raise DistBackendError(
            f"{name} on rank {comm.rank} of {comm.size}: not all processes came there within {limit:g} s"
        )


def _fill_environment(MPI: Any, comm: Any) -> None:
    """What the launcher sets, for programs that ``mpiexec`` started."""
    local = comm.Split_type(MPI.COMM_TYPE_SHARED, key=comm.rank)
    for name, value in (
        ("RANK", comm.rank), ("WORLD_SIZE", comm.size), ("LOCAL_RANK", local.rank),
        ("LOCAL_WORLD_SIZE", local.size),
    ):  # fmt: skip
        os.environ.setdefault(name, str(value))
    local.Free()


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave ``group``, or all groups: waits until all its processes do.

    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.destroy_process_group
    """
    refuse_recording("destroy_process_group")
    if group is GroupMember.NON_GROUP_MEMBER:
        return
    found = _resolved(group)
    leaving = [*reversed(_Registry.groups)] if found is GroupMember.WORLD else [found]
    for function in [function for one in leaving for function in one.before_leaving]:
        function()
    if not found.broken and not found.all_came():
        found.broken = "its processes did not leave it together"
    for one in leaving:
        if not found.broken:
            one.free()
        _Registry.groups.remove(one)
    if found is GroupMember.WORLD:
        GroupMember.WORLD = None


def new_group(
    ranks: Sequence[int] | None = None, timeout: timedelta | float | None = None,
    backend: str | None = None, pg_options: Any = None, use_local_synchronization: bool = False,
    group_desc: str | None = None, device_id: Any = None,
) -> Any:  # fmt: skip
    """A group of some processes (all without ``ranks``). All processes of the world must call this.

    Gives ``GroupMember.NON_GROUP_MEMBER`` to those that are not in it.
    Source: https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.new_group
    """
    refuse_recording("new_group")
    world = _resolved(None)
    chosen = sorted(range(world.size()) if ranks is None else ranks)
    if len(set(chosen)) != len(chosen) or not all(0 <= r < world.size() for r in chosen) or not chosen:
        raise ValueError(f"new_group: ranks={list(ranks or ())} of a world of {world.size()} processes")
    name = group_desc or f"group_{_Registry.count + 1}"
    limit = seconds(timeout, world.timeout)
    kind = world.backend if backend is None else _checked_backend(backend)
    world.start(Order("new_group", (), "", str(chosen)), steps.barrier(world), False)
    _Registry.count += 1
    mine = world.rank() in chosen
    comm = world.control.Split(0 if mine else mpi.load().UNDEFINED, world.rank())
    if not mine:
        return GroupMember.NON_GROUP_MEMBER
    made = ProcessGroup(comm, chosen, name, limit, kind)
    _Registry.groups.append(made)
    return made


def beside(group: ProcessGroup) -> ProcessGroup:
    """A group of the same processes, for what a thread does while the others are used: made once.

    All processes of ``group`` call this together.
    """
    if group.twin is None:
        group.start(Order("beside"), steps.barrier(group), False)
        with mpi.LOCK:
            comm = group.comm.Dup()
        name = f"{group.group_name}_beside"
        group.twin = ProcessGroup(comm, group.ranks, name, group.timeout, group.backend)
        _Registry.groups.append(group.twin)
    return group.twin


# -- which group, which rank -------------------------------------------------------------------------------


def _resolved(group: Any) -> ProcessGroup:
    """``group``, or the default one."""
    if group is None:
        group = GroupMember.WORLD
        if group is None:
            raise ValueError(_NOT_IN)
    if not isinstance(group, ProcessGroup):
        raise TypeError(f"expected a process group of new_group() or None, got {type(group).__name__}")
    if group not in _Registry.groups:
        raise ValueError("Invalid process group specified: it was destroyed")
    return group


def entered(name: str, group: Any, is_recorded: bool = False) -> ProcessGroup | None:
    """The group that a collective is for; None, with a warning, in a process that is not in it.

    In a compiled function it is an error, unless ``is_recorded``.
    """
    if not is_recorded:
        refuse_recording(name)
    if group is GroupMember.NON_GROUP_MEMBER:
        warnings.warn(
            f"Running {name} on global rank {get_rank()} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    return _resolved(group)


def root_of(
    group: ProcessGroup, name: str, rank: int | None, group_rank: int | None, default: int | None = None
) -> int:
    """The rank in ``group`` of a process given by its global rank or by its rank in the group."""
    if rank is not None and group_rank is not None:
        raise ValueError(f"Can't specify both group_{name} and {name}")
    if rank is None and group_rank is None:
        if default is None:
            raise ValueError(f"Must specify {name} or group_{name}")
        rank = default
    if group_rank is not None:
        if not 0 <= group_rank < group.size():
            raise ValueError(f"group_{name}={group_rank} in a group of {group.size()} processes")
        return group_rank
    assert rank is not None
    return get_group_rank(group, rank)


def get_rank(group: Any = None) -> int:
    """This process's rank; -1 where it is not in ``group``."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _resolved(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many processes there are; -1 where this one is not in ``group``."""
    return -1 if group is GroupMember.NON_GROUP_MEMBER else _resolved(group).size()


def get_backend(group: Any = None) -> str:
    """ "mpi" or "gloo": the name that was asked for."""
    return _resolved(group).backend


def get_process_group_ranks(group: Any) -> list[int]:
    """The global ranks of a group's processes, by their rank in the group."""
    return list(_resolved(group).ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """A process's rank in ``group``, of its global rank."""
    found = _resolved(group)
    if global_rank not in found.ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {found!r}")
    return found.ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """A process's global rank, of its rank in ``group``."""
    found = _resolved(group)
    if not 0 <= group_rank < found.size():
        raise ValueError(f"Group rank {group_rank} is not part of group {found!r}")
    return found.ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's rank on its host, from ``LOCAL_RANK``."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment: start the processes with the launcher")
