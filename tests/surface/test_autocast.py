"""Autocast: regions and their state, the cache of casts, records of third parties, Functions, checkpoints."""

from __future__ import annotations

import threading

import pytest

import plugrad as torch
from plugrad.amp import policies
from plugrad.extend import binary, composite, register, unary, unregister
from plugrad.graph.modes import mode
from plugrad.utils.checkpoint import checkpoint

A, W = torch.randn(3, 3), torch.randn(3, 3, requires_grad=True)


def test_regions_nest():
    with torch.autocast("cpu"):
        assert (A @ W).dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (A @ W).dtype is torch.float32 and not torch.is_autocast_enabled("cpu")
            with torch.autocast("cpu", torch.float16):
                assert (A @ W).dtype is torch.float16 and torch.get_autocast_dtype("cpu") is torch.float16
        with torch.autocast("cpu", torch.float16):  # the weight was kept in bfloat16 meanwhile
            assert (A @ W).dtype is torch.float16
        assert (A @ W).dtype is torch.bfloat16
    assert (A @ W).dtype is torch.float32


def test_what_has_no_policy_is_left_as_it_is():
    with torch.autocast("cpu"):
        assert (A + W).dtype is torch.float32 and (A @ W + A).dtype is torch.float32
        assert (A.double() @ W.double()).dtype is torch.float64
        assert A.clone().addmm_(A, A).dtype is torch.float32
        exact = torch.full((2, 2), 1 + 2**-12)
        assert torch.baddbmm(exact[None], exact[None], exact[None]).dtype is torch.bfloat16
        assert (exact.clone()[None].baddbmm_(exact[None], exact[None] * 0) == exact).all()
        out = torch.empty(3, 3)
        assert torch.mm(A, A, out=out) is out and (out == A.mm(A, out=torch.empty(3, 3))).all()
    assert (out == A @ A).all()


def test_decorators_and_one_region_entered_twice():
    region = torch.autocast("cpu")

    @region
    def product(x):
        """Doc."""
        with region:
            return x @ x

    assert product(A).dtype is torch.bfloat16 and product.__doc__ == "Doc." and (A @ A).dtype is torch.float32
    with region, pytest.raises(KeyError):
        raise KeyError
    assert not torch.is_autocast_enabled("cpu")


def test_the_state_is_that_of_a_thread():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((torch.is_autocast_enabled("cpu"), (A @ A).dtype)))
        thread.start()
        thread.join()
    assert seen == [(False, torch.float32)]


def test_setting_the_state_by_hand():
    torch.set_autocast_enabled("cpu", True)
    try:
        torch.set_autocast_cpu_dtype(torch.float16)
        assert (A @ A).dtype is torch.float16 and torch.is_autocast_cpu_enabled()
        assert torch.autocast_increment_nesting() == 1 and torch.autocast_decrement_nesting() == 0
    finally:
        torch.set_autocast_enabled("cpu", False)
        torch.set_autocast_dtype("cpu", torch.bfloat16)
    assert (A @ A).dtype is torch.float32 and torch.get_autocast_cpu_dtype() is torch.bfloat16
    assert torch.get_autocast_gpu_dtype() is torch.float16
    assert mode.autocast is None  # so that calls cost as much as before, and programs are compiled


def test_a_parameter_is_cast_once_and_again_after_it_was_written():
    weight, calls = torch.nn.Parameter(torch.eye(2)), []

    class Casts(torch.extend.OpHook):
        def wants(self, op):
            return op.name == "to_copy"

        def around(self, call, run):
            if call.args[0] is weight:
                calls.append(call)
            return run()

    x = torch.ones(2, 2, dtype=torch.bfloat16)
    with Casts(), torch.autocast("cpu"):
        assert torch.equal(x @ weight, x @ weight) and len(calls) == 1
        with torch.no_grad():
            weight.add_(1)
        assert (x @ weight).float().tolist() == [[3.0, 3.0], [3.0, 3.0]] and len(calls) == 2
    with Casts(), torch.autocast("cpu", cache_enabled=False):
        assert torch.equal(x @ weight, x @ weight) and len(calls) == 4


def test_what_was_cast_unrecorded_still_gets_its_gradient():
    weight = torch.nn.Parameter(torch.eye(2))
    with torch.autocast("cpu"):
        with torch.no_grad():
            A[:2, :2] @ weight
        result = A[:2, :2] @ weight
    (result + (torch.ones(2, 2) @ weight)).sum().backward()
    assert weight.grad.dtype is torch.float32 and weight.grad.abs().sum() > 0


def test_one_cast_serves_two_walks_backward():
    with torch.autocast("cpu"):
        loss = (A @ W).sum() + (A @ W).sum()
    W.grad = None
    loss.backward(retain_graph=True)
    once = W.grad.clone()
    loss.backward()
    assert torch.equal(W.grad, 2 * once)
    W.grad = None


def test_third_parties_declare_policies():
    @unary(autocast="float32")
    def steep(xp, input):
        return xp.exp(input)

    @steep.vjp
    def steep_vjp(F, g, y):
        return g * y

    @composite(autocast={"cpu": "lower"})
    def twice(F, input):
        return F.matmul(input, input) + F.steep(input)

    register(steep, twice)
    try:
        with torch.autocast("cpu", torch.float16):
            assert torch.steep(A.half()).dtype is torch.float32
            assert torch.twice(A).dtype is torch.float16  # inside of it there is no autocast
            policies.register_autocast(steep, "cpu", "lower")
            assert torch.steep(A).dtype is torch.float16 and policies.described(steep, "cuda") == "float32"
            policies.register_autocast("steep", "cpu", torch.float64)
            assert torch.steep(A).dtype is torch.float64
    finally:
        unregister(steep, twice)
    with pytest.raises(TypeError, match="'half' is no policy"):
        policies.register_autocast("matmul", "cpu", "half")


def test_an_unknown_policy_is_refused_when_the_op_is_registered():
    @binary(autocast="half", complex=False, promote="bool")
    def is_odd(xp, input, other):
        return input != other

    with pytest.raises(TypeError, match=r"autocast='half': it must be one of 'lower', 'float32'"):
        register(is_odd)


def test_functions_run_backward_as_forward_ran():
    seen = []

    def product(cast_inputs):
        class Product(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu", cast_inputs=cast_inputs)
            def forward(ctx, x, w):
                ctx.save_for_backward(x, w)
                seen.append(("forward", x.dtype, torch.is_autocast_enabled("cpu")))
                return x @ w

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx, g):
                x, w = ctx.saved_tensors
                seen.append(("backward", g.dtype, torch.is_autocast_enabled("cpu")))
                return g @ w.t(), x.t() @ g

        return Product.apply

    half = torch.ones(3, 3, dtype=torch.bfloat16)
    for cast_inputs, dtype, inside in ((None, torch.bfloat16, True), (torch.float32, torch.float32, False)):
        with torch.autocast("cpu"):
            result = product(cast_inputs)(half, W)
        assert result.dtype is dtype
        result.sum().backward()
        assert seen == [("forward", dtype, inside), ("backward", dtype, inside)]
        seen.clear()
    W.grad = None


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_compute_again_in_the_same_dtype(reentrant):
    seen = []

    def product(x):
        seen.append(torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None)
        return x @ W

    x = A.clone().requires_grad_()
    with torch.autocast("cpu", torch.float16):
        y = checkpoint(product, x, use_reentrant=reentrant)
    y.float().sum().backward()
    assert y.dtype is torch.float16 and seen == [torch.float16] * 2 and x.grad.dtype is torch.float32
    W.grad = None


def test_what_cannot_be_autocast():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        torch.autocast(3)
    with pytest.raises(RuntimeError, match="no autocast on 'meta'"):
        torch.autocast("meta")
    with pytest.raises(RuntimeError, match="Expected one of"):
        torch.is_autocast_enabled("abacus")
    with pytest.raises(TypeError, match="requires a callable"):
        torch.autocast("cpu")(3)
    with pytest.raises(TypeError, match="must be torch.dtype"):
        torch.set_autocast_dtype("cpu", 3)
    with pytest.raises(ValueError, match="device_type"):
        torch.amp.custom_bwd(device_type=None)
    with pytest.warns(UserWarning, match="target dtype is not supported"):
        region = torch.autocast("cpu", torch.float64)
    with region:
        assert (A @ A).dtype is torch.float32
    with torch.autocast("cpu"), pytest.raises(RuntimeError, match="Unexpected floating ScalarType"):
        torch.cat([A.half(), A.bfloat16()])


def test_the_older_names_warn():
    with pytest.warns(FutureWarning, match="deprecated"):
        region = torch.cpu.amp.autocast()
    with region:
        assert (A @ A).dtype is torch.bfloat16
    with pytest.warns(FutureWarning, match="deprecated"):
        assert torch.cpu.amp.GradScaler().is_enabled()
    with pytest.warns(FutureWarning), pytest.warns(UserWarning):
        assert torch.cuda.amp.GradScaler().is_enabled() == torch.cuda.is_available()


def test_recurrent_layers_take_inputs_of_another_dtype_inside():
    layer = torch.nn.LSTM(2, 3).to(torch.bfloat16)
    with torch.autocast("cpu"):
        layer(torch.randn(4, 1, 2))
    with pytest.raises(ValueError, match="does not match weight dtype"):
        layer(torch.randn(4, 1, 2))
