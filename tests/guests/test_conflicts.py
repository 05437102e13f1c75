"""Several plugins that bring one name: loud, the same whatever the order, and the user's choice."""

import itertools
import json

import pytest

from support.distribution_builder import (
    DISTRIBUTIONS,
    build,
    command,
    device_plugin,
    kernel_plugin,
    lines,
    op_module,
    output,
    run,
)

CLASH = DISTRIBUTIONS / "clash_a", DISTRIBUTIONS / "clash_b"
ORDERS = [CLASH, CLASH[::-1]]


# -------------------------------------------------------------------------------------------- names of third parties


@pytest.mark.parametrize("paths", ORDERS)
def test_a_clash_names_both_and_runs_neither(paths):
    program = """
import sys, plugrad
for use in (lambda: plugrad.twice, lambda: plugrad.ones(1).twice(), lambda: plugrad.registry.op("twice")):
    try:
        use()
    except plugrad.registry.AmbiguousNameError as error:
        for part in ("plugrad-clash-a:twice and plugrad-clash-b:twice", "PLUGRAD_PREFER=twice=plugrad-clash-a",
                     "plugrad prefer twice plugrad-clash-a", "plugrad.registry.prefer('twice', 'plugrad-clash-a')"):
            assert part in str(error), error
    else:
        raise SystemExit("no error")
assert not {"plugrad_clash_a", "plugrad_clash_b"} & set(sys.modules)
assert plugrad.ops.clash_b.twice(plugrad.ones(1)).item() == 2 and "plugrad_clash_a" not in sys.modules
assert not hasattr(plugrad, "twice")
plugrad.registry.prefer("twice", "plugrad-clash-a")
assert plugrad.twice.__module__ == "plugrad_clash_a" and plugrad.ones(1).twice().item() == 2
assert plugrad.Tensor.twice.__module__ == "plugrad_clash_a"
plugrad.registry.prefer("twice", "plugrad_clash.b")
assert plugrad.twice.__module__ == plugrad.Tensor.twice.__module__ == "plugrad_clash_b"
plugrad.registry.prefer("twice", "plugrad-clash-a:twice")
assert plugrad.twice.__module__ == "plugrad_clash_a"
plugrad.registry.prefer("twice", None)
assert not hasattr(plugrad, "twice") and not hasattr(plugrad.ones(1), "twice")
plugrad.registry.prefer("twice", "plugrad-nobody")
try:
    plugrad.twice
except AttributeError as error:
    assert "plugrad.registry.prefer prefers 'plugrad-nobody', which is none of them" in str(error), error
"""
    output(program, *paths)


@pytest.mark.parametrize("paths", ORDERS)
@pytest.mark.parametrize("first", ["", "import plugrad_clash_b; ", "import plugrad_clash_a, plugrad_clash_b; "])
def test_neither_the_path_nor_an_import_decides(paths, first):
    done = run(f"{first}import plugrad; {first}plugrad.ones(1).twice_()", *paths)
    assert done.returncode == 1
    assert "'Tensor.twice' is brought by plugrad-clash-a:twice and plugrad-clash-b:twice" in done.stderr


@pytest.mark.parametrize("winner", ["a", "b"])
def test_the_user_settles_a_clash(tmp_path, winner):
    program = "import sys, plugrad; print(plugrad.twice.__module__, *(m for m in sys.modules if 'clash' in m))"
    module = f"plugrad_clash_{winner}"
    assert output(program, *CLASH, PLUGRAD_PREFER=f"twice=plugrad-clash-{winner}").split() == [module, module]
    (tmp_path / "pyproject.toml").write_text(f'[tool.plugrad]\nprefer = {{twice = "plugrad_clash_{winner}"}}\n')
    assert output(program, *CLASH, cwd=tmp_path).split() == [module, module]


def test_which_preference_goes_first(tmp_path):
    project, config = tmp_path / "pyproject.toml", tmp_path / "config" / "plugrad" / "config.toml"
    config.parent.mkdir(parents=True)
    program = "import plugrad; print(plugrad.twice.__module__[-1], plugrad.registry.preferences.preference('twice')[1])"
    options = {"cwd": tmp_path, "XDG_CONFIG_HOME": str(tmp_path / "config")}
    config.write_text('[prefer]\ntwice = "plugrad-clash-a"\n')
    assert output(program, *CLASH, **options).split() == ["a", str(config)]
    project.write_text('[tool.plugrad.prefer]\ntwice = "plugrad-clash-b"\n')
    assert output(program, *CLASH, **options).split() == ["b", str(project)]
    options["PLUGRAD_PREFER"] = "other=x, twice = plugrad_clash_a"
    assert output(program, *CLASH, **options) == "a the environment\n"
    said = "import plugrad; plugrad.registry.prefer('twice', 'plugrad-clash-b'); "
    assert output(said + program, *CLASH, **options) == "b plugrad.registry.prefer\n"
    # In one place the dotted name goes first.
    project.write_text('[tool.plugrad.prefer]\ntwice = "plugrad-clash-b"\n"Tensor.twice" = "plugrad-clash-a"\n')
    del options["PLUGRAD_PREFER"]
    both = "import plugrad; print(plugrad.twice.__module__[-1], plugrad.Tensor.twice.__module__[-1])"
    assert output(both, *CLASH, **options) == "b a\n"


@pytest.mark.parametrize(
    "text, message",
    [
        ("[tool.plugrad\nprefer = 3", "can't be read, so its settings for plugrad don't count"),
        ("[tool.plugrad]\nprefer = 3", 'prefer in {file} must be {{NAME = "DISTRIBUTION"}}, not 3'),
        ("[tool.plugrad]\nprefer = {a = 3}", "prefer in {file} must be"),
        ("[tool]\nplugrad = 'prefer'", "plugrad in {file} must be a table, not 'prefer'"),
        ("[tool.plugrad]\nblock = 'swish'", "block in {file} must be a list such as"),
    ],
)
def test_wrong_settings_cost_a_line(tmp_path, text, message):
    file = tmp_path / "pyproject.toml"
    file.write_text(text)
    done = run("import plugrad; plugrad.ones(1); print(hasattr(plugrad, 'twice'))", *CLASH, cwd=tmp_path)
    assert done.returncode == 0 and done.stdout == "False\n"
    (line,) = lines(done.stderr)
    assert message.format(file=file) in line
    done = run("import plugrad", *CLASH, cwd=tmp_path / "..", PLUGRAD_PREFER="twice")
    assert "PLUGRAD_PREFER is a list of NAME=DISTRIBUTION" in done.stderr


def test_equal_entry_point_names_and_namespaces(tmp_path):
    build(tmp_path, "foo", {"plugrad.ops": {"main": "foo_main"}}, foo_main=op_module("main"))
    build(tmp_path, "plugrad-foo", {"plugrad.ops": {"main": "foo_too"}, "plugrad.layers": {"main": "foo_layer"}},
          foo_too=op_module("main", "input + 2"), foo_layer="raise ValueError")  # fmt: skip
    program = """
import plugrad
names = [name for name in plugrad.registry.loader.plugins if "foo" in name]
assert sorted(names) == ["foo:main", "plugrad-foo:main", "plugrad-foo:ops.main"]
x = plugrad.zeros(1)
assert plugrad.ops.foo.main(x).item() == 1 and plugrad.ops.plugrad_foo.main(x).item() == 2
try:
    plugrad.main
except plugrad.registry.AmbiguousNameError as error:
    assert "'main' is brought by foo:main and plugrad-foo:ops.main" in str(error), error
"""
    output(program, tmp_path)


OPTIMIZER = """
from plugrad.extend import Optimizer, hookimpl

class Clashing(Optimizer):
    def update(self, xp, p, g, state, group):
        pass

@hookimpl
def plugrad_optimizers():
    return [Clashing]
"""


@pytest.mark.parametrize("group", ["plugrad", "plugrad.optimizers"])
def test_classes_clash_as_ops_do(tmp_path, group):
    for name in "ab":
        build(tmp_path, f"plugrad-{name}", {group: {"Clashing": f"plugin_{name}"}}, **{f"plugin_{name}": OPTIMIZER})
    program = "import plugrad; print(plugrad.optim.Clashing.__module__)"
    assert "'optim.Clashing' is brought by plugrad-a:Clashing and plugrad-b:Clashing" in run(program, tmp_path).stderr
    assert output(program, tmp_path, PLUGRAD_PREFER="optim.Clashing=plugrad-b") == "plugin_b\n"


# ---------------------------------------------------------------------------------------------------- plugrad's own


def test_a_third_party_does_not_replace_a_builtin(tmp_path):
    points = {"plugrad.ops": {"relu": "plugrad_relu"}}
    build(tmp_path, "plugrad-relu", points, plugrad_relu=op_module("relu"))
    program = """
import sys, plugrad
x = plugrad.tensor([-1.0])
assert plugrad.relu(x).item() == x.relu().item() == plugrad.nn.functional.relu(x).item() == 0
assert "plugrad_relu" not in sys.modules
assert plugrad.ops.relu.relu(x).item() == 0 and plugrad.ops.relu.relu.__op__.provider.builtin is False
assert plugrad.relu.__op__.provider.builtin and x.clone().relu_().item() == 0
from plugrad.catalog.rows import shadowed
assert shadowed(plugrad.registry.loader.plugins["plugrad-relu:relu"]) == ["relu", "Tensor.relu"]
"""
    output(program, tmp_path)
    assert "override=True" in run("import plugrad; plugrad.relu", tmp_path, PLUGRAD_PREFER="relu=plugrad-relu").stderr


def test_replacing_a_builtin_takes_an_override_and_a_preference(tmp_path):
    points = {"plugrad": {"relu": "plugrad_relu"}}
    build(tmp_path, "plugrad-relu", points, plugrad_relu=op_module("relu", options="override=True"))
    program = "import plugrad; print(plugrad.relu(plugrad.ones(1)).item(), plugrad.ones(1).relu().item())"
    assert output(program, tmp_path) == "1.0 1.0\n"
    assert output(program, tmp_path, PLUGRAD_PREFER="relu=plugrad-relu") == "2.0 2.0\n"


ADD = """
from plugrad.extend import Op, binary, collect, hookimpl

@binary(override=True)
def add(xp, input, other, *, alpha=1):
    return input + other + 100

@add.vjp("input", "other")
def add_vjp(F, g):
    return g, g

@hookimpl
def plugrad_ops():
    return collect(Op, globals())
"""


def test_operators_and_in_place_forms_follow_the_preference(tmp_path):
    build(tmp_path, "plugrad-add", {"plugrad.ops": {"add": "plugrad_add"}}, plugrad_add=ADD)
    program = """
import plugrad
def results():
    x = plugrad.ones(1)
    return [y.item() for y in (x + 1, 1 + x, x.add(1), plugrad.add(x, 1), x.clone().add_(1))]
ours, theirs = [2.0] * 5, [102.0] * 5
assert results() == START
plugrad.registry.prefer("add", "plugrad-add")
assert results() == theirs, results()
plugrad.registry.prefer("add", "plugrad")
assert results() == ours, results()
"""
    output(program.replace("START", "ours"), tmp_path)
    output(program.replace("START", "theirs"), tmp_path, PLUGRAD_PREFER="add=plugrad-add")


def test_names_of_the_core_are_nobody_elses(tmp_path):
    points = {"plugrad.ops": {"tensor": "plugin_t", "backward": "plugin_t"}}
    source = op_module("tensor") + op_module("backward").replace("@hookimpl", "#").replace("def plugrad_ops", "def no")
    build(tmp_path, "plugrad-t", points, plugin_t=source)
    program = """
import plugrad
assert plugrad.tensor([2.0]).item() == 2 and plugrad.Tensor.backward.__module__.startswith("plugrad.")
assert plugrad.ops.t.tensor(plugrad.ones(1)).item() == 2 == plugrad.backward(plugrad.ones(1)).item()
from plugrad.catalog.rows import shadowed
assert shadowed(plugrad.registry.loader.plugins["plugrad-t:backward"]) == ["tensor", "Tensor.backward"]
"""
    output(program, tmp_path)
    text = command("why", "tensor", paths=[tmp_path]).stdout
    assert "plugrad.tensor: plugrad's core defines it itself" in text and "also brought by plugrad-t:backward" in text


# ---------------------------------------------------------------------------------------------------- kernels

TAN = "import plugrad; print(plugrad.zeros(1).tan().item(), plugrad.tan(plugrad.zeros(1)).item())"


@pytest.mark.parametrize("group", ["plugrad", "plugrad.kernels"])
def test_a_kernel_for_an_op_of_ours(tmp_path, group):
    assert output(TAN, kernel_plugin(tmp_path, "k", 7, group)) == "7.0 7.0\n"
    in_place = "import plugrad; print(plugrad.zeros(1).tan_().item())"
    assert output(in_place, tmp_path / "k") == "7.0\n"


def test_a_broken_kernel_leaves_the_op_as_it_was(tmp_path):
    build(tmp_path, "plugrad-k", {"plugrad.kernels": {"tan": "plugrad_k"}}, plugrad_k="raise ValueError")
    done = run(TAN, tmp_path)
    assert done.stdout == "0.0 0.0\n" and len(lines(done.stderr)) == 1


@pytest.mark.parametrize("groups", list(itertools.product(["plugrad", "plugrad.kernels"], repeat=2)))
def test_of_two_kernels_neither_runs_until_one_is_preferred(tmp_path, groups):
    for name, value, group in zip("ab", (7, 8), groups):
        kernel_plugin(tmp_path, name, value, group)
    both = tmp_path / "a", tmp_path / "b"
    for paths in (both, both[::-1]):
        done = run(TAN, *paths)
        assert done.stdout == "0.0 0.0\n"
        (line,) = lines(done.stderr)
        for part in ("plugrad-a:", " and plugrad-b:", "plugrad prefer kernels.cpu.tan plugrad-a"):
            assert part in line, line
        for choice, value in (("plugrad-a", 7), ("plugrad-b", 8), ("plugrad", 0)):
            chosen = output(TAN, *paths, PLUGRAD_PREFER=f"kernels.cpu.tan={choice}")
            assert chosen == f"{value}.0 {value}.0\n"
        # A bare name is about the op's public names, not about its kernels.
        assert run(TAN, *paths, PLUGRAD_PREFER="tan=plugrad-a").stdout == "0.0 0.0\n"
    changing = """
import plugrad
x = plugrad.zeros(1)
for choice, value in (("plugrad-a", 7), ("plugrad-b", 8), (None, 0), ("plugrad-a", 7)):
    plugrad.registry.prefer("kernels.cpu.tan", choice)
    assert [x.tan().item(), plugrad.tan(x).item(), x.clone().tan_().item()] == [value] * 3, (choice, x.tan())
"""
    done = run(changing, *both)
    assert done.returncode == 0, done.stderr


def test_an_ops_own_kernel_is_replaced_by_both_words_only(tmp_path):
    program = "import plugrad; print(plugrad.relu(plugrad.zeros(1)).item())"
    timid = kernel_plugin(tmp_path, "timid", 7, op="relu")
    bold = kernel_plugin(tmp_path, "bold", 8, op="relu", override=True)
    assert output(program, timid, bold) == "0.0\n"
    done = run(program, timid, bold, PLUGRAD_PREFER="kernels.cpu.relu=plugrad-timid")
    assert done.stdout == "0.0\n" and "its kernel does not say override=True" in done.stderr
    assert output(program, timid, bold, PLUGRAD_PREFER="kernels.cpu.relu=plugrad-bold") == "8.0\n"
    listed = (
        "import plugrad; plugrad.relu; from plugrad.catalog.rows import shadowed\n"
        "print(shadowed(plugrad.registry.plugins['plugrad-timid:relu']))"
    )
    assert output(listed, timid, bold) == "['kernels.cpu.relu']\n"


def test_a_kernel_of_ours_that_a_projects_file_replaces_is_told(tmp_path):
    relu = "import plugrad; print(plugrad.relu(plugrad.zeros(1)).item())"
    bold = kernel_plugin(tmp_path, "bold", 8, op="relu", override=True)
    rivals = [kernel_plugin(tmp_path, name, value) for name, value in (("a", 7), ("b", 9))]
    prefer = '[tool.plugrad.prefer]\n"kernels.cpu.relu" = "plugrad-bold"\n"kernels.cpu.tan" = "plugrad-b"\n'
    (tmp_path / "pyproject.toml").write_text(prefer)
    for program, paths, kernel, value in ((relu, [bold], "relu", "8.0"), (TAN, rivals, "tan", "9.0 9.0")):
        done = run(program, *paths, cwd=tmp_path)
        assert done.stdout == f"{value}\n"
        (line,) = [line for line in lines(done.stderr) if f"kernels.cpu.{kernel} is that of plugrad-b" in line]
        assert "in place of plugrad's own, preferred by" in line and "pyproject.toml" in line
    assert output(relu, bold, PLUGRAD_PREFER="kernels.cpu.relu=plugrad-bold", cwd=tmp_path) == "8.0\n"


# ---------------------------------------------------------------------------------------------------- backends


def test_devices_side_by_side(tmp_path):
    paths = [
        device_plugin(tmp_path, "one", "one"),
        device_plugin(tmp_path, "two", "two"),
        device_plugin(tmp_path, "off", "off", "no such card in this machine"),
        build(tmp_path / "bad", "plugrad-bad", {"plugrad.backends": {"bad": "plugin_bad"}}, plugin_bad="import gone"),
    ]
    program = """
import sys, plugrad as torch
assert not any(name.startswith("plugin_") for name in sys.modules)
x = torch.ones(2, device="one")
assert (x + x).tolist() == [2, 2] and x.device.type == "one" and "plugin_two" not in sys.modules
assert torch.ones(2, device="two").sum().item() == 2

def refused(device):
    try:
        torch.ones(1, device=device)
    except (RuntimeError, ImportError) as error:
        return f"{type(error).__name__}: {error}"

assert refused("off") == "RuntimeError: device 'off' can't be used here: no such card in this machine"
assert "plugin plugrad-bad:bad 1.0 failed at import: ModuleNotFoundError: No module named 'gone'" in refused("bad")
assert "Expected one of bad, cpu, cuda, meta, off, one, two device type" in refused("onne")
assert "several accelerators here, one and two: write device='one:0'" in refused(0), refused(0)
torch.backends.set_accelerator("two")
assert torch.backends.accelerator() == "two" and torch.ones(1, device=0).device.type == "two"
torch.backends.set_accelerator(None)
torch.set_default_device("one")
assert torch.zeros(1).device.type == "one"
"""
    output(program, *paths)
    chosen = "import plugrad; print(plugrad.backends.accelerator())"
    assert output(chosen, *paths[1:]) == "two\n"
    assert output(chosen, *paths, PLUGRAD_ACCELERATOR="one") == "one\n"
    unasked = {row["name"]: row["state"] for row in json.loads(command("backends", "--json", paths=paths).stdout)}
    assert unasked["cpu"] == "available" and unasked["one"] == unasked["bad"] == "not loaded"
    rows = {row["name"]: row for row in json.loads(command("backends", "--load", "--json", paths=paths).stdout)}
    assert rows["one"]["state"] == "available" and rows["off"]["reason"] == "no such card in this machine"
    assert "ModuleNotFoundError" in rows["bad"]["reason"] and rows["two"]["provider"] == "plugrad-two:two"


@pytest.mark.parametrize(
    ("method", "code", "said"),
    [
        ("available", "raise SystemExit(9)", "RuntimeError: device 'odd' can't be used here: SystemExit: 9"),
        ("available", "return True", "RuntimeError: device 'odd' can't be used here: its available()"),
        ("__init__", "raise SystemExit(9)", "PluginLoadError: the backend 'odd' of plugrad-odd:odd can't be made"),
    ],
)
def test_a_backend_that_ends_the_program_or_lies_is_a_reason(tmp_path, method, code, said):
    folder = device_plugin(tmp_path, "odd", "odd")
    file = folder / "plugin_odd.py"
    file.write_text(f"{file.read_text()}\ndef _odd(self):\n    {code}\nDeviceOdd.{method} = _odd\n")
    program = """
import plugrad
for ask in (lambda: plugrad.ones(1, device="odd"), lambda: plugrad.ones(1, device=0)):
    try:
        ask()
    except (RuntimeError, ImportError) as error:
        print(f"{type(error).__name__}: {error}")
"""
    one, number = output(program, folder).splitlines()
    assert one.startswith(said) and number.startswith("RuntimeError") and "odd" in number
    (row,) = [row for row in json.loads(command("backends", "--load", "--json", paths=[folder]).stdout)
              if row["name"] == "odd"]  # fmt: skip
    assert row["state"] == "not available" and row["reason"] in said + row["reason"]


@pytest.mark.parametrize("group", ["plugrad", "plugrad.backends"])
def test_two_backends_with_one_device_name(tmp_path, group):
    both = device_plugin(tmp_path, "a", "npu", group=group), device_plugin(tmp_path, "b", "npu", group=group)
    program = "import plugrad; print(type(plugrad.ones(1, device='npu').device.backend).__name__)"
    for paths in (both, both[::-1]):
        message = "'backends.npu' is brought by plugrad-a:npu and plugrad-b:npu"
        error = run(program, *paths).stderr
        assert message in error and "plugrad prefer backends.npu plugrad-a" in error
        for choice in "ab":
            expected = f"Device{choice.upper()}\n"
            assert output(program, *paths, PLUGRAD_PREFER=f"backends.npu=plugrad-{choice}") == expected
            assert output(program, *paths, PLUGRAD_PREFER=f"npu=plugrad-{choice}") == expected
    late = "plugrad.registry.prefer('backends.npu', 'plugrad-b')"
    done = run(f"{program}; {late}", *both, PLUGRAD_PREFER="npu=plugrad-a")
    assert "RuntimeError: device 'npu' is in use already" in done.stderr


def test_a_builtin_device_is_replaced_by_both_words_only(tmp_path):
    program = "import plugrad; print(type(plugrad.device('meta').backend).__name__)"
    timid, bold = device_plugin(tmp_path, "timid", "meta"), device_plugin(tmp_path, "bold", "meta", extra="override")
    bold_file = bold / "plugin_bold.py"
    bold_file.write_text(bold_file.read_text().replace("numpy, Array, None", "numpy, Array, True"))
    assert output(program, timid, bold) == "Meta\n"
    assert "override=True" in run(program, timid, bold, PLUGRAD_PREFER="backends.meta=plugrad-timid").stderr
    assert output(program, timid, bold, PLUGRAD_PREFER="backends.meta=plugrad-bold") == "DeviceBold\n"


def test_a_backend_without_arrays_says_so_when_it_is_used():
    """Its class may find the array module only when it is made, so nothing can be said before."""
    import plugrad
    from plugrad.extend import Backend, register

    class Bare(Backend):
        name = "bare"

        def from_numpy(self, array, index=0):
            return array

        def to_numpy(self, array):
            return array

    register(Bare)
    with pytest.raises(TypeError, match="backend 'bare' has no xp and no array_type"):
        plugrad.ones(2, device="bare")
