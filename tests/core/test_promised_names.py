"""What plugrad's own plugins bring is known without loading them: they are loaded when a name is first used."""

import pathlib
import sys

from plugrad import registry
from plugrad.cli import names_index
from support.distribution_builder import output

ROOT = pathlib.Path(__file__).parents[2]


def test_the_index_is_that_of_the_plugins():
    """Written anew by `python -m plugrad.cli.names_index > plugins/index.py`."""
    index = sys.modules["plugrad.plugins.index"]
    assert index.BRINGS == names_index.rows()
    if (ROOT / "plugins" / "index.py").exists():
        assert (ROOT / "plugins" / "index.py").read_text() == names_index.page()


def run(program: str) -> list:
    return output(program).splitlines()


def test_the_import_loads_none_of_them_and_a_use_only_its_own():
    program = """
import sys
import plugrad as torch
def loaded():
    return sorted(name[16:] for name in sys.modules if name.startswith("plugrad.plugins.") and name.count(".") == 3)
print(loaded())
assert "relu" in torch.registry.ops and "nn.functional.relu" in torch.registry.public and "relu" in dir(torch)
assert len(torch.registry.ops) > 700 and {*torch.registry.ops} >= {"relu", "add"}
print(loaded())
torch.relu
assert "ops.activation" in loaded() and "ops.fourier" not in loaded()
assert len(torch.registry.ops.values()) == len(torch.registry.ops) and "ops.fourier" in loaded()
"""
    assert run(program) == ["[]", "[]"]


def test_what_a_program_puts_in_the_place_of_a_method_stays():
    program = """
import plugrad as torch
x = torch.ones(2)
torch.Tensor.relu = lambda self: "mine"
torch.Tensor.relu_ = lambda self: "mine, too"
torch.nn.functional.gelu = len
print(x.relu(), x.relu_(), torch.nn.functional.gelu(x), torch.nn.functional.silu(x).shape, x.relu(), x.relu_())
"""
    assert run(program) == ["mine mine, too 2 torch.Size([2]) mine mine, too"]


def test_names_that_are_not_there_load_nothing():
    program = """
import sys
import plugrad as torch
print(hasattr(torch, "no_such_op"), hasattr(torch.Tensor, "no_such_method"), torch.registry.ops.get("no_such_op"))
print([name for name in sys.modules if name.startswith("plugrad.plugins.ops.")])
"""
    assert run(program) == ["False False None", "[]"]


def test_threads_may_use_names_for_the_first_time_together():
    program = """
import threading
import plugrad as torch
start, done = threading.Barrier(8), []
def work(number):
    start.wait()
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    (x.tanh() * x.softmax(-1)).cumsum(0).sum().backward()
    done.append(x.grad.norm().item())
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(done), len(set(done)))
"""
    assert run(program) == ["8 1"]


def test_an_interrupted_load_is_repeated():
    program = """
import sys
import plugrad as torch
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "plugrad.plugins.ops.activation":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
try:
    torch.relu
except KeyboardInterrupt:
    print("stopped")
del sys.meta_path[0]
print(torch.relu(torch.tensor([-1.0, 2.0])))
"""
    assert run(program) == ["stopped", "tensor([0., 2.])"]


def test_a_record_is_found_by_its_name_alone():
    assert registry.ops["normalize_affine"] is registry.op("normalize_affine")
    assert registry.ops.get("no_such_op", 5) == 5 and "no_such_op" not in registry.ops


def test_the_order_of_ops_and_names_does_not_depend_on_what_was_used_first():
    program = """
import plugrad as torch
{}
print(*[name for name, _ in torch.registry.ops.items()])
print(*torch.registry.ops)
print(*torch.registry.public)
"""
    first = run(program.format("torch.ones(2)"))
    assert first[0] == first[1] and len(first[0].split()) > 700
    assert run(program.format("torch.fft.fft; torch.tanh; torch.ones(2).sort()")) == first
