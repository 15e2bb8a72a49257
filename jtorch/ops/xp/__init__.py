"""The array dialect that bodies and gradients are written in: a closed list of functions.

Each public function here carries the name of a primitive op and computes it with NumPy. The tracer and
the Tensors offer the same names, so one body serves all three. NumPy itself is no safe dialect (``exp``
of int64 gives float64, float32 times a 0-d float64 too), so arguments arrive cast and promoted, axes are
tuples of non-negative ints, shapes are tuples, and dtypes are NumPy's.
"""

import warnings

# routines for what a composite would compute slower; no part of the dialect
from jtorch.ops.xp import (
    _blocked_sum as _blocked_sum,
    _formulas as _formulas,
    _linear as _linear,
    _lines as _lines,
    _places as _places,
    _pooling as _pooling,
    _products as _products,
    _softmax as _softmax,
    _temporaries as _temporaries,
    _variance as _variance,
)

# each file offers what it defines under a public name, and nothing else is callable here
from jtorch.ops.xp.branching import *  # noqa: F403
from jtorch.ops.xp.complex import *  # noqa: F403
from jtorch.ops.xp.contraction import *  # noqa: F403
from jtorch.ops.xp.creation import *  # noqa: F403
from jtorch.ops.xp.cumulative import *  # noqa: F403
from jtorch.ops.xp.drawing import *  # noqa: F403
from jtorch.ops.xp.elementwise import *  # noqa: F403
from jtorch.ops.xp.factors import *  # noqa: F403
from jtorch.ops.xp.fourier import *  # noqa: F403
from jtorch.ops.xp.gathering import *  # noqa: F403
from jtorch.ops.xp.linear_algebra import *  # noqa: F403
from jtorch.ops.xp.ordering import *  # noqa: F403
from jtorch.ops.xp.polynomials import *  # noqa: F403
from jtorch.ops.xp.reduction import *  # noqa: F403
from jtorch.ops.xp.special import *  # noqa: F403
from jtorch.ops.xp.strided import *  # noqa: F403
from jtorch.ops.xp.view import *  # noqa: F403

# Division by zero and overflow give inf and NaN without a word, as in PyTorch. The filter is limited to
# this package, because NumPy's own switch (seterr) would also change the user's NumPy code.
warnings.filterwarnings("ignore", category=RuntimeWarning, module=r"jtorch\.")
