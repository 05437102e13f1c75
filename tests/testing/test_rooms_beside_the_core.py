"""What stands beside the core: it imports the core's public packages, at the top of its modules, and without cycles."""

import ast
import functools
import graphlib
import pathlib
import tomllib

import plugrad
from plugrad.testing.running import state
from support.distribution_builder import ROOT

FOLDERS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-dir"]
ORDER = ("surface", "testing", "cli")  # each room may import those before it
PUBLIC = {"plugrad", *(f"plugrad.{name}" for name in ("autograd", "errors", "extend", "nest", "nn", "optim"))}

AUTHORS = "plugrad.extend"  # makes public what authors of plugins get of the core, and may ask all of it
# What a room may ask of the core's other modules: they have no other public home.
PRIVATE = {
    "plugrad.sparse.tensors -> plugrad.tensor.layouts",
    "plugrad.masked_tensors.tensors -> plugrad.tensor.tensor",
    "plugrad.nested.tensors -> plugrad.tensor.tensor",
    "plugrad.autograd.rare.anomaly -> plugrad.graph.saved",
    "plugrad.subclasses.held -> plugrad.graph.rare",
    "plugrad.subclasses.held -> plugrad.tensor.overriding",
    "plugrad.sparse.tensors -> plugrad.tensor.tensor",
    "plugrad.tensor_methods -> plugrad.tensor.tensor",
    "plugrad._C -> plugrad.graph.nodes",
    "plugrad.autograd.rare.arguments_of_walks -> plugrad.tensor.tensor",
    "plugrad.autograd.rare.callbacks -> plugrad.autograd.roots",
    "plugrad.autograd.rare.callbacks -> plugrad.graph.modes",
    "plugrad.autograd.rare.cast_inputs -> plugrad.graph.versions",
    "plugrad.autograd.rare.copied_views -> plugrad.graph.modes",
    "plugrad.autograd.rare.copied_views -> plugrad.graph.numpy_writes",
    "plugrad.autograd.rare.copied_views -> plugrad.graph.versions",
    "plugrad.autograd.rare.copied_views -> plugrad.tensor.views",
    "plugrad.autograd.rare.factories -> plugrad.tensor.layouts",
    "plugrad.autograd.rare.orders -> plugrad.tensor.tensor",
    "plugrad.autograd.rare.overlaps -> plugrad.tensor.indices",
    "plugrad.autograd.rare.unwritable -> plugrad.devices.dtypes",
    "plugrad.autograd.rare.unrecorded_views -> plugrad.graph.modes",
    "plugrad.autograd.rare.unrecorded_views -> plugrad.graph.versions",
    "plugrad.autograd.rare.unrecorded_views -> plugrad.tensor.tensor",
    "plugrad.autograd.rare.unrecorded_views -> plugrad.tensor.views",
    "plugrad.autograd.rare.overlaps -> plugrad.dispatch.families",
    "plugrad.torch_modules.future -> plugrad.nn.conversion",
    "plugrad.subclasses.arrays -> plugrad.devices.device",
    "plugrad.subclasses.arrays -> plugrad.tensor.layouts",
    "plugrad.subclasses.arrays -> plugrad.tensor.overriding",
    "plugrad.subclasses.arrays -> plugrad.tensor.tensor",
    "plugrad.subclasses.calls -> plugrad.dispatch.interception",
    "plugrad.subclasses.calls -> plugrad.dispatch.interpreter",
    "plugrad.subclasses.calls -> plugrad.graph.modes",
    "plugrad.subclasses.calls -> plugrad.graph.nodes",
    "plugrad.subclasses.calls -> plugrad.tensor.tensor",
    "plugrad.tensor_methods -> plugrad.tensor.layouts",
    "plugrad.amp.autocast_mode -> plugrad.graph.modes",
    "plugrad.autograd.foreign_formulas -> plugrad.dispatch.formulas",
    "plugrad.autograd.foreign_formulas -> plugrad.graph.nodes",
    "plugrad.autograd.forward_ad -> plugrad.graph.modes",
    "plugrad.autograd.forward_ad.functions -> plugrad.autograd.function_node",
    "plugrad.autograd.forward_ad.functions -> plugrad.graph.modes",
    "plugrad.autograd.forward_ad.levels -> plugrad.graph.modes",
    "plugrad.autograd.forward_ad.levels -> plugrad.graph.nodes",
    "plugrad.autograd.forward_ad.levels -> plugrad.regions",
    "plugrad.autograd.forward_ad.levels -> plugrad.tensor.layouts",
    "plugrad.autograd.forward_ad.levels -> plugrad.tensor.overriding",
    "plugrad.autograd.forward_ad.rules -> plugrad.dispatch.formulas",
    "plugrad.autograd.forward_ad.rules -> plugrad.dispatch.source",
    "plugrad.autograd.grad_mode -> plugrad.graph.modes",
    "plugrad.autograd.grad_mode -> plugrad.regions",
    "plugrad.autograd.graph -> plugrad.graph.versions",
    "plugrad.autograd.graph.calls -> plugrad.autograd.engine",
    "plugrad.autograd.graph.calls -> plugrad.graph.nodes",
    "plugrad.autograd.graph.edges -> plugrad.graph.modes",
    "plugrad.autograd.graph.edges -> plugrad.graph.nodes",
    "plugrad.autograd.graph.edges -> plugrad.tensor.tensor",
    "plugrad.autograd.graph.multi_grad -> plugrad.autograd.engine",
    "plugrad.autograd.graph.multi_grad -> plugrad.graph.rare",
    "plugrad.autograd.graph.multi_grad -> plugrad.graph.hooks",
    "plugrad.autograd.graph.multi_grad -> plugrad.graph.modes",
    "plugrad.autograd.graph.multi_grad -> plugrad.regions",
    "plugrad.autograd.graph.mutation -> plugrad.graph.modes",
    "plugrad.autograd.graph.mutation -> plugrad.regions",
    "plugrad.autograd.graph.saved -> plugrad.autograd.function_node",
    "plugrad.autograd.graph.saved -> plugrad.graph.modes",
    "plugrad.autograd.graph.saved -> plugrad.graph.saved",
    "plugrad.autograd.graph.saved -> plugrad.regions",
    "plugrad.autograd.graph.saved -> plugrad.tensor.tensor",
    "plugrad.autograd.missing_grads -> plugrad.graph.modes",
    "plugrad.autograd.missing_grads -> plugrad.interrupts",
    "plugrad.autograd.nan_guard -> plugrad.autograd.engine",
    "plugrad.autograd.nan_guard -> plugrad.graph.modes",
    "plugrad.autograd.rare.anomaly -> plugrad.autograd.engine",
    "plugrad.autograd.rare.anomaly -> plugrad.graph.modes",
    "plugrad.autograd.rare.anomaly -> plugrad.graph.nodes",
    "plugrad.autograd.rare.first_sight -> plugrad.dispatch.interception",
    "plugrad.autograd.rare.first_sight -> plugrad.graph.modes",
    "plugrad.autograd.rare.first_sight -> plugrad.tensor.overriding",
    "plugrad.autograd.rare.fresh_threads -> plugrad.graph.modes",
    "plugrad.autograd.rare.fresh_threads -> plugrad.interrupts",
    "plugrad.backends.following -> plugrad.graph.modes",
    "plugrad.catalog.rows -> plugrad.dispatch.source",
    "plugrad.kernels.cuda -> plugrad.dispatch.source",
    "plugrad.kernels.joining -> plugrad.devices.dtypes",
    "plugrad.kernels.joining -> plugrad.dispatch.source",
    "plugrad.backends.lists -> plugrad.graph.modes",
    "plugrad.backends.lists -> plugrad.graph.versions",
    "plugrad.compiler -> plugrad.regions",
    "plugrad.compiler.changing -> plugrad.regions",
    "plugrad.compiler.marks -> plugrad.regions",
    "plugrad.compiler.capturing -> plugrad.dispatch.formulas",
    "plugrad.compiler.capturing -> plugrad.dispatch.op",
    "plugrad.compiler.capturing -> plugrad.graph.modes",
    "plugrad.compiler.capturing -> plugrad.graph.nodes",
    "plugrad.compiler.results -> plugrad.graph.modes",
    "plugrad.compiler.results -> plugrad.tensor.tensor",
    "plugrad.compiler.stepping -> plugrad.optim.optimizer",
    "plugrad.compiler.varying -> plugrad.tensor.views",
    "plugrad.compiler.stepping -> plugrad.tensor.tensor",
    "plugrad.compiler.varying -> plugrad.tensor.tensor",
    "plugrad.compiler.capturing -> plugrad.regions",
    "plugrad.compiler.capturing -> plugrad.tensor.layouts",
    "plugrad.compiler.capturing -> plugrad.tensor.tensor",
    "plugrad.compiler.capturing -> plugrad.tensor.views",
    "plugrad.compiler.guards -> plugrad.graph.modes",
    "plugrad.compiler.guards -> plugrad.tensor.layouts",
    "plugrad.compiler.guards -> plugrad.tensor.tensor",
    "plugrad.compiler.programs -> plugrad.graph.modes",
    "plugrad.compiler.runs -> plugrad.graph.modes",
    "plugrad.compiler.runs -> plugrad.graph.nodes",
    "plugrad.compiler.runs -> plugrad.graph.saved",
    "plugrad.compiler.runs -> plugrad.graph.versions",
    "plugrad.compiler.runs -> plugrad.tensor.tensor",
    "plugrad.nn.utils.parametrize -> plugrad.regions",
    "plugrad.jit.decorators -> plugrad.regions",
    "plugrad.jit.modules -> plugrad.regions",
    "plugrad.jit.traced -> plugrad.regions",
    "plugrad.jit.examples -> plugrad.regions",
    "plugrad.autograd.rare.late_flags -> plugrad.graph.modes",
    "plugrad.autograd.rare.late_flags -> plugrad.graph.saved",
    "plugrad.autograd.rare.old_functions -> plugrad.autograd.function_node",
    "plugrad.autograd.rare.orders -> plugrad.graph.modes",
    "plugrad.autograd.rare.reshaped -> plugrad.dispatch.inplace",
    "plugrad.autograd.rare.reshaped -> plugrad.graph.modes",
    "plugrad.autograd.rare.reshaped -> plugrad.graph.nodes",
    "plugrad.autograd.rare.reshaped -> plugrad.graph.rare",
    "plugrad.autograd.rare.reshaped -> plugrad.graph.versions",
    "plugrad.autograd.rare.reshaped -> plugrad.needs",
    "plugrad.autograd.rare.reshaped -> plugrad.tensor.views",
    "plugrad.optim.batching -> plugrad.graph.modes",
    "plugrad.optim.batching -> plugrad.graph.versions",
    "plugrad.optim.checkpoints -> plugrad.interrupts",
    "plugrad.optim.lr_scheduler -> plugrad.interrupts",
    "plugrad.overrides -> plugrad.dispatch.interception",
    "plugrad.random.forks -> plugrad.graph.modes",
    "plugrad.random.forks -> plugrad.interrupts",
    "plugrad.random.forks -> plugrad.tensor.random",
    "plugrad.overrides -> plugrad.graph.modes",
    "plugrad.overrides -> plugrad.tensor.overriding",
    "plugrad.overrides.asked -> plugrad.tensor.tensor",
    "plugrad.nn.lazy.dry_run -> plugrad.interrupts",
    "plugrad.process_state -> plugrad.interrupts",
    "plugrad.process_state.settings -> plugrad.devices.device",
    "plugrad.process_state.settings -> plugrad.graph.modes",
    "plugrad.process_state.settings -> plugrad.nn.conversion",
    "plugrad.process_state.settings -> plugrad.optim.hooks",
    "plugrad.process_state.settings -> plugrad.tensor.random",
    "plugrad.process_state.withheld -> plugrad.interrupts",
    "plugrad.compiler.capturing -> plugrad.tensor.random",
    "plugrad.func.batching -> plugrad.dispatch.formulas",
    "plugrad.func.captured_writes -> plugrad.graph.modes",
    "plugrad.func.captured_writes -> plugrad.graph.versions",
    "plugrad.func.recording -> plugrad.graph.modes",
    "plugrad.formats.durable -> plugrad.interrupts",
    "plugrad.formats.writing -> plugrad.tensor.layouts",
    "plugrad.registry.third_parties.op_records -> plugrad.graph.rare",
    "plugrad.utils.checkpoint -> plugrad.regions",
}
# Functions that import a module by its name, when it is first asked for.
DOORS = {
    "plugrad.absent: __getattr__": "PyTorch's module paths, which are asked first and stand above it",
    "plugrad.kernels.loading: _extension": "the extension in C, which may not be there",
    "plugrad.kernels.loading: module": "the same",
    "plugrad.backends.switches: library": "NVIDIA's frontend of cuDNN, which may not be there",
    "plugrad.cli: _load": "the module of a command",
    "plugrad.cli.parity: theirs": "PyTorch, to compare with",
    "plugrad.cli.parity: ours": "a module under the path that PyTorch has",
    "plugrad.cli.parity: page": "PyTorch, for its version",
    "plugrad.testing.conformance: _cases": "the checks of a kind",
    "plugrad.testing.op_checks.references: reference": "an op's reference in another library",
    "plugrad.testing.running.processes: _answer": "what another process is asked to call",
    "plugrad.torch_modules.hub: __getattr__": "tqdm, where it is installed",
    "plugrad.torch_modules: imported": "the module that one of PyTorch's module paths means",
    "plugrad.utils: __getattr__": "data loading and checkpoints",
}


def files():
    """Return {dotted name: (room, path)} of all modules beside the core."""
    modules = {}
    for package, folder in FOLDERS.items():
        room = folder.partition("/")[0]
        for path in (ROOT / folder).rglob("*.py") if room in ORDER else ():
            inner = path.relative_to(ROOT / folder).with_suffix("").parts
            name = ".".join([package, *inner]).removesuffix(".__init__")
            modules[name] = (room, path)
    return modules


FILES = files()
CORE = {
    ".".join(["plugrad", *path.relative_to(ROOT / "core").with_suffix("").parts]).removesuffix(".__init__")
    for path in (ROOT / "core").rglob("*.py")
}


@functools.cache
def read() -> dict:
    """Return {dotted name: [(node, the function that it is in or None)]} of what may import, beside the core."""
    kinds = ast.Import, ast.ImportFrom, ast.Call
    trees = {module: ast.parse(path.read_text()) for module, (_, path) in FILES.items()}
    return {
        module: [pair for pair in statements(tree, None) if isinstance(pair[0], kinds)]
        for module, tree in trees.items()
    }


@functools.cache
def imports() -> list:
    """Return (module, function or None, imported module) for all of plugrad's that are imported beside the core."""
    return [*_imports()]


def _imports():
    for module, nodes in read().items():
        for node, function in nodes:
            if isinstance(node, ast.Import):
                yield from ((module, function, alias.name) for alias in node.names if is_ours(alias.name))
            elif isinstance(node, ast.ImportFrom):
                assert not node.level, f"{module} has a relative import"
                for alias in node.names if is_ours(node.module) else ():
                    inner = f"{node.module}.{alias.name}"
                    yield module, function, inner if inner in FILES or inner in CORE else node.module
            elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("importlib.import_module", "__import__"):
                assert f"{module}: {function}" in DOORS, f"{module}: {function} imports a module by its name"


def statements(node, function):
    for child in ast.iter_child_nodes(node):
        yield child, function
        named = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        yield from statements(child, child.name if named else function)


def is_ours(name) -> bool:
    return name.partition(".")[0] == "plugrad"


def test_nothing_of_plugrad_is_imported_inside_of_a_function():
    assert not [(module, function, target) for module, function, target in imports() if function is not None]


def test_a_room_imports_none_behind_it():
    heights = {name: ORDER.index(room) for name, (room, _) in FILES.items()}
    assert not [(one, other) for one, _, other in imports() if other in heights and heights[other] > heights[one]]


def test_there_are_no_circles():
    graph = {name: {other for one, _, other in imports() if one == name and other in FILES} for name in FILES}
    assert list(graphlib.TopologicalSorter(graph).static_order())  # CycleError names the modules


def test_no_module_is_imported_past_the_package_that_imports_it():
    """CPython locks a module, then its package: threads that first import the two would wait for each other."""
    asked = {
        (module, node.module)
        for module, nodes in read().items()
        for node, _ in nodes
        if isinstance(node, ast.ImportFrom) and node.module in FILES
        if not node.module.startswith(AUTHORS)  # which our plugins import, as the first of all rooms
    }
    package = {name: name.rpartition(".")[0] for _, name in asked}
    assert not [
        (module, name)
        for module, name in asked
        if (package[name], name) in asked and not f"{module}.".startswith(f"{package[name]}.")
    ]


def test_the_core_is_asked_through_its_public_packages():
    registry = "plugrad.registry"  # its modules are what tools ask about plugins
    private = {
        f"{module} -> {target}"
        for module, _, target in imports()
        if target in CORE and target not in PUBLIC and not f"{target}.".startswith(f"{registry}.")
        if not f"{module}.".startswith(f"{AUTHORS}.")
    }
    assert private == PRIVATE


def test_the_sources_of_all_rooms_count_for_what_is_finished():
    home = pathlib.Path(plugrad.__file__).parent
    in_tree = {ROOT / folder for folder in FOLDERS.values()}
    assert set(state._folders()) == (in_tree if home == ROOT / "core" else {home})
