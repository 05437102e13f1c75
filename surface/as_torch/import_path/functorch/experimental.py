"""What of `functorch.experimental` is part of `torch.func` today."""

from plugrad.func import functionalize, hessian, jacfwd, jvp, replace_all_batch_norm_modules_
from plugrad.func.older import chunk_vmap

__all__ = ["chunk_vmap", "functionalize", "hessian", "jacfwd", "jvp", "replace_all_batch_norm_modules_"]
