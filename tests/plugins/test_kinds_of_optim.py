"""Optimizers of other kinds than `update`, complex parameters, and steps that are differentiated: as in PyTorch."""

import copy
import warnings
from importlib import import_module

import numpy
import pytest

import plugrad
from support.outcomes import all_as_pytorch, plain, same_as_pytorch

DRAWS = numpy.random.default_rng(0)
MATRICES = [DRAWS.standard_normal(shape).tolist() for shape in ((4, 5), (7, 2), (3, 3))]
VARIOUS = [DRAWS.standard_normal(shape).tolist() for shape in ((4, 5), (6,), (), (1,), (2, 3, 2))]


def trained(T, name, options, values, dtype, steps=4):
    """Return parameters and state after some steps on a loss, the second half after saving and loading."""
    start = [T.tensor(value, dtype=getattr(T, dtype)) for value in values]
    params = [p.clone().requires_grad_() for p in start]
    optimizer = getattr(T.optim, name)(params, **options)
    losses = []
    for step in range(steps):
        if step == 2:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = getattr(T.optim, name)(params, **options)
            optimizer.load_state_dict(state)

        def closure(optimizer=optimizer):
            optimizer.zero_grad()
            distances = [p - 0.3 * place for place, p in enumerate(params)]
            loss = sum([(d * d.conj()).real.sum() if d.is_complex() else (d * d).sum() for d in distances])
            loss.backward()
            return loss

        losses.append(optimizer.step(closure).item())
    states = [{key: value for key, value in sorted(s.items())} for s in optimizer.state_dict()["state"].values()]
    return losses, params, states, repr(optimizer)


KINDS = [
    ("LBFGS", {"max_iter": 2}, VARIOUS),
    ("LBFGS", {"lr": 0.1, "max_iter": 5, "history_size": 3}, VARIOUS),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 3}, VARIOUS),
    ("LBFGS", {"tolerance_grad": 10.0}, VARIOUS),
    ("Adafactor", {}, VARIOUS),
    ("Adafactor", {"lr": 0.5, "weight_decay": 0.1, "maximize": True, "d": 1.5, "eps": (1e-3, 1e-2)}, VARIOUS),
    ("Adafactor", {"beta2_decay": -1.0}, VARIOUS),
    ("Muon", {}, MATRICES),
    ("Muon", {"lr": 0.1, "nesterov": False, "weight_decay": 0.0, "adjust_lr_fn": "match_rms_adamw"}, MATRICES),
    ("Muon", {"momentum": 0.5, "ns_steps": 3, "ns_coefficients": (3.4, -4.7, 2.0)}, MATRICES),
]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "options", "values"), KINDS)
def test_kinds(name, options, values, dtype):
    rough = 5e-3 if name == "Muon" else 1e-3  # Muon rounds to bfloat16
    same_as_pytorch(trained, name, options, values, dtype, rtol=rough, atol=rough / 10)


def rosenbrock(T, search):
    """Follow a valley: the line search brackets, narrows and gives up."""
    x = T.tensor([-1.5, 2.0], dtype=T.float64, requires_grad=True)
    optimizer = T.optim.LBFGS([x], max_iter=6, history_size=4, line_search_fn=search, lr=1.0 if search else 1e-3)

    def closure():
        optimizer.zero_grad()
        loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(8)]
    state = optimizer.state_dict()["state"][0]
    return losses, x, state["func_evals"], state["n_iter"]


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_in_a_valley(search):
    same_as_pytorch(rosenbrock, search, rtol=1e-6)


COMPLEX = {
    "SGD": {"momentum": 0.9}, "Adam": {"amsgrad": True}, "AdamW": {}, "RMSprop": {"centered": True},
    "Adagrad": {"initial_accumulator_value": 0.1}, "Adadelta": {}, "Adamax": {}, "NAdam": {}, "RAdam": {}, "ASGD": {},
    "Rprop": {}, "LBFGS": {"max_iter": 3},
}  # fmt: skip


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters(name):
    values = [(numpy.array(value) * (1 + 2j)).tolist() for value in VARIOUS]
    same_as_pytorch(trained, name, COMPLEX[name], values, "complex128", rtol=1e-6)


def test_complex_parameters_in_any_memory_layout():
    p = (plugrad.arange(6.0).reshape(2, 3).T + 1j).requires_grad_()
    q = p.detach().clone(memory_format=plugrad.contiguous_format).requires_grad_()
    for t in (p, q):
        t.grad = plugrad.ones_like(t) * (1 - 1j)
        plugrad.optim.SGD([t], lr=0.5).step()
        plugrad.optim.Adam([t], lr=0.5).step()
    assert not p.is_contiguous() and (p == q).all()


STATES = {
    "SGD": ["momentum_buffer"], "Adam": ["exp_avg", "exp_avg_sq"], "AdamW": ["exp_avg", "exp_avg_sq"],
    "RMSprop": ["square_avg"], "Adadelta": ["square_avg", "acc_delta"], "Adagrad": ["sum"],
    "Adamax": ["exp_avg", "exp_inf"], "Rprop": ["prev", "step_size"], "NAdam": ["exp_avg", "exp_avg_sq", "mu_product"],
    "RAdam": ["exp_avg", "exp_avg_sq"],
}  # fmt: skip


def differentiated(T, name, options, learned=None):
    """Return what a step gives, and its gradients to parameter, gradient, state and one option."""
    draws = numpy.random.default_rng(1)

    def leaf(shape=(2, 3), low=0.0):
        return T.tensor((draws.random(shape) + low).tolist(), dtype=T.float64, requires_grad=True)

    start, slope = leaf(low=-0.5), leaf(low=-0.5)
    if learned:
        options = {**options, learned: T.tensor(options[learned], dtype=T.float64, requires_grad=True)}
    p = start.clone()
    optimizer = getattr(T.optim, name)([p], **options, differentiable=True)
    state = {key: leaf(() if key == "mu_product" else (2, 3), 0.5) for key in STATES[name]}
    if name != "SGD":
        optimizer.state[p]["step"] = T.tensor(9.0, dtype=T.float64)
    optimizer.state[p].update({key: value.clone() for key, value in state.items()})
    p.grad = slope
    optimizer.step()
    total = (p * T.arange(6.0, dtype=T.float64).reshape(2, 3)).sum()
    total = total + sum([value.sum() for value in optimizer.state[p].values() if value.requires_grad])
    total.backward()
    leaves = [start, slope, *state.values(), *([options[learned]] if learned else ())]
    return p, [t.grad for t in leaves], p.grad_fn is not None


DIFFERENTIATED = [
    ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1}, None),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}, "lr"),
    ("Adam", {"lr": 0.1, "weight_decay": 0.1}, None),
    ("Adam", {"lr": 0.1}, "lr"),
    ("AdamW", {"lr": 0.1}, "lr"),
    ("RMSprop", {}, None),
    ("Adadelta", {"weight_decay": 0.1}, None),
    ("Adagrad", {"lr_decay": 0.1}, None),
    ("Adamax", {"weight_decay": 0.1}, None),
    ("Rprop", {"lr": 0.1}, None),
    ("NAdam", {"weight_decay": 0.1}, None),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}, "weight_decay"),
    ("RAdam", {"weight_decay": 0.1}, None),
]


@pytest.mark.parametrize(("name", "options", "learned"), DIFFERENTIATED)
def test_differentiable_steps(name, options, learned):
    same_as_pytorch(differentiated, name, options, learned, rtol=1e-6)


def test_several_differentiable_steps_and_all_options():
    start = plugrad.tensor([1.0, -2.0], dtype=plugrad.float64)
    options = [plugrad.tensor(b, dtype=plugrad.float64, requires_grad=True) for b in (0.8, 0.9, 0.1, 0.2)]

    def total(beta1, beta2, lr, weight_decay):
        p = start.clone().requires_grad_().clone()
        chosen = {"lr": lr, "betas": (beta1, beta2), "weight_decay": weight_decay}
        optimizer = plugrad.optim.Adam([p], **chosen, differentiable=True)
        for factor in (1.0, -0.5, 2.0):
            p.grad = p * factor
            optimizer.step()
        return (p * p).sum()

    assert plugrad.autograd.gradcheck(total, options)


def test_a_differentiable_step_of_ones_own():
    class Signed(plugrad.optim.Optimizer):
        def __init__(self, params, differentiable=False):
            super().__init__(params, {"differentiable": differentiable})

        def update(self, xp, p, g, state, group):
            t = self.scratch(xp, p)
            xp.multiply(xp.sign(g), p, t)
            p -= t * 0.5

    class Odd(Signed):
        def update(self, xp, p, g, state, group):
            p -= xp.fft.fft(g)

    x = plugrad.tensor([1.0, -2.0], requires_grad=True)
    p = x.clone()
    p.grad = plugrad.tensor([3.0, -3.0])
    Signed([p], differentiable=True).step()
    p.sum().backward()
    assert p.tolist() == [0.5, -3.0] and x.grad.tolist() == [0.5, 1.5]
    q = x.clone()
    q.grad = plugrad.ones(2)
    with pytest.raises(NotImplementedError, match="xp.nothing"):
        Odd.update = lambda self, xp, p, g, state, group: xp.nothing(p)
        Odd([q], differentiable=True).step()


class Rows:
    """A sparse gradient, as far as an optimizer looks at it."""

    def __init__(self, rows, values):
        self.rows, self.kept = rows, values

    def coalesce(self):
        return self

    def indices(self):
        return self.rows[None]

    def values(self):
        return self.kept


@pytest.mark.filterwarnings("ignore:Sparse invariant")
def test_sparse_adam_moves_what_has_gradients(torch):
    values = numpy.random.default_rng(2).standard_normal((5, 3))
    p = plugrad.tensor(values.copy(), requires_grad=True)
    q = torch.tensor(values.copy(), requires_grad=True)
    ours, theirs = plugrad.optim.SparseAdam([p], lr=0.1), torch.optim.SparseAdam([q], lr=0.1)
    for rows in ([0, 3], [3], [1, 3, 4]):
        grads = numpy.full((len(rows), 3), 0.5) * (1 + len(rows))
        q.grad = torch.sparse_coo_tensor([rows], grads, (5, 3))
        theirs.step()
        with plugrad.no_grad():
            gradient = Rows(plugrad.tensor(rows), plugrad.tensor(grads))
            ours.change(p, gradient, ours.state[p], ours.param_groups[0])
    numpy.testing.assert_allclose(p.detach().numpy(), q.detach().numpy(), 1e-9)
    for key, value in theirs.state[q].items():
        numpy.testing.assert_allclose(ours.state[p][key], value, 1e-9)


@pytest.mark.parametrize("name", ["Adafactor", "Adam", "SparseAdam", "NAdam"])
def test_steps_that_were_saved_as_numbers(torch, name):
    def steps(T):
        p = T.ones(2, 2, dtype=T.float64).requires_grad_()
        p.grad = T.full_like(p, 0.5).to_sparse(1) if name == "SparseAdam" else T.full_like(p, 0.5)
        first, again = (getattr(T.optim, name)([p], lr=0.1) for _ in range(2))
        first.step()
        saved = first.state_dict()
        saved["state"][0]["step"] = float(saved["state"][0]["step"])
        again.load_state_dict(saved)
        again.step()
        return p.detach().numpy(), type(again.state[p]["step"]).__name__

    (ours, kind), (theirs, their_kind) = steps(plugrad), steps(torch)
    numpy.testing.assert_allclose(ours, theirs, 1e-7)
    assert kind == their_kind


def wrong(T):
    O, p = T.optim, lambda *shape, **kind: T.ones(*(shape or (2, 2)), **kind).requires_grad_()

    def graded(t):
        t.grad = T.ones_like(t)
        return t

    yield lambda: O.SparseAdam([graded(p())]).step()
    yield lambda: O.SparseAdam([p(dtype=T.complex64)])
    for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.0)}, {"lr": -1.0}):
        yield lambda options=options: O.SparseAdam([p()], **options)
    yield lambda: O.Muon([p(3)])
    yield lambda: O.Muon([graded(p(dtype=T.complex64))]).step()
    yield lambda: O.Muon([graded(p())], ns_steps=100).step()
    yield lambda: O.Muon([graded(p())], ns_coefficients=(1.0, 2.0)).step()
    for options in ({"adjust_lr_fn": "x"}, {"lr": -1.0}, {"momentum": -1.0}, {"weight_decay": -1.0}):
        yield lambda options=options: O.Muon([p()], **options)
    yield lambda: O.Adafactor([graded(p(dtype=T.complex64))]).step()
    for options in ({"d": 0.0}, {"beta2_decay": 0.8}, {"eps": (-1.0, 1.0)}, {"eps": (None, -1.0)}, {"lr": -1.0}):
        yield lambda options=options: O.Adafactor([p()], **options)
    yield lambda: O.LBFGS([{"params": [p()]}, {"params": [p()]}])
    yield lambda: O.LBFGS([p()], lr=-1.0)
    yield lambda: O.LBFGS([p()]).step()
    yield lambda: O.LBFGS([graded(p())], line_search_fn="x").step(lambda: T.ones(()))
    tensor = T.tensor
    for betas in ((0.9, tensor(0.99)), (tensor(0.9), 0.99), (1.0, 0.9)):
        yield lambda betas=betas: O.Adam([p()], betas=betas)
    for options in ({"lr": tensor(0.1)}, {"betas": (tensor(0.9), tensor(0.99))}, {"fused": True}):
        yield lambda options=options: O.Adam([p()], **options, foreach=True)
    yield lambda: O.Adam([p()], differentiable=True, fused=True)
    yield lambda: O.SGD([graded(p())], differentiable=True).step()  # nothing is recorded before a leaf
    both = graded(p())
    yield lambda: [O.Adam([both], betas=(tensor(0.9), tensor(0.99))).step(), both]
    yield lambda: O.Adam([{"params": [p()]}, {"params": [("b", p())]}])
    yield lambda: repr(O.SGD([{"params": [p()]}, {"params": [p()], "lr": 0.5}]))


def test_wrong_options():
    all_as_pytorch(wrong)


def hooked(T):
    """Hooks of all optimizers and of one, where a subclass does not call `super().__init__()`."""
    seen = []

    class Own(T.optim.Optimizer):
        def __init__(self):
            self._own = 3

        def step(self, closure=None):
            seen.append(self._own)

    own = Own()
    if T is not plugrad:  # it makes the tables of hooks where something is unpickled, too
        own.__setstate__({"defaults": {}})
    module = import_module(f"{T.__name__}.optim.optimizer")
    handles = [
        module.register_optimizer_step_pre_hook(lambda *call: seen.append("all before")),
        module.register_optimizer_step_post_hook(lambda *call: seen.append("all after")),
        own.register_step_pre_hook(lambda *call: seen.append("before")),
        own.register_step_post_hook(lambda *call: seen.append("after")),
    ]
    own.step()
    for handle in handles:
        handle.remove()
    own.step()
    return seen


def test_hooks_of_subclasses_without_their_bases_init():
    same_as_pytorch(hooked)


def test_options_about_speed_change_nothing():
    results = []
    for options in ({}, {"foreach": True}, {"foreach": False}, {"fused": True}):
        p = plugrad.tensor([1.0, 2.0], requires_grad=True)
        p.grad = plugrad.tensor([0.5, -0.5])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            plugrad.optim.Adam([p], lr=0.1, **options).step()
        results.append(plain(p))
    assert all(result == results[0] for result in results)


def swapped(T):
    """Steps on other parameters and state, and what an optimizer refuses to take."""
    swap = T.optim.swap_in_optimizer_params_and_state

    def graded(*values):
        p = T.tensor(values, requires_grad=True)
        p.grad = T.ones_like(p)
        return p

    def build(*params):
        optimizer = T.optim.Adam([{"params": [p], "lr": 0.1 * (place + 1)} for place, p in enumerate(params)])
        for _ in range(2):
            optimizer.step()
        return optimizer

    mine, others = [graded(1.0, 2.0), graded(3.0)], [graded(5.0, 6.0), graded(7.0)]
    optimizer, given = build(*mine), build(graded(0.5, 0.25), graded(0.0)).state_dict()
    given["param_groups"][1]["lr"] = 0.7
    with swap(optimizer, {"a": others[0], "b": others[1]}, given):
        optimizer.step()
        inside = [group["lr"] for group in optimizer.param_groups]
    optimizer.step()
    seen = [mine, others, inside, repr(optimizer), list(optimizer.state_dict()["state"][0].values())]
    named = {"a": others[0], "b": others[1]}
    refused = [
        (T.optim.Adam([graded(1.0)]), named, given), (optimizer, named, 1), (optimizer, named, {**given, "state": []}),
        (optimizer, named, {**given, "state": {mine[0]: {}}}), (optimizer, named, {**given, "state": {0: 1}}),
        (optimizer, named, {**given, "state": {9: {}}}), (optimizer, named, {**given, "param_groups": ()}),
        (optimizer, named, {**given, "param_groups": given["param_groups"][:1]}), (optimizer, {"a": mine[0]}, given),
    ]  # fmt: skip
    first, second = given["param_groups"]
    for group in (1, {**first, "params": mine[:1]}, {**first, "params": [0, 1]}, {**first, "more": 1}):
        refused.append((optimizer, named, {**given, "param_groups": [group, second]}))
    for arguments in refused:
        try:
            swap(*arguments).__enter__()
            seen.append("taken")
        except RuntimeError:
            seen.append("refused")
    return seen


def test_parameters_and_state_are_swapped():
    assert "taken" not in same_as_pytorch(swapped)
