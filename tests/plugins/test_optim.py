"""Optimizers: the same numbers, state dicts and errors as PyTorch's, and the base class on its own."""

import gc
import itertools
import math
import weakref

import numpy
import pytest

import plugrad
from support.parameters import one, parameter, values

optim = plugrad.optim
SHAPES = [(6, 5), (7,), (3, 4), (), (0, 3), (1,), (90, 100)]  # the last one is too large to be joined with others


def product(**options):
    return [dict(zip(options, values, strict=True)) for values in itertools.product(*options.values())]


DECAY = {"weight_decay": [0, 0.1], "maximize": [False, True]}
CASES = {
    "SGD": [
        *product(lr=[0.1], momentum=[0, 0.9], dampening=[0, 0.3], **DECAY),
        *product(lr=[0.1], momentum=[0.9], nesterov=[True], **DECAY),
    ],
    "Adam": product(
        betas=[(0.9, 0.999), (0.0, 0.5)], amsgrad=[False, True], decoupled_weight_decay=[False, True], **DECAY
    ),
    "AdamW": product(eps=[1e-8, 1e-2], amsgrad=[False, True], **DECAY),
    "RMSprop": product(momentum=[0, 0.9], centered=[False, True], **DECAY),
    "Adagrad": product(lr_decay=[0, 0.1], initial_accumulator_value=[0, 0.5], **DECAY),
    "Adadelta": product(rho=[0.9, 0.5], eps=[1e-6, 1e-2], **DECAY),
    "Adamax": product(betas=[(0.9, 0.999), (0.5, 0.9)], **DECAY),
    "NAdam": product(momentum_decay=[4e-3, 0.1], decoupled_weight_decay=[False, True], **DECAY),
    "RAdam": product(betas=[(0.9, 0.999), (0.5, 0.9)], decoupled_weight_decay=[False, True], **DECAY),
    "ASGD": product(lambd=[1e-4, 0.1], t0=[1e6, 5], **DECAY),
    "Rprop": product(step_sizes=[(1e-6, 50), (1e-3, 0.02)], maximize=[False, True]),
}
ALL = [(name, options) for name, cases in CASES.items() for options in cases]


class Pair:
    """The same parameters here and in PyTorch, under the same gradients."""

    def __init__(self, torch, name, options, shapes=SHAPES, dtype=numpy.float64):
        self.torch, self.dtype, self.rng = torch, dtype, numpy.random.default_rng(0)
        arrays = [self.rng.standard_normal(shape).astype(dtype) for shape in shapes]
        self.ours = [parameter(a) for a in arrays]
        self.theirs = [torch.nn.Parameter(torch.tensor(a)) for a in arrays]
        self.optimizer = getattr(optim, name)(self.ours, **options)
        self.oracle = getattr(torch.optim, name)(self.theirs, **options)

    def step(self, skip=()):
        for index, (a, b) in enumerate(zip(self.ours, self.theirs, strict=True)):
            grad = self.rng.standard_normal(tuple(b.shape)).astype(self.dtype)
            a.grad = None if index in skip else plugrad.tensor(grad)
            b.grad = None if index in skip else self.torch.tensor(grad)
        self.optimizer.step()
        self.oracle.step()

    def compare(self, rtol=1e-6, atol=1e-8):
        for a, b in zip(self.ours, self.theirs, strict=True):
            numpy.testing.assert_allclose(values(a), b.detach().numpy(), rtol, atol)


@pytest.mark.parametrize(("name", "options"), ALL)
def test_parity(torch, name, options):
    pair = Pair(torch, name, options)
    for step in range(12):
        pair.step(skip=(1,) if step % 3 == 0 else ())
    pair.compare()
    ours, theirs = pair.optimizer.state_dict(), pair.oracle.state_dict()
    assert ours["param_groups"] == theirs["param_groups"]
    assert list(ours["state"]) == list(theirs["state"])
    for index, state in theirs["state"].items():
        assert list(ours["state"][index]) == list(state)
        for key, tensor in state.items():
            own = ours["state"][index][key].numpy()
            assert own.dtype == tensor.numpy().dtype
            numpy.testing.assert_allclose(own, tensor.numpy(), 1e-6, 1e-8)
    assert repr(pair.optimizer) == repr(pair.oracle)


@pytest.mark.parametrize("name", CASES)
def test_default_options_are_pytorchs(torch, name):
    p = torch.nn.Parameter(torch.ones(1))
    assert getattr(optim, name)([one()]).defaults == getattr(torch.optim, name)([p]).defaults


@pytest.mark.parametrize("name", CASES)
def test_float32(torch, name):
    pair = Pair(torch, name, {}, dtype=numpy.float32)
    for _ in range(10):
        pair.step()
    pair.compare(rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_pytorchs_state_dict_continues_here(torch, name):
    options = {"momentum": 0.9} if name == "SGD" else {}
    pair = Pair(torch, name, options)
    for _ in range(3):
        pair.step()
    for a, b in zip(pair.ours, pair.theirs, strict=True):
        a.detach().numpy()[...] = b.detach().numpy()
    pair.optimizer = type(pair.optimizer)(pair.ours, **options)
    pair.optimizer.load_state_dict(pair.oracle.state_dict())
    for _ in range(3):
        pair.step()
    pair.compare()


def test_large_parameters_are_updated_in_blocks(torch, monkeypatch):
    monkeypatch.setattr(optim.batching, "BLOCK", 100)
    monkeypatch.setattr(optim.batching, "SMALL", 20)
    for name in ("Adam", "SGD", "ASGD", "NAdam"):
        pair = Pair(torch, name, {}, shapes=[(31, 33), (99,), (3, 3), (4,), (20, 5), (10, 10)])
        for _ in range(4):
            pair.step()
        pair.compare()


@pytest.mark.parametrize("name, options", [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("ASGD", {})])
def test_parameters_that_agree_are_found_at_once_as_one_by_one(monkeypatch, name, options):
    """A batch made without a loop is that of the loop; where parameters do not agree there is none."""
    alike, batches = optim.batching.alike, []

    def steps(found):
        params = [parameter(numpy.linspace(-1, 1, n, dtype="float32")) for n in (3, 5, 2)]
        optimizer = getattr(optim, name)(params, **options)
        monkeypatch.setattr(optim.batching, "alike", lambda *a: batches.append(found and found(*a)) or batches[-1])
        for missing in (None, 1, None, None):
            for number, p in enumerate(params):
                p.grad = None if number == missing else plugrad.full_like(p, 0.1 * number - 0.15).detach()
            optimizer.step()
        return [values(p) for p in params]

    expected = steps(None)
    assert batches == [None] * 4
    for ours, one_by_one in zip(steps(alike), expected, strict=True):
        assert (ours == one_by_one).all()
    counts = name != "SGD"  # its steps, so that they differ from the second on
    known = [bool(batch) for batch in batches[4:]]
    assert known == [not options and not counts, False, not counts, not counts]


@pytest.mark.parametrize("name, options", [("SGD", {}), ("SGD", {"momentum": 0.9}), ("Adam", {}), ("Muon", {})])
def test_nothing_keeps_a_gradient_after_the_step(name, options):
    """Not even a cycle of references, in which it would stay until Python looks for garbage."""
    p = plugrad.nn.Parameter(plugrad.ones(5, 10))
    optimizer = getattr(optim, name)([p], **options)
    gc.disable()
    try:
        for _ in range(2):
            optimizer.zero_grad()
            (p * p).sum().backward()
            data = weakref.ref(p.grad._raw)
            optimizer.step()
        optimizer.zero_grad()
        assert data() is None
    finally:
        gc.enable()


def test_options_may_change_between_steps(torch):
    pair = Pair(torch, "SGD", {})
    pair.step()
    for optimizer in (pair.optimizer, pair.oracle):
        optimizer.param_groups[0].update(momentum=0.5)
    pair.step()
    pair.compare()


def test_state_that_an_option_set_later_needs_starts_at_zero():
    """Where PyTorch's fail, for lack of that state."""
    adam, rms = one(), one()
    optimizers = optim.Adam([adam], lr=0.1), optim.RMSprop([rms], lr=0.1)
    for optimizer, changes in zip(optimizers, ({"amsgrad": True}, {"centered": True})):
        optimizer.step()
        optimizer.param_groups[0].update(changes)
    for grad in (3.0, 0.5):
        for p, optimizer in zip((adam, rms), optimizers):
            p.grad = plugrad.tensor([grad])
            optimizer.step()
    expected, mean, square, largest = 1.0, 0.0, 0.0, 0.0
    for step, grad in enumerate((1.0, 3.0, 0.5), 1):
        mean, square = 0.9 * mean + 0.1 * grad, 0.999 * square + 0.001 * grad**2
        largest = max(largest, square) if step > 1 else 0.0
        root = math.sqrt((largest if step > 1 else square) / (1 - 0.999**step))
        expected -= 0.1 * mean / (1 - 0.9**step) / (root + 1e-8)
    assert values(adam).item() == pytest.approx(expected, rel=1e-5)
    expected, square, average = 1.0, 0.0, 0.0
    for step, grad in enumerate((1.0, 3.0, 0.5), 1):
        square = 0.99 * square + 0.01 * grad**2
        average = 0.99 * average + 0.01 * grad if step > 1 else 0.0
        expected -= 0.1 * grad / (math.sqrt(square - average**2) + 1e-8)
    assert values(rms).item() == pytest.approx(expected, rel=1e-5)


def test_strided_parameters(torch):
    pair = Pair(torch, "Adam", {}, shapes=[(4, 3), (130, 100)])
    bases = [numpy.asfortranarray(values(p)) for p in pair.ours]
    pair.ours = [plugrad.tensor(base.T.copy()).t().detach().requires_grad_() for base in bases]
    assert not pair.ours[0].is_contiguous()
    pair.optimizer = optim.Adam(pair.ours)
    for _ in range(3):
        pair.step()
    pair.compare()


def test_gradients_are_not_changed():
    for name in CASES:
        p = parameter(numpy.ones((3, 4), numpy.float32))
        grad = numpy.linspace(-1, 1, 12, dtype=numpy.float32).reshape(3, 4)
        p.grad = plugrad.tensor(grad)
        optimizer = getattr(optim, name)([p, one()], maximize=True)
        optimizer.step()
        assert (p.grad.numpy() == grad).all() and not (values(p) == 1).all(), name


def test_a_tensor_as_learning_rate():
    a, b = one(), one()
    rate = plugrad.tensor(0.5)
    first, second = optim.Adam([a], lr=rate), optim.Adam([b], lr=0.5)
    first.step()
    second.step()
    assert values(a) == values(b)
    rate.fill_(0.25)
    first.step()
    second.param_groups[0]["lr"] = 0.25
    second.step()
    assert values(a) == values(b)


# ---- groups


def test_parameter_groups():
    a, b = one(), one()
    optimizer = optim.SGD([{"params": [a]}, {"params": b, "lr": 0.5}], lr=0.25)
    optimizer.step()
    assert values(a) == 0.75
    assert values(b) == 0.5
    c = one()
    optimizer.add_param_group({"params": [c], "lr": 1.0})
    optimizer.step()
    assert values(c) == 0.0
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.5, 1.0]


def test_named_parameters():
    a, b = one(), one()
    optimizer = optim.SGD([("a", a), ("b", b)])
    assert optimizer.param_groups[0]["param_names"] == ["a", "b"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(ValueError, match="with/without names"):
        optimizer.add_param_group({"params": [one()]})
    with pytest.raises(ValueError, match="Some param names are missing"):
        optim.SGD([("a", one()), one()])


@pytest.mark.parametrize(
    ("error", "text", "make"),
    [
        (ValueError, "optimizer got an empty parameter list", lambda: optim.SGD([])),
        (TypeError, "should be an iterable of Tensors", lambda: optim.SGD(one())),
        (TypeError, "ordering of tensors in sets", lambda: optim.SGD([{"params": {one()}}])),
        (TypeError, "one of the params is int", lambda: optim.SGD([1])),
        (TypeError, "param_group must be a dict", lambda: optim.SGD([one()]).add_param_group([one()])),
        (ValueError, "Invalid learning rate: -1", lambda: optim.SGD([one()], lr=-1)),
        (ValueError, "Invalid momentum value: -1", lambda: optim.SGD([one()], momentum=-1)),
        (ValueError, "Invalid epsilon value: -1", lambda: optim.Adam([one()], eps=-1)),
        (ValueError, "Invalid weight_decay value: -1", lambda: optim.Adam([one()], weight_decay=-1)),
        (ValueError, "Invalid beta parameter at index 1: 1", lambda: optim.Adam([one()], betas=(0.5, 1))),
        (ValueError, "Invalid rho value: 2", lambda: optim.Adadelta([one()], rho=2)),
        (ValueError, "Invalid eta values: 2, 1", lambda: optim.Rprop([one()], etas=(2, 1))),
        (ValueError, "Nesterov momentum requires", lambda: optim.SGD([one()], nesterov=True)),
        (ValueError, "Tensor lr must be 1-element", lambda: optim.SGD([one()], lr=plugrad.tensor([0.1, 0.1]))),
        (RuntimeError, "`fused` and `foreach`", lambda: optim.Adam([one()], fused=True, foreach=True)),
        (RuntimeError, "`fused` does not support", lambda: optim.Adam([one()], fused=True, differentiable=True)),
    ],
)
def test_errors(error, text, make):
    with pytest.raises(error, match=text):
        make()


def test_a_tensor_in_two_groups_or_made_by_an_operation():
    p = one()
    with pytest.raises(ValueError, match="some parameters appear in more than one parameter group"):
        optim.SGD([{"params": [p]}, {"params": [p]}])
    with pytest.raises(ValueError, match="can't optimize a non-leaf Tensor"):
        optim.SGD([p * 2])
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = optim.SGD([p, p], lr=0.5)
    optimizer.step()
    assert values(p) == 0.5


def test_required_options():
    from plugrad.optim.optimizer import required

    class Custom(optim.Optimizer):
        def __init__(self, params, lr=required):
            super().__init__(params, {"lr": lr})

    with pytest.raises(ValueError, match="didn't specify a value of required optimization parameter lr"):
        Custom([one()])
    with pytest.raises(NotImplementedError, match="Custom defines neither"):
        Custom([{"params": [one()], "lr": 1}]).step()


# ---- stepping


def test_step_returns_what_the_closure_does_and_zero_grad_clears():
    p = one()
    optimizer = optim.SGD([p], lr=0.5)
    assert optimizer.step(lambda: 7) == 7
    assert optimizer.step() is None
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.numpy() == 0
    optimizer.zero_grad()
    assert p.grad is None


def test_a_step_counts_as_a_write():
    p = one()
    before = p._version
    optim.SGD([p]).step()
    assert p._version > before


def test_step_hooks_run_once_around_a_step():
    from plugrad.optim import optimizer as module

    class Twice(optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            return super().step(closure)

    seen = []
    optimizer = Twice([one()])
    handles = [
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append(("pre", o is optimizer, kwargs))),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("post")),
        module.register_optimizer_step_pre_hook(lambda *_: seen.append("global pre")),
        module.register_optimizer_step_post_hook(lambda *_: seen.append("global post")),
    ]
    optimizer.step(closure=None)
    assert seen == ["global pre", ("pre", True, {"closure": None}), "post", "global post"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 4
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((args[0], lambda: 3), {}))
    assert optimizer.step() == 3
    optimizer.register_step_pre_hook(lambda *_: 1)
    with pytest.raises(RuntimeError, match="tuple"):
        optimizer.step()


def test_an_optimizer_written_for_pytorch():
    class Plain(optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"] = 0
                    state["step"] += 1
                    p.detach().numpy()[...] -= group["lr"] * p.grad.numpy()

    p = one()
    optimizer = Plain([p], 0.5)
    optimizer.step()
    assert values(p) == 0.5
    assert optimizer.state_dict()["state"] == {0: {"step": 1}}
    loaded = Plain([one()], 0.5)
    loaded.load_state_dict(optimizer.state_dict())
    assert loaded.state_dict() == optimizer.state_dict()


@pytest.mark.parametrize("elementwise", [True, False])
def test_what_update_is_given(elementwise):
    shapes = []

    class Lion(optim.Optimizer):
        def __init__(self, params, lr=0.5):
            super().__init__(params, {"lr": lr, "maximize": False})

        def slots(self, group):
            return {"step": 0, "mean": self.full(2.0)}

        def update(self, xp, p, g, state, group):
            shapes.append((p.shape, g.shape, state["mean"].shape, state["step"], state["fresh"]))
            assert state["mean"].flat[0] == 2 * state["step"]
            state["mean"] += 2
            p -= group["lr"] * xp.sign(g)

    Lion.elementwise = elementwise
    params = [parameter(numpy.zeros(shape, numpy.float32)) for shape in [(2, 3), (4,)]]
    for p in params:
        p.grad = plugrad.tensor(numpy.ones(tuple(p.shape), numpy.float32))
    optimizer = Lion(params)
    optimizer.step()
    optimizer.step()
    if elementwise:
        assert shapes == [((10,),) * 3 + (1, True), ((10,),) * 3 + (2, False)]
    else:
        assert [s[0] for s in shapes] == [(2, 3), (4,)] * 2
    assert all((values(p) == -1).all() for p in params)
    assert optimizer.state[params[0]]["mean"].shape == (2, 3)
    assert optimizer.state[params[0]]["step"].item() == 2


def test_exchanged_state_and_values_are_seen():
    params = [one(), one(2.0)]
    optimizer = optim.SGD(params, lr=1.0, momentum=0.5)
    optimizer.step()
    optimizer.state[params[0]]["momentum_buffer"] = plugrad.tensor([10.0])
    params[1].data = plugrad.tensor([100.0])
    optimizer.step()  # buffers: 0.5 * 10 + 1 and 0.5 * 1 + 1
    assert values(params[0]) == 0.0 - 6.0
    assert values(params[1]) == 100.0 - 1.5
    del optimizer.state[params[0]]
    optimizer.step()  # buffers: 1 again, and 0.5 * 1.5 + 1
    assert values(params[0]) == -7.0
    assert values(params[1]) == 98.5 - 1.75
