"""Writes to tensors that a transformed function did not make and was not given, as PyTorch refuses them."""

import threading

import pytest

import plugrad

torch = pytest.importorskip("torch")

WRITES = {
    "add_": lambda c, x: c.add_(x), "copy_": lambda c, x: c.copy_(x), "an item": lambda c, x: c.__setitem__(0, x[0]),
    "a view": lambda c, x: c[1:].mul_(x[1:]), "masked": lambda c, x: c.masked_fill_(x.detach() > 0, x.sum()),
}  # fmt: skip
TRANSFORMS = {
    "grad": lambda T, f, x: T.func.grad(f)(x), "vjp": lambda T, f, x: T.func.vjp(f, x),
    "jacrev": lambda T, f, x: T.func.jacrev(f)(x),
    "nested": lambda T, f, x: T.func.grad(lambda y: T.func.grad(f)(y).sum())(x),
    "grad_and_value": lambda T, f, x: T.func.grad_and_value(f)(x),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_writes_to_captured_tensors_are_refused(write, transform):
    for T in (torch, plugrad):
        captured = T.arange(3.0)

        def function(x, captured=captured):
            WRITES[write](captured, x)
            return (x * x).sum() + captured.sum()

        with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
            TRANSFORMS[transform](T, function, T.ones(3) * 2)
        assert not captured.requires_grad and captured.tolist() == [0, 1, 2]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("returns", ["a sum", "the tensor"])
def test_writes_to_tensors_of_its_own_are_not(write, transform, returns):
    if returns == "the tensor" and transform != "vjp" and transform != "jacrev":
        return
    results = []
    for T in (torch, plugrad):

        def function(x, T=T):
            own = T.arange(3.0)
            WRITES[write](own, x)
            return own if returns == "the tensor" else (own * own).sum()

        result = TRANSFORMS[transform](T, function, T.ones(3) * 2)
        if transform == "vjp":
            value, pull = result
            result = (value, *pull(T.ones_like(value)))
        results.append([t.tolist() for t in (result if isinstance(result, tuple) else (result,))])
    assert results[0] == results[1]


def test_what_does_not_depend_on_the_arguments_may_be_written():
    calls = torch.zeros(1), plugrad.zeros(1)
    for T, count in zip((torch, plugrad), calls):
        T.func.grad(lambda x, T=T, count=count: x.sum() + (T.zeros(1).add_(1) * 0).sum())(T.ones(3))
        assert count.tolist() == [0]
    count = plugrad.zeros(1)
    plugrad.func.grad(lambda x: (count.add_(1), x.sum())[1])(plugrad.ones(3))  # statistics: no history begins
    assert count.tolist() == [1] and not count.requires_grad


def test_another_threads_transform_hides_no_write():
    captured, inside, written = plugrad.zeros(3), threading.Event(), threading.Event()

    def other(x):
        inside.set()  # this transform began last
        written.wait(30)
        return x.sum()

    thread = threading.Thread(target=lambda: plugrad.func.grad(other)(plugrad.ones(3)))

    def function(x):
        thread.start()
        inside.wait(30)
        captured.add_(x)
        written.set()
        return x.sum()

    with pytest.raises(RuntimeError, match="captured Tensor"):
        plugrad.func.grad(function)(plugrad.ones(3))
    thread.join()
    assert captured.tolist() == [0, 0, 0] and not captured.requires_grad
