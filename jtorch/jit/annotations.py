"""Types that programs import from ``torch.jit.annotations``, as ``typing`` has them.

Source: https://github.com/pytorch/pytorch/blob/main/torch/jit/annotations.py
"""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035

__all__ = ["Any", "Dict", "List", "Optional", "Tuple", "Union"]
