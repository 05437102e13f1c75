"""Kernels in C that third parties bring, and what is told of which C function an op calls."""

import importlib
import inspect
import os
import pathlib
import re
import types

import numpy
import pytest

import plugrad as torch
from plugrad import kernels
from plugrad.catalog import why
from plugrad.extend import load_inline, native, op, register, unregister

pytestmark = pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")


CAP = """
int softcap(const pg_array *a, const double *s) {
    if (a[0].type != PG_FLOAT64) return 1;
    const double *x = a[0].data;
    double *y = a[1].data;
    for (int64_t i = 0; i < a[0].size; i++) y[i] = s[0] * tanh(x[i] / s[0]);
    return 0;
}
"""


def test_an_op_with_a_kernel_in_c_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))

    @op(at=("softcap",), like="input")
    def softcap(xp, input, cap):
        """Each element, bent so that it stays within `cap`."""
        return cap * xp.tanh(input / cap)

    @softcap.vjp
    def softcap_vjp(F, g, y, cap):
        return g * (1 - (y / cap) * (y / cap))

    @softcap.kernel("cpu")
    @native(load_inline(c=CAP, name="softcap", arrays=1, numbers=1, like=0), otherwise=softcap)
    def softcap_native(call, xp, input, cap):
        served.append(call(input, cap) is not NotImplemented)
        return call(input, cap)

    @softcap.vjp_kernel("cpu")
    def softcap_grad(xp, g, y, cap):
        asked.append(1)
        return g * (1 - (y / cap) ** 2)

    served, asked = [], []
    register(softcap)
    try:
        x = torch.linspace(-3, 3, 7, dtype=torch.float64, requires_grad=True)
        y = torch.softcap(x, 2.0)
        assert torch.allclose(y, 2 * torch.tanh(x / 2)) and served == [True]
        (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert not asked  # a recorded walk carries the formula out
        torch.softcap(x, 2.0).sum().backward()
        assert asked and torch.allclose(g, x.grad)
        served.clear()
        assert torch.softcap(torch.ones(2), 1.0).dtype is torch.float32 and served == [False]
        assert torch.autograd.gradcheck(lambda x: torch.softcap(x, 2.0), (x,))
    finally:
        unregister(softcap)
    assert list(tmp_path.rglob("softcap-*"))


@pytest.mark.parametrize("left", [0, 64, 4096, -100])
def test_a_library_that_is_not_whole_is_compiled_again(left, tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    library = kernels.build_library(CAP, "softcap")
    content = library.read_bytes()
    library.write_bytes(content[:left])
    assert kernels.build_library(CAP, "softcap") == library and len(library.read_bytes()) == len(content)
    written = library.stat().st_mtime_ns
    assert kernels.build_library(CAP, "softcap").stat().st_mtime_ns == written  # a whole one is kept


def test_a_library_of_another_user_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    library = kernels.build_library("int f;", "planted")
    written = library.stat().st_mtime_ns
    if os.getuid() == 0:
        os.chown(library, 12345, -1)
    else:
        monkeypatch.setattr(os, "getuid", lambda: 12345)
    assert kernels.build_library("int f;", "planted").stat().st_mtime_ns != written


def test_errors_of_the_compiler_have_the_author_s_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("PLUGRAD_CACHE", str(tmp_path))
    with pytest.raises(kernels.CompilationError, match=r"wrong.c:2:\d+: error"):
        load_inline(name="wrong", arrays=1, c="int wrong(const pg_array *a, const double *s) {\n  return b;\n}")
    assert not list(tmp_path.rglob("wrong*"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    from plugrad.kernels import building

    building._compiler.cache_clear()
    with pytest.raises(kernels.CompilationError, match="there is no C compiler: install gcc or clang"):
        load_inline(name="right", arrays=1, c="int right(const pg_array *a, const double *s) { return 0; }")
    building._compiler.cache_clear()


def test_what_vjp_kernel_refuses():
    @op(at=())
    def lonely(xp, input):
        return input + 1

    with pytest.raises(TypeError, match="op 'lonely' has no gradient formula for input: declare that first"):
        lonely.vjp_kernel("cpu")(lambda xp, g: g)


def test_every_function_that_is_named_is_there():
    """One that is not is taken for one that an older build lacks, and NumPy does its work: nobody would see it."""
    named = set()
    for file in pathlib.Path(importlib.import_module("plugrad.plugins").__path__[0]).rglob("*.py"):
        named |= set(re.findall(r'@native\("(\w+)"', file.read_text()))
    assert len(named) > 20
    assert not named - {name for level in kernels.levels() for name in kernels.module().kernels(level)[1]}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mul", "plain calls are calls of the C function 'multiply'"),
        ("add", "plain calls are calls of the C function 'add'"),
        ("softmax", "it calls the C function 'softmax'"),
    ],
)
def test_which_c_function_an_op_calls_is_told(name, told):
    assert any(told in line for line in why.explain(name, "cpu"))
    assert not any("C function" in line for line in why.explain("digamma", "cpu"))


def test_a_kernel_has_the_parameters_of_what_calls_the_c_function():
    told = []

    def adapter(call, xp, input, *more, scale=numpy.float32(2), **options):
        told.append((call, input, more, scale, options))
        return NotImplemented if more else input * scale

    otherwise = types.SimpleNamespace(kernels={"*": lambda xp, input, *more, **options: (input, more, options)})
    kernel = native(max, otherwise=otherwise)(adapter)
    assert kernel(numpy, 3) == 6 and kernel(numpy, 3, scale=5) == 15
    assert kernel(numpy, 3, 4, scale=1, other=2) == (3, (4,), {"scale": 1, "other": 2})
    assert told[-1] == (max, 3, (4,), 1, {"other": 2})
    assert str(inspect.signature(kernel)).startswith("(xp, input, *more, scale=")
    with pytest.raises(TypeError, match="input"):
        kernel(numpy)
