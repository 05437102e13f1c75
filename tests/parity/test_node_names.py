"""Nodes are called as PyTorch calls them, the number of the overload included: `SumBackward1` where a dim is given."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad

CALLS = """
x.sum(); x.sum(0); x.sum((0, 1)); x.sum(dtype=T.float32); x.mean(); x.mean(0, True); x.mean(dim=(0, 1)); x.prod()
x.prod(1); x.max(); x.max(0)[0]; x.median(); x.median(0)[0]; x.nanmedian(0)[0]; x.amax(0); x.var(); x.std(0)
x.pow(2); x.pow(x); x ** 2; x ** x; 2 ** x; T.pow(2.0, x); x.pow(T.tensor(2)); x.pow(x.detach())
x.clamp(0, 1); x.clamp(x, x); x.clamp(min=0.5); x.clamp(max=x.detach()); x.clip(0, 1); x.clamp_min(0); x.clamp_min(x)
x.clamp_max(x); x.clamp_max(0); x.fmod(2); x.fmod(x); x.fmod(x.detach()); x.remainder(x); x % 2; x % x; x.div(2)
x.div(x, rounding_mode="floor"); x.lerp(x, 0.5); x.lerp(x, x); x.masked_fill(x > 0, 1.0)
x.masked_fill(x > 0, x.sum()); x.masked_fill(x > 0, T.tensor(2.0)); x.squeeze(); x.squeeze(0); x.squeeze((0, 1))
x.scatter(0, i, 1.0); x.scatter(0, i, x); x.scatter(0, i, value=1.0); x.xlogy(x); x.xlogy(2); T.xlogy(2, x)
T.special.xlog1py(x, x); T.special.xlog1py(x, 2); T.special.xlog1py(2, x); x.copysign(2.0); x.copysign(x)
x.round(); x.round(decimals=1); x.index_fill(0, i[0], 1.0); x.index_fill(0, i[0], T.tensor(1.0))
T.nn.functional.smooth_l1_loss(x, x + 1); T.nn.functional.smooth_l1_loss(x, x.detach(), beta=0.5, reduction="none")
T.nn.functional.huber_loss(x, x + 1); x.t(); x.transpose(0, 1); x.softmax(0); x.index_fill(0, i[0], x.sum())
x.sort()[0]; x.sort(stable=True)[0]; x.sort(0, True)[0]; T.sort(x, dim=0, stable=True)[0]
T.nn.functional.avg_pool2d(v[0], 2); T.nn.functional.avg_pool3d(v, 2); T.nn.functional.max_pool2d(v[0], 2)
T.nn.functional.max_pool3d(v, 2); T.nn.functional.max_pool3d(v, 2, return_indices=True)[0]
T.nn.functional.pad(x, (1, 1), "reflect"); T.nn.functional.pad(v[0], (1, 0, 1, 1), "reflect")
T.nn.functional.pad(v, (1, 1, 0, 0, 1, 1), "replicate"); T.nn.functional.pad(x, (1, 1), "replicate")
T.nn.functional.pad(x, (1, 1), "circular"); T.nn.functional.interpolate(v[0], scale_factor=2)
T.nn.functional.interpolate(v[0, 0], scale_factor=2); T.nn.functional.interpolate(v, scale_factor=2)
T.nn.functional.interpolate(v[0, 0], scale_factor=2, mode="linear")
T.nn.functional.interpolate(v[0], scale_factor=2, mode="bilinear", align_corners=True)
T.nn.functional.interpolate(v, scale_factor=2, mode="trilinear")
T.nn.functional.interpolate(v[0], scale_factor=2, mode="bicubic")
T.nn.functional.interpolate(v[0], scale_factor=2, mode="nearest-exact")
T.nn.functional.interpolate(v[0], scale_factor=0.5, mode="bilinear", antialias=True)
T.nn.functional.nll_loss(x, i[0].repeat(3)); T.nn.functional.nll_loss(v[0], v[0, :, 0].long())
T.nn.functional.cross_entropy(v[0], v[0, :, 0].long()); T.nn.functional.cross_entropy(x, i[0].repeat(3))
T.nn.functional.cross_entropy(v[0, 0], v[0, 0, :, 0].long()); T.nn.functional.l1_loss(x, x + 1)
T.nn.functional.l1_loss(x, x + 1, reduction="sum"); T.nn.functional.l1_loss(x, x.detach(), reduction="none")
y.fmod_(x); y.fmod_(2); y.lerp_(x, x); y.pow_(x); y.clamp_(0, 1); y.masked_fill_(x > 0, x.sum()); y.remainder_(2)
""".replace("\n", ";").split(";")


@pytest.mark.parametrize("call", [call.strip() for call in CALLS if call.strip()])
@pytest.mark.parametrize("dtype", ["float64", "float16"])  # by the source that serves plain calls, and by the other way
def test_name_of_the_node(call, dtype):
    names = []
    for T in (torch, plugrad):
        x = (T.arange(12.0, dtype=getattr(T, dtype)).reshape(3, 4) / 5 + 1.1).requires_grad_()
        volumes = T.zeros(1, 2, 4, 4, 4, dtype=x.dtype, requires_grad=True)
        given = {"T": T, "x": x, "y": x * 1, "i": T.zeros(1, 1).long(), "v": volumes}
        try:
            names.append(type(eval(call, given).grad_fn).__name__)
        except NotImplementedError:
            assert T is torch and dtype == "float16"  # which it does not pool or resize in every form
            return
    assert names[1] == names[0]
