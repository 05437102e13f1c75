"""The kinds of statements that random programs consist of: each a function that writes one, or None if none suits."""

from __future__ import annotations

import re

KINDS: dict = {}
WEIGHTS: list = []


def kind(weight: float):
    """Return a decorator that enters a kind of statement with its weight."""

    def enter(function):
        KINDS[function.__name__] = function
        WEIGHTS.append(weight)
        return function

    return enter


def grouped(numbers: list, shape: tuple):
    """Return nested lists of numbers in a shape."""
    if not shape:
        return numbers.pop(0)
    return [grouped(numbers, shape[1:]) for _ in range(shape[0])]


# ---------------------------------------------------------------------------------------------------- new tensors


@kind(2)
def leaf(w):
    shape = w.some((), (1,), (2,), (3,), (2, 3), (2, 3), (3, 2), (1, 3), (2, 2), (2, 1, 2), (2, 3, 2), (0,), (0, 2))
    dtype = w.random.choices(["float64", "float32", "complex128"], [8, 2, 0.7])[0]
    size = 1
    for n in shape:
        size *= n
    numbers = [w.random.randrange(-8, 9) / 4 or 0.5 for _ in range(size)]
    requires = ", requires_grad=True" if w.chance(0.8) else ""
    if not size:
        return f"{w.new()} = T.zeros({shape}, dtype=T.{dtype}{requires})"
    return f"{w.new()} = T.tensor({grouped(numbers, shape)}, dtype=T.{dtype}{requires})"


@kind(0.6)
def factory(w):
    x = w.pick()
    if x is None:
        return None
    return f"{w.new()} = " + w.some(
        f"T.zeros_like({x})", f"T.ones_like({x})", f"T.full_like({x}, {w.number()})", f"{x}.new_zeros({w.shape(x)})",
        f"T.arange({w.some(2, 3, 6)})", f"T.zeros_like({x}, requires_grad=True)", f"{x} > {w.number()}", f"{x} != 0.5",
        f"{x}.new_tensor([1.5, 2.0])", f"T.asarray({x})", f"T.as_tensor({x}, dtype={x}.dtype)",
        f"T.empty_like({x}).fill_(1)",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- results


UNARY = """sin cos tanh sigmoid exp relu abs neg square clone contiguous positive sign floor frac
reciprocal atan sinh erf softplus silu gelu logsigmoid elu""".split()
FUNCTIONAL = ("softplus", "silu", "gelu", "logsigmoid", "elu")


@kind(8)
def unary(w):
    x = w.pick(lambda t: t.is_floating_point() or t.is_complex())
    if x is None:
        return None
    name = w.some(*UNARY[:-5] if w.tensor(x).is_complex() else UNARY)
    return f"{w.new()} = T.nn.functional.{name}({x})" if name in FUNCTIONAL else f"{w.new()} = {x}.{name}()"


@kind(9)
def binary(w):
    x = w.pick()
    if x is None:
        return None
    y = w.pick() if w.chance(0.75) else w.number()
    if w.chance(0.2):
        x, y = y, x
    if not isinstance(x, str) and not isinstance(y, str):
        return None
    form = w.some(*"+ - * / + - *".split(), "maximum", "minimum", "where", "atan2", "add", "sub", "pow")
    if form == "where":
        x = x if isinstance(x, str) else y
        return f"{w.new()} = T.where({x} != 0.5, {x}, {y})"
    if len(form) > 1 and not isinstance(x, str):
        x, y = y, x
    if form == "sub" and "torch.bool" in (w.dtype(x), w.dtype(y)):
        form = "add"
    if form in ("add", "sub"):
        alpha = f", alpha={w.some(2, -1)}" if isinstance(y, str) else ""
        return f"{w.new()} = T.{form}({x}, {y}{alpha})"
    if form == "pow":
        return f"{w.new()} = {x} ** {w.some(2, 3, 1, 0)}"
    if len(form) > 1:
        return f"{w.new()} = T.{form}({x}, {y})"
    if form == "-" and "torch.bool" in (w.dtype(x), w.dtype(y)):
        form = "*"
    return f"{w.new()} = {x} {form} {y}"


@kind(2)
def product(w):
    x = w.floating(lambda t: t.ndim >= 1)
    if x is None:
        return None
    y = w.floating(lambda t: t.ndim >= 1)
    return f"{w.new()} = " + w.some(
        f"{x} @ {y}", f"{x} @ {x}.mT" if len(w.shape(x)) > 1 else f"{x} @ {x}",
        f"T.outer({x}.flatten(), {y}.flatten())",
        f"T.einsum('...i,...i->...', {x}, {x})", f"T.dot({x}.flatten(), {x}.flatten())",
    )  # fmt: skip


@kind(5)
def reduction(w):
    x = w.pick(lambda t: t.is_floating_point() or t.is_complex())
    if x is None:
        return None
    d = w.dim(x)
    keep = w.some("", "", ", keepdim=True")
    return f"{w.new()} = " + w.some(
        f"{x}.sum()", f"{x}.sum({d}{keep})", f"{x}.mean()", f"{x}.mean({d}{keep})", f"{x}.prod()",
        f"{x}.prod({d}{keep})",
        f"{x}.max()", f"{x}.amax({d}{keep})", f"{x}.max({d}{keep})[0]", f"{x}.min({d})[0]", f"{x}.cumsum({d})",
        f"{x}.norm()",
        f"{x}.var({d})", f"{x}.std()", f"{x}.softmax({d})", f"{x}.logsumexp({d}{keep})", f"{x}.cumprod({d})",
        f"{x}.sort({d})[0]", f"{x}.flip({d})", f"{x}.roll(1, {d})", f"{x}.log_softmax({d})", f"{x}.median()",
        f"{x}.unique()",
        f"{x}.trace()", f"{x}.triu()", f"{x}.repeat(2, {', '.join('1' * max(len(w.shape(x)) - 1, 1))})",
        f"{x}.argmax()",
        f"T.var_mean({x}, {d})[0]",
    )  # fmt: skip


@kind(3)
def several(w):
    x = w.floating(lambda t: t.ndim >= 1)
    if x is None:
        return None
    d, one, other = w.dim(x), w.new(), w.new()
    return w.some(
        f"{one}, {other} = {x}.max({d})", f"{one}, {other} = {x}.sort({d})", f"{one}, *{other} = {x}.split(1, {d})",
        f"{one}, *{other} = {x}.unbind({d})", f"{one}, *{other} = {x}.chunk(2, {d})",
        f"{one}, *{other} = T.tensor_split({x}, 2, {d})",
        f"{one}, {other} = T.broadcast_tensors({x}, {w.pick()})",
        f"{one}, {other} = T.var_mean({x}, {d})", f"{one}, {other} = {x}.split([1, {w.shape(x)[0]} - 1], 0)",
        f"{one}, {other} = {x}.aminmax(dim={d})", f"{one}, {other} = {x}.frexp()", f"{one}, {other} = {x}.unbind(0)",
    )  # fmt: skip


@kind(1.5)
def joined(w):
    x = w.pick(lambda t: t.ndim >= 1)
    if x is None:
        return None
    y = w.pick(lambda t: tuple(t.shape) == w.shape(x)) or x
    if w.shape(x) == (0,):  # which joins tensors of any shape
        return None
    d = w.dim(x)
    return f"{w.new()} = " + w.some(
        f"T.cat([{x}, {y}], {d})", f"T.stack([{x}, {y}], {d})", f"T.cat([{x}, {x}])", f"T.hstack([{x}, {y}])",
        f"T.stack([{x}])",
    )  # fmt: skip


@kind(2)
def cast(w):
    x = w.pick()
    if x is None:
        return None
    y = w.pick()
    return f"{w.new()} = " + w.some(
        f"{x}.float()", f"{x}.double()", f"{x}.double()", f"{x}.to(T.float64)", f"{x}.to({x}.dtype)",
        f"{x}.type_as({y})",
        f"{x}.long()", f"{x}.bool()", f"{x}.to(T.complex128)", f"{x}.to(T.float32, copy=True)", f"{x}.to({y})",
        f"{x}.cpu()",
    )  # fmt: skip


# ---------------------------------------------------------------------------------------------------- views


@kind(10)
def view(w):
    x = w.pick()
    if x is None:
        return None
    shape, d, e = w.shape(x), w.dim(x), w.dim(x)
    ndim = len(shape)
    forms = [
        "view(-1)" if 0 not in shape else f"view({shape})", f"reshape({shape[::-1]})",
        f"view({shape})", "flatten()", f"unsqueeze({d})",
        "squeeze()", f"squeeze({d})",
        f"expand(2, {', '.join(map(str, shape)) or '-1'})" if ndim else "expand(2)", "detach()", "data",
        f"transpose({d}, {e})", f"movedim({d}, {e})", f"expand_as({x})", f"view_as({x})",
        f"reshape({shape})", "ravel()",
        f"broadcast_to({(2, *shape)})", "real", "conj()", "resolve_conj()", "alias", f"unflatten({d}, (1, -1))",
    ]  # fmt: skip
    if ndim:
        n = shape[d] if -ndim <= d < ndim else 1
        forms += [
            f"narrow({d}, 0, {max(n - 1, 0)})",
            f"select({d}, {w.random.randrange(n) if n else 0})", "T", "mT", "t()", f"unfold({d}, 1, 1)",
            f"permute({', '.join(map(str, w.random.sample(range(ndim), ndim)))})", f"swapaxes({d}, {e})",
            "diagonal()", "adjoint()",
            f"as_strided(({shape[0]},), (1,))" if 0 not in shape else "detach()",
            f"as_strided((1,), (1,), {w.some(0, 1)})",
            f"narrow({d}, {min(1, n)}, {max(n - 1, 0)})",
            f"split(1, {d})[0]", f"unbind({d})[-1]", f"chunk(2, {d})[0]", f"tensor_split(2, {d})[1]",
        ]  # fmt: skip
    if w.tensor(x).is_complex():
        forms += ["imag", "real", "conj()", "conj()"] * 2
    form = w.some(*forms)
    if form == "alias":
        return f"{w.new()} = " + w.some(f"T.view_as_real({x})", f"{x}[...]", f"{x}[None]")
    return f"{w.new()} = {x}.{form}"


def index(w, x) -> str:
    """Return an index that suits a tensor."""
    shape = w.shape(x)
    parts = []
    for n in shape[: w.random.randint(0, len(shape))]:
        part = w.some("int", "slice", "slice", "all", "list", "none", "step")
        if part == "int":
            parts.append(str(w.random.randrange(-n, n)) if n and not w.chance(0.02) else "0")
        elif part == "slice":
            parts.append(w.some("1:", ":1", ":-1", f":{n}", "0:2"))
        elif part == "list":
            parts.append(f"[{', '.join(str(w.random.randrange(n)) for _ in range(2))}]" if n else ":")
        elif part == "step":
            parts.append("::2")
        elif part == "none":
            parts += ["None", ":"]
        else:
            parts.append(":")
    if w.chance(0.15):
        parts.append("...")
    if w.chance(0.12):
        return f"{x} > {w.number()}" if not w.tensor(x).is_complex() else f"{x} != 0.5"
    if w.chance(0.06):
        return "T.tensor([0])"
    return ", ".join(parts) or "..."


@kind(4)
def indexed(w):
    x = w.pick()
    return None if x is None else f"{w.new()} = {x}[{index(w, x)}]"


# ---------------------------------------------------------------------------------------------------- in place


@kind(3.5)
def assigned(w):
    x = w.pick(lambda t: not t.is_inference())
    if x is None:
        return None
    place = index(w, x)
    value = w.number() if w.chance(0.5) else w.pick()
    if w.chance(0.3):
        return f"{x}[{place}] {w.some('+=', '*=', '-=') if 'bool' not in w.dtype(value) else '*='} {value}"
    if w.chance(0.3):
        value = f"{x}[{place}]{w.some('.clone()', ' * 2', '.detach()', '')}"
    return f"{x}[{place}] = {value}"


@kind(10)
def in_place(w):
    x = w.pick(lambda t: not t.is_inference() and (not t.is_leaf or not t.requires_grad or w.chance(0.1)))
    if x is None:
        return None
    y = w.pick(lambda t: tuple(t.shape) == w.shape(x) or t.ndim == 0) if w.chance(0.8) else w.pick()
    y = y or x
    if "bool" in w.dtype(y) and "bool" not in w.dtype(x):
        y = x
    d, n = w.dim(x), w.number()
    few = 1 if w.tensor(x).numel() else 0
    first = "T.tensor([0])" if w.tensor(x).numel() else "T.zeros(0, dtype=T.int64)"
    forms = [
        f"{x}.add_({y})", f"{x}.mul_({y})", f"{x}.sub_({n})", f"{x}.div_({n or 2})", f"{x}.zero_()",
        f"{x}.fill_({n})", f"{x}.copy_({y})",
        f"{x}.sin_()", f"{x}.exp_()", f"{x}.neg_()", f"{x}.tanh_()", f"{x}.relu_()", f"{x}.clamp_(min={n})",
        f"{x}.masked_fill_({x} > 0, {n})",
        f"{x} += {y}", f"{x} *= {n}", f"{x} -= {y}", f"{x} /= 2", f"{x}.t_()", f"{x}.unsqueeze_({d})",
        f"{x}.squeeze_()", f"{x}.transpose_({d}, {w.dim(x)})",
        f"{x}.pow_(2)", f"{x}.triu_()", f"{x}.eq_({n})", f"{x}.logical_not_()", f"{x}.addcmul_({y}, {y}, value=2)",
        f"{x}.lerp_({y}, 0.5)" if w.dtype(x) == w.dtype(y) else f"{x}.cos_()",
        f"{x}.index_fill_({d}, {first}, {n})", f"{x}.sigmoid_()", f"{x}.abs_()", f"{x}.cumsum_({d})", f"{x}.square_()",
        f"T.nn.functional.relu({x}, inplace=True)", f"T.relu_({x})", f"{x}.detach_()", f"{x}.requires_grad_()",
        f"{x}.requires_grad_(False)",
        f"{x}.data.add_({n})", f"{x}.detach().mul_({n})", f"{x}.view(-1).add_({n})", f"{x}.gt_({n})", f"{x}.sign_()",
        f"{x}.index_add_(0, {first}, {x}[:{few}] * 2)", f"{x}.masked_scatter_({x} > 0, {y}.detach().clone())",
        f"{x}.clamp_({y})", f"{x}.addcdiv_({y}, {y})" if "float" in w.dtype(y) else f"{x}.cos_()",
        f"{x}.data = {y}.data" if w.replaceable(x, y) else f"{x}.neg_()", f"{x}.floor_()",
        f"{x}.put_({first}, {y}.flatten()[:1])", f"{x}.tril_()", f"{x}.swapaxes_({d}, {w.dim(x)})",
        f"{x}.index_copy_(0, {first}, {x}[:{few}].sin())",
        f"{x}.scatter_(0, T.zeros_like({x}, dtype=T.int64)[:1], {n})",
        f"{x}.erf_()", f"{x}.conj_physical_()",
        f"T.add({y}, 1, out={x})", f"{x}.nan_to_num_()", f"{x}.ne_({y})", f"{x}.real.add_(1)", f"{x}.logical_and_({y})",
    ]  # fmt: skip
    return w.some(*forms)


# ---------------------------------------------------------------------------------------------------- autograd


@kind(6)
def backward(w):
    x = w.requiring() if w.chance(0.95) else w.pick()
    if x is None:
        return None
    options = []
    if w.chance(0.6):
        options.append("retain_graph=True")
    if w.chance(0.25):
        options.append("create_graph=True")
    if w.chance(0.25):
        options.append(f"inputs=[{', '.join(filter(None, [w.requiring(), w.pick() if w.chance(0.3) else None]))}]")
    if w.chance(0.3):
        form = w.some(
            f"T.ones_like({x})", f"T.full_like({x}, 2.0)", f"T.tensor(1.5, dtype={x}.dtype).expand({w.shape(x)})"
        )
        return f"{x}.backward({', '.join([form, *options])})"
    if w.chance(0.15):
        return f"T.autograd.backward([{x}.sum(), {w.requiring()}.sum()]{''.join(', ' + o for o in options)})"
    what = w.some(".sum()", ".sum()", ".mean()", ".square().sum()", ".sin().sum()", "", ".abs().sum()", ".real.sum()")
    return f"{x}{what}.backward({', '.join(options)})"


@kind(6)
def gradient(w):
    y = w.requiring()
    if y is None:
        return None
    x = w.requiring() if w.chance(0.95) else w.pick()
    more = w.requiring() if w.chance(0.4) else None
    options = []
    if w.chance(0.6):
        options.append("retain_graph=True")
    if w.chance(0.45):
        options.append("create_graph=True")
    if w.chance(0.6):
        options.append(w.some("allow_unused=True", "materialize_grads=True"))
    what = w.some(".sum()", ".square().sum()", ".sin().sum()", ".mean()", "")
    if w.chance(0.25):
        options.insert(0, f"T.ones_like({y})")
        what = ""
    one = w.new()
    targets = f"{one}, = " if more is None else f"{one}, {w.new()} = "
    names = x if more is None else f"{x}, {more}"
    return f"{targets}T.autograd.grad({', '.join([y + what, f'[{names}]', *options])})"


@kind(4)
def of_gradient(w):
    x = w.pick(lambda t: t.is_leaf and t.grad is not None)
    if x is None:
        return None
    return w.some(
        f"{x}.grad.mul_(2)", f"{x}.grad = None", f"{x}.grad.zero_()", f"{x}.grad += 1", f"{x}.grad.sin_()",
        f"{x}.grad.detach_()",
        f"{w.new()} = {x}.grad", f"{w.new()} = {x}.grad", f"{x}.grad = T.ones_like({x})",
        f"{x}.grad.requires_grad_(False)",
        f"with T.no_grad():\n    {x} -= 0.5 * {x}.grad", f"{x}.data -= {x}.grad.data", f"{x}.grad.data.zero_()",
        f"{x}.grad.t_()",
        f"{x}.grad.detach().clamp_(max=1)", f"{x}.data.add_({x}.grad, alpha=-0.5)", f"{x}.grad = {x}.grad.clone()",
        f"{x}.grad[...] = 1",
        f"{x}.grad.requires_grad_()", f"{x}.grad.triu_()", f"{x}.grad.copy_({x}.detach())",
        f"{w.new()} = {x}.grad * {x}",
    )  # fmt: skip


# Nodes of ops that consist of several ops in one of the two libraries.
OTHER_INPUTS = (
    "(torch::autograd::)?"
    "(CopySlices|IndexPut|Addmm|Mm|Mv|Bmm|Dot|NativeLayerNorm|UnsafeView|View|T|Select|Slice|Unsqueeze)"
)


@kind(4)
def hook(w):
    x = w.requiring(lambda t: not t.is_leaf or not t._is_view())  # PyTorch crashes on hooks of views without history
    if x is None:
        return None
    handle = f"h{w.count}"
    if w.handles and w.chance(0.2):
        return f"{w.some(*w.handles)}.remove()"
    forms = [
        f"{x}.register_hook(see('{x}'))", f"{x}.register_hook(see('{x}'))", f"{x}.register_hook(double)",
        f"{x}.retain_grad()", f"{x}.retain_grad()",
        f"{x}.register_hook(lambda g: g.clone())", f"{x}.register_hook(lambda g: -g)",
        f"{x}.register_hook(lambda g: T.zeros_like(g))",
        f"{x}.register_hook(lambda g: {x}.detach() * g)", f"{x}.register_post_accumulate_grad_hook(see_grad('{x}'))",
    ]  # fmt: skip
    node = w.tensor(x).grad_fn
    if node is not None and not re.match(OTHER_INPUTS, node.name()):
        forms += [
            f"{x}.grad_fn.register_hook(see_inputs('{x}'))", f"{x}.grad_fn.register_prehook(see_outputs('{x}'))",
            f"{x}.grad_fn.register_prehook(lambda go: tuple(g if g is None else g * 2 for g in go))",
            f"{x}.grad_fn.register_hook(lambda gi, go: tuple(g if g is None else g * 3 for g in gi))",
        ]  # fmt: skip
    form = w.some(*forms)
    if "retain_grad" in form:
        return form
    w.handles.append(handle)
    return f"{handle} = {form}"


@kind(3.5)
def function(w):
    x = w.floating()
    if x is None:
        return None
    y = w.floating(lambda t: tuple(t.shape) == w.shape(x)) or x
    one = w.new()
    form = w.some("Scale", "Square", "Exp", "Two", "Lazy", "AddOne", "Same", "FirstRow", "Largest", "Once")
    if form == "Scale":
        return f"{one} = Scale.apply({x}, {w.number()})"
    if form in ("Two", "Lazy"):
        return f"{one}, {w.new()} = {form}.apply({x}, {y})"
    if form == "Largest":
        return f"{one}, {w.new()} = Largest.apply({x})"
    return f"{one} = {form}.apply({x})"


@kind(2)
def module(w):
    x = w.floating(lambda t: t.ndim >= 1 and t.shape[-1] > 0 and t.is_floating_point())
    if x is None:
        return None
    n = w.shape(x)[-1]
    dtype = str(w.tensor(x).dtype).replace("torch", "T")
    forms = [
        f"fill(T.nn.Linear({n}, 2, dtype={dtype}))",
        f"T.nn.LayerNorm({n}, dtype={dtype})", "T.nn.ReLU(inplace=True)", "T.nn.Tanh()",
        f"fill(T.nn.Sequential(T.nn.Linear({n}, 2, dtype={dtype}), T.nn.ReLU(True), T.nn.Linear(2, 1, dtype={dtype})))",
        "T.nn.Softmax(-1)", "T.nn.Flatten(0)", "T.nn.LeakyReLU(0.1, inplace=True)", "T.nn.ELU(inplace=True)",
        "T.nn.Hardtanh(inplace=True)",
    ]  # fmt: skip
    return f"{w.new()} = {w.some(*forms)}({x})"


@kind(2)
def mode(w):
    if w.chance(0.25):
        return w.some("T.set_grad_enabled(True)", "T.set_grad_enabled(False)") + " and None"
    x = w.floating(lambda t: t.is_leaf)
    if x is None:
        return None
    return w.some(
        f"{x}.requires_grad = True", f"{x}.requires_grad_()", f"{x}.requires_grad = False", f"{x}.requires_grad_(False)"
    )


@kind(1.5)
def copied(w):
    x = w.pick()
    if x is None:
        return None
    return f"{w.new()} = " + w.some(
        f"copy.deepcopy({x})", f"copy.deepcopy({x})", f"copy.copy({x})", f"T.nn.Parameter({x})",
        f"{x}.clone().detach()", f"{x}.detach().requires_grad_()",
        f"T.utils.checkpoint.checkpoint(lambda a: (a * a).sin(), {x}, use_reentrant={w.some(True, False)})",
        f"{x}.detach().clone().requires_grad_()",
        f"T.tensor({x}.tolist(), dtype={x}.dtype)", f"copy.deepcopy([{x}, {x}])[1]",
    )  # fmt: skip
