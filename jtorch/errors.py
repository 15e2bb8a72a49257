"""The errors that jtorch raises of its own, beside Python's.

Source: `docs/differences.md` says when each is raised.
"""

from jtorch.core.errors import CompileError as CompileError
from jtorch.core.errors import DataError as DataError
from jtorch.core.errors import EagerWarning as EagerWarning
from jtorch.core.errors import GraphError as GraphError
from jtorch.core.errors import InternalError as InternalError
from jtorch.core.errors import KernelError as KernelError
from jtorch.core.errors import LinAlgError as LinAlgError
from jtorch.core.errors import RetraceError as RetraceError
from jtorch.core.errors import RetraceWarning as RetraceWarning
from jtorch.core.errors import VerifyError as VerifyError
