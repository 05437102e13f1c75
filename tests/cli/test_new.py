"""`plugrad new`: every kind of package generated, built, installed, listed, used, checked and removed."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from plugrad.cli import new
from support import fresh_environment
from support.command_line import invoke, plain
from support.distribution_builder import EXAMPLES, ROOT, output, run

KINDS = [part for part in new.PARTS if part != "op"]
FAMILIES = {"general" if family == "op" else family: family for family in new.FAMILIES if family != "unary"}
PACKAGES = {  # package: what it brings besides its op
    "op": [], **{kind: [kind] for kind in KINDS}, "all": KINDS, **dict.fromkeys(FAMILIES, ["layer", "init"]),
    "alone": KINDS, "c": ["layer", "init"],
}  # fmt: skip
OPS = {"alone": ["--no-op"], "c": ["--c"]}  # options that say which op a package has

USE = {
    "op": """
x = torch.tensor([0.5, -100.0], requires_grad=True)
y = torch.made_op(x, limit=2.0)
y.sum().backward()
assert torch.allclose(y, 2 * torch.tanh(x / 2)) and x.grad[1] == 0 and torch.equal(x.detach().made_op(2.0), y)
assert torch.equal(x.detach().clone().made_op_(2.0), torch.ops.made_op.made_op(x, 2.0))
assert torch.made_op.__module__ == "plugrad_made_op.op" and "made_op" in dir(torch)
""",
    "c": """
from plugrad import kernels
x = torch.tensor([0.5, -100.0], requires_grad=True)
y = torch.made_c(x, limit=2.0)
y.sum().backward()
assert torch.allclose(y, 2 * torch.tanh(x / 2)) and x.grad[1] == 0 and x.grad.dtype == torch.float32
assert torch.allclose(torch.made_c(x.detach().double(), 2.0), 2 * torch.tanh(x.detach().double() / 2))
if kernels.level() is not None:
    from plugrad_made_c.op import compiled, made_c
    assert compiled("forward", 1) is None or hasattr(made_c.kernels["cpu"], "native")
""",
    "loss": """
a, b = torch.tensor([1.0, 30.0]), torch.zeros(2)
loss = torch.nn.MadeLossLoss(reduction="none", delta=2.0)(a, b)
assert torch.allclose(loss, 4 * (torch.sqrt(1 + (a / 2) ** 2) - 1))
assert torch.equal(torch.nn.functional.made_loss_loss(a, b, delta=2.0, reduction="none"), loss)
""",
    "optimizer": """
w = torch.tensor([1.0, -3.0], requires_grad=True)
optimizer = torch.optim.MadeOptimizerSGD([w], lr=0.25, momentum=0.5)
for _ in range(40):
    optimizer.zero_grad()
    ((w - 0.5) ** 2).sum().backward()
    optimizer.step()
    assert ((4 * w.detach()) % 1 == 0).all()
assert (w - 0.5).abs().max() <= 0.5
""",
    "scheduler": """
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=8.0)
schedule = torch.optim.lr_scheduler.MadeSchedulerLR(optimizer, warmup=4, total=8, floor=0.5)
rates = []
for _ in range(10):
    rates.append(schedule.get_last_lr()[0])
    optimizer.step()
    schedule.step()
assert rates[:5] == [2, 4, 6, 8, 8] and abs(rates[6] - 6) < 1e-12 and rates[8:] == [4, 4]
""",
    "layer": """
layer = torch.nn.MadeLayer(3)
x = torch.randn(5, 3)
assert torch.equal(layer(x), torch.made_layer(x)) and list(layer.state_dict()) == ["log_scale"]
layer(x).sum().backward()
assert layer.log_scale.grad.abs().min() > 0
with torch.no_grad():
    layer.log_scale.fill_(9.0)
assert torch.allclose(layer(x), x, atol=1e-5) and layer.double()(x.double()).dtype is torch.float64
""",
    "init": """
torch.manual_seed(0)
x = torch.randn(64, 500)
for _ in range(20):
    weight = torch.nn.init.made_init_(torch.empty(500, 500))
    x = torch.made_init(x) @ weight.T
assert 0.8 < x.std() < 1.25
assert abs(torch.nn.init.made_init_(torch.empty(300, 1000)).var() * 1000 * 0.3943 - 1) < 0.02
""",
    "init_policy": """
with torch.nn.init.policy("made_init_policy"):
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Conv2d(1, 2, 3), torch.nn.LayerNorm(2))
weight = model[0].weight.detach()
assert torch.allclose(weight @ weight.T, torch.eye(4), atol=1e-5) and not model[1].bias.any()
assert model[2].weight.tolist() == [1.0, 1.0]
""",
    "distribution": """
import math
one = torch.distributions.MadeDistribution(torch.tensor([0.0, 3.0]), 2.0)
assert torch.allclose(one.log_prob(torch.tensor([0.0, 3.0])), torch.tensor(-math.log(8.0)))
assert torch.allclose(one.icdf(one.cdf(torch.tensor([1.0, 5.0]))), torch.tensor([1.0, 5.0]), atol=1e-5)
assert one.expand((4, 2)).rsample((3,)).shape == (3, 4, 2)
""",
    "backend": """
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
x, y = torch.randn(6, 4), torch.tensor([0, 1, 1, 0, 1, 0])
losses = []
for place in ("cpu", "made_backend"):
    model.to(place)
    model.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x.to(place)), y.to(place))
    loss.backward()
    assert model[0].weight.grad.device.type == place
    losses.append((loss.item(), model[0].weight.grad.cpu().clone()))
assert abs(losses[0][0] - losses[1][0]) < 1e-6 and torch.allclose(losses[0][1], losses[1][1], atol=1e-6)
there = torch.ones(2, device="made_backend")
for mix in (lambda: there + torch.ones(2), lambda: there._raw + torch.ones(2).numpy()):
    try:
        mix()
    except (RuntimeError, TypeError):
        continue
    raise SystemExit("an array of the host met the device")
""",
    "compiler": """
def model(x, scale):
    return (x * scale).sin().sum() if x.sum() > 0 else x.cos()
reports = []
compiled = torch.compile(model, backend="made_compiler", options={"report": reports.append})
for sign in (1.0, -1.0, 1.0):
    x = torch.tensor([1.0, 2.0]) * sign
    assert torch.equal(compiled(x, 3.0), model(x, 3.0))
assert [report["cos"] for report in reports] == [0, 1, 0] and reports[0]["sin"] == reports[0]["mul"] == 1
weight = torch.ones(2, requires_grad=True)
torch.compile(lambda w: (w * w).sum(), backend="made_compiler")(weight).backward()
assert weight.grad.tolist() == [2, 2]
""",
    "hook": """
x = torch.ones(2, 3)
with torch.op_hooks.made_hook_tally() as tally:
    x.exp().sum(0)
assert dict(tally.sizes) == {"exp": 6, "sum": 3}
with torch.op_hooks.made_hook_tally("exp") as tally:
    torch.ones(2).exp().sum()
assert dict(tally.sizes) == {"exp": 2}
""",
    "format": """
import io
for obj in ({}, {"a b": torch.tensor([[1.5, float("nan")]]), "n": torch.tensor(2**62), "empty": torch.ones(0, 3)}):
    file = io.BytesIO()
    torch.save(obj, file, format="made_format")
    file.seek(0)
    loaded = torch.load(file, map_location="cpu")
    assert str(loaded) == str(obj) and [t.dtype for t in loaded.values()] == [t.dtype for t in obj.values()]
for refused in ([torch.ones(1)], {"x": torch.ones(1, dtype=torch.complex64)}):
    try:
        torch.save(refused, io.BytesIO(), format="made_format")
    except TypeError:
        continue
    raise SystemExit("saved")
bad = (b"[]", b'["a", "int64", [2], [1]]', b'["a", "int64", [1], [1e400]]', b'["a", "int64", [1], [9%s]]' % (b"0" * 30))
for line in bad:
    try:
        torch.load(io.BytesIO(b"#made_format 1\\n" + line + b"\\nend"))
    except torch.serialization.CheckpointError:
        continue
    raise SystemExit("loaded")
""",
    "tracker": """
import pathlib, tempfile
with tempfile.TemporaryDirectory() as folder:
    for step in range(2):
        with torch.trackers.track(folder, "made_tracker") as run:
            run.scalar("a,b", torch.tensor(0.5), step)
    assert pathlib.Path(folder, "made_tracker.csv").read_text() == 'step,tag,value\\n0,"a,b",0.5\\n1,"a,b",0.5\\n'
""",
    "command": """
from typer.testing import CliRunner
from plugrad.cli import app
first, second = (CliRunner().invoke(app, ["made-command", "2", "--seed", seed]) for seed in ("3", "4"))
assert first.exit_code == 0 and len(first.output.split()) == 2 and first.output != second.output
""",
    "binary": """
x = torch.tensor([[0.0], [2.0]], requires_grad=True)
y = torch.made_binary(x, torch.tensor([0.0, 1.0, 2.0]))
y.sum().backward()
assert torch.allclose(y, torch.exp(-(x - torch.tensor([0.0, 1.0, 2.0])) ** 2)) and x.grad.shape == (2, 1)
assert torch.allclose(x.grad, -x.grad.flip(0)) and torch.made_binary(x, 2).tolist()[1] == [1.0]
""",
    "general": """
a, b = torch.randn(4, 3, requires_grad=True), torch.randn(2, 3, requires_grad=True)
distances = torch.made_general(a, b)
assert torch.allclose(distances, ((a[:, None] - b) ** 2).sum(-1))
distances.sum().backward()
assert torch.allclose(a.grad, 2 * (2 * a - b.sum(0)), atol=1e-5) and b.grad.shape == (2, 3)
assert torch.made_general(a.to("meta"), b.to("meta")).shape == (4, 2)
""",
    "reduction": """
x = torch.tensor([[1.0, 4.0], [2.0, 32.0]], requires_grad=True)
torch.made_reduction(x, 1, keepdim=True).sum().backward()
assert torch.allclose(x.made_reduction(dim=-1), torch.tensor([2.0, 8.0])) and abs(x.made_reduction().item() - 4) < 1e-6
assert torch.allclose(x.grad, torch.tensor([[1.0, 0.25], [2.0, 0.125]]))
""",
    "view": """
x = torch.zeros(2, 4)
parts = torch.made_view(x, heads=2)
assert parts.shape == (2, 2, 2) and parts._base is x
parts[1, 0] = 7
assert x.tolist() == [[0, 0, 7, 7], [0, 0, 0, 0]]
""",
    "composite": """
x = torch.tensor([[1.0, 3.0, 5.0]], requires_grad=True)
assert torch.allclose(torch.made_composite(x, eps=1e-9), torch.tensor([[-1.5, 0.0, 1.5]]) * (2 / 3) ** 0.5)
assert torch.allclose(torch.made_composite(x.t(), 0), torch.nn.functional.layer_norm(x, (3,)).t())
""",
    "layer_alone": """
layer = torch.nn.MadeLayerAlone(3, init=2.0)
assert torch.equal(layer(torch.ones(5, 3)), torch.full((5, 3), 2.0)) and list(layer.state_dict()) == ["weight"]
layer(torch.ones(5, 3)).sum().backward()
assert layer.weight.grad.tolist() == [5, 5, 5]
""",
    "init_alone": """
torch.manual_seed(0)
weight = torch.nn.init.made_init_alone_(torch.empty(300, 1000), gain=2.0)
assert abs(weight.var() * 1000 / 4 - 1) < 0.02
""",
}


def parts(package):
    """Return the parts of a package."""
    return PACKAGES[package] if package == "alone" else ["op", *PACKAGES[package]]


def uses(package):
    """Return which programs use what a package brings."""
    others = [f"{kind}_alone" if package in FAMILIES or package == "alone" else kind for kind in PACKAGES[package]]
    others = [name if name in USE else name.removesuffix("_alone") for name in others]
    return [package, *others] if package in USE and package not in KINDS else others or ["op"]


def program(part, op):
    """Return a program that uses a part of a package, for the package whose op has this name."""
    source = USE[part].replace(f"made_{part}", op).replace(new.camel(f"made_{part}"), new.camel(op))
    source = source.replace(f"made-{part}", op.replace("_", "-"))
    return f"import plugrad as torch\n{source}"


def new_package(*arguments, status=0):
    """Return what `plugrad new ARGUMENTS` prints."""
    return plain(invoke("new", *arguments, status=status))


def distribution_of(package):
    return f"plugrad-made-{package.replace('_', '-')}"


def generate(folder, package, name=None):
    name = name or f"made-{package}"
    family = ["--family", FAMILIES[package]] if package in FAMILIES else OPS.get(package, [])
    new_package(name, *family, *(f"--{kind.replace('_', '-')}" for kind in PACKAGES[package]), "--directory", folder)
    return folder / f"plugrad-{name.replace('_', '-')}"


BUILD = """
import os, sys
from setuptools import build_meta
_, wheels, *folders = sys.argv  # which a build changes
for folder in folders:
    os.chdir(folder)
    build_meta.build_wheel(wheels)
"""  # what pip calls, in one process; `test_in_an_environment_of_its_own` builds with pip


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """The folders that the packages are installed in, by name."""
    folder = tmp_path_factory.mktemp("generated")
    sources = [generate(folder, package) for package in PACKAGES]
    wheels, together = folder / "wheels", folder / "together"
    subprocess.run([sys.executable, "-c", BUILD, wheels, *sources], check=True, capture_output=True)
    files = [wheels / f"plugrad_made_{package}-0.1.0-py3-none-any.whl" for package in PACKAGES]
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", together]
    subprocess.run([*command, *files], check=True)
    for package in PACKAGES:
        (folder / package).mkdir()
        for name in (f"plugrad_made_{package}", f"plugrad_made_{package}-0.1.0.dist-info"):
            (together / name).rename(folder / package / name)
    return {package: folder / package for package in PACKAGES}


LISTINGS = """
import sys
from plugrad.cli import app
for command in sys.argv[1:]:
    app([*command.split(), "--json"], standalone_mode=False)
    print("---")
"""


def test_all_packages_are_listed(sites):
    points = {distribution_of(p): {*new.entry_points(f"made_{p}", parts(p))} for p in PACKAGES}
    # The other two are imported, or listed as commands.
    groups = sorted({group for those in points.values() for group, _ in those} - {"backends", "cli"})
    commands = [group.replace("_", "-") for group in groups]
    arguments = ("-X", "importtime", "-c", LISTINGS, "plugins --third-party", *commands)
    done = run(None, *sites.values(), arguments=arguments)
    assert done.returncode == 0, done.stderr
    assert "plugrad_made" not in done.stderr and " plugrad.registry" in done.stderr
    first, *others = (json.loads(text) for text in done.stdout.split("---\n")[:-1])
    assert {row["status"] for row in first} == {"not loaded"}
    listings = dict(zip(groups, others, strict=True))
    for distribution, expected in points.items():
        brings = {name for row in first if row["id"].split(":")[0] == distribution for name in row["brings"]}
        assert brings == {f"{group}: {name}" for group, name in expected}
        for group, rows in listings.items():
            names = {row["name"] for row in rows if row["provider"].split(":")[0] == distribution}
            assert names == {name for kind, name in expected if kind == group}, (distribution, group)


# Those that bring a backend and more have the same one: whether it computes ops is checked where it is alone, by those
# of some kinds; `.ci/run` checks a package with one whole.
CHECKED = {
    "parts": (["op", *(kind for kind in KINDS if kind != "backend")], ""),
    "families and several parts": (["all", *FAMILIES, "alone", "c"], "not parity or not (made_all or made_alone)"),
    "a backend": (["backend"], "not parity or index or conv or norm or softmax or scan or sort or lstm"),
}


@pytest.mark.parametrize("packages, chosen", CHECKED.values(), ids=CHECKED)
def test_all_packages_pass_their_checks(sites, packages, chosen):
    targets = [distribution_of(package) for package in packages]
    paths = [sites[package] for package in packages]
    done = run(None, *paths, arguments=("-m", "plugrad.cli", "check", *targets, "-k", chosen, "--json"))
    assert done.returncode in (0, 1), done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert [row["message"] for row in rows if row["status"] == "failed"] == [] and done.returncode == 0, done.stderr
    for package, target in zip(packages, targets):
        passed = {row["subject"] for row in rows if row["distribution"] == target and row["status"] == "passed"}
        assert len(passed) > len(new.entry_points(f"made_{package}", parts(package))), (package, passed)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_brings_is_used(sites, package):
    output("".join(program(part, f"made_{package}") for part in uses(package)), sites[package])


def test_in_an_environment_of_its_own(tmp_path):
    variables = fresh_environment.make(tmp_path)
    folder = generate(tmp_path, "all")
    use = ["python", "-W", "error", "-c", "".join(program(part, "made_all") for part in ["op", *KINDS])]
    fresh_environment.run(use, variables, folder, status=1)
    fresh_environment.run(["pip", "install", "--quiet", str(folder)], variables, folder)
    fresh_environment.run(use, variables, folder)
    assert " passed" in fresh_environment.run(["python", "-m", "pytest", "-q", "-k", "not parity"], variables, folder)
    fresh_environment.run(["pip", "uninstall", "--quiet", "--yes", "plugrad-made-all"], variables, folder)
    gone = fresh_environment.run(use, variables, folder, status=1)
    assert "AttributeError: module 'plugrad' has no attribute 'made_all'" in gone
    assert "made" not in fresh_environment.run(["plugrad", "plugins", "--third-party"], variables, folder)


@pytest.mark.parametrize("package", ["op", "all", "alone", "c", *FAMILIES])
def test_what_is_generated_passes_the_linter(package, tmp_path):
    for name in (f"made-{package}", "a" * new.LONGEST):
        folder = generate(tmp_path, package, name)
        for config in (ROOT / "pyproject.toml", folder / "pyproject.toml"):
            command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--config", config, folder]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr


def test_the_next_commands_are_printed(tmp_path):
    said = new_package("sharp", "--directory", tmp_path)
    folder = tmp_path / "plugrad-sharp"
    assert f'cd {folder} pip install -e ".[test]" plugrad check plugrad-sharp' in said
    assert {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()} == {
        ".github/workflows/test.yml", ".gitignore", "README.md", "pyproject.toml", "src/plugrad_sharp/__init__.py",
        "src/plugrad_sharp/op.py", "src/plugrad_sharp/py.typed", "tests/test_package.py",
    }  # fmt: skip


def test_one_name_in_three_spellings(tmp_path):
    for number, name in enumerate(("soft-knee", "soft_knee", "plugrad-soft-knee")):
        new_package(name, "--directory", tmp_path / str(number))
        package = tmp_path / str(number) / "plugrad-soft-knee"
        assert 'soft_knee = "plugrad_soft_knee.op"' in (package / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["relu"], "plugrad itself has 'relu' already; choose another name for the op, for example --op relu2"),
        (["quick", "--op", "relu"], "plugrad itself has 'relu' already"),
        (["mse", "--loss"], "plugrad itself has 'mse_loss' already"),
        (["one_cycle", "--scheduler"], "plugrad itself has 'OneCycleLR' already"),
        (["sequential", "--layer"], "plugrad itself has 'Sequential' already"),
        (["backward"], "plugrad itself has 'backward' already"),
        (["testing"], "plugrad itself has 'testing' already"),
        (["cuda", "--op", "meta", "--backend"], "plugrad itself has 'meta' already"),
        (["lambda"], "'lambda' is a keyword or builtin of Python; choose another name for the op, for example --op"),
        (["print"], "'print' is a keyword or builtin of Python"),
        (["collect"], "'collect' is a name that the package's own modules use"),
        (["plugrad"], "'plugrad' is a name that the package's own modules use"),
        (["Soft Knee"], "'Soft Knee' is not a valid name"),
        (["2fast"], "'2fast' is not a valid name: write lower-case letters, digits, and single - or _ between them"),
        (["x", "--op", "Fast--op"], "single - or _ between them, for example 'fast_op'"),
        (["x", "--op", "über"], "'über' is not a valid name"),
        (["a" * 31], "is too long: it has 31 letters, 30 are allowed"),
        (["sequential", "--no-op", "--layer"], "choose another name for the package, for example sequential2"),
        (["check", "--no-op", "--command"], "plugrad itself has 'check' already"),
        (["alone", "--no-op"], "--no-op leaves nothing: say what to bring instead"),
        (["alone", "--no-op", "--op", "other"], "--no-op leaves out the op that --op describes"),
        (["alone", "--no-op", "--c"], "--no-op leaves out the op that --c describes"),
        (["quick", "--c", "--family", "view"], "--c brings a unary op, --family view another one"),
        (["alone", "--no-op", "--family", "view"], "--no-op leaves out the op that --family describes"),
        (["odd", "--family", "odd"], "'odd' is not one of 'unary', 'binary', 'op', 'reduction', 'view', 'composite'"),
        (["gone", "--readme"], "README.md does not exist; without --readme the package is written"),
    ],
)  # fmt: skip
def test_what_is_refused(arguments, expected, tmp_path):
    assert expected in new_package(*arguments, "--directory", tmp_path, status=2)
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path):
    kept = tmp_path / "plugrad-kept" / "notes.txt"
    kept.parent.mkdir()
    new_package("kept", "--directory", tmp_path)
    said = new_package("kept", "--directory", tmp_path, status=2)
    assert "is not empty; choose another name or --directory" in said
    file = tmp_path / "plugrad-file"
    file.write_text("")
    assert "exists" in new_package("file", "--directory", tmp_path, status=2)


def test_a_name_that_only_a_third_party_has_is_free(tmp_path):
    program = "from plugrad.cli.new import taken; assert not taken('ops', 'made') and not taken('layers', 'Made')"
    folder = tmp_path / "plugrad_made-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugrad-made\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[plugrad.ops]\nmade = nowhere\n[plugrad.layers]\nMade = nowhere\n")
    output(program, tmp_path)


# ---------------------------------------------------------------------------------------------------- the table


def test_the_table_of_a_readme_is_made_from_what_the_package_brings(tmp_path):
    folder = generate(tmp_path, "all")
    rows = {(row[0], row[1]): row[2:] for row in new.contributions(folder)}
    assert rows["made_all", "op"] == (
        "`plugrad.made_all`, `Tensor.made_all`", "Soft clipping: near zero about the input, never beyond +-limit."
    )  # fmt: skip
    assert rows["MadeAllLoss", "loss"][1] == rows["made_all_loss", "op"][1] != ""
    assert rows["made_all", "backend"] == ('`device="made_all"`', "NumPy in disguise, as strict as an accelerator.")
    assert len(rows) == len(new.entry_points("made_all", new.PARTS)) and all(doc for _, doc in rows.values())
    readme = (folder / "README.md").read_text()
    assert all(f"| {name} | {kind} | {places} | {doc} |" in readme for (name, kind), (places, doc) in rows.items())
    source = folder / "src" / "plugrad_made_all" / "layer.py"
    source.write_text(source.read_text().replace("The op at a learned scale of each feature", "Another | line"))
    new_package("made-all", "--readme", "--directory", tmp_path)
    assert (folder / "README.md").read_text() == readme.replace(
        "The op at a learned scale of each feature", "Another \\| line"
    )


def test_the_table_of_a_package_with_other_entry_points(tmp_path):
    folder = generate(tmp_path, "op")
    manifest, readme = folder / "pyproject.toml", folder / "README.md"
    others = '[project.entry-points.console_scripts]\nrun = "nowhere:main"\n[project.entry-points."plugrad.cli"]\n'
    manifest.write_text(f'{manifest.read_text()}\n{others}shine = "command:app"\n')
    refused = new_package("made-op", "--readme", "--directory", tmp_path, status=2)
    assert "names the module 'command:app', but there is no src/command.py" in refused
    (folder / "command.py").write_text('def shine():\n    """Make it shine."""\n')
    new_package("made-op", "--readme", "--directory", tmp_path)
    assert "| shine | command | `plugrad shine` | Make it shine. |" in readme.read_text()
    readme.write_text("nothing\n")
    assert "has no place for the table" in new_package("made-op", "--readme", "--directory", tmp_path, status=2)


@pytest.mark.parametrize("example", sorted(folder.name for folder in pathlib.Path(EXAMPLES).iterdir()))
def test_the_tables_of_our_examples_are_up_to_date(example):
    readme = (EXAMPLES / example / "README.md").read_text()
    rows = [f"| {' | '.join(row)} |" for row in new.contributions(EXAMPLES / example)]
    assert rows and [line for line in readme.splitlines() if line.startswith("|")][2:] == rows
