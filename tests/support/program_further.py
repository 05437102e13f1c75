"""Statements that people write around a graph: edges, hooks that change gradients, `out=`, loops, several dims."""

from __future__ import annotations

from support.program_ops import partner
from support.program_statements import kind


def plain(w, condition=None):
    """Return a floating point tensor of no subclass, or None."""
    return w.floating(lambda t: type(t).__name__ in ("Tensor", "Parameter") and (condition is None or condition(t)))


def several_dims(w, x: str) -> str:
    """Return a tuple or list of dimensions of a tensor, seldom one twice."""
    ndim = len(w.shape(x))
    dims = w.random.sample(range(ndim), w.random.randint(1, ndim)) if ndim else [-1]
    dims = [d - ndim if ndim and w.chance(0.4) else d for d in dims]
    dims += dims[:1] * w.chance(0.03)
    return w.some(f"{tuple(dims)}", f"{dims}", f"{dims}", "()" if w.chance(0.2) else f"{tuple(dims)}")


@kind(1.5)
def over_dims(w):
    """Reductions over several dimensions, and what picks elements, gradients included."""
    x = plain(w, lambda t: t.numel() > 0)
    if x is None:
        return None
    dims, d, keep = several_dims(w, x), w.dim(x), w.some("", ", keepdim=True")
    one, two = w.new(), w.new()
    return w.some(
        f"{one} = {x}.sum({dims}{keep})", f"{one} = {x}.mean({dims}{keep})", f"{one} = {x}.amax({dims}{keep})",
        f"{one} = {x}.amin({dims})", f"{one} = {x}.var({dims}, correction=0{keep})",
        f"{one} = {x}.nansum({dims}{keep})",
        f"{one} = {x}.logsumexp({dims}{keep})", f"{one} = {x}.norm(dim={dims})", f"{one} = {x}.count_nonzero({dims})",
        f"{one} = T.linalg.vector_norm({x}, 2, {dims}{keep})", f"{one} = {x}.flip({dims})", f"{one} = {x}.all({d})",
        f"{one} = {x}.any({dims})", f"{one}, {two} = {x}.topk(1, {d})", f"{one}, {two} = {x}.kthvalue(1, {d}{keep})",
        f"{one}, {two} = {x}.mode({d}{keep})", f"{one}, {two} = {x}.median({d}{keep})",
        f"{one}, {two} = {x}.cummax({d})", f"{one}, {two} = {x}.nanmedian({d})", f"{one} = {x}.argmin({d}{keep})",
        f"{one} = T.std_mean({x}, {dims}{keep})[0]", f"{one} = {x}.squeeze({dims})", f"{one} = {x}.renorm(2, {d}, 0.5)",
        f"{one} = T.tensordot({x}, {x}, dims=({dims}, {dims}))", f"{one} = {x}.cumprod({d})",
        f"{one} = T.cumulative_trapezoid({x}, dim={d})", f"{one} = {x}.roll({w.some(1, -1, 2)})",
        f"{one} = T.gradient({x}, dim={d})[0]",
    )  # fmt: skip


@kind(1.5)
def joined_further(w):
    """Joins, grids, scattered and indexed sums, and other ops of several tensors."""
    x = plain(w)
    if x is None:
        return None
    y, d, n = partner(w, x, same_dtype=True), w.dim(x), w.number()
    zeros = f"T.zeros_like({x}, dtype=T.int64)"
    reduce = w.some("sum", "prod", "mean", "amax", "amin")
    include = w.some("", ", include_self=False")
    return f"{w.new()} = " + w.some(
        f"T.column_stack([{x}, {y}])", f"T.dstack([{x}, {y}])", f"T.vstack([{x}, {y}])", f"T.meshgrid({x}, {y})[0]",
        f"T.meshgrid({x}.flatten(), {y}.flatten(), indexing='xy')[1]", f"T.concatenate([{x}, {y}, {x}], {d})",
        f"{x}.scatter_reduce({d}, {zeros}, {y}, '{reduce}'{include})", f"T.logaddexp2({x}, {y})",
        f"T.ldexp({x}, {zeros})",
        f"{x}.index_reduce({d}, T.tensor([0]), {y}.narrow({d}, 0, 1), '{w.some('prod', 'mean', 'amax')}')",
        f"T.cdist({x}.reshape(-1, 1), {y}.reshape(-1, 1))", f"T.fmax({x}, {y})", f"T.fmin({x}, {y})", f"{x}.signbit()",
        f"T.where({x} > {n}, {x}, {y}.sum())", f"T.where({x}.unsqueeze(0) > {n}, {x}, 0.0)", f"T.where({x} > 0)[0]",
        f"{x}.isclose({y})", f"T.stack(({x}, {y}), {d})", f"{x}.index_put((T.tensor([0]),), {y}[:1])",
        f"T.inner({x}, {y})", f"T.addcdiv({x}, {y}, {y}.abs() + 1)", f"T.broadcast_to({x}, {(2, *w.shape(x))})",
        f"T.clip({x}, {y}, {n})", f"T.rsub({x}, {y})", f"T.true_divide({x}, 2)", f"T.floor_divide({x}, 0.75)",
        f"T.as_strided_scatter({x}.flatten(), {y}.flatten()[:1], (1,), (1,))", f"T.sum({x} * {y}, dtype=T.float64)",
        f"T.atleast_3d({x})", f"T.linalg.cross({x}.flatten()[:3], {y}.flatten()[:3])", f"{x}.histc(4, -2, 2)",
        f"T.hsplit({x}.reshape(1, -1), [1])[0]", f"T.unflatten({x}.flatten(), 0, (-1, 1))", f"T.nextafter({x}, {y})",
        f"T.stack([row.sin() for row in {x}])", f"sum(row.sum() for row in {x})", f"T.cat(list({x}.unsqueeze(0)) * 2)",
        f"{x} * (2 if bool({x}.sum() > 0) else 3)", f"max({x}.flatten().unbind())", f"{x} * len({x})",
        f"functools.reduce(lambda a, b: a * b + 1, [{x}, {y}, {x}])", f"T.tensor([float(a) for a in {x}.flatten()])",
    )  # fmt: skip


@kind(2)
def steps(w):
    """Several statements in one: loops, exchanges, accumulation, steps of training by hand."""
    x = plain(w, lambda t: t.numel() > 0 and not t.is_inference())
    if x is None:
        return None
    y, one = partner(w, x, same_dtype=True), w.new()
    leaf = w.tensor(x).is_leaf
    forms = [
        f"{one} = {x}\nfor _ in range(3):\n    {one} = {one} * 0.5 + {y}",
        f"{one} = {x} * 1\nfor _i in range(len({one}) if {one}.ndim else 0):\n    {one}[_i] = {one}[_i] * 2",
        f"{one} = {x} * 1\nfor _row in {one}.reshape(-1):\n    _row.mul_(2)",
        f"{one} = {x} * 1\nfor _row in {one}.split(1):\n    _row += 1",
        f"{one} = T.zeros_like({x})\nfor _t in ({x}, {y}):\n    {one} += _t",
        f"{one} = T.empty_like({x})\n{one}[...] = {x}\n{one}[...] *= {y}",
        f"{one} = {x} + 1\n{one}[..., :1], {one}[..., -1:] = {one}[..., -1:].clone(), {one}[..., :1].clone()",
        f"{one} = [{x}, {y}]\n{one} = T.stack({one}).mean(0)",
        f"with T.no_grad():\n    {one} = {x} * 2\n{one}.requires_grad_()",
        f"{one} = {x}.detach().clone().requires_grad_()\n({one} * {y}).sum().backward(retain_graph=True)",
        f"{one} = {x}.clone()\nwith T.no_grad():\n    {one}.mul_(2)",
        f"{one} = {x}.clone()\n{one}.detach().zero_()",
        f"{one} = {x}.clone()\n{one}.data[...] = 1",
        f"{one} = {x} * {y}\ndel _none" if w.chance(0.1) else f"{one} = {x} * {y}",
        f"with T.enable_grad():\n    {one} = ({x} * {y}).cumsum(-1)",
        f"@T.no_grad()\ndef _f(a):\n    return a * 2\n{one} = _f({x})",
        f"@T.enable_grad()\ndef _f(a):\n    return a * 2\nwith T.no_grad():\n    {one} = _f({x})",
        f"_before = T.is_grad_enabled()\nT.set_grad_enabled(False)\n{one} = {x} * 2\nT.set_grad_enabled(_before)",
    ]  # fmt: skip
    if leaf and w.tensor(x).requires_grad:
        forms += [
            f"with T.no_grad():\n    {x}.mul_(0.5)", f"with T.no_grad():\n    {x}.copy_({y})",
            f"with T.no_grad():\n    {x}[...] = 1", f"T.nn.utils.clip_grad_norm_([{x}], 0.5)",
            f"with T.no_grad():\n    {x} += 1", f"with T.no_grad():\n    {x}.view(-1)[:1].zero_()",
            f"if {x}.grad is not None:\n    with T.no_grad():\n        {x}.add_({x}.grad, alpha=-0.1)\n"
            f"    {x}.grad = None",
            f"with T.no_grad():\n    T._foreach_mul_([{x}, {x}.detach().clone()], 0.5)",
            f"T.nn.utils.clip_grad_value_([{x}], 0.1)", f"{x}.grad = T.zeros_like({x})\n{x}.grad.add_(1)",
        ] * 2  # fmt: skip
    return w.some(*forms)


@kind(1.5)
def into_out(w):
    """Results in `out=`, of tensors without history and of some that have one."""
    x = plain(w)
    if x is None:
        return None
    y, one = partner(w, x, same_dtype=True), w.new()
    a, b = w.some((f"{x}.detach()", f"{y}.detach()"), (f"{x}.detach()", f"{y}.detach()"), (x, y))
    into = w.some(f"T.empty_like({a})", f"T.empty(0, dtype={x}.dtype)", f"{x}.detach().clone()", f"{b}.clone()")
    d = w.dim(x)
    form = w.some(
        f"T.mul({a}, {b}, out={{}})", f"T.add({a}, {b}, alpha=2, out={{}})", f"T.sin({a}, out={{}})",
        f"T.sum({a}, {d}, out={{}})", f"T.cat([{a}, {b}], out={{}})", f"T.stack([{a}, {b}], out={{}})",
        f"T.where({x} > 0, {a}, {b}, out={{}})", f"T.cumsum({a}, {d}, out={{}})", f"T.clamp({a}, max=0.5, out={{}})",
        f"T.maximum({a}, {b}, out={{}})", f"T.mean({a}, {d}, out={{}})", f"T.pow({a}, 2, out={{}})",
        f"T.index_select({a}, {d}, T.tensor([0]), out={{}})",
        f"T.gather({a}, {d}, T.zeros_like({a}, dtype=T.int64), out={{}})",
        f"T.matmul({a}, {b}, out={{}})", f"T.softmax({a}, {d}, out={{}})", f"T.addcmul({a}, {b}, {b}, out={{}})",
    )  # fmt: skip
    mode = w.some("T.no_grad()", "T.enable_grad()", "T.enable_grad()")
    call = f"with {mode}:\n        {form.format(one)}"  # what an op that raises an error has written is not said
    return f"{one} = {into}\ntry:\n    {call}\nexcept Exception:\n    del {one}\n    raise"


@kind(2)
def changing_hook(w):
    """Hooks that change gradients, also in place, or what gets them."""
    x = w.requiring(lambda t: not t.is_leaf or not t._is_view())
    if x is None:
        return None
    handle = f"h{w.count}"
    forms = [
        f"{x}.register_hook(lambda g: g.clamp(max=0.5))", f"{x}.register_hook(lambda g: g * 0)",
        f"{x}.register_hook(lambda g: g.detach())", f"{x}.register_hook(lambda g: g / (g.norm() + 1))",
        f"{x}.register_hook(lambda g: T.where(g > 0, g, 0.5 * g))", f"{x}.register_hook(lambda g: g.expand_as({x}))",
        f"{x}.register_hook(lambda g: seen('{x}', g * {x}.detach()))", f"{x}.register_hook(lambda g: g + {x}.detach())",
        f"{x}.register_hook(lambda g: g[:1])", f"{x}.register_hook(lambda g: g.double())",
        f"T.autograd.graph.register_multi_grad_hook([{x}], lambda gs: [seen('{x}', g) for g in gs] and None)",
        f"T.autograd.graph.register_multi_grad_hook([{x}], lambda g: seen('{x}', g), mode='any')",
    ]  # fmt: skip
    if w.tensor(x).is_leaf:
        post = f"{x}.register_post_accumulate_grad_hook"
        forms += [
            f"{post}(lambda p: setattr(p, 'grad', None))", f"{post}(lambda p: [p.data.sub_(p.grad.detach())] and None)",
            f"{post}(lambda p: setattr(p, 'grad', p.grad.detach() * 2))",
        ]  # fmt: skip
    w.handles.append(handle)
    return f"{handle} = {w.some(*forms)}"


@kind(1.5)
def by_edges(w):
    """Gradients by edges of the graph, for several outputs, and regions that say what is saved."""
    y, x = w.requiring(lambda t: t.is_floating_point()), w.requiring()
    if y is None or x is None:
        return None
    other, one, g = w.requiring(), w.new(), "T.autograd.graph."
    retain = w.some("", ", retain_graph=True", ", retain_graph=True")
    edge = f"{g}get_gradient_edge({x})"
    return w.some(
        f"{one}, = T.autograd.grad({y}.sum(), {edge}{retain}, allow_unused=True)",
        f"{one}, = T.autograd.grad({g}get_gradient_edge({y}), {x}, T.ones_like({y}){retain}, allow_unused=True)",
        f"{one}, = T.autograd.grad([{y}.sum(), {other}.sum()], {x}, [None, T.tensor(2.0)]{retain}, allow_unused=True)",
        f"{one}, = T.autograd.grad([{y}, {other}], {x}, [T.ones_like({y}), T.ones_like({other})]{retain}, "
        "materialize_grads=True)",
        f"T.autograd.backward([{y}, {other}], [T.ones_like({y}), T.full_like({other}, 0.5)]{retain})",
        f"T.autograd.backward({y}.sum(), inputs=[{edge}]{retain})" if w.chance(0.2) else
        f"T.autograd.backward({y}.sum(){retain})",
        f"with {g}saved_tensors_hooks(lambda t: t * 1, lambda t: t):\n    {one} = {x} * {y}.sum()",
        f"with {g}saved_tensors_hooks(lambda t: [t.detach()], lambda t: t[0]):\n    {one} = {x}.exp() * {x}",
        f"with {g}saved_tensors_hooks(lambda t: seen('packed', t), lambda _: T.ones_like({x})):\n"
        f"    {one} = {x}.square()",
        f"with {g}disable_saved_tensors_hooks('no'):\n    {one} = {x} * {x}",
        f"with {g}allow_mutation_on_saved_tensors():\n    {one} = {x}.clone()\n    _s = {one}.sin() * {one}\n"
        f"    {one}.mul_(2)\n    _s.sum().backward(retain_graph=True)",
        f"{g}increment_version({x})", f"with T.autograd.set_multithreading_enabled(False):\n    {one} = {x} * 2",
        f"with T.autograd.detect_anomaly():\n    ({y} * 2).sum().backward(retain_graph=True)",
        f"{one}, = T.autograd.grad({y}.sum(), {x}{retain}, create_graph=True, allow_unused=True)\n"
        f"if {one} is not None and {one}.requires_grad:\n    {one}.sum().backward(retain_graph=True)",
    )  # fmt: skip
