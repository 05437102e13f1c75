"""Keeping plugins and single names out; writing down what is installed, and comparing later."""

import base64
import hashlib
import json

import pytest

from support.distribution_builder import DISTRIBUTIONS, ROOT, build, command, op_module, output, run

CLASH = DISTRIBUTIONS / "clash_a", DISTRIBUTIONS / "clash_b"


# ---------------------------------------------------------------------------------------------------- keeping out


def test_plugins_can_be_kept_out():
    program = """
import plugrad
try:
    plugrad.twice
except AttributeError as error:
    assert "PLUGRAD_PLUGINS does not let it load" in str(error), error
assert "twice" not in dir(plugrad)
"""
    output(program, *CLASH, DISTRIBUTIONS / "broken", PLUGRAD_PLUGINS="")
    chosen = output("import plugrad; print(plugrad.twice.__module__)", *CLASH, PLUGRAD_PLUGINS="Plugrad_Clash.B")
    assert chosen == "plugrad_clash_b\n"
    chosen = output("import plugrad; print(plugrad.twice.__module__)", *CLASH, PLUGRAD_PLUGINS="plugrad-clash-a:twice")
    assert chosen == "plugrad_clash_a\n"


SEVERAL = op_module("first") + op_module("second").replace("@hookimpl", "#").replace("def plugrad_ops", "def no") + '''
from plugrad.extend import Module, kernel_for

class First(Module):
    """A layer."""

@kernel_for("tan", "cpu")
def tan_cpu(xp, input):
    return 7 + 0 * input

@hookimpl
def plugrad_layers():
    return [First]

@hookimpl
def plugrad_kernels():
    return [tan_cpu]
'''


@pytest.fixture
def folder(tmp_path):
    """A plugin with two ops, a layer and a kernel, promised or not."""
    points = {"plugrad.ops": {"first": "plugin_g", "second": "plugin_g"}, "plugrad.layers": {"First": "plugin_g"},
              "plugrad.kernels": {"tan": "plugin_g"}}  # fmt: skip
    build(tmp_path / "lazy", "plugrad-g", points, plugin_g=SEVERAL)
    build(tmp_path / "eager", "plugrad-g", {"plugrad": {"g": "plugin_g"}}, plugin_g=SEVERAL)
    return tmp_path


USE = """
import plugrad
errors = {}
x = plugrad.zeros(1)
uses = {
    "first": lambda: plugrad.first(x), "Tensor.first": lambda: x.first(), "in place": lambda: x.clone().first_(),
    "namespace": lambda: plugrad.ops.g.first(x), "record": lambda: plugrad.registry.op("first"),
    "second": lambda: plugrad.second(x), "First": lambda: plugrad.nn.First(),
    "tan": lambda: 1 / x.tan().item(),
}
for name, use in uses.items():
    try:
        use()
    except (AttributeError, ZeroDivisionError) as error:
        errors[name] = str(error)
import json
print(json.dumps(errors))
"""
ALL_OF_FIRST = {"first", "Tensor.first", "in place", "namespace", "record"}


@pytest.mark.parametrize("group", ["lazy", "eager"])
@pytest.mark.parametrize(
    "blocked, gone",
    [
        ("nothing", set()), ("first", ALL_OF_FIRST), ("Tensor.first", {"Tensor.first"}), ("First", {"First"}),
        ("nn.First,second", {"First", "second"}), ("kernels.cpu.tan", {"tan"}), ("kernels.tan", set()),
        ("Plugrad_G", {*ALL_OF_FIRST, "second", "First", "tan"}),
    ],
)  # fmt: skip
def test_single_names_can_be_kept_out(folder, group, blocked, gone):
    errors = json.loads(output(USE, folder / group, PLUGRAD_BLOCK=blocked))
    if blocked == "kernels.tan":  # what a manifest promises, and nothing that anybody uses
        return
    assert set(errors) == gone
    for name in set(errors) - {"tan"} if group == "lazy" or blocked != "Plugrad_G" else ():
        told = "brings it, but PLUGRAD_BLOCK keeps it out" in errors[name]
        assert told or name in ("in place", "Tensor.first"), errors


def test_blocking_in_files_and_where_it_is_shown(folder):
    file = folder / "pyproject.toml"
    file.write_text('[tool.plugrad]\nblock = ["first", "plugrad-clash-a", "typo"]\n')
    options = {"paths": [folder / "lazy", *CLASH], "cwd": folder, "PLUGRAD_BLOCK": "second"}
    paths = options.pop("paths")
    assert set(json.loads(output(USE, *paths, **options))) == {*ALL_OF_FIRST, "second"}
    assert output("import plugrad; print(plugrad.twice.__module__)", *paths, **options) == "plugrad_clash_b\n"
    rows = {row["id"]: row for row in json.loads(command("plugins", "--json", paths=paths, **options).stdout)}
    row = rows["plugrad-clash-a:twice"]
    assert (row["status"], row["error"]) == ("blocked", f"`block` in {file} keeps it out")
    assert rows["plugrad-g:tan"]["blocked"]["first"] == f"`block` in {file} keeps it out"
    text = command("plugins", "--verbose", paths=paths, **options).stdout
    assert f"  first: `block` in {file} keeps it out" in text and "  second: PLUGRAD_BLOCK keeps it out" in text
    assert f"'typo' is to be kept out ({file}), and nobody brings it" in text
    text = command("why", "first", paths=paths, **options).stdout
    assert "plugrad.first: blocked" in text and f"plugrad-g:tan brings it, but `block` in {file} keeps it out" in text
    text = command("why", "twice", paths=paths, **options).stdout
    assert "plugrad-clash-a:twice brings 'twice', but `block` in" in text


def test_a_blocked_device_is_named_in_the_error(tmp_path):
    build(tmp_path, "plugrad-npu", {"plugrad.backends": {"npu": "plugin_npu"}}, plugin_npu="raise RuntimeError")
    program = "import plugrad; plugrad.ones(1, device='npu')"
    for blocked in ("plugrad-npu", "npu", "backends.npu"):
        error = run(program, tmp_path, PLUGRAD_BLOCK=blocked).stderr
        assert "Expected one of cpu, cuda, meta device type" in error
        assert "(plugrad-npu:npu brings it, but PLUGRAD_BLOCK keeps it out)" in error, error


def test_names_that_match_nothing_are_pointed_out(tmp_path):
    build(tmp_path, "plugrad-one", {"plugrad.ops": {"one": "plugin_one"}}, plugin_one=op_module("one"))
    options = {"PLUGRAD_PLUGINS": "plugrad-one,plugrad-onne", "PLUGRAD_BLOCK": "plugrad.onee"}
    said = command("plugins", "--third-party", paths=[tmp_path], **options).stdout
    assert "'plugrad.onee' is to be kept out (the environment), and nobody brings it; did you mean 'plugrad-one" in said
    assert "'plugrad-onne' may load (PLUGRAD_PLUGINS), and nobody is called so; did you mean 'plugrad-one'?" in said
    for word in ("plugrad.one", "torch.one", "one"):
        assert "PLUGRAD_BLOCK keeps it out" in run("import plugrad; plugrad.one", tmp_path, PLUGRAD_BLOCK=word).stderr


def test_our_own_plugins_can_not_be_blocked():
    program = "import plugrad; print(plugrad.relu(plugrad.ones(1)).item())"
    assert output(program, PLUGRAD_BLOCK="plugrad,relu,plugrad:ops-activation") == "1.0\n"


# ---------------------------------------------------------------------------------------------------- lock and verify


def install(folder, name, version="1.0", text=None, **more):
    """Install a package as pip does: with a RECORD that has the hashes of its files."""
    module = f"plugin_{name}"
    info = f"plugrad_{name}-{version}.dist-info"
    points = {"plugrad.ops": {name: module}}
    build(folder, f"plugrad-{name}", points, version, **{module: text or "raise RuntimeError('imported')"})
    (folder / f"{module}_data.bin").write_bytes(b"data")
    lines = []
    for path in (f"{module}.py", f"{module}_data.bin", f"{info}/METADATA", f"{info}/entry_points.txt"):
        data = (folder / path).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{path},sha256={digest},{len(data)}\r\n")
    lines.append(f"{info}/RECORD,,\r\n__pycache__/{module}.cpython-311.pyc,,\r\n")
    (folder / info / "RECORD").write_bytes("".join(lines).encode())
    for file, content in more.items():
        (folder / info / f"{file}.json").write_text(content)
    return folder / info


@pytest.fixture
def site(tmp_path):
    """A folder with two packages, and the lock file that belongs to it."""
    folder = tmp_path / "site"
    install(folder, "one")
    install(folder, "two", "2.5")
    said = command("plugins", "lock", paths=[folder], cwd=tmp_path).stdout
    assert said.splitlines() == ["plugrad.lock: 2 distributions", "  plugrad-one 1.0", "  plugrad-two 2.5"]
    return folder


def verify(site, status=1, *paths):
    done = command("plugins", "verify", "--json", paths=[*paths, site], cwd=site.parent, status=status)
    return [(row["distribution"], row["kind"], row["text"]) for row in json.loads(done.stdout)]


def test_the_lock_file(site):
    import tomllib

    table = tomllib.loads((site.parent / "plugrad.lock").read_text())
    record = (site / "plugrad_one-1.0.dist-info" / "RECORD").read_bytes()
    assert table == {
        "format": 1,
        "distribution": [
            {"name": "plugrad-one", "version": "1.0", "record": f"sha256:{hashlib.sha256(record).hexdigest()}"},
            {"name": "plugrad-two", "version": "2.5", "record": table["distribution"][1]["record"]},
        ],
    }
    assert verify(site, 0) == []
    assert command("plugins", "verify", paths=[site], cwd=site.parent).stdout == "2 distributions as locked\n"


def test_changed_files_are_found(site):
    (site / "plugin_one.py").write_text("print('evil')")
    (site / "plugin_two_data.bin").unlink()
    assert verify(site) == [
        ("plugrad-one", "file", "plugin_one.py is not what RECORD says"),
        ("plugrad-two", "file", "plugin_two_data.bin is gone"),
    ]
    text = command("plugins", "verify", paths=[site], cwd=site.parent, status=1).stdout
    assert "plugrad-one" in text and "plugin_one.py is not what RECORD says" in text


def test_a_changed_record_is_found(site):
    (site / "plugin_one.py").write_text("print('evil')")
    install(site / "again", "one", text="print('evil')")
    record = (site / "again" / "plugrad_one-1.0.dist-info" / "RECORD").read_bytes()
    (site / "plugrad_one-1.0.dist-info" / "RECORD").write_bytes(record)
    assert verify(site) == [("plugrad-one", "record", "its RECORD is another one than was locked")]
    (site / "plugrad_one-1.0.dist-info" / "RECORD").unlink()
    assert verify(site) == [("plugrad-one", "record", "it has no RECORD any more")]


def test_changed_distributions_are_found(site):
    import shutil

    shutil.rmtree(site / "plugrad_one-1.0.dist-info")
    install(site, "one", "1.1")
    shutil.rmtree(site / "plugrad_two-2.5.dist-info")
    install(site, "three")
    assert verify(site) == [
        ("plugrad-one", "version", "version 1.1 is installed, 1.0 is locked"),
        ("plugrad-three", "added", "version 1.0 is installed and not in the lock file"),
        ("plugrad-two", "missing", "version 2.5 is locked and not installed"),
    ]


def test_a_module_that_would_come_from_elsewhere_is_found(site, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "plugin_one.py").write_text("print('evil')")
    ((_, kind, text),) = verify(site, 1, tmp_path / "first")
    assert kind == "elsewhere" and f"would be imported from {tmp_path / 'first' / 'plugin_one.py'}" in text


def test_files_that_stand_before_those_of_the_record_are_found(site, tmp_path):
    info = site / "plugrad_one-1.0.dist-info"
    package = site / "third_party_package"
    package.mkdir()
    for name in ("__init__.py", "op.py"):
        (package / name).write_text("")
    text, empty = (info / "RECORD").read_text(), "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0"
    text += f"third_party_package/__init__.py,{empty}\r\nthird_party_package/op.py,{empty}\r\n"
    (info / "RECORD").write_bytes(text.encode())
    command("plugins", "lock", paths=[site], cwd=tmp_path)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "op.cpython-311.pyc").write_bytes(b"")
    (package / "notes.txt").write_text("no module")
    assert verify(site, 0) == []
    (package / "op").mkdir()
    (package / "op" / "__init__.py").write_text("print('evil')")
    assert verify(site) == [("plugrad-one", "file", f"{package / 'op' / '__init__.py'} is not in RECORD")]


def test_a_file_without_a_hash_is_told(site, tmp_path):
    (site / "third_party.py").write_text("")
    with open(site / "plugrad_one-1.0.dist-info" / "RECORD", "a") as record:
        record.write("third_party.py,,\r\n")
    command("plugins", "lock", paths=[site], cwd=tmp_path)
    assert verify(site) == [("plugrad-one", "file", "third_party.py has no hash in RECORD, so it can't be verified")]


def test_lock_and_verify_run_nothing(tmp_path):
    source = "print('evil')\nraise SystemExit"
    build(tmp_path, "plugrad-eager", {"plugrad": {"eager": "plugin_eager"}}, plugin_eager=source)
    assert "failed at import: SystemExit" in command("plugins", paths=[tmp_path], cwd=tmp_path).stderr
    for arguments in (["plugins", "lock"], ["plugins", "verify"]):
        done = command(*arguments, paths=[tmp_path], cwd=tmp_path)
        assert done.stderr == "" and "evil" not in done.stdout and "1 distribution" in done.stdout


def test_a_distribution_in_an_archive_can_be_locked(tmp_path):
    import zipfile

    install(tmp_path / "site", "one", text=op_module("one"))
    with zipfile.ZipFile(tmp_path / "site.zip", "w") as archive:
        for file in (tmp_path / "site").rglob("*"):
            archive.write(file, file.relative_to(tmp_path / "site"))
    paths = {"paths": [tmp_path / "site.zip"], "cwd": tmp_path}
    assert output("import plugrad; print(plugrad.one(plugrad.ones(1)).item())", *paths["paths"]) == "2.0\n"
    assert "plugrad-one 1.0: it is in an archive" in command("plugins", "lock", **paths).stdout
    assert "1 distribution as locked" in command("plugins", "verify", **paths).stdout


def test_what_can_not_be_verified_is_said(tmp_path):
    editable = '{"url": "file:///x", "dir_info": {"editable": true}}'
    install(tmp_path, "one", direct_url=editable)
    build(tmp_path, "plugrad-bare", {"plugrad.ops": {"bare": "plugin_bare"}}, plugin_bare=op_module("bare"))
    said = command("plugins", "lock", "my.lock", paths=[tmp_path], cwd=tmp_path).stdout
    assert "plugrad-bare 1.0: it has no RECORD (not installed by pip), so its files can't be verified" in said
    assert "plugrad-one 1.0: it is an editable install: its source is not in RECORD and can't be verified" in said
    said = command("plugins", "verify", "my.lock", paths=[tmp_path], cwd=tmp_path).stdout
    assert "2 distributions as locked" in said and said.count("can't be verified") == 2


@pytest.mark.parametrize("text", [None, "no toml", "format = 9", "format = 1\n[[distribution]]\nname = 'x'\n"])
def test_what_is_no_lock_file_is_refused(tmp_path, text):
    if text is not None:
        (tmp_path / "plugrad.lock").write_text(text)
    done = command("plugins", "verify", cwd=tmp_path, status=2)
    assert "can't be read as a lock file" in " ".join(done.stderr.replace("│", " ").split())


def test_a_wheel_installed_by_pip_can_be_verified(tmp_path):
    import subprocess
    import sys

    project = ROOT / "examples" / "guests" / "plugrad-swish"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", tmp_path, "."]
    copy = tmp_path / "project"
    import shutil

    shutil.copytree(project, copy, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    subprocess.run(wheel, cwd=copy, check=True, capture_output=True)
    (built,) = tmp_path.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-index", "--target", tmp_path / "site", built], check=True)
    paths = {"paths": [tmp_path / "site"], "cwd": tmp_path}
    assert "plugrad.lock: 1 distribution\n" in command("plugins", "lock", **paths).stdout
    output("import plugrad; plugrad.ones(1).swish()", tmp_path / "site")  # writes bytecode, which is not covered
    assert command("plugins", "verify", **paths).stdout == "1 distribution as locked\n"
    module = next(iter((tmp_path / "site" / "plugrad_swish").glob("*.py")))
    module.write_text(module.read_text() + "\n")
    assert f"{module.name} is not what RECORD says" in command("plugins", "verify", status=1, **paths).stdout
