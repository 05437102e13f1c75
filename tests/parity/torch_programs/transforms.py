"""torch.func: jvp, vjp, Jacobians, Hessians, linearize and vmap at inputs and with arguments that are not kind."""
import collections

import numpy as np

from .common import outcome


def table(torch):
    return torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)


def program_jvp_forms(torch):
    """Several inputs and outputs, nests, constants, integers, results beside, complex numbers."""
    x, jvp = table(torch), torch.func.jvp
    z, w = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([1j, 2.0])
    return [
        jvp(lambda a, b: (a * b, a.sum()), (x, x + 1), (x, x)),
        jvp(lambda a: (a * 2, a.argmax()), (x,), (x,)),
        jvp(lambda a: torch.ones(2), (x,), (x,)),
        jvp(lambda d: {"o": d["a"] * d["b"]}, ({"a": x, "b": x},), ({"a": x, "b": x},)),
        jvp(lambda a: (a * a, a + 1), (x,), (x,), has_aux=True),
        jvp(lambda a: a * a, (z,), (w,)),
        jvp(lambda a: a.abs(), (z,), (w,)),
        jvp(lambda a: a * (1 + 2j), (x,), (x,)),
        jvp(lambda a: a * a.detach(), (x,), (x,)),
        jvp(lambda a: a.float().exp(), (x,), (x,)),
        outcome(lambda: jvp(lambda a: torch.ones(2), (x,), (x,), strict=True), words=20),
        outcome(lambda: jvp(lambda a: a, x, x), words=5)[0],
        outcome(lambda: jvp(lambda a: a, (x,), (x[0],)))[0],
        outcome(lambda: jvp(lambda a: 3, (x,), (x,)))[0],
    ]


def program_jvp_at_kinks_and_poles(torch):
    """Zeros, infinities, ties, masked branches: the tangents are PyTorch's."""
    F, jvp = torch.nn.functional, torch.func.jvp

    def at(function, *values):
        points = [torch.tensor(value) for value in values]
        return jvp(function, tuple(points), tuple(torch.ones_like(point) for point in points))

    return [
        at(lambda a: a.sqrt(), [0.0, 4.0]),
        at(lambda a: a.relu(), [0.0, 4.0, -1.0]),
        at(lambda a: (a.abs(), a.sign(), a.clamp(0, 1), a.round()), [0.0, 1.0, -1.0]),
        at(lambda a: (a.max(), a.amax(), a.sort().values), [2.0, 2.0, 1.0]),
        at(lambda a: torch.where(a > 0, a.log(), a), [-1.0, 2.0]),
        at(lambda a: a.norm(), [0.0, 0.0]),
        at(lambda a, b: a**b, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0]),
        at(lambda a: (a.prod(), a.cumprod(0)), [0.0, 3.0, 0.0]),
        at(lambda a: (a.logsumexp(0), a.softmax(0), a.log_softmax(0)), [1e4, -1e4, 0.0]),
        at(lambda a: (F.logsigmoid(a), F.softplus(a), F.gelu(a), torch.sinc(a)), [100.0, -100.0, 0.0]),
        at(lambda a: a.exp() / a.exp(), [800.0]),
        at(lambda a: torch.special.xlogy(a, 3.0), [0.0, 1.0]),
    ]


def program_jvp_through_programs(torch):
    """In-place writes, views, indexing, layers, matrix functions."""
    F, jvp, x = torch.nn.functional, torch.func.jvp, table(torch)

    def in_place(a):
        b = a.clone()
        b[0] = b[1] * 2
        b.mul_(a)
        b.t()[0].add_(a[0, 0])
        b[torch.tensor([0, 1])] = a[torch.tensor([1, 0])] * 2
        return b, a.gather(1, torch.tensor([[0], [2]])), a.index_add(0, torch.tensor([0, 0]), a)

    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.LayerNorm(2)).double()
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.arange(p.numel(), dtype=torch.float64).reshape(p.shape) * 0.1 * (i + 1) - 0.2)
    m = x.t() @ x + torch.eye(3, dtype=torch.float64) * 3
    d = torch.ones(3, 3, dtype=torch.float64) + torch.eye(3, dtype=torch.float64)
    return [
        jvp(in_place, (x,), (x,)),
        jvp(model, (x,), (x * 0.3,)),
        jvp(lambda a: (torch.linalg.inv(a), torch.linalg.det(a), torch.linalg.cholesky(a)), (m,), (d,)),
        jvp(lambda a: torch.linalg.eigvalsh(a), (m,), (d,)),
        jvp(lambda a: F.conv2d(a.reshape(1, 1, 2, 3), torch.ones(1, 1, 2, 2, dtype=torch.float64)), (x,), (x,)),
        jvp(lambda a: F.max_pool1d(a.reshape(1, 2, 3), 2, 1), (x,), (x.flip(0),)),
        jvp(lambda a: F.cross_entropy(a, torch.tensor([0, 2])), (x,), (x.flip(0),)),
        jvp(lambda a: torch.fft.rfft(a).abs().sum(), (x,), (x,)),
        jvp(lambda a: a.t() @ a, (x,), (x.flip(0),)),
    ]


def program_nested_transforms(torch):
    """Transforms of transforms keep their variables apart."""
    func, x, one = torch.func, table(torch), torch.tensor(1.0)

    def slope(function):
        return lambda a: func.jvp(function, (a,), (torch.ones_like(a),))[1]

    outer = x.clone().requires_grad_()
    func.jvp(lambda b: b**3, (outer,), (torch.ones_like(x),))[1].sum().backward()
    tangent = x.clone().requires_grad_()
    func.jvp(lambda b: b**3, (x,), (tangent,))[1].sum().backward()
    return [
        slope(slope(slope(lambda a: a**5)))(torch.tensor(2.0, dtype=torch.float64)),
        func.grad(lambda a: a * func.grad(lambda b: a * b)(one))(torch.tensor(3.0)),
        func.jvp(lambda a: a * func.jvp(lambda b: a + b, (one,), (one,))[1], (torch.tensor(3.0),), (one,)),
        func.jvp(func.grad(lambda a: (a.sin() * a.prod()).sum()), (x,), (x,)),
        func.jacfwd(func.grad(lambda a: a.exp().prod()))(x[0] * 0.1),
        func.grad(lambda a: slope(lambda b: b.sin().sum())(a))(x[0]),
        func.jacfwd(func.jacrev(lambda a: a**3))(x[0]),
        func.jacrev(func.jacfwd(lambda a: a**3))(x[0]),
        outer.grad,
        tangent.grad,
    ]


def program_jacobians(torch):
    """jacrev, jacfwd and hessian: nests, argument numbers, constants, empty and 0-d arguments, refusals."""
    func, x = torch.func, table(torch)
    a, b, z = x[0], x[1], torch.tensor([1 + 2j])
    results = []
    for jac in (func.jacrev, func.jacfwd):
        results += [
            jac(lambda p, q: (p * q, p.sum()), argnums=(0, 1))(a, b),
            jac(lambda d: {"o": d["a"] ** 2})({"a": a}),
            jac(lambda p: (p**2, p + 1), has_aux=True)(a),
            jac(lambda p: torch.ones(2, dtype=torch.float64))(a),
            jac(lambda p: p**2)(torch.tensor(3.0)),
            jac(lambda p: p.sum(0) * p[0])(x),
            tuple(jac(lambda p: p.sum())(torch.zeros(0)).shape),
            outcome(lambda jac=jac: jac(lambda p: p * p)(z), words=8),
            outcome(lambda jac=jac: jac(lambda p: p * 1j)(a), words=8),
            outcome(lambda jac=jac: jac(lambda p: p, argnums=3)(a))[0],
        ]
    return [
        *results,
        func.hessian(lambda p, q: (p * q * q).sum(), argnums=(0, 1))(a, b),
        func.hessian(lambda p: p.prod())(x),
        func.hessian(lambda p: torch.nn.functional.cross_entropy(p, torch.tensor([0, 2])))(x),
    ]


def program_vjp_and_linearize(torch):
    """Pullbacks and push-forwards, called twice, with wrong structures."""
    func, x = torch.func, table(torch)
    value, pull = func.vjp(lambda a, b: {"u": a * b, "v": a.sum()}, x, x)
    weights = {"u": x, "v": torch.tensor(1.0, dtype=torch.float64)}
    linear, push = func.linearize(lambda a, b: {"r": (a * b).sum()}, x, x)
    return [
        value, pull(weights), pull(weights), linear, push(x, x * 2), push(x, x),
        outcome(lambda: func.vjp(lambda a: (a, a), x)[1](x))[0],
        outcome(lambda: func.vjp(lambda a: 3, x))[0],
        outcome(lambda: func.linearize(lambda a: a.sin(), x)[1](torch.ones(2)))[0],
        outcome(lambda: func.grad(lambda a: (a * 1j).sum())(x), words=10),
    ]  # fmt: skip


def program_vmap_dims(torch):
    """in_dims and out_dims: negative, nested, None, keyword arguments, no slices at all."""
    vmap, x = torch.func.vmap, table(torch)
    return [
        vmap(lambda a, b: a @ b, in_dims=(0, 1))(x, x.t()),
        vmap(lambda a: a.cumsum(0), in_dims=-1, out_dims=-1)(x),
        vmap(lambda a: (a * 2, a.sum()), out_dims=(1, 0))(x),
        vmap(lambda a: {"u": a, "v": (a.sum(),)}, out_dims={"u": 1, "v": (0,)})(x),
        vmap(lambda d, b: d["x"][0] * b, in_dims=({"x": (1,)}, None))({"x": (x,)}, 2.0),
        vmap(lambda p: p[0] + p[1], in_dims=([0, None],))([x, x[0]]),
        vmap(lambda a: a * 2, out_dims=(1,))(x),
        vmap(lambda a: torch.ones(2), out_dims=None)(x),
        vmap(lambda a, *, b: a + b)(x, b=x),
        vmap(vmap(lambda a, b: a * b, in_dims=(None, 0)), in_dims=(0, None))(x[0], x[1]),
        vmap(lambda a: (a.sum(), a.exp()), out_dims=(0, 1))(torch.ones(0, 3)),
        vmap(torch.func.hessian(lambda a: (a**3).sum() * a[0]))(x),
        torch.func.jacrev(vmap(lambda a: a.prod()))(x),
    ]


def program_vmap_of_ops(torch):
    """An op itself, which runs on the whole batch: ranks, promotion, reductions."""
    vmap, x, pair = torch.func.vmap, table(torch), torch.tensor([2.0, 3.0], dtype=torch.float64)
    return [
        vmap(torch.sin, in_dims=1, out_dims=1)(x),
        vmap(torch.add, in_dims=(0, None))(x[0], x),
        vmap(torch.mul)(x, pair),
        vmap(torch.mul)(x.float(), pair),
        vmap(torch.sum)(x),
        vmap(torch.sum, in_dims=(1, None))(x, 0),
        vmap(torch.sum, in_dims=(0, None))(x, -1),
        vmap(torch.amax)(x), vmap(torch.argmax)(x), vmap(torch.max)(x),
        vmap(torch.where)(x > 2, x, -x),
        vmap(torch.lerp, in_dims=(0, None, 0))(x, x[1], pair),
        outcome(lambda: vmap(torch.sum, in_dims=(0, None))(x, 1))[0],
    ]  # fmt: skip


def draws(torch):
    """Functions of a row that draw random numbers, or might."""
    return [
        lambda a: a + torch.rand(3),
        lambda a: a + torch.rand(3, generator=torch.Generator()),
        lambda a: a[torch.randperm(3)],
        lambda a: a.clone().normal_(),
        lambda a: torch.func.vmap(lambda b: b + torch.rand(()), randomness="different")(a),
        lambda a: torch.nn.Linear(3, 1)(a.float()).sum() * 0,
        lambda a: torch.nn.functional.dropout(a, training=False),
        torch.rand_like,
        torch.bernoulli,
        torch.nn.functional.dropout,
    ]


def program_vmap_refusals(torch):
    """What fits neither arguments nor results."""
    vmap, x = torch.func.vmap, table(torch)
    calls = [
        lambda: vmap(lambda a, b: a + b)(x, torch.ones(3)),
        lambda: vmap(lambda a, b: a + b)(x, 3.0),
        lambda: vmap(lambda a: 3)(x),
        lambda: vmap(lambda a: a, in_dims=5)(x),
        lambda: vmap(lambda a: a, in_dims=(0, 0))(x),
        lambda: vmap(lambda a: a, in_dims="x")(x),
        lambda: vmap(lambda a: a, in_dims=(None,))(x),
        lambda: vmap(lambda d: d["a"], in_dims=({"b": 0},))({"a": x}),
        lambda: vmap(lambda p: p[0], in_dims=([0],))([x, x]),
        lambda: vmap(lambda: torch.ones(1))(),
        lambda: vmap(lambda a: a)(torch.tensor(1.0)),
        lambda: vmap(lambda a: a, out_dims=7)(x),
        lambda: vmap(lambda a: a, out_dims=(0, 0))(x),
        lambda: vmap(lambda a: a, out_dims="s")(x),
        lambda: vmap(lambda a: a, out_dims=None)(x),
        *[lambda draw=draw: vmap(draw)(x) for draw in draws(torch)],
        lambda: vmap(lambda a: a, randomness="x")(x),
        lambda: vmap(lambda a: a, chunk_size=0)(x),
    ]
    refusals = [outcome(call)[0] for call in calls]
    same = vmap(lambda a: torch.rand(3) + a * 0, randomness="same")(x)
    different = vmap(lambda a: torch.rand(3) + a * 0, randomness="different")(x)
    return [*refusals, np.equal(*same.numpy()).all().item(), np.equal(*different.numpy()).any().item()]


def program_cotangents_are_nested_as_results_are(torch):
    """A pull takes cotangents of the very structure of the results: kinds of containers, keys and their order."""
    x, one = torch.tensor(1.0), torch.tensor(1.0)
    pair = collections.namedtuple("pair", "a b")
    nests = [
        lambda t: t, lambda t: (t,), lambda t: [t], lambda t: (t, t), lambda t: [t, t], lambda t: pair(t, t),
        lambda t: {"a": t, "b": t}, lambda t: {"b": t, "a": t}, lambda t: collections.OrderedDict(a=t, b=t),
        lambda t: (t, (t,)), lambda t: ((t, t),), lambda t: {"a": t, "c": t},
    ]  # fmt: skip
    found = []
    for results in nests:
        _, pull = torch.func.vjp(lambda t, nested=results: nested(t * 3), x)
        found += [outcome(lambda one=cotangents(one), pull=pull: pull(one))[0] for cotangents in nests]
    return found


def program_transforms_made_where_modes_are_off(torch):
    """What was made under no_grad is differentiated outside; forward derivatives are there where they were off."""
    forward_ad, x = torch.autograd.forward_ad, torch.tensor(3.0, requires_grad=True)
    with torch.no_grad():
        value, pull = torch.func.vjp(lambda t: t**2, x)
        inner = pull(torch.tensor(1.0))[0]
    outer = pull(torch.tensor(1.0))[0]
    with forward_ad._set_fwd_grad_enabled(False):
        pushed = torch.func.jvp(torch.sin, (torch.tensor(0.5),), (torch.tensor(1.0),))
        columns = torch.func.jacfwd(torch.sin)(torch.tensor([0.5, 1.0]))
    seen = [value.requires_grad, inner.requires_grad, outer.requires_grad]
    return [seen, torch.autograd.grad(outer, x), pushed, columns]


def program_numbers_of_arguments(torch):
    """Arguments named twice, also from the end, and not there; an option that only saves memory."""
    x, y = torch.tensor(2.0), torch.tensor(3.0)
    chosen = [(0, -2), (1, 1), (-1, -2), -3, 2, ("0",), [0], (1, 0), ()]
    found = [outcome(lambda c=c: torch.func.grad(torch.mul, argnums=c)(x, y), words=0) for c in chosen]
    return [found, torch.func.jacrev(torch.sin, _preallocate_and_copy=True, chunk_size=1)(table(torch)[0])]


def program_writes_to_what_a_vmap_does_not_slice(torch):
    """The same for all slices is written; what differs between them is refused."""

    def attempt(function, value):
        whole = torch.tensor([1.0, 2.0, float("nan")])
        return outcome(lambda: torch.vmap(function, (None, 0))(whole, value), words=3), whole

    value = torch.arange(6.0).reshape(2, 3)
    return [
        attempt(lambda a, b: a.copy_(b) + 1, value)[0],
        attempt(lambda a, b: a.mul_(b) + 1, value)[0],
        attempt(lambda a, b: a.mul(b), value),
        attempt(lambda a, b: a.fill_(2.0) + b, value),
        attempt(lambda a, b: a.clamp_(0, 1) + b, value),
        attempt(lambda a, b: b.copy_(a), value.clone()),
    ]


def program_a_vmap_draws_the_same_from_any_generator(torch):
    """Enclosed, in a container, given, the default one: each slice finds it as the first did, and leaves it so."""
    own = torch.Generator().manual_seed(5)
    options = {"generator": own}
    x = torch.zeros(3, 2)
    draws = [
        lambda a: a + torch.rand(2, generator=own), lambda a: a + torch.rand(2, **options),
        lambda a, g=own: a + torch.rand(2, generator=g), lambda a: a + torch.rand(2),
        lambda a: a + (lambda: torch.rand(2, generator=own))(),
    ]  # fmt: skip
    found = []
    for draw in draws:
        torch.manual_seed(3)
        own.manual_seed(5)
        found.append(torch.vmap(draw, randomness="same")(x))
        found.append((torch.rand(1, generator=own), torch.rand(1)))
    return found
