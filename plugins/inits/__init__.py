"""Functions that fill a tensor: `plugrad.nn.init`."""
