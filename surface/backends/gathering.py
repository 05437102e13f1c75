"""Arguments that an op takes from another device than its first one's, as PyTorch does.

`op.gathers` names them: {"index": "cpu"} may be on the CPU, {"value": "number"} is there a tensor of no dimensions,
{"src": "any"} on any device. They are moved by `to`, which has a gradient.
"""

from plugrad import Tensor

TAKES = {
    "any": lambda tensor: True,
    "cpu": lambda tensor: tensor.device.type == "cpu",
    "number": lambda tensor: tensor.device.type == "cpu" and tensor.ndim == 0,
}


def gathered(op, values) -> tuple | None:
    """Return a call's arguments with those that were elsewhere moved, or None.

    They are moved to the device of the first argument, as far as `op.gathers` lets them be elsewhere.
    """
    home = values[0].device
    positions = {op.index[name]: TAKES[which] for name, which in op.gathers.items()}
    result = tuple([moved(value, home, positions[i]) if i in positions else value for i, value in enumerate(values)])
    changed = any([one is not other for one, other in zip(tensors_in(result), tensors_in(values), strict=True)])
    return result if changed else None


def tensors_in(values) -> list:
    """Return the tensors among arguments, and in their sequences."""
    if isinstance(values, (tuple, list)):
        return [tensor for value in values for tensor in tensors_in(value)]
    return [values] if isinstance(values, Tensor) else []


def moved(value, home, takes):
    """Return a tensor, or a sequence with tensors in it, on a device."""
    if isinstance(value, Tensor):
        return value.to(home) if value.device != home and takes(value) else value
    if type(value) in (tuple, list):
        return type(value)([moved(item, home, takes) for item in value])
    return value
