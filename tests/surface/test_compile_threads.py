"""Other threads use what a program holds while it is captured: they see nothing of that, nor the capture of them.

The program itself asks another thread, in the middle of its capture, to do something, and waits for it.
"""

import copy
import io
import pickle
import queue
import random
import threading
import warnings

import numpy
import pytest

import plugrad as torch
from plugrad import nn

X = torch.tensor([[1.0, -2.0, 0.5]])


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))


def values(tensors):
    return [None if t is None else t.tolist() for t in tensors]


def grads(net):
    return values(torch.autograd.grad(net(X).sum(), list(net.parameters())))


def accumulated(net):
    net.zero_grad()
    net(X).sum().backward()
    return values(p.grad for p in net.parameters())


def stepped(net):
    accumulated(net)
    torch.optim.SGD(net.parameters(), lr=0.5).step()
    return values(net.parameters())


def saved(net):
    file = io.BytesIO()
    torch.save(net.state_dict(), file)
    file.seek(0)
    return values(torch.load(file).values())


def copied(net):
    twins = copy.deepcopy(net), pickle.loads(pickle.dumps(net))
    return [[(type(p).__name__, p.tolist(), p.requires_grad) for p in twin.parameters()] for twin in twins]


def looked_at(net):
    return [(repr(p), p.numpy(force=True).tolist(), p.device.type, p.is_leaf, p.grad) for p in net.parameters()]


def written(net):
    with torch.no_grad():
        for p in net.parameters():
            p.mul_(2).add_(1)
    return values(net.parameters())


def replaced(net):
    for p in net.parameters():
        p.data = p.data + 1
    return values(net.parameters())


def forward(net):
    return net(X).tolist()


def printed(net):
    print(net)
    return net[0].weight.tolist()


USES = [forward, grads, accumulated, stepped, saved, copied, looked_at, written, replaced, printed]


class Capture:
    """Captures a program that holds a model, and in the middle of it has `use(model)` called in another thread."""

    def __init__(self, net, use, wrap=lambda function: function):
        asked, answered, self.results = queue.SimpleQueue(), queue.SimpleQueue(), []
        go, wait = asked.put, answered.get  # builtins, which a capture does not follow

        def program(x):
            y = net(x)
            go(True)
            wait(True, 60)
            return net(x) + y

        def work():
            while asked.get():
                try:
                    self.results.append(use(net))
                except BaseException as error:
                    self.results.append(error)
                answered.put(None)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            self.first = torch.compile(wrap(program), fullgraph=True)(X)
        finally:
            asked.put(False)
            worker.join()


@pytest.mark.parametrize("use", USES, ids=lambda use: use.__name__)
def test_another_thread_uses_the_parameters_of_a_capture(use):
    net, twin = model(), model()
    expected = use(twin)
    capture = Capture(net, use)
    assert capture.results[0] == expected
    for mine, its in zip(net.parameters(), twin.parameters()):
        assert type(mine) is nn.Parameter and mine.device.type == "cpu" and mine.is_leaf
        if len(capture.results) == 1:
            assert torch.equal(mine, its)
            assert (mine.grad is None) == (its.grad is None) and (mine.grad is None or torch.equal(mine.grad, its.grad))
    assert torch.allclose(capture.first, 2 * net(X))  # the capture is followed by a run, with what is there then


def test_an_optimizer_that_a_program_steps_is_stepped_by_another_thread():
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    other = nn.Parameter(torch.ones(2))
    alone = torch.optim.SGD([other], lr=0.5)

    def use(net):
        other.grad = torch.ones(2)
        alone.step()
        optimizer.step()  # nothing has a gradient here
        return other.tolist()

    def wrap(program):
        def step(x):
            optimizer.zero_grad()
            loss = program(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    twin = model()
    loss = 2 * twin(X).sum()
    loss.backward()
    torch.optim.SGD(twin.parameters(), lr=0.5).step()
    capture = Capture(net, use, wrap)
    assert capture.results[0] == [0.5, 0.5] and not isinstance(capture.results[-1], BaseException)
    assert capture.first.item() == pytest.approx(loss.item())
    for mine, its in zip(net.parameters(), twin.parameters()):
        assert torch.allclose(mine, its)


def test_a_capture_that_fails_beside_another_thread_leaves_the_parameters():
    net = model()
    before = values(net.parameters())

    def wrap(program):
        def step(x):
            program(x)
            raise ValueError("the program's own")

        return step

    with pytest.raises(ValueError, match="the program's own"):
        Capture(net, forward, wrap)
    assert values(net.parameters()) == before
    assert all(type(p) is nn.Parameter and p.grad is None for p in net.parameters())


@pytest.mark.parametrize("source", ["plugrad", "random", "numpy"])
def test_random_numbers_that_another_thread_draws_during_a_capture_are_its_own(source):
    draw = {
        "plugrad": lambda: torch.rand(2).tolist(), "random": random.random, "numpy": lambda: numpy.random.rand(),
    }[source]  # fmt: skip
    net, drawn = model(), []
    seeds = torch.manual_seed, random.seed, numpy.random.seed
    for seed in seeds:
        seed(3)
    expected = [draw(), draw()]
    for seed in seeds:
        seed(3)

    def use(net):
        if not drawn:  # a second capture tells that it was not the program
            drawn.append(draw())

    capture = Capture(net, use)
    assert not any(isinstance(one, BaseException) for one in capture.results)
    assert [*drawn, draw()] == expected  # none twice
    assert torch.allclose(capture.first, 2 * net(X))


def test_a_program_that_draws_beside_another_thread_has_its_own_numbers():
    def program(x):
        return x + torch.rand(3)

    def python(x):
        return x + random.random()

    event = threading.Event()
    other = threading.Thread(target=event.wait)
    other.start()
    try:
        for function, seed in (program, torch.manual_seed), (python, random.seed):
            seed(5)
            expected = function(X)
            seed(5)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert torch.equal(torch.compile(function)(X), expected)
    finally:
        event.set()
        other.join()
