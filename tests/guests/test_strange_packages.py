"""Packages as strangers make, leave and edit them: each works, or fails alone with its name and what to do."""

import pathlib

import pytest

from support.distribution_builder import build, command, lines, op_module, output, run

CALL = "import plugrad as torch; print(torch.{name}(torch.ones(1)).item())"
TRYING = """
import plugrad as torch
try:
    torch.{name}
except Exception as error:
    print(type(error).__name__, error)
x = torch.tensor([1.0, 2.0], requires_grad=True)
(x * x).sum().backward()
print(x.grad.tolist(), torch.ones(2).sin_().shape)
"""


def points(folder, text):
    (file,) = folder.glob("*.dist-info/entry_points.txt")
    file.write_bytes(text.encode())


def failing(folder, name):
    """Return what using a name says; everything else goes on."""
    error, rest = output(TRYING.format(name=name), folder).splitlines()
    assert rest == "[2.0, 4.0] torch.Size([2])"
    return error


# ---------------------------------------------------------------------------------------------------- they work


@pytest.mark.parametrize(
    "text",
    [
        "[plugrad.ops]\nodd = odd_module\nodd = odd_module\n\n[plugrad.ops]\nodd = odd_module\n",
        "[plugrad.ops]\r\nodd = odd_module\r\n",
        "[plugrad.ops]\n# of ours\n   odd   =   odd_module [fast,slow]\n; another\n",
    ],
)
def test_one_entry_point_however_it_is_written(tmp_path, text):
    points(build(tmp_path, "plugrad-odd", {}, odd_module=op_module("odd")), text)
    assert output(CALL.format(name="odd"), tmp_path) == "2.0\n"


def test_two_distributions_share_a_namespace_package(tmp_path):
    for name in ("one", "two"):
        folder = build(tmp_path / name, f"plugrad-{name}", {"plugrad.ops": {name: f"company.{name}.op"}})
        (folder / "company" / name).mkdir(parents=True)
        (folder / "company" / name / "op.py").write_text(op_module(name))
    paths = tmp_path / "one", tmp_path / "two"
    program = "import plugrad as t; x = t.ones(1); print(t.one(x).item(), t.two(x).item(), t.ops.two.two(x).item())"
    assert output(program, *paths) == "2.0 2.0 2.0\n"
    assert output(f"import company.one.op as module; {program}; print(module.one.scope)", *paths).endswith("one\n")
    command("check", "plugrad-one", "-k", "loading", paths=paths)


def test_editable_installs_by_path_and_by_finder(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "edited_module.py").write_text(op_module("edited"))
    folder = build(tmp_path / "site", "plugrad-edited", {"plugrad.ops": {"edited": "edited_module"}})
    (folder / "__editable__.pth").write_text(f"{source}\n")
    use = CALL.format(name="edited")
    assert output(f"import site; site.addsitedir({str(folder)!r}); {use}", folder) == "2.0\n"
    (folder / "__editable__.pth").unlink()
    (folder / "finder.py").write_text(f"""
import importlib.util, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "edited_module":
            return importlib.util.spec_from_file_location(name, {str(source / "edited_module.py")!r})
sys.meta_path.append(Finder)
""")
    assert output(f"import finder; {use}", folder) == "2.0\n"


@pytest.mark.parametrize(
    "ending",
    [
        "import sys, types\nsys.modules[__name__] = other = types.ModuleType(__name__)\nvars(other).update(globals())",
        "def __getattr__(name):\n    raise AttributeError(name)",
        "import threading, time\nthreading.Thread(target=time.sleep, args=(0.3,), daemon=True).start()",
        "print('loud')",
    ],
    ids=["replaces itself", "__getattr__", "thread", "prints"],
)
def test_modules_with_habits(tmp_path, ending):
    build(tmp_path, "plugrad-habit", {"plugrad.ops": {"habit": "habit_module"}},
          habit_module=f"{op_module('habit')}\n{ending}\n")  # fmt: skip
    done = run(CALL.format(name="habit"), tmp_path)
    assert done.stdout == "2.0\n" and done.stderr in ("", "loud\n")


def test_a_module_with_thousands_of_ops(tmp_path):
    names = [f"many{number}" for number in range(2000)]
    head = "from plugrad.extend import Op, collect, hookimpl, unary\n"
    ops = "".join(f"@unary(vjp=None)\ndef {name}(xp, input):\n    return input + 1\n" for name in names)
    hook = "@hookimpl\ndef plugrad_ops():\n    return collect(Op, globals())\n"
    build(tmp_path, "plugrad-many", {"plugrad.ops": dict.fromkeys(names, "many_module")}, many_module=head + ops + hook)
    assert output(CALL.format(name="many1999"), tmp_path) == "2.0\n"
    shown = command("plugins", "--third-party", paths=[tmp_path]).stdout
    assert "1988 more" in shown and len(shown) < 2000


# ---------------------------------------------------------------------------------------------------- they fail alone


NOWHERE = ["", ".relative", "a/b c", "gone.part", "odd_module:Nothing.there", "plugrad.extra.mine"]


@pytest.mark.parametrize("value", NOWHERE)
def test_values_that_lead_nowhere(tmp_path, value):
    build(tmp_path, "plugrad-odd", {"plugrad.ops": {"odd": value}}, odd_module=op_module("odd"))
    assert failing(tmp_path, "odd").startswith("PluginLoadError plugin plugrad-odd:odd 1.0 failed at import: ")
    for arguments in (["plugins", "lock", tmp_path / "lock"], ["plugins"], ["why", "odd"]):
        assert "Traceback" not in command(*map(str, arguments), paths=[tmp_path]).stderr
    if ":" not in value:  # which names a module has is seen by importing it
        assert "plugrad-odd:odd" in command("doctor", paths=[tmp_path], status=1).stdout


def test_one_name_for_two_modules_of_a_distribution_is_ambiguous(tmp_path):
    modules = {"odd_a": op_module("odd"), "odd_b": op_module("odd", "input + 2")}
    points(build(tmp_path, "plugrad-odd", {}, **modules), "[plugrad.ops]\nodd = odd_a\nodd = odd_b\n")
    said = failing(tmp_path, "odd")
    assert said.startswith("AmbiguousNameError 'odd' is brought by plugrad-odd:odd and plugrad-odd:ops.odd")
    preferred = output(CALL.format(name="odd"), tmp_path, PLUGRAD_PREFER="odd=plugrad-odd:ops.odd")
    assert preferred == "3.0\n"


def test_packages_that_need_each_other_while_they_are_imported(tmp_path):
    for one, other in (("ring", "wing"), ("wing", "ring")):
        source = f"import plugrad\nplugrad.{other}\n{op_module(one)}"
        build(tmp_path, f"plugrad-{one}", {"plugrad.ops": {one: f"{one}_module"}}, **{f"{one}_module": source})
    assert "plugrad-ring:ring" in failing(tmp_path, "ring")


@pytest.mark.parametrize("change", ["shutil.rmtree(folder)", "(folder / 'odd_module.py').write_text('1 / 0')"])
def test_what_is_uninstalled_or_upgraded_meanwhile(tmp_path, change):
    entries = {"plugrad.ops": {"odd": "odd_module"}}
    folder = build(tmp_path / "site", "plugrad-odd", entries, odd_module=op_module("odd"))
    meanwhile = f"import pathlib, shutil\nfolder = pathlib.Path({str(folder)!r})\n{change}\n"
    program = TRYING.format(name="odd").replace("try:", f"{meanwhile}try:", 1)
    error, _ = output(program, folder).splitlines()
    assert error.startswith("PluginLoadError plugin plugrad-odd:odd 1.0 failed at import")


def test_folders_and_links_in_place_of_metadata(tmp_path):
    folder = build(tmp_path, "plugrad-odd", {"plugrad.ops": {"odd": "odd_module"}})
    (file,) = folder.glob("*.dist-info/entry_points.txt")
    file.unlink()
    file.mkdir()
    (folder / "plugrad_link-1.0.dist-info").symlink_to(folder / "nowhere")
    (folder / "plugrad_file-1.0.dist-info").write_text("no folder")
    (folder / "plugrad_egg.egg-info").write_text("Name: plugrad-egg\nVersion: 1\n")
    assert failing(folder, "odd").startswith("AttributeError module 'plugrad' has no attribute 'odd'")
    assert command("doctor", paths=[folder]).stdout == "nothing is wrong\n"


def test_dozens_of_failures_cost_one_line(tmp_path):
    for number in range(40):
        name = f"bad{number}"
        build(tmp_path, f"plugrad-{name}", {"plugrad": {name: name}}, **{name: "raise RuntimeError"})
    done = run("import plugrad; print(plugrad.ones(1).item())", tmp_path)
    (line,) = lines(done.stderr)
    assert done.stdout == "1.0\n" and "(and 39 more)" in line


def test_text_of_strangers_in_metadata_does_not_steer_the_terminal(tmp_path):
    folder = build(tmp_path, "plugrad-odd", {"plugrad.ops": {"odd": "odd_module"}}, odd_module=op_module("odd"))
    (metadata,) = folder.glob("*.dist-info/METADATA")
    metadata.write_text("Metadata-Version: 2.1\nName: plugrad-odd\nVersion: \x1b[31m1;rm\n")
    for arguments in (["plugins"], ["why", "odd"], ["plugins", "lock", str(tmp_path / "lock")]):
        assert "\x1b" not in command(*arguments, paths=[folder]).stdout


def test_a_state_outlives_the_package_that_made_it(tmp_path):
    layer = """
import plugrad
from plugrad.extend import Module, Parameter, collect, hookimpl

class Odd(Module):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(plugrad.ones(2))

@hookimpl
def plugrad_layers():
    return collect(Module, globals())
"""
    folder = build(tmp_path / "site", "plugrad-odd", {"plugrad.layers": {"Odd": "odd_layer"}}, odd_layer=layer)
    saving = "import plugrad as t; t.save(t.nn.Sequential(t.nn.Odd()).state_dict(), 'state.pt')"
    output(saving, folder, cwd=tmp_path)
    assert pathlib.Path(tmp_path / "state.pt").is_file()
    assert output("import plugrad as t; print(list(t.load('state.pt')))", cwd=tmp_path) == "['0.weight']\n"
