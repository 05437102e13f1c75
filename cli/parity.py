"""The parity table: every public name of PyTorch's, there, different with a reason, or absent with a reason.

`python -m plugrad.cli.parity > docs/parity.md` writes it anew; it needs PyTorch to compare with.
"""

from __future__ import annotations

import importlib
import types
import warnings
from collections import Counter

import plugrad
from plugrad import absent

# Modules of PyTorch's whose names are compared, behind "torch".
PLACES = (
    "", "Tensor", "nn", "nn.functional", "nn.init", "nn.modules", "nn.parameter", "nn.utils", "nn.utils.rnn",
    "nn.utils.parametrize", "nn.utils.parametrizations", "nn.utils.prune", "nn.utils.fusion", "nn.utils.stateless",
    "nn.parallel", "nn.attention", "nn.attention.bias", "nn.grad", "optim", "optim.lr_scheduler", "optim.swa_utils",
    "autograd",
    "autograd.forward_ad", "autograd.function", "autograd.functional", "autograd.graph", "autograd.profiler", "linalg",
    "special", "fft", "signal.windows", "distributions", "utils", "utils.data", "utils._pytree", "utils.checkpoint",
    "func", "amp", "cpu", "cuda", "accelerator", "backends.cpu", "backends.cuda", "backends.mha",
    "library", "serialization", "random", "overrides",
    "testing", "sparse", "masked", "nested", "jit", "fx", "onnx", "hub", "profiler", "distributed", "compiler",
    "export", "package", "mps", "quantization", "types", "version", "__future__", "utils.cpp_extension",
)  # fmt: skip

HEAD = """\
# Parity: every public name of PyTorch {version}

Written by `python -m plugrad.cli.parity` from what the two libraries have; a test compares. A name is *there*, *there
with a difference*, or *absent*, and for the last two the reason is said. An absent name can be imported and mentioned;
whoever calls it gets a `NotImplementedError` with that reason.
"""


def theirs(place: str):
    """Return the module or class of PyTorch's; None if this PyTorch lacks it."""
    if place == "Tensor":
        return importlib.import_module("torch").Tensor
    try:
        return importlib.import_module(f"torch.{place}".rstrip("."))
    except ImportError:
        return None


def names_of(place: str) -> list[str]:
    """Return the public names of a module of PyTorch's that are no modules themselves."""
    home = theirs(place)
    listed = None if place in ("", "Tensor") else getattr(home, "__all__", None)
    names = [name for name in dir(home) if not name.startswith("_")] if listed is None else list(listed)
    with warnings.catch_warnings(action="ignore"):  # of names that go
        return sorted({name for name in names if not isinstance(getattr(home, name, None), types.ModuleType)})


def ours(place: str):
    """Return what plugrad has in a module's place; None if it has nothing."""
    value = plugrad
    for name in filter(None, place.split(".")):
        inner = getattr(value, name, None)
        if inner is None:
            try:
                inner = importlib.import_module(f"{value.__name__}.{name}")
            except (ImportError, AttributeError):
                return None
        value = inner
    return value


def state(place: str, name: str) -> tuple[str, str | None]:
    """Return "there", "different", "absent" or "unknown", and the reason."""
    dotted = f"{place}.{name}".lstrip(".")
    home = ours(place)
    try:
        with warnings.catch_warnings(action="ignore"):
            value = getattr(home, name)
    except (AttributeError, NotImplementedError):
        return ("unknown", None) if absent.reason(dotted) is None else ("absent", absent.reason(dotted))
    if absent.stands_for(value) or home is None:
        return "absent", absent.reason(dotted)
    difference = absent.difference(dotted)
    return ("there", None) if difference is None else ("different", difference)


def page() -> str:
    """Return the page, as Markdown."""
    version = importlib.import_module("torch").__version__.partition("+")[0]
    sections, total = [], Counter()
    for place in PLACES:
        if theirs(place) is None:
            continue
        states = {name: state(place, name) for name in names_of(place)}
        counts = Counter(which for which, _ in states.values())
        total.update(counts)
        sections.append(_section(place, states, counts))
    return "\n".join([HEAD.format(version=version), _counted(total) + ".\n", *sections])


def _counted(counts) -> str:
    words = {"there": "there", "different": "with a difference", "absent": "absent", "unknown": "without a reason"}
    parts = [f"{counts[which]} {word}" for which, word in words.items() if counts[which]]
    return f"{sum(counts.values())} names: {', '.join(parts)}"


def _section(place, states, counts) -> str:
    lines = [f"## `torch.{place}`".replace("torch.`", "torch`"), "", f"{_counted(counts)}.", ""]
    for which, word in (("different", "Different"), ("absent", "Absent"), ("unknown", "Absent without a reason")):
        reasons: dict = {}
        for name, (its, reason) in states.items():
            if its == which:
                reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            lines.append(f"- *{word}*: {_listed(names)}{f': {reason}' if reason else ''}.")
    there = [name for name, (its, _) in states.items() if its == "there"]
    if there:
        lines.append(f"- *There*: {_listed(there)}.")
    return "\n".join(lines) + "\n"


def _listed(names) -> str:
    return ", ".join(f"`{name}`" for name in names)


def main() -> None:
    """Print the page."""
    print(page(), end="")


if __name__ == "__main__":
    main()
