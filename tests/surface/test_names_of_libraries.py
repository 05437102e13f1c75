"""What libraries import from PyTorch beside its documented names, and rooms that only they use."""

import hashlib
import importlib
import io
import sys
import threading

import numpy as np
import pytest

import plugrad
from plugrad import compiler, futures, hub, nn
from plugrad.nn.attention import SDPBackend, sdpa_kernel
from plugrad.quasirandom import SobolEngine


@pytest.mark.parametrize("dimension", [1, 7, 40])
@pytest.mark.parametrize("options", [{}, {"scramble": True, "seed": 3}, {"scramble": True}])
def test_sobol_points_are_those_of_pytorch(torch, dimension, options):
    plugrad.manual_seed(1)
    torch.manual_seed(1)
    ours, theirs = SobolEngine(dimension, **options), torch.quasirandom.SobolEngine(dimension, **options)
    assert repr(ours) == repr(theirs)
    for n in (1, 3, 12):
        assert ours.draw(n).tolist() == theirs.draw(n).tolist()
    assert ours.draw_base2(4).tolist() == theirs.draw_base2(4).tolist()
    ours, theirs = ours.fast_forward(5), theirs.fast_forward(5)
    assert ours.draw(2, dtype=plugrad.float64).tolist() == theirs.draw(2, dtype=torch.float64).tolist()
    assert ours.reset().draw(9).tolist() == theirs.reset().draw(9).tolist()
    with pytest.raises(ValueError, match="power of 2"):
        ours.draw_base2(1)


def test_wrong_dimensions_of_sobol_points_are_refused():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match="21201"):
            SobolEngine(dimension)


def test_futures_pass_results_and_exceptions_on():
    future = futures.Future()
    doubled = future.then(lambda done: done.value() * 2)
    failing = doubled.then(lambda done: done.value() / 0)
    with pytest.raises(RuntimeError, match="no value yet"):
        future.value()
    thread = threading.Thread(target=future.set_result, args=(21,))
    thread.start()
    assert doubled.wait() == 42
    thread.join()
    with pytest.raises(ZeroDivisionError):
        failing.wait()
    with pytest.raises(RuntimeError, match="only be marked completed once"):
        future.set_result(1)
    with pytest.raises(ZeroDivisionError):
        futures.wait_all([future, failing])
    assert futures.wait_all([future, doubled]) == [21, 42] and futures.wait_all([]) == []


def test_kernels_of_attention_are_switches_of_a_block():
    cuda = plugrad.backends.cuda
    with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]):
        assert cuda.math_sdp_enabled() and cuda.flash_sdp_enabled() and not cuda.mem_efficient_sdp_enabled()
    assert cuda.mem_efficient_sdp_enabled()
    with pytest.raises(AssertionError, match="SDPBackend"), sdpa_kernel("math"):
        pass


def test_switches_can_be_left_to_blocks(monkeypatch):
    backends = plugrad.backends
    monkeypatch.setattr("plugrad.backends.switches._frozen", frozen := set())
    backends.cudnn.benchmark = False
    backends.disable_global_flags()
    assert backends.flags_frozen() and frozen
    with pytest.raises(RuntimeError, match=r"torch\.backends\.cudnn flags after disable_global_flags"):
        backends.cudnn.benchmark = True
    with backends.cudnn.flags(benchmark=True):
        assert backends.cudnn.benchmark
    assert not backends.cudnn.benchmark


@pytest.mark.parametrize(
    "check, args", [
        ("_check", (False, lambda: "why")), ("_check", (False, "why")), ("_check", (1,)),
        ("_check_index", (False, lambda: "why")), ("_check_value", (False, lambda: "why")),
        ("_check_type", (False, lambda: "why")), ("_check_not_implemented", (False, lambda: "why")),
        ("_check_with", (OSError, False, lambda: "why")), ("_assert", (False, "why")),
    ],
)  # fmt: skip
def test_checks_raise_what_pytorch_raises(torch, check, args):
    errors = []
    for library in (plugrad, torch):
        with pytest.raises(Exception) as error:
            getattr(library, check)(*args)
        errors.append((error.type, str(error.value)))
    assert errors[0] == errors[1]


def test_a_stance_says_how_compiled_functions_run():
    seen = []

    def notes(graph, examples):
        seen.append(len(examples))
        return graph

    double = compiler.compile(lambda x: x + x, backend=notes)
    with compiler.set_stance("force_eager"):
        double(plugrad.ones(2))
    assert not seen
    double(plugrad.ones(2))
    with compiler.set_stance("fail_on_recompile"):
        double(plugrad.ones(2))
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            double(plugrad.ones(3))
    compiler.set_stance("eager_on_recompile")
    double(plugrad.ones(4))
    compiler.set_stance("default")
    assert seen == [1]
    compiler.set_stance("force_eager")(double)(plugrad.ones(5))
    assert seen == [1]
    with pytest.raises(RuntimeError, match="eager_on_recompile"):
        compiler.set_stance("sometimes")


def test_downloads_are_whole_and_checked(tmp_path):
    plugrad.save({"weight": plugrad.ones(2)}, tmp_path / "plain.pth")
    digits = hashlib.sha256((tmp_path / "plain.pth").read_bytes()).hexdigest()[:8]
    source = tmp_path / f"model-{digits}.pth"
    (tmp_path / "plain.pth").rename(source)
    state = hub.load_state_dict_from_url(source.as_uri(), model_dir=str(tmp_path / "cache"), check_hash=True)
    assert state["weight"].tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(source.as_uri(), str(tmp_path / "other"), "0123")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cache", source.name]


def test_private_names_that_libraries_import():
    from plugrad.nn.init import _calculate_correct_fan, _calculate_fan_in_and_fan_out, _no_grad_uniform_
    from plugrad.nn.modules.module import _addindent
    from plugrad.utils._pytree import _dict_flatten, _get_node_type, _namedtuple_unflatten

    weight = plugrad.empty(6, 3, 2)
    assert _calculate_fan_in_and_fan_out(weight) == (6, 12) and _calculate_correct_fan(weight, "fan_out") == 12
    assert _no_grad_uniform_(weight, 1, 2).min() >= 1 and _addindent("a\nb", 2) == "a\n  b"
    assert _dict_flatten({"a": 1}) == ([1], ["a"]) and _get_node_type([]) is list and callable(_namedtuple_unflatten)
    assert plugrad.torch is plugrad and plugrad.cuda.random.manual_seed is plugrad.cuda.manual_seed
    assert nn.parallel.distributed.DistributedDataParallel is nn.parallel.DistributedDataParallel


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_limits_of_eight_bits(torch, name):
    ours, theirs = plugrad.finfo(getattr(plugrad, name)), torch.finfo(getattr(torch, name))
    for field in ("bits", "dtype", "eps", "max", "min", "tiny", "smallest_normal", "resolution"):
        assert getattr(ours, field) == getattr(theirs, field), field


def test_what_belongs_to_a_refused_library_of_ops_is_passed_over():
    with pytest.raises(RuntimeError, match="no op 'absent_library::nms'"):
        plugrad.library.register_fake("absent_library::nms", lambda boxes: boxes)
    refused = sys.modules["plugrad.library.definition"].refused_libraries
    try:
        with pytest.raises(OSError, match="compiled for PyTorch"):
            plugrad.ops.load_library("absent_library.so")
        plugrad.library.register_fake("absent_library::nms", lambda boxes: boxes)
    finally:
        refused.clear()
    assert not hasattr(plugrad.ops, "absent_library") and not plugrad.ops.loaded_libraries


def test_inner_ops_are_called_as_pytorch_calls_them(torch):
    for library in (plugrad, torch):
        aten, x = library.ops.aten, library.arange(12.0).view(3, 4)
        results = [
            aten.slice.Tensor(x, 1, 1, 3),
            aten.alias.default(x),
            aten._to_copy.default(x, dtype=library.float64),
            aten.index.Tensor(x, [None, library.tensor([0, 1])]),
            aten._softmax.default(0 * x, 1, False),
            aten.convolution.default(library.ones(1, 1, 4), library.ones(1, 1, 2), None, [1], [0], [1], False, [0], 1),
        ]
        told = [(one.tolist(), str(one.dtype)) for one in results] + [aten.sym_size.int(x, 0)]
        if library is plugrad:
            expected = told
    assert told == expected
    assert plugrad.ops.aten._thnn_fused_gru_cell is not None and not hasattr(plugrad.ops.aten, "no_such_op")


@pytest.mark.parametrize(
    "shape, given",
    [
        ((1, 1), (3, 3)), ((3,), (1,)), ((2, 3), (3,)), ((3,), (2, 3)), ((1, 3), (2, 3)), ((2,), (3,)), ((), (2,)),
        ((1,), ()), ((2, 1), (2,)), ((3, 1), (3, 3)), ((0,), (1,)), ((1,), (0,)), ((1, 0), (2, 0)),
    ],
)  # fmt: skip
def test_gradients_of_custom_functions_are_summed_where_pytorch_sums_them(torch, shape, given):
    outcomes = []
    for library in (plugrad, torch):

        class Total(library.autograd.Function):
            @staticmethod
            def forward(ctx, x, library=library):
                return x.sum()

            @staticmethod
            def backward(ctx, g, library=library):
                return library.ones(given), None

        x = library.zeros(shape, requires_grad=True)
        try:
            Total.apply(x, library).backward()
            outcomes.append(x.grad.tolist())
        except RuntimeError:
            outcomes.append("refused")
    assert outcomes[0] == outcomes[1]


@pytest.mark.filterwarnings("ignore::UserWarning")  # PyTorch's, which would compile it
def test_attention_with_functions_is_that_of_pytorch(torch):
    from torch.nn.attention import flex_attention as theirs

    from plugrad.nn.attention import flex_attention as ours

    torch.manual_seed(0)
    q, k, v = torch.randn(2, 4, 7, 8), torch.randn(2, 2, 9, 8), torch.randn(2, 2, 9, 5)
    outcomes = []
    for library, flex in ((plugrad, ours), (torch, theirs)):
        inputs = [library.tensor(t.tolist()) for t in (q, k, v)]
        bias = library.arange(4.0)
        mask = flex.and_masks(lambda b, h, q, k: (q >= k) & (k != 0), flex.noop_mask)
        block_mask = flex.create_block_mask(mask, 2, 4, 7, 9, device="cpu", BLOCK_SIZE=4)
        results = []
        for score_mod in (None, lambda score, b, h, q, k, bias=bias: score + bias[h] - 0.1 * (q - k).abs()):
            for block in (None, block_mask):
                results += flex.flex_attention(
                    *inputs, score_mod, block, enable_gqa=True, return_aux=flex.AuxRequest(lse=True)
                )[:1]
        large = flex.create_block_mask(lambda b, h, q, k: q >= k, None, 2, 300, 260, device="cpu")
        lists = [getattr(large, name).tolist() for name in ours.BlockMask._LISTS]
        outcomes.append((results, lists, large.to_dense().tolist(), large.shape, round(large.sparsity(), 6)))
    for result, expected in zip(outcomes[0][0], outcomes[1][0], strict=True):
        plugrad.testing.assert_close(result, plugrad.tensor(expected.tolist()))
    assert outcomes[0][1:] == outcomes[1][1:]
    with pytest.raises(ValueError, match="enable_gqa=True"):
        ours.flex_attention(*(plugrad.tensor(t.tolist()) for t in (q, k, v)))


def test_gradients_pass_through_attention_with_functions():
    from plugrad.nn.attention.flex_attention import create_block_mask, flex_attention

    block_mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 3, 3)
    inputs = [plugrad.randn(1, 2, 3, 2, dtype=plugrad.float64, requires_grad=True) for _ in range(3)]
    assert plugrad.autograd.gradcheck(
        lambda q, k, v: flex_attention(q, k, v, lambda score, b, h, q, k: score * (1 + h), block_mask), inputs
    )


def test_settings_and_marks_of_the_compiler_are_accepted():
    dynamo = plugrad._dynamo

    @dynamo.assume_constant_result
    @dynamo.allow_in_graph
    def double(x):
        dynamo.mark_static_address(x)
        return 2 * x

    assert dynamo.optimize("eager")(double)(plugrad.ones(1)).item() == 2 and not dynamo.is_compiling()
    assert dynamo.eval_frame.OptimizedModule is compiler.OptimizedModule
    assert issubclass(dynamo.exc.Unsupported, RuntimeError)
    with dynamo.config.patch("suppress_errors", True), dynamo.config.patch({"verbose": True}):
        assert dynamo.config.suppress_errors and dynamo.config.verbose
    assert not dynamo.config.suppress_errors
    with pytest.raises(AttributeError, match="no_such_setting"):
        dynamo.config.patch(no_such_setting=1)
    with pytest.raises(NotImplementedError, match="graph compiler"):
        dynamo.export(double)


@pytest.mark.parametrize(
    "shapes, ends",
    [
        (((6, 8), (2, 8, 4)), (2, 6)),
        (((2, 4, 8), (8, 16)), (8, 16)),
        (((4, 8), (8, 4)), (4, 8)),
        (((2, 4, 8), (2, 8, 4)), None),
    ],
)
def test_products_of_groups_are_those_of_pytorch(torch, shapes, ends):
    results = []
    for module in (torch, plugrad):
        a, b = [(module.arange(float(np.prod(shape))).reshape(shape) / 50).requires_grad_() for shape in shapes]
        offs = None if ends is None else module.tensor(ends, dtype=module.int32)
        y = module.nn.functional.grouped_mm(a, b, offs=offs)
        (y * y).sum().backward()
        results.append([one.detach().numpy() for one in (y, a.grad, b.grad)])
    for theirs, ours in zip(*results):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


def test_wrong_groups_are_refused(torch):
    a, b = (6, 8), (2, 8, 4)
    wrong = [(a, b, None, {}), (a, (2, 4, 4), (2, 6), {}), (a, b, (2, 4, 6), {}), (a, b, (2, 6), {"bias": 1}),
        ((2, 4, 8), (3, 8, 4), None, {}), (a, b, (2, 6), {"out_dtype": "float64"})]  # fmt: skip
    for one, other, ends, options in wrong:
        for module in (torch, plugrad):
            own = {name: module.ones(4) if value == 1 else module.float64 for name, value in options.items()}
            offs = None if ends is None else module.tensor(ends, dtype=module.int32)
            with pytest.raises(RuntimeError):
                module.nn.functional.grouped_mm(module.ones(one), module.ones(other), offs=offs, **own)


def test_arguments_of_to_are_taken_apart(torch):
    for module in (torch, plugrad):
        parse = module._C._nn._parse_to
        cpu, full, half = module.device("cpu"), module.float32, module.half
        calls = [parse("cpu"), parse(full), parse(module.ones(1)), parse(None, half, True), parse(), parse("cpu", full)]
        assert calls == [
            (cpu, None, False, None), (None, full, False, None), (cpu, full, False, None), (None, half, True, None),
            (None, None, False, None), (cpu, full, False, None),
        ]  # fmt: skip
        assert parse(memory_format=module.channels_last)[3] == module.channels_last
        assert not module._C._are_functorch_transforms_active()
        with pytest.raises(TypeError, match="invalid combination"):
            parse("cpu", "float32")


def test_control_flow_as_functions():
    scans, x = plugrad._higher_order_ops, plugrad.arange(1.0, 7.0).reshape(2, 3).requires_grad_()

    def pairs(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    products, sums = scans.associative_scan(pairs, (x, 2 * x), dim=1, combine_mode="generic")
    assert products.tolist() == [[1, 2, 6], [4, 20, 120]]
    assert sums.tolist() == [[2, 2 * 2 + 4, 3 * 8 + 6], [8, 5 * 8 + 10, 6 * 50 + 12]]
    (gradient,) = plugrad.autograd.grad(products.sum(), x)
    assert gradient.tolist() == [[1 + 2 + 6, 1 + 3, 2], [1 + 5 + 30, 4 + 24, 20]]
    assert scans.associative_scan(plugrad.add, x, 0, reverse=True).tolist() == [[5, 7, 9], [4, 5, 6]]
    carry, results = scans.scan(lambda c, one: (c + one, c * one), plugrad.zeros(2), x, dim=1, reverse=True)
    assert carry.tolist() == [6, 15] and results.tolist() == [[5, 6, 0], [44, 30, 0]]
    assert scans.map(lambda row, k: k * row.sum(), x, 2).tolist() == [12, 30]
    assert plugrad.cond(x.sum() > 3, lambda a: a + 1, lambda a: a - 1, (x,))[0].tolist() == [2, 3, 4]
    assert plugrad.cond(False, lambda a: a + 1, lambda a: a - 1, (x,))[0].tolist() == [0, 1, 2]
    count, doubled = plugrad.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, 2 * a), (plugrad.tensor(0), x[0]))
    assert count == 3 and doubled.tolist() == [8, 16, 24]


def test_modules_of_control_flow_do_not_hide_the_functions():
    for name in ("cond", "while_loop", "scan", "associative_scan", "map"):
        module = importlib.import_module(f"plugrad._higher_order_ops.{name}")
        assert callable(getattr(plugrad._higher_order_ops, name)) and callable(getattr(module, name))
    assert plugrad._higher_order_ops.cond(True, plugrad.sin, plugrad.cos, (plugrad.zeros(1),)) == 0
    assert plugrad.cond(True, plugrad.sin, plugrad.cos, (plugrad.zeros(1),)) == 0


def test_mistakes_in_control_flow_are_refused():
    x = plugrad.ones(2)
    for wrong in (
        lambda: plugrad.cond("yes", plugrad.sin, plugrad.cos, (x,)), lambda: plugrad.cond(x, plugrad.sin, plugrad.cos),
        lambda: plugrad.cond(True, 1, plugrad.cos, (x,)), lambda: plugrad.cond(True, plugrad.sin, plugrad.cos, x),
        lambda: plugrad.while_loop(1, 2, (x,)), lambda: plugrad.while_loop(lambda a: True, lambda a: a, (x,)),
        lambda: plugrad._higher_order_ops.scan(plugrad.add, x, (x, plugrad.ones(3))),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match="[Ee]xpect|should return|same size"):
            wrong()
    with pytest.raises(ValueError, match="pointwise"):
        plugrad._higher_order_ops.associative_scan(plugrad.add, x, 0, combine_mode="other")


class Gadget:
    """What runs code where it is unpickled."""

    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


def test_weights_by_url_may_be_pytorch_s_and_run_nothing(tmp_path, torch):
    good, bad = tmp_path / "weights.pth", tmp_path / "hostile.pth"
    torch.save({"w": torch.arange(3.0)}, good)
    torch.save({"w": Gadget()}, bad)
    state = hub.load_state_dict_from_url(good.as_uri(), model_dir=str(tmp_path / "cache"), progress=False)
    assert state["w"].tolist() == [0.0, 1.0, 2.0]
    with pytest.raises(plugrad.serialization.CheckpointError):
        hub.load_state_dict_from_url(bad.as_uri(), model_dir=str(tmp_path / "cache"), progress=False)


@pytest.mark.parametrize("terminal", [True, False])
def test_a_download_shows_a_bar_on_a_terminal_only(terminal, tmp_path, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    source, there = tmp_path / "weights.bin", tmp_path / "there.bin"
    source.write_bytes(bytes(range(256)) * 1000)
    shown = Stream()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    for progress in (True, False):
        hub.download_url_to_file(source.as_uri(), str(there), progress=progress)
        assert there.read_bytes() == source.read_bytes()
        assert ("there.bin" in shown.getvalue()) == (terminal and progress)
        shown.seek(0)
        shown.truncate()
