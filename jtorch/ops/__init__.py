"""The table of ops, one file per family. Importing this package fills ``jtorch.core.op.TABLE``.

elementwise -> reduction -> views -> indexing -> contraction -> convolution -> random -> composite -> loss

Views (reshaping, permuting, slicing, joining, strided) move elements and compute nothing.
``affine(shape, strides, **statics)`` gives (offset, strides) of the result in elements. It is linear in
``strides``, so the compiler also feeds it unit vectors to learn which coordinate of the input each
coordinate of the output moves. ``strides``, where stated, are those that ``stride()`` answers: they step
over axes of one element as eager mode's do, where ``affine`` says 0. Where no strides can say it,
``index_map`` does (see ``jtorch.core.index``).
``put(xp, base, value, **statics)`` is ``base`` with ``value`` written through the view.

Loops over time (scanning) are ops of recordings alone, and in no table: recurrent layers run as their turns.
"""

import importlib

from jtorch.ops import (  # for their declarations
    activation,
    attention,
    bitwise,
    branching,
    comparison,
    complex,
    composite,
    contraction,
    convolution,
    ctc,
    cumulative,
    decomposition,
    distance,
    division,
    drawing,
    elementwise,
    embedding,
    exponential,
    factors,
    fourier,
    indexing,
    joining,
    linear_algebra,
    loss,
    normalization,
    norms,
    ordering,
    permuting,
    placing,
    polynomials,
    pooling,
    random,
    recurrent,
    reduction,
    representation,
    reshaping,
    scatter,
    shrinkage,
    slicing,
    special,
    strided,
    triangles,
    trigonometry,
    update,
    weighted,
)


def __getattr__(name: str) -> object:
    """``torch.ops.aten``, for programs that call ops by PyTorch's schemas; it stands on all that is above."""
    if name == "aten":
        return importlib.import_module("jtorch.compat.aten")
    raise AttributeError(f"module 'jtorch.ops' has no attribute '{name}'")
