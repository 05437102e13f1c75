"""Kernels of elements: those that an index names, and functions of one or two arrays and numbers."""

import operator

import numpy
import pytest

import plugrad as torch
from plugrad.extend import load_inline, refuse_outside
from plugrad.kernels.cuda import CudaFunction

F = torch.nn.functional

inf = numpy.inf
TAKES = {
    "gather": lambda x, at, y: x.gather(1, at[:, :3]),
    "gather more": lambda x, at, y: x.gather(1, torch.cat([at, at], 1)),
    "gather part": lambda x, at, y: x.gather(1, at[:2]),
    "int32": lambda x, at, y: x.gather(1, at.int()),
    "scatter_add": lambda x, at, y: x.scatter_add(1, at, y),
    "scatter_add part": lambda x, at, y: x.scatter_add(1, at[:, :2], y),
    "index_select": lambda x, at, y: x.index_select(1, at[0]),
    "index_select first": lambda x, at, y: x.index_select(0, at[0, :1] % 3),
    "index_add": lambda x, at, y: x.index_add(1, at[0], y),
    "index_add alpha": lambda x, at, y: x.index_add(1, at[0], y, alpha=-2.5),
    "rows": lambda x, at, y: x[at % 3 - 3 * (at % 2)],
    "rows, one list": lambda x, at, y: x[at[0, :2] % 3 - 3],
    "embedding": lambda x, at, y: F.embedding(at % 3, x.flatten(1)),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", ["plain", "transposed", "deep"])
@pytest.mark.parametrize("name", TAKES)
def test_what_an_index_names(name, form, dtype):
    torch.manual_seed(1)
    shape = (3, 5, 2) if form == "deep" else (3, 5)
    x, y = (torch.randn(shape, dtype=getattr(torch, dtype)) for _ in range(2))
    at = torch.randint(0, 5, (3, 5))
    if form == "deep" and name.startswith(("gather", "int32", "scatter")):
        at = at[..., None].expand(3, 5, 2)
    results = []
    for device in ("cpu", "cuda"):
        given = [t.detach().to(device).requires_grad_() for t in (x, y)]
        one, other = [t.mT.contiguous().mT if form == "transposed" else t for t in given]
        result = TAKES[name](one, at.to(device), other)
        (result * torch.arange(result.numel(), device=device, dtype=x.dtype).reshape(result.shape)).sum().backward()
        results.append([result.detach().cpu(), *[t.grad.cpu() for t in given if t.grad is not None]])
    for here, there in zip(*results, strict=True):
        torch.testing.assert_close(there, here)


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64", "int32", "uint8", "bool", "int16", "complex64"])
def test_elements_of_any_type_are_taken(dtype):
    x, at = torch.tensor([[0, 1, 2], [1, 0, 3]]).to(getattr(torch, dtype)), torch.tensor([[2, 0], [1, 1]])
    assert torch.equal(x.cuda().gather(1, at.cuda()).cpu(), x.gather(1, at))
    assert torch.equal(x.cuda().index_select(1, at[0].cuda()).cpu(), x.index_select(1, at[0]))
    assert torch.equal(x.cuda()[1 - at.cuda()].cpu(), x[1 - at])


OUTSIDE = [
    lambda x, at: x.gather(1, at), lambda x, at: x.scatter_add(1, at, x), lambda x, at: x.index_select(1, at[0]),
    lambda x, at: x.index_add(1, at[0], x), lambda x, at: F.embedding(at, x),
    lambda x, at: x[torch.where(at < 0, 3 * at, at)],
]  # fmt: skip


@pytest.mark.parametrize("wrong", [-1, 2, 2**40])
@pytest.mark.parametrize("call", OUTSIDE)
def test_an_index_out_of_range_is_told_and_nothing_is_touched(call, wrong):
    x = torch.ones(2, 2).cuda()
    call(x, torch.tensor([[0, wrong], [1, 1]]).cuda())
    with pytest.raises(torch.AcceleratorError, match="out of (range|bounds)"):
        torch.cuda.synchronize()
    assert x.cpu().tolist() == [[1.0, 1.0]] * 2


@pytest.mark.usefixtures("two_orders")
def test_indices_of_other_integers(cupy):
    """Of int32, and as classes of uint8: they are looked at, and put in order, as they are."""
    weight, at = torch.randn(5, 3), torch.tensor([4, 1, 1, 0], dtype=torch.int32)
    scores, classes = torch.randn(4, 3).log_softmax(1), torch.tensor([2, 0, 1, 1], dtype=torch.uint8)
    results = []
    for device in ("cpu", "cuda"):
        w, s = weight.detach().to(device).requires_grad_(), scores.detach().to(device).requires_grad_()
        F.embedding(at.to(device), w).square().sum().backward()
        F.nll_loss(s, classes.to(device)).backward()
        results.append((w.grad.cpu(), s.grad.cpu()))
    for here, there in zip(*results):
        torch.testing.assert_close(there, here)
    narrow = cupy.asarray([2, 3], "uint8")
    refuse_outside(cupy, narrow, 0, 4, "{} is out of range".format)
    torch.cuda.synchronize()
    refuse_outside(cupy, narrow, 0, 3, "{} is out of range".format)
    with pytest.raises(torch.AcceleratorError, match="out of (range|bounds)"):
        torch.cuda.synchronize()


def test_taking_and_adding_is_one_launch_or_two(stand_in):
    x, at = torch.ones(3, 4).cuda(), torch.zeros(3, 4, dtype=torch.long).cuda()
    for call, most in ((OUTSIDE[0], 1), (OUTSIDE[1], 2), (OUTSIDE[2], 2), (OUTSIDE[4], 1)):
        for _ in range(2):
            before = stand_in.counts()["launches"]
            call(x, at)
        assert stand_in.counts()["launches"] - before <= most


FUNCTIONS = [torch.neg, torch.exp, torch.log, torch.sqrt, torch.square, torch.tanh, torch.abs, torch.relu]
EDGES = [0.0, -0.0, 1.5, -2.25, inf, -inf, float("nan"), 1e30, -3e-5, 7.0, 65000.0]


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions_of_one_array(function, dtype):
    x = torch.tensor(EDGES).to(getattr(torch, dtype)) if dtype != "int64" else torch.arange(1, 12)
    here, there = function(x), function(x.cuda()).cpu()
    torch.testing.assert_close(there, here, equal_nan=True)
    torch.testing.assert_close(function(x.cuda()[::2]).cpu(), here[::2], equal_nan=True)


def test_elements_in_another_order_keep_it(launched):
    drawn = torch.randn(2, 4, 5, 3)
    here, there = [given.detach().movedim(-1, 1).requires_grad_() for given in (drawn, drawn.cuda())]
    results = [F.gelu(given.relu() + given * 2) for given in (here, there)]
    for y in results:
        (y * y.detach()).sum().backward()
    torch.testing.assert_close(results[1].cpu(), results[0])
    torch.testing.assert_close(there.grad.cpu(), here.grad)
    assert results[1].stride() == here.stride() and {"relu", "relu_grad", "gelu", "gelu_grad"} <= {*launched}


def test_sums_over_dimensions_in_any_order(stand_in):
    x = torch.randn(4, 5, 6, 7)
    for dims in ((0, 1), (1, 2), (0, 1, 2), (0, 1, 2, 3), (1, 2, 3)):
        moved = x.transpose(1, 2) if 0 not in dims else x.transpose(0, 1)
        y = moved.cuda()
        y.sum(dims)
        before = stand_in.counts()["launches"]
        torch.testing.assert_close(y.sum(dims).cpu(), moved.sum(dims))
        assert stand_in.counts()["launches"] - before == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("shape", [(), (5,), (3, 700), (0, 2)])
def test_choices_by_a_mask(shape, dtype):
    torch.manual_seed(4)
    x, y = [values.to(getattr(torch, dtype)) for values in (4 * torch.randn(shape), torch.ones(shape))]
    mask = torch.rand(shape) > 0.5
    for call in (
        lambda x, y, mask: torch.where(mask, x, y), lambda x, y, mask: torch.where(mask, x, 2.5),
        lambda x, y, mask: torch.where(mask, -1, x), lambda x, y, mask: torch.where(turned(mask), turned(x), turned(y)),
        lambda x, y, mask: torch.where(mask[..., :1] if x.ndim else mask, x, y),
        lambda x, y, mask: x.masked_fill(mask, 3), lambda x, y, mask: x.clone().masked_fill_(mask, -3),
        lambda x, y, mask: written(x.clone(), mask, 4),
        lambda x, y, mask: written(turned(x.clone()), turned(mask), float("inf") if x.is_floating_point() else 2),
    ):  # fmt: skip
        here, there = call(x, y, mask), call(x.cuda(), y.cuda(), mask.cuda())
        assert there.dtype is here.dtype and torch.equal(there.cpu(), here)


def turned(x):
    return x.transpose(0, 1) if x.ndim > 1 else x


def written(x, mask, value):
    x[mask] = value
    return x


PAIRS = [
    ((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 4), ()), ((1,), (3, 4)), ((3, 1), (3, 4)), ((0, 4), (4,)),
    ((2, 3, 5), (3, 5)), ((1, 4), (4,)), ((), ()), ((5, 1023), (1023,)), ((1,), (1, 1)),
]  # fmt: skip


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("shapes", PAIRS)
def test_arithmetic_of_two_arrays(shapes, dtype):
    torch.manual_seed(2)
    x, y = [(4 * torch.randn(shape)).to(getattr(torch, dtype)) for shape in shapes]
    y = y.abs() + 1
    operators = operator.add, operator.sub, operator.mul, operator.truediv
    for function in (torch.add, torch.sub, torch.mul, torch.div, *operators):
        here, there = function(x, y), function(x.cuda(), y.cuda())
        assert there.dtype is here.dtype and there.shape == here.shape
        assert torch.equal(there.cpu(), here)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("number", [2, -0.3, 1e-50, inf])
def test_arithmetic_with_numbers(number, dtype):
    x = torch.tensor([1.5, -2.25, 0.0, 3.0]).to(getattr(torch, dtype))
    for function in (
        lambda a: a + number, lambda a: number - a, lambda a: a * number, lambda a: number / a, lambda a: a / number,
    ):  # fmt: skip
        here, there = function(x), function(x.cuda())
        assert there.dtype is here.dtype
        torch.testing.assert_close(there.cpu(), here, equal_nan=True, rtol=0, atol=0)


SAME_LAUNCH = {
    "add": [lambda a, b: a + b, torch.add, torch.Tensor.add, lambda a, b: torch.add(a, b, alpha=1)],
    "add_number": [lambda a, b: a + 2, lambda a, b: 2 + a, lambda a, b: torch.add(a, 2)],
    "subtract": [lambda a, b: a - b, torch.sub, torch.Tensor.sub, lambda a, b: torch.rsub(b, a)],
    "subtract_number": [lambda a, b: 2 - a, lambda a, b: torch.rsub(a, 2), lambda a, b: torch.sub(a, 2)],
    "multiply": [lambda a, b: a * b, torch.mul, torch.square, lambda a, b: a**2, lambda a, b: a.pow(2)],
    "divide": [lambda a, b: a / b, torch.div, torch.true_divide],
    "divide_number": [lambda a, b: 1 / a, torch.reciprocal, lambda a, b: a**-1],
    "negative": [lambda a, b: -a, torch.neg], "magnitude": [lambda a, b: a.__abs__(), torch.abs],
    "root": [torch.sqrt, lambda a, b: a**0.5], "hyperbolic": [torch.tanh, F.tanh],
}  # fmt: skip


@pytest.mark.parametrize("name", SAME_LAUNCH)
def test_functions_and_operators_are_the_same_launch(name, monkeypatch):
    names, call = [], CudaFunction.__call__
    monkeypatch.setattr(CudaFunction, "__call__", lambda self, *args: names.append(self.__name__) or call(self, *args))
    for one in SAME_LAUNCH[name]:
        form = one if one.__code__.co_argcount == 2 else lambda a, b, one=one: one(a)
        a, b = torch.tensor([0.5, 2.0, 3.0]), torch.tensor([1.0, -2.0, 4.0])
        torch.testing.assert_close(form(a.cuda(), b.cuda()).cpu(), form(a, b))
        assert names.pop() == name and not names, one


def test_ufuncs_that_kernels_call_have_all_that_cupys_have(cupy):
    a = cupy.asarray([3.0, 4.0])
    assert cupy.add.reduce(a).item() == 7 and cupy.multiply.nin == 2 and cupy.add.__name__ == "add"
    assert cupy.add(a, 1, out=a) is a and cupy.sqrt(a, out=a) is a and a.tolist() == [2.0, 5.0**0.5]
    assert cupy.multiply(a, 1j).dtype == "complex128" and cupy.add(a, cupy.asarray([1, 2])).dtype == "float64"
    half = cupy.asarray([1.0, 2.0], "float16")
    assert cupy.add(half, cupy.asarray([1.0, 2.0], "float32")).dtype == "float32"
    assert cupy.subtract(half, half, dtype="float64").dtype == "float64" and cupy.add(half, half).dtype == "float16"


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64", "int8"])
@pytest.mark.parametrize("function", [torch.remainder, torch.floor_divide, torch.fmod])
def test_quotients_are_exact(function, dtype):
    """As on the CPU, bit for bit: of floats the quotient is not rounded before its remainder is known."""
    whole, numbers = dtype.startswith("int"), (0.3, -2, 7e4, inf)
    points = [*range(-9, 10)] if whole else [*EDGES, 0.3, -0.3, 1e10, 3.0, -3.0, 123456.7]
    pairs = [[p, q] for p in points for q in points if q or not whole]
    x, z = torch.tensor(pairs, dtype=getattr(torch, dtype)).unbind(1)
    beside = [(x, number) for number in ((3, -4) if whole else numbers)]
    for one, other in ((x, z), (x.reshape(-1, 1)[:5], z[:9]), *beside):
        here, there = function(one, other), function(one.cuda(), other.cuda() if torch.is_tensor(other) else other)
        torch.testing.assert_close(there.cpu(), here, rtol=0, atol=0, equal_nan=True)


SUMS = [
    ((), None), ((7,), None), ((3, 140000), None), ((2, 140000), 1), ((40000,), 0), ((5000, 5), 0), ((600, 70), 0),
    ((3, 4, 5), 1), ((3, 4, 5), (0, 1)), ((3, 4, 5), (1, 2)), ((3, 4, 5), (0, 2)), ((2, 1100, 33), 1), ((0, 3), 0),
    ((3, 0), 1),
]  # fmt: skip


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("shape, dim", SUMS)
def test_sums(shape, dim, dtype):
    torch.manual_seed(3)
    x = (torch.randn(shape) + 0.1).to(getattr(torch, dtype))
    close = {"float64": 1e-12, "float32": 1e-4}.get(dtype, 2e-2)
    for function in (torch.sum, torch.mean)[: 1 if dtype == "int64" else 2]:
        for keepdim in (False, True):
            options = {} if dim is None else {"dim": dim, "keepdim": keepdim}
            exact = function(x.double(), **options).to(function(x, **options).dtype)
            there = function(x.cuda(), **options)
            torch.testing.assert_close(there.cpu(), exact, rtol=close, atol=close, equal_nan=True)
    if x.ndim > 1 and dim is not None:
        torch.testing.assert_close(x.cuda().mT.sum(dim).cpu(), x.mT.sum(dim), rtol=2e-2, atol=2e-2)


SPREADS = [
    ((3, 700), 1), ((2, 3, 4), (1, 2)), ((5,), None), ((2, 3, 4), (0, 2)), ((1024, 2), -1), ((3, 1), 1), ((2, 0), 1),
]  # fmt: skip


@pytest.mark.usefixtures("two_orders")
@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("function", [torch.var, torch.std])
def test_variances(function, dtype, launched):
    half, options = dtype not in ("float32", "float64"), [{}, {"keepdim": True}, {"correction": 0}, {"correction": 5}]
    for shape, dim in SPREADS:
        x, results = torch.randn(shape).to(getattr(torch, dtype)), []
        asked = options if x.numel() < 100 else options[:1]
        for device in ("cpu", "cuda"):
            there = x.detach().to(device).requires_grad_()
            for more in asked:
                y = function(there, dim, **more)
                (y * torch.linspace(-1, 1, y.numel(), device=device).to(y.dtype).reshape(y.shape)).sum().backward()
                results.append(y.detach().cpu())
            results.append(there.grad.cpu())
        for here, other in zip(results[: len(asked) + 1], results[len(asked) + 1 :], strict=True):
            close = {"rtol": 5e-2, "atol": 5e-2} if half else {}
            torch.testing.assert_close(other, here, equal_nan=True, **close)
    assert {"variance", "variance_grad"} <= {*launched}


def test_gradients_of_equal_elements_are_those_of_the_cpu():
    """The root of no variance has no slope: what arrives there, infinities included, goes no further."""
    x = torch.ones(2, 3).cuda().requires_grad_()
    (x.std(1) * torch.tensor([1.0, inf]).cuda()).sum().backward()
    assert x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "float16"])
@pytest.mark.parametrize("function", [torch.max, torch.min])
def test_extremes_and_where_they_first_are(function, dtype, launched):
    torch.manual_seed(5)
    rows = torch.tensor([[0.0, -0.0, 0.0], [-0.0, 0.0, -0.0], [1.0, 1.0, 1.0], [-inf, inf, inf]])
    nan = torch.tensor([[1.0, float("nan"), 2.0], [float("nan"), float("nan"), -inf]])
    drawn = [torch.randn(shape) for shape in ((2, 700), (1024, 3), (2, 3, 4), (5,))]
    for x in [*drawn, rows[:3], *[rows, nan] * dtype.startswith("float")]:
        x = (4 * x).to(getattr(torch, dtype))
        for keepdim in (False, True)[: 1 + (x.numel() < 100)]:
            here, there = function(x, -1, keepdim), function(x.cuda(), -1, keepdim)
            for one, other in zip(here, there):
                assert other.dtype is one.dtype and torch.equal(other.cpu().nan_to_num(9), one.nan_to_num(9))
            if dtype.startswith("float"):
                assert torch.equal(there[0].cpu().signbit(), here[0].signbit()) or x.isnan().any()
    assert "extreme_of_row" in launched


RUNNING = [
    ((5,), 0), ((3, 700), 1), ((3, 40), -1), ((700, 3), 0), ((2, 5, 300), 1), ((0, 3), 0), ((), 0),
]  # fmt: skip


HALVES = {"float16": (1e-2, 1e-1), "bfloat16": (4e-2, 8e-1)}


@pytest.mark.usefixtures("two_orders")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int64"])
@pytest.mark.parametrize("shape, dim", RUNNING)
def test_running_sums(shape, dim, dtype):
    x = (torch.randn(shape) * 3).to(getattr(torch, dtype))
    results = []
    for device in ("cpu", "cuda"):  # the CPU adds up half precision in half precision
        there = x.detach().to(device, torch.float32 if dtype in HALVES and device == "cpu" else x.dtype)
        y = there.requires_grad_(dtype != "int64").cumsum(dim)
        if dtype != "int64":
            (y * torch.linspace(-1, 1, y.numel(), device=device).to(y.dtype).reshape(y.shape)).sum().backward()
        results.append([y.detach().cpu(), there.mT.cumsum(dim).detach().cpu() if x.ndim > 1 else y.detach().cpu()])
        results[-1] += [] if there.grad is None else [there.grad.cpu()]
    close = {dtype: dict(zip(("rtol", "atol"), bounds)) for dtype, bounds in HALVES.items()}.get(dtype, {})
    for here, other in zip(*results, strict=True):
        torch.testing.assert_close(other.to(here.dtype), here, **close)


@pytest.mark.parametrize("order", [1, 7])
def test_sums_in_any_order_of_threads(order, stand_in):
    x = torch.randn(1100, 40).cuda()
    before = [x.sum(0).cpu(), x.sum(1).cpu(), x.sum().cpu(), x.mT.contiguous().cumsum(1).cpu()]
    stand_in.set_order(order)
    try:
        after = [x.sum(0).cpu(), x.sum(1).cpu(), x.sum().cpu(), x.mT.contiguous().cumsum(1).cpu()]
    finally:
        stand_in.set_order(0)
    assert all(map(torch.equal, before, after))


LISTS = """
template <typename T> __global__ void grow(pg_lists<T, 2> lists, double by) {
    lists.each([=](T *const *at, long long i) { at[0][i] += T(by) * at[1][i]; });
}
"""


@pytest.mark.parametrize("count", [1, 3, 130, 300])
def test_lists_of_arrays(cupy, count, stand_in):
    grow = load_inline(cuda=LISTS, name="grow", arrays=2, numbers=1, per="list")
    sizes = [(7 * n) % 13 * 100 for n in range(count)]
    xs, ys = [cupy.ones(n, "float32") for n in sizes], [cupy.arange(n, dtype="float32") for n in sizes]
    grow(xs, ys, 0.0)
    before = stand_in.counts()["launches"]
    assert grow(xs, ys, 2.0) == []
    assert stand_in.counts()["launches"] - before == (-(-count // 120) if any(sizes) else 0)
    for x, y in zip(xs, ys):
        assert (x == 1 + 2 * y).all()


def test_lists_are_served_but_for_what_does_not_fit(cupy):
    grow = load_inline(cuda=LISTS, name="grow", arrays=2, numbers=1, per="list")
    xs, ys = [cupy.zeros(3) for _ in range(4)], [cupy.ones(3) for _ in range(4)]
    for wrong in (cupy.ones(3, "float32"), cupy.ones(6)[::2], cupy.ones(4)):
        for place in range(4):
            given = [*ys]
            given[place] = wrong
            for x in xs:
                x[...] = 0
            assert grow(xs, given, 1.0) == [place]
            assert [x.tolist() for x in xs] == [[1.0 - (n == place)] * 3 for n in range(4)]
    assert grow(cupy.zeros(3, "int16"), cupy.zeros(3, "int16"), 1.0) is NotImplemented
    assert grow(xs[0], ys[0][:2], 1.0) is NotImplemented and grow(xs[0], ys[0], 1.0) is None
