"""functionalize, rearrange, debug_unwrap and batch norms without running statistics, as PyTorch has them."""

import pytest

import plugrad
from support.two_libraries import agree, errors

torch = pytest.importorskip("torch")


def rearranged(torch):
    x = torch.arange(24).reshape(2, 3, 4)
    patterns = [
        ("a b c -> c a b", {}), ("a b c -> (a c) b", {}), ("a (b d) c -> d a b c", {"d": 3}), ("... c -> c ...", {}),
        ("a b c -> a () b 1 c", {}), ("(a e) ... -> e (a ...)", {"e": 2}), ("a b (c d) -> a d b c", {"c": 2}),
    ]  # fmt: skip
    results = [torch.func.rearrange(x, pattern, **sizes) for pattern, sizes in patterns]
    return results, torch.func.rearrange([x, x], "k a b c -> a k b c")


def wrong_patterns(torch):
    x = torch.zeros(2, 3, 4)
    wrong = [
        ("a b c -> a b", {}), ("a b c d -> a b c d", {}), ("a b c -> a a b c", {}), ("a b c", {}),
        ("a b c -> a (b (c))", {}), ("a b c -> c b a", {"z": 3}),
    ]  # fmt: skip
    return errors(torch, *[lambda p=p, k=k: torch.func.rearrange(x, p, **k) for p, k in wrong])


def functionalized(torch):
    f = torch.func.functionalize(lambda a: a.clone().add_(1))
    wrong = errors(torch, lambda: torch.func.functionalize(lambda a: a, remove="views")(torch.zeros(2)))
    return f(torch.zeros(2)), torch.func.grad(lambda a: f(a).pow(2).sum())(torch.ones(2)), wrong


def without_running_statistics(torch):
    nn = torch.nn
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1)))
    result = torch.func.replace_all_batch_norm_modules_(net)
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0], [0.0, -1.0]])
    return result is net, net[1][0].running_mean, net[0].track_running_stats, list(net.state_dict()), net[0].eval()(x)


def written_behind_views(torch):
    def f(y):
        x = torch.zeros_like(y)
        row, corner = x[0], x[1:, 1:]
        x.copy_(y.exp())
        return row, corner, x

    y, t = torch.arange(6.0).reshape(2, 3), torch.ones(2, 3)
    batched = torch.func.vmap(lambda y, t: torch.func.jvp(f, (y,), (t,)))
    return torch.func.jvp(f, (y,), (t,)), batched(torch.stack([y, -y]), torch.stack([t, 2 * t]))


def wrong_returns(torch):
    def function(results):
        class Own(torch.autograd.Function):
            @staticmethod
            def forward(x):
                return x * 2

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def vmap(info, in_dims, x):
                return results(x * 2)

        return lambda: torch.func.vmap(Own.apply)(torch.ones(2, 3))

    wrong = [
        lambda y: y, lambda y: (y,), lambda y: [y, 0],
        lambda y: (y, 0, 0), lambda y: ([y], (0, 0)), lambda y: (y, (0,)),
    ]  # fmt: skip
    fine = [function(results)() for results in (lambda y: (y, 0), lambda y: (y[0], None))]
    return fine, errors(torch, *map(function, wrong), lambda: torch.func.jvp(torch.sin, (), ()))


def defaults_of_forward(torch):
    seen = []

    class Picked(torch.autograd.Function):
        @staticmethod
        def forward(x, index=1):
            return x[index] * 2

        @staticmethod
        def setup_context(ctx, inputs, output):
            seen.append(inputs[1:])

        @staticmethod
        def vmap(info, in_dims, x, index):
            seen.append((info.batch_size, in_dims, index))
            return Picked.apply(x.movedim(in_dims[0], 1), index), 0

    x = torch.arange(6.0).reshape(2, 3)
    return torch.func.vmap(Picked.apply)(x), torch.func.vmap(Picked.apply, (1, None))(x, 0), str(seen)


@pytest.mark.parametrize("program", [
    defaults_of_forward, rearranged, wrong_patterns, functionalized, without_running_statistics, written_behind_views,
    wrong_returns,
])  # fmt: skip
def test_as_pytorch(program):
    agree(program)


def test_unwrapping_shows_what_a_transform_works_on():
    seen = []

    def function(x):
        seen.append(repr(plugrad.func.debug_unwrap(x)))
        return x * x

    x = plugrad.tensor(3.0)
    plugrad.func.jvp(function, (x,), (x,))
    assert seen[0] == "tensor(3.)"

    def inner(y):
        seen.append(repr(plugrad.func.debug_unwrap(y, recurse=False)))
        return y * y

    plugrad.func.jvp(lambda x: plugrad.func.jvp(inner, (x,), (x,))[1], (x,), (x,))
    assert seen[1] == "tensor(3., tangent=3.0)"


def refused(call):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return type(error).__name__
    return None


REFUSED = {
    "in_dims in a list": lambda t: t.func.vmap(t.mul, [0, 0])(t.ones(2), t.ones(2)),
    "no in_dims": lambda t: t.func.vmap(t.sin, None)(t.ones(2)),
    "a tuple for a list": lambda t: t.func.vmap(lambda z: z[0] + z[1], ((0, 0),))([t.ones(2), t.ones(2)]),
    "a list for a list": lambda t: t.func.vmap(lambda z: z[0] + z[1], ([0, 0],))([t.ones(2), t.ones(2)]),
    "no tensor": lambda t: t.func.vmap(lambda x: x, (None,))(1),
    "out_dims of text": lambda t: t.func.vmap(lambda x: x, out_dims=("no",))(t.ones(2)),
    "text stacked": lambda t: t.func.vmap(lambda x: "no")(t.ones(2)),
    "text": lambda t: t.func.vmap(lambda x: (x, "yes"), out_dims=(0, None))(t.ones(2)),
    "text in aux": lambda t: t.func.grad(lambda x: (x.sum(), "no"), has_aux=True)(t.ones(2)),
    "no argnums": lambda t: t.func.jacrev(t.sin, argnums=())(t.ones(2)),
    "no output": lambda t: t.func.vjp(lambda x: (), t.ones(2)),
    "output None": lambda t: t.func.vjp(lambda x: None, t.ones(2)),
    "tangents in a list": lambda t: t.func.jvp(t.sin, (t.ones(2),), [t.ones(2)]),
    "a number for a primal": lambda t: t.func.jvp(t.sin, (1.0,), (t.ones(2),)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_are_refused_as_in_pytorch(name):
    assert refused(lambda: REFUSED[name](plugrad)) == refused(lambda: REFUSED[name](torch))


@pytest.mark.parametrize("library", [plugrad, torch])
def test_slices_that_a_function_returns_are_those_of_the_input(library):
    x = library.ones(2, 3)
    same = library.func.vmap(lambda row: row, out_dims=1)(x)
    assert same.shape == (3, 2) and same.data_ptr() == x.data_ptr()
    changed = library.func.vmap(lambda row: row.mul_(2), in_dims=1, out_dims=1)(x)
    assert changed.tolist() == x.tolist() == [[2.0] * 3] * 2
    x.zero_()
    assert changed.sum().item() == 0
    nested = library.func.vmap(library.func.vmap(library.Tensor.exp_))(x)
    assert nested.tolist() == x.tolist() == [[1.0] * 3] * 2
    x.zero_()
    assert nested.sum().item() == 0


VIEWS = {
    "transposed": (lambda x: x.t(), {}),
    "a part": (lambda x: x[1:], {"in_dims": 1, "out_dims": 2}),
    "one element": (lambda x: x[0, 1], {"out_dims": -1}),
    "of several results": (lambda x: x.chunk(2)[0], {}),
    "copied": (lambda x: x.t() + 1, {}),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_slices_are_one_view_of_the_input(name):
    func, options = VIEWS[name]
    results = []
    for library in (plugrad, torch):
        x = library.arange(24.0).reshape(2, 3, 4)
        y = library.func.vmap(func, **options)(x)
        before = y.tolist()
        x.mul_(-1)
        results.append((before, y.tolist()))
        x.requires_grad_()
        library.func.vmap(func, **options)(x).sum().backward()
        results[-1] += (x.grad.tolist(),)
    assert results[0] == results[1]


@pytest.mark.parametrize("wrong", [[True, 2], 3, "x", None])
@pytest.mark.parametrize("name", ["grad", "jacrev", "jacfwd", "hessian", "linearize"])
def test_transforms_refuse_what_is_no_tensor(name, wrong):
    transform = getattr(plugrad.func, name)
    with pytest.raises(ValueError, match="must be Tensor, got <class"):
        transform(lambda a: a, wrong) if name == "linearize" else transform(lambda a: a)(wrong)
