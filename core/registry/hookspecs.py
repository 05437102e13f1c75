"""The plugin contract: the hooks that a plugin module may implement.

Every hook takes nothing and returns an iterable of records, classes or functions. A plugin module usually ends with

    @hookimpl
    def plugrad_ops():
        return collect(Op, globals())

Hooks are called once, when the plugin is loaded; nothing calls them when an op runs. A plugin module states the range
of versions of this contract that it works with, `plugrad_api = (1, 2)`; see `plugrad.api`.
"""

from __future__ import annotations

import pluggy

from plugrad.registry import contract

PLUGRAD_API = contract.CURRENT

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
    """Return Module classes of losses, except those that `@loss` derives: they appear as `plugrad.nn.NAME`."""


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
def plugrad_init_policies():
    """Return functions that initialise a module, for `plugrad.nn.init.policy(NAME)`."""


@hookspec
def plugrad_backends():
    """Return Backend classes: each serves the device type that is its `name`."""


@hookspec
def plugrad_compilers():
    """Return functions `compile(graph, example_inputs) -> callable`."""


@hookspec
def plugrad_hooks():
    """Return OpHook classes, hooks on ops: they appear as `plugrad.op_hooks.NAME`."""


@hookspec
def plugrad_distributions():
    """Return Distribution classes: they appear as `plugrad.distributions.NAME`."""


@hookspec
def plugrad_formats():
    """Return Format classes: `load` recognises files of each, and `save(format=NAME)` writes them."""


@hookspec
def plugrad_trackers():
    """Return Tracker classes: `trackers.track(folder, NAME)` begins one."""


@hookspec
def plugrad_cli():
    """Return commands for the command line: functions, or typer applications."""
