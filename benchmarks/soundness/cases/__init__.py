"""The forty-four, as programs that run in jtorch and in PyTorch alike. The tests run them, too.

Importing this package declares them. Each program makes everything it needs, so that runs don't meet. What
it returns is compared.
"""

from benchmarks.soundness.cases import (
    arguments,
    models,
    not_recordable,
    processes,
)
