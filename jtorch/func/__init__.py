"""``jtorch.func``: functions that make derivatives of functions.

Source: https://docs.pytorch.org/docs/stable/func.html
"""

from jtorch.func.derivatives import grad, grad_and_value, jvp, linearize, vjp
from jtorch.func.ensembles import stack_module_state
from jtorch.func.jacobians import hessian, jacfwd, jacrev
from jtorch.func.mapping import vmap
from jtorch.func.mutations import functionalize
from jtorch.nn.utils.stateless import functional_call

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
