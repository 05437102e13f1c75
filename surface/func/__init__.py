"""`plugrad.func`: functions of functions (grad, vjp, jvp, jacrev, hessian, vmap) and modules with other parameters.

All of them run the function on tensors that are recorded, so they nest, and what a function closes over takes part.
Arguments and results may be nested lists, tuples and dicts of tensors.
"""

from plugrad.func.batching import vmap
from plugrad.func.forward import jvp, linearize
from plugrad.func.further import debug_unwrap, functionalize, rearrange, replace_all_batch_norm_modules_
from plugrad.func.jacobians import hessian, jacfwd, jacrev
from plugrad.func.reverse import grad, grad_and_value, value_and_grad, vjp
from plugrad.nn.utils import _calls

__all__ = [
    "debug_unwrap", "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
    "linearize", "rearrange", "replace_all_batch_norm_modules_", "stack_module_state", "value_and_grad", "vjp", "vmap",
]  # fmt: skip

functional_call, stack_module_state = _calls.functional_call, _calls.stack_module_state
