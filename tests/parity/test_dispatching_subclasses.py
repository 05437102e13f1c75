"""Subclasses with a `__torch_dispatch__`, and wrappers without memory, in plugrad and in PyTorch."""

from __future__ import annotations

import copy
import importlib

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
    "a parameter": lambda T, x, m: (repr(T.nn.Parameter(m)), repr(T.nn.Parameter(T.ones(2).as_subclass(_named(T))))),
    "detached": lambda T, x, m: (repr(x.detach()), x.detach().requires_grad, type(x.detach()).__name__),
}


def _named(T):
    return type("Named", (T.Tensor,), {})


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


STEPS = [
    ("SGD", {"lr": 0.1}), ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True}), ("Adam", {"amsgrad": True}),
    ("AdamW", {"maximize": True}), ("Adagrad", {}), ("RMSprop", {"centered": True}), ("NAdam", {}), ("RAdam", {}),
    ("Rprop", {}), ("Adadelta", {}), ("Adamax", {}), ("ASGD", {}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), STEPS)
def test_optimizers_take_steps_with_wrappers(name, options):
    """Beside a parameter with memory of its own; the state is of the parameter's class."""

    def outcome(T):
        held = T.nn.Parameter(wrapper_class(T)(T.tensor([[1.0, -2.0]])))
        plain = T.nn.Parameter(T.tensor([[1.0, -2.0]]))
        optimizer = getattr(T.optim, name)([held, plain], **options)
        for _ in range(3):
            optimizer.zero_grad()
            for weight in (held, plain):
                T.nn.functional.linear(T.tensor([[1.0, 2.0]]), weight).pow(2).sum().backward()
            optimizer.step()
        assert T.allclose(held.elem, plain)
        kinds = {key: type(value).__name__ for key, value in optimizer.state[held].items()}
        return type(held).__name__, kinds, [round(value, 5) for value in held.elem.flatten().tolist()]

    assert outcome(plugrad) == outcome(torch)


def test_what_a_class_puts_into_a_tensor_that_is_written_stays_there():
    """By an op in place, and as the value that a tensor keeps when its parametrization goes."""

    def outcome(T):
        class Exchanging(wrapper_class(T)):
            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                if func.__name__.partition(".")[0] not in ("add_", "set_"):
                    return super().__torch_dispatch__(func, types, args, kwargs)
                other = getattr(args[1], "elem", args[1])
                args[0].elem = args[0].elem + other if "add_" in func.__name__ else other
                return args[0]

        x = Exchanging(T.ones(2))
        y = Exchanging(T.ones(2), requires_grad=True) * 2
        texts = [repr(x.add_(3)), repr(x), repr(y.add_(1).detach()), y.requires_grad]
        for Held in (Exchanging, wrapper_class(T)):
            layer = T.nn.Linear(2, 1, bias=False)
            layer.weight = T.nn.Parameter(Held(T.ones(1, 2)))
            parametrize = T.nn.utils.parametrize
            parametrize.register_parametrization(layer, "weight", T.nn.Softplus())
            parametrize.remove_parametrizations(layer, "weight")
            texts += [type(layer.weight).__name__, layer.weight.elem.round(decimals=4).tolist()]
        return texts

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


MODES = {
    "entered": lambda T, P, M: _entered(T, P, M()),
    "none": lambda T, P, M: (P._get_current_dispatch_mode(), P._get_current_dispatch_mode_stack(), T_in(P)),
    "twice": lambda T, P, M: _twice(P, M(), M()),
    "inside of itself": lambda T, P, M: _inside_of_itself(T, P, M),
    "all off": lambda T, P, M: _off(P, M(), M()),
    "one off": lambda T, P, M: _one_off(P, M(), M()),
    "one off of none": lambda T, P, M: P._pop_mode_temporarily().__enter__(),
    "functions": lambda T, P, M: _of_functions(T),
}


def T_in(P):
    return P.is_in_torch_dispatch_mode()


def _entered(T, P, m):
    with m as entered:
        return entered is m, P._get_current_dispatch_mode() is m, P._get_current_dispatch_mode_stack() == [m], T_in(P)


def _twice(P, m, n):
    with m, n, m:
        return [one is m for one in P._get_current_dispatch_mode_stack()]


def _inside_of_itself(T, P, M):
    seen = []

    class Looking(M):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append((P._get_current_dispatch_mode(), T_in(P)))
            return func(*args, **(kwargs or {}))

    with Looking():
        T.ones(2)
    return seen


def _off(P, m, n):
    with m, n:
        with P._disable_current_modes() as modes:
            inside = P._get_current_dispatch_mode_stack()
        return inside, [one is m for one in modes][:1], P._get_current_dispatch_mode() is n


def _one_off(P, m, n):
    with m, n:
        with P._pop_mode_temporarily() as popped:
            return popped is n, P._get_current_dispatch_mode() is m


def _of_functions(T):
    class Mode(T.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    m = Mode()
    with m as entered:
        stack = T.overrides._get_current_function_mode_stack()
        return entered is m, stack == [m], T.overrides._get_current_function_mode() is m


@pytest.mark.parametrize("case", MODES)
def test_modes_that_are_on_are_the_objects_that_were_entered(case):
    def outcome(T):
        P = importlib.import_module(f"{T.__name__}.utils._python_dispatch")

        class Mode(P.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                return func(*args, **(kwargs or {}))

        try:
            return MODES[case](T, P, Mode)
        except (AssertionError, RuntimeError, IndexError) as error:
            return isinstance(error, Exception)

    assert outcome(plugrad) == outcome(torch)


def test_the_tensors_in_a_wrapper_are_exchanged():
    def outcome(T):
        P = importlib.import_module(f"{T.__name__}.utils._python_dispatch")

        class Held(wrapper_class(T)):
            __slots__ = []

            def __tensor_flatten__(self):
                return ["elem"], None

            @staticmethod
            def __tensor_unflatten__(held, context, size, stride):
                return Held(held["elem"])

        doubled = P.transform_subclass(Held(T.ones(2)), lambda name, held: held * 2)
        with pytest.raises(AssertionError):
            P.transform_subclass(Held(T.ones(2)), lambda name, held: held[:1])
        return type(doubled).__name__, doubled.elem.tolist(), P.is_traceable_wrapper_subclass(doubled)

    assert outcome(plugrad) == outcome(torch)


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
        x._raw + 1


@pytest.mark.parametrize("T", [plugrad, torch], ids=["plugrad", "torch"])
def test_wrappers_may_call_what_they_hold_data(T):
    class Scaled(T.Tensor):
        @staticmethod
        def __new__(cls, values, scale):
            self = T.Tensor._make_wrapper_subclass(cls, values.size(), dtype=values.dtype)
            self._data, self._scale = values, scale
            return self

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            wide = change(lambda one: one._data * one._scale if isinstance(one, Scaled) else one, (args, kwargs or {}))
            return func(*wide[0], **wide[1])

    x = Scaled(T.tensor([1.0, 2.0]), 0.5)
    assert (x + 1).tolist() == [1.5, 2.0] and (x * x).sum().item() == 1.25 and x._data.tolist() == [1, 2]

    class Named(T.Tensor):
        _data = None

    named = T.ones(2).as_subclass(Named)
    assert type(named + named) is Named and (named + named)._data is None
