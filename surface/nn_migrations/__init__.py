"""States of older layouts: the migrations of a module's class, and what loading a state would do."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Plan", "migrated", "plan"]


@dataclass
class Plan:
    """What `load_state_dict(state, plan=True)` found: print it, or ask whether it `fits`.

    `loaded` holds the names that would get values, `errors` what does not fit, `migrations` the modules whose state is
    of an older layout, as "name: from -> to".
    """

    loaded: list[str] = field(default_factory=list)
    missing_keys: list[str] = field(default_factory=list)
    unexpected_keys: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    migrations: list[str] = field(default_factory=list)

    @property
    def fits(self) -> bool:
        """Whether load_state_dict(strict=True) would succeed."""
        return not (self.missing_keys or self.unexpected_keys or self.errors)

    def __str__(self):
        lines = [f"{len(self.loaded)} of {len(self.loaded) + len(self.missing_keys)} names would be loaded"]
        for heading, entries in (
            ("migrated", self.migrations), ("missing", self.missing_keys), ("unexpected", self.unexpected_keys),
            ("does not fit", self.errors),
        ):  # fmt: skip
            lines += [f"{heading}: {entry}" for entry in entries]
        return "\n".join(lines)


def plan(module, state_dict, assign=False) -> Plan:
    """Return what loading a state into a module would do; it is tried on a copy, and the module stays as it is."""
    twin, result = copy.deepcopy(module), Plan()

    def note(_, keys):
        result.missing_keys, result.unexpected_keys = list(keys.missing_keys), list(keys.unexpected_keys)

    twin.register_load_state_dict_post_hook(note)
    metadata = getattr(state_dict, "_metadata", None) or {}
    for name, each in module.named_modules():
        version = metadata.get(name, {}).get("version")
        if each.state_version is not None and version is not None and version < each.state_version:
            result.migrations.append(f"{name or type(each).__name__}: {version} -> {each.state_version}")
    try:
        twin.load_state_dict(state_dict, strict=False, assign=assign)
    except RuntimeError as error:
        result.errors = [line.strip() for line in str(error).splitlines()[1:]]
    named = [key for key in module.state_dict() if key not in result.missing_keys]
    result.loaded = [key for key in named if not any(key in error for error in result.errors)]
    return result


def migrated(module, state, prefix, version, errors):
    """Return a state in the layout that a module's class has now, brought there by the class's migrations.

    Of a state without a version nothing says how old it is: it stays. Complaints go to `errors`.
    """
    known, name = module.state_version, prefix.removesuffix(".") or type(module).__name__
    if version is None or version == known:
        return state
    if version > known:
        errors.append(
            f"{name}: its state has layout {version}, and {type(module).__name__} knows layouts up to {known}: install "
            "the version of the package that wrote it, or a later one"
        )
        return state
    own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    for step in range(version, known):
        change = module.migrations.get(step)
        if change is None:
            errors.append(f"{name}: its state has layout {version}, and no migration leads from {step} to {step + 1}")
            return state
        own = change(dict(own))
        if not isinstance(own, Mapping):
            raise TypeError(
                f"the migration of {type(module).__name__} from layout {step} must return the state as a dict, not "
                f"{type(own).__name__}"
            )
    others = {key: value for key, value in state.items() if not key.startswith(prefix)}
    return OrderedDict({**others, **{prefix + key: value for key, value in own.items()}})
