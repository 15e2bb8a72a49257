"""How a command line of ours ends: by a status, and by one line where something outside went wrong."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

INTERRUPTED = 130  # 128 and the number of the signal, as shells have it
BROKEN_PIPE = 141


def run(main: Callable[[], int | None], name: str) -> int:
    """The exit status of ``main()``, which the command ``name`` is. Ctrl-C, a reader that has gone
    (``| head``) and files that cannot be read or written are no faults of ours, so they get no traceback."""
    try:
        status = main() or 0
        sys.stdout.flush()  # here, and not as Python ends, which would tell of a pipe that is closed
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except ValueError as error:
        if not str(error).startswith("JTORCH_"):  # a setting that is none
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        file = f": {error.filename!r}" if error.filename is not None else ""
        print(f"{name}: {error.strerror or error}{file}", file=sys.stderr)
        return 2
    return status
