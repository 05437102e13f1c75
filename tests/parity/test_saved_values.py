"""Writes in place between forward and backward are refused where PyTorch refuses them, and harmless elsewhere.

Every op that both libraries have runs on its samples in float64, on non-leaf inputs. Then one of the tensors that went
in or came out is written, by an op whose gradient is 1. Backward must raise in both libraries or in neither, and what
it gives without raising must be the gradient without the write.
"""

from __future__ import annotations

import numpy
import pytest

pytest.importorskip("torch")

import torch

import plugrad
from support import twins

OPS = twins.public_ops()

# ---------------------------------------------------------------------------------------------------- what differs

# What PyTorch refuses, but is harmless here, since backward needs less; as (op, what is written, its number).
HARMLESS = {
    "of what PyTorch keeps, backward needs only the shape": """
        adaptive_avg_pool1d input 0, adaptive_avg_pool2d input 0, adaptive_avg_pool3d input 0, avg_pool1d input 0,
        avg_pool2d input 0, avg_pool3d input 0, complex input 0, complex input 1, conv_tbc input 2, cummax input 0,
        cummin input 0, fractional_max_pool2d input 0, fractional_max_pool2d_with_indices input 0,
        fractional_max_pool3d input 0, fractional_max_pool3d_with_indices input 0, gather input 0, index_add input 2,
        index_copy input 2, layer_norm input 2, masked_select input 0, native_layer_norm input 2, nll_loss input 0,
        pad input 0, put input 2, take input 0, take_along_dim input 0""",
    "PyTorch keeps the input of a transform only to know that it was real": """
        fft input 0, ifft input 0, ihfft input 0, ihfft2 input 0, ihfftn input 0, rfft input 0, rfft2 input 0,
        rfftn input 0, stft input 0""",
    "the gradient is computed from the input, not from the result": """
        det result 0, linalg_det result 0, linalg_eigvals result 0, linalg_householder_product result 0,
        linalg_lstsq result 0, orgqr result 0,
        linalg_svdvals result 0, log_ndtr result 0, polar result 0, native_batch_norm result 1,
        native_batch_norm result 2, native_layer_norm result 2""",
    "the factors are computed again from the compact ones, which the caller never gets": """
        linalg_lu result 0, linalg_lu result 1, linalg_lu result 2""",
    "it is made of other ops, which keep what they made of the input": """
        addbmm input 1, angle input 0, cdist input 0, cdist input 1, cholesky_solve input 0, combinations input 0,
        dist input 0, dist input 1, embedding_bag input 1, embedding_bag input 2, grid_sample input 0,
        grid_sample input 1, grid_sampler_3d input 0, grid_sampler_3d input 1,
        linalg_householder_product input 0, linalg_lu_solve input 1, linalg_vander input 0, lu_solve input 2,
        multi_margin_loss input 0, multi_margin_loss input 2, multilabel_margin_loss input 0,
        multilabel_margin_loss input 1, mvlgamma input 0, orgqr input 0, ormqr input 0, ormqr result 0, pdist input 0,
        renorm input 0, triangular_solve input 0""",
}
# What is refused here alone.
REFUSED = {
    "backward computes from the logits again what PyTorch keeps, which saves memory": """
        cross_entropy input 0""",
    "singular and eigenvectors are computed in backward, not already in forward": """
        linalg_cond input 0, linalg_eigvals input 0, linalg_matrix_norm input 0, linalg_svdvals input 0""",
    "PyTorch multiplies a copy, which it makes to lay out the operands": """
        instance_norm input 1, norm_except_dim input 0, kron input 0, kron input 1, matmul input 0, matmul input 1,
        tensordot input 0, tensordot input 1""",
    "PyTorch keeps the scaled input": "scaled_dot_product_attention input 1, ndtr input 0",
    "PyTorch keeps the result, from which the gradient of a negative modulus can't be told": """
        polar input 0, polar input 1""",
    "the powers are a running product, which PyTorch copies": "linalg_vander result 0",
    "a conjugate is a copy, from which nothing would reach the tensor": "adjoint result 0, conj result 0",
}
# Calls in which PyTorch says nothing, with reasons.
SKIPPED = {
    "grouped_mm": "PyTorch takes no float64",
    "cuda": "there may be no such device",
    "clamp": "PyTorch takes no mixture of a number and a tensor",
    "view_as_complex_copy": "PyTorch refuses complex results that require grad",
    "sliding_windows": "windows that overlap are written several times, which has no defined result",
}


def listed(table) -> set:
    return {tuple(entry.split()) for entries in table.values() for entry in entries.split(",")}


# What is harmless in half precision alone, since what is kept was computed in float32.
HALF_ALONE = {
    "PyTorch takes these, too": """
        float_power input 0, float_power input 1, rms_norm input 0, scaled_dot_product_attention input 1,
        scaled_dot_product_attention input 2""",
    "PyTorch has no half precision there": "cdist input 0, cdist input 1",
    "it is made of other ops, which get a copy in float32": """
        grid_sample input 0, grid_sample input 1, grid_sampler input 0, grid_sampler input 1, grid_sampler_2d input 0,
        grid_sampler_2d input 1""",
    "statistics are computed in float32, and those that are returned are another tensor": """
        native_group_norm result 1, native_group_norm result 2, native_layer_norm result 1""",
}
KNOWN = {"harmless": listed(HARMLESS), "refused": listed(REFUSED)}

# ---------------------------------------------------------------------------------------------------- trials


class Call:
    """One call of an op in one library: inputs that are not leaves, results, and gradients after a write."""

    def __init__(self, library, dotted, sample, dtype=None):
        self.library, self.leaves, self.inputs, self.dtype = library, [], [], dtype
        args, kwargs = twins.convert(library, (sample.args, sample.kwargs), self._input)
        library.manual_seed(0)
        self.results = twins.tensors_in(library, twins.lookup(library, dotted)(*args, **kwargs))

    def _input(self, array, requires_grad):
        tensor = self.library.from_numpy(array)
        if self.dtype is not None and array.dtype.kind == "f":
            tensor = tensor.to(getattr(self.library, self.dtype))
        if requires_grad:
            self.leaves.append(tensor.requires_grad_())
            tensor = tensor.clone()
        self.inputs.append(tensor)
        return tensor

    def gradients(self) -> list | None:
        """Return the gradients of the results' sum; None where nothing is recorded."""
        outputs = [y for y in self.results if y.requires_grad]
        if not outputs:
            return None
        pulls = [self.library.ones_like(y) for y in outputs]
        found = self.library.autograd.grad(outputs, self.leaves, pulls, allow_unused=True)
        return [numpy.zeros(1) if g is None else twins.values_of(g) for g in found]


def write(tensor) -> None:
    if tensor.is_floating_point() or tensor.is_complex():
        tensor.add_(1)
    else:
        tensor.copy_(tensor.clone())


def attempt(gradients) -> list | None:
    """Return gradients; None where there are none, or the library has no formula for them."""
    try:
        return gradients()
    except RuntimeError:
        return None


def after_write(library, dotted, sample, place, number, dtype=None):
    """Return the gradients after one tensor was written, or the step that refused it."""
    call = Call(library, dotted, sample, dtype)
    try:
        write(getattr(call, place)[number])
    except RuntimeError:
        return "the write"
    try:
        return call.gradients()
    except RuntimeError as error:
        refusals = "modified by an inplace operation", "has been modified inplace", "being modified inplace"
        assert any(refusal in str(error) for refusal in refusals), error
        return "backward"


def equal(one, other) -> bool:
    return numpy.array_equal(one, other, equal_nan=True)


def differences(name) -> tuple[set, list]:
    """Return how an op differs from PyTorch, as entries of the lists above, and which gradients are wrong."""
    found, wrong = {"harmless": set(), "refused": set()}, []
    dotted = OPS[name]
    for sample in twins.samples(name):
        call = Call(plugrad, dotted, sample)
        right = attempt(call.gradients)
        if right is None or attempt(Call(torch, dotted, sample).gradients) is None:
            continue
        for place in ("inputs", "results"):
            for number in range(len(getattr(call, place))):
                ours = after_write(plugrad, dotted, sample, place, number)
                theirs = after_write(torch, dotted, sample, place, number)
                entry = (name, place[:-1], str(number))
                if isinstance(ours, list) and not all(map(equal, ours, right)):
                    wrong.append(entry)
                if isinstance(ours, list) != isinstance(theirs, list):
                    found["harmless" if isinstance(ours, list) else "refused"].add(entry)
                elif isinstance(ours, str) and ours != theirs:
                    wrong.append((*entry, f"refused by {ours}, in PyTorch by {theirs}"))
    return found, wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in OPS if name not in SKIPPED])
def test_writes_are_refused_as_in_pytorch(name):
    found, wrong = differences(name)
    assert not wrong
    for kind, known in KNOWN.items():
        assert found[kind] == {entry for entry in known if entry[0] == name}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", [name for name in OPS if name not in SKIPPED])
def test_writes_are_refused_in_half_precision_as_in_double(name, dtype):
    """So that the comparison with PyTorch above holds there, too: it does not have all ops in half precision."""
    dotted, differ = OPS[name], set()
    for sample in twins.samples(name)[:4]:
        try:
            call, half = Call(plugrad, dotted, sample), Call(plugrad, dotted, sample, dtype)
            if call.gradients() is None or half.gradients() is None:
                continue
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            continue  # it takes no such elements
        for place in ("inputs", "results"):
            for number in range(len(getattr(call, place))):
                written = [after_write(plugrad, dotted, sample, place, number, one) for one in (None, dtype)]
                if isinstance(written[0], list) is not isinstance(written[1], list):
                    assert isinstance(written[1], list), f"refused in {dtype} alone"
                    differ.add((name, place[:-1], str(number)))
    expected = {entry for entry in listed(HALF_ALONE) if entry[0] == name}
    assert differ == expected or dtype == "bfloat16" and differ <= expected


@pytest.mark.parametrize("kinds", [("float32", "float64"), ("float32", "int64"), ("float16", "float32")])
@pytest.mark.parametrize("written", [0, 1])
@pytest.mark.parametrize("name", ["mul", "div", "atan2", "pow", "xlogy", "lerp"])
def test_writes_to_operands_of_other_dtypes_are_refused_as_in_pytorch(name, written, kinds):
    found = []
    for T in (torch, plugrad):
        operands = [T.tensor([2.0, 3.0]).to(getattr(T, kind)) for kind in kinds]
        operands = [(x.requires_grad_() if x.is_floating_point() else x) * 1 for x in operands]
        try:
            y = getattr(T, name)(*operands, *[0.5] * (name == "lerp"))
            operands[written].add_(1)
            y.sum().backward()
            found.append("taken")
        except RuntimeError:
            found.append("refused")
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("write", ["mul_", "div_", "sin_", "exp_", "addcmul_", "lerp_"])
def test_what_is_written_by_the_op_itself_keeps_its_old_value_in_half_precision(write, dtype):
    found = []
    for T in (torch, plugrad):
        leaf = T.tensor([1.0, 2.0], dtype=getattr(T, dtype), requires_grad=True)
        other = T.tensor([3.0, 4.0], dtype=leaf.dtype)
        x = leaf * 1
        more = {"mul_": [other], "div_": [other], "addcmul_": [other, other], "lerp_": [other, 0.5]}.get(write, [])
        getattr(x, write)(*more)
        x.sum().backward()
        found.append(leaf.grad.tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-2)


NORMS = {
    "BatchNorm2d": lambda nn: nn.BatchNorm2d(4), "GroupNorm": lambda nn: nn.GroupNorm(2, 4),
    "InstanceNorm2d": lambda nn: nn.InstanceNorm2d(4, affine=True), "LayerNorm": lambda nn: nn.LayerNorm(5),
    "RMSNorm": lambda nn: nn.RMSNorm(5),
}  # fmt: skip
ACTIVATIONS = {
    "ReLU": lambda nn: nn.ReLU(True), "LeakyReLU": lambda nn: nn.LeakyReLU(0.1, True),
    "ELU": lambda nn: nn.ELU(1, True), "Hardswish": lambda nn: nn.Hardswish(True), "SiLU": lambda nn: nn.SiLU(True),
    "ReLU6": lambda nn: nn.ReLU6(True), "Hardtanh": lambda nn: nn.Hardtanh(inplace=True),
    "Dropout": lambda nn: nn.Dropout(0.0, True),
    "Mish": lambda nn: nn.Mish(True), "Hardsigmoid": lambda nn: nn.Hardsigmoid(True), "SELU": lambda nn: nn.SELU(True),
}  # fmt: skip


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_activations_overwrite_what_a_norm_layer_gave(norm, activation):
    found = []
    for library in (torch, plugrad):
        model = library.nn.Sequential(NORMS[norm](library.nn), ACTIVATIONS[activation](library.nn))
        x = library.linspace(-2, 3, 120, dtype=library.float64).reshape(2, 4, 3, 5).requires_grad_()
        y = model.double()(x)
        (y * y).sum().backward()
        found.append([twins.values_of(t) for t in (y, x.grad, *[p.grad for p in model.parameters()])])
    for ours, theirs in zip(found[1], found[0], strict=True):
        numpy.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("layer", ["AlphaDropout", "FeatureAlphaDropout", "Dropout"])
def test_layers_of_dropout_write_their_input_where_pytorch_does(layer):
    found = []
    for library in (torch, plugrad):
        x = library.ones(1, 3, 4, requires_grad=True)
        y = x.tanh()
        library.manual_seed(0)
        z = getattr(library.nn, layer)(0.5, inplace=True)(y)
        try:
            z.sum().backward()
            found.append((z is y, y._version, x.grad is None))
        except RuntimeError:
            found.append("refused")
    assert found[0] == found[1]


def test_lists_name_ops():
    assert {entry[0] for entries in KNOWN.values() for entry in entries} | set(SKIPPED) <= set(OPS)


# ---------------------------------------------------------------------------------------------------- histories


def written(T, view):
    """Return the kept gradients of a tensor, and of a view of it, after one of them was written."""
    leaf = T.ones(3, requires_grad=True)
    base = leaf * 2
    part = base[:2]
    base.retain_grad()
    part.retain_grad()
    (part if view else base).mul_(4)
    (base * base).sum().backward()
    return base.grad.tolist(), part.grad if part.grad is None else part.grad.tolist(), leaf.grad.tolist()


def retained_twice(T, view):
    leaf = T.ones(3, requires_grad=True)
    x = leaf * 2
    x.retain_grad()
    (x[:1] if view else x).add_(1)
    y = x * 2
    x.retain_grad()
    y.sum().backward()
    return x.grad.tolist(), leaf.grad.tolist()


def hooks_in_order(T, view):
    seen, leaf = [], T.ones(2, requires_grad=True)
    leaf.register_hook(lambda g: seen.append("tensor"))
    leaf.register_post_accumulate_grad_hook(lambda t: seen.append("accumulated"))
    node = (leaf * 1).grad_fn.next_functions[0][0]
    node.register_prehook(lambda grads: seen.append("before"))
    node.register_hook(lambda inputs, outputs: seen.append("after"))
    (leaf[:1] if view else leaf).sum().backward()
    return seen


@pytest.mark.parametrize("view", [False, True])
@pytest.mark.parametrize("program", [written, retained_twice, hooks_in_order], ids=lambda f: f.__name__)
def test_gradients_kept_and_hooks_run_as_in_pytorch(program, view):
    assert program(plugrad, view) == program(torch, view)


@pytest.mark.parametrize("write", ["mul_", "addcmul_", "addcdiv_", "div_", "atan2_"])
def test_a_tensor_that_is_written_by_itself_is_refused_in_backward(write):
    for library in (torch, plugrad):
        x = library.tensor([2.0, 3.0], requires_grad=True)
        y = x.clone()
        getattr(y, write)(*[y] * (2 if write.startswith("addc") else 1))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
    x = plugrad.tensor([2.0, 3.0], requires_grad=True)
    y = x.clone()
    y.mul_(x).sum().backward()  # what was written is kept as it was
    assert x.grad.tolist() == [4.0, 6.0]
