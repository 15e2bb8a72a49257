"""The errors that jtorch raises of its own, beside Python's.

Source: `docs/differences.md` says when each is raised.
"""

from jtorch.core.errors import (
    CompileError as CompileError,
    DataError as DataError,
    EagerWarning as EagerWarning,
    GraphError as GraphError,
    InternalError as InternalError,
    KernelError as KernelError,
    LinAlgError as LinAlgError,
    RetraceError as RetraceError,
    RetraceWarning as RetraceWarning,
    VerifyError as VerifyError,
)
