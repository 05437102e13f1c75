"""What `import functorch` gives to a program under `plugrad run`: the older names of `torch.func`."""

import plugrad
from plugrad.func.older import *  # noqa: F403

plugrad.install_as_torch()
__version__ = plugrad.__version__
