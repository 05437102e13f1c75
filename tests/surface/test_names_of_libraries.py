"""What libraries import from PyTorch beside its documented names, and rooms that only they use."""

import hashlib
import threading

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
