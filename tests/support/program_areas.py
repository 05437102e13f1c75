"""Statements about whole areas: Fourier transforms, linear algebra, special functions, densities, attention, halves.

A number is added to what they give: rounding of what would be 0 or 0.5 is no difference that later ops may enlarge.
"""

from __future__ import annotations

from support.program_ops import partner
from support.program_statements import kind


def matrices(w, x: str) -> str:
    """Return a well-conditioned square matrix made of a tensor: its Gram matrix and a multiple of the identity."""
    rows = f"{x}.reshape({w.shape(x)[0] if w.shape(x) else 1}, -1)"
    size = w.shape(x)[0] if w.shape(x) else 1
    return f"({rows} @ {rows}.mT + 9 * T.eye({size}, dtype={x}.dtype))"


def wide(w):
    """Return a tensor with elements that are of single or double precision, or None."""
    return w.floating(lambda t: t.numel() > 0 and str(t.dtype) in ("torch.float32", "torch.float64"))


@kind(1)
def fourier(w):
    x = wide(w)
    if x is None or not w.shape(x):
        return None
    d, norm = w.dim(x), w.some("", ", norm='ortho'", ", norm='forward'")
    return f"{w.new()} = 0.317 + T.fft." + w.some(
        f"fft({x}, dim={d}{norm}).real", f"rfft({x}, dim={d}{norm}).abs()", f"ifft({x}, dim={d}{norm}).imag",
        f"irfft(T.fft.rfft({x}, dim={d}), n={w.shape(x)[-1]}, dim={d})", f"fftn({x}).abs()", f"fftshift({x})",
        f"hfft({x}, n=4, dim={d}{norm})", f"ihfft({x}, dim={d}).real", f"rfft({x}, n=3, dim={d}).imag",
        f"fft({x}, n=2, dim={d}).abs().sum()", f"ifftn(T.fft.fftn({x})).real", f"ifftshift({x}, {d})",
    )  # fmt: skip


@kind(1)
def algebra(w):
    x = wide(w)
    if x is None:
        return None
    m = matrices(w, x)
    b = f"{x}.reshape({w.shape(x)[0] if w.shape(x) else 1}, -1)"
    return f"{w.new()} = 0.317 + T.linalg." + w.some(
        f"inv({m})", f"det({m})", f"slogdet({m})[1]", f"solve({m}, {b})", f"cholesky({m})", f"eigvalsh({m})",
        f"svdvals({b})", f"qr({m})[1].abs()", f"matrix_norm({m})", f"matrix_power({m}, 2)", f"pinv({m})",
        f"lstsq({m}, {b})[0]", f"vecdot({x}, {x})" if w.shape(x) else f"det({m})", f"multi_dot([{m}, {b}])",
        f"solve_triangular({m}, {b}, upper=True)", f"matrix_exp({m} / 9)", f"norm({x})", f"cond({m})",
    )  # fmt: skip


@kind(1)
def special(w):
    x = wide(w)
    if x is None:
        return None
    y = partner(w, x, same_dtype=True)
    return f"{w.new()} = 0.317 + " + w.some(
        f"T.special.erfcx({x})", f"T.special.ndtr({x})", f"T.special.i0e({x})", f"T.special.i1({x})", f"{x}.erf()",
        f"T.special.log_ndtr({x})", f"T.special.entr({x}.abs())", f"T.special.xlog1py({x}, {y}.abs())", f"{x}.lgamma()",
        f"{x}.digamma()", f"T.special.expit({x})", f"{x}.erfinv()", f"T.polygamma(1, {x}.abs() + 1)", f"{x}.i0()",
        f"T.special.zeta({y}.abs() + 2, {x}.abs() + 1)", f"T.special.gammainc({y}.detach().abs() + 1, {x}.abs())",
        f"{x}.xlogy({y}.abs() + 1)", f"T.special.log_softmax({x}, -1)", f"T.special.psi({x}.abs() + 1)",
        f"{x}.mvlgamma(2)" if w.chance(0.2) else f"({x}.abs() + 1).mvlgamma(2)",
    )  # fmt: skip


@kind(1)
def density(w):
    x = wide(w)
    if x is None:
        return None
    y, d = partner(w, x, same_dtype=True), "T.distributions."
    scale = f"{y}.abs() + 0.5"
    return f"{w.new()} = 0.317 + {d}" + w.some(
        f"Normal({x}, {scale}).log_prob({y})", f"Normal({x}, {scale}).cdf({y})", f"Laplace({x}, {scale}).log_prob({y})",
        f"Gamma({x}.abs() + 1, {scale}).log_prob({y}.abs() + 0.1)", f"Bernoulli(logits={x}).entropy()",
        f"Bernoulli({x}.sigmoid()).log_prob(({y} > 0).to({x}.dtype))", f"Cauchy({x}, {scale}).icdf({y}.sigmoid())",
        f"Poisson({scale}).log_prob({x}.abs().round().detach())", f"Exponential({scale}).entropy()",
        f"Beta({x}.abs() + 1, {scale}).log_prob({y}.sigmoid())", f"Normal({x}, {scale}).entropy()",
        f"kl_divergence({d}Normal({x}, {scale}), {d}Normal({y}, {scale}))", f"HalfNormal({scale}).mean",
        f"StudentT({scale}, {x}, {scale}).log_prob({y})", f"LogNormal({x}, {scale}).log_prob({y}.abs() + 0.1)",
        f"Categorical(logits={x}).entropy()" if w.shape(x) else f"Gumbel({x}, {scale}).log_prob({y})",
        f"Independent({d}Normal({x}, {scale}), {len(w.shape(x))}).log_prob({y})",
    )  # fmt: skip


@kind(0.7)
def attention(w):
    x = wide(w)
    if x is None:
        return None
    rows, f = f"{x}.reshape(1, -1, 1)", "T.nn.functional."
    return f"{w.new()} = 0.317 + {f}" + w.some(
        f"scaled_dot_product_attention({rows}, {rows}, {rows})", f"softmax({rows} @ {rows}.mT, -1) @ {rows}",
        f"scaled_dot_product_attention({rows}, {rows}, {rows}, is_causal=True)",
        f"scaled_dot_product_attention({rows}, {rows}.detach(), {rows}, scale=0.5)",
        f"bilinear({rows}, {rows}, T.ones(2, 1, 1, dtype={x}.dtype))", f"rms_norm({rows}, (1,))",
        f"linear({rows}, T.ones(2, 1, dtype={x}.dtype), T.ones(2, dtype={x}.dtype))",
        f"batch_norm({rows}, T.zeros({x}.numel(), dtype={x}.dtype), T.ones({x}.numel(), dtype={x}.dtype))",
    )  # fmt: skip


@kind(1)
def half_and_numbers(w):
    x = w.floating(lambda t: str(t.dtype) in ("torch.float16", "torch.bfloat16"))
    if x is None:
        return f"{w.new()} = T.tensor([0.1, 1.1, -2.3], dtype=T.{w.some('float16', 'bfloat16')}, requires_grad=True)"
    n = w.some(1.1, 0.1, -2.3, 3, 70000, 1e-3)
    return f"{w.new()} = " + w.some(
        f"{x} + {n}", f"{x} - {n}", f"{n} - {x}", f"{x} * {n}", f"{x} == {n}", f"{x} < {n}", f"{x} >= {n}",
        f"{x} != {n}", f"{x} % {n}", f"{x}.clamp(max={n})", f"{x}.clamp(min={n})", f"{x}.masked_fill({x} > 0, {n})",
        f"T.add({x}, {x}, alpha={n})", f"{x}.fmod({n})", f"T.lerp({x}, {x}, {n})", f"T.where({x} > 0, {x}, {n})",
        f"T.isin({x}, {n})", f"{x} // {n}", f"{x}.fill_({n})", f"{x} + T.tensor({n})", f"T.nn.functional.hardtanh({x})",
    )  # fmt: skip
