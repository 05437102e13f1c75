"""Break the checker: PyTorch with one fault must fail in that fault's category, and only there."""

from __future__ import annotations

import types
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("expecttest", reason="PyTorch's operator database needs it")
    import opinfo

import opinfo_checks


def library(path, function):
    """A module that is `torch`, with another function at the dotted `path`."""
    head, _, rest = path.partition(".")
    module = types.ModuleType("broken")
    module.__getattr__ = lambda name: getattr(torch, name)
    setattr(module, head, library_of(getattr(torch, head), rest, function) if rest else function)
    return module


def library_of(original, path, function):
    head, _, rest = path.partition(".")
    module = types.ModuleType("broken")
    module.__getattr__ = lambda name: getattr(original, name)
    setattr(module, head, library_of(getattr(original, head), rest, function) if rest else function)
    return module


def check(path, function, entry=None, dtypes=(torch.float64,)):
    op = opinfo.database()[entry or path]
    return opinfo_checks.Checker(op, library(path, function), limit=4).run(dtypes)


class Sine(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.sin()


class SlightlyWrongGradient(Sine):
    @staticmethod
    def backward(ctx, gradient):
        (input,) = ctx.saved_tensors
        return gradient * input.cos() * 1.0001


class WrongSecondGradient(Sine):
    @staticmethod
    def backward(ctx, gradient):
        (input,) = ctx.saved_tensors
        return gradient * input.detach().cos()


def test_pytorch_passes():
    assert not check("sin", torch.sin, dtypes=opinfo.DTYPES).failed


@pytest.mark.parametrize(
    ("category", "wrong"),
    [
        ("value", lambda input: torch.sin(input) + 1e-5),
        ("value", lambda input: torch.sin(input)[None]),
        ("value", lambda input: (torch.sin(input),)),
        ("value", lambda input: torch.sin(input.detach().add_(1)).requires_grad_()),
        ("dtype", lambda input: torch.sin(input).float()),
        ("grad", lambda input: torch.sin(input.detach())),
        ("grad", SlightlyWrongGradient.apply),
        ("gradgrad", WrongSecondGradient.apply),
    ],
)
def test_wrong_function(category, wrong):
    assert list(check("sin", wrong).failed) == [category]


def test_honest_refusal_is_told_apart():
    def refuse(input):
        raise NotImplementedError("sin of this machine")

    report = check("sin", refuse)
    assert list(report.failed) == ["refused"]
    assert "value: sin of this machine" in report.messages["refused"]


def test_exception_and_hang():
    assert "ZeroDivisionError" in check("sin", lambda input: 1 / 0).messages["value"]

    def hang(input):
        while True:
            pass

    assert list(
        opinfo_checks.Checker(opinfo.database()["sin"], library("sin", hang), limit=1, seconds=0.2)
        .run((torch.float64,))
        .failed
    ) == ["timeout"]


def test_changed_argument():
    def careless(input):
        result = torch.sin(input)
        input.data.add_(1)
        return result

    assert "arguments" in check("sin", careless, dtypes=(torch.float32,)).messages["value"]


def test_copy_instead_of_view():
    report = check("transpose", lambda *args: torch.transpose(*args).clone())
    assert list(report.failed) == ["view"]


def test_missing_error():
    report = check("t", lambda input: input.t() if input.ndim < 3 else input.mT)
    assert list(report.failed) == ["error"]


def test_other_class_of_error():
    def t(input):
        if input.ndim > 2:
            raise OSError("too many dimensions")
        return input.t()

    assert list(check("t", t).failed) == ["errclass"]


def test_missing_alias():
    module = types.ModuleType("broken")

    def lookup(name):
        if name == "arccos":
            raise AttributeError(name)
        return getattr(torch, name)

    module.__getattr__ = lookup
    report = opinfo_checks.Checker(opinfo.database()["acos"], module, limit=1).run((torch.float64,))
    assert report.messages == {"name": "no broken.arccos"}


def test_wrong_method_and_inplace():
    class Odd(torch.Tensor):
        def sin(self):
            return torch.cos(self)

        def sin_(self):
            return self.cos_()

    class Call(opinfo_checks.Call):
        def __init__(self, lib, sample):
            super().__init__(lib, sample)
            if lib is not torch:
                self.input = self.input.as_subclass(Odd)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opinfo_checks, "Call", Call)
        report = check("sin", torch.sin, dtypes=(torch.float32,))
    assert {"method", "inplace"} <= set(report.failed)


def test_layout_survives_conversion():
    import opinfo_convert

    base = torch.arange(24.0).reshape(2, 3, 4)
    for tensor in (base.transpose(0, 2), base[:, ::2, 1:], base[0, :1].expand(5, 4), base[1, 2, 3], base[:0]):
        copy = opinfo_convert.make_tensor(torch, tensor)
        assert copy.stride() == tensor.stride() or tensor.numel() == 0
        assert torch.equal(copy, tensor)
