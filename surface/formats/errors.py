"""The one error of files that are refused."""

from __future__ import annotations

import pickle
from reprlib import Repr

_BRIEF = Repr()  # what holds itself often would be printed as often, which may be without end
_BRIEF.maxlevel, _BRIEF.maxstring = 3, 100


class CheckpointError(pickle.UnpicklingError, RuntimeError):
    """What `load` raises for a file that it refuses, with the reason.

    The file is not a checkpoint, is damaged, contradicts itself, or holds pickled objects that were not asked for or
    tensors of a device or dtype that is not available. It is both a pickle.UnpicklingError and a RuntimeError, which
    PyTorch raises in such cases.

    >>> import io, plugrad as torch
    >>> try:
    ...     torch.load(io.BytesIO(b"hello"))
    ... except torch.serialization.CheckpointError as error:
    ...     print(error)
    the file is not a checkpoint: none of the formats plugrad, torch, safetensors, npz, onnx knows it
    """

    __module__ = "plugrad.serialization"


def damaged(where: str, why: object) -> CheckpointError:
    """Return the error for an entry of a checkpoint that can't be read."""
    where, why = _quoted(where), _quoted(str(why))
    return CheckpointError(f"the checkpoint is damaged: {where}: {why}")


def unpickled(unpickler, where: str, more: str = "", passed: tuple = ()):
    """Return what Python's own machine makes of a pickle.

    Raises CheckpointError for a damaged pickle and for classes that are not here, of which `more` tells. What a class
    raises that the pickle calls is raised as it is, and errors of the classes `passed`.
    """
    try:
        return unpickler.load()
    except (CheckpointError, *passed):
        raise
    except (AttributeError, ImportError) as error:
        raise CheckpointError(f"a class of the file's objects is not here: {error}{more}") from error
    except (pickle.UnpicklingError, EOFError) as error:
        raise damaged(where, error) from error
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        if error.__traceback__.tb_next is not None:  # it came from a class: the machine has no frame of its own
            raise
        raise damaged(where, f"{type(error).__name__}: {error}") from error


def _quoted(text: str) -> str:
    """Return what may be quoted from a file, short and printable."""
    text = text if len(text) <= 300 else f"{text[:200]}..."
    return text if text.isprintable() else ascii(text)[1:-1]


def shown(value) -> str:
    """Return a value of a file as an error may show it: short and printable."""
    if isinstance(value, int):
        text = hex(value) if abs(value) > 2**63 else str(value)
    else:
        text = _BRIEF.repr(value).encode("ascii", "backslashreplace").decode()
    return text if len(text) <= 60 else f"{text[:60]}..."
