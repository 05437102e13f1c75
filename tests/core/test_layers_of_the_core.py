"""The core is built in layers: a package imports only those below it, at the top of its modules, without cycles."""

import ast
import pathlib
import sys
import tomllib
from collections import Counter

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CORE = ROOT / "core"
FOLDERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
ROOMS = tuple(package for package in FOLDERS if package != "plugrad")  # what stands beside the core

# Lowest first. What stands in one row imports nothing else of its row.
LAYERS = (
    ("errors", "interrupts", "nest", "regions"),
    ("registry",),
    ("needs", "return_types"),
    ("devices",),
    ("graph",),
    ("tensor",),
    ("dispatch",),
    ("autograd",),
    ("nn",),
    ("optim",),
    ("",),  # plugrad/__init__.py
)

# Modules that are imported inside of a function, since a program that does not use them should not pay for them:
# (importing module, imported module or the first part of its name) -> why.
LAZY_DOORS = {
    ("plugrad.registry.namespaces", "plugrad."): "rooms beside the core, at the first use of the names that they give",
    ("plugrad.registry.loader", "plugrad.registry.third_parties"): "how third parties' plugins are loaded",
    ("plugrad.optim.optimizer", "plugrad.optim.batching"): "how updates are batched over parameters",
    ("plugrad.nn.tables", "plugrad."): "hooks on a module's backward, Module.compile, what is wrong in words: the same",
    ("plugrad.devices.device", "plugrad.backends"): "what a device number means, and falling back to the CPU",
    ("plugrad.registry.preferences", "plugrad.registry.settings"): "settings, where there is something to decide",
    ("plugrad.tensor.protocols", "plugrad.printing"): "the text of a tensor: a program that trains prints few",
}


def name_of(file) -> str:
    parts = ["plugrad", *file.relative_to(CORE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {name_of(file): file for file in sorted(CORE.rglob("*.py"))}
TREES = {name: ast.parse(file.read_text()) for name, file in FILES.items()}


def layer_of(module: str) -> int:
    """Return the height of a module's package; what is not of the core stands above all of it."""
    part = module.split(".")[1] if "." in module else ""
    heights = [height for height, row in enumerate(LAYERS) if part in row and not _is_room(module)]
    return heights[0] if heights else len(LAYERS)


def package_of(module: str) -> str:
    return ".".join(module.split(".")[:2])


def targets(node, module):
    """Return the modules of plugrad that a statement or call imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if alias.name.split(".")[0] == "plugrad"]
    if isinstance(node, ast.ImportFrom):
        assert not node.level, f"{module} has a relative import"
        if node.module.split(".")[0] != "plugrad":
            return []
        below = [f"{node.module}.{alias.name}" for alias in node.names]
        return [name if name in FILES or _is_room(name) else node.module
                for name in below]  # fmt: skip
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__"):
        first = node.args[0].values[0] if isinstance(node.args[0], ast.JoinedStr) else node.args[0]
        name = first.value if isinstance(first, ast.Constant) else ""
        return [name] if name.split(".")[0] == "plugrad" else []
    return []


def _is_room(name) -> bool:
    return any(f"{name}.".startswith(f"{room}.") for room in ROOMS)


def statements(tree):
    """Yield (node, name of the function that it is in, or None) of a module."""

    def below(node, function):
        for child in ast.iter_child_nodes(node):
            yield child, function
            inner = function
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inner = getattr(child, "name", function or "lambda")
            yield from below(child, inner)

    return below(tree, None)


def imports_of(trees):
    """Return (importing module, function that it is in, or None, imported module) for all imports."""
    return [
        (module, function, target)
        for module, tree in trees.items()
        for node, function in statements(tree)
        for target in targets(node, module)
    ]


IMPORTS = imports_of(TREES)


def is_door(module, target) -> bool:
    return any(module == here and target.startswith(there) for here, there in LAZY_DOORS)


def upward():
    return {
        f"{module} -> {target}"
        for module, function, target in IMPORTS
        if (package_of(module) != package_of(target) or _is_room(target))
        and layer_of(target) >= layer_of(module)
        and not (function and is_door(module, target))
    }


def local():
    return {
        f"{module}: {function} -> {target}"
        for module, function, target in IMPORTS
        if function and not is_door(module, target)
    }


def circles():
    """Return the groups of modules that import each other while they are imported."""
    edges: dict = {name: set() for name in FILES}
    for module, function, target in IMPORTS:
        if function is None and target in FILES:
            edges[module].add(target)
            if package_of(target) != package_of(module) and package_of(target) in FILES:
                edges[module].add(package_of(target))  # importing a package's module imports the package
    reach = {name: set(reached) for name, reached in edges.items()}
    grown = True
    while grown:
        grown = False
        for reached in reach.values():
            more = set().union(*(reach[one] for one in reached)) - reached if reached else set()
            if more:
                reached |= more
                grown = True
    return {" ".join(sorted(m for m in reach if name in reach[m] and m in reach[name])) for name in reach
            if name in reach[name]}  # fmt: skip


def injected():
    """Return what modules put into other modules while they are imported: `engine.Tensor = Tensor`."""
    attributes = set()
    for module, tree in TREES.items():
        imported = {}
        for node, function in statements(tree):
            if function is None and isinstance(node, (ast.Import, ast.ImportFrom)):
                names = targets(node, module)
                if names:
                    imported.update(
                        (alias.asname or alias.name, target) for alias, target in zip(node.names, names)
                        if target.rpartition(".")[2] == alias.name
                    )  # fmt: skip
        for node, function in statements(tree):
            if function is not None or not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
                continue
            wanted = node.targets if isinstance(node, ast.Assign) else [node.target]
            for part in [one for target in wanted for one in ast.walk(target)]:
                if isinstance(part, ast.Attribute) and ast.unparse(part.value) in imported:
                    attributes.add(f"{module} -> {imported[ast.unparse(part.value)]}.{part.attr}")
    return attributes


def test_every_package_has_its_layer():
    assert all(layer_of(name) < len(LAYERS) for name in FILES)
    assert not [part for part, count in Counter(part for row in LAYERS for part in row).items() if count > 1]


def test_no_package_imports_one_above_it():
    assert upward() == set()


def test_nothing_of_plugrad_is_imported_inside_of_a_function():
    assert local() == set()


def test_every_lazy_door_is_one():
    assert len(LAZY_DOORS) < 9
    for module, target in LAZY_DOORS:
        assert any(here == module and function and there.startswith(target) for here, function, there in IMPORTS)


def test_no_modules_import_each_other():
    assert circles() == set()


def test_no_module_puts_names_into_another():
    assert injected() == set()


def test_the_function_tensor_hides_the_package_of_that_name():
    import plugrad

    assert plugrad.tensor is sys.modules["plugrad.tensor.creation"].tensor
    home = pathlib.Path(plugrad.__file__).parent  # installed, or the source tree
    assert sys.modules["plugrad.tensor"].__file__ == str(home / "tensor" / "__init__.py")
    assert plugrad.device is sys.modules["plugrad.devices.device"].device
    for name, tree in TREES.items():
        for node, _ in statements(tree):
            names = [alias.name for alias in node.names] if isinstance(node, ast.ImportFrom) else ()
            assert not (names and node.module == "plugrad" and {"tensor", "device"} & set(names)), name


@pytest.mark.parametrize(
    ("finder", "module", "source", "violation"),
    [
        (upward, "plugrad.graph.x", "from plugrad.tensor import views", "plugrad.graph.x -> plugrad.tensor.views"),
        (upward, "plugrad.nn.x", "import plugrad", "plugrad.nn.x -> plugrad"),
        (upward, "plugrad.nn.x", "from plugrad import testing", "plugrad.nn.x -> plugrad.testing"),
        (local, "plugrad.nn.x", "def f(): from plugrad.tensor import views", "plugrad.nn.x: f -> plugrad.tensor.views"),
        (local, "plugrad.nn.x", "f = lambda: import_module('plugrad.nest')", "plugrad.nn.x: lambda -> plugrad.nest"),
        (circles, "plugrad.errors", "from plugrad import nest", "plugrad.errors plugrad.nest"),
        (circles, "plugrad.errors", "from plugrad.nest import leaves", "plugrad.errors plugrad.nest"),
        (
            injected, "plugrad.nn.x", "from plugrad.graph import nodes\nnodes.Tensor, y = 1, 2",
            "plugrad.nn.x -> plugrad.graph.nodes.Tensor",
        ),
    ],
)  # fmt: skip
def test_a_violation_would_be_found(monkeypatch, finder, module, source, violation):
    trees = {**TREES, module: ast.parse(source), "plugrad.nest": ast.parse("from plugrad import errors")}
    changed = {"TREES": trees, "FILES": {**FILES, module: None}, "IMPORTS": imports_of(trees)}
    for name, value in changed.items():
        monkeypatch.setitem(globals(), name, value)
    assert violation in finder()


def test_the_core_stays_small():
    """What is not tensors, autograd, dispatch, registry, or the bases of nn and optim belongs into a room beside it."""
    assert sum(len(path.read_text().splitlines()) for path in CORE.rglob("*.py")) <= 12_000
