"""Formats of files: what `save` and `load` write and read, a kind of plugin.

A format is a class that recognises a file by its content, describes, loads and saves it. Ours are in
`plugrad.plugins.formats`; a package adds one by an entry point in the group `plugrad.formats`.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from plugrad import registry
from plugrad.errors import describe
from plugrad.formats.errors import CheckpointError, damaged, shown, unpickled
from plugrad.formats.placing import Placer, dtype_of, inside, view
from plugrad.formats.sources import Members, Source, behind, opened

__all__ = [
    "CheckpointError", "Format", "Members", "Options", "Placer", "Source", "behind", "damaged", "dtype_of", "inside",
    "opened", "shown", "unpickled", "view",
]  # fmt: skip

_OURS = ("plugrad", "torch", "safetensors", "npz", "onnx")  # in the order in which they are asked


@dataclasses.dataclass(frozen=True)
class Options:
    """How `load` was asked to load.

    Attributes:
        map_location: where tensors go, see `load`; a Placer follows it.
        mapped: whether to map memory instead of reading it.
        verify: whether to compare the checksums of what is mapped, or None: of what is read only.
        trusted: whether the user said `weights_only=False`: only then may a file run code.
        pickle_module, pickle_arguments: for formats with pickles, where they are trusted.
    """

    map_location: object = None
    mapped: bool = False
    verify: bool | None = None
    trusted: bool = False
    pickle_module: object = None
    pickle_arguments: dict = dataclasses.field(default_factory=dict)

    @property
    def checked(self) -> bool:
        """Whether checksums are compared."""
        return not self.mapped if self.verify is None else self.verify


class Format:
    """Base of formats: a name, and those of the four methods that it can offer.

    Attributes:
        name: what `save(..., format=NAME)` and `load(..., format=NAME)` take.
        suffixes: of the names of its files, such as (".npz",), by which `plugrad convert` chooses.

    >>> import plugrad
    >>> class Lines(plugrad.formats.Format):
    ...     name, suffixes = "lines", (".txt",)
    ...     def recognises(self, source):
    ...         return source.head.startswith(b"#lines")
    ...     def load(self, source, options):
    ...         text = source.read(0, source.size, "the text").decode()
    ...         return plugrad.tensor([float(line) for line in text.split()[1:]])
    ...     def save(self, obj, file):
    ...         file.write(b"#lines" + b"".join(b"\\n%r" % value for value in obj.tolist()))
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple] = ()

    def recognises(self, source: Source) -> bool:
        """Whether a file is of this format, by its content.

        It must not trust the file, nor read all of it.
        """
        raise NotImplementedError(f"the format {self.name!r} does not recognise files: pass format={self.name!r}")

    def load(self, source: Source, options: Options):
        """Return what the file holds.

        CheckpointError, with the reason, for every file that is not in order.
        """
        raise NotImplementedError(f"the format {self.name!r} can't be read here, only written")

    def save(self, obj, file) -> None:
        """Write an object to a file that is open for writing.

        TypeError for what the format can't hold.
        """
        raise NotImplementedError(f"the format {self.name!r} can't be written here, only read")

    def save_shards(self, obj, path, max_shard_size) -> None:
        """Write an object as files of at most so many bytes, and what leads to them."""
        raise NotImplementedError(f"the format {self.name!r} is written to one file: leave max_shard_size out")

    def describe(self, source: Source) -> dict:
        """Return what the file says of itself, as a dict.

        "tensors", a list of dicts with name, shape, dtype and bytes...
        """
        raise NotImplementedError(f"the format {self.name!r} does not describe its files: load it")


def names() -> list[str]:
    """Return the names of the installed formats, ours first.

    >>> import plugrad
    >>> plugrad.formats.names()[:4]
    ['plugrad', 'torch', 'safetensors', 'npz']
    """
    return [*_in_order()]


def _in_order():
    """Yield the names of the installed formats, ours first: once one is loaded, no other names are looked through."""
    for name in _OURS:
        if f"formats.{name}" in registry.public or name in registry.names_in("formats"):
            yield name
    yield from sorted({*registry.names_in("formats")} - {*_OURS})


def get(name: str) -> Format:
    """Return the format of that name.

    ValueError, naming the installed ones, if there is none.
    """
    if not isinstance(name, str):
        raise TypeError(f"format must be the name of a format, not {name!r}")
    try:
        return registry.resolve(f"formats.{name}")()
    except registry.AmbiguousNameError:
        raise
    except AttributeError:
        raise ValueError(f"there is no format named {name!r}; installed are {', '.join(names())}") from None


def recognised(source: Source) -> Format:
    """Return the format of a file, by its content.

    CheckpointError if no installed format knows it.

    Third parties' formats are asked, and so imported, only where none of ours knows the file. One that fails on the way
    is left out, and told of in the error.
    """
    failed = ""
    for name in _in_order():
        try:
            form = get(name)
            if form.recognises(source):
                return form
        except Exception as error:
            if name in _OURS or isinstance(error, CheckpointError):
                raise
            failed += f"; {name!r} could not be asked: {describe(error)}"
    inside = ""
    if source.is_zip and not {"plugrad.json"} & {*source.members}:
        inside = ": it is a zip file, and there is no plugrad.json, data.pkl or array in it"
    told = inside or f": none of the formats {_listed()} knows it"
    raise CheckpointError(f"{source.name} is not a checkpoint{told}{failed}")


def by_suffix(path) -> Format | None:
    """Return the format whose files end as a path does; None if there is none."""
    for name in names():
        try:
            form = get(name)
        except (ImportError, registry.AmbiguousNameError):
            continue  # `plugrad doctor` says why
        if str(path).lower().endswith(tuple(form.suffixes) or "\0"):
            return form
    return None


def _listed() -> str:
    return ", ".join(names())


__getattr__, __dir__ = registry.lazy_names(globals(), "formats")
