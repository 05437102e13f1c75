"""What of `torch.fx.experimental` is here: `optimization`."""

from plugrad import absent
from plugrad.fx.experimental import optimization

__all__ = ["optimization"]

__getattr__ = absent.attributes("fx.experimental")
