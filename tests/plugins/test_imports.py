"""Our plugins use the surface that everybody's have, and nothing else of plugrad."""

import ast

import pytest

from support.distribution_builder import ROOT

PUBLIC = {"plugrad", "plugrad.nn", "plugrad.nn.functional", "plugrad.extend", "plugrad.optim"}
PUBLIC |= {"plugrad.distributions", "plugrad.distributions.utils", "plugrad.errors", "plugrad.formats"}
PUBLIC |= {"plugrad.compiler", "plugrad.compiler.graph"}
PUBLIC |= {"plugrad.formats.writing", "plugrad.trackers", "plugrad.utils.tensorboard"}
# What reads and writes plugrad's own format is the room of `save` and `load`, and shares what may be trusted with it.
ROOMS = ("archive", "description", "reading", "safe_globals", "writing")
CHECKPOINTS = {f"plugrad.serialization.{name}" for name in ROOMS}
PLUGIN_FILES = sorted((ROOT / "plugins").rglob("*.py"))


@pytest.mark.parametrize("file", PLUGIN_FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_our_plugins_import_only_what_third_parties_have(file):
    for node in ast.walk(ast.parse(file.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = [node.module]
        for module in modules:
            if module.partition(".")[0] == "plugrad":
                allowed = PUBLIC | CHECKPOINTS if file.parent.name == "formats" else PUBLIC
                assert module in allowed or module.startswith("plugrad.plugins"), f"line {node.lineno}: {module}"
            assert module.partition(".")[0] not in ("core", "plugins", "torch"), f"line {node.lineno}: {module}"
