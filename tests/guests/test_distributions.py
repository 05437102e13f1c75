"""What is installed is found without importlib.metadata, and as importlib.metadata would."""

import importlib.metadata
import pathlib
import sys
import zipfile

from plugrad.registry import distributions
from support.distribution_builder import build, op_module, output

PRINT = """
import sys
import plugrad
print("importlib.metadata" in sys.modules, sorted(p.id for p in plugrad.registry.plugins.values() if not p.builtin))
"""


def test_the_folders_are_those_that_importlib_finds():
    found = [pathlib.Path(one.path) for one in distributions.on_path()]
    theirs = [pathlib.Path(one._path) for one in importlib.metadata.distributions(path=sys.path)]
    assert theirs and sorted(set(found)) == sorted(set(theirs))


def test_metadata_are_read_alike(tmp_path):
    build(tmp_path, "plugrad-plain", {"plugrad.ops": {"plain": "plain"}})
    (info,) = tmp_path.glob("*.dist-info")
    (info / "RECORD").write_bytes(b"a\xff,,\r\nb,,\r\n")
    ours = distributions.MetadataFolder(str(info))
    theirs = importlib.metadata.PathDistribution(info)
    assert ours.read_text("METADATA") == theirs.read_text("METADATA")
    assert ours.read_text("missing") is None is theirs.read_text("missing")
    (info / "folder").mkdir()
    (info / "empty").write_bytes(b"")
    (info / "large").write_bytes(b"0123456789\n" * 50_000)
    assert ours.read_text("folder") is None and ours.read_text("empty") == ""
    assert ours.read_text("large") == theirs.read_text("large")
    assert ours.read_text("RECORD") == "a\N{REPLACEMENT CHARACTER},,\nb,,\n"
    assert ours.locate_file("plain.py") == theirs.locate_file("plain.py")


def test_importlib_is_not_needed_for_folders(tmp_path):
    build(tmp_path, "plugrad-plain", {"plugrad.ops": {"plain": "plain"}}, plain=op_module("plain"))
    assert output(PRINT, tmp_path) == "False ['plugrad-plain:plain']\n"


def test_of_packages_without_plugins_one_file_is_looked_for(tmp_path):
    for number in range(20):
        build(tmp_path, f"other-{number}", {"console_scripts": {"run": "nowhere:main"}})
    build(tmp_path, "plugrad-plain", {"plugrad.ops": {"plain": "plain"}}, plain=op_module("plain"))
    program = f"""
import pathlib, sys
opened = []
sys.addaudithook(lambda event, details: opened.append(details[0]) if event == "open" else None)
import plugrad
inside = [pathlib.Path(path) for path in opened if str(path).startswith({str(tmp_path)!r})]
print(sorted((path.name, path.parent.name[:5]) for path in inside if path.parent.name[:5] == "plugr"))
print({{path.name for path in inside if path.parent.name[:5] == "other"}}, len(inside))
"""
    first, second = output(program, tmp_path).splitlines()
    assert first == "[('METADATA', 'plugr'), ('entry_points.txt', 'plugr')]"
    assert second == "{'entry_points.txt'} 22"


def test_an_archive_on_the_path_is_looked_into(tmp_path):
    build(tmp_path / "in", "plugrad-zipped", {"plugrad.ops": {"zipped": "zipped"}}, zipped=op_module("zipped"))
    archive = tmp_path / "all.zip"
    with zipfile.ZipFile(archive, "w") as zipped:
        for file in (tmp_path / "in").rglob("*"):
            zipped.write(file, file.relative_to(tmp_path / "in"))
    program = PRINT + "print(plugrad.zipped(plugrad.ones(1)))\n"
    assert output(program, archive) == "True ['plugrad-zipped:zipped']\ntensor([2.])\n"


def test_finders_with_distributions_of_their_own_are_asked(tmp_path):
    build(tmp_path, "plugrad-elsewhere", {"plugrad.ops": {"elsewhere": "elsewhere"}})
    program = f"""
import importlib.metadata, pathlib, sys
class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None
    @staticmethod
    def find_distributions(context=None):
        return map(importlib.metadata.PathDistribution, pathlib.Path({str(tmp_path)!r}).glob("*.dist-info"))
sys.meta_path.append(Finder)
"""
    assert output(program + PRINT) == "True ['plugrad-elsewhere:elsewhere']\n"
