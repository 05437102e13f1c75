"""Statements about functions of tensors: random ones, in forward mode, transforms, checkpoints and autocast."""

from __future__ import annotations

from support.program_ops import partner
from support.program_statements import kind

STEPS = (
    "({e}).sin()", "({e}) * a", "({e}) + 0.5", "({e}).exp()", "({e}) * ({e})", "({e}).sum()", "({e}).sum(0)",
    "({e}).tanh()",
    "({e}).flatten()", "({e}).mT", "({e})[0]", "({e})[..., :1]", "({e}).unsqueeze(0)", "({e}).softmax(-1)",
    "({e}).mean(-1, keepdim=True)",
    "({e}).clone().mul_(a)", "({e}).clone().add_(1)", "T.cat([({e}), ({e})])", "T.stack([({e}), a])",
    "({e}).expand(2, *({e}).shape)",
    "T.where(a > 0, ({e}), a)", "({e}).abs()", "({e}).pow(2)", "({e}).relu()", "({e}).cumsum(-1)", "({e}).max(-1)[0]",
    "({e}).amax()", "({e}).flip(0)", "({e}).roll(1, 0)", "({e}) @ ({e})", "({e}).outer(({e}))", "({e}).var()",
    "({e}).norm()",
    "({e}).logsumexp(-1)", "T.einsum('...i,...i->...', ({e}), ({e}))", "({e}).sort(-1)[0]", "({e}).prod()",
    "({e}).triu()",
    "({e}).diagonal()", "({e}).index_select(0, T.tensor([0, 0]))", "({e}).masked_fill(({e}) > 0.5, 2)",
    "({e}).reshape(-1, 1)",
    "T.nn.functional.gelu(({e}))", "T.nn.functional.layer_norm(({e}), ({e}).shape[-1:])", "({e}).sigmoid()",
    "({e}).detach() * a",
    "({e}).square()", "({e}).atan2(a)", "({e}).gather(-1, T.zeros_like(({e}), dtype=T.int64))", "Square.apply(({e}))",
    "({e}).unbind(0)[0]",
    "({e}).to(T.float64)", "({e}).split(1, -1)[0]", "({e}).unfold(0, 1, 1)", "T.nn.functional.pad(({e}), (1, 0))",
    "({e}).transpose(0, -1)",
    "({e}).movedim(0, -1)", "({e}).nan_to_num()", "({e}) / (a.abs() + 1)", "({e}).clamp(max=0.5)", "({e}).cumprod(0)",
    "({e}).std(0)",
    "({e}).squeeze()", "({e}).lerp(a, 0.5)", "T.addcmul(a, ({e}), ({e}))", "({e}).median()", "({e}).kron(a)",
    "({e}).view(-1)",
    "({e}).erf()", "({e}).sub(a, alpha=2)", "T.maximum(({e}), a)", "({e}).new_ones(2).sum() * ({e})",
    "T.zeros_like(({e})) + ({e})",
    "({e}).repeat(2, 1)", "({e}).topk(1)[0]", "({e}).scatter(0, T.zeros_like(({e}), dtype=T.int64)[:1], a)",
    "({e}).tril()",
    "({e}).trace()", "({e}).logcumsumexp(0)", "({e}).diag_embed()", "({e}).log_softmax(0)", "({e}).take(T.tensor([0]))",
)  # fmt: skip


def expression(w, a, steps: int | None = None) -> str:
    """Return the source of a random function's body, about a tensor `a`: steps that suit its value."""
    text = "a"
    for _ in range(steps or w.random.randint(1, 4)):
        further = w.some(*STEPS).format(e=text)
        try:
            with w.oracle.no_grad():
                value = eval(further, {**w.run.names, "a": a.detach().clone()})
        except Exception:
            continue
        fits = value.numel() <= 64 and bool((value.abs() < 1e4).all())  # more would hide rounding that grew
        text = further if fits and len(further) < 300 else text
    return text


def real(w):
    """Return a floating point tensor of few elements, of no subclass: transforms take those off, or do not."""

    def suits(tensor):
        precise = str(tensor.dtype) in ("torch.float32", "torch.float64")
        return 0 < tensor.numel() <= 12 and precise and type(tensor).__name__ not in ("Marked", "Noted")

    return w.floating(suits)


@kind(1.5)
def forward_mode(w):
    x = real(w)
    if x is None:
        return None
    y, one = partner(w, x, same_dtype=True), w.new()
    f = f"(lambda a: {expression(w, w.tensor(x))})"
    dual = w.some(f"{x}, {y}", f"{x}, T.ones_like({x})", f"{x}.detach(), {y}.detach()")
    body = w.some(
        f"{one} = F.unpack_dual({f}(_a))[1]", f"{one} = F.unpack_dual({f}(_a))[1]",
        f"{one} = F.unpack_dual({f}(_a))[0]",
        f"{one} = F.unpack_dual({f}(_a).sum() * {y})[1]",
        f"_b = _a * 2\n    _b.mul_(_a)\n    {one} = F.unpack_dual(_b)[1]",
        f"_b = _a.clone()\n    _b[...] = {y}.detach()\n    {one} = F.unpack_dual(_b + _a)[1]",
        f"_b = T.zeros_like(_a)\n    _b.flatten()[:1] = _a.flatten()[:1]\n    {one} = F.unpack_dual(_b.sin())[1]",
        f"{one}, = T.autograd.grad(F.unpack_dual({f}(_a).sum())[1], [{x}], allow_unused=True)",
        f"{one} = F.unpack_dual(_a.detach() * _a)[1]",
        f"with T.no_grad():\n        {one} = F.unpack_dual({f}(_a))[1]",
        f"_b = _a.clone()\n    _b.view(-1).mul_(2)\n    {one} = F.unpack_dual(_b)[1]",
        f"{one} = F.unpack_dual(_a.view(-1))[1]",
    )  # fmt: skip
    return f"with F.dual_level():\n    _a = F.make_dual({dual})\n    {body}"


@kind(1.5)
def function_transforms(w):
    x = real(w)
    if x is None:
        return None
    t = w.tensor(x)
    y = partner(w, x, same_dtype=True)
    e = expression(w, t, w.some(1, 2, 3))
    f, scalar = f"(lambda a: {e})", f"(lambda a: ({e}).sum())"
    row = f"(lambda a: {expression(w, t[0], w.some(1, 2, 3))})" if t.ndim else f
    both = f"(lambda a, b: ({e}).sum() * b)"
    one, two = w.new(), w.new()
    dims = w.some("", "", f", in_dims={w.some(0, -1)}", f", out_dims={w.some(0, -1, 1)}", ", chunk_size=1")
    argnums = w.some("", ", argnums=1", ", argnums=(0, 1)")
    return w.some(
        f"{one} = T.func.vmap({row}{dims})({x})", f"{one} = T.func.vmap({row}{dims})({x})",
        f"{one} = T.func.vmap({row}, randomness='same')({x})",
        f"{one} = T.func.vmap(lambda a, b: a * b.sum(), in_dims=(0, None))({x}, {y})",
        f"{one} = T.func.grad({scalar})({x})",
        f"{one} = T.func.grad(T.func.grad(lambda a: (a ** 3).sin().sum()))({x}.sum())",
        f"{one} = T.func.jacrev({f})({x})", f"{one} = T.func.jacfwd({f})({x})",
        f"{one} = T.func.hessian({scalar})({x})",
        f"{one}, {two} = T.func.jvp({f}, ({x},), ({y},))", f"{one}, {two} = T.func.vjp({f}, {x})[0], {y} * 1",
        f"{one} = T.func.vmap(T.func.grad(lambda a: (a * a).sum()))({x})",
        f"{one} = T.func.vmap(T.func.jacrev(lambda a: a.sin() * a))({x})",
        f"{one} = T.func.jacrev({both}{argnums})({x}, {y})" + ("[0]" if "(" in argnums else ""),
        f"{one} = T.autograd.functional.jacobian({f}, {x}, vectorize={w.some(True, False)})",
        f"{one} = T.autograd.functional.hessian({scalar}, {x})",
        f"{one} = T.autograd.functional.jvp({f}, {x}, {y}, create_graph={w.some(True, False)})[1]",
        f"{one} = T.autograd.functional.vhp({scalar}, {x}, {y})[1]",
        f"{one} = T.func.linearize({f}, {x})[1]({y})", f"{one} = T.func.functionalize({f})({x})",
        f"{one}, {two} = T.func.grad({both}, argnums=(0, 1))({x}, {y})",
        f"{one}, {two} = T.func.grad(lambda a: (({e}).sum(), a * 2), has_aux=True)({x})",
        f"{one} = T.vmap(T.vmap(lambda a: a * 2 + {y}.sum()))({x})",
        f"{one} = T.func.vjp({f}, {x})[1](T.func.vjp({f}, {x})[0])[0]",
        f"{one} = T.utils.checkpoint.checkpoint({f}, {x}, use_reentrant={w.some(True, False)})",
        f"{one} = T.func.vmap(lambda a: T.func.vjp(T.sin, a)[1](a)[0])({x})",
    )  # fmt: skip


@kind(1)
def autocast(w):
    x = real(w)
    if x is None or not w.shape(x):
        return None
    one, dtype = w.new(), w.some("bfloat16", "bfloat16", "float16")
    e = expression(w, w.tensor(x), w.some(1, 2))
    rows = f"{x}.reshape(-1, {w.shape(x)[-1]}).float()"
    body = w.some(
        f"{one} = {rows} @ {rows}.mT", f"{one} = T.nn.functional.linear({rows}, {rows})",
        f"{one} = (lambda a: {e})({x})",
        f"{one} = ({rows} @ {rows}.mT).softmax(-1)", f"{one} = ({rows} @ {rows}.mT) + {rows}.sum()",
        f"{one} = T.nn.functional.mse_loss({rows} @ {rows}.mT, T.zeros({w.tensor(x).numel() // w.shape(x)[-1]}, 1))",
        f"{one} = T.bmm({rows}[None], {rows}.mT[None])", f"{one} = T.cat([{rows} @ {rows}.mT, {rows} @ {rows}.mT])",
        f"{one} = T.einsum('ij,kj->ik', {rows}, {rows})",
        f"({rows} @ {rows}.mT).sum().backward()" if w.tensor(x).requires_grad else f"{one} = {rows}.mT.mm({rows})",
        f"with T.autocast('cpu', enabled=False):\n        {one} = {rows} @ {rows}.mT",
        f"{one} = T.addmm({rows} @ {rows}.mT, {rows}, {rows}.mT)", f"{one} = ({rows} @ {rows}.mT).norm()",
        f"{one} = T.nn.functional.layer_norm({rows} * 2, {rows}.shape[-1:])",
        f"{one} = {rows}.prod() * {rows}.cumsum(0)",
        f"{one} = fill(T.nn.Linear({w.shape(x)[-1]}, 2))({rows})", f"{one} = ({rows} @ {rows}.mT).exp()",
    )  # fmt: skip
    return f"with T.autocast('cpu', dtype=T.{dtype}):\n    {body}"


@kind(1)
def nested_backward(w):
    """Gradients of random functions by the walk, once and twice."""
    x = real(w)
    if x is None or not w.tensor(x).requires_grad:
        return None
    one, f = w.new(), f"(lambda a: {expression(w, w.tensor(x))})({x})"
    return w.some(
        f"{one} = {f}", f"{one} = {f}", f"{one}, = T.autograd.grad({f}.sum(), [{x}], create_graph=True)",
        f"{one}, = T.autograd.grad({f}.square().sum(), [{x}], create_graph=True, allow_unused=True)",
        f"{one}, = T.autograd.grad({f}.flatten(), [{x}], T.eye({f}.numel(), dtype={f}.dtype), is_grads_batched=True)",
        f"{f}.sum().backward(create_graph=True)",
    )  # fmt: skip
