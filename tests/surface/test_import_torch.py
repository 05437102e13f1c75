"""Programs that say `import torch` get plugrad: `plugrad run`, and `install_as_torch` in a process."""

import importlib
import os
import subprocess
import sys

import pytest

import plugrad
from plugrad import as_torch
from plugrad.torch_modules.torch_version import TorchVersion

PLAIN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def python(*arguments, cwd=None):
    """Return the finished process `python ARGUMENTS...`."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=cwd, env=PLAIN)


def run(*arguments, cwd=None):
    """Return the finished process `plugrad run ARGUMENTS...`."""
    return python("-m", "plugrad", "run", *arguments, cwd=cwd)


PROGRAM = """
import multiprocessing, pickle, sys

import torch
import torch.nn.modules.conv
import torch.optim.adam as adam
from torch.autograd.variable import Variable
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data.dataloader import DataLoader

import helper


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 3)


def work(queue):
    import torch
    queue.put((torch is sys.modules["plugrad"], type(torch.ones(2)), torch.ones(2).sum().item(), Net.__module__))


if __name__ == "__main__":
    import plugrad

    assert torch is plugrad and torch.nn is plugrad.nn and torch.nn.modules.conv is plugrad.nn.modules.conv
    assert adam.Adam is torch.optim.Adam and F is torch.nn.functional and issubclass(torch.nn.BatchNorm1d, _BatchNorm)
    assert sys.modules["__main__"].__file__ == __file__ and helper.is_tensor(torch.ones(1))
    again = pickle.loads(pickle.dumps(Net()))
    assert type(again) is Net and type(again.layer) is torch.nn.Linear
    spawn = multiprocessing.get_context("spawn")
    queue = spawn.Queue()
    child = spawn.Process(target=work, args=(queue,))
    child.start()
    print(queue.get(), child.join())
    print(__name__, sys.argv[1:], sys.flags.optimize)
    if "--exit" in sys.argv:
        sys.exit(7)
    F.relu("text")
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "helper.py").write_text("import torch\n\ndef is_tensor(x):\n    return isinstance(x, torch.Tensor)\n")
    path = folder / "program.py"
    path.write_text(PROGRAM)
    return path


def test_classes_have_the_names_of_pytorch_and_pickles_do_not_mention_them(tmp_path):
    names = "for one in (torch.ones(1), torch.nn.Parameter(torch.ones(1)), torch.ones(1).shape): print(type(one))"
    done = run(
        "-c",
        f"import pickle, torch\n{names}\npickle.dump(torch.nn.Linear(1, 1, dtype=torch.float64), open('it', 'wb'))"
        "\npickle.dump([torch.ones(1), torch.ones(1).shape], open('them', 'wb'))",
        cwd=tmp_path,
    )
    prefix = "<class 'torch."
    assert done.stdout.split("\n") == [
        f"{prefix}Tensor'>",
        f"{prefix}nn.parameter.Parameter'>",
        f"{prefix}Size'>",
        "",
    ], done
    there = "import pickle, plugrad; print(pickle.load(open('them', 'rb')), pickle.load(open('it', 'rb')).weight.dtype)"
    done = python("-c", f"import sys; sys.modules['torch'] = None; {there}", cwd=tmp_path)
    assert done.stdout == "[tensor([1.]), torch.Size([1])] torch.float64\n", done.stderr


def test_a_program_runs_as_under_python(program):
    done = run(program, "-x", "--exit", "--help")
    spawned = "(True, <class 'torch.Tensor'>, 2.0, '__mp_main__') None"
    assert (done.stdout, done.stderr) == (f"{spawned}\n__main__ ['-x', '--exit', '--help'] 0\n", "")
    assert done.returncode == 7


def test_tracebacks_show_the_program_alone(program):
    done = run(program.name, cwd=program.parent)
    files = [line.split('"')[1] for line in done.stderr.splitlines() if line.startswith("  File ")]
    assert files == [str(program), "<plugrad op functional_relu>"]
    assert done.stderr.splitlines()[-1].startswith("TypeError: relu(): argument 'input'") and done.returncode == 1


def test_modules_code_and_options_of_python(program):
    code = "import sys, torch; print(torch is sys.modules['plugrad'], sys.argv, sys.flags.dont_write_bytecode)"
    assert run("-B", "-c", code, "-v").stdout == "True ['-c', '-v'] 1\n"
    done = python("-B", "-m", "plugrad", "run", "-m", "program", "--exit", cwd=program.parent)
    assert "__main__ ['--exit'] 0" in done.stdout and done.returncode == 7
    assert run(program.with_name("absent.py")).returncode == 2


def test_where_python_ignores_the_environment_it_refuses(program):
    for done in (run("-I", program), python("-E", "-m", "plugrad", "run", program)):
        assert (done.returncode, done.stdout) == (2, "") and "PYTHONPATH" in done.stderr


IN_A_PROCESS = """
import importlib.metadata, importlib.util, sys
import plugrad

before = plugrad.__version__
plugrad.install_as_torch()
plugrad.install_as_torch()
import torch, torch.autograd.gradcheck, torch.nn.modules

assert torch is plugrad and torch.__version__ >= "2.2" and torch.__version__ >= (2, 0)
assert str(torch.__version__) == f"{importlib.metadata.version('torch')}+plugrad.{before}" == torch.version.__version__
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nothing") is None
assert callable(torch.autograd.gradcheck) and callable(torch.tensor) and isinstance(torch.device("cpu"), torch.device)
for absent in ("torch.tensor", "torch.device", "torch.nothing", "torch.nn.modules.nothing"):
    try:
        __import__(absent)
    except ModuleNotFoundError as error:
        assert error.name == absent
    else:
        raise AssertionError(absent)
assert not [name for name, module in sys.modules.items() if name.startswith("torch.") and module.__name__ == name]
"""


def test_install_as_torch_in_a_process():
    done = python("-c", IN_A_PROCESS)
    assert done.returncode == 0, done.stderr


def test_it_refuses_when_torch_is_there_already(tmp_path):
    (tmp_path / "torch.py").write_text("")
    done = python("-c", "import torch, plugrad; plugrad.install_as_torch()", cwd=tmp_path)
    assert done.stderr.splitlines()[-1].startswith(f"RuntimeError: PyTorch is already imported (from {tmp_path}")


def test_what_python_ignores_is_told_from_what_the_program_is_given():
    refused = [as_torch._ignores_environment(one) for one in ("-I", "-uE", "-u", "-W", "-XI", "-WE", "--help")]
    assert refused == [True, True, False, False, False, False, False]
    assert [*as_torch._options(["-u", "-B", "script.py", "-I"])] == ["-u", "-B"]
    assert [*as_torch._options(["-m", "module", "-I"])] == []


@pytest.mark.parametrize("other", ["1.10", "2.9.1", "2.13", (2, 12), "2.13.0a1", "2.13.0.dev20250101"])
def test_the_version_is_compared_by_its_numbers(other):
    version = TorchVersion("2.13.0+plugrad.0.1.0")
    assert version > other and version >= other and version != other and not version < other and not version <= other


def test_versions_that_are_newer_equal_or_none():
    version = TorchVersion("2.13.0")
    assert version < "2.13.1" and version < (3,) and version == "2.13" and version <= "2.13.0" and version == (2, 13)
    assert version != "today" and hash(version) == hash("2.13.0") and version.split(".") == ["2", "13", "0"]
    assert plugrad.install_as_torch is as_torch.install_as_torch


# What PyTorch's modules have because they import it, or had before.
FORMER = {"Dict", "Iterator", "Optional", "Sized", "Union", "Any", "warnings", "List", "Callable"}
BORROWED = """
_C: Value device
nn.modules.conv: Tensor F Optional _pair torch
nn.modules.activation: Tensor Optional warnings
nn.modules.module: OrderedDict Any Union
nn.functional: math Callable _pair torch
distributions.transforms: _InverseTransform _clipped_sigmoid _sum_rightmost vec_to_tril_matrix Distribution
distributions.multivariate_normal: _standard_normal _batch_mv
distributions.kl: _sum_rightmost Distribution
nn.init: Tensor math warnings
distributions.normal: Tensor broadcast_all math
distributions.categorical: logits_to_probs lazy_property
optim.lbfgs: Tensor torch
optim.adamw: Adam Tensor
autograd.grad_mode: Any torch
utils.checkpoint: Dict Optional
utils.data.sampler: Iterator Sized
utils.data._utils.collate: collate default_collate_fn_map collate_tensor_fn
utils.model_zoo: load_url
signal.windows: hann
""".strip()


def test_what_pytorchs_modules_borrow_can_be_imported_from_there():
    torch_has = pytest.importorskip("torch")
    lines = []
    for row in BORROWED.splitlines():
        module, names = row.split(": ")
        theirs = importlib.import_module(f"{torch_has.__name__}.{module}")
        assert all(hasattr(theirs, name) for name in names.split() if name not in FORMER), row
        lines.append(f"from torch.{module} import {', '.join(names.split())}")
    program = "\n".join([*lines, "import torch.signal.windows", "from torch import math, _VF", "print(math.gcd(4, 6))"])
    done = run("-c", program)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_no_module_borrows_what_pytorch_has_nowhere():
    for home in (plugrad, plugrad.nn, plugrad.optim, plugrad.nn.modules.conv):
        assert not hasattr(home, "no_such_name") and not hasattr(home, "pandas")
    assert not hasattr(plugrad, "Optional")
