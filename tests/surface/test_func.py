"""`plugrad.func`: what is not compared with PyTorch in tests/parity/torch_programs/transforms.py."""

import itertools
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.func import batching, grad, jacfwd, jacrev, jvp, linearize, vmap
from plugrad.testing import assert_close, samples_of
from plugrad.testing.tensors import tensors_in

FAMILIES = ("unary", "binary", "elementwise", "reduction")


# ---------------------------------------------------------------------------------------------------- forward mode


POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 1e-300, 1e300, -1e300, 3.0, -50.0, 800.0, numpy.inf, -numpy.inf]


UNARY = sorted(
    name
    for name, op in registry.ops.items()
    if op.family == "unary" and op.differentiable and samples_of(op)
    if samples_of(op)[0].args[0].dtype.is_floating_point
)


@pytest.mark.parametrize("name", UNARY)
def test_tangents_of_unary_ops_are_their_gradients(name):
    """At any point where the gradient is a number, so is the tangent, and the same one."""
    op = registry.op(name)
    sample = samples_of(op)[0]

    def function(a):
        return op.function(a, *sample.args[1:], **sample.kwargs)

    x = torch.tensor(POINTS, dtype=torch.float64)
    leaf = x.clone().requires_grad_()
    y = function(leaf)
    (expected,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
    tangent = jvp(function, (x,), (torch.ones_like(x),))[1]
    known = ~torch.isnan(expected)
    assert_close(tangent[known], expected[known], rtol=1e-12, atol=0)


def test_a_pullback_formula_that_looks_for_zeros_does_not_mislead_the_tangent():
    """xlogy's own gradient is an xlogy, which masks zeros."""
    x = torch.tensor([1.0, 2.0])
    tangent = jvp(lambda a: torch.xlogy(a, torch.tensor(3.0)), (x,), (torch.ones(2),))[1]
    assert_close(tangent, torch.full((2,), float(numpy.log(3))))


def test_linearize_inside_of_a_gradient():
    pushed = grad(lambda a: linearize(lambda b: b**3, a)[1](torch.ones(2)).sum())(torch.tensor([1.0, 2.0]))
    assert pushed.tolist() == [6.0, 12.0]


def test_a_function_runs_once_for_all_columns():
    calls = []
    x = torch.tensor([1.0, 2.0, 3.0])
    jacobian = jacfwd(lambda a: (calls.append(1), a[:2] * a.sum())[1])(x)
    assert len(calls) == 1
    assert_close(jacobian, jacrev(lambda a: a[:2] * a.sum())(x))


# ---------------------------------------------------------------------------------------------------- vmap


def batches(sample):
    """Yield (in_dims, arguments): all tensors batched, then the first alone; the batch stands last."""
    for alone in (False, True):
        dims, arguments = [], []
        for value in sample.args:
            if isinstance(value, torch.Tensor) and not (alone and any(dim is not None for dim in dims)):
                value = value.detach()
                arguments.append(torch.stack([value, value.flip(0) if value.ndim else value + 1, value], -1))
                dims.append(-1)
            else:
                arguments.append(value.detach() if isinstance(value, torch.Tensor) else value)
                dims.append(None)
        yield tuple(dims), arguments


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_an_op_on_the_whole_batch_is_the_loop(dtype, monkeypatch):
    at_once, whole = batching._at_once, []
    monkeypatch.setattr(batching, "_at_once", lambda *a: whole.append(at_once(*a)) or whole[-1])
    compared = 0
    for name, op in registry.ops.items():
        if op.family not in FAMILIES or not op.provider.builtin:
            continue
        for sample in samples_of(op, dtype) if op.domain is None else ():
            tensors = [value for value in sample.args if isinstance(value, torch.Tensor)]
            if sample.through or not tensors or len(tensors_in((sample.args, sample.kwargs))) != len(tensors):
                continue
            for dims, arguments in batches(sample):

                def looped(*values, op=op, sample=sample):
                    return op.function(*values, **sample.kwargs)

                try:
                    expected = tensors_in(vmap(looped, dims)(*arguments))
                except (RuntimeError, TypeError):  # refused with this dtype, or with these values
                    continue
                whole.clear()
                results = tensors_in(vmap(op.function, dims)(*arguments, **sample.kwargs))
                compared += whole[-1] is not None
                for result, right in zip(results, expected, strict=True):
                    rtol = 1e-12 if right.dtype != torch.float32 else 1e-6
                    assert_close(result, right, rtol=rtol, atol=1e-15, equal_nan=True, msg=name)
    assert compared > 500


def test_a_loop_says_once_that_it_is_one(monkeypatch):
    monkeypatch.setattr(batching, "_warned", False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda a: a.sin())(torch.ones(batching.MANY - 1, 2))
        vmap(torch.sin)(torch.ones(1000, 2))
    with pytest.warns(UserWarning, match="once for each of 64 slices"):
        vmap(lambda a: a.sin())(torch.ones(batching.MANY, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda a: a.sin())(torch.ones(batching.MANY, 2))


BRANCHING = {
    "if": lambda a: a if a.sum() > 2 else -a,
    "item": lambda a: a * a[0].item(),
    "tolist": lambda a: a + sum(a.tolist()),
    "numpy": lambda a: a * torch.from_numpy(a.numpy().copy()),
    "int": lambda a: a ** int(a[1]),
    "equal": lambda a: a if torch.equal(a, a.sort().values) else a.flip(0),
    "mask": lambda a: a[a > a.mean()],
    "while": lambda a: a * len(range(int(a.max()))),
}


@pytest.mark.parametrize("name", BRANCHING)
def test_slices_may_branch_on_values(name):
    function, rows = BRANCHING[name], torch.tensor([[1.0, -2.0], [0.5, 3.0], [4.0, 2.0]])
    for batch in (rows, rows.flip(0), rows[:1]):
        assert vmap(function)(batch).tolist() == [function(row).tolist() for row in batch]
    for dim in (0, 1):
        nested = vmap(vmap(function, in_dims=0), in_dims=dim)(torch.stack([rows, 2 * rows], dim))
        assert nested.tolist() == [[function(row).tolist() for row in part] for part in (rows, 2 * rows)]


def test_gradients_flow_through_both_paths():
    for function in (torch.sin, lambda a: torch.sin(a)):
        x = torch.ones(2, 3, requires_grad=True)
        vmap(function, in_dims=1, out_dims=1)(x).sum().backward()
        assert_close(x.grad, torch.ones(2, 3).cos())


# ---------------------------------------------------------------------------------------------------- shapes alone


def test_indexing_with_integer_tensors_on_the_meta_device():
    """The shape is that of real indexing for all combinations of three items."""
    x = torch.arange(120).reshape(2, 3, 4, 5)
    tensors = torch.tensor([[0, 1], [1, 0]]), torch.tensor([1, 0])
    items = [slice(None), slice(1, None, 2), 0, -1, None, Ellipsis, *tensors]
    for index in itertools.product(items, repeat=3):
        if sum(item is Ellipsis for item in index) > 1:
            continue
        moved = tuple(item.to("meta") if isinstance(item, torch.Tensor) else item for item in index)
        assert x.to("meta")[moved].shape == x[index].shape, index
    with pytest.raises(NotImplementedError, match="mask"):
        x.to("meta")[(x > 3).to("meta")]
