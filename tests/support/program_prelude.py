"""The definitions that random programs use: custom Functions, hooks, small modules. Source text about a module `T`."""

import types

PRELUDE = """
import copy


class Scale(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.factor + 0 * x, None


class Square(T.autograd.Function):
    @staticmethod
    def forward(x):
        return x * x

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


class Exp(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return y * g


class Two(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y, x + y

    @staticmethod
    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return (g * y + h).sum_to_size(x.shape), (g * x + h).sum_to_size(y.shape)


class Lazy(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.set_materialize_grads(False)
        return x * 2, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return None if g is None else g * 2, None if h is None else h * 3


class Tripled(T.autograd.Function):
    @staticmethod
    def backward(ctx, g):
        return g * 3


class AddOne(Tripled):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.add_(1)
        return x


class Same(Tripled):
    @staticmethod
    def forward(ctx, x):
        return x


class FirstRow(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.shape = x.shape
        return x[:1]

    @staticmethod
    def backward(ctx, g):
        whole = T.zeros(ctx.shape, dtype=g.dtype)
        whole[:1] = g
        return whole


class Largest(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        values, places = x.flatten().max(0)
        ctx.mark_non_differentiable(places)
        ctx.save_for_backward(places)
        ctx.shape = x.shape
        return values, places

    @staticmethod
    def backward(ctx, g, _):
        (places,) = ctx.saved_tensors
        whole = T.zeros(ctx.shape, dtype=g.dtype).flatten()
        whole[places] = g
        return whole.reshape(ctx.shape)


class Once(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @T.autograd.function.once_differentiable
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


def apart(grads):
    return tuple(g if g is None else g.clone() if g.requires_grad else g.detach().clone() for g in grads)


def seen(name, g):
    log.append((name, None if g is None else g.tolist(), None if g is None else str(g.dtype)))


def see(name):
    return lambda g: seen(name, g)


def double(g):
    return g * 2


def see_inputs(name):
    return lambda gi, go: [seen(name, g) for g in (*gi, *go) if g is not None] and None


def see_outputs(name):
    return lambda go: [seen(name, g) for g in go if g is not None] and None


def see_grad(name):
    return lambda p: seen(name, p.grad)


def fill(module):
    with T.no_grad():
        for p in module.parameters():
            p.copy_((T.arange(float(p.numel())).reshape(p.shape) - 1) / 4)
    return module
"""


def definitions(T):
    """Return what the text defines, about one of the two libraries."""
    names = {"T": T}
    exec(PRELUDE, names)
    return types.SimpleNamespace(**names)
