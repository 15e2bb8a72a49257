"""The table of ops, one file per family. Importing this package fills ``jtorch.op.TABLE``.

elementwise -> reduction -> view -> indexing -> contraction -> convolution -> random -> composite
"""

from jtorch.ops import (  # noqa: F401 - imported for their declarations
    composite,
    contraction,
    elementwise,
    indexing,
    random,
    reduction,
    scatter,
    update,
    view,
)
