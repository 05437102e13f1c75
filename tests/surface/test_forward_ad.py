"""Dual tensors and forward derivatives, nested in any order: as PyTorch has them."""

import copy
import weakref

import numpy
import pytest

import plugrad
from plugrad import registry
from plugrad.testing.op_checks.gradients import Maker, _of_leaves, each_differentiable
from support.two_libraries import agree, errors

torch = pytest.importorskip("torch")


def values(torch):
    return torch.tensor([1.0, 2.0]), torch.tensor([1.0, 10.0])


def parts(torch, tensor):
    return [None if part is None else part.clone() for part in torch.autograd.forward_ad.unpack_dual(tensor)]


def packing(torch):
    fw = torch.autograd.forward_ad
    x, v = values(torch)
    with fw.dual_level() as level:
        dual = fw.make_dual(x, v)
        results = [level, parts(torch, dual), parts(torch, x), parts(torch, dual * dual), dual._is_view()]
        results += [fw.unpack_dual(dual).tangent is v, dual._base is x, fw.UnpackedDualTensor._fields, dual.is_leaf]
        results += [parts(torch, dual.detach()), parts(torch, dual.clone().detach_()), parts(torch, dual.data)]
        results += [parts(torch, dual > 1), parts(torch, dual.argmax()), parts(torch, torch.ones_like(dual))]
        with torch.no_grad():
            results.append(parts(torch, dual * 2))
        results += [parts(torch, torch.stack([dual, x])), parts(torch, torch.cat([x, dual])), parts(torch, dual[1])]
        results += [parts(torch, row) for row in dual]
        results += [parts(torch, dual.double()), parts(torch, dual.long()), dual.tolist(), repr(dual), str(dual[0])]
    return results, parts(torch, dual), repr(dual)


def wrong_uses(torch):
    fw = torch.autograd.forward_ad
    x, v = values(torch)
    names = errors(torch, lambda: fw.make_dual(x, v), fw.exit_dual_level)
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        names += errors(
            torch,
            lambda: fw.make_dual(x, torch.ones(3)),
            lambda: fw.make_dual(torch.ones(2, dtype=torch.long), v),
            lambda: fw.make_dual(x, torch.ones(2, dtype=torch.long)),
            lambda: fw.make_dual(dual, v),
            lambda: fw.make_dual(x, dual),
            fw.enter_dual_level,
            lambda: torch.sin(dual, out=torch.empty(2)),
            lambda: torch.add(x, x, out=dual),
            lambda: fw.unpack_dual(3),
            lambda: fw.exit_dual_level(level=3),
        )
    return names


def writes_in_place(torch):
    fw = torch.autograd.forward_ad
    results = []
    with fw.dual_level():
        x, v = values(torch)
        dual = fw.make_dual(x, v)
        dual *= 2
        results += [x, v, parts(torch, x), parts(torch, dual)]
        part = dual.narrow(0, 0, 1)
        part *= 3
        results += [parts(torch, dual), parts(torch, part), parts(torch, x)]
        primal, tangent = fw.unpack_dual(dual)
        primal *= 2
        tangent *= 2
        results += [parts(torch, dual), v]
        dual.fill_(1)
        results.append(parts(torch, dual))
    with fw.dual_level():
        x, v = values(torch)
        dual = fw.make_dual(x, v)
        plain = torch.zeros(3)
        plain[0] = dual[0]
        results.append(parts(torch, plain))
        plain[1:] = dual
        results.append(parts(torch, plain))
        plain = torch.ones(2)
        row = plain[0]
        plain.mul_(dual)
        results += [parts(torch, plain), parts(torch, row)]
        plain = torch.ones(2)
        row = plain[0]
        row.mul_(dual[1])
        results += [parts(torch, plain), parts(torch, row)]
        plain = torch.ones(2)
        other = plain.detach()
        other += dual
        results += [parts(torch, plain), parts(torch, other)]
        matrix = torch.ones(2, 2)
        matrix += dual
        matrix.t_()
        results += [parts(torch, matrix), parts(torch, matrix.unsqueeze_(0)), parts(torch, matrix.zero_())]
        results += [parts(torch, torch.empty(2).copy_(dual)), parts(torch, dual.clone().relu_().exp_())]
    return results


def gradients_through_duals(torch):
    fw = torch.autograd.forward_ad
    x, v = values(torch)
    x.requires_grad_()
    v.requires_grad_()
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        primal, tangent = fw.unpack_dual((dual * dual.exp()).sum())
        results = [torch.autograd.grad(tangent, (x, v), retain_graph=True), torch.autograd.grad(primal, x)]
        (gradient,) = torch.autograd.grad((dual**3).sum(), x, create_graph=True)
        results += [parts(torch, gradient), torch.autograd.grad(fw.unpack_dual(gradient).tangent.sum(), x)]
        results += [parts(torch, torch.autograd.grad((dual.sin() * dual).sum(), dual)[0])]
        y = (dual * 1).clone()
        y[0] = y[1] * 3
        results.append(torch.autograd.grad(fw.unpack_dual(y).tangent.sum(), v))
    return results


def copies(torch):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        dual = fw.make_dual(*values(torch))
        return parts(torch, torch.nn.Parameter(dual)), parts(torch, torch.tensor(dual.tolist()))


def paused(torch):
    fw = torch.autograd.forward_ad
    with fw.dual_level():
        dual = fw.make_dual(*values(torch))
        with fw._set_fwd_grad_enabled(False):
            result = parts(torch, dual * 2)
        return result, parts(torch, dual * 2), fw._is_fwd_grad_enabled(), fw._current_level


def modules(torch):
    fw, nn = torch.autograd.forward_ad, torch.nn
    results = []
    net = nn.Sequential(
        nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.ReLU(True), nn.Flatten(), nn.Linear(9, 4), nn.LayerNorm(4), nn.GELU()
    )
    gru = nn.GRU(4, 3, batch_first=True)
    for module in (net, gru):
        for number, parameter in enumerate(module.parameters()):
            with torch.no_grad():
                filled = (torch.arange(float(parameter.numel())) * 7 + number) % 5 - 2
                parameter.copy_(filled.view(parameter.shape) / 4)
    x = (torch.arange(24.0) % 7).view(3, 2, 4) / 3
    with fw.dual_level():
        dual = fw.make_dual(x, x.flip(0).contiguous())
        results += [parts(torch, net(dual)), parts(torch, gru(dual)[0])]
        loss = nn.functional.cross_entropy(net(dual), torch.tensor([0, 1, 3]))
        results += [parts(torch, loss)]
        softmax = torch.softmax(dual, -1)
        results += [parts(torch, softmax), parts(torch, torch.einsum("bij,bkj->bik", dual, softmax))]
        with torch.no_grad():
            parameters = {name: fw.make_dual(p, torch.ones_like(p)) for name, p in net.named_parameters()}
            results.append(parts(torch, torch.func.functional_call(net, parameters, (x,))))
    return results


def complex_numbers(torch):
    fw = torch.autograd.forward_ad
    z, v = torch.tensor([1 + 2j, -3j + 1]), torch.tensor([1j, 2 + 1j])
    with fw.dual_level():
        dual = fw.make_dual(z, v)
        return [
            parts(torch, result)
            for result in (dual * dual, dual.exp(), dual.abs(), dual.real, dual.conj() * dual, torch.view_as_real(dual))
        ]


# Ops whose tangent is that of an argument, or part of it: it must not share memory where the result does not.
HANDED_ON = (
    "a + 0.5", "0.5 + a", "a - 1", "a + torch.zeros(1)", "a + torch.zeros(3)", "torch.zeros(2, 1) + a", "a * 1",
    "a.clone()", "a.expand(3) + 1", "torch.cat([a])", "torch.where(a > 0, a, torch.zeros(3))", "a.expand(3)",
    "a.view(1)", "a.reshape(1, 1)", "torch.broadcast_to(a, (3,)) + 0", "a.contiguous()",
    "torch.lerp(a, torch.ones(3), 0.0)",
)  # fmt: skip


def memory_of_tangents(torch):
    fw, results = torch.autograd.forward_ad, []
    for text in HANDED_ON:
        for view in (False, True):
            tangent = torch.tensor([1.0])
            with fw.dual_level():
                a = fw.make_dual(torch.tensor([2.0]), tangent.view(1) if view else tangent)
                result = fw.unpack_dual(eval(text, {"torch": torch, "a": a})).tangent
                try:
                    result.add_(1)
                except RuntimeError as error:
                    results.append("more than one element" in str(error))
            results += [result, tangent]
    return results


LAID_OUT = (  # primals and tangents: the same layout in memory, or others
    ("torch.ones(2, 3)", "torch.ones(2, 3)"), ("torch.ones(2, 3)", "torch.ones(4, 3)[1:3]"),
    ("torch.ones(2, 3)", "torch.ones(4, 3)[:2]"), ("torch.ones(4, 3)[:2]", "torch.ones(4, 3)[:2]"),
    ("torch.ones(4, 3)[1:3]", "torch.ones(2, 3)"), ("torch.ones(2, 3)", "torch.ones(3, 2).t()"),
    ("torch.ones(3, 2).t()", "torch.ones(3, 2).t()"), ("torch.ones(3, 1)", "torch.ones(1, 3).t()"),
    ("torch.ones(2, 3)", "torch.ones(3).expand(2, 3)"), ("torch.ones(3).expand(2, 3)", "torch.ones(2, 3)"),
    ("torch.ones(2, 3)", "torch.ones(2, 3, dtype=torch.float64)"),
    ("torch.ones(2, 3, dtype=torch.cfloat)", "torch.ones(2, 3, dtype=torch.cfloat).conj()"),
    ("torch.ones(2, 3)", "torch.ones(3, requires_grad=True).expand(2, 3)"),
)  # fmt: skip


def layouts_of_tangents(torch):
    fw, results = torch.autograd.forward_ad, []
    for texts in LAID_OUT:
        primal, tangent = [eval(text, {"torch": torch}) for text in texts]
        with fw.dual_level():
            try:
                kept = fw.unpack_dual(fw.make_dual(primal, tangent)).tangent
            except RuntimeError as error:
                results.append("more than one element" in str(error))
                continue
            if 0 not in tangent.stride() and not tangent.is_conj():
                tangent[0, 0] = 5
            results += [kept is tangent, kept.stride(), kept.requires_grad, kept._is_view(), kept.detach()]
    return results


@pytest.mark.parametrize(
    "program",
    [
        packing, wrong_uses, writes_in_place, gradients_through_duals, copies, paused, modules, complex_numbers,
        memory_of_tangents, layouts_of_tangents,
    ],
    ids=lambda program: program.__name__,
)  # fmt: skip
def test_as_pytorch(program):
    agree(program)


# ---------------------------------------------------------------------------------------------------- nested


def _f(torch):
    return lambda x: (x.sin() * x.exp()).sum() * x[0]


def nested_transforms(torch):
    func, f = torch.func, _f(torch)
    x, v = torch.tensor([0.5, 1.5, -1.0]), torch.tensor([1.0, -2.0, 0.5])

    def along(function):
        return lambda x: func.jvp(function, (x,), (v,))[1]

    return [
        func.jvp(f, (x,), (v,)),
        along(along(f))(x),
        along(along(along(f)))(x),
        func.grad(along(f))(x),
        along(func.grad(f))(x),
        func.jacfwd(func.jacrev(f))(x),
        func.jacrev(func.jacfwd(f))(x),
        func.jacfwd(func.jacfwd(f))(x),
        func.hessian(f)(x),
        along(func.jacrev(lambda x: x * x.sum()))(x),
        func.vmap(along(f))(torch.stack([x, 2 * x])),
        along(lambda x: func.vmap(lambda a: a * a.exp())(x))(x),
        func.grad(lambda x: along(lambda y: (y * x).sum() ** 2)(x))(x),
        func.jvp(lambda a: func.jvp(lambda b: a * b, (x,), (v,))[1].sum(), (x,), (v,)),
        along(lambda x: func.vjp(f, x)[1](torch.tensor(2.0))[0])(x),
    ]


def hessian_vector_products_of_modules(torch):
    linear = torch.nn.Linear(2, 2)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([[1.0, 2.0], [-1.0, 0.5]]))
        linear.bias.copy_(torch.tensor([0.25, -0.5]))
    parameters = dict(linear.named_parameters())
    x = torch.tensor([[1.0, 3.0], [2.0, -1.0]])

    def loss(parameters):
        return torch.func.functional_call(linear, parameters, (x,)).tanh().pow(2).sum()

    tangents = {name: torch.ones_like(p) for name, p in parameters.items()}
    return torch.func.jvp(torch.func.grad(loss), (parameters,), (tangents,))


@pytest.mark.parametrize(
    "program", [nested_transforms, hessian_vector_products_of_modules], ids=lambda program: program.__name__
)
def test_nested_as_pytorch(program):
    agree(program)


# ---------------------------------------------------------------------------------------------------- Functions


def functions_with_jvp(torch):
    fw = torch.autograd.forward_ad
    seen = []

    class Product(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x, y, number):
            return x * y * number

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, y, ctx.number = inputs
            ctx.save_for_backward(x, y)
            ctx.save_for_forward(x, y)

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            return g * y * ctx.number, g * x * ctx.number, None

        @staticmethod
        def jvp(ctx, x_t, y_t, number_t):
            x, y = ctx.saved_tensors
            seen.append((x_t, y_t, number_t))
            return (x_t * y + x * y_t) * ctx.number

    x, v = values(torch)
    y = torch.tensor([3.0, -1.0], requires_grad=True)
    with fw.dual_level():
        dual = fw.make_dual(x, v)
        out = Product.apply(dual, y, 2)
        results = [parts(torch, out), torch.autograd.grad(fw.unpack_dual(out).tangent.sum(), y)]
    along = torch.func.jvp(lambda x: Product.apply(x, y.detach(), 2), (x,), (v,))
    grads = torch.func.grad(lambda x: torch.func.jvp(lambda y: Product.apply(x, y, 2), (x,), (v,))[1].sum())(x)
    return results, seen[:1], along, grads, torch.func.jacfwd(lambda x: Product.apply(x, x, 1))(x)


def functions_with_wrong_jvp(torch):
    fw = torch.autograd.forward_ad

    def function(result, forward=lambda ctx, x: x * 1):
        class Wrong(torch.autograd.Function):
            pass

        Wrong.forward = staticmethod(forward)
        if result is not None:
            Wrong.jvp = staticmethod(lambda ctx, tangent: result(tangent))
        return Wrong

    def written(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    def fixed(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return y

    wrong = [
        function(lambda t: torch.ones(3)),
        function(lambda t: (t, t)),
        function(None),  # nor a backward, from which it would follow
        function(lambda t: 3),
        function(lambda t: t * 2, lambda ctx, x: x.view_as(x)),
        function(lambda t: t * 2, written),
        function(lambda t: t, fixed),
        function(lambda t: t.mul_(2), written),
        function(lambda t: t.view_as(t), lambda ctx, x: x.view_as(x)),
    ]
    names = []
    with fw.dual_level():
        for one in wrong:
            x, v = values(torch)
            names += errors(torch, lambda one=one, x=x, v=v: one.apply(fw.make_dual(x.clone(), v.clone())))
    return names


@pytest.mark.parametrize(
    "program", [functions_with_jvp, functions_with_wrong_jvp], ids=lambda program: program.__name__
)
def test_functions_as_pytorch(program):
    agree(program)


# ---------------------------------------------------------------------------------------------------- ours


def test_levels_leave_nothing_behind():
    x, v = plugrad.ones(2), plugrad.ones(2)
    with plugrad.autograd.forward_ad.dual_level():
        tangent = v * 3
        gone = weakref.ref(tangent)
        dual = plugrad.autograd.forward_ad.make_dual(x, tangent)
        assert dual._type is not x._type
        del tangent
        assert gone() is not None
    assert gone() is None
    assert dual._type is x._type and not dual.__dict__
    assert not copy.deepcopy(dual).__dict__


def test_dropout_gives_the_tangent_of_what_it_kept():
    x = plugrad.ones(200)
    kept, tangent = plugrad.func.jvp(lambda x: plugrad.nn.functional.dropout(x, 0.5), (x,), (3 * x,))
    assert 0 < (kept == 0).sum() < 200 and plugrad.equal(tangent, kept * 3)


NAMES = ("linalg.cross", "conv2d", "layer_norm", "prelu", "where", "cumsum", "logsumexp", "svd", "mul", "gather")


@pytest.mark.parametrize("name", NAMES)
def test_tangents_of_ops_are_those_of_two_reverse_passes(name):
    op = registry.op(name)
    for label, sample in each_differentiable(op, "cpu"):
        function, leaves = _of_leaves(op, sample)
        make = Maker(op.name + " tangent", device="cpu")
        tangents = tuple(make(*t.shape, dtype=t.dtype, requires_grad=False) for t in leaves)
        point = tuple(t.detach() for t in leaves)
        _, forward = plugrad.func.jvp(function, point, tangents)
        _, push = plugrad.func.linearize(function, *point)
        for one, other in zip(forward, push(*tangents), strict=True):
            assert one.shape == other.shape and one.dtype is other.dtype, label
            numpy.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("draw", ["poisson", "bernoulli", "normal", "normal_", "bernoulli_", "rand_like", "zeros_like"])
def test_random_numbers_have_the_tangents_that_pytorch_gives_them(draw):
    results = []
    for library in (plugrad, torch):
        fw = library.autograd.forward_ad
        with fw.dual_level():
            dual = fw.make_dual(library.tensor([0.5, 0.25]), library.ones(2))
            function = getattr(library, draw, None) or (lambda x, draw=draw: getattr(x, draw)())
            tangent = fw.unpack_dual(function(*(dual, 1.0)[: 1 + (draw == "normal")])).tangent
            results.append(None if tangent is None else tangent.tolist())
    assert results[0] == results[1]
