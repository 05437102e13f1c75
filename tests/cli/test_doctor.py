"""`plugrad doctor`: what is wrong with an installation, each kind of it, and what the advice is."""

import base64
import hashlib
import importlib.util
import json
import pathlib
import shutil

import pytest

from plugrad import kernels
from plugrad.catalog import compiled
from support.distribution_builder import build, command, op_module, output, run


def doctor(*paths, status, **options):
    """Return the rows, without the one that tells that there is no extension in C."""
    done = run(None, *paths, arguments=["-m", "plugrad.cli", "doctor", "--json"], **options)
    assert done.returncode == status, done.stdout + done.stderr
    rows = json.loads(done.stdout)
    assert all(set(row) == {"subject", "problem", "advice"} for row in rows)
    return [
        f"{row['subject']}: {row['problem']} -> {row['advice']}" for row in rows
        if "installed without a C compiler" not in row["problem"]
    ]  # fmt: skip


def sound(folder, name="sound"):
    module = f"{name}_module"
    return build(folder / name, f"plugrad-{name}", {"plugrad.ops": {name: module}}, **{module: op_module(name)})


def described(folder, name, version, *lines):
    """Write the metadata of a distribution without plugins."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    text = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines])
    (info / "METADATA").write_text(f"{text}\n\nRequires-Dist: not-in-the-header\n")
    return folder


def test_a_sound_installation_has_no_rows(tmp_path):
    assert doctor(sound(tmp_path), status=0, OMP_NUM_THREADS="1") == []
    text = command("doctor", paths=[sound(tmp_path / "again")], OMP_NUM_THREADS="1").stdout
    assert text.endswith("nothing is wrong\n")


def test_the_doctor_finds_what_is_wrong(tmp_path):
    gone = build(tmp_path / "gone", "plugrad-gone", {"plugrad.ops": {"gone": "gone_module"}})
    (row,) = doctor(gone, status=1)
    assert row == "plugrad-gone:gone: its module 'gone_module' can't be found -> install plugrad-gone again"

    rows = doctor(status=1, OMP_NUM_THREADS="many", PLUGRAD_PREFER="relu=plugrad-none")
    assert any(row.startswith("OMP_NUM_THREADS: it must be a number of threads, not 'many'") for row in rows)
    assert any(row.startswith("relu: plugrad-none is preferred, and nobody") for row in rows)

    one = build(tmp_path / "one", "plugrad-one", {"plugrad.ops": {"both": "one_module"}}, one_module=op_module("both"))
    two = build(tmp_path / "two", "plugrad-two", {"plugrad.ops": {"both": "two_module"}}, two_module=op_module("both"))
    (row,) = doctor(one, two, status=1)
    assert row.startswith("both: ") and "plugrad-one:both and plugrad-two:both" in row and "plugrad prefer" in row

    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "pyproject.toml").write_text("[tool.plugrad]\nblok = []\n")
    (row,) = doctor(status=1, cwd=tmp_path / "project")
    assert "has no setting 'blok' for plugrad; did you mean 'block'?" in row

    older = build(tmp_path / "one", "plugrad-one", {"plugrad.ops": {"both": "one_module"}}, version="0.9")
    (row,) = doctor(older, status=1)
    assert "it is installed several times" in row and "uninstall all of them" in row

    (tmp_path / "lock").mkdir()
    (tmp_path / "lock" / "plugrad.lock").write_text("no lock file")
    (row,) = doctor(status=1, cwd=tmp_path / "lock")
    assert row.startswith("plugrad.lock: ") and "plugrad plugins lock" in row


def test_modules_inside_of_packages_are_looked_for_without_an_import(tmp_path):
    (tmp_path / "bomb").mkdir()
    (tmp_path / "bomb" / "__init__.py").write_text("raise RuntimeError('imported')")
    points = {"gone": "bomb.gone", "there": "bomb.there"}
    (tmp_path / "bomb" / "there.py").write_text("")
    (row,) = doctor(build(tmp_path, "plugrad-bomb", {"plugrad.ops": points}), status=1)
    assert row == "plugrad-bomb:gone: its module 'bomb.gone' can't be found -> install plugrad-bomb again"
    shared = build(tmp_path / "shared", "plugrad-shared", {"plugrad.ops": {"part": "company.team.part"}})
    (shared / "company" / "team").mkdir(parents=True)
    (shared / "company" / "team" / "part.py").write_text(op_module("part"))
    assert doctor(shared, status=0) == []


def test_the_doctor_knows_manifests_that_were_edited_after_installing(tmp_path):
    folder = build(tmp_path, "plugrad-edited", {"plugrad.ops": {"old": "edited"}}, edited=op_module("old"))
    (folder / "pyproject.toml").write_text('[project.entry-points."plugrad.ops"]\nold = "edited"\nnew = "edited"\n')
    info = folder / "plugrad_edited-1.0.dist-info"
    (info / "direct_url.json").write_text(json.dumps({"url": folder.as_uri(), "dir_info": {"editable": True}}))
    (row,) = doctor(folder, status=1)
    assert "promises other names in pyproject.toml than were installed" in row and "pip install -e" in row
    (folder / "pyproject.toml").write_text('[project.entry-points."plugrad.ops"]\nold = "edited"\n')
    assert doctor(folder, status=0) == []


@pytest.mark.parametrize(
    ("settings", "row"),
    [
        ({"PLUGRAD_BLOCK": "plugrad-sound"}, "plugrad-sound:sound: it is kept out: PLUGRAD_BLOCK keeps it out"),
        ({"PLUGRAD_PLUGINS": ""}, "plugrad-sound:sound: it is kept out: PLUGRAD_PLUGINS does not let it load"),
        ({"PLUGRAD_BLOCK": "sound"}, "sound: that of plugrad-sound:sound is kept out: PLUGRAD_BLOCK keeps it out"),
    ],
)
def test_what_is_kept_out_is_told_and_not_wrong(tmp_path, settings, row):
    folder = sound(tmp_path)
    assert doctor(folder, status=0, **settings) == [f"{row} -> nothing, if that is meant; else take it out there"]
    assert command("doctor", paths=[folder], **settings).stdout.endswith("\nnothing is wrong\n")


def test_settings_for_what_is_not_there(tmp_path):
    for variable, said in (("BLOCK", "is to be kept out (the environment)"), ("PLUGINS", "may load (PLUGRAD_PLUGINS)")):
        rows = doctor(sound(tmp_path / variable), status=1, **{f"PLUGRAD_{variable}": "plugrad-soud,plugrad-sound"})
        (row,) = [row for row in rows if "plugrad-soud" in row]
        assert row.startswith(f"settings: 'plugrad-soud' {said}, and nobody") and "did you mean 'plugrad-sound'" in row


# ---------------------------------------------------------------------------------------------------- code in C


def extension(monkeypatch, path):
    """Let another file be the extension."""
    spec = None if path is None else importlib.util.spec_from_file_location("plugrad._native", path)
    monkeypatch.setattr(compiled.importlib.util, "find_spec", lambda name: spec)


@pytest.mark.skipif(kernels.level() is None, reason="there is no extension to damage")
def test_an_extension_that_does_not_load_is_told(tmp_path, monkeypatch):
    whole = pathlib.Path(importlib.import_module("plugrad._native").__file__)
    assert list(compiled.extension()) == []
    for content in (b"no library", whole.read_bytes()[:100_000]):  # the second ends the process that loads it
        file = tmp_path / whole.name
        file.write_bytes(content)
        extension(monkeypatch, file)
        ((subject, problem, advice),) = compiled.extension()
        assert subject == "plugrad._native" and "can't be loaded: " in problem and "install plugrad again" in advice


def test_no_extension_is_told_and_not_wrong_and_that_of_another_python_is(tmp_path, monkeypatch):
    extension(monkeypatch, None)
    monkeypatch.setattr(compiled.plugrad, "__file__", str(tmp_path / "__init__.py"))
    assert list(compiled.extension()) == []
    ((_, problem, advice),) = compiled.left_out()
    assert "there are no kernels in C" in problem and "install gcc or clang, and plugrad again" in advice
    (tmp_path / "_native.cpython-27-x86_64-linux-gnu.so").write_bytes(b"")
    ((_, problem, _),) = compiled.extension()
    assert "_native.cpython-27-x86_64-linux-gnu.so is built for another Python" in problem
    assert list(compiled.left_out()) == []


def test_a_compiler_that_makes_nothing_is_told(tmp_path):
    (tmp_path / "odd").write_text("no program")
    (tmp_path / "odd").chmod(0o755)
    for command_name, said in (("false", "makes no library"), ("true", "makes no library"), ("odd", "can't be run")):
        path = shutil.which(command_name) or str(tmp_path / command_name)
        (row,) = doctor(status=1, CC=path)
        assert row.startswith("C compiler: ") and said in row and "set CC to the command of one that works" in row
    rows = doctor(status=1, CC="nowhere-at-all")
    assert any(row.startswith("CC: there is no command 'nowhere-at-all'") for row in rows)


COMPILING = """
import plugrad as torch
run = torch.compile(lambda x: (x * 2 + 1).exp() * x)
print(run(torch.zeros(1000)).sum().item())
"""


def test_a_cache_that_can_not_be_written_is_told_and_costs_no_program(tmp_path):
    (tmp_path / "file").write_text("")
    (row,) = doctor(status=1, PLUGRAD_CACHE=str(tmp_path / "file"))
    assert row.startswith("PLUGRAD_CACHE: what is compiled can't be kept in ") and "file is no folder" in row
    text = command("cache", PLUGRAD_CACHE=str(tmp_path / "file")).stdout
    assert text.startswith("nothing is kept\n0 files")
    assert output(COMPILING, PLUGRAD_CACHE=str(tmp_path / "file")) == "0.0\n"


# ---------------------------------------------------------------------------------------------------- versions


def test_a_numpy_that_is_too_old_is_told(tmp_path):
    (row,) = doctor(described(tmp_path, "numpy", "1.26.4"), status=1)
    assert row == 'numpy: version 1.26.4 is installed, plugrad needs >=2.1 -> pip install "numpy>=2.1"'
    assert doctor(described(tmp_path / "new", "numpy", "99.1"), status=0) == []
    (row,) = doctor(described(tmp_path / "early", "numpy", "2.1.0rc1"), status=1)
    assert "version 2.1.0rc1 is installed" in row


def test_what_a_plugins_distribution_needs_is_looked_at(tmp_path):
    folder = sound(tmp_path)
    (metadata,) = folder.glob("*.dist-info/METADATA")
    needs = ("plugrad>=99", "absent-thing (>=2)", "numpy>=1", "nowhere; python_version < '3'", "x ; extra == 'y'")
    metadata.write_text(metadata.read_text() + "".join(f"Requires-Dist: {line}\n" for line in needs))
    here = run("import plugrad; print(plugrad.__version__)").stdout.strip()
    assert doctor(folder, status=1) == [
        f'plugrad: version {here} is installed, plugrad-sound needs >=99 -> pip install "plugrad>=99"',
        'absent-thing: plugrad-sound needs it, and it is not installed -> pip install "absent-thing>=2"',
    ]


def test_what_can_not_be_read_is_needed_by_nobody(tmp_path):
    (row,) = doctor(described(tmp_path, "numpy", "banana"), status=1)
    assert row.startswith("numpy: version banana is installed, plugrad needs >=2.1")
    folder = sound(tmp_path / "guest")
    (metadata,) = folder.glob("*.dist-info/METADATA")
    lines = ("numpy>=banana", "c @ https://somewhere", "numpy>=99; python_version < '3'", "nowhere; extra == 'gpu'")
    added = "".join(f"Requires-Dist: {line}\n" for line in lines)
    metadata.write_text(metadata.read_text() + added + "\nRequires-Dist: d")
    assert [row.partition(":")[0] for row in doctor(folder, status=1)] == ["c"]


# ---------------------------------------------------------------------------------------------------- what else


def test_several_cupys_and_one_that_can_not_be_used(tmp_path):
    one = described(tmp_path / "one", "cupy-cuda12x", "13.0")
    (tmp_path / "one" / "cupy.py").write_text("raise ImportError('libcuda.so.1 is not there')")
    (row,) = doctor(one, status=1)
    assert row.startswith("cupy-cuda12x: the device cuda can't be used: ") and "libcuda.so.1 is not there" in row
    assert row.endswith("-> install the CuPy that fits the driver's CUDA")
    rows = doctor(one, described(tmp_path / "two", "cupy-cuda11x", "13.0"), status=1)
    assert "cupy: cupy-cuda11x and cupy-cuda12x are installed, of which one can work -> uninstall all but one" in rows
    assert len(rows) == 2


def test_differences_from_the_lock_file_are_told(tmp_path):
    folder, work = sound(tmp_path), tmp_path / "work"
    work.mkdir()
    (info,) = folder.glob("*.dist-info")
    digest = hashlib.sha256((folder / "sound_module.py").read_bytes())
    code = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    (info / "RECORD").write_text(f"sound_module.py,sha256={code},\n{info.name}/RECORD,,\n")
    command("plugins", "lock", paths=[folder], cwd=work)
    assert doctor(folder, status=0, cwd=work) == []
    (folder / "sound_module.py").write_text(op_module("sound", "input + 3"))
    (row,) = doctor(folder, status=1, cwd=work)
    assert row.startswith("plugrad-sound: sound_module.py is not what RECORD says -> install what plugrad.lock says")
    rows = doctor(sound(tmp_path, "other"), status=1, cwd=work)
    assert [row.partition(" -> ")[0] for row in rows] == [
        "plugrad-other: version 1.0 is installed and not in the lock file",
        "plugrad-sound: version 1.0 is locked and not installed",
    ]


def test_what_pip_left_does_not_count_and_is_told(tmp_path):
    folder = sound(tmp_path)
    (info,) = folder.glob("*.dist-info")
    info.rename(folder / f"~{info.name[1:]}")
    (row,) = doctor(folder, status=1)
    assert row.startswith("~lugrad_sound-1.0.dist-info: pip was interrupted") and f"delete {folder}" in row
    done = run("import plugrad; print(hasattr(plugrad, 'sound'))", folder)
    assert (done.stdout, done.stderr) == ("False\n", "")
    half = sound(tmp_path / "half")
    (half / info.name / "METADATA").unlink()
    (row,) = doctor(half, status=1)
    assert "its METADATA is missing" in row and "install it again, or delete" in row
    (half / info.name / "METADATA").write_bytes(b"Version: 1\nSummary: \xff\n")
    (row,) = doctor(half, status=1)
    assert "its METADATA has no name" in row
