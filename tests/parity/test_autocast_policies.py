"""The policies of autocast on our records: PyTorch's table of both devices, and its dtypes on the CPU."""

from __future__ import annotations

import warnings

import numpy
import pytest

import plugrad
from plugrad import registry
from plugrad.amp import policies
from plugrad.testing.samples import samples_of

torch = pytest.importorskip("torch")

# Of the ops that PyTorch casts, under the names that they have there, those that are other records here.
RENAMED = {"cross_entropy_loss": "cross_entropy", "inverse": "linalg_inv", "orgqr": "linalg_householder_product"}
RENAMED |= {f"fft_{name}": name for name in "fft ifft rfft irfft hfft ihfft fft2 ifft2 fftn ifftn rfftn irfftn".split()}
RENAMED |= {f"fft_{name}2": f"{name}2" for name in ("rfft", "irfft")}
# What PyTorch's table does not have, since there other ops stand below: a policy here says the same of the whole.
OWN = {
    "cpu": {
        "contract", "sparse_product", "pad_copy", "lu", "lu_method", "masked_prod", "max_unpool1d",
        "tensordot", "grid_sample", "adaptive_max_pool3d_with_indices", "fractional_max_pool2d_with_indices",
        "fractional_max_pool3d_with_indices", "lstm_sequence", "rnn_sequence",
    },
    "cuda": {
        "contract", "sparse_product", "cross_entropy", "interpolate", "linalg_cross", "grid_sample",
        "gru_sequence", "lstm_sequence", "rnn_sequence", "grid_sampler_2d", "grid_sampler_3d", "multi_dot",
    },
}  # fmt: skip
# A product of float32 singular vectors in bfloat16, which PyTorch's table does not mean; what checks its dtype first.
OTHERWISE = {"linalg_pinv", "linalg_matrix_exp", "linalg_matrix_norm", "max_pool3d_with_indices"}


def names_cast(key):
    """Return the names of the ops that PyTorch casts under a dispatch key."""
    names = set()
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith("aten::") and torch._C._dispatch_has_kernel_for_dispatch_key(name, key):
            line = torch._C._dispatch_dump(name).split(f"{key}:")[1].split("\n")[0]
            if "fallthrough" not in line:
                names.add(name[6:].partition(".")[0])
    return names


@pytest.mark.parametrize(("device", "key"), [("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")])
def test_the_records_have_pytorchs_table(device, key):
    theirs = {RENAMED.get(name, name) for name in names_cast(key)}
    ours = {op.qualname for op in registry.ops.values() if op.trusted and policies.policy(op, device) is not None}
    assert ours - theirs - OWN[device] == set()
    assert {name for name in theirs - ours if name in registry.ops} == set()


def dtypes(result):
    if isinstance(result, (plugrad.Tensor, torch.Tensor)):
        return [str(result.dtype)]
    return [dtype for item in result for dtype in dtypes(item)] if isinstance(result, (list, tuple)) else []


def converted(value):
    if isinstance(value, plugrad.Tensor):
        half = value.dtype is plugrad.bfloat16
        tensor = torch.from_numpy(numpy.array((value.float() if half else value).numpy()))
        return tensor.bfloat16() if half else tensor
    if isinstance(value, plugrad.dtype):
        return getattr(torch, str(value)[6:])
    return type(value)(map(converted, value)) if type(value) in (list, tuple) else value


def outcome(library, function, args, kwargs):
    """Return the dtypes of the results of a call in autocast, or that it raises."""
    try:
        with library.autocast("cpu"):
            return dtypes(function(*args, **kwargs))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return "raises"


def theirs(op):
    """Return PyTorch's function of the first public name of a record; None if there is none."""
    function = torch
    for part in op.names[0].split(".") if op.names else ("nothing",):
        function = getattr(function, part, None)
    return function


def test_results_on_the_cpu_have_pytorchs_dtypes():
    cast = [op for op in registry.ops.values() if op.trusted and policies.policy(op, "cpu") is not None and theirs(op)]
    assert len(cast) > 90
    plain = [
        registry.op(name) for name in "add mul exp softmax layer_norm batch_norm relu sum mean mv dot outer".split()
    ]
    compared, differ = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for op in [*cast, *plain]:
            for sample in list(samples_of(op, plugrad.float32))[:2]:
                for dtype in (plugrad.float32, plugrad.bfloat16):
                    given = sample.map(lambda t, to=dtype: t.detach().to(to) if t.is_floating_point() else t.detach())
                    options = {name: converted(value) for name, value in given.kwargs.items()}
                    expected = outcome(torch, theirs(op), converted(given.args), options)
                    if expected == "raises":
                        continue
                    compared += 1
                    if outcome(plugrad, op.function, given.args, given.kwargs) != expected:
                        differ.append((op.qualname, str(dtype), expected))
    assert compared > 250
    assert {name for name, *_ in differ} <= OTHERWISE, differ


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layer", ["RNN", "LSTM", "GRU"])
def test_dtypes_of_recurrent_layers_on_the_cpu(layer):
    def seen(T):
        model, x = getattr(T.nn, layer)(2, 3), T.ones(4, 1, 2, requires_grad=True)
        with T.autocast("cpu", dtype=T.bfloat16):
            results = model(x)
        results[0].float().sum().backward()
        return dtypes(results), dtypes([x.grad, model.weight_hh_l0.grad])

    assert seen(plugrad) == seen(torch)
