"""What layers, optimizers and the rest of the library may use of eager mode.

They stand on these names as a program of yours stands on ``import jtorch``, and on nothing behind them:
what a tensor keeps and how an op finds its number is eager mode's own affair.

* ``functions.cat(...)``: the public functions, which users call as ``jtorch.cat(...)``
* ``ops.max_pool(...)``: an op of the table by its own name, its statics as keywords, without public arguments
* the rest by name: making tensors, switching the tape, hooks, and what an optimizer writes
"""

from __future__ import annotations

from types import SimpleNamespace

from jtorch.core.op import agree
from jtorch.eager.autocasting import as_before, autocasts
from jtorch.eager.batching.boundary import Crossing, holds
from jtorch.eager.batching.values import MappedAxis
from jtorch.eager.binding import APPLY, raw
from jtorch.eager.captured import Captured
from jtorch.eager.creation import (
    arange,
    empty,
    empty_like,
    eye,
    from_numpy,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    tensor,
    zeros,
    zeros_like,
)
from jtorch.eager.drawing import rand, rand_like, randn, randperm
from jtorch.eager.duals import carry
from jtorch.eager.engine import call_at_end, current_run, in_backward, reached
from jtorch.eager.exchange import as_tensor, from_dlpack, to_dlpack
from jtorch.eager.exchanged import exchanged
from jtorch.eager.functions.norms import vector_norm
from jtorch.eager.functions.reductions import largest_integer
from jtorch.eager.grad_mode import enable_grad, is_grad_enabled, no_grad
from jtorch.eager.hooks import RemovableHandle, add_hook
from jtorch.eager.identity import for_edge, through_identity
from jtorch.eager.inplace import zero_gradient
from jtorch.eager.messages import check_tensors, long_name, not_a_tensor
from jtorch.eager.methods import FUNCTIONS
from jtorch.eager.node import Node
from jtorch.eager.profiling import WatchOfAll, copied, shown
from jtorch.eager.repeated_draws import noted_draws, repeated_draws
from jtorch.eager.saved_hooks import DECLINED, Packed, pack, saved_tensors_hooks
from jtorch.eager.sixteen_bits import in_float32, widened
from jtorch.eager.sparse_gradient import SparseGradientError, by_rows
from jtorch.eager.storage import Uploads, downloaded
from jtorch.eager.swapping import swap_tensors
from jtorch.eager.tensor import Size, Tensor, has_elements, hold_memory_of, reads_elements, twin_of
from jtorch.eager.tree import flatten, mapped, tensors_of
from jtorch.eager.type_info import finfo
from jtorch.eager.updates import add_at, fill, put_at, scaled, update_each
from jtorch.eager.views import apart
from jtorch.ops.axes import integer

functions = SimpleNamespace(**FUNCTIONS)
ops = SimpleNamespace(**APPLY)

__all__ = [  # noqa: RUF022 - sorted by purpose
    # values: tensors, what computes with them, numbers of a dtype, memory shared with others
    "Size", "Tensor", "apart", "as_tensor", "finfo", "from_dlpack", "from_numpy", "functions", "has_elements",
    "hold_memory_of", "integer", "long_name", "ops", "raw", "reads_elements", "swap_tensors", "to_dlpack",
    "largest_integer", "vector_norm",
    # memory of a device as the host's, and back
    "Uploads", "downloaded",
    # what autocast does to a function, and to dtypes
    "agree", "as_before", "autocasts",
    # those of 16 bits, which are computed in float32
    "in_float32", "widened",
    # tuples, lists and dicts of tensors
    "flatten", "mapped", "tensors_of",
    # the tangent of a tensor, for another one that has its elements
    "carry",
    # functions of single examples, computed for a batch
    "Crossing", "MappedAxis", "holds",
    # errors for what is no tensor
    "check_tensors", "not_a_tensor",
    # making them
    "arange", "empty", "empty_like", "eye", "full", "full_like", "linspace", "ones", "ones_like", "rand",
    "rand_like", "randn", "randperm", "tensor", "zeros", "zeros_like",
    # the tape: whether there is one, its nodes, who looks on, what it saves, what is drawn once more
    "Captured", "DECLINED", "Node", "Packed", "RemovableHandle", "WatchOfAll", "add_hook", "call_at_end",
    "current_run",
    "enable_grad", "for_edge", "in_backward", "is_grad_enabled", "no_grad", "noted_draws", "pack", "reached",
    "repeated_draws", "saved_tensors_hooks", "through_identity", "twin_of", "copied", "shown",
    # between processes, while a function is recorded
    "exchanged",
    # gradients of a few rows
    "SparseGradientError", "by_rows",
    # what optimizers write
    "add_at", "fill", "put_at", "scaled", "update_each", "zero_gradient",
]  # fmt: skip
