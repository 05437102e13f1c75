"""Plugins of guests: loaded at first use, quarantined when they fail, never in each other's or plugrad's way."""

import ast
import tomllib

import pytest
from guest_builder import GUESTS, ROOT, build, example, op_module, output, run


def lines(text):
    return [line for line in text.splitlines() if line]


# ---------------------------------------------------------------------------------------------------- guests that work


def test_an_op_and_a_layer_of_a_guest(tmp_path):
    program = """
import sys, plugrad as torch
assert "plugrad_swish" not in sys.modules
assert "swish" in dir(torch) and "Swish" in dir(torch.nn)
assert "plugrad_swish" not in sys.modules
x = torch.tensor([0.5, -1.0], requires_grad=True)
silu = torch.nn.functional.silu(x)
assert torch.allclose(x.swish(), silu) and "plugrad_swish" in sys.modules
assert torch.allclose(torch.swish(x), silu) and torch.allclose(torch.ops.swish.swish(x), silu)
assert x.detach().clone().swish_().tolist() == x.detach().swish().tolist()
torch.swish(x, 2.0).sum().backward()
assert x.grad is not None
layer = torch.nn.Swish(2.0)
assert torch.equal(layer(x), torch.swish(x, 2.0)) and list(layer.state_dict()) == ["beta"]
assert torch.swish.__module__ == "plugrad_swish" and torch.nn.Swish.__module__ == "plugrad_swish"
assert "swish" in dir(torch.ops)
"""
    output(program, *example(tmp_path, "plugrad-swish"))


def test_the_in_place_form_is_enough_to_load_a_guest(tmp_path):
    output("import plugrad; plugrad.ones(2).swish_()", *example(tmp_path, "plugrad-swish"))


def test_an_optimizer_and_a_loss_of_a_guest(tmp_path):
    program = """
import sys, plugrad as torch
from plugrad.optim import Lion
assert "plugrad_lion.loss" not in sys.modules
w = torch.tensor([1.0, -2.0], requires_grad=True)
torch.nn.LogCoshLoss()(w, torch.zeros(2)).backward()
Lion([w], lr=0.5).step()
assert w.tolist() == [0.5, -1.5]
assert torch.nn.functional.log_cosh_loss(w, w).item() == 0
"""
    output(program, *example(tmp_path, "plugrad-lion"))


def test_a_guest_that_is_imported_before_plugrad_registers_itself(tmp_path):
    build(tmp_path, "plugrad-first", {"plugrad": {"first": "plugrad_first"}}, plugrad_first=op_module("first"))
    output("import plugrad_first, plugrad; assert plugrad.first(plugrad.ones(1)).item() == 2", tmp_path)


def test_two_plugins_of_one_distribution_are_told_apart(tmp_path):
    points = {"plugrad.ops": {"one": "guest_one", "two": "guest_two"}}
    build(tmp_path, "plugrad-both", points, guest_one=op_module("one"), guest_two=op_module("two"))
    program = """
import sys, plugrad
plugrad.two(plugrad.ones(1))
assert "guest_one" not in sys.modules
assert plugrad.registry.op("both.one").name == "one" and plugrad.registry.op("one").qualname == "both.one"
"""
    output(program, tmp_path)


def test_a_hidden_op_of_a_guest_serves_its_formulas(tmp_path):
    source = op_module("tripled") + '''
tripled.formulas.clear()

@tripled.vjp
def tripled_vjp(F, g):
    return F.tripled_grad(g)

@unary(at=())
def tripled_grad(xp, g):
    """What the formula of tripled needs."""
    return 3 * g

@tripled_grad.vjp
def tripled_grad_vjp(F, g):
    return 3 * g
'''
    build(tmp_path, "plugrad-tripled", {"plugrad.ops": {"tripled": "plugrad_tripled"}}, plugrad_tripled=source)
    program = """
import plugrad
x = plugrad.ones(2, requires_grad=True)
plugrad.tripled(x).sum().backward()
assert x.grad.tolist() == [3, 3]
(g,) = plugrad.autograd.grad(plugrad.tripled(x).sum(), x, create_graph=True)
assert g.tolist() == [3, 3]
"""
    output(program, tmp_path)


# ---------------------------------------------------------------------------------------------------- guests that fail

BROKEN = """
import plugrad
from plugrad.loader import PluginLoadError
assert plugrad.ones(2).sum().item() == 2
for _ in range(2):
    for use in (lambda: plugrad.broken(plugrad.ones(1)), lambda: plugrad.ones(1).broken()):
        try:
            use()
        except PluginLoadError as error:
            assert isinstance(error.__cause__, KeyError), error.__cause__
            assert "plugrad-broken:broken 1.0 failed at import: KeyError" in str(error), error
        else:
            raise SystemExit("no error")
try:
    plugrad.nothing
except AttributeError as error:
    assert "plugrad-broken:eager" in str(error) and "plugrad plugins" in str(error), error
"""


def test_a_broken_guest_costs_one_line_and_an_error_when_it_is_used():
    done = run(BROKEN, GUESTS / "broken")
    assert done.returncode == 0, done.stderr
    (line,) = lines(done.stderr)
    assert "plugrad-broken:eager 1.0 failed at import: RuntimeError: no luck" in line


@pytest.mark.parametrize("error", ["SystemExit(3)", "GeneratorExit()", "type('Odd', (BaseException,), {})()"])
def test_a_guest_that_ends_the_program_does_not(tmp_path, error):
    build(tmp_path, "plugrad-end", {"plugrad": {"end": "plugrad_end"}}, plugrad_end=f"raise {error}")
    done = run("import plugrad; plugrad.ones(1)", tmp_path)
    assert done.returncode == 0 and len(lines(done.stderr)) == 1, done.stderr


def test_an_exiting_guest():
    done = run("import plugrad; plugrad.ones(1)", GUESTS / "exiting")
    assert done.returncode == 0 and "failed at import: SystemExit: 3" in done.stderr


def test_an_interrupt_is_not_swallowed(tmp_path):
    build(tmp_path, "plugrad-stop", {"plugrad": {"stop": "plugrad_stop"}}, plugrad_stop="raise KeyboardInterrupt")
    assert run("import plugrad", tmp_path).returncode != 0


def test_several_broken_guests_still_cost_one_line():
    (line,) = lines(run("import plugrad", GUESTS / "broken", GUESTS / "exiting").stderr)
    assert "(and 1 more)" in line


def test_strict_mode_raises():
    done = run("import plugrad", GUESTS / "broken", PLUGRAD_STRICT="1")
    assert done.returncode != 0
    assert "PluginLoadError: plugin plugrad-broken:eager 1.0 failed at import: RuntimeError: no luck" in done.stderr


def test_a_manifest_that_lies_is_an_error_of_its_plugin():
    program = """
import plugrad
from plugrad.loader import PluginLoadError
try:
    plugrad.promised
except PluginLoadError as error:
    assert "promises 'promised' in plugrad.ops, but it brings 'brought'" in str(error), error
assert "lying.brought" not in plugrad.registry.ops and not hasattr(plugrad, "brought")
"""
    output(program, GUESTS / "lying")


def test_what_no_entry_point_promises_is_an_error(tmp_path):
    source = op_module("known") + op_module("unknown").replace("@hookimpl", "#").replace("def plugrad_ops", "def more")
    build(tmp_path, "plugrad-more", {"plugrad.ops": {"known": "plugrad_more"}}, plugrad_more=source)
    done = run("import plugrad; plugrad.known", tmp_path)
    assert "it brings 'unknown', which no entry point promises: add `unknown = \"plugrad_more\"`" in done.stderr


FAULTS = {
    "wrong record": ("def plugrad_ops(): return [print]", "the hook plugrad_ops must return Op records"),
    "wrong class": ("def plugrad_layers(): return [int]", "the hook plugrad_layers must return Module classes"),
    "misspelled hook": ("def plugrad_opss(): return []", "unknown hook 'plugrad_opss'; did you mean 'plugrad_ops'?"),
    "nothing iterable": ("def plugrad_ops(): return 3", "failed at hooks: TypeError"),
    "other API": ("def plugrad_ops(): return []\nplugrad_api = (7, 9)", "plugin API 7 to 9, this plugrad has 1"),
    "no gradient": (
        "def plugrad_ops(): return [unary()(thing)]\ndef thing(xp, input): return input",
        "op 'thing' has no gradient: declare it with @thing.vjp, or say vjp=None",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faulty_hooks_are_named_and_nothing_is_committed(tmp_path, fault):
    source, message = FAULTS[fault]
    good = op_module("good").replace("def plugrad_ops", "def plugrad_ops" if fault == "wrong class" else "def good_ops")
    good = good if fault == "wrong class" else good.replace("@hookimpl", "")
    build(tmp_path, "plugrad-f", {"plugrad": {"f": "plugrad_f"}}, plugrad_f=f"{good}\n@hookimpl\n{source}\n")
    done = run("import plugrad; assert not hasattr(plugrad, 'good')", tmp_path)
    assert done.returncode == 0 and message in done.stderr, done.stderr


def test_a_guest_that_uses_its_own_name_while_it_is_imported(tmp_path):
    source = "import plugrad\nplugrad.eager(1)\n" + op_module("eager")
    build(tmp_path, "plugrad-eager", {"plugrad.ops": {"eager": "plugrad_eager"}}, plugrad_eager=source)
    assert "uses a name of its own while it is being imported" in run("import plugrad; plugrad.eager", tmp_path).stderr


def test_damaged_metadata_of_strangers_does_no_harm(tmp_path):
    build(tmp_path, "stranger", {"console_scripts": {"x": "y:z"}})
    (tmp_path / "stranger-1.0.dist-info" / "entry_points.txt").write_text("[plugrad.ops\nno equals sign\n= = =\n[x")
    (tmp_path / "leftover-1.0.dist-info").mkdir()
    (tmp_path / "leftover-1.0.dist-info" / "entry_points.txt").write_bytes(b"[plugrad]\nx = \xff\xfe")
    (tmp_path / "nameless-1.0.dist-info").mkdir()
    (tmp_path / "nameless-1.0.dist-info" / "entry_points.txt").write_text("[plugrad]\nx = nothing")
    output("import plugrad; plugrad.ones(1)", tmp_path)


def test_a_second_copy_of_a_distribution_is_ignored(tmp_path):
    new = build(tmp_path / "new", "plugrad-g", {"plugrad.ops": {"g": "plugrad_g"}}, "2.0", plugrad_g=op_module("g"))
    old = build(tmp_path / "old", "Plugrad_G", {"plugrad.ops": {"g": "plugrad_old", "h": "plugrad_old"}})
    program = "import plugrad; plugrad.g(plugrad.ones(1)); assert not hasattr(plugrad, 'h')"
    output(program + "; print(plugrad.loader.plugins['plugrad-g:g'].version)", new, old)


# ---------------------------------------------------------------------------------------------------- clashes

CLASH = GUESTS / "clash_a", GUESTS / "clash_b"


def test_a_clash_names_both_and_runs_neither():
    program = """
import sys, plugrad
for use in (lambda: plugrad.twice, lambda: plugrad.ones(1).twice(), lambda: plugrad.registry.op("twice")):
    try:
        use()
    except plugrad.registry.AmbiguousNameError as error:
        for part in ("plugrad-clash-a:twice and plugrad-clash-b:twice", "PLUGRAD_PREFER=twice=plugrad-clash-a"):
            assert part in str(error), error
    else:
        raise SystemExit("no error")
assert not {"plugrad_clash_a", "plugrad_clash_b"} & set(sys.modules)
assert plugrad.ops.clash_b.twice(plugrad.ones(1)).item() == 2 and "plugrad_clash_a" not in sys.modules
assert not hasattr(plugrad, "twice")
plugrad.registry.prefer("twice", "plugrad-clash-a")
assert plugrad.twice.__module__ == "plugrad_clash_a" and plugrad.ones(1).twice().item() == 2
plugrad.registry.prefer("twice", "plugrad_clash.b")
assert plugrad.twice.__module__ == "plugrad_clash_b"
"""
    output(program, *CLASH)


@pytest.mark.parametrize("winner", ["a", "b"])
def test_the_user_settles_a_clash(tmp_path, winner):
    program = "import sys, plugrad; print(plugrad.twice.__module__, *(m for m in sys.modules if 'clash' in m))"
    module = f"plugrad_clash_{winner}"
    assert output(program, *CLASH, PLUGRAD_PREFER=f"twice=plugrad-clash-{winner}").split() == [module, module]
    (tmp_path / "pyproject.toml").write_text(f'[tool.plugrad]\nprefer = {{twice = "plugrad_clash_{winner}"}}\n')
    assert output(program, *CLASH, cwd=tmp_path).split() == [module, module]


def test_a_guest_does_not_replace_a_builtin(tmp_path):
    points = {"plugrad.ops": {"relu": "plugrad_relu"}}
    build(tmp_path, "plugrad-relu", points, plugrad_relu=op_module("relu"))
    program = """
import sys, plugrad
x = plugrad.tensor([-1.0])
assert plugrad.relu(x).item() == x.relu().item() == plugrad.nn.functional.relu(x).item() == 0
assert "plugrad_relu" not in sys.modules
assert plugrad.ops.relu.relu(x).item() == 0 and plugrad.ops.relu.relu.__op__.provider.builtin is False
assert plugrad.relu.__op__.provider.builtin and x.clone().relu_().item() == 0
assert plugrad.loader.plugins["plugrad-relu:relu"].shadowed == ["relu", "Tensor.relu"]
"""
    output(program, tmp_path)
    assert "override=True" in run("import plugrad; plugrad.relu", tmp_path, PLUGRAD_PREFER="relu=plugrad-relu").stderr


def test_replacing_a_builtin_takes_the_guests_and_the_users_word(tmp_path):
    points = {"plugrad": {"relu": "plugrad_relu"}}
    build(tmp_path, "plugrad-relu", points, plugrad_relu=op_module("relu", options="override=True"))
    program = "import plugrad; print(plugrad.relu(plugrad.ones(1)).item(), plugrad.ones(1).relu().item())"
    assert output(program, tmp_path) == "1.0 1.0\n"
    assert output(program, tmp_path, PLUGRAD_PREFER="relu=plugrad-relu") == "2.0 2.0\n"


KERNEL = """
from plugrad.extend import hookimpl, kernel_for

@kernel_for("sin", "cpu", override={override})
def sin_cpu(xp, input):
    return 7 + 0 * input

@hookimpl
def plugrad_kernels():
    return [sin_cpu]
"""


@pytest.mark.parametrize("group, name", [("plugrad", "kernels"), ("plugrad.kernels", "sin")])
def test_a_kernel_for_an_op_of_ours(tmp_path, group, name):
    build(tmp_path, "plugrad-k", {group: {name: "plugrad_k"}}, plugrad_k=KERNEL.format(override=False))
    program = "import plugrad; print(plugrad.zeros(1).sin().item(), plugrad.sin(plugrad.zeros(1)).item())"
    assert output(program, tmp_path) == "7.0 7.0\n"


def test_a_broken_kernel_leaves_the_op_as_it_was(tmp_path):
    build(tmp_path, "plugrad-k", {"plugrad.kernels": {"sin": "plugrad_k"}}, plugrad_k="raise ValueError")
    done = run("import plugrad; print(plugrad.zeros(1).sin().item())", tmp_path)
    assert done.stdout == "0.0\n" and len(lines(done.stderr)) == 1


# ---------------------------------------------------------------------------------------------------- blocking, cost


def test_plugins_can_be_kept_out():
    program = """
import plugrad
try:
    plugrad.twice
except AttributeError as error:
    assert "PLUGRAD_PLUGINS does not let it load" in str(error), error
assert "twice" not in dir(plugrad)
"""
    output(program, *CLASH, GUESTS / "broken", PLUGRAD_PLUGINS="")
    chosen = output("import plugrad; print(plugrad.twice.__module__)", *CLASH, PLUGRAD_PLUGINS="Plugrad_Clash.B")
    assert chosen == "plugrad_clash_b\n"


def test_a_hundred_guests_are_not_imported(tmp_path):
    bomb = "raise RuntimeError('imported')"
    for i in range(100):
        points = {"plugrad.ops": {f"op{i}": f"guest{i}"}, "plugrad.optimizers": {f"Opt{i}": f"guest{i}"}}
        build(tmp_path, f"plugrad-guest{i}", points, **{f"guest{i}": bomb})
    output("import sys, plugrad; assert not any(m.startswith('guest') for m in sys.modules)", tmp_path)
    code = "import sys; from plugrad.cli import main; sys.argv = ['plugrad', 'ops', 'op9']; main()"
    done = run(code, tmp_path)
    assert done.returncode == 0 and "plugrad-guest99" in done.stdout and "imported" not in done.stderr


# ---------------------------------------------------------------------------------------------------- layout


def test_the_core_refuses_any_other_name():
    done = run("import core.op", ROOT)
    assert done.returncode != 0
    assert lines(done.stderr)[-1].startswith("ImportError: this package is `plugrad`")


def test_the_listed_packages_are_those_of_the_tree():
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = set()
    for folder, package in (("core", "plugrad"), ("plugins", "plugrad.plugins"), ("cli", "plugrad.cli")):
        for file in (ROOT / folder).rglob("__init__.py"):
            found.add(".".join((package, *file.parent.relative_to(ROOT / folder).parts)))
    assert listed == found


PUBLIC = {"plugrad", "plugrad.nn", "plugrad.nn.functional", "plugrad.extend", "plugrad.optim"}
PLUGIN_FILES = sorted((ROOT / "plugins").rglob("*.py"))


@pytest.mark.parametrize("file", PLUGIN_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_our_plugins_import_only_what_a_guest_has(file):
    for node in ast.walk(ast.parse(file.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        for module in modules:
            if module.partition(".")[0] == "plugrad":
                assert module in PUBLIC or module.startswith("plugrad.plugins"), f"line {node.lineno}: {module}"
            assert module.partition(".")[0] not in ("core", "plugins", "torch"), f"line {node.lineno}: {module}"
