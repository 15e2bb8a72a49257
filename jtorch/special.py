"""Special functions, under the names of ``torch.special``.

All take and give floating-point tensors (integers become the default float). Those without a gradient in
PyTorch have none here: their results don't require grad.
Source: https://docs.pytorch.org/docs/stable/special.html
"""

from __future__ import annotations

from typing import Any

from jtorch.core.op import BY_NAME
from jtorch.eager.binding import public_function
from jtorch.eager.examples import show as _show
from jtorch.eager.methods import FUNCTIONS
from jtorch.ops.polynomials import DEGREES

_PUBLIC = {
    "digamma": "digamma", "erf": "erf", "erfc": "erfc", "erfinv": "erfinv", "exp2": "exp2",
    "expit": "sigmoid", "expm1": "expm1", "gammainc": "igamma", "gammaincc": "igammac", "gammaln": "lgamma",
    "i0": "i0", "log1p": "log1p", "log_softmax": "log_softmax", "logit": "logit", "logsumexp": "logsumexp",
    "modified_bessel_i0": "i0", "multigammaln": "mvlgamma", "polygamma": "polygamma", "psi": "digamma",
    "round": "round", "sinc": "sinc", "softmax": "softmax", "xlogy": "xlogy",
}  # fmt: skip
_OPS = {
    "airy_ai": "airy_ai", "bessel_j0": "bessel_j0", "bessel_j1": "bessel_j1", "bessel_y0": "bessel_y0",
    "bessel_y1": "bessel_y1", "entr": "entr", "erfcx": "erfcx", "i0e": "i0e", "i1": "i1", "i1e": "i1e",
    "log_ndtr": "log_ndtr", "modified_bessel_i1": "i1", "modified_bessel_k0": "modified_bessel_k0",
    "modified_bessel_k1": "modified_bessel_k1", "ndtr": "ndtr", "ndtri": "ndtri",
    "scaled_modified_bessel_k0": "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1": "scaled_modified_bessel_k1",
    "spherical_bessel_j0": "spherical_bessel_j0", "xlog1py": "xlog1py", "zeta": "zeta",
}  # fmt: skip

_ALL: dict[str, Any] = {name: FUNCTIONS[public] for name, public in _PUBLIC.items()}
_ALL |= {name: public_function(BY_NAME[op]) for name, op in _OPS.items()}
_ALL |= {name: public_function(BY_NAME[name]) for name in DEGREES}
_show(_ALL, "special.")
globals().update(_ALL)
__all__ = [*_ALL]


def __getattr__(name: str) -> Any:  # for type checkers: the names above come from the op table
    raise AttributeError(f"jtorch.special has no {name!r}; it offers {', '.join(sorted(_ALL))}")
