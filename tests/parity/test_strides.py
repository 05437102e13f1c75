"""The strides of results are PyTorch's: for row-major, transposed and channels-last inputs."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle

import numpy
import pytest

pytest.importorskip("torch")

import torch

import plugrad
from support import twins

OPS = twins.public_ops()


ALL, STRIDED, IMAGES = {"row-major", "transposed", "channels last"}, {"transposed"}, {"channels last"}
# For a reason: the orders of inputs in which strides differ, and the ops.
KNOWN = {
    "matrices are row-major here, and column-major where PyTorch has LAPACK's": (ALL, """
        _lu_with_info cholesky_inverse cholesky_solve inverse linalg_inv linalg_inv_ex
        linalg_ldl_factor linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu_factor linalg_lu_factor_ex
        linalg_lu_solve linalg_qr linalg_solve linalg_solve_ex linalg_solve_triangular linalg_svd linalg_tensorinv lu
        lu_method lu_solve qr triangular_solve"""),
    "as before, and the sample has no transposed form, or that agrees": (ALL - STRIDED, """
        geqrf linalg_householder_product orgqr ormqr"""),
    "the result is row-major here, and transposed in PyTorch, where it is made dimension by dimension": (ALL, """
        ihfft2 ihfftn nonzero nonzero_rows unravel_index"""),
    "the result is row-major here, and has the order of the input in PyTorch": (STRIDED, """
        addr diagonal_scatter fft2 fftn functional_rrelu ifft2 ifftn index_put put"""),
    "the result has the order of the input, as that of other elementwise ops": (STRIDED, """
        angle"""),
    "volumes stay channels last, for which PyTorch has no kernel in double precision": (IMAGES, """
        adaptive_max_pool3d_with_indices avg_pool3d lp_pool3d"""),
}  # fmt: skip
SKIPPED = {"cuda": "there may be no such device", "clamp": "PyTorch takes no mixture of a number and a tensor"}


def row_major(array):
    return numpy.array(array, order="C")


def transposed(array):
    return numpy.array(array.T, order="C").T


def channels_last(array):
    """The array with the second dimension innermost, where it is a batch of images or volumes."""
    if array.ndim not in (4, 5):
        return row_major(array)
    return numpy.moveaxis(numpy.array(numpy.moveaxis(array, 1, -1), order="C"), -1, 1)


ORDERS = {"row-major": row_major, "transposed": transposed, "channels last": channels_last}


def results(library, dotted, sample, order):
    def change(array, requires_grad):
        return library.from_numpy(order(array))

    args, kwargs = twins.convert(library, (sample.args, sample.kwargs), change)
    library.manual_seed(0)
    return twins.tensors_in(library, twins.lookup(library, dotted)(*args, **kwargs))


# Layouts of operands from which the order of a result is found.
OPERANDS = {
    "rows": lambda T, x: x,
    "channels last": lambda T, x: x.to(memory_format=T.channels_last),
    "permuted": lambda T, x: x.permute(3, 1, 0, 2).contiguous().permute(2, 1, 3, 0),
    "columns": lambda T, x: x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
    "every other": lambda T, x: T.cat([x, x], 3).to(memory_format=T.channels_last)[..., ::2],
    "expanded": lambda T, x: x[:, :1].expand(2, 3, 4, 5),
    "images and channels": lambda T, x: x[:, :, :1, :1].permute(1, 0, 2, 3).contiguous().permute(1, 0, 2, 3),
    "one image": lambda T, x: x[:1].to(memory_format=T.channels_last),
    "a row": lambda T, x: x[0, 0, 0].clone(),
    "three dimensions": lambda T, x: x[0].permute(1, 2, 0).contiguous().permute(2, 0, 1),
    "no dimension": lambda T, x: x[0, 0, 0, 0].clone(),
}
MIXED = {
    "operator": lambda T, x, y: x + y,
    "product": lambda T, x, y: T.mul(x, y),
    "quotient": lambda T, x, y: x / y,
    "alpha": lambda T, x, y: T.sub(x, y, alpha=2),
    "exchanged": lambda T, x, y: T.rsub(x, y),
    "maximum": lambda T, x, y: T.maximum(x, y),
    "power": lambda T, x, y: x**y,
    "comparison": lambda T, x, y: x < y,
    "logic": lambda T, x, y: T.logical_and(x, y),
    "several dtypes": lambda T, x, y: x + y.double(),
    "integers": lambda T, x, y: (9 * x).int() % (9 * y).int(),
    "half precision": lambda T, x, y: x.bfloat16() * y.bfloat16(),
    "where": lambda T, x, y: T.where(x > 0.5, y, x),
    "where, a number": lambda T, x, y: T.where(y > 0.5, x, 1.0),
    "masked": lambda T, x, y: x.masked_fill(y > 0.5, 0),
    "lerp": lambda T, x, y: T.lerp(x, y, y),
    "addcmul": lambda T, x, y: T.addcmul(x, y, y),
    "clamp": lambda T, x, y: T.clamp(x, None, y),
    "joined": lambda T, x, y: T.cat([x, y], 1),
    "joined to one channel": lambda T, x, y: T.cat([T.zeros(2, 1, 4, 5), x, y], 1),
    "side by side": lambda T, x, y: T.stack([x[0], y[0]]),
    "loss": lambda T, x, y: T.nn.functional.l1_loss(x, y, reduction="none"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("call", MIXED)
def test_order_of_results_of_operands_in_several_orders(call):
    wrong = []
    for one, other in itertools.product(OPERANDS, repeat=2):
        seen = []
        for library in (torch, plugrad):
            x = library.arange(120.0).reshape(2, 3, 4, 5) / 121 + 0.003
            try:
                y = MIXED[call](library, OPERANDS[one](library, x), OPERANDS[other](library, x.flip(3)))
            except (RuntimeError, IndexError):  # these shapes do not broadcast so, or are none of images
                break
            seen.append((steps(y), y.double().tolist()))
        if len(seen) == 2 and (seen[0][0] != seen[1][0] or not numpy.allclose(seen[0][1], seen[1][1], rtol=1e-2)):
            wrong.append((one, other, seen[0][0], seen[1][0]))
    assert not wrong


def steps(tensor) -> tuple:
    """Return the strides of dimensions in which a step can be taken; row-major ones have the name."""
    if tensor.is_contiguous():
        return ("row-major",)
    return tuple([step for n, step in zip(tensor.shape, tensor.stride(), strict=True) if n > 1])


def differences(name) -> set:
    found = set()
    for sample in twins.samples(name):
        for label, order in ORDERS.items():
            try:
                theirs = results(torch, OPS[name], sample, order)
            except RuntimeError:  # a view that these strides don't allow, or no such op on complex numbers
                continue
            ours = results(plugrad, OPS[name], sample, order)
            if [steps(y) for y in ours] != [steps(y) for y in theirs]:
                found.add(label)
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in OPS if name not in SKIPPED])
def test_strides_of_results(name):
    assert differences(name) == next((orders for orders, names in KNOWN.values() if name in names.split()), set())


# Calls of functions of one tensor, on a batch of images; and methods whose results are no images, or that are listed.
CALLS = {
    "": lambda T, x: (), "1": lambda T, x: (1,), "0": lambda T, x: (0,), "a number": lambda T, x: (0.5,),
    "itself": lambda T, x: (x,), "a mask": lambda T, x: (x > 0.5, 0.0), "copies": lambda T, x: ((1, 1, 1, 2),),
    "places": lambda T, x: (1, T.zeros(2, 3, 2, 4, dtype=T.int64)), "two": lambda T, x: (2, 1),
}  # fmt: skip
OTHER_IMAGES = """
add avg_pool3d diff geqrf kron lp_pool3d lu mvlgamma qr resize_as roll rot90 rrelu sub svd
""".split()


def is_image(library, tensor):
    return tensor.ndim > 3 and tensor.layout is library.strided and tensor.numel()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("where", ["Tensor", "nn.functional"])
def test_results_of_images_that_are_channels_last(where):
    rooms = [functools.reduce(getattr, where.split("."), library) for library in (torch, plugrad)]
    wrong = []
    for name in sorted({*dir(rooms[0])} & {*dir(rooms[1])} - {*OTHER_IMAGES}):
        if name.startswith("_") or name.endswith("_") or name == "new_empty":
            continue
        for label, given in CALLS.items():
            seen = []
            for library, room in zip((torch, plugrad), rooms):
                x = (library.arange(48.0).reshape(2, 3, 2, 4) / 50 + 0.01).to(memory_format=library.channels_last)
                try:
                    found = getattr(room, name)(x, *given(library, x))
                except Exception:
                    break
                found = found if isinstance(found, (tuple, list)) else (found,)
                seen.append([y.stride() for y in found if isinstance(y, library.Tensor) and is_image(library, y)])
            if len(seen) == 2 and seen[0] != seen[1]:
                wrong.append((name, label, *seen))
    assert not wrong


def test_lists_name_ops():
    listed = [name for _, names in KNOWN.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert set(listed) | set(SKIPPED) <= set(OPS)


@pytest.mark.parametrize("order", [(0, 1, 3, 2), (2, 0, 3, 1), (3, 2, 1, 0)])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "all", "prod", "logsumexp", "std", "norm", "median", "max"])
def test_reductions_of_transposed_tensors_can_be_viewed(name, order):
    """Results are row-major, whatever the order of the input; what is computed of them, too."""
    for dim in (0, 2, -1):
        x = torch.arange(120.0).reshape(2, 3, 4, 5).permute(order)
        seen = []
        for library, input in ((torch, x), (plugrad, plugrad.arange(120.0).reshape(2, 3, 4, 5).permute(order))):
            if name == "norm":
                result = input.norm(2, dim)
            else:
                result = getattr(input, name)(dim)
                result = result if isinstance(result, library.Tensor) else result[0]
            seen.append((result.stride(), (result * 2).stride(), result.view(-1).shape, result.tolist()))
        assert seen[1][:3] == seen[0][:3]
        assert numpy.allclose(seen[1][3], seen[0][3])


# ---------------------------------------------------------------------------------------------------- images


def layers(nn):
    return [
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 4, 3, groups=2),
        nn.SiLU(), nn.AvgPool2d(2, 1), nn.ConvTranspose2d(4, 2, 2), nn.Upsample(scale_factor=2), nn.Dropout(0.0),
        nn.InstanceNorm2d(2), nn.AdaptiveAvgPool2d(3), nn.PixelShuffle(1),
    ]  # fmt: skip


@pytest.mark.parametrize("converted", ["neither", "input", "module", "both"])
def test_strides_along_a_network_of_images(converted):
    found = []
    for library in (torch, plugrad):
        x, model = library.ones(2, 3, 12, 10), library.nn.Sequential(*layers(library.nn))
        x = x.to(memory_format=library.channels_last) if converted in ("input", "both") else x
        model = model.to(memory_format=library.channels_last) if converted in ("module", "both") else model
        places = [x.stride(), *[p.stride() for p in model.parameters()]]
        for layer in model:
            x = layer(x)
            places.append((steps(x), x.is_contiguous(), x.is_contiguous(memory_format=library.channels_last)))
        found.append(places)
    assert found[1] == found[0]


class Plain(plugrad.Tensor):
    """A subclass that changes nothing."""


def test_whoever_looks_at_a_result_sees_row_major_memory():
    """Convolutions leave the order of their result open; nobody can tell, and views share the memory that they see."""
    for look in (
        lambda y: y.view(8, -1), lambda y: y[0], lambda y: y.flatten(), lambda y: y.detach(), lambda y: y.data,
        lambda y: y.unbind(1)[0], lambda y: y.transpose(0, 1), lambda y: y.as_strided((2,), (1,)),
    ):  # fmt: skip
        found = []
        for library in (torch, plugrad):
            x, weight = library.arange(96.0).reshape(2, 3, 4, 4), library.ones(4, 3, 2, 2)
            x.requires_grad_()
            y = library.nn.functional.conv2d(x, weight) * 2
            with library.no_grad():
                seen = look(y)
                seen.mul_(2)
                places = seen.stride(), seen.storage_offset(), y.stride(), y.storage_offset(), y.is_contiguous()
            (y * y).sum().backward()
            found.append((places, y.tolist(), seen.tolist(), x.grad.tolist(), x.grad.stride()))
        assert found[1] == found[0]
    y = plugrad.nn.functional.conv2d(plugrad.ones(2, 3, 4, 4), plugrad.ones(4, 3, 2, 2))
    out = plugrad.empty(0)
    plugrad.relu(y, out=out)
    for again in (out, copy.deepcopy(y.clone()), copy.copy(y), pickle.loads(pickle.dumps(y)), y.as_subclass(Plain)):
        assert again.is_contiguous() and again.tolist() == y.tolist()
    y = plugrad.nn.functional.conv2d(plugrad.ones(2, 3, 4, 4), plugrad.ones(4, 3, 2, 2))
    assert copy.deepcopy(y).is_contiguous()
    array = y.numpy()
    array[0, 0, 0, 0] = 5
    assert array.flags.c_contiguous and y[0, 0, 0, 0] == 5


MAKERS = {
    "clone": lambda T, x, f: x.clone(memory_format=f),
    "contiguous": lambda T, x, f: x.contiguous(memory_format=f),
    "to": lambda T, x, f: x.to(memory_format=f),
    "to float64": lambda T, x, f: x.to(T.float64, memory_format=f),
    "half": lambda T, x, f: x.half(memory_format=f),
    "empty_like": lambda T, x, f: T.empty_like(x, memory_format=f),
    "zeros_like": lambda T, x, f: T.zeros_like(x, memory_format=f),
    "full_like": lambda T, x, f: T.full_like(x, 2.5, memory_format=f),
    "rand_like": lambda T, x, f: T.rand_like(x, memory_format=f, requires_grad=True),
    "empty": lambda T, x, f: T.empty(x.shape, memory_format=f),
}
SOURCES = {
    "row-major": lambda T: T.arange(48.0).reshape(2, 3, 4, 2),
    "channels last": lambda T: T.arange(48.0).reshape(2, 4, 2, 3).permute(0, 3, 1, 2),
    "transposed": lambda T: T.arange(48.0).reshape(4, 2, 3, 2).transpose(0, 3),
    "one channel": lambda T: T.arange(16.0).reshape(2, 1, 4, 2),
    "volumes": lambda T: T.arange(96.0).reshape(2, 3, 4, 2, 2),
    "matrix": lambda T: T.arange(6.0).reshape(2, 3).t(),
}


@pytest.mark.parametrize("format", ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("maker", MAKERS)
def test_memory_formats(maker, source, format):
    found = []
    for library in (torch, plugrad):
        x = SOURCES[source](library)
        try:
            y = MAKERS[maker](library, x, getattr(library, format))
        except RuntimeError as error:
            found.append(str(error)[:25])
            continue
        found.append((y.shape, steps(y), y is x, y.tolist() if "e" != maker[0] and "rand" not in maker else None))
    assert found[1] == found[0]


@pytest.mark.parametrize("shape", [(5,), (4, 5)])
def test_what_layer_norm_gives_is_row_major(shape):
    strides = []
    for library in (plugrad, torch):
        x = library.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=library.channels_last)
        result = library.nn.functional.layer_norm(x, shape)
        strides.append((tuple(result.stride()), tuple(result.view(-1).shape)))
    assert strides[0] == strides[1]


@pytest.mark.parametrize("steps", [
    lambda x: x[:, :, :, 1][:, 1:1],
    lambda x: x[::2][1:1],
    lambda x: x[:, 1:1].permute(3, 0, 1, 2),
    lambda x: x.transpose(1, 3)[..., 2:2],
    lambda x: x.narrow(0, 1, 0),
    lambda x: x[:, 1:1] + 1,
    lambda x: x.new_empty(2, 0, 4),
    lambda x: x[2:2, None],
])  # fmt: skip
def test_strides_of_empty_views(steps):
    assert steps(plugrad.zeros(2, 3, 4, 5)).stride() == steps(torch.zeros(2, 3, 4, 5)).stride()
