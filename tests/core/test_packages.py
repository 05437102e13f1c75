"""The package as it is installed: its name, and its folders."""

import tomllib

from plugrad import registry
from plugrad.registry.third_parties.checks import check_promises
from support.distribution_builder import ROOT, lines, output, run


def test_the_core_refuses_any_other_name():
    done = run("import core.errors", ROOT)
    assert done.returncode != 0
    assert lines(done.stderr)[-1].startswith("ImportError: this package is `plugrad`")


def test_the_listed_packages_are_those_of_the_tree():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    listed, packages = set(settings["packages"]), {"plugrad-stubs"}  # which holds no modules
    for package, folder in settings["package-dir"].items():
        for file in (ROOT / folder).rglob("__init__.py"):
            if "import_path" in file.parts:  # files for others to import, which packages hold as data
                continue
            packages.add(".".join((package, *file.parent.relative_to(ROOT / folder).parts)))
    assert listed == packages
    # Releases of setuptools that the project allows take nothing else for a key, and build nothing then.
    assert all(key == "*" or all(map(str.isidentifier, key.split("."))) for key in settings["package-data"])


def test_our_own_plugins_bring_what_the_manifest_promises():
    promising = [plugin for plugin in registry.plugins.values() if plugin.builtin and plugin.promised]
    assert {kind for plugin in promising for kind, _ in plugin.promised} >= {"backends", "compilers", "hooks"}
    for plugin in promising:
        registry.load(plugin)
        given = {}
        for entry in plugin.brought.values():
            given.setdefault(entry.kind, []).append(entry.value)
        check_promises(plugin, given)
        brought = {(entry.kind, entry.name) for entry in plugin.brought.values()}
        assert brought <= set(plugin.promised) | {("kernels", name) for _, name in brought}, plugin.id


def test_layers_and_optimizers_are_imported_when_they_are_used():
    printed = output("""if True:
        import sys
        import plugrad

        def loaded():
            names = [name.removeprefix("plugrad.plugins.") for name in sys.modules if "plugrad.plugins." in name]
            return sorted(name for name in names if name.partition(".")[0] in ("layers", "optim", "inits"))

        print(loaded())
        plugrad.nn.ReLU(), plugrad.optim.SGD([plugrad.zeros(1)], 0.1)
        print(loaded())
    """)
    assert printed == "[]\n['layers', 'layers.activation', 'optim', 'optim._common', 'optim.sgd']\n"
