"""What a module held before a state was loaded into it."""

from __future__ import annotations

from plugrad import no_grad


class Snapshot:
    """All that loading may change in a module, to be put back when it fails.

    Copies, and not a check beforehand: subclasses and hooks may rename, reshape and write as they like.
    """

    __slots__ = ("tables", "values")

    def __init__(self, root, copy: bool):
        tables = [table for module in root.modules() for table in (module._parameters, module._buffers)]
        self.tables = [(table, dict(table)) for table in tables]
        tensors = {id(t): t for table in tables for t in table.values() if t is not None}.values() if copy else ()
        self.values = [(t, t._version, t.detach().clone()) for t in tensors]

    def restore(self) -> None:
        """Put everything back."""
        for table, entries in self.tables:
            table.clear()
            table.update(entries)
        with no_grad():
            for tensor, version, value in self.values:
                if tensor._version != version:
                    tensor.copy_(value)
