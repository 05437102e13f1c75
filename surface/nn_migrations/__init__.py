"""States of older layouts: the migrations of a class, and what loading a state into a module would do."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Plan", "brought_up", "migrated", "plan"]


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
    if version is None or version == module.state_version:
        return state
    own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
    try:
        own = brought_up(type(module), own, version, prefix.removesuffix("."))
    except ValueError as error:
        errors.append(str(error))
        return state
    others = {key: value for key, value in state.items() if not key.startswith(prefix)}
    return OrderedDict({**others, **{prefix + key: value for key, value in own.items()}})


def brought_up(cls, state, version, name=""):
    """Return a state in the layout of its class today, by `migrations`, step by step.

    The layout of a class without `state_version` is 1. ValueError for layouts that are later, or from which no
    migration leads on, with what the state is called, or else the class.
    """
    known = 1 if cls.state_version is None else cls.state_version
    told = f"{name or cls.__name__}: its state has layout {version!r}"
    if type(version) is not int:
        raise ValueError(f"{told}, which is no whole number")
    if version > known:
        raise ValueError(
            f"{told}, and {cls.__name__} knows layouts up to {known}: install the version of the package that wrote "
            "it, or a later one"
        )
    for step in range(version, known):
        change = cls.migrations.get(step)
        if change is None:
            raise ValueError(f"{told}, and no migration leads from {step} to {step + 1}")
        state = change(dict(state))
        if not isinstance(state, Mapping):
            raise TypeError(
                f"the migration of {cls.__name__} from layout {step} must return the state as a dict, not "
                f"{type(state).__name__}"
            )
    return state
