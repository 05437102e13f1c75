"""The plugin contract: the hooks that a plugin module may implement.

Every hook takes nothing and returns an iterable of records (or classes). A plugin module usually ends with

    @hookimpl
    def plugrad_ops():
        return collect(Op, globals())

Hooks are called once, when the plugin is loaded; nothing calls them when an op runs. A plugin module may state the
range of API versions that it was written for: `plugrad_api = (1, 1)`.
"""

from __future__ import annotations

import pluggy

PLUGRAD_API = 1

hookspec = pluggy.HookspecMarker("plugrad")
hookimpl = pluggy.HookimplMarker("plugrad")


@hookspec
def plugrad_ops():
    """Return the plugin's `Op` records."""


@hookspec
def plugrad_kernels():
    """Return `Kernel` records: kernels for ops of others."""


@hookspec
def plugrad_losses():
    """Return the Module classes of losses: they appear as `plugrad.nn.NAME`."""


@hookspec
def plugrad_layers():
    """Return Module classes: they appear as `plugrad.nn.NAME`."""


@hookspec
def plugrad_optimizers():
    """Return Optimizer classes: they appear as `plugrad.optim.NAME`."""


@hookspec
def plugrad_schedulers():
    """Return LRScheduler classes: they appear as `plugrad.optim.lr_scheduler.NAME`."""


@hookspec
def plugrad_inits():
    """Return functions that fill a tensor: they appear as `plugrad.nn.init.NAME`."""


@hookspec
def plugrad_backends():
    """Return Backend classes: each serves the device type that is its `name`."""


@hookspec
def plugrad_compilers():
    """Return functions `compile(graph, example_inputs) -> callable`."""


@hookspec
def plugrad_cli(app):
    """Add commands to the typer application `app`."""
