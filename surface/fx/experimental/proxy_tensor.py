"""`torch.fx.experimental.proxy_tensor`: no mode here traces with tensors that stand for others."""

from plugrad import absent

__all__ = ["get_proxy_mode"]

__getattr__ = absent.attributes("fx.experimental.proxy_tensor")


def get_proxy_mode() -> None:
    """Return None: programs are captured with the tensors that they compute with."""
