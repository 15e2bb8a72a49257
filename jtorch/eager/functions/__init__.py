"""Functions that are only other functions put together: no op, no node of their own.

Each file offers ``FUNCTIONS`` (names of the module ``jtorch``) and ``METHODS`` (names of Tensor).
"""

from collections.abc import Callable
from typing import Any

from jtorch.eager.functions import (
    activations,
    arithmetic,
    comparison,
    complex_numbers,
    conversion,
    counting,
    cumulative,
    decompositions,
    distances,
    einsum,
    elsewhere,
    gathering,
    joining,
    masking,
    metadata,
    ordering,
    parting,
    products,
    reductions,
    reordering,
    repeating,
    scattering,
    shape,
    solvers,
    statistics,
    striding,
    triangles,
)

MODULES: tuple[Any, ...] = (
    activations, arithmetic, comparison, complex_numbers, conversion, counting, cumulative,
    decompositions, distances, einsum, elsewhere, gathering, joining, masking,
    metadata, ordering, parting, products, reductions, reordering, repeating, scattering, shape,
    solvers, statistics, striding, triangles,
)  # fmt: skip
FUNCTIONS: dict[str, Callable] = {name: f for m in MODULES for name, f in m.FUNCTIONS.items()}
METHODS: dict[str, Any] = {name: f for m in MODULES for name, f in m.METHODS.items()}
