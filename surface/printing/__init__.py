"""The text of a tensor: what `repr` and `print` show, and the options that shape it.

The text is PyTorch's, to the letter. It is made from a NumPy array in three steps: pick the elements to show,
write each of them in a style that fits them all, and lay the written elements out in brackets.
"""

from __future__ import annotations

from itertools import islice

import numpy

from plugrad import dtypes
from plugrad.extend.blocks import Restoring

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": float("inf"), "edgeitems": 3, "linewidth": 80},
}
_options = {**_PROFILES["default"], "sci_mode": None}


def set_printoptions(
    precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None
) -> None:
    """Set how tensors are printed.

    - `precision`: digits after the point (4).
    - `threshold`: the number of elements above which only the edges are shown (1000).
    - `edgeitems`: how many elements are shown at each end of a dimension that is cut (3).
    - `linewidth`: where lines are wrapped (80).
    - `profile`: a set of the above to start from: "default", "short" or "full" (which never cuts).
    - `sci_mode`: True or False to force or forbid scientific notation, None to choose by the values. Unlike
      the others it is reset when left out.

    Raises ValueError for an unknown profile.

    >>> import plugrad as torch
    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.12345])
    tensor([1.12])
    >>> torch.set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"profile must be one of {', '.join(map(repr, _PROFILES))}, not {profile!r}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})
    _options["sci_mode"] = sci_mode


def get_printoptions() -> dict:
    """Return the current options, fit for `set_printoptions(**options)`.

    >>> get_printoptions()["precision"]
    4
    """
    return dict(_options)


class printoptions(Restoring):
    """Set print options for the length of a `with` block; see `set_printoptions`.

    >>> import plugrad as torch
    >>> with printoptions(precision=1):
    ...     print(torch.tensor([0.25]))
    tensor([0.2])
    """

    def __init__(self, **options):
        self._new = options

    def begin(self):
        self._before = get_printoptions()
        set_printoptions(**self._new)

    def end(self):
        _options.update(self._before)


def tensor_str(t, *, default_dtype_name: str = "float32", before: str = "", contents: str | None = None) -> str:
    """Return the text of a tensor.

    `default_dtype_name` names the dtype that goes without saying; `before` is what stands before it on its first line,
    and on that of the result. `contents` stands in the place of the elements.

    >>> import plugrad as torch
    >>> torch.tensor([[1.5, float("nan")]], requires_grad=True)
    tensor([[1.5000,    nan]], requires_grad=True)
    """
    cls = type(t)
    plain = cls.__name__ in ("Tensor", "Parameter")
    symbolic = t._type.symbolic or contents is not None
    # NumPy has no bfloat16 and no floats of eight bits; every one of their values is a float32.
    shown = t.float() if t.dtype.name.startswith(("bfloat16", "float8")) and not symbolic else t
    grad_fn_name = _grad_fn_name(t)
    text = format_tensor(
        shown if symbolic else shown.numpy(force=True),
        dtype_name=t.dtype.name,
        default_dtype_name=default_dtype_name,
        device=str(t.device),
        grad_fn_name=grad_fn_name,
        requires_grad=grad_fn_name is None and t.requires_grad,
        symbolic=symbolic,
        contents=contents,
        prefix=before + ("tensor(" if plain else f"{cls.__name__}("),
        tangents=[one for tangents in t.__dict__.get("_tangents", {}).values() for one in tangents if one is not None],
    )
    if not plain and ("_is_param" in t.__dict__ or any(base.__name__ == "Parameter" for base in cls.__mro__)):
        return f"Parameter({text})"
    return text


def _grad_fn_name(t):
    """Return what is shown of a tensor's history; of a view that lost it, asking for which is an error, as well."""
    try:
        return None if t.grad_fn is None else type(t.grad_fn).__name__
    except RuntimeError:
        return "Invalid"


def format_tensor(
    array: numpy.ndarray,
    *,
    dtype_name: str,
    default_dtype_name: str = "float32",
    device: str = "cpu",
    grad_fn_name: str | None = None,
    requires_grad: bool = False,
    tangents=(),
    symbolic: bool = False,
    contents: str | None = None,
    prefix: str = "tensor(",
) -> str:
    """Return the text of a tensor whose values are in a NumPy array.

    If `symbolic` there are no values, and `array` is anything that has a `shape`. A `grad_fn_name` is shown in
    place of `requires_grad`.

    >>> import numpy
    >>> from plugrad import printing
    >>> printing.format_tensor(numpy.array([1, 2], "int32"), dtype_name="int32")
    'tensor([1, 2], dtype=torch.int32)'
    """
    shape = tuple(array.shape)
    empty = 0 in shape
    unsaid = {default_dtype_name}
    sizes = symbolic or (len(shape) != 1 if empty else not _options["edgeitems"])
    if contents is not None:
        sizes, unsaid = False, unsaid | {"int64", "bool", "complex64"}
    elif symbolic or empty:
        contents = "..." if symbolic else "[]"
    else:
        contents = _contents(array, len(prefix))
        # Values show these types; without values only the default goes without saying.
        unsaid |= {"int64", "bool", "complex128" if default_dtype_name == "float64" else "complex64"}
    suffixes = []
    if not device.startswith("cpu"):
        suffixes.append(f"device='{device}'")
    if sizes:
        suffixes.append(f"size={shape}")
    if dtype_name not in unsaid:
        suffixes.append(f"dtype=torch.{dtype_name}")
    if grad_fn_name is not None:
        suffixes.append(f"grad_fn=<{grad_fn_name}>")
    elif requires_grad:
        suffixes.append("requires_grad=True")
    suffixes += [f"tangent={tangent}" for tangent in tangents]
    return _append(prefix + contents, suffixes, len(prefix))


def _append(text: str, suffixes: list[str], indent: int) -> str:
    """Add the suffixes, each on a new line where the last one is full."""
    used = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        wide = used + len(suffix) + 2 > _options["linewidth"]
        text += (",\n" + " " * indent if wide else ", ") + suffix
        used = len(suffix) + (indent if wide else used + 2)
    return text + ")"


def _contents(array: numpy.ndarray, indent: int) -> str:
    """Return the bracketed elements of a non-empty array; `indent` is the column of the first bracket."""
    shape, edge = array.shape, _options["edgeitems"]
    cut = array.size > _options["threshold"]
    if cut and shape:
        ends = ([*range(edge), *range(n - edge, n)] if n > 2 * edge else range(n) for n in shape)
        array = array[numpy.ix_(*ends)]
    cells, width = _complex_cells(array) if dtypes.is_complex(array.dtype) else _real_cells(array)
    if not shape:
        return cells[0]
    room = _options["linewidth"] - (indent + len(shape) - 1)
    return _layout(iter(cells), shape, indent, max(1, int(room // (width + 2))), edge if cut else None)


def _layout(cells, shape: tuple[int, ...], indent: int, per_line: int, edge: int | None) -> str:
    """Arrange written elements in brackets; dimensions longer than two edges show only those."""
    length, depth = shape[0], len(shape)
    cut = edge is not None and length > 2 * edge
    shown = 2 * edge if cut else length
    if depth == 1:
        row = list(islice(cells, shown))
        if cut:
            row.insert(edge, " ..." if edge else "...")
        parts = [", ".join(row[i : i + per_line]) for i in range(0, len(row), per_line)]
    else:
        parts = [_layout(cells, shape[1:], indent + 1, per_line, edge) for _ in range(shown)]
        if cut:
            parts.insert(edge, "...")
    return "[" + ("," + "\n" * max(1, depth - 1) + " " * (indent + 1)).join(parts) + "]"


def _real_cells(array: numpy.ndarray) -> tuple[list[str], int]:
    """Write each element, aligned to the right; also return the width they were aligned to."""
    if dtypes.is_integral(array.dtype):
        texts = [str(value) for value in array.ravel().tolist()]
        measured = texts
    else:
        # In float64 the tests below neither overflow nor round, whatever the type.
        with numpy.errstate(invalid="ignore"):  # converting a signalling nan is not a reason to warn
            values = array.ravel().astype(numpy.float64)
        # Zeros, infinities and nan fit any style; they have no say in it, nor in the width.
        decisive = numpy.isfinite(values) & (values != 0)
        sizes = numpy.abs(values[decisive])
        texts = _write(values.tolist(), sizes)
        measured = [text for text, counts in zip(texts, decisive.tolist(), strict=True) if counts]
    width = max(map(len, measured), default=1)
    return [text.rjust(width) for text in texts], width


def _write(values: list[float], sizes: numpy.ndarray) -> list[str]:
    """Write floats in one style: scientific, whole ("2.") or with decimals, as their sizes demand."""
    scientific, whole = False, True
    if sizes.size:
        smallest, largest = sizes.min().item(), sizes.max().item()
        scientific = _options["sci_mode"]
        if scientific is None:
            scientific = largest / smallest > 1000 or largest > 1e8 or smallest < 1e-4
        whole = bool((sizes == numpy.ceil(sizes)).all())
    if whole and not scientific:
        return [f"{value:.0f}." if value - value == 0 else f"{value:.0f}" for value in values]
    style = f".{_options['precision']}{'e' if scientific else 'f'}"
    return [format(value, style) for value in values]


def _complex_cells(array: numpy.ndarray) -> tuple[list[str], int]:
    """Write each complex element as `real+imagj`; real and imaginary parts each have a style of their own."""
    real, real_width = _real_cells(array.real)
    imag, imag_width = _real_cells(array.imag)
    texts = []
    for left, right in zip(real, imag, strict=True):
        right = right.lstrip()  # only the real part is aligned
        texts.append(f"{left}{right}j" if right[0] == "-" else f"{left}+{right}j")
    return texts, real_width + imag_width + 1
