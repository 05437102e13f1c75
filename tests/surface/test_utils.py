"""utils.data, utils.checkpoint, nn.utils, func and cuda: programs that must say the same under PyTorch."""

from __future__ import annotations

import collections
import importlib
import importlib.machinery
import itertools
import math
import operator
import sys
import types
import warnings

import numpy
import pytest

import plugrad
from plugrad import kernels, process_state
from plugrad.extend import unary
from plugrad.process_state import ProcessState
from plugrad.testing import cases
from support import distribution_builder

torch = pytest.importorskip("torch")


def part(package, name):
    return importlib.import_module(f"{package.__name__}.{name}")


def both(text, **names):
    """Evaluate an expression under PyTorch and under plugrad, and return both results or errors."""
    results = []
    for package in (torch, plugrad):
        scope = {"torch": package, "nn": package.nn, "D": part(package, "utils.data"), "func": part(package, "func")}
        scope.update(names)
        with warnings.catch_warnings():
            if package is torch:
                warnings.simplefilter("ignore")  # its own deprecations
            try:
                results.append(eval(text, scope))
            except Exception as error:
                results.append(error)
    return results


def listed(value):
    """Return tensors in nested containers as (lists, dtype)."""
    if isinstance(value, (torch.Tensor, plugrad.Tensor)):
        return value.detach().double().tolist(), str(value.dtype)
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(listed(item) for item in value) if type(value) in (list, tuple) else [*map(listed, value)]
    return value


def close(one, other):
    if isinstance(one, float):
        return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6)
    if isinstance(one, (list, tuple)):
        return type(one) is type(other) and len(one) == len(other) and all(map(close, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(close(one[key], other[key]) for key in one)
    return one == other


SAME = [
    # loading data
    "[*D.DataLoader(range(5), batch_size=2)]",
    "[*D.DataLoader(range(5), batch_size=2, drop_last=True)]",
    "[*D.DataLoader(range(3), batch_size=None)]",
    "[*D.DataLoader([1.5, 2.5], batch_size=2)]",
    "[*D.DataLoader(['a', 'b', 'c'], batch_size=2)]",
    "[*D.DataLoader([{'x': 1, 'y': (1.0, 'a')}, {'x': 2, 'y': (2.0, 'b')}], batch_size=2)]",
    "[*D.DataLoader(D.TensorDataset(torch.arange(6.0).reshape(3, 2), torch.arange(3)), batch_size=2)]",
    "[*D.DataLoader(range(6), batch_sampler=[[0, 5], [3]])]",
    "[*D.DataLoader(range(6), sampler=[4, 2], batch_size=2)]",
    "[*D.DataLoader(range(3), batch_size=2, collate_fn=lambda items: sum(items))]",
    "len(D.DataLoader(range(5), batch_size=2)), len(D.DataLoader(range(5), batch_size=2, drop_last=True))",
    "D.default_collate([[1, 2], [3, 4]])",
    "D.default_collate([True, False])",
    "D.default_collate([numpy.float32(1.5), numpy.float32(2)])",
    "D.default_collate([numpy.arange(2), numpy.arange(2)])",
    "D.default_collate([torch.ones(2), torch.zeros(2)])",
    "D.default_convert([numpy.arange(2), 'a', 3])",
    "D.TensorDataset(torch.arange(3), torch.ones(3))[1]",
    "D.ConcatDataset([[1, 2], [3]])[2], D.ConcatDataset([[1, 2], [3]])[-3]",
    "[*D.Subset([5, 6, 7], [2, 0])]",
    "D.StackDataset([1, 2], [3, 4])[1], D.StackDataset(a=[1, 2])[0]",
    "[len(s) for s in D.random_split(range(10), [0.35, 0.35, 0.3])]",
    "[len(s) for s in D.random_split(range(7), [4, 3])]",
    "sorted(D.RandomSampler(range(5))), len([*D.RandomSampler(range(5), num_samples=13)])",
    "sorted(D.SubsetRandomSampler([3, 9]))",
    "[*D.WeightedRandomSampler([0.0, 1.0], 3)]",
    "[*D.BatchSampler(D.SequentialSampler(range(5)), 2, True)]",
    # gradients and vectors
    "nn.utils.parameters_to_vector([torch.ones(2, 1), torch.zeros(1)])",
    "nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([4.0])], norm_type=1)",
    "nn.utils.get_total_norm([torch.tensor([3.0]), torch.tensor([-4.0])], norm_type=float('inf'))",
    "nn.utils.get_total_norm([])",
    # padded sequences
    "nn.utils.rnn.pad_sequence([torch.ones(1, 2), torch.ones(3, 2)], padding_value=-1.0)",
    "nn.utils.rnn.pad_sequence([torch.ones(1), torch.ones(3)], batch_first=True, padding_side='left')",
    "tuple(nn.utils.rnn.pack_sequence([torch.arange(1), torch.arange(3)], enforce_sorted=False))",
    "nn.utils.rnn.pad_packed_sequence(nn.utils.rnn.pack_sequence([torch.arange(3), torch.arange(1)]), True, 9, 4)",
    "nn.utils.rnn.unpad_sequence(torch.ones(3, 2), torch.tensor([1, 3]))",
    # functions of functions
    "func.grad(lambda x: (x**3).sum())(V)",
    "func.grad(lambda a, b: (a * b * b).sum(), argnums=(1, 0))(V, W)",
    "func.grad(lambda p: (p['a'] * p['b'][0]).sum())({'a': V, 'b': [W]})",
    "func.grad(func.grad(func.grad(lambda x: x**5)))(V[0])",
    "func.grad(lambda a: func.grad(lambda b: (a * b * b).sum())(W).sum())(V)",
    "func.grad(lambda x: ((x**2).sum(), x * 2), has_aux=True)(V)",
    "func.grad_and_value(lambda x: ((x**2).sum(), x * 2), has_aux=True)(V)",
    "func.grad(lambda x: torch.ones(()))(V)",
    "func.vjp(lambda a: (a * a, a.sum()), V)[1]((V, W[0]))",
    "func.jvp(lambda a, b: (a * b, a.sum()), (V, W), (W, V))",
    "func.jvp(func.grad(lambda a: (a**3).sum()), (V,), (W,))",
    "func.jacrev(lambda a, b: {'o': a * b}, argnums=(0, 1))(V, W)",
    "func.jacfwd(lambda a: a[0] * a)(V)",
    "func.hessian(lambda a: (a**3).prod())(V)",
    "func.jacrev(func.jacrev(lambda a: a**3))(V)",
    "func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))",
    "func.vmap(lambda a, b: a * b, in_dims=(0, None), out_dims=1)(V, W)",
    "func.vmap(func.grad(lambda a: a**3))(V)",
    "func.vmap(lambda d: (d['a'] + 1, d['a']), in_dims=({'a': 1},))({'a': torch.ones(2, 3)})",
    "func.functional_call(nn.Linear(2, 1), {'weight': torch.ones(1, 2), 'bias': torch.ones(1)}, V.float())",
    "func.functional_call(nn.Linear(2, 1), ({'weight': torch.ones(1, 2)}, {'bias': torch.ones(1)}), (V.float(),))",
    "func.grad(lambda x: (x * 2).sum())(V).requires_grad",
]


@pytest.mark.parametrize("text", SAME)
def test_says_the_same(text):
    numbers = {"V": numpy.array([1.5, -2.0]), "W": numpy.array([3.0, 0.5])}
    theirs, ours = (
        both(text, numpy=numpy, **{key: package.from_numpy(value.copy()) for key, value in numbers.items()})[place]
        for place, package in enumerate((torch, plugrad))
    )
    if isinstance(theirs, Exception):
        raise theirs
    if isinstance(ours, Exception):
        raise ours
    assert close(listed(ours), listed(theirs)), (ours, theirs)


WRONG = [
    "D.random_split([1, 2, 3], [1, 1])",
    "D.random_split([1, 2, 3], [0.5, 0.6])",
    "D.DataLoader([1], batch_size=0)",
    "D.DataLoader([1], sampler=[0], shuffle=True)",
    "D.DataLoader([1], batch_sampler=[[0]], batch_size=2)",
    "D.DataLoader([1], batch_size=None, drop_last=True)",
    "D.DataLoader([1], num_workers=-1)",
    "D.DataLoader([1], timeout=-1)",
    "D.TensorDataset(torch.zeros(2), torch.zeros(3))",
    "D.ConcatDataset([])",
    "D.ConcatDataset([[1], [2]])[-3]",
    "D.default_collate([torch.zeros(2), torch.zeros(3)])",
    "D.default_collate([object()])",
    "D.default_collate([(1, 2), (1,)])",
    "D.RandomSampler([1], num_samples=0)",
    "D.WeightedRandomSampler([1.0], -1)",
    "D.BatchSampler([1], 0, False)",
    "D.Dataset()[0]",
    "len(D.Dataset())",
    "nn.utils.vector_to_parameters([1], [])",
    "nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2), [1, 3])",
    "nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2), [1, 0])",
    "func.functional_call(nn.Linear(2, 1), {'weight': torch.ones(1, 2)}, torch.ones(2), strict=True)",
    "func.functional_call(nn.Linear(2, 1), 3, torch.ones(2))",
    "func.functional_call(nn.Linear(2, 1), ({'weight': 1}, {'weight': 1}), torch.ones(2))",
    "func.grad(lambda x: x * 2)(torch.ones(2))",
    "func.grad(lambda x: 3.0)(torch.ones(2))",
    "func.grad(lambda x: x.sum(), argnums=1)(torch.ones(2))",
    "func.grad(lambda x: x.sum())(3.0)",
    "func.vjp(lambda x: (x, x), torch.ones(2))[1](torch.ones(2))",
    "func.jvp(lambda x: x, torch.ones(2), (torch.ones(2),))",
    "func.jvp(lambda x: x, (torch.ones(2),), (torch.ones(1),))",
    "func.vmap(lambda a, b: a)(torch.ones(2), torch.ones(3))",
    "func.vmap(lambda a: a)(3)",
    "func.vmap(lambda a: 3)(torch.ones(2))",
    "func.vmap(lambda a: a, in_dims=None)(torch.ones(2))",
    "func.vmap(lambda a: a, in_dims=(0, 0))(torch.ones(2))",
    "func.vmap(lambda a: a, in_dims=5)(torch.ones(2))",
]


@pytest.mark.parametrize("text", WRONG)
def test_refuses_the_same(text):
    theirs, ours = both(text)
    assert isinstance(theirs, Exception) and type(ours) is type(theirs), (theirs, ours)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf"), "inf"])
@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clip_grad_norm(norm_type, max_norm):
    results = []
    for package in (torch, plugrad):
        weights = [package.nn.Parameter(package.ones(shape)) for shape in ((2, 3), (4,), (1,))]
        for number, weight in enumerate(weights[:2]):
            weight.grad = package.arange(float(weight.numel())).reshape(weight.shape) - number
        total = package.nn.utils.clip_grad_norm_((w for w in weights), max_norm, norm_type)
        results.append(listed([total, *(w.grad for w in weights[:2])]))
    assert close(*results)


def test_clip_refuses_what_is_not_finite():
    weight = plugrad.nn.Parameter(plugrad.ones(2))
    weight.grad = plugrad.tensor([1.0, float("nan")])
    with pytest.raises(RuntimeError, match="non-finite"):
        plugrad.nn.utils.clip_grad_norm_([weight], 1.0, error_if_nonfinite=True)
    weight.grad = plugrad.tensor([1.0, -7.0])
    plugrad.nn.utils.clip_grad_value_(weight, 2)
    assert weight.grad.tolist() == [1.0, -2.0]


def test_vector_to_parameters_shares_memory():
    weights = [plugrad.nn.Parameter(plugrad.zeros(2, 2)), plugrad.nn.Parameter(plugrad.zeros(3))]
    vector = plugrad.arange(7.0)
    plugrad.nn.utils.vector_to_parameters(vector, weights)
    vector[5] = 50.0
    assert weights[0].tolist() == [[0.0, 1.0], [2.0, 3.0]] and weights[1].tolist() == [4.0, 50.0, 6.0]
    assert all(w.is_leaf and w.requires_grad for w in weights)


def test_iterable_dataset():
    data = part(plugrad, "utils.data")

    class Count(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    assert [b.tolist() for b in data.DataLoader(Count(), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in data.DataLoader(Count(), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert [*(Count() + Count())] == [0, 1, 2, 3, 4] * 2
    with pytest.raises(ValueError, match="shuffle"):
        data.DataLoader(Count(), shuffle=True)


def test_shuffling_is_seeded():
    data = part(plugrad, "utils.data")
    orders = []
    for seed in (1, 1, 2):
        loader = data.DataLoader(range(50), 7, shuffle=True, generator=plugrad.Generator().manual_seed(seed))
        orders.append(list(itertools.chain.from_iterable(batch.tolist() for batch in loader)))
    assert sorted(orders[0]) == list(range(50)) and orders[0] == orders[1] != orders[2]


def test_workers_are_accepted():
    data = part(plugrad, "utils.data")
    loader = data.DataLoader(range(3), num_workers=2, prefetch_factor=2, persistent_workers=True)
    assert [b.item() for b in loader] == [0, 1, 2] and data.get_worker_info() is None


def model(package):
    nn = package.nn
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Tanh(), nn.Linear(4, 1))


def gradients(net, run):
    x = plugrad.arange(6.0).reshape(2, 3).requires_grad_()
    net.zero_grad()
    plugrad.manual_seed(0)
    run(x).sum().backward()
    return [x.grad, *(p.grad for p in net.parameters())]


def test_checkpoint_gives_the_same_gradients():
    from plugrad.utils.checkpoint import checkpoint, checkpoint_sequential

    net = model(plugrad)
    plain = gradients(net, net)
    for run in (
        lambda x: checkpoint(net, x, use_reentrant=False),
        lambda x: checkpoint_sequential(net, 3, x, use_reentrant=False),
    ):
        for one, other in zip(gradients(net, run), plain, strict=True):
            assert plugrad.allclose(one, other)


def test_checkpoint_recomputes_and_keeps_nothing():
    from plugrad.utils.checkpoint import checkpoint

    calls = []

    def function(pair, scale):
        calls.append(plugrad.is_grad_enabled())
        return pair["a"] * pair["a"] * scale, pair["b"]

    x = plugrad.ones(3, requires_grad=True)
    first, second = checkpoint(function, {"a": x, "b": 2 * x}, scale=x, use_reentrant=True)
    assert calls == [False]
    (first * second).sum().backward()
    assert calls == [False, True] and x.grad.tolist() == [8.0, 8.0, 8.0]
    with plugrad.no_grad():
        assert not checkpoint(lambda x: x * 2, x, use_reentrant=True).requires_grad
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda x: x, x, use_reentrant=True, context_fn=lambda: None)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_of_what_requires_no_grad(reentrant):
    weight, x = 2.0, [1.0, 2.0]
    for T in (torch, plugrad):
        w = T.tensor(weight, requires_grad=True)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            y = T.utils.checkpoint.checkpoint(lambda x: (x * w).sin(), T.tensor(x), use_reentrant=reentrant)  # noqa: B023
        assert [str(w.message) for w in seen if "requires_grad=True" in str(w.message)] == [
            "None of the inputs have requires_grad=True. Gradients will be None"
        ] * reentrant
        assert y.requires_grad is not reentrant
        with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
            T.utils.checkpoint.checkpoint(lambda x: x * 2, T.tensor(x, requires_grad=True))


def test_a_checkpoint_that_is_recorded_has_gradients_of_any_order():
    def gradients(T, run):
        w, x = T.tensor(0.5, requires_grad=True), T.tensor([0.25, 1.0, -1.0], requires_grad=True)
        y = run(lambda x: (x * w).sin() * T.cat([x, x]).exp().sum(), x)
        (g,) = T.autograd.grad(y.square().sum(), x, create_graph=True)
        (g * x.detach()).sum().backward(retain_graph=True)
        y.sum().backward()
        return [g.tolist(), x.grad.tolist(), w.grad.tolist()]

    def checkpointed(function, x):
        return plugrad.utils.checkpoint.checkpoint(function, x, use_reentrant=False)

    expected = gradients(torch, lambda function, x: function(x))
    for values, found in zip(expected, gradients(plugrad, checkpointed), strict=True):
        assert found == pytest.approx(values, rel=1e-5)


def test_a_checkpoint_that_does_something_else_the_second_time():
    x, calls = plugrad.ones(2, requires_grad=True), []

    def function(x):
        calls.append(1)
        return x.sin() if len(calls) == 1 else x.sin().exp().tanh()

    y = plugrad.utils.checkpoint.checkpoint(function, x, use_reentrant=False, early_stop=False)
    with pytest.raises(RuntimeError, match="different number of tensors was saved"):
        y.sum().backward()


def test_checkpoint_leaves_the_generator_alone():
    from plugrad.utils.checkpoint import checkpoint

    plugrad.manual_seed(3)
    x = plugrad.ones(5, requires_grad=True)
    y = checkpoint(lambda x: plugrad.nn.functional.dropout(x), x, use_reentrant=False)
    state = plugrad.get_rng_state()
    y.sum().backward()
    assert plugrad.equal(plugrad.get_rng_state(), state)
    assert plugrad.equal(x.grad, y.detach())


def test_functional_call_restores_the_module():
    net = plugrad.nn.Linear(2, 1)
    own = net.weight
    with pytest.raises(RuntimeError):
        plugrad.func.functional_call(net, {"weight": plugrad.ones(1, 3)}, plugrad.ones(2))
    assert net.weight is own


def test_functional_call_of_tied_parameters_and_buffers():
    nn = plugrad.nn
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False), nn.BatchNorm1d(2))
    net[1].weight = net[0].weight
    twice = plugrad.func.functional_call(
        net.eval(), {"0.weight": 2 * plugrad.eye(2), "2.running_mean": plugrad.ones(2)}, plugrad.ones(1, 2)
    )
    assert twice.tolist()[0] == pytest.approx([3.0, 3.0], rel=1e-4)


def test_ensemble_by_vmap():
    models = [plugrad.nn.Linear(2, 1) for _ in range(3)]
    parameters, buffers = plugrad.func.stack_module_state(models)
    x = plugrad.randn(4, 2)

    def run(parameters, buffers, x):
        return plugrad.func.functional_call(models[0], (parameters, buffers), (x,))

    outputs = plugrad.func.vmap(run, in_dims=(0, 0, None))(parameters, buffers, x)
    assert plugrad.allclose(outputs, plugrad.stack([net(x) for net in models]))


def test_closures_take_part_in_higher_derivatives():
    grad = plugrad.func.grad
    x, y = plugrad.tensor(3.0), plugrad.tensor(2.0)
    # d/dx of (d/dy x**2 y**2) = 4 x y, though the inner function only closes over x
    assert grad(lambda x: grad(lambda y: x**2 * y**2)(y))(x).item() == 24.0
    weight = plugrad.ones((), requires_grad=True)
    grad(lambda x: x * x * weight)(x).backward()
    assert weight.grad.item() == 6.0


def test_cuda_without_a_device():
    cuda = plugrad.cuda
    if cuda.is_available():
        assert cuda.device_count() > 0 and cuda.get_device_name()
        cuda.synchronize()
        return
    assert cuda.device_count() == 0 and cuda.memory_allocated() == 0
    cuda.manual_seed_all(0)
    cuda.empty_cache()
    with pytest.raises(AssertionError, match="CUDA can't be used here: "):
        cuda.synchronize()


def test_the_first_random_numbers_of_a_process_are_those_of_its_seed():
    program = (
        "import plugrad as torch\n"
        "for draw in (torch.rand, torch.randn, torch.randperm):\n"
        "    drawn = [(torch.manual_seed(0), draw(5))[1].tolist() for _ in range(2)]\n"
        "    assert drawn[0] == drawn[1], draw\n"
    )
    assert distribution_builder.output(program) == ""


@pytest.mark.parametrize("replacement", [True, False])
def test_an_endless_sampler_begins_at_once(replacement):
    for package in (torch, plugrad):
        sampler = part(package, "utils.data").RandomSampler(range(40), replacement=replacement, num_samples=2**62)
        assert len(sampler) == 2**62 and {*itertools.islice(sampler, 100)} <= {*range(40)}


@pytest.mark.parametrize(
    "text",
    [
        "torch.tensor(deque([1.0, 2.0]))", "torch.tensor(deque([[1, 2], [3, 4]]))", "torch.tensor([deque([1, 2])])",
        "torch.tensor(deque())", "torch.tensor(UserList([1, 2]))",
        "torch.tensor(deque([torch.ones(()), torch.ones(())]))",
        "torch.tensor('ab')", "torch.tensor(b'ab')", "torch.tensor({1})",
    ],
)  # fmt: skip
def test_a_tensor_of_any_sequence(text):
    theirs, ours = both(text, deque=collections.deque, UserList=collections.UserList)
    if isinstance(theirs, Exception):
        assert type(ours) is type(theirs)
    else:
        assert (ours.tolist(), str(ours.dtype)) == (theirs.tolist(), str(theirs.dtype))


@pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
def test_the_number_of_threads_of_kernels_in_c(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # not installed
    before = kernels.module().get_num_threads()
    try:
        for number in (3, 1):
            with pytest.warns(UserWarning, match="the BLAS of NumPy uses as many threads as before"):
                plugrad.set_num_threads(number)
            assert kernels.module().get_num_threads() == plugrad.get_num_threads() == number
    finally:
        kernels.module().set_num_threads(before)


def test_the_number_of_threads_is_what_was_set_and_part_of_the_process():
    pytest.importorskip("threadpoolctl")
    before = plugrad.get_num_threads()
    try:
        plugrad.set_num_threads(2)
        assert plugrad.get_num_threads() == 2
        state = ProcessState(names=False)
        plugrad.set_num_threads(1)
        assert plugrad.get_num_threads() == 1
        assert state.repair() == ["the number of threads"]
        assert plugrad.get_num_threads() == 2
    finally:
        plugrad.set_num_threads(before)


def test_a_module_that_another_thread_is_importing_is_no_damage(monkeypatch):
    module = types.ModuleType("plugrad.half_imported")
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    module.__spec__._initializing = True
    exec(compile("def __getattr__(name):\n    return TABLE[name]\n", plugrad.nn.__file__, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    state = ProcessState()
    module.TABLE, module.__spec__._initializing = {}, False
    assert state.repair() == [] and module.TABLE == {}


def test_hooks_of_all_modules_are_put_back_as_they_were_called():
    seen, everywhere = [], plugrad.nn.modules.module
    handles = [
        everywhere.register_module_forward_pre_hook(lambda m, a: seen.append("before")),
        everywhere.register_module_forward_hook(lambda m, a, k, y: seen.append(k), with_kwargs=True),
        everywhere.register_module_forward_hook(lambda m, a, y: seen.append("always"), always_call=True),
    ]
    try:
        before = ProcessState(names=False)
        for handle in handles:
            handle.remove()
        assert before.repair() == ["hooks of all modules"]
        plugrad.nn.Identity()(1)
        with pytest.raises(TypeError):
            plugrad.nn.Linear(1, 1)(None)
        assert seen == ["before", {}, "always", "before", "always"]
    finally:
        for handle in handles:
            handle.remove()
    assert ProcessState(names=False).repair() == []


def test_lazy_modules_that_are_collected_meanwhile_are_nobodys_doing():
    for made_meanwhile in False, True:
        before, lazy = ProcessState(names=False), plugrad.nn.LazyLinear(2)
        if not made_meanwhile:
            before = ProcessState(names=False)
        else:
            assert before.repair() == []
        del lazy
        assert before.repair() == []
    model = plugrad.nn.Sequential(plugrad.nn.LazyLinear(3), plugrad.nn.LazyLinear(2))
    assert model(plugrad.ones(2, 4)).shape == (2, 2)  # what sees the first call of a model was left in its place


def test_a_state_after_a_repaired_one_sees_what_one_that_looks_anew_sees(monkeypatch):
    function, kernels_of = plugrad.printing.set_printoptions, plugrad.registry.op("sin").kernels
    before, x = ProcessState(), plugrad.ones(2)
    for step in range(3):
        x.add_(step)  # counted in the core
        monkeypatch.setattr(process_state, "a_name_of_ours", len if step else None, raising=False)
        assert before.repair() == []
        after, anew = ProcessState(after=before), ProcessState()
        assert [*after.names] == [*anew.names] and after.functions is anew.functions
        for holder, names in anew.names.items():
            assert all(map(operator.is_, after.names[holder].values(), names.values())), holder
        assert all(map(operator.is_, after.insides, anew.insides)) and after.records == anew.records
        changes = (
            lambda: setattr(plugrad, "manual_seed", print),
            lambda: setattr(function, "__kwdefaults__", {"precision": 3}),
            lambda: kernels_of.update(any=print),
        )
        changes[step]()
        named = ("plugrad.manual_seed", "what plugrad.printing", "the record of op 'sin'")
        (told,) = after.repair()
        assert told.startswith(named[step])
        assert plugrad.sin is plugrad.registry.op("sin").function  # which is made anew where its record was put back
        assert ProcessState(after=after).repair() == [] == anew.repair()
        before = ProcessState(after=anew)


@pytest.mark.skipif(kernels.level() is None, reason=f"no kernels in C: {kernels.why_none()}")
def test_the_number_of_threads_is_put_back_quietly_where_the_blas_can_not_be_told(monkeypatch):
    """As in an environment of plugrad alone, where checks take warnings for errors."""
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # not installed
    before, state = kernels.module().get_num_threads(), ProcessState(names=False)
    try:
        with pytest.warns(UserWarning, match="pip install threadpoolctl"):
            plugrad.set_num_threads(before + 1)
        assert state.repair() == ["the number of threads"]
        assert kernels.module().get_num_threads() == before
        (case,) = (case for case in cases(unary(vjp=None)(twice)) if case.name == "numbers of threads")
        assert case.run() is None
    finally:
        kernels.module().set_num_threads(before)


def twice(xp, input):
    """Two times the input."""
    return input + input
