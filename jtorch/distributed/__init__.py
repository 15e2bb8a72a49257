"""Several processes that train one model, over MPI, with ``torch.distributed``'s names.

``mpiexec -n 2 python train.py``, or ``python -m jtorch.distributed.run --nproc-per-node 2 train.py``. Needs
mpi4py and an MPI: ``python -m pip install "jtorch-compile[mpi]"``.

Source: https://docs.pytorch.org/docs/stable/distributed.html
"""

from jtorch.distributed.collectives import (
    all_gather,
    all_gather_into_tensor,
    all_reduce,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    ordered_all_reduce,
    reduce,
    reduce_scatter,
    reduce_scatter_tensor,
    scatter,
)
from jtorch.distributed.errors import DistBackendError, DistError, DistNetworkError, DistStoreError
from jtorch.distributed.group import ProcessGroup, debug_level
from jtorch.distributed.messages import (
    P2POp,
    batch_isend_irecv,
    irecv,
    isend,
    monitored_barrier,
    recv,
    send,
)
from jtorch.distributed.objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    scatter_object_list,
)
from jtorch.distributed.reduction import ReduceOp
from jtorch.distributed.work import Work
from jtorch.distributed.world import (
    GroupMember,
    default_pg_timeout,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    new_group,
)

__all__ = [
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "GroupMember", "P2POp",
    "ProcessGroup", "ReduceOp", "Work", "all_gather", "all_gather_into_tensor", "all_gather_object",
    "all_reduce", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast",
    "broadcast_object_list", "debug_level", "default_pg_timeout", "destroy_process_group", "gather",
    "gather_object", "get_backend", "get_default_backend_for_device", "get_global_rank", "get_group_rank",
    "get_node_local_rank", "get_process_group_ranks", "get_rank", "get_world_size", "group",
    "init_process_group", "irecv", "is_available", "is_gloo_available", "is_initialized", "is_mpi_available",
    "is_nccl_available", "is_torchelastic_launched", "isend", "monitored_barrier", "new_group",
    "ordered_all_reduce", "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter",
    "scatter_object_list", "send",
]  # fmt: skip
