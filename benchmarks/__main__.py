"""``python -m benchmarks``"""

import sys

from benchmarks.cli import main
from jtorch.core.command import run

if __name__ == "__main__":
    sys.exit(run(main, "python -m benchmarks"))
