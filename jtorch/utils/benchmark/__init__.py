"""``jtorch.utils.benchmark``: how long a statement takes.

Source: https://docs.pytorch.org/docs/stable/benchmark_utils.html
"""

from jtorch.utils.benchmark.compare import Colorize, Compare
from jtorch.utils.benchmark.measurement import Measurement, TaskSpec, select_unit
from jtorch.utils.benchmark.timer import Timer, timer

__all__ = ["Colorize", "Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer"]
