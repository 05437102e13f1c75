"""Short programs whose parts are spoilt: what functions, hooks, samplers and modules of a user return, name or hold.

A line `program.NAME(...)` of the tables calls `NAME(T, ...)` with a library for T; see `misuse_calls`.
"""

from __future__ import annotations

import io

import numpy


def forward_returns(T, x, value):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return value

        @staticmethod
        def backward(ctx, *gradients):
            return gradients[0]

    return Function.apply(x)


def backward_returns(T, x, value, *, once=False):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return value

    result = Function.apply(x)
    return T.autograd.grad(result.sum(), x, create_graph=once)


def two_gradients(T, x, one, other):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return one, other

    Function.apply(x, 3).sum().backward()
    return x.grad


def function_saves(T, x, *values):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(*values)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * len(ctx.saved_tensors)

    Function.apply(x).sum().backward()
    return x.grad


def function_marks(T, x, dirty, fixed):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x * 2
            if dirty is not None:
                ctx.mark_dirty(dirty)
            ctx.mark_non_differentiable(*([y] if fixed is True else [fixed]))
            return y

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    return Function.apply(x).requires_grad


def function_applied(T, *values, **options):
    class Function(T.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            return a * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient, None

    return Function.apply(*values, **options)


def tensor_hook_returns(T, v, value):
    v.register_hook(lambda gradient: value)
    (v * 2).sum().backward()
    return v.grad


def node_hook_returns(T, v, value):
    y = v * 2
    y.grad_fn.register_hook(lambda inputs, outputs: value)
    y.sum().backward()
    return v.grad


def module_hooks_return(T, m, x, before, after):
    m.register_forward_pre_hook(lambda module, inputs: before)
    m.register_forward_hook(lambda module, inputs, result: after)
    return m(x)


def backward_hooks_return(T, m, x, before, after):
    m.register_full_backward_pre_hook(lambda module, outputs: before)
    m.register_full_backward_hook(lambda module, inputs, outputs: after)
    x.requires_grad_()
    m(x).sum().backward()
    return x.grad


def module_returns(T, x, value):
    class Net(T.nn.Module):
        def forward(self, x):
            return value

    return T.nn.Sequential(Net(), T.nn.ReLU())(x)


def module_holds(T, m, name, value):
    setattr(m, name, value)
    return sorted(m.state_dict()), m(T.ones(3))


def buffer_set(T, name, value, other):
    m = T.nn.Module()
    m.register_buffer(name, value)
    setattr(m, name, other)
    return list(m.state_dict())


def gradient_set(T, v, value):
    v.grad = value
    return v.grad


def data_set(T, x, value):
    x.data = value
    return x


def flag_set(T, x, value):
    x.requires_grad = value
    return x.requires_grad


def read_only_set(T, x, name, value):
    setattr(x, name, value)
    return x.shape


def indexed(T, x, one, other):
    return x[one, other]


def sliced(T, x, start, stop, step):
    return x[start:stop:step]


def assigned(T, x, one, other, value):
    x[one, other] = value
    return x


def loaded_from(T, *items, **options):
    return list(T.utils.data.DataLoader(list(items), **options))


def loaded_by(T, items, indices):
    return list(T.utils.data.DataLoader(items, sampler=indices))


def of_length(T, length):
    class Items(T.utils.data.Dataset):
        def __len__(self):
            return length

        def __getitem__(self, place):
            return place

    return list(T.utils.data.DataLoader(Items(), 2))[:3]


def streamed(T, items, batch_size):
    class Items(T.utils.data.IterableDataset):
        def __iter__(self):
            return iter(items)

    return list(T.utils.data.DataLoader(Items(), batch_size))


def grouped(T, parameters, **options):
    optimizer = T.optim.SGD([{"params": parameters, **options}], lr=0.1)
    return [sorted(group) for group in optimizer.param_groups]


def regrouped(T, p, places, state, **options):
    optimizer = T.optim.Adam(p, lr=0.1)
    group = {**optimizer.state_dict()["param_groups"][0], **options, "params": places}
    optimizer.load_state_dict({"state": state, "param_groups": [group]})
    p[0].grad = T.ones_like(p[0])
    optimizer.step()
    return p[0].detach()


def restored(T, weight, bias, **options):
    m = T.nn.Linear(3, 2)
    m.load_state_dict({"weight": weight, "bias": bias}, **options)
    return list(m.state_dict().values())


def closure_returns(T, p, value):
    return T.optim.SGD(p, lr=0.1).step(lambda: value)


def factor_returns(T, sgd, value):
    return T.optim.lr_scheduler.LambdaLR(sgd, lambda epoch: value).get_last_lr()


def rate_set(T, p, value):
    optimizer = T.optim.SGD(p, lr=0.1)
    optimizer.param_groups[0]["lr"] = value
    p[0].grad = T.ones_like(p[0])
    optimizer.step()
    return p[0].detach()


def gradient_of(T, x, value):
    return T.func.grad(lambda a: (a * a).sum() if value is None else value)(x)


def mapped(T, x, value, **options):
    return T.func.vmap(lambda a: a * 2 if value is None else value, **options)(x)


def jacobian_of(T, x, value):
    return T.func.jacrev(lambda a: a * 2 if value is None else value)(x)


def pushed(T, x, tangent):
    return T.func.jvp(lambda a: a * 2, (x,), (tangent,))


def pulled(T, x, cotangent):
    return T.func.vjp(lambda a: a * 2, x)[1](cotangent)


def dual(T, x, tangent):
    with T.autograd.forward_ad.dual_level():
        return tuple(T.autograd.forward_ad.unpack_dual(T.autograd.forward_ad.make_dual(x, tangent)))


def packed(T, v, kept, given):
    with T.autograd.graph.saved_tensors_hooks(lambda t: kept, lambda t: given):
        y = v * v
    y.sum().backward()
    return v.grad


def checkpoint_returns(T, v, value):
    return T.utils.checkpoint.checkpoint(lambda a: value, v, use_reentrant=False)


def kept(T, value):
    buffer = io.BytesIO()
    T.save(value, buffer)
    buffer.seek(0)
    return T.load(buffer)


def read_with(T, x, **options):
    buffer = io.BytesIO()
    T.save({"x": x}, buffer)
    buffer.seek(0)
    return T.load(buffer, **options)["x"]


def tensor_of(T, first, second, **options):
    return T.tensor([first, second], **options)


def array_of(T, data, dtype):
    return T.from_numpy(numpy.array(data, dtype=dtype))


def array_filled(T, x, place, value):
    x.numpy()[place] = value
    return x


def cast_within(T, x, device, dtype, **options):
    with T.autocast(device, dtype=dtype, **options):
        return (x @ x.T).dtype


def traced(T, function, inputs):
    return T.jit.trace(function, inputs)(T.ones(2, 3))


def pruned(T, m, name, amount):
    T.nn.utils.prune.l1_unstructured(m, name, amount)
    return m.weight


def pruned_by(T, m, name, mask):
    T.nn.utils.prune.custom_from_mask(m, name, mask)
    return m.weight


def parametrized(T, m, name, part):
    T.nn.utils.parametrize.register_parametrization(m, name, part)
    return m.weight


def normed(T, m, name, dim):
    return T.nn.utils.parametrizations.weight_norm(m, name, dim).weight


def averaged(T, m, **options):
    averaging = T.optim.swa_utils.AveragedModel(m, **options)
    averaging.update_parameters(m)
    averaging.update_parameters(m)
    return list(averaging.module.state_dict().values())


def scaled(T, p, value, **options):
    scaler = T.amp.GradScaler("cpu", **options)
    return scaler.scale(value)


def seeded(T, seed, size):
    return T.rand(size, generator=T.Generator().manual_seed(seed))


PROGRAMS = {name: value for name, value in globals().items() if callable(value) and value.__module__ == __name__}
