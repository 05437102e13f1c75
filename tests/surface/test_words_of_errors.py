"""What programs and tests match in PyTorch's errors: its words stand in ours, too."""

from __future__ import annotations

import logging

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")


def of_unpack_hooks(T):
    with T.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: 1):
        y = T.ones(2, requires_grad=True).square()
    y.sum().backward()


def of_recomputation(T):
    runs = []

    def more_each_time(x):
        runs.append(x)
        for _ in runs:
            x = x.sin()
        return x

    with T.utils.checkpoint.set_checkpoint_early_stop(False):
        T.utils.checkpoint.checkpoint(more_each_time, T.ones(1, requires_grad=True), use_reentrant=False).backward()


def of_recomputation_with_debug(T):
    logging.getLogger("LoggingTensor").handlers.clear()  # pytest's, which can't show what PyTorch tells its own
    runs = []

    def other_each_time(x):
        runs.append(x)
        return x.sin() * T.ones(len(runs))

    x = T.ones(1, requires_grad=True)
    T.utils.checkpoint.checkpoint(other_each_time, x, use_reentrant=False, debug=True).backward()


def of_perturbed_inputs(T):
    x = T.ones(1, dtype=T.double, requires_grad=True)
    T.autograd.gradcheck(lambda x: T.cat([x, x]) if (x >= 1).all() else x, x)


def of_wrong_tangents(T):
    class Doubled(T.autograd.Function):
        @staticmethod
        def forward(x):
            return x * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            pass

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

        @staticmethod
        def jvp(ctx, tangent):
            return tangent * 3

    T.autograd.gradcheck(Doubled.apply, T.ones(2, dtype=T.double, requires_grad=True), check_forward_ad=True)


def of_missing_tangents(T):
    with T.autograd.forward_ad.dual_level():
        x = T.autograd.forward_ad.make_dual(T.ones(3), T.ones(3))
        T.igamma(x, x)


def of_pivots(T):
    LU, pivots = T.linalg.lu_factor(T.eye(2))
    T.lu_unpack(LU, pivots * 0)


WORDS = {
    of_unpack_hooks: (TypeError, "Output of saved tensor unpack_hook expected to be a Tensor"),
    of_recomputation: (RuntimeError, "trying to save more tensors during recomputation"),
    of_recomputation_with_debug: (RuntimeError, "because you passed `debug=True` to"),
    of_perturbed_inputs: (AssertionError, "return outputs with the same shape when inputs are perturbed"),
    of_wrong_tangents: (RuntimeError, "Jacobian computed with forward mode mismatch for output 0 with respect to"),
    of_missing_tangents: (NotImplementedError, "Trying to use forward AD with .* that does not support it"),
    of_pivots: (RuntimeError, r"between 1 and LU.size\(-2\)."),
    lambda T: T.polar(T.ones(2).char(), T.ones(2).char()): (
        RuntimeError, "Expected both inputs to be Half, Float or Double tensors but got Char and Char",
    ),
    lambda T: T.fft.rfft2(T.ones(2, 2) * 1j): (RuntimeError, "rfftn expects a real-valued input tensor, but got C"),
    lambda T: T.jit.script(T.nn.LazyLinear(2)): (RuntimeError, "Did you forget to run a forward pass"),
    lambda T: T.ones(4)["0":"1"]: (TypeError, "slice indices must be integers"),
    lambda T: T.func.jacrev(lambda x: ())(T.ones(2)): (RuntimeError, "vjp.+: Expected f to be a function that has"),
    lambda T: T.func.jacfwd(lambda x: None)(T.ones(2)): (RuntimeError, "jvp.+: Expected f to be a function that has"),
    lambda T: T.ones(2, 2, 2).to_sparse().t(): (RuntimeError, "a tensor with <= 2 sparse and 0 dense dimensions"),
    lambda T: T.ones(2).int().add_(T.ones(2).to_sparse()): (RuntimeError, "an't (be cast|convert)"),
    lambda T: (x := T.arange(4.0).view(2, 2), T.lerp(x, x + 1, x + 2, out=x.t())): (RuntimeError, "unsupported op"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:Sparse", "ignore:An output")
@pytest.mark.parametrize("case", WORDS, ids=lambda case: case.__name__)
@pytest.mark.parametrize("T", [plugrad, torch], ids=["plugrad", "torch"])
def test_the_words_of_pytorchs_errors_are_found_in_ours(case, T):
    kind, words = WORDS[case]
    with pytest.raises(kind, match=words):
        case(T)


def test_tensors_of_lists_of_arrays_warn_once():
    plugrad.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="a list of numpy.ndarrays is extremely slow") as caught:
            assert plugrad.tensor([numpy.array([0]), numpy.array([1])]).tolist() == [[0], [1]]
    finally:
        plugrad.set_warn_always(False)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("T", [plugrad, torch], ids=["plugrad", "torch"])
def test_redispatched_functions_skip_one_override(T):
    calls = []

    class Telling(T.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args, kwargs=None):
            calls.append(func.__name__)
            return T.overrides.redispatch_function(func, types, args, kwargs)

    def scaled(a, b):
        if T.overrides.has_torch_function((a, b)):
            return T.overrides.handle_torch_function(scaled, (a, b), a, b)
        return a * b + 1

    result = scaled(Telling(T.tensor([3.0])), Telling(T.tensor([4.0])))
    assert type(result) is T.Tensor and result.tolist() == [13.0] and calls == ["scaled", "mul"]
    calls.clear()
    assert scaled(T.ones(1), T.ones(1)).tolist() == [2.0] and not calls

    class TellingMode(T.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            with self:
                return T.overrides.redispatch_function(func, types, args, kwargs)

    with TellingMode():
        assert scaled(T.tensor([3.0]), T.tensor([4.0])) is not None
    assert [name for name in calls if name != "tensor"] == ["scaled", "mul", "add"]
