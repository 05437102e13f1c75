"""Files of staged programs: `load`; `save` is in `writing`.

A file is a checkpoint of plugrad's own format: a zip of one JSON description and arrays with checksums, no pickle. What
it describes is data: the trees of the functions, types, attributes, and the names of the layers that are plugrad's or a
package's. Loading one makes functions of the trees (`generate`), which can call ops and nothing else.
"""

from __future__ import annotations

from plugrad import serialization
from plugrad.jit.unpacking import unpacked

__all__ = ["load"]


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Return the script module or function that a file holds.

    Args:
        f: a path or an open file.
        map_location: where tensors go, as for `torch.load`.
        _extra_files: a dict, whose keys get what was stored beside the program under these names.

    Nothing in a file is run but ops, on values of the program. Raises CheckpointError for a file that is damaged, is no
    staged program, or needs a package that is not installed.

    >>> import io, plugrad as torch
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.script(torch.nn.Linear(2, 3)), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """
    tree = serialization.load(f, map_location)
    program, extra = unpacked(tree)
    for name in _extra_files if _extra_files is not None else ():
        if name in extra:
            _extra_files[name] = extra[name]
    return program
