"""Classes and modes that change what ops do: __torch_function__ of subclasses and of other classes, mode stacks."""
from .common import outcome


def _named(torch, log):
    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func.__name__, sorted(t.__name__ for t in types)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


def program_subclass_is_kept(torch):
    class Plain(torch.Tensor):
        pass

    class Derived(Plain):
        pass

    x = torch.arange(6.0).reshape(2, 3).as_subclass(Plain)
    z = torch.ones(3).as_subclass(Derived)
    results = [
        x + 1, 1 - x, x @ x.t(), x.sum(), x[0], x[:, 1:], x.max(0).values, x.clone(), x.detach(), x.to(torch.float64),
        torch.cat([x, torch.ones(1, 3)]), torch.stack([torch.ones(2, 3), x]), x.unbind()[1], torch.where(x > 2, x, 0),
        torch.nn.functional.softmax(x, -1), torch.nn.functional.mse_loss(x, torch.zeros(2, 3)), x == x, x.argmax(),
        x * z, z * x, torch.zeros_like(x), torch.einsum("ij,ij->i", x, x), x.reshape(3, 2), x.split(1)[0],
    ]
    return [[type(y).__name__ for y in results], [y.as_subclass(torch.Tensor) for y in results]]


def program_subclass_in_place_and_gradients(torch):
    class Plain(torch.Tensor):
        pass

    x = torch.tensor([1.0, 2.0, 3.0]).as_subclass(Plain)
    y = x.clone()
    same = [y.add_(1) is y, type(y).__name__]
    y[0] = 7
    y += 1
    y.mul_(torch.tensor([1.0, 2.0, 3.0]))
    w = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (w * x).sum()
    loss.backward()
    leaf = torch.tensor([2.0, 3.0]).as_subclass(Plain).requires_grad_()
    (leaf * leaf).sum().backward()
    p = torch.nn.Parameter(torch.ones(2))
    return [
        same, type(y).__name__, y.as_subclass(torch.Tensor), type(loss).__name__, w.grad,
        type(leaf).__name__, leaf.grad.as_subclass(torch.Tensor), type(p + 1).__name__, leaf.is_leaf,
        loss.requires_grad,
    ]


def program_what_a_subclass_sees(torch):
    log = []
    Logged = _named(torch, log)
    x = torch.ones(2, 2).as_subclass(Logged)
    y = torch.ones(2, 2)
    torch.add(x, y)
    torch.add(y, x)
    torch.exp(x)
    torch.cat([y, x])
    torch.nn.functional.linear(y, x)
    torch.nn.functional.mse_loss(x, x)
    torch.nn.functional.relu(x)
    x.add_(1)
    torch.matmul(y, x)
    torch.sum(x, 0)
    torch.where(y > 0, y, x)
    return log


def program_a_subclass_may_refuse_and_change(torch):
    class Units(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.exp:
                return NotImplemented
            if func is torch.add:
                return "added"
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Units)
    refused = outcome(lambda: torch.exp(x), words=3)
    return [refused, torch.add(x, x), torch.add(torch.ones(2), x), type(torch.mul(x, x)).__name__]


def program_two_classes(torch):
    class A(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "A " + ",".join(t.__name__ for t in types)

    class B(A):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "B " + ",".join(t.__name__ for t in types)

    class Other(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    a, b, o = (torch.ones(2).as_subclass(cls) for cls in (A, B, Other))
    return [
        torch.add(a, b), torch.add(b, a), torch.add(o, a), torch.add(a, o), torch.mul(a, 2),
        torch.mul(2 * torch.ones(2), b),
        outcome(lambda: torch.add(o, 1), words=4),
    ]


def program_other_classes(torch):
    handled = {}

    class Diagonal:
        def __init__(self, n, value):
            self.n, self.value = n, value

        def tensor(self):
            return self.value * torch.eye(self.n)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func not in handled or not all(issubclass(t, (torch.Tensor, Diagonal)) for t in types):
                return NotImplemented
            return handled[func](*args, **(kwargs or {}))

    def implements(function):
        def register(f):
            handled[function] = f
            return f
        return register

    @implements(torch.mean)
    def mean(input):
        return float(input.value) / input.n

    @implements(torch.matmul)
    def matmul(a, b):
        return "matmul"

    @implements(torch.cat)
    def cat(tensors, dim=0):
        return [t.tensor() if isinstance(t, Diagonal) else t for t in tensors]

    d = Diagonal(3, 2)
    return [
        torch.mean(d), torch.matmul(torch.eye(3), d), torch.matmul(d, torch.eye(3)), torch.cat([d, torch.eye(3)]),
        outcome(lambda: torch.exp(d), words=3), torch.overrides.is_tensor_like(d), torch.overrides.is_tensor_like(3),
        torch.overrides.has_torch_function((d, torch.ones(1))), torch.overrides.has_torch_function((torch.ones(1),)),
    ]


def program_function_modes(torch):
    log = []

    class Log(torch.overrides.TorchFunctionMode):
        def __init__(self, name):
            super().__init__()
            self.name = name

        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    class Replace(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.sin:
                return torch.cos(*args)
            return func(*args, **(kwargs or {}))

    x = torch.tensor([0.0, 1.0])
    with Log("outer"), Log("inner"):
        y = torch.exp(x)
        torch.zeros(2)
        torch.nn.functional.softplus(y)
    with Replace():
        replaced = torch.sin(x)
    with Log("outer"), Replace():
        seen = torch.sin(x)
    return [log, y, replaced, seen, torch.sin(x)]


def program_modes_see_subclasses_first(torch):
    log = []
    Logged = _named(torch, log)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            log.append(("mode", func.__name__, sorted(t.__name__ for t in types)))
            return func(*args, **(kwargs or {}))

    x = torch.ones(2).as_subclass(Logged)
    with Mode():
        y = torch.exp(x)
    return [log, type(y).__name__]


def program_own_function_with_overrides(torch):
    class Quantity:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return ("handled", func.__name__, [t.__name__ for t in types], len(args), kwargs)

    def scaled(x, by=2):
        if torch.overrides.has_torch_function((x,)):
            return torch.overrides.handle_torch_function(scaled, (x,), x, by=by)
        return x * by

    return [scaled(torch.ones(2)), scaled(Quantity(), by=3)]


def program_disabled_subclasses(torch):
    class Never(torch.Tensor):
        __torch_function__ = torch._C._disabled_torch_function_impl

    x = torch.ones(2).as_subclass(Never)
    with torch._C.DisableTorchFunctionSubclass():
        class Plain(torch.Tensor):
            pass

        y = torch.ones(2).as_subclass(Plain) + 1
    return [type(x + 1).__name__, type(x).__name__, type(y).__name__]


def program_dispatch_mode(torch):
    from importlib import import_module

    TorchDispatchMode = import_module(f"{torch.__name__}.utils._python_dispatch").TorchDispatchMode
    counts = []

    class Double(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            counts.append(len(args))
            result = func(*args, **(kwargs or {}))
            return result

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    with Double():
        y = torch.exp(x)
        loss = y.sum()
    loss.backward()
    with Double():
        before = len(counts)
        (x * x).sum().backward()
        through_backward = len(counts) > before + 2
    return [y, x.grad, y.requires_grad, len(counts) > 1, through_backward]
