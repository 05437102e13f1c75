"""Records of this process as a distribution that is installed and loaded, for as long as a test needs it."""

from __future__ import annotations

import contextlib
import functools
import sys
import types

from plugrad import registry
from plugrad.extend import hookimpl, session
from plugrad.registry import loader


@contextlib.contextmanager
def installed(distribution, **records):
    """Load a distribution that brings these records, {kind: [record, ...]}; within the `with` it is there."""
    name = distribution.replace("-", "_").removeprefix("plugrad_")
    module = sys.modules[name] = types.ModuleType(name)
    for kind, items in records.items():
        setattr(module, f"plugrad_{kind}", hookimpl(functools.partial(list, items), specname=f"plugrad_{kind}"))
    module.plugrad_api = (2, 2)
    plugin = loader.Plugin(distribution, "1.2", "main", name, False)
    plugin.kinds.add("plugin")
    loader.plugins[plugin.id] = plugin
    try:
        loader.load(plugin)
        yield plugin
    finally:
        entries = list({id(entry): entry for entry in plugin.brought.values()}.values())
        names = [name for entry in entries for name in session._withdraw(plugin, entry)]
        for key in [key for key, op in registry.ops.items() if op.provider is plugin]:
            del registry.ops[key]
        del loader.plugins[plugin.id], sys.modules[name]
        loader._manager.unregister(name=plugin.id)
        session._follow(names)
