"""Statements about the wider surface: more ops and dtypes, chains of views, writes to parts, Functions, transforms."""

from __future__ import annotations

from support.program_statements import grouped, index, kind


def partner(w, x: str, same_dtype=False) -> str:
    """Return a floating point tensor of the shape of `x`, of its dtype, too, if asked for; `x` where there is none."""

    def suits(tensor):
        return tuple(tensor.shape) == w.shape(x) and (not same_dtype or str(tensor.dtype) == w.dtype(x))

    return w.floating(suits) or x


# ---------------------------------------------------------------------------------------------------- dtypes


@kind(0.7)
def other_dtype(w):
    dtype = w.some("int64", "int64", "int32", "uint8", "bool", "float16", "bfloat16", "complex64")
    shape = w.some((2,), (3,), (2, 3), (2, 2), (), (1, 3))
    size = 1
    for n in shape:
        size *= n
    if dtype == "bool":
        numbers = [w.chance(0.5) for _ in range(size)]
    elif "int" in dtype:
        numbers = [w.random.randrange(0 if dtype == "uint8" else -3, 4) for _ in range(size)]
    else:
        numbers = [w.random.randrange(-8, 9) / 4 or 0.5 for _ in range(size)]
    requires = ", requires_grad=True" if dtype[0] in "fbc" and dtype != "bool" and w.chance(0.5) else ""
    return f"{w.new()} = T.tensor({grouped(numbers, shape)}, dtype=T.{dtype}{requires})"


@kind(2)
def integral(w):
    x = w.pick(lambda t: not t.is_floating_point() and not t.is_complex())
    if x is None:
        return None
    y = w.pick(lambda t: tuple(t.shape) == w.shape(x)) or x
    n = w.some(2, 3, -1, 1.5, True)
    return f"{w.new()} = " + w.some(
        f"{x} + {n}", f"{x} * {n}", f"{x} / 2", f"{x} // 2", f"{x} % 2", f"{x} & {x}", f"{x} | {y}", f"{x} ^ {x}",
        f"~{x}", f"{x}.sum()", f"{x}.sum(0)" if w.shape(x) else f"{x}.sum()", f"{x}.any()", f"{x}.all()",
        f"{x} * {y}", f"{x} + {y}", f"{x} - {y}", f"{x}.cumsum(-1)", f"{x}.max()", f"{x}.prod()",
        f"{x}.to({y}.dtype)", f"{x} ** 2", f"{x} << 1", f"{x}.float().mean()", f"T.where({x} > 0, {x}, {y})",
        f"{x}.clamp(0, 1)", f"{x}.argsort()", f"{x}.nonzero()", f"{x}.bincount()", f"T.logical_xor({x}, {y})",
        f"T.eye(4)[{x}]", f"T.nn.functional.one_hot({x}, 5)", f"{x}.sqrt()", f"{x}.abs()", f"{x} == {y}",
        f"{x}.sort(-1)[0]", f"T.maximum({x}, {y})", f"-{x}", f"{x}.double()",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- more ops


@kind(5)
def wider(w):
    x = w.floating()
    if x is None:
        return None
    y = partner(w, x, same_dtype=True)
    d, n = w.dim(x), w.number()
    size = w.shape(x)[d] if w.shape(x) and -len(w.shape(x)) <= d < len(w.shape(x)) else 1
    few = f"T.tensor([0, {max(size - 1, 0)}])" if size else "T.zeros(0, dtype=T.int64)"
    zeros = f"T.zeros_like({x}, dtype=T.int64)"
    return f"{w.new()} = " + w.some(
        f"{x}.index_select({d}, {few})", f"{x}.gather({d}, {zeros})", f"{x}.take_along_dim({zeros}, {d})",
        f"{x}.masked_select({x} > {n})", f"{x}.masked_fill({x} > {n}, {n})", f"{x}.clamp({n}, 1.5)",
        f"{x}.clamp(min={y})", f"{x}.cummax({d})[0]", f"{x}.cummin({d})[0]", f"{x}.logcumsumexp({d})",
        f"{x}.diff(dim={d})", f"T.nn.functional.pad({x}, (1, 0))", f"T.nn.functional.pad({x}, (0, 1), value={n})",
        f"{x}.take({few})", f"{x}.scatter({d}, {zeros}, {y})", f"{x}.scatter_add({d}, {zeros}, {y})",
        f"{x}.index_add({d}, {few}, " f"{x}.index_select({d}, {few}))", f"{x}.index_fill({d}, {few}, {n})",
        f"{x}.put({few}, {x}.take({few}))", f"T.kron({x}, {y})", f"T.addcmul({x}, {y}, {y}, value=2)",
        f"T.lerp({x}, {y}, 0.25)", f"{x}.hypot({y})", f"{x}.fmod(2)", f"{x}.remainder({n or 2})", f"{x}.nanmean()",
        f"{x}.nansum({d})", f"{x}.norm(dim={d})", f"{x}.norm(p=1)", f"{x}.norm(float('inf'), {d})",
        f"T.linalg.vector_norm({x}, 3)", f"{x}.quantile(0.5)", f"{x}.copysign({y})", f"{x}.heaviside({y}.detach())",
        f"{x}.logaddexp({y})", f"{x}.expm1()", f"{x}.log1p()", f"{x}.rsqrt()", f"{x}.asinh()", f"{x}.cosh()",
        f"{x}.sinc()", f"{x}.logit(0.1)", f"{x}.round()", f"{x}.trunc()", f"{x}.sgn()", f"{x}.nan_to_num()",
        f"{x}.float_power(2)", f"{x}.pow({y})", f"{n or 2} ** {x}", f"{x}.rot90()", f"{x}.tril(-1)", f"{x}.diag()",
        f"{x}.diag_embed()", f"{x}.flipud()", f"{x}.repeat_interleave(2, {d})", f"{x}.tile(2)",
        f"T.block_diag({x}, {y})", f"T.cartesian_prod({x}, {y})", f"T.combinations({x})", f"T.vander({x})",
        f"T.trapezoid({x})" if size else f"{x}.exp2()", f"{x}.cov()", f"{x}.var(correction=0)",
        f"{x}.std({d}, keepdim=True)", f"T.std_mean({x}, {d})[1]", f"{x}.argsort({d})", f"{x}.searchsorted({y})",
        f"T.nn.functional.normalize({x}, dim={d})", f"T.nn.functional.softmin({x}, {d})",
        f"T.nn.functional.glu({x}, {d})", f"T.nn.functional.layer_norm({x}, {x}.shape[-1:])",
        f"T.nn.functional.hardtanh({x})", f"T.nn.functional.mish({x})", f"T.nn.functional.softshrink({x})",
        f"T.nn.functional.threshold({x}, 0.1, {n})", f"T.nn.functional.celu({x})", f"T.nn.functional.hardswish({x})",
        f"T.nn.functional.gelu({x}, approximate='tanh')", f"{x}.selu()", f"T.nn.functional.leaky_relu({x}, 0.2)",
        f"T.nn.functional.dropout({x}, 0.0)", f"T.dist({x}, {y})",
        f"T.nn.functional.cosine_similarity({x}, {y}, {d})", f"T.nn.functional.pairwise_distance({x}, {y})",
        f"T.atleast_2d({x})", f"{x}.select_scatter({x}.select({d}, 0), {d}, 0)", f"{x}.slice_scatter({x}, {d})",
        f"{x}.diagonal_scatter({x}.diagonal())", f"{x}.unfold({d}, 1, 1)", f"{x}.swapdims(0, {d})",
        f"{x}.new_ones(2)",
    )  # fmt: skip


@kind(1.5)
def loss(w):
    x = w.floating(lambda t: t.numel() > 0)
    if x is None:
        return None
    y = partner(w, x, same_dtype=True)
    reduction = w.some("", "", ", reduction='sum'", ", reduction='none'")
    f = "T.nn.functional."
    labels = f"T.zeros({w.shape(x)[0]}, dtype=T.int64)" if w.shape(x) else "T.tensor(0)"
    return f"{w.new()} = {f}" + w.some(
        f"mse_loss({x}, {y}{reduction})", f"l1_loss({x}, {y}{reduction})", f"smooth_l1_loss({x}, {y}{reduction})",
        f"huber_loss({x}, {y}{reduction})", f"cross_entropy({x}, {labels}{reduction})", f"soft_margin_loss({x}, {y})",
        f"nll_loss({x}, {labels}{reduction})", f"kl_div({x}, {y}.detach(){reduction})", f"poisson_nll_loss({x}, {y})",
        f"binary_cross_entropy_with_logits({x}, {y}.detach().sigmoid(){reduction})",
        f"cross_entropy({x}, {y}.softmax(-1))",
        f"binary_cross_entropy({x}.sigmoid(), {y}.detach().sigmoid(){reduction})",
        f"hinge_embedding_loss({x}, {y}.sign())", f"gaussian_nll_loss({x}, {y}, {y}.detach().abs() + 1)",
        f"margin_ranking_loss({x}, {y}, {x}.detach().sign())",
    )  # fmt: skip


@kind(1)
def windows(w):
    x = w.floating(lambda t: t.numel() > 1)
    if x is None:
        return None
    rows, f = f"{x}.reshape(1, 1, -1)", "T.nn.functional."
    kernel = f"T.ones(2, 1, 2, dtype={x}.dtype)"
    return f"{w.new()} = {f}" + w.some(
        f"conv1d({rows}, {kernel})", f"conv1d({rows}, {kernel}, padding=1, stride=2)", f"max_pool1d({rows}, 2)",
        f"conv_transpose1d({rows}, {kernel}.transpose(0, 1))", f"avg_pool1d({rows}, 2, padding=1)",
        f"adaptive_avg_pool1d({rows}, 2)", f"adaptive_max_pool1d({rows}, 1)", f"interpolate({rows}, scale_factor=2)",
        f"interpolate({rows}, size=3, mode='linear')", f"pad({rows}, (1, 1), mode='replicate')",
        f"pad({rows}, (1, 0), mode='circular')", f"unfold({rows}[None], (1, 2))", f"lp_pool1d({rows}, 2, 2)",
        f"conv2d({rows}[None], {kernel}[None].transpose(0, 1)[:1])", f"max_pool2d({rows}[None], (1, 2))",
        f"instance_norm({rows})", f"group_norm({rows}, 1)", f"embedding(T.tensor([0, 1]), {x}.reshape(-1, 1))",
        f"local_response_norm({rows}, 2)", f"pixel_shuffle({rows}[None], 1)",
        f"max_pool1d({rows}, 2, ceil_mode=True)",
    )  # fmt: skip


@kind(1.2)
def matrix(w):
    x = w.floating(lambda t: t.ndim == 2 and 0 < t.shape[0] <= 3)
    if x is None:
        return None
    eye = f"T.eye({w.shape(x)[0]}, dtype={x}.dtype)"
    square = f"({x} @ {x}.mT + 3 * {eye})"
    return f"{w.new()} = " + w.some(
        f"T.linalg.inv({square})", f"T.linalg.det({square})", f"T.linalg.solve({square}, {x})", f"{square}.logdet()",
        f"T.linalg.cholesky({square})", f"T.linalg.matrix_power({square}, 2)", f"T.linalg.norm({x})",
        f"{x}.addmm({x}, {eye})", f"T.addmm({x}, {eye}, {x}, beta=0.5)", f"T.mv({x}, {x}[0])",
        f"T.baddbmm({x}[None], {eye}[None], {x}[None])", f"T.einsum('ij,kj->ik', {x}, {x})",
        f"T.linalg.slogdet({square})[1]", f"T.linalg.multi_dot([{eye}, {x}])", f"T.tensordot({x}, {x}, 2)",
        f"T.chain_matmul({eye}, {x})", f"T.linalg.eigvalsh({square})", f"T.trace({square})",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- views, writes


def step(w, shape) -> str:
    """Return one view of a tensor of a shape."""
    ndim = len(shape)
    d, e = (w.random.randrange(-ndim, ndim) for _ in range(2)) if ndim else (0, 0)
    forms = [".unsqueeze(0)", "[None]", ".detach()" if w.chance(0.1) else "[...]", ".squeeze()"]
    if ndim:
        forms += [
            f".transpose({d}, {e})", f".movedim({d}, {e})", ".mT" if ndim > 1 else "[:]", ".flatten()", ".view(-1)",
            f".unsqueeze({d})", f".select({d}, 0)", "[::2]", "[1:]",
            "[..., -1:]", f".narrow({d}, 0, {min(1, shape[d])})", f".unbind({d})[0]", f".split(1, {d})[-1]",
            f".expand({', '.join(map(str, (2, *shape)))})", ".diagonal()",
            f".unflatten({d}, (-1, 1))", "[0]", f".chunk(2, {d})[0]", "[-1]",
        ]  # fmt: skip
    return w.some(*forms)


def chain(w, x: str) -> str:
    """Return an expression for a view of a view of a tensor."""
    expression = x
    for _ in range(w.random.randint(2, 3)):
        try:
            shape = tuple(eval(expression, w.run.names).shape)
        except Exception:
            break
        expression += step(w, shape)
    return expression


@kind(2)
def chained(w):
    x = w.pick()
    return None if x is None else f"{w.new()} = {chain(w, x)}"


@kind(3)
def written_part(w):
    x = w.pick(lambda t: not t.is_inference() and (not t.is_leaf or not t.requires_grad or w.chance(0.1)))
    if x is None:
        return None
    part = w.some(chain(w, x), chain(w, x), f"{x}[{index(w, x)}]", f"{x}.T" if len(w.shape(x)) == 2 else f"{x}[...]")
    n = w.number()
    y = w.pick(lambda t: t.ndim == 0 or tuple(t.shape) == w.shape(x)) or x
    return w.some(
        f"{part}.add_({n})", f"{part}.mul_({n})", f"{part}.zero_()", f"{part}.copy_({y})", f"{part}.sin_()",
        f"{part}.add_({y})", f"{part}.mul_({part})", f"{part}.fill_({n})", f"{part}[...] = {n}", f"{part}.exp_()",
        f"{part}[...] += {y}", f"{part}.sub_({part}.clone())", f"{part}.clamp_(max={n})", f"{part}.pow_(2)",
        f"{part}.t_()", f"{part}.masked_fill_({part} > 0, {n})", f"{part}.unsqueeze_(0)",
        f"{w.new()} = {part}.mul_(2)", f"{part}.requires_grad_()", f"{part}.detach_()",
        f"{w.new()} = {part}.relu_().sum()",
    )  # fmt: skip


@kind(3)
def masked(w):
    x = w.pick(lambda t: t.ndim >= 1 and not t.is_inference() and not t.is_complex())
    if x is None:
        return None
    n = w.number()
    y = w.pick(lambda t: t.ndim == 0) or n
    shape = w.shape(x)
    rows = f"T.tensor({[w.chance(0.6) for _ in range(shape[0])]})" if shape[0] else "slice(None)"
    mask = w.some(f"{x} > {n}", f"{x} <= {n}", rows, rows, f"{x}.isfinite()", f"({x} > 0).logical_not()")
    numbers = [w.random.randrange(-shape[0], shape[0]) for _ in range(w.some(1, 2, 3))] if shape[0] else []
    picks = f"T.tensor({numbers}, dtype=T.int64)"
    several = f"{picks}, ..." if len(shape) > 1 else picks
    place = w.some(mask, mask, picks, several, f"..., {w.some(0, -1)}", f"None, {mask}")
    return w.some(
        f"{x}[{place}] = {n}", f"{x}[{place}] = {y}", f"{x}[{place}] *= 2", f"{x}[{place}] += {y}",
        f"{w.new()} = {x}[{place}]", f"{x}[{place}] = {x}[{place}] * {n}", f"{x}[{place}] = {x}[{place}].detach()",
        f"{w.new()} = {x}[{place}].sin()",
        f"{x}.index_put_(({picks},), T.tensor({abs(float(n))}, dtype={x}.dtype), accumulate={w.some(True, False)})",
        f"{x}.masked_scatter_({x} > {n}, {x}.detach().clone())", f"{x}[{place}] = {x}.flatten()[0]",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- autograd


@kind(2)
def wider_function(w):
    x = w.floating()
    if x is None:
        return None
    y = partner(w, x)
    one, two = w.new(), w.new()
    return w.some(
        f"{one}, {two}, _ = Three.apply({x}, {y}, {w.number()})", f"{one}, {two} = Dirty.apply({x}, {y})",
        f"{one}, {two} = Passing.apply({x}, {y})", f"{one} = Needs.apply({x}, {y}, None)",
        f"{one} = Nested.apply({x})", f"{one}, {two} = Context.apply({x}, {y})",
        f"{one} = Listed.apply([{x}, {y}], {x})", f"{one} = Views.apply({x})", f"{one} = Inside.apply({x})",
        f"{one}, {two} = Unused.apply({x})", f"{one} = Intermediate.apply({x})",
    )  # fmt: skip


@kind(1.5)
def checkpointed(w):
    x = w.floating()
    if x is None:
        return None
    y = partner(w, x)
    c = "T.utils.checkpoint.checkpoint"
    reentrant = f"use_reentrant={w.some(True, False, False)}"
    one, two = w.new(), w.new()
    return w.some(
        f"{one} = {c}(lambda a, b: (a * b).exp() * a, {x}, {y}, {reentrant})",
        f"{one}, {two} = {c}(lambda a: (a.sin(), a * a), {x}, {reentrant})",
        f"{one} = {c}(lambda a: {c}(lambda b: b.cos() * b, a * 2, {reentrant}) * a, {x}, {reentrant})",
        f"{one} = {c}(lambda a: Square.apply(a) * {y}, {x}, {reentrant})",
        f"{one} = T.utils.checkpoint.checkpoint_sequential([T.nn.Tanh(), T.nn.Softmax(-1)], 2, {x}, " f"{reentrant})",
    )  # fmt: skip


@kind(1)
def transformed(w):
    x = w.floating(lambda t: t.numel() > 0)
    if x is None:
        return None
    y = partner(w, x, same_dtype=True)
    one, two = w.new(), w.new()
    f = w.some("lambda a: (a * a * a).sum()", "lambda a: a.sin().prod()")
    g = w.some("lambda a: a * a.sum()", "lambda a: a.exp()")
    return w.some(
        f"{one} = T.func.grad({f})({x})", f"{one}, {two} = T.func.grad_and_value({f})({x})",
        f"{one}, {two} = T.func.jvp({g}, ({x},), ({y},))", f"{one} = T.func.jacrev({g})({x})",
        f"{one} = T.func.vmap({g})({x})", f"{one} = T.func.hessian({f})({x})",
        f"{one} = T.autograd.functional.jacobian({g}, {x}, create_graph={w.some(True, False)})",
        f"{one} = T.autograd.functional.vjp({g}, {x}, {y})[1]",
        f"{one} = T.autograd.functional.hvp({f}, {x}, {y})[1]", f"{one} = T.func.vmap(T.func.grad({f}))({x})",
        f"{one} = T.func.jacfwd({g})({x})", f"{one} = T.func.vjp({g}, {x})[0]",
    )  # fmt: skip
