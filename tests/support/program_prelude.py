"""The definitions that random programs use: custom Functions, hooks, small modules. Source text about a module `T`."""

import types

PRELUDE = """
import copy
import functools
import io
import pickle

F = T.autograd.forward_ad


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


class Three(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, factor):
        ctx.save_for_backward(x, y)
        ctx.factor = factor
        return x * y, y * factor, "a label"

    @staticmethod
    def backward(ctx, g, h, label):
        x, y = ctx.saved_tensors
        return (g * y).sum_to_size(x.shape), (g * x + h * ctx.factor).sum_to_size(y.shape), None


class Dirty(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x, y * 3

    @staticmethod
    def backward(ctx, g, h):
        return g * 2, h * 3


class Passing(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x, x.detach() + y.detach()

    @staticmethod
    def backward(ctx, g, h):
        return g + h, h


class Needs(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, nothing):
        ctx.save_for_backward(x, nothing, y)
        return x * y

    @staticmethod
    def backward(ctx, g):
        x, _, y = ctx.saved_tensors
        log.append(("needs", [float(n) for n in ctx.needs_input_grad], ""))
        return g * y if ctx.needs_input_grad[0] else None, g * x if ctx.needs_input_grad[1] else None, None


class Nested(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return Square.apply(x) + x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return Scale.apply(g, 2.0) * x + g


class Context(T.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, (x > y).to(x.dtype)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output[0])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, _):
        x, y, product = ctx.saved_tensors
        return g * y + 0 * product, g * x


class Listed(T.autograd.Function):
    @staticmethod
    def forward(ctx, pair, x):
        ctx.save_for_backward(x)
        return x * 2 + pair[0].detach()

    @staticmethod
    def backward(ctx, g):
        return None, g * 2


class Views(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(x.shape)

    @staticmethod
    def backward(ctx, g):
        return g * 5


class Inside(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        with T.enable_grad():
            leaf = x.detach().requires_grad_()
            result = (leaf * leaf).sin()
        ctx.save_for_backward(leaf, result)
        return result.detach()

    @staticmethod
    def backward(ctx, g):
        leaf, result = ctx.saved_tensors
        return T.autograd.grad(result, leaf, g, retain_graph=True)[0]


class Unused(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, g, h):
        seen("unused", g)
        seen("unused", h)
        return g * 2 + h * 3


class Intermediate(T.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        kept = x.exp()
        ctx.save_for_backward(kept)
        return kept * kept

    @staticmethod
    def backward(ctx, g):
        (kept,) = ctx.saved_tensors
        return 2 * kept * kept * g


class Marked(T.Tensor):
    pass


NOTED = "sin cos exp sum mean mul sub clone stack cat view split unsqueeze detach relu cumsum prod tanh".split()


class Noted(T.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if noting and func.__name__ in NOTED:  # not attributes and queries, which are not asked about here
            log.append(("noted", None, func.__name__))
        return super().__torch_function__(func, types, args, kwargs or {})


def normed(x, shape):
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def rounded(z):
    parts = T.view_as_real(z) if z.is_complex() else z
    exact = parts + (parts.round(decimals=9) - parts).detach()
    return T.view_as_complex(exact) if z.is_complex() else exact


def positive(z):
    return T.where(z.detach() > 1e-9, z, z.detach())


def multiplied(z):
    product = 1
    for one in z.flatten().unbind():
        product = product * one
    return product


def saved(thing):
    file = io.BytesIO()
    T.save(thing, file)
    file.seek(0)
    return file


def through_file(thing):
    return T.load(saved(thing), weights_only=False)


def called(function, *args, use_reentrant=None):
    return function(*args)


def apart(grads):
    return tuple(g if g is None else g.clone() if g.requires_grad else g.detach().clone() for g in grads)


def seen(name, g):
    log.append((name, None if g is None else g.tolist(), None if g is None else str(g.dtype)))


def twice(module, args, out):
    return out * 2 if isinstance(out, T.Tensor) else None


def times(grads, factor):
    return tuple(None if g is None else g * factor for g in grads)


def see(name):
    return lambda g: seen(name, g)


def double(g):
    return g * 2


def see_inputs(name):
    return lambda gi, go: [seen(name, g) for g in (*gi, *go) if g is not None] and None or None


def see_outputs(name):
    return lambda go: [seen(name, g) for g in go if g is not None] and None or None


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
