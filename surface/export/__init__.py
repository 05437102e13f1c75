"""`torch.export`: Modules as one graph of ops, with sizes that may vary. See docs/staged.md."""

from __future__ import annotations

from plugrad import absent
from plugrad.export.dims import Dim, dims
from plugrad.export.program import ExportedProgram, export, load, save
from plugrad.export.signature import ExportGraphSignature

__all__ = ["Dim", "ExportGraphSignature", "ExportedProgram", "dims", "export", "load", "save"]
__getattr__ = absent.attributes("export")
