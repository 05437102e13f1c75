"""Checks of formats of files: a file is recognised, comes back as it was, and is refused when it is damaged."""

from __future__ import annotations

import io
import warnings

import plugrad
from plugrad.formats import CheckpointError, Format, Options, Source
from plugrad.testing.calls import same_bits
from plugrad.testing.checks import documents


def checks(form) -> dict:
    """Return the checks of a format by name; those of files only where it writes and reads them."""
    cases = documents.checks(form) | {"methods": _methods, "recognition": _recognition}
    if form.save is not Format.save and form.load is not Format.load:
        cases |= {"round trip": _round_trip, "truncated": _truncated}
        if not hasattr(form, "samples"):
            cases["tensors"] = _tensors
    return cases


def _methods(form, device):
    offered = [name for name in ("load", "save") if getattr(form, name) is not getattr(Format, name)]
    assert offered, f"{form.name} has neither load(source, options) nor save(obj, file)"
    near = {name for name in vars(form) if callable(vars(form)[name]) and not hasattr(Format, name) and name[0] != "_"}
    meant = {"recognise": "recognises", "recognizes": "recognises", "recognize": "recognises"} | {
        "read": "load", "write": "save", "loads": "load", "saves": "save",
    }  # fmt: skip
    odd = sorted(near & {*meant})
    assert not odd, f"{form.name} has a method {odd[0]}(), which nothing calls: it is {meant[odd[0]]}()"


def _recognition(form, device):
    """Whether a format leaves alone what is not its own: such files would be read by it, and not by theirs."""
    if form.recognises is Format.recognises:
        return
    for what, data in {"an empty file": b"", "text": b"hello\n" * 50, "zeros": bytes(300)}.items():
        assert not form().recognises(Source(io.BytesIO(data), None)), f"{form.name} takes {what} for its own"


def _samples(form) -> list:
    """Return the objects to save: what the class's `samples()` yields, or a dict of tensors."""
    if hasattr(form, "samples"):
        return list(form.samples())
    return [{"weight": plugrad.arange(6.0).reshape(2, 3), "count": plugrad.tensor(3)}]


def _saved(form, obj) -> bytes:
    file = io.BytesIO()
    form().save(obj, file)
    return file.getvalue()


def _leaves(obj) -> list:
    return [leaf for leaf in plugrad.nest.leaves(obj) if isinstance(leaf, plugrad.Tensor)]


def _round_trip(form, device):
    for obj in _samples(form):
        source = Source(io.BytesIO(_saved(form, obj)), None)
        if form.recognises is not Format.recognises:
            assert form().recognises(source), f"{form.name} does not recognise what it saved"
        loaded = form().load(source, Options())
        assert type(loaded) is type(obj), f"{form.name} saved {type(obj).__name__} and loads {type(loaded).__name__}"
        before, after = _leaves(obj), _leaves(loaded)
        assert len(before) == len(after), f"{form.name} saved {len(before)} tensors and loads {len(after)}"
        for one, other in zip(before, after):
            assert one.dtype == other.dtype, f"{one.dtype} came back as {other.dtype}"
            assert one.shape == other.shape and one.equal(other), f"{one} came back as {other}"


def _odd_tensors() -> dict:
    """Return tensors of which a format may refuse some, and must not change any."""
    rows = plugrad.arange(6.0).reshape(2, 3) / 4 - 0.5
    names = "float64 float16 bfloat16 complex64 complex128 bool uint8 int8 int16 int32"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what is lost of numbers in bytes
        kinds = {name: rows.to(getattr(plugrad, name)) for name in names.split()}
    layouts = {"transposed": rows.t(), "part": rows[:, 1:], "expanded": rows[:1].expand(4, 3), "single": rows[0, 0]}
    odd = plugrad.tensor([float(word) for word in ("inf", "-inf", "nan", "-0.0", "1e-45")])
    return kinds | layouts | {"empty": rows[:0], "infinite": odd, "recorded": rows.clone().requires_grad_()}


def _tensors(form, device):
    """Tensors of all dtypes and layouts come back as they were, or are refused when they are saved."""
    for what, one in _odd_tensors().items():
        try:
            data = _saved(form, {"weight": one})
        except (NotImplementedError, RuntimeError, TypeError, ValueError):
            continue
        for place in (None, "meta"):
            (back,) = _leaves(form().load(Source(io.BytesIO(data), None), Options(map_location=place)))
            told = f"a tensor that is {what}: {one.dtype}, {tuple(one.shape)}"
            assert back.dtype == one.dtype and back.shape == one.shape, (
                f"{told}, comes back as {back.dtype}, {tuple(back.shape)}"
            )
            if place is None:
                assert same_bits(back.contiguous(), one.contiguous()), f"{told}, comes back with other values"
            else:
                assert back.device.type == place, f"{told}, is on {back.device} with map_location={place!r}"


def _truncated(form, device):
    for obj in _samples(form):
        data = _saved(form, obj)
        for end in (len(data) - 1, len(data) // 2, len(data) // 4):
            source = Source(io.BytesIO(data[:end]), None)
            try:
                form().load(source, Options())
            except CheckpointError:
                continue
            except Exception as error:
                raise AssertionError(
                    f"of {len(data)} bytes the first {end} are refused by {type(error).__name__}; the error of files "
                    "that are not in order is plugrad.formats.CheckpointError"
                ) from error
            raise AssertionError(f"of {len(data)} bytes the first {end} are loaded")
