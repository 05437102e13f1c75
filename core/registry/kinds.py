"""The kinds of records that plugins bring. Each layer declares its own: where they are public, and what is right."""

from __future__ import annotations

import keyword
import sys

from plugrad.registry import store

# Where ops can be public: in plugrad itself, and in these.
PLACES = ("", "Tensor", "nn.functional", "special", "linalg", "fft", "signal.windows", "masked")


class Kind:
    """One kind of records, such as "optimizers": see `declare_kind`."""

    __slots__ = ("name", "home", "what", "named_by", "_base")

    def __init__(self, name, home, base, what, named_by):
        self.name, self.home, self._base, self.what, self.named_by = name, home, base, what, named_by

    @property
    def base(self):
        """The class that records are of or derive from; None for any callable."""
        if isinstance(self._base, str):
            parent, _, module = f"plugrad.{self.home}".rpartition(".")
            self._base = getattr(getattr(sys.modules[parent], module), self._base)
        return self._base

    def matches(self, item) -> bool:
        """Whether an object is of the form that records of this kind have."""
        if self.base is None:
            return callable(item)
        is_class = isinstance(item, type) and issubclass(item, self.base)
        is_record = isinstance(item, self.base)
        return {"classes": is_class, "records": is_record, "classes or records": is_class or is_record}[self.what]

    def name_of(self, item):
        """Return the name of a record."""
        return getattr(item, self.named_by, None)

    def check(self, item) -> None:
        """Raise TypeError, naming record and rule, when what a hook returned is not what this kind needs."""
        if not self.matches(item):
            plural = "records" if self.what == "records" else "classes"
            wanted = "callables" if self.base is None else f"{self.base.__name__} {plural}"
            raise TypeError(f"the hook plugrad_{self.name} must return {wanted}; it returned {item!r}")
        if self.named_by is None:
            return
        name = self.name_of(item)
        if not isinstance(name, str) or not is_name(name):
            own = self.named_by == "name" and self.what != "records"
            where = f"`name = ...` in {item!r}" if own else f"{item!r}: give it a name of its own"
            raise TypeError(
                f"what plugrad_{self.name} returns needs a name that is a Python name, not {name!r}; see {where}"
            )
        if hasattr(self.base, "_check_record"):
            self.base._check_record(item)


KINDS: dict[str, Kind] = {}
HOMES: dict[str, str] = {"cli": "cli"}  # kind of entry points -> where its names are public; "cli" are commands


def declare_kind(name, *, home, base=None, what="classes", named_by="__name__") -> None:
    """Declare a kind of records: the hook `plugrad_NAME`, entry points `plugrad.NAME`.

    Args:
        name: of the kind, in the plural.
        home: where its records are public, as in "optim" or "" for plugrad itself.
        base: the class that they are of or derive from, or its name in `home`, where it is found when it is first
            needed; None for any callable. What it has as `_check_record(item)` raises TypeError for a record that is
            not complete.
        what: "classes" that derive from it, "records" (instances), or "classes or records".
        named_by: the attribute that has a record's name; None if records of this kind have none.
    """
    KINDS[name], HOMES[name] = Kind(name, home, base, what, named_by), home
    store.tables[name] = {}


def is_name(text: str) -> bool:
    """Whether something can be called so: no keyword, none of Python's own `__names__`, and as Python reads it."""
    if not text.isidentifier() or keyword.iskeyword(text) or text[:2] == text[-2:] == "__":
        return False
    return text.isascii() or compile(text, "name", "eval").co_names == (text,)  # fullwidth letters are read as others


def no_place(dotted: str) -> str:
    """Return why an op can't have a dotted name."""
    places = ", ".join(f"plugrad.{place}".rstrip(".") for place in PLACES)
    return f"ops are public in {places}, not in plugrad.{dotted.rpartition('.')[0]}"
