"""What the registry tells, and asks of, the layers above it: plain lists to which they append functions.

The registry imports nothing of plugrad but errors. Whatever keeps something that depends on what plugins bring, as the
class Tensor keeps methods, subscribes here while it is imported, which is before any plugin is loaded.
"""

from __future__ import annotations

on_public_names: list = []  # f(names): a plugin brought public names, such as "Tensor.relu" and "nn.Linear"
on_promise: list = []  # f(dotted): a manifest promises a public name, whose plugin is loaded at first use
on_ops: list = []  # f(records): a plugin brought ops
on_written: list = []  # f(names): ops of these names, or methods, have in-place forms
on_forget: list = []  # f(dotted): something else may stand behind a public name from now on

on_needed: list = []  # f(plugin, quiet): a name is used that the plugin promises; quiet: its failure is a warning
on_missing: list = []  # f(name) -> str: what a name that is not there may have to do with
on_unknown: list = []  # f() -> bool: a name is unknown; whether there is more now, so that it should be looked up again

reserved: dict[str, set] = {}  # home ("Tensor", "" for plugrad itself) -> names there that no plugin can have


def publish(subscribers: list, *what) -> None:
    """Call each function of a list."""
    for function in subscribers:
        function(*what)


def reserve(home: str, names) -> None:
    """Keep names of a public place for the core, whatever a plugin's records are."""
    reserved.setdefault(home, set()).update(names)
