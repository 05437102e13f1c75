"""What is done with many arrays at once, such as all gradients of a model, by a launch or two on CUDA."""

from __future__ import annotations

import functools
import pathlib

from plugrad.extend import load_inline

_load = functools.partial(load_inline, cuda=pathlib.Path(__file__).with_name("lists.cu"), per="list", sizes=False)
_squares = _load(name="squares", arrays=2)
_root_of_sum = load_inline(cuda=pathlib.Path(__file__).with_name("lists.cu"), name="root_of_sum", arrays=2, per="row")
_clip = _load(name="clip", arrays=2, numbers=1)
_unscale = _load(name="unscale", arrays=3, types=("float32",))
EACH = 1024  # elements for a block, as in the header


class Many:
    """Functions of lists of arrays; False for arrays that the kernels do not serve, which are left as they are."""

    def __init__(self, cupy):
        self.cupy = cupy

    def _alike(self, arrays, types="fd"):
        dtype, device = arrays[0].dtype, self.cupy.cuda.runtime.getDevice()
        alike = [a.dtype == dtype and a.flags.c_contiguous and a.data.device_id == device for a in arrays]
        return dtype.char in types and all(alike)

    def norm(self, arrays):
        """Return the root of the sum of all squares, as an array without dimensions."""
        blocks = sum([-(-a.size // EACH) for a in arrays])
        if not blocks or not self._alike(arrays):
            return False
        sums, result = (self.cupy.empty(shape, arrays[0].dtype) for shape in (blocks, ()))
        _squares(arrays, [sums] * len(arrays))
        _root_of_sum(sums, result)
        return result

    def clip(self, arrays, norm, most) -> bool:
        """Scale arrays whose norm is `norm`, an array, down to `most`, in place."""
        served = self._alike([*arrays, norm])
        if served:
            _clip(arrays, [norm] * len(arrays), most)
        return served

    def unscale(self, arrays, factor, infinite) -> bool:
        """Multiply arrays in place; set the array `infinite` to 1 if there was one that is infinite or NaN in them."""
        served = self._alike([*arrays, factor, infinite], "f")
        if served:
            _unscale(arrays, [factor] * len(arrays), [infinite] * len(arrays))
        return served
