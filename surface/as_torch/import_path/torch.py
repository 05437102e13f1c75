"""What `import torch` gives to a program under `plugrad run`: plugrad in its place."""

import plugrad

plugrad.install_as_torch()
