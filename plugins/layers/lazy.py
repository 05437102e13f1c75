"""Layers that learn the size of their input from the first: linear ones, convolutions and normalizations."""

from __future__ import annotations

import inspect

import plugrad
from plugrad import nn
from plugrad.extend import Module, hookimpl
from plugrad.nn import lazy


class _Lazy(lazy.LazyModuleMixin):
    """What all of them share: `size` is the attribute, and first argument of the constructor, that is learned."""

    size: str

    def reset_parameters(self):
        """Give the parameters new values, once they have a shape."""
        if not self.has_uninitialized_params() and getattr(self, self.size) != 0:
            super().reset_parameters()

    def initialize_parameters(self, input, *args, **kwargs):
        """Learn the size from the input, and give the parameters shapes and values."""
        if self.has_uninitialized_params():
            with plugrad.no_grad():
                setattr(self, self.size, self._size_of(input))
                for name, shape in self._shapes().items():
                    if lazy.is_lazy(getattr(self, name)):
                        getattr(self, name).materialize(shape)
                self.reset_parameters()
        elif getattr(self, self.size) == 0:  # the parameters were loaded
            setattr(self, self.size, self._size_of(input))


def _parameters_of(module, names, where) -> None:
    for name in names:
        setattr(module, name, nn.UninitializedParameter(**where))


# ---------------------------------------------------------------- linear


class LazyLinear(_Lazy, nn.Linear):
    """A Linear that learns `in_features` from its first input.

    Args:
        out_features: size of the output's last dimension.
        bias: whether there is one.

    >>> import plugrad as torch
    >>> layer = torch.nn.LazyLinear(3)
    >>> layer
    LazyLinear(in_features=0, out_features=3, bias=True)
    >>> layer(torch.ones(5, 4)).shape, layer
    (torch.Size([5, 3]), Linear(in_features=4, out_features=3, bias=True))
    """

    size, cls_to_become = "in_features", nn.Linear

    def __init__(self, out_features, bias=True, device=None, dtype=None):
        super().__init__(0, 0, False)
        self.out_features = out_features
        _parameters_of(self, ("weight", "bias") if bias else ("weight",), {"device": device, "dtype": dtype})

    def _size_of(self, input):
        return input.shape[-1]

    def _shapes(self):
        return {"weight": (self.out_features, self.in_features), "bias": (self.out_features,)}


# ---------------------------------------------------------------- convolutions


class _LazyConv(_Lazy):
    size = "in_channels"

    def __init__(self, out_channels, kernel_size, *args, **options):
        arguments = inspect.signature(self.cls_to_become).bind(0, out_channels, kernel_size, *args, **options).arguments
        where = {"device": arguments.get("device"), "dtype": arguments.get("dtype")}
        biased = arguments.get("bias", True)
        super().__init__(**arguments | {"out_channels": 0, "bias": False})
        self.out_channels = out_channels
        _parameters_of(self, ("weight", "bias") if biased else ("weight",), where)

    def _size_of(self, input):
        single = self.n + 1
        if input.dim() not in (single, single + 1):
            raise RuntimeError(
                f"Expected {single}D (unbatched) or {single + 1}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        channels = input.shape[0 if input.dim() == single else 1]
        if channels % self.groups != 0:
            raise ValueError(f"in_channels must be divisible by groups: {channels} channels, groups={self.groups}")
        return channels

    def _shapes(self):
        ends = self.out_channels, self.in_channels // self.groups
        if self.transposed:
            ends = self.in_channels, self.out_channels // self.groups
        return {"weight": (*ends, *self.kernel_size), "bias": (self.out_channels,)}


# ---------------------------------------------------------------- normalization


class _LazyNorm(_Lazy):
    size = "num_features"

    def __init__(self, *args, **options):
        bound = inspect.signature(nn.BatchNorm1d).bind(0, *args, **options)  # its defaults, instance norms too
        bound.apply_defaults()
        asked = dict(bound.arguments)
        off = {"affine": False, "track_running_stats": False, "bias": False}
        super().__init__(**asked | off)
        self.affine, self.track_running_stats = asked["affine"], asked["track_running_stats"]
        where = {"device": asked["device"], "dtype": asked["dtype"]}
        if self.affine:
            _parameters_of(self, ("weight", "bias") if asked["bias"] else ("weight",), where)
        if self.track_running_stats:
            self.running_mean = nn.UninitializedBuffer(**where)
            self.running_var = nn.UninitializedBuffer(**where)
            self.num_batches_tracked = plugrad.tensor(0, dtype=plugrad.long, device=asked["device"])

    def _size_of(self, input):
        return input.shape[1]

    def _shapes(self):
        return dict.fromkeys(("weight", "bias", "running_mean", "running_var"), (self.num_features,))


def _lazy(base, cls):
    """Return the lazy form of a layer: its constructor lacks the first argument."""
    whole = inspect.signature(nn.BatchNorm1d if base is _LazyNorm else cls)
    learnt, *others = whole.parameters.values()
    return type(f"Lazy{cls.__name__}", (base, cls), {
        "cls_to_become": cls,
        "__signature__": whole.replace(parameters=others),
        "__doc__": f"A {cls.__name__} that learns `{learnt.name}` from its first input.\n\n"
        f"The other arguments are those of {cls.__name__}, which it becomes.\n",
        "__module__": __name__,
        "__qualname__": f"Lazy{cls.__name__}",
    })  # fmt: skip


LazyConv1d, LazyConv2d, LazyConv3d = (_lazy(_LazyConv, cls) for cls in (nn.Conv1d, nn.Conv2d, nn.Conv3d))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (
    _lazy(_LazyConv, cls) for cls in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
)
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (
    _lazy(_LazyNorm, cls) for cls in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
)
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (
    _lazy(_LazyNorm, cls) for cls in (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)
)


@hookimpl
def plugrad_layers():
    return [cls for name, cls in globals().items() if name.startswith("Lazy") and issubclass(cls, Module)]
