"""Subclasses with a `__torch_dispatch__`, and wrappers without memory, in plugrad and in PyTorch."""

from __future__ import annotations

import copy

import pytest

import plugrad
from plugrad.nest import change

torch = pytest.importorskip("torch")


def wrapper_class(T):
    """Return a class of tensors that hold another one; its calls are listed in `Held.calls`."""

    class Held(T.Tensor):
        __slots__ = ["elem"]
        calls: list = []

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            self = T.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device,
                requires_grad=requires_grad,
            )  # fmt: skip
            self.elem = elem.detach() if requires_grad else elem
            return self

        def __repr__(self):
            return super().__repr__(tensor_contents=f"{self.elem}")

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func)
            result = func(*change(_inside, args), **change(_inside, kwargs or {}))
            return change(lambda value: cls(value) if isinstance(value, T.Tensor) else value, result)

    def _inside(value):
        return value.elem if isinstance(value, Held) else value

    return Held


CASES = {
    "what it is": lambda T, x, m: (tuple(x.shape), x.stride(), x.dim(), str(x.dtype), str(x.device), x.is_leaf),
    "text": lambda T, x, m: (repr(x), repr(x.double().detach()), repr(x > 1), repr(x.exp())),
    "a sum": lambda T, x, m: (x * x).sum().item(),
    "truth": lambda T, x, m: (bool((x == x).all()), float(x[0].detach()), T.equal(x, x)),
    "several results": lambda T, x, m: [repr(part) for part in (*x.max(0), *T.split(x, 1))],
    "views": lambda T, x, m: (tuple(x.view(3, 1).t().shape), repr(m[0]), repr(m.t()[:, 1])),
    "lists": lambda T, x, m: repr(T.cat([x, x]).detach()),
    "copied deeply": lambda T, x, m: (repr(copy.deepcopy(x)), copy.deepcopy(m.detach()).elem is m.elem),
    "beside a plain one": lambda T, x, m: repr((T.ones(3) + x).detach()),
    "backward": lambda T, x, m: ((x * x.exp()).sum().backward(), repr(x.grad))[1],
    "backward to a plain one": lambda T, x, m: _plain_leaf(T, x),
    "twice": lambda T, x, m: _second(T, x),
    "accumulated": lambda T, x, m: ((x * 2).sum().backward(), (x * 3).sum().backward(), repr(x.grad))[2],
    "in place": lambda T, x, m: _in_place(T, x),
    "softmax": lambda T, x, m: repr(T.autograd.grad(T.softmax(x, 0)[0], x)[0].round(decimals=4)),
    "a layer": lambda T, x, m: (T.nn.Linear(3, 1)(x).sum().backward(), tuple(x.grad.shape))[1],
    "jacobian": lambda T, x, m: repr(T.autograd.functional.jacobian(lambda t: t**2, x)),
    "vectorized": lambda T, x, m: repr(T.autograd.functional.jacobian(lambda t: t**2, x, vectorize=True)),
    "hessian": lambda T, x, m: repr(T.autograd.functional.hessian(lambda t: (t**3).sum(), x)),
    "checked": lambda T, x, m: T.autograd.gradcheck(lambda t: t * t.exp(), m),
    "detached": lambda T, x, m: (repr(x.detach()), x.detach().requires_grad, type(x.detach()).__name__),
}


def _plain_leaf(T, x):
    y = T.tensor([2.0, 0.0, 1.0], requires_grad=True)
    (x * y).sum().backward()
    return repr(x.grad), y.grad.sum().item()


def _second(T, x):
    (g,) = T.autograd.grad((x**3).sum(), x, create_graph=True)
    return repr(T.autograd.grad(g.sum(), x)[0])


def _in_place(T, x):
    y = x * 2
    y.add_(1).mul_(3)
    y.sum().backward()
    return repr(y.detach()), repr(x.grad)


@pytest.mark.parametrize("case", CASES)
def test_wrappers_compute_as_in_pytorch(case):
    def outcome(T):
        Held = wrapper_class(T)
        x = Held(T.tensor([1.0, 2.0, 3.0]), requires_grad=True)
        return CASES[case](T, x, Held(T.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=T.float64), requires_grad=True))

    assert outcome(plugrad) == outcome(torch)


@pytest.mark.parametrize("action", [
    lambda T, x: x.add_(1),
    lambda T, x: [y := x * 2, z := y * y, y.add_(1), z.sum().backward()],
    lambda T, x: x.numpy(),
    lambda T, x: x.tolist(),
    lambda T, x: T.Tensor._make_wrapper_subclass(int, (2,)),
])  # fmt: skip
def test_what_wrappers_refuse(action):
    def refused(T):
        with pytest.raises((RuntimeError, TypeError)) as error:
            action(T, wrapper_class(T)(T.ones(3), requires_grad=True))
        return error.type

    assert refused(plugrad) is refused(torch)


def test_a_class_gets_the_public_function_and_plain_arguments_without_history():
    Held = wrapper_class(plugrad)
    x = Held(plugrad.ones(2), requires_grad=True)
    y = plugrad.add(x, 1, alpha=2)
    assert Held.calls == [plugrad.add] and y.requires_grad and not y.elem.requires_grad


def test_a_class_that_implements_nothing_is_named():
    class Nothing(plugrad.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = plugrad.Tensor._make_wrapper_subclass(Nothing, (2,))
    with pytest.raises(TypeError, match="all __torch_dispatch__ handlers returned NotImplemented: Nothing"):
        x.exp()


def test_a_subclass_with_memory_dispatches_too():
    seen = []

    class Seen(plugrad.Tensor):
        __torch_function__ = plugrad._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append((func, types))
            plain = change(lambda value: value.as_subclass(plugrad.Tensor) if isinstance(value, cls) else value, args)
            return func(*plain, **(kwargs or {}))

    x = plugrad.ones(2).as_subclass(Seen).requires_grad_()
    (x * 3).sum().backward()
    assert seen[0] == (plugrad.mul, (Seen,)) and x.grad.tolist() == [3, 3]


def test_a_wrapper_has_no_memory():
    x = plugrad.Tensor._make_wrapper_subclass(wrapper_class(plugrad), (1 << 20, 1 << 20), dtype=plugrad.float16)
    assert x.numel() == 1 << 40 and x.stride() == (1 << 20, 1)
    with pytest.raises(RuntimeError, match="doesn't have storage"):
        x._data + 1


