"""The array dialect that bodies and gradients are written in: a closed list of functions.

Each public function here carries the name of a primitive op and computes it with NumPy. The tracer and
the Tensors offer the same names, so one body serves all three. NumPy itself is no safe dialect (``exp``
of int64 gives float64, float32 times a 0-d float64 too), so arguments arrive cast and promoted, axes are
tuples of non-negative ints, shapes are tuples, and dtypes are NumPy's.
"""

import warnings

# routines for what a composite would compute slower; no part of the dialect
from jtorch.xp import _blocked_sum as _blocked_sum
from jtorch.xp import _convolution as _convolution
from jtorch.xp import _linear as _linear
from jtorch.xp import _pooling as _pooling
from jtorch.xp import _products as _products
from jtorch.xp import _softmax as _softmax
from jtorch.xp import _variance as _variance

# each file offers what it defines under a public name, and nothing else is callable here
from jtorch.xp.branching import *  # noqa: F403
from jtorch.xp.complex import *  # noqa: F403
from jtorch.xp.contraction import *  # noqa: F403
from jtorch.xp.creation import *  # noqa: F403
from jtorch.xp.cumulative import *  # noqa: F403
from jtorch.xp.drawing import *  # noqa: F403
from jtorch.xp.elementwise import *  # noqa: F403
from jtorch.xp.gathering import *  # noqa: F403
from jtorch.xp.linear_algebra import *  # noqa: F403
from jtorch.xp.ordering import *  # noqa: F403
from jtorch.xp.reduction import *  # noqa: F403
from jtorch.xp.special import *  # noqa: F403
from jtorch.xp.strided import *  # noqa: F403
from jtorch.xp.view import *  # noqa: F403

# Division by zero and overflow give inf and NaN without a word, as in PyTorch. The filter is limited to
# this package, because NumPy's own switch (seterr) would also change the user's NumPy code.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jtorch\.")
