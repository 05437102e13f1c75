"""Checks of formats of files: a file is recognised, comes back as it was, and is refused when it is damaged."""

from __future__ import annotations

import io

import plugrad
from plugrad.formats import CheckpointError, Format, Options, Source
from plugrad.testing.checks import documents


def checks(form) -> dict:
    """Return the checks of a format by name; those of files only where it writes and reads them."""
    cases = documents.checks(form) | {"methods": _methods, "recognition": _recognition}
    if form.save is not Format.save and form.load is not Format.load:
        cases |= {"round trip": _round_trip, "truncated": _truncated}
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
