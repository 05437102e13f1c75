"""Statements about other tensors: images in another order, complex and half ones, sparse ones, subclasses, copies."""

from __future__ import annotations

from support.program_ops import partner
from support.program_statements import kind

IMAGES = "T.tensor([n / 4 for n in range(-6, 10)], dtype=T.{}).reshape(1, 2, 2, 4)"


@kind(1)
def images(w):
    x = w.floating(lambda t: t.ndim == 4 and t.numel() > 0)
    last = "memory_format=T.channels_last"
    if x is None or w.chance(0.3):
        requires = w.some("", ".requires_grad_()")
        image = IMAGES.format(w.some("float64", "float64", "float32"))
        return f"{w.new()} = {image}{w.some('', f'.to({last})')}{requires}"
    n, c = w.shape(x)[:2]
    f, of = "T.nn.functional.", f"dtype={x}.dtype"
    return f"{w.new()} = " + w.some(
        f"{x}.to({last})", f"{x}.contiguous({last})", f"{x}.contiguous()", f"T.empty_like({x}).fill_(1)",
        f"{x}.clone({last})",
        f"{x}.clone(memory_format=T.preserve_format)", f"T.tensor([{x}.is_contiguous(), {x}.is_contiguous({last})])",
        f"{f}conv2d({x}, T.ones(2, {c}, 1, 2, {of}))",
        f"{f}conv2d({x}, T.ones({c}, 1, 2, 1, {of}), groups={c}, padding='same')",
        f"{f}max_pool2d({x}, 2, padding=1)", f"{f}avg_pool2d({x}, (1, 2))", f"{f}adaptive_avg_pool2d({x}, (1, 2))",
        f"{f}interpolate({x}, scale_factor=2, mode='bilinear')", f"{f}interpolate({x}, size=(3, 3), mode='nearest')",
        f"fill(T.nn.BatchNorm2d({c}, {of}))({x})", f"fill(T.nn.Conv2d({c}, 2, (1, 2), {of}).to({last}))({x})",
        f"{f}pixel_unshuffle({x}, 2)",
        f"{f}group_norm({x}, 1)", f"{f}instance_norm({x})", f"{x}.permute(0, 2, 3, 1)", f"{x}.flatten(1)",
        f"{x}.mean((2, 3))",
        f"{x}.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)", f"T.cat([{x}, {x}], 1)",
        f"{x}.sum(1, keepdim=True)",
        f"{f}pad({x}, (1, 1, 0, 1), mode='reflect')" if min(w.shape(x)[2:]) > 1 else f"{x} * 2",
        f"{f}grid_sample({x}, T.zeros({n}, 2, 2, 2, {of}))",
        f"{x} + T.ones_like({x}, {last})", f"{f}conv_transpose2d({x}, T.ones({c}, 1, 2, 2, {of}), stride=2)",
        f"{f}unfold({x}, 2)",
        f"{x}.softmax(1)", f"{x}.view({n}, -1)", f"{f}dropout2d({x}, 0.0)", f"{x}.flip(3)",
        f"T.channel_shuffle({x}, 1)",
        f"{f}prelu({x}, T.full(({c},), 0.25, {of}))", f"{x}.as_strided({w.shape(x)}, {x}.stride())",
    )  # fmt: skip


@kind(1.5)
def complexes(w):
    z = w.pick(lambda t: t.is_complex())
    if z is None or w.chance(0.2):
        x = w.floating(lambda t: str(t.dtype) in ("torch.float32", "torch.float64"))
        if x is None:
            return None
        y = partner(w, x, same_dtype=True)
        return f"{w.new()} = " + w.some(
            f"T.complex({x}, {y})", f"T.polar({x}.abs(), {y})", f"{x} * 1j", f"{x} + (0.5 - 1j)",
            f"{x}.to(T.complex128)",
            f"T.view_as_complex(T.stack([{x}, {y}], -1))", f"T.fft.fft({x}.reshape(-1))", f"{x}.cfloat()",
            f"T.complex({x}, {y}).conj()",
        )  # fmt: skip
    y = w.pick(lambda t: tuple(t.shape) == w.shape(z)) or z
    return f"{w.new()} = " + w.some(
        f"{z}.abs()", f"{z}.angle()", f"T.view_as_real({z}.resolve_conj())", f"{z}.real * {z}.imag",
        f"{z} * {z}.conj()", f"{z}.sgn()",
        f"{z} * {y}", f"{z} / ({y} + 3)", f"{z}.exp()", f"{z}.log()", f"({z} + 2).sqrt()", f"{z} ** 2", f"{z}.sin()",
        f"{z}.tanh()",
        f"{z}.mean()", f"{z}.prod()", f"{z}.cumsum(-1)", f"{z}.flatten() @ {z}.flatten()",
        f"T.vdot({z}.flatten(), {z}.flatten())",
        f"T.outer({z}.flatten(), {z}.flatten())", f"{z}.norm()", f"{z}.mT",
        f"{z}.mH" if len(w.shape(z)) > 1 else f"{z}.conj()",
        f"{z}.isreal()", f"{z} == {y}", f"{z}.reciprocal()", f"{z}.sigmoid()", f"{z}.var()",
        f"T.where({z} != 0.5, {z}, {y})",
        f"{z}.abs() ** 2", f"{z}.add({y}, alpha=1j)", f"{z}.conj_physical()", f"{z}.std()", f"{z}.rsqrt()",
        f"{z}.cosh()", f"{z}.pow({y})",
        f"T.fft.ifft({z}.reshape(-1))", f"{z}.clone().mul_(1j)", f"{z}.to(T.complex64)", f"{z}.square()",
        f"{z}.conj().imag",
        f"{z}.conj().sum()", f"T.linalg.norm({z})", f"{z}.nan_to_num()" if w.chance(0.2) else f"-{z}.conj()",
        f"T.linalg.vecdot({z}, {z})",
        f"T.einsum('...i,...i->...', {z}, {z}.conj())", f"{z}.masked_fill({z}.real > 0, 1j)", f"{z}.view(-1).real",
        f"{z}.atan()",
        f"{z}.conj().view(-1)", f"{z}.conj()[..., :1]", f"{z}.log1p()", f"{z}.expm1()", f"{z}.cumprod(-1)",
        f"{z}.acos()", f"{z}.asinh()",
    )  # fmt: skip


@kind(1)
def halves(w):
    x = w.floating(lambda t: str(t.dtype) in ("torch.float16", "torch.bfloat16") and t.numel() > 0)
    if x is None:
        y = w.floating()
        if y is None:
            return None
        return f"{w.new()} = {y}.{w.some('half()', 'bfloat16()', 'to(T.bfloat16)', 'detach().half().requires_grad_()')}"
    y = w.floating(lambda t: tuple(t.shape) == w.shape(x)) or x
    d = w.dim(x)
    return f"{w.new()} = " + w.some(
        f"{x} + {y}", f"{x} * {y}", f"{x} / ({y}.abs() + 1)", f"{x}.sum({d})", f"{x}.mean()", f"{x}.softmax({d})",
        f"{x}.exp()", f"{x}.norm()", f"{x}.cumsum({d})", f"{x}.var()", f"{x}.float()", f"{x}.double() * {y}",
        f"{x}.flatten() @ {x}.flatten()",
        f"{x}.logsumexp({d})", f"{x}.prod()", f"{x}.max({d})[0]", f"{x}.sigmoid()", f"{x}.erf()",
        f"T.nn.functional.gelu({x})",
        f"T.nn.functional.layer_norm({x}, {x}.shape[-1:])", f"{x}.clone().mul_({y})", f"{x}.clone().add_(1)",
        f"T.outer({x}.flatten(), {x}.flatten())",
        f"{x} > {y}", f"T.cat([{x}.flatten(), {y}.flatten()])", f"T.stack([{x}, {x}])", f"T.where({x} > 0, {x}, {y})",
        f"{x}.sum(dtype=T.float32)",
        f"T.nn.functional.mse_loss({x}, {x}.detach() + 1)", f"{x}.sort({d})[0]", f"{x}.pow(3)", f"{x}.sqrt()",
        f"{x}.log_softmax({d})",
        f"{x}.to(T.float16)", f"{x}.to(T.bfloat16)", f"T.nn.functional.silu({x})", f"{x}.median()", f"{x}.std({d})",
        f"{x}.lerp({x}, 0.5)",
        f"T.addcmul({x}, {x}, {x})", f"{x}.long()", f"{x}.floor()", f"{x}.round()", f"{x}.nan_to_num()",
        f"{x}.clamp(-1, 1)", f"{x}.tanh()",
    )  # fmt: skip


@kind(1)
def sparse(w):
    s = next((n for n, t in reversed(w.tensors().items()) if t.layout == w.oracle.sparse_coo), None)
    x = w.floating(lambda t: t.ndim == 2 and t.numel() > 0)
    if x is None:
        return None
    n = w.shape(x)[0]
    if s is None or w.chance(0.35):
        return f"{w.new()} = " + w.some(
            f"T.nn.functional.embedding(T.tensor([0, {n - 1}]), {x}, sparse=True)", f"{x}.to_sparse()",
            f"{x}.detach().to_sparse()",
            f"T.sparse_coo_tensor([[0, 0], [0, 0]], [1.0, 2.0], {w.shape(x)}, dtype={x}.dtype)",
            f"T.nn.functional.embedding_bag(T.tensor([[0, {n - 1}]]), {x}, mode='sum', sparse=True)",
        )  # fmt: skip
    rows, columns = w.tensor(s).shape[:2] if w.tensor(s).ndim == 2 else (1, 1)
    return f"{w.new()} = " + w.some(
        f"{s}.to_dense()", f"{s}.coalesce()", f"{s} * 2", f"{s} + {s}",
        f"T.sparse.mm({s}, T.ones({columns}, 2, dtype={s}.dtype))",
        f"T.sparse.sum({s})", f"{s}.coalesce().values()", f"{s}.coalesce().indices()",
        f"{s} @ T.ones({columns}, 2, dtype={s}.dtype)",
        f"{s}.t()" if w.tensor(s).ndim == 2 else f"-{s}", f"-{s}", f"{s}.sum()", f"{s}.clone()", f"{s}.detach()",
        f"{s}.to(T.float64)",
        f"T.ones({rows}, {columns}, dtype={s}.dtype) + {s}", f"{s} / 2", f"{s}.coalesce().sqrt()",
        f"{s}.transpose(0, -1)",
    )  # fmt: skip


@kind(1)
def subclassed(w):
    x = w.pick(lambda t: type(t).__name__ in ("Marked", "Noted"))
    if x is None or w.chance(0.2):
        x = w.pick(lambda t: t.numel() > 0)
        return None if x is None else f"{w.new()} = {x}.as_subclass({w.some('Marked', 'Noted')})"
    y, d = partner(w, x), w.dim(x)
    return f"{w.new()} = " + w.some(
        f"{x} + {y}", f"{y} * {x}", f"{x}.sin()", f"{x}.sum()", f"{x}[...]", f"{x}.view(-1)",
        f"T.cat([{x}.flatten(), {y}.flatten()])",
        f"{x}.detach()", f"{x}.clone()", f"{x}.max({d})[0]", f"T.nn.functional.relu({x})", f"T.ones_like({x})",
        f"{x}.as_subclass(T.Tensor)",
        f"{x}.new_zeros(2)", f"{x}.to(T.float64)", f"{x} > 0", f"T.stack([{x}])", f"copy.copy({x})",
        f"copy.deepcopy({x}.detach())",
        f"{x}.split(1, {d})[0]", f"{x}.unsqueeze(0)", f"{x}.data", f"2 - {x}",
        f"T.where({x} > 0, {x}, {y})",
        f"T.nn.functional.softmax({x}, -1)",
        f"{x}.requires_grad_() * 1" if w.tensor(x).is_leaf and w.tensor(x).is_floating_point() else f"{x} * 1",
        f"T.tensor([{x}.numel(), {x}.ndim])", f"{x}.real", f"T.einsum('...,...->...', {x}, {x})",
    )  # fmt: skip


@kind(1)
def kept(w):
    """What goes through a file, pickle, copy, NumPy or dlpack and comes back."""
    x = w.pick(lambda t: type(t).__name__ in ("Tensor", "Parameter"))
    if x is None:
        return None
    return f"{w.new()} = " + w.some(
        f"pickle.loads(pickle.dumps({x}))", f"through_file({x})", f"through_file([{x}, {x}.detach()])[0]",
        f"copy.deepcopy({x})",
        f"through_file({{'a': {x}[...], 'b': {x}}})['a']", f"T.from_numpy({x}.detach().resolve_conj().numpy())",
        f"T.tensor({x}.detach().resolve_conj().numpy())",
        f"T.from_dlpack({x}.detach())", f"copy.copy({x})", f"T.nn.Parameter({x}.detach())",
        f"T.nn.Buffer({x}.detach())", f"T.as_tensor({x}.tolist())",
        f"pickle.loads(pickle.dumps({x}.detach().transpose(0, -1)))" if w.shape(x) else f"{x}.clone()",
        f"T.asarray({x}.detach(), copy=True)",
        f"copy.deepcopy({x}.detach())",
        f"T.tensor({x}.numpy(force=True))", f"T.scalar_tensor({x}.detach().sum().item())",
        f"T.load(saved({x}), weights_only=True)",
    )  # fmt: skip


@kind(1.5)
def drawn(w):
    """Random numbers: one seed gives PyTorch's."""
    x = w.floating(lambda t: not t.is_complex())
    shape = w.some((2,), (3,), (2, 3), (2, 2))
    seed = f"T.manual_seed({w.random.randrange(100)}) and "
    one = w.new()
    if x is None or w.chance(0.3):
        return f"{one} = {seed}" + w.some(
            f"T.rand({shape})", f"T.randn({shape}, dtype=T.float64)", f"T.randint(0, 5, {shape})", "T.randperm(4)",
            f"T.rand({shape}, requires_grad=True)",
            f"T.normal(0.0, 1.0, {shape})", f"T.bernoulli(T.full({shape}, 0.5))",
            "T.multinomial(T.tensor([0.5, 0.25, 0.25]), 2)",
            "T.nn.init.xavier_uniform_(T.empty(2, 3))", f"T.poisson(T.ones({shape}))", "T.nn.Linear(3, 2).weight",
            "T.nn.init.kaiming_normal_(T.empty(2, 3))",
        )  # fmt: skip
    f = "T.nn.functional."
    return f"{one} = {seed}" + w.some(
        f"{f}dropout({x}, 0.5)", f"T.rand_like({x})", f"T.randn_like({x})", f"{x}.detach().clone().uniform_()",
        f"{x}.detach().clone().normal_()",
        f"{f}gumbel_softmax({x}, dim=-1)" if w.shape(x) else f"{f}dropout({x}, 0.25)",
        f"{f}alpha_dropout({x}, 0.5, training=True)", f"{f}rrelu({x}, training=True)",
        f"{x}.clone().bernoulli_(0.5)", f"{x}.clone().exponential_()", f"T.nn.Dropout(0.5)({x})",
        f"T.distributions.Normal({x}, 1.0).rsample()",
        f"{f}dropout({x}, 0.5, training=False)",
        f"T.utils.checkpoint.checkpoint(lambda a: {f}dropout(a, 0.5) * a, {x}, use_reentrant=False)",
        f"T.normal({x}, 1.0)", f"T.bernoulli({x}.sigmoid())", f"{x}.clone().random_(0, 4)",
        f"{x} + T.rand({w.shape(x)})", f"{x}.clone().cauchy_()",
    )  # fmt: skip
