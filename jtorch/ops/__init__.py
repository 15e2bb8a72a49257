"""The table of ops, one file per family. Importing this package fills ``jtorch.op.TABLE``.

elementwise -> reduction -> view -> indexing -> contraction -> convolution -> random -> composite -> loss
"""

from jtorch.ops import (  # noqa: F401 - imported for their declarations
    activation,
    composite,
    contraction,
    convolution,
    elementwise,
    indexing,
    loss,
    normalization,
    random,
    reduction,
    scatter,
    update,
    view,
)
