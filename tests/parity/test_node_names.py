"""Nodes are called as PyTorch calls them, the number of the overload included: `SumBackward1` where a dim is given."""

from __future__ import annotations

import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from plugrad import registry
from support import twins

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


# ---------------------------------------------------------------------------------------------------- all ops

# What is not called as in PyTorch, with the reason.
DIFFERENT = {
    "it is made of other ops here, of which the last one is named": """
        adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
        adaptive_max_pool1d_with_indices adaptive_max_pool2d adaptive_max_pool2d_with_indices adaptive_max_pool3d
        adaptive_max_pool3d_with_indices addbmm addmv addmv_ addr addr_ affine_grid affine_grid_generator alias_copy
        as_strided_copy as_strided_scatter avg_pool1d baddbmm baddbmm_ bilinear block_diag cdist chain_matmul
        channel_shuffle cholesky_inverse cholesky_solve combinations conv_tbc cross_entropy cumulative_trapezoid
        diag diagonal_copy diagonal_scatter dist einsum embedding_bag expand_copy fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices functional_celu
        functional_rrelu grid_sample grid_sampler_3d ifft ihfft ihfft2 ihfftn index_reduce index_reduce_ inner kron
        linalg_cond linalg_householder_product linalg_lstsq linalg_lu linalg_lu_solve linalg_matrix_power
        linalg_solve linalg_solve_ex linalg_solve_triangular linalg_tensorinv linalg_vander lu_solve lu_unpack
        max_pool1d max_pool1d_with_indices max_unpool1d max_unpool2d max_unpool3d multi_dot
        multi_head_attention_forward multi_margin_loss multilabel_margin_loss mvlgamma mvlgamma_ nanquantile
        narrow_copy native_group_norm norm_except_dim orgqr ormqr pairwise_distance pdist permute_copy polar
        quantile renorm renorm_ rot90 scaled_dot_product_attention select_copy select_scatter slice_scatter
        split_copy split_with_sizes_copy squeeze_copy std_mean stft t_copy tensordot trace transpose_copy trapezoid
        triangular_solve unbind_copy unfold_blocks unfold_copy unsqueeze_copy vander var_mean view_as_real_copy
        view_copy weight_norm""",
    "PyTorch numbers what writes in place apart": """
        acosh_ asinh_ atanh_ eq_ fill_ ge_ gt_ le_ lt_ ne_""",
    "PyTorch has no derivative there, and its node no name": "binomial heaviside heaviside_ detach_copy",
    "it is one op here, and several in PyTorch": "imag linear matmul ndtr real",
}
OPS = twins.public_ops()


def names_of(T, dotted, sample, form):
    """Return the names of the nodes of a call's results, or of those of its in-place form."""

    def change(array, requires_grad):
        tensor = T.from_numpy(array)
        return tensor.requires_grad_() * 1 if requires_grad else tensor

    args, kwargs = twins.convert(T, (list(sample.args), dict(sample.kwargs)), change)
    T.manual_seed(0)
    function = getattr(args[0], form) if form else None
    result = function(*args[1:], **kwargs) if form else twins.lookup(T, dotted)(*args, **kwargs)
    names = [one.grad_fn and one.grad_fn.name() for one in twins.tensors_in(T, result)]
    return [name and name.rpartition("::")[2] for name in names]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPS)
def test_nodes_of_all_ops_are_called_as_in_pytorch(name):
    op, found = registry.ops[name], set()
    for form in (None, f"{op.name}_") if op.inplace is True else (None,):
        for sample in twins.samples(name)[:6]:
            try:
                theirs = names_of(torch, OPS[name], sample, form)
            except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError, AssertionError):
                continue  # PyTorch does not take the sample, or has no such form
            if names_of(plugrad, OPS[name], sample, form) != theirs:
                found.add(form or name)
    known = {entry for entries in DIFFERENT.values() for entry in entries.split()}
    assert found == known & {name, f"{op.name}_"}


def test_list_of_nodes_names_ops():
    known = {entry for entries in DIFFERENT.values() for entry in entries.split()}
    assert known <= {*OPS, *(f"{registry.ops[name].name}_" for name in OPS)}
