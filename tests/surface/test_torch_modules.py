"""PyTorch's module paths and the modules that programs merely touch: profiler, jit, hub, what refuses and why."""

import gzip
import importlib
import io
import json
import pickle
import pkgutil
import time
import types
import warnings

import numpy
import pytest

import plugrad
from plugrad import nn
from plugrad.serialization.safe_globals import unpickler
from plugrad.torch_modules import exports
from plugrad.torch_modules.paths import ALIASES, VIEWS

PATHS = sorted({*VIEWS, *ALIASES})


@pytest.mark.parametrize("path", PATHS)
def test_a_path_can_be_imported_and_reached(path):
    module = importlib.import_module(f"plugrad.{path}")
    reached = plugrad
    for part in path.split("."):
        reached = getattr(reached, part)
    assert reached is module and importlib.import_module(f"plugrad.{path}") is module
    names = getattr(module, "__all__", [])
    assert all(hasattr(module, name) for name in names) and not hasattr(module, "no_such_name")


def modules_of(torch):
    """Return PyTorch's module paths below nn.modules, optim, autograd and utils.data that have an `__all__`."""
    for parent in ("nn.modules", "autograd", "utils.data"):
        package = importlib.import_module(f"torch.{parent}")
        for name in ["", *(f".{info.name}" for info in pkgutil.iter_modules(package.__path__))]:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                names = getattr(importlib.import_module(f"torch.{parent}{name}"), "__all__", None)
            if names and name[1:] not in _OTHERS:
                yield f"{parent}{name}", names


# What stands in PyTorch's `__all__` there and is not here.
_OTHERS = {"profiler_legacy", "graph", "graph_settings", "datapipes", "linear_cross_entropy_options"}


def test_views_have_the_names_that_pytorch_has_there():
    torch = pytest.importorskip("torch")
    unlike = {}
    for path, names in modules_of(torch):
        if path in VIEWS:
            module = importlib.import_module(f"plugrad.{path}")
            home = module._home
            lacking = {name for name in names if hasattr(home, name) and not hasattr(module, name)}
            known = {name for name in names if hasattr(module, name)}
            if lacking or known - {*module.__all__}:
                unlike[path] = (lacking, known - {*module.__all__})
    assert not unlike


@pytest.mark.parametrize(
    ("path", "private", "layers"),
    [
        ("batchnorm", "_BatchNorm", "BatchNorm1d BatchNorm3d"), ("batchnorm", "_NormBase", "BatchNorm1d"),
        ("instancenorm", "_InstanceNorm", "InstanceNorm2d"), ("instancenorm", "_NormBase", "InstanceNorm2d"),
        ("conv", "_ConvNd", "Conv1d ConvTranspose2d"), ("conv", "_ConvTransposeNd", "ConvTranspose3d"),
        ("dropout", "_DropoutNd", "Dropout Dropout2d AlphaDropout"), ("pooling", "_MaxPoolNd", "MaxPool2d"),
        ("pooling", "_AvgPoolNd", "AvgPool1d AvgPool2d"), ("pooling", "_AdaptiveAvgPoolNd", "AdaptiveAvgPool2d"),
        ("pooling", "_AdaptiveMaxPoolNd", "AdaptiveMaxPool1d"), ("pooling", "_LPPoolNd", "LPPool1d"),
        ("pooling", "_MaxUnpoolNd", "MaxUnpool2d"), ("loss", "_Loss", "MSELoss CrossEntropyLoss"),
        ("loss", "_WeightedLoss", "CrossEntropyLoss NLLLoss BCELoss"), ("padding", "_ConstantPadNd", "ConstantPad2d"),
        ("padding", "_ReflectionPadNd", "ReflectionPad1d"), ("rnn", "RNNBase", "LSTM"),
    ],
)  # fmt: skip
def test_private_bases_that_libraries_ask_for(path, private, layers):
    base = getattr(importlib.import_module(f"plugrad.nn.modules.{path}"), private)
    assert all(issubclass(getattr(nn, layer), base) for layer in layers.split())
    assert not issubclass(nn.Linear, base)
    assert not hasattr(nn.modules.linear, private) or not private.startswith("_")


def test_a_loss_of_ones_own_on_pytorchs_base():
    class Weighted(nn.modules.loss._WeightedLoss):
        def forward(self, input, target):
            return nn.functional.cross_entropy(input, target, self.weight, reduction=self.reduction)

    loss = Weighted(weight=plugrad.tensor([1.0, 2.0]), reduction="sum")
    x, y = plugrad.tensor([[1.0, 2.0], [0.5, 0.0]]), plugrad.tensor([0, 1])
    assert loss(x, y) == nn.CrossEntropyLoss(plugrad.tensor([1.0, 2.0]), reduction="sum")(x, y)
    assert [*loss.state_dict()] == ["weight"] and nn.modules.loss._Loss().reduction == "mean"
    with pytest.warns(UserWarning, match="please use reduction=.sum"):
        assert nn.modules.loss._Loss(size_average=False).reduction == "sum"


STAR = {
    "": (["Tensor", "float32", "randn", "no_grad", "Size"], ["nn", "registry", "autograd", "dtypes"]),
    "nn": (["Linear", "Module", "functional", "init", "Sequential"], ["registry", "lazy_names"]),
    "nn.functional": (["relu", "conv2d"], []), "nn.init": (["kaiming_uniform_", "zeros_"], []),
    "optim": (["Adam", "SGD", "Optimizer", "lr_scheduler"], ["registry", "lazy_names"]),
    "optim.lr_scheduler": (["StepLR", "LRScheduler"], ["warnings"]),
    "utils.data": (["DataLoader", "Dataset"], ["itertools"]), "linalg": (["norm", "inv"], []),
}  # fmt: skip


@pytest.mark.parametrize("path", STAR)
def test_import_star(path):
    names = {}
    exec(f"from plugrad{'.' * bool(path)}{path} import *", names)
    there, hidden = STAR[path]
    assert {*there} <= {*names} and not {*hidden} & {*names}
    assert {*exports(importlib.import_module(f"plugrad{'.' * bool(path)}{path}"))} <= {*names}


def _is_module(value):
    return isinstance(value, types.ModuleType)


def test_import_star_takes_what_pytorchs_takes():
    torch = pytest.importorskip("torch")
    ours = {*exports(plugrad)}
    theirs = {*torch.__all__}
    assert not {name for name in theirs - ours if name in dir(plugrad) and not _is_module(getattr(torch, name))}
    for path in ("optim", "nn.init", "utils.data"):
        module, other = importlib.import_module(f"plugrad.{path}"), importlib.import_module(f"torch.{path}")
        assert not {name for name in other.__all__ if hasattr(module, name)} - {*exports(module)} - {"_DatasetKind"}


# -------------------------------------------------------------------------------------------- what refuses, and why


@pytest.mark.parametrize(
    "name",
    [
        "onnx.utils.export", "fx.traceback.annotate", "fx.traceback.preserve_node_meta",
        "distributed.init_device_mesh", "distributed.TCPStore",
        "distributed.rpc.init_rpc", "distributed.fsdp.FullyShardedDataParallel", "distributed.tensor.DTensor",
        "profiler.load_nvprof", "utils.mobile_optimizer.optimize_for_mobile", "export.draft_export",
        "jit.export_opnames",
        "package.PackageExporter",
    ],
)  # fmt: skip
def test_names_without_counterpart_say_so_when_they_are_used(name):
    home, _, own = name.rpartition(".")
    value = getattr(importlib.import_module(f"plugrad.{home}"), own)
    if isinstance(value, type):
        assert not isinstance(plugrad.ones(1), value)
    with pytest.raises(NotImplementedError, match=rf"plugrad has no torch\.{name}: "):
        value("some", what="arguments")


def test_what_programs_ask_before_they_use_it():
    distributed = plugrad.distributed
    assert not distributed.is_available() and not distributed.is_initialized() and distributed.ReduceOp.SUM is not None
    assert not distributed.rpc.is_available() and distributed.group.WORLD is None
    assert not plugrad.onnx.is_in_onnx_export() and not plugrad.fx._symbolic_trace.is_fx_tracing()


# ------------------------------------------------------------------------------------------------------------- jit


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        ([1, 2], list[int], True), ([1, "a"], list[int], False), ({"a": 1}, dict[str, int], True),
        ((1, "a"), tuple[int, str], True), ((1, 2), tuple[int, str], False), (None, int | None, True),
        ("a", int | None, False), (3, (str, int), True), (None, None, True), ((1, 2), tuple[int, ...], True),
    ],
)  # fmt: skip
def test_isinstance_of_types_with_arguments(value, kind, expected):
    assert plugrad.jit.isinstance(value, kind) is expected


# -------------------------------------------------------------------------------------------------------- profiler


def test_a_profile_counts_ops_forward_and_backward(tmp_path):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), plugrad.ones(2, 4)
    with plugrad.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        with plugrad.profiler.record_function("the model"):
            model(x).sum().backward()
            time.sleep(0.01)
    sums = {event.key: event for event in prof.key_averages()}
    assert {"the model", "aten::linear", "aten::relu", "aten::sum", "AddmmBackward0", "SumBackward0"} <= {*sums}
    whole = sums["the model"]
    assert whole.count == 1 and whole.cpu_time_total > 10_000 and whole.self_cpu_time_total > 10_000
    assert prof.self_cpu_time_total == pytest.approx(whole.cpu_time_total)
    assert sums["aten::linear"].cpu_memory_usage == 2 * 3 * 4
    grouped = prof.key_averages(group_by_input_shape=True)
    assert [[2, 4], [3, 4], [3]] in [event.input_shapes for event in grouped]
    table = grouped.table(sort_by="cpu_time_total", row_limit=2)
    assert table.splitlines()[1].split("  ")[-1].strip() == "Input Shapes" and "the model" in table.splitlines()[3]
    assert len(table.splitlines()) == 7 and table.splitlines()[-1].startswith("Self CPU time total: ")
    prof.export_chrome_trace(tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert {row["name"] for row in rows} == {*sums} and all(row["ph"] == "X" and row["dur"] >= 0 for row in rows)
    model(x)
    assert len(prof.events()) == len(rows)


def test_a_schedule_keeps_the_active_steps():
    ready = []
    plan = plugrad.profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)

    def note(prof):
        ready.append((prof.step_num, len(prof.events())))

    with plugrad.profiler.profile(schedule=plan, on_trace_ready=note) as prof:
        for _ in range(12):
            plugrad.ones(1).exp()
            prof.step()
    assert ready == [(5, 4), (9, 4)]


def test_functional_forms_that_hand_on_to_an_op_of_their_name_are_counted_once():
    x, functional = plugrad.randn(3, 4), plugrad.nn.functional
    calls = {name: getattr(functional, name) for name in ("relu", "leaky_relu", "sigmoid", "tanh", "gelu", "elu")}
    calls |= {name: lambda x, name=name: getattr(functional, name)(x, -1) for name in ("softmax", "log_softmax")}
    for name, call in calls.items():
        with plugrad.profiler.profile(profile_memory=True) as prof:
            with pytest.raises(TypeError):
                functional.relu("no tensor")  # what raised says nothing of what comes after it
            call(x)
            call(x)
            if hasattr(plugrad, name):
                getattr(plugrad, name)(x, *[-1] * ("softmax" in name))
        seen = {event.key: event for event in prof.key_averages()}
        own = seen[f"aten::{name}"]
        calls_made = 2 + hasattr(plugrad, name)
        assert (own.count, own.cpu_memory_usage) == (calls_made, 48 * calls_made), name


def test_a_profile_knows_which_calls_led_to_an_op(tmp_path):
    def inner(x):
        return x * 2

    def outer(x):
        return inner(x) + inner(x)

    with plugrad.profiler.profile(with_stack=True) as prof:
        outer(plugrad.ones(3))
    mul = next(event for event in prof.events() if event.name == "aten::mul")
    assert [call.rpartition(" ")[2] for call in mul.stack[:2]] == ["inner", "outer"] and __file__ in mul.stack[0]
    assert mul.time_range.elapsed_us() == pytest.approx(mul.cpu_time_total, abs=1e-3) and mul.cpu_time_str.endswith("s")
    counts = {event.stack[0].rpartition(" ")[2]: event.count for event in prof.key_averages(group_by_stack_n=1)
              if event.key == "aten::mul"}  # fmt: skip
    assert counts == {"inner": 2} and "inner" in prof.key_averages(group_by_stack_n=1).table()
    mul.end_ns = mul.start_ns + 10**9
    prof.export_stacks(tmp_path / "stacks.txt")
    lines = [line.rsplit(" ", 1) for line in (tmp_path / "stacks.txt").read_text().splitlines()]
    ((path, microseconds),) = [line for line in lines if line[0].endswith("_inner;aten::mul")]
    assert int(microseconds) >= 10**6 and "_outer;" in path
    prof.export_chrome_trace(tmp_path / "trace.json.gz")
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert any("inner" in row["args"]["Call stack"] for row in json.load(file)["traceEvents"])
    with plugrad.profiler.profile() as prof, pytest.raises(ValueError, match="with_stack=True"):
        prof.export_stacks(tmp_path / "stacks.txt")


def test_ops_that_raise_and_profiles_that_are_off():
    with plugrad.autograd.profiler.profile() as prof:
        with pytest.raises(RuntimeError):
            plugrad.ones(2, 3) @ plugrad.ones(2, 3)
        plugrad.ones(1).exp()
    assert [event.key for event in prof.key_averages()].count("aten::exp") == 1
    with plugrad.autograd.profiler.profile(enabled=False) as prof:
        plugrad.ones(1)
    assert prof.events() == [] and str(prof.total_average()).endswith("count=0>")

    @plugrad.profiler.record_function("named")
    def named():
        return plugrad.ones(1)

    with plugrad.profiler.profile() as prof:
        named()
        named()
    assert {event.key: event.count for event in prof.key_averages()}["named"] == 2


# ------------------------------------------------------------------------------------------- hub, processes, helpers


def test_hub_loads_from_a_folder_and_downloads_no_code(tmp_path):
    (tmp_path / "sizes.py").write_text("SIZE = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['numpy']\nimport sizes\nfrom plugrad import nn\n\n"
        'def model(width=2):\n    """A layer."""\n    return nn.Linear(width, sizes.SIZE)\n'
    )
    hub, folder = plugrad.hub, str(tmp_path)
    assert hub.load(folder, "model", width=5, source="local").weight.shape == (3, 5)
    assert "model" in hub.list(folder, source="local") and hub.help(folder, "model", source="local") == "A layer."
    with pytest.raises(NotImplementedError, match="downloads no code"):
        hub.load("pytorch/vision", "resnet18")
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load(folder, "nothing", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(folder, "model", source="elsewhere")
    with pytest.raises(OSError, match="weights.pt"):
        hub.load_state_dict_from_url((tmp_path / "elsewhere" / "weights.pt").as_uri(), model_dir=folder)
    assert not (tmp_path / "weights.pt").exists()
    plugrad.save({"a": plugrad.ones(1)}, tmp_path / "weights.pt")
    assert hub.load_state_dict_from_url("https://example.org/weights.pt?x=1", model_dir=folder)["a"] == 1
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(folder, "model", source="local")


def _check_rank(rank, base):
    if rank + base == 4:
        raise ValueError("four")


def test_processes_bring_their_errors_back():
    processes = plugrad.multiprocessing
    assert processes.start_processes(_check_rank, (1,), nprocs=2, start_method="fork") is None
    with pytest.raises(processes.ProcessRaisedException, match="(?s)Process 1 .*ValueError: four"):
        processes.start_processes(_check_rank, (3,), nprocs=2, start_method="fork")


def test_small_helpers():
    helpers = plugrad.nn.modules.utils
    assert helpers._pair(3) == (3, 3) and helpers._triple([1, 2, 3]) == (1, 2, 3) and helpers._ntuple(1)(2) == (2,)
    assert helpers._reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    assert helpers._list_with_default([None, 5], [7, 8, 9]) == [8, 5]
    parts = [plugrad.ones(2, 3), plugrad.zeros(4)]
    flat = plugrad._utils._flatten_dense_tensors(parts)
    assert [one.shape for one in plugrad._utils._unflatten_dense_tensors(flat, parts)] == [(2, 3), (4,)]
    try:
        raise KeyError("key")
    except KeyError:
        wrapper = plugrad._utils.ExceptionWrapper(where="in a test")
    with pytest.raises(RuntimeError, match="(?s)Caught KeyError in a test.*KeyError: 'key'"):
        wrapper.reraise()
    state = nn.ModuleDict({"module": nn.Linear(2, 2)}).state_dict()
    helpers.consume_prefix_in_state_dict_if_present(state, "module.")
    assert [*state] == ["weight", "bias"]
    nn.Linear(2, 2).load_state_dict(state)


def test_devices_without_accelerator():
    accelerator = plugrad.accelerator
    assert accelerator.is_available() is plugrad.cuda.is_available()
    assert (accelerator.current_accelerator() is None) is not accelerator.is_available()
    assert plugrad.version.cuda is None and "NumPy" in plugrad.__config__.show()


# ------------------------------------------------------------------------------------------------ switches, trust


def test_switches_are_modules_and_flags_give_back_what_was():
    import plugrad.backends.cuda
    import plugrad.backends.cudnn as cudnn

    assert plugrad.backends.cudnn is cudnn and plugrad.backends.cuda.matmul.allow_tf32 is False
    cudnn.benchmark = True
    with pytest.raises(KeyError), cudnn.flags(enabled=False, benchmark=False, deterministic=False):
        assert not cudnn.enabled and not cudnn.benchmark and not cudnn.deterministic
        raise KeyError
    assert cudnn.enabled and cudnn.benchmark and cudnn.deterministic and cudnn.allow_tf32
    with pytest.raises(TypeError, match="no switch 'fast'"), cudnn.flags(fast=True):
        pass
    assert cudnn.set_flags(benchmark=False, enabled=None) == (True, True) and not cudnn.benchmark
    assert (cudnn.version() is None) is not cudnn.is_available() and not cudnn.is_acceptable(plugrad.ones(1))
    attention = plugrad.backends.cuda
    with attention.sdp_kernel(enable_flash=False):
        assert not attention.flash_sdp_enabled() and attention.math_sdp_enabled()
    assert attention.flash_sdp_enabled()
    attention.enable_flash_sdp(True)


class Trusted(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.tags = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), {"a", "b"}


class Attacker:
    def __reduce__(self):
        return print, ("run",)


def _saved(value):
    file = io.BytesIO()
    plugrad.save(value, file)
    file.seek(0)
    return file


def test_what_a_program_trusts_is_loaded_and_nothing_else(capsys):
    trust, model = plugrad.serialization, Trusted()
    classes = [Trusted, nn.Sequential, nn.Linear, nn.ReLU]
    with pytest.raises(trust.CheckpointError, match="weights_only=False"):
        plugrad.load(_saved(model))
    with trust.safe_globals(classes):
        loaded = plugrad.load(_saved(model))
        assert trust.get_safe_globals() == classes
        for other in (Attacker(), [model, Attacker()], print, io.StringIO):
            with pytest.raises(trust.CheckpointError, match="is not trusted: torch.serialization.add_safe_globals"):
                plugrad.load(_saved(other))
    assert trust.get_safe_globals() == [] and capsys.readouterr().out == ""
    assert type(loaded) is Trusted and loaded.tags == {"a", "b"}
    assert all(p.equal(q) for p, q in zip(loaded.parameters(), model.parameters(), strict=True))
    hostile = pickle.PROTO + b"\x02" + f"c{Trusted.__module__}\nTrusted\n".encode() + b"N}X\x01\x00\x00\x00xNs\x86b."
    with trust.safe_globals(classes), pytest.raises(trust.CheckpointError, match="change a class"):
        unpickler()(io.BytesIO(hostile)).load()
    with trust.safe_globals(classes[1:]), pytest.raises(trust.CheckpointError, match="Trusted, which is not trusted"):
        plugrad.load(_saved(model))
    trust.add_safe_globals([(Trusted, f"{Trusted.__module__}.Attacker")])
    trust.clear_safe_globals()
    assert trust.get_safe_globals() == []
    with pytest.raises(TypeError, match="classes, functions or pairs"):
        trust.add_safe_globals([3])


def test_what_programs_take_from_inside_of_pytorchs_modules():
    from plugrad.nn.modules.linear import NonDynamicallyQuantizableLinear
    from plugrad.nn.modules.transformer import Dropout, F, _get_activation_fn, _get_clones

    assert type(nn.MultiheadAttention(4, 2).out_proj) is NonDynamicallyQuantizableLinear and Dropout is nn.Dropout
    clones = _get_clones(nn.Linear(2, 2), 3)
    assert len(clones) == 3 and clones[0].weight is not clones[1].weight and clones[0].weight.equal(clones[1].weight)
    assert _get_activation_fn("gelu") is F.gelu and plugrad.arange(8).view(dtype=plugrad.uint8).shape == (64,)


def test_a_tensor_over_a_storage():
    storage = plugrad.arange(4, dtype=plugrad.int16).untyped_storage()
    over = plugrad.asarray(storage, dtype=plugrad.uint8)
    over[0] = 7
    assert storage[0] == 7 and plugrad.asarray(storage, dtype=plugrad.int16).tolist() == [7, 1, 2, 3]
    assert plugrad.asarray(storage[2:6], dtype=plugrad.int16).tolist() == [1, 2]


def test_reductions_have_the_numbers_and_older_flags_of_pytorch():
    pytest.importorskip("torch")
    ours, theirs = (importlib.import_module(f"{name}.nn._reduction") for name in ("plugrad", "torch"))
    for reduction in ("none", "mean", "sum"):
        assert ours.get_enum(reduction) == theirs.get_enum(reduction)
    with pytest.raises(ValueError, match="not a valid value"):
        ours.get_enum("max")
    with pytest.warns(UserWarning, match="elementwise_mean"):
        assert ours.get_enum("elementwise_mean") == 1
    for flags in [(a, b) for a in (None, False, True) for b in (None, False, True)]:
        silent = [one.legacy_get_string(*flags, emit_warning=False) for one in (ours, theirs)]
        assert silent[0] == silent[1]
        with pytest.warns(UserWarning, match="size_average"):
            assert ours.legacy_get_enum(*flags) == theirs.legacy_get_enum(*flags, emit_warning=False)


@pytest.mark.parametrize("name", ["not a device", "cpu1", "1cpu", "cp-u", "cuda:x", "cpu:1:2", "abc", "cpu_x"])
def test_wrong_names_of_devices_are_called_what_pytorch_calls_them(name):
    torch = pytest.importorskip("torch")
    for call in ("device", "amp.is_autocast_available", "autocast"):
        first = []
        for T in (torch, plugrad):
            function = T
            for part in call.split("."):
                function = getattr(function, part)
            try:
                first.append(repr(function(name)) and "")
            except RuntimeError as error:
                first.append(str(error)[:14])
        assert first[0] == first[1], call


def test_memory_of_what_kernels_lay_out_in_their_own_order():
    """Saved values may stand in another order than they count as having; arrays from outside may have gaps."""
    sizes = []

    def pack(tensor):
        sizes.append((tensor.numel() * 4, tensor.untyped_storage().nbytes()))
        return tensor

    with plugrad.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        y = plugrad.nn.Conv2d(1, 8, 3)(plugrad.ones(4, 1, 9, 9)).relu().permute(1, 0, 3, 2)
        (y * y).sum()
    assert len(sizes) > 3 and all(size == held for size, held in sizes)
    array = numpy.arange(24, dtype="int16").reshape(4, 6)
    for view in (array[::2, ::3], array[::-1, ::-2], array[:, ::-1].T):
        outside = type("Outside", (), {"__array_interface__": view.__array_interface__})()
        tensor = plugrad.from_numpy(numpy.asarray(outside))
        storage = tensor.untyped_storage()
        low, high = numpy.lib.array_utils.byte_bounds(view)
        assert (storage.data_ptr(), storage.nbytes()) == (low, high - low)
