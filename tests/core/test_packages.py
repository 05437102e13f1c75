"""The package as it is installed: its name, and its folders."""

import tomllib

from plugrad import registry
from plugrad.registry.third_parties.checks import check_promises
from support.distribution_builder import ROOT, lines, run


def test_the_core_refuses_any_other_name():
    done = run("import core.errors", ROOT)
    assert done.returncode != 0
    assert lines(done.stderr)[-1].startswith("ImportError: this package is `plugrad`")


def test_the_listed_packages_are_those_of_the_tree():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed, packages = set(settings["packages"]), set()
    for package, folder in settings["package-dir"].items():
        for file in (ROOT / folder).rglob("__init__.py"):
            packages.add(".".join((package, *file.parent.relative_to(ROOT / folder).parts)))
    assert listed == packages


def test_our_own_plugins_bring_what_the_manifest_promises():
    promising = [plugin for plugin in registry.plugins.values() if plugin.builtin and plugin.promised]
    assert {kind for plugin in promising for kind, _ in plugin.promised} >= {"backends", "compilers", "hooks"}
    for plugin in promising:
        registry.load(plugin)
        given = {}
        for entry in plugin.brought.values():
            given.setdefault(entry.kind, []).append(entry.value)
        check_promises(plugin, given)
