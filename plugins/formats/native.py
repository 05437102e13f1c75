"""plugrad's own format: a zip file of one JSON description and .npy members."""

from __future__ import annotations

import pickle

from plugrad.extend import collect, hookimpl
from plugrad.formats import Format
from plugrad.serialization.archive import Archive
from plugrad.serialization.description import HEADER, MAPPINGS
from plugrad.serialization.reading import Reader
from plugrad.serialization.safe_globals import unpickler
from plugrad.serialization.writing import Writer


class Native(Format):
    """plugrad's own format, which holds anything.

    A zip file of one JSON description and an .npy member for each storage; what is no data is in one pickle apart.
    """

    name, suffixes = "plugrad", (".plugrad",)

    def recognises(self, source):
        """Whether it is a zip file with a description."""
        return source.is_zip and HEADER in source.members

    def load(self, source, options):
        """Return the object of the description."""
        unpickles = (options.pickle_module or pickle).Unpickler if options.trusted else unpickler()
        archive, arguments = Archive(source), options.pickle_arguments
        return Reader(archive, options.mapped, options.checked, options.map_location, unpickles, arguments).root()

    def save(self, obj, file):
        """Write anything: what is no data is pickled."""
        writer = Writer(pickle, 4)
        writer.write(file, writer.header(obj))

    def describe(self, source):
        """Return versions, classes of pickled objects, and tensors by their paths."""
        header = Archive(source).header
        names = dict(_names(header["root"], ""))
        tensors = [{"name": names.get(number, ""), **entry} for number, entry in enumerate(header["tensors"])]
        return {**{name: header[name] for name in ("plugrad", "plugins", "objects")}, "tensors": tensors}


def _names(tree, path):
    """Yield pairs (number of a tensor, where it stands in the object)."""
    pending = [(tree, path)]
    while pending:
        tree, path = pending.pop()
        if isinstance(tree, list):
            items = enumerate(tree)
        elif not isinstance(tree, dict):
            continue
        elif "$" not in tree:
            items = tree.items()
        elif tree["$"] in ("tensor", "scalar"):
            if type(tree.get("number")) is int:
                yield tree["number"], path
            continue
        elif not isinstance(tree.get("items"), list):
            continue
        elif tree["$"] in [*MAPPINGS]:
            items = [pair for pair in tree["items"] if isinstance(pair, list) and len(pair) == 2]
        else:
            items = enumerate(tree["items"])
        pending += reversed([(item, f"{path}.{key}" if path else str(key)) for key, item in items])


@hookimpl
def plugrad_formats():
    return collect(Format, globals())
