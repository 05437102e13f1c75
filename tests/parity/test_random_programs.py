"""Random programs do the same on PyTorch and on plugrad; so do programs of this kind that once did not.

`support.random_programs` says how to run many more.
"""

from __future__ import annotations

import textwrap
import warnings

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")

import plugrad
from support.program_listed import KINDS
from support.program_runs import difference, shrink
from support.random_programs import find, write

FOUND = {
    "a scalar view is written with itself, and summed over a broadcast": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        y = x.sum() * 2
        y[...] = y[...]
        (y + T.zeros(3)).sum().backward()
    """,
    "a non-leaf in inputs= retains its gradient, and goes on to": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.sum().backward(inputs=[y], retain_graph=True)
        y.sum().backward(retain_graph=True)
        z = y.grad
        y.sum().backward()
    """,
    "inputs= before one that requires no grad retain theirs": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        z = T.zeros(2)
        x.sum().backward(inputs=[y, z])
    """,
    "a backward that has nothing to start from retains nothing": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        x.backward(inputs=[y])
    """,
    "the node of a non-leaf in inputs= runs": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x.exp()
        h = y.grad_fn.register_hook(see_inputs('y'))
        y.sum().backward(inputs=[y])
        y.sum().backward()
    """,
    "as_strided in inputs=": """
        x = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        y = x.as_strided((2,), (2,))
        (y * y).sum().backward(inputs=[y, x])
    """,
    "a comparison in place gives a gradient of zero": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.eq_(2)
        y.sum().backward(retain_graph=True)
        z = T.zeros(2)
        z.lt_(x)
    """,
    "logical operations in place leave the history alone": """
        x = T.tensor([1.0, 0.0], requires_grad=True)
        y = x * 2
        y.logical_not_()
        y.logical_or_(x)
        x.logical_and_(x)
        y.sum().backward()
    """,
    "tensors that are returned as they are": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        a = x.real
        b = x.conj()
        c = x.flatten()
        d, e = T.broadcast_tensors(x, T.zeros(2, 1))
        f = T.asarray(x, dtype=x.dtype)
        a.grad = T.ones(2)
    """,
    "views of several outputs, and views of these, are not written": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x * 1
        a, b = y.unbind(0)
        c = a[:1]
        a.add_(1)
        c.mul_(2)
        y.mul_(2)
        b * 2
    """,
    "views made under no_grad are not written where it is off": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = T.zeros(2)
        with T.no_grad():
            z = y[:1]
        z.add_(x[0, :1])
        z.add_(1)
    """,
    "views of leaves are not written, by Functions either": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        a = x.as_strided((2,), (1,))
        a.zero_()
        AddOne.apply(a)
        b = x.split(1)[0]
        b += 1
    """,
    "a leaf that no longer requires grad is still no one to write to by its views": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x[...]
        x.requires_grad = False
        y.add_(1)
        z = (y * 3).sum()
        z.backward()
    """,
    "views that a Function returns are not written": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = FirstRow.apply(x * 1)
        y.tanh_()
    """,
    "a Function without history returns tensors of their own": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.no_grad():
            y = AddOne.apply(x)
            z = Same.apply(x)
    """,
    "what a Function marks as changed loses its gradient": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        y.sum().backward(retain_graph=True, inputs=[y])
        z = AddOne.apply(y)
    """,
    "a Function whose output got no gradient is called with zeros": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y, z = Lazy.apply(Square.apply(x), x)
        z.sum().backward()
    """,
    "a retained gradient is that of the value after writes": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        y.retain_grad()
        y[:1] *= 3
        z = y.view(2, 1)
        z.retain_grad()
        z.sum().backward()
    """,
    "a .grad with history is added to in place": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        (x * x).sum().backward(create_graph=True)
        g = x.grad
        (x * x).sum().backward()
        x.grad += 1
        x.grad.sin_()
    """,
    "a gradient of zeros requires grad if the graph is created": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
        g, h = T.autograd.grad((x * x).sum(), [x, y], create_graph=True, materialize_grads=True)
        h[0] = 4.0
        k, l = T.autograd.grad((x * x).sum(), [x, y], materialize_grads=True)
        l[0] = 4.0
    """,
    "gradients of means are written": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        g, = T.autograd.grad(x.mean(), [x], create_graph=True)
        g.view(-1).add_(-1)
        g.triu_()
    """,
    "prehooks of a node that is only asked for do not run, hooks of its tensor do": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        h = y.grad_fn.register_prehook(see_outputs('y'))
        k = y.register_hook(double)
        g, = T.autograd.grad(y.sin().sum(), [y])
    """,
    "hooks and retain_grad of what a walk starts from": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        z = y * 3
        y.retain_grad()
        h = y.register_hook(see('y'))
        g, = T.autograd.grad(y, [z], T.ones_like(y), allow_unused=True)
    """,
    "hooks of the node of several outputs see None for those without gradient": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y, z = x.split(1)
        h = z.grad_fn.register_hook(lambda gi, go: log.append(('go', [g is None for g in go], '')))
        z.sum().backward()
    """,
    "hooks change neither type nor shape": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        h = y.register_hook(lambda g: g.double())
        y.sum().backward(retain_graph=True)
        h.remove()
        h = y.register_hook(lambda g: g.sum())
        y.sum().backward(retain_graph=True)
        h.remove()
        h = x.register_post_accumulate_grad_hook(lambda p: p.grad.zero_())
        y.sum().backward()
    """,
    "a leaf that no longer requires grad gets none": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        x.requires_grad = False
        y.sum().backward()
    """,
    "a .grad of another shape": """
        x = T.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
        x.sum().backward()
        x.grad.t_()
        x.sum().backward()
    """,
    "what sort, max and topk return is written": """
        x = T.tensor([1.0, 3.0, 2.0], requires_grad=True)
        a, i = x.sort()
        b, j = x.max(0)
        c, k = x.topk(2)
        a.tanh_()
        b.mul_(2)
        c[0] = 5.0
        (a.sum() + b + c.sum()).backward()
    """,
    "indices of an output that was saved": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        v, i = Largest.apply(x)
        j = i[...]
        j.unsqueeze_(0)
        v.backward()
    """,
    "unique has a history, and no gradient": """
        x = T.tensor([1.0, 3.0, 1.0], requires_grad=True)
        y = x.unique()
        y.sum().backward()
    """,
    "an expanded view is written, and its base differentiated": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        y = x.sum()
        z = y.expand_as(y)
        T.relu_(z)
        y.sum().backward()
    """,
    "parts of expanded tensors": """
        x = T.zeros(1).expand(2, 1)
        x[0] = 5
        x.fill_(2)
        x.zero_()
        x[:] = 3
        x.add_(1)
    """,
    "what an index of a later dimension picks is contiguous": """
        x = T.arange(12.0).reshape(2, 3, 2)
        y = x[:, [2, 1]].view(-1)
        z = x[0:1, [2, 1], 0].view(-1)
        w = x.sum()[None][[0]].view(-1)
    """,
    "out= that is expanded": """
        x = T.zeros(2).expand(3, 2)
        T.add(T.ones(3, 2), 1, out=x)
    """,
    "an argument of a checkpoint is written before it runs again": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = T.utils.checkpoint.checkpoint(lambda a: (a * a).sin(), y, use_reentrant=False)
        y.mul_(2)
        z.sum().backward()
    """,
    "the gradient that grad() is given is what it returns": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        w = T.tensor([[1.0, 2.0], [3.0, 4.0]]).t().requires_grad_()
        g, = T.autograd.grad(x + 1, [x], w, create_graph=True)
        (g * g).sum().backward()
    """,
    "integers have no history": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        y = T.zeros(2, dtype=T.int64)
        y.copy_(x)
        y[0] = x[0]
    """,
    "what is written must fit": """
        x = T.tensor([1.0, 3.0])
        y = T.tensor(0.0)
        y.copy_(x[:1])
        x[x > 2] = T.zeros(2, 2)
        x[x > 2] = T.zeros(1, 1)
        x[[0, 1]] = T.zeros(2, dtype=T.float64)
        x[[0, 1]] = T.tensor(2.0, dtype=T.float32)
    """,
    "an output that is marked as not differentiable and saved is a constant": """
        class Cube(T.autograd.Function):
            @staticmethod
            def forward(x):
                return x**3, 3 * x**2
            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.mark_non_differentiable(output[1])
                ctx.save_for_backward(output[1])
            @staticmethod
            def backward(ctx, g, _):
                return g * ctx.saved_tensors[0]
        x = T.tensor(2.0, requires_grad=True)
        y, d = Cube.apply(x)
        g, = T.autograd.grad(y, [x], create_graph=True)
        h, = T.autograd.grad(g, [x])
    """,
    "what a Function marks as changed it returns": """
        class Lost(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.mark_dirty(x)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g
        x = T.tensor([2.0, 1.0], requires_grad=True)
        y = Lost.apply(x * 1)
    """,
    "a Function saves tensors only": """
        class Number(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x, 3)
                return x * 2
        x = T.tensor([2.0, 1.0], requires_grad=True)
        y = Number.apply(x)
    """,
    "a leaf that becomes a result is no leaf of older graphs": """
        x = T.tensor([2.0, 1.0], requires_grad=True)
        y = T.tensor([3.0, 1.0], requires_grad=True)
        z = x * 2
        x.requires_grad = False
        x.mul_(y)
        z.sum().backward()
    """,
    "inference mode makes inference tensors": """
        x = T.ones(2)
        with T.inference_mode():
            a = T.zeros_like(x)
            b = x.new_zeros(3)
            c = copy.deepcopy(x)
            d = x.real
    """,
    "views follow a base that was transposed in place": """
        x = T.tensor([[-1.0, 2.0], [1.0, 3.0]], requires_grad=True)
        y = x * 1
        a = y[1]
        y.t_()
        a *= 3
        b = y[1]
        y.transpose_(0, 1)
        b *= 2
        a *= b.detach().clone()
        y.square().sum().backward()
    """,
    "views follow a base that was squeezed and unsqueezed in place": """
        x = T.tensor([[-1.0, 2.0, 1.5]], requires_grad=True)
        y = x * 1
        a = y.select(1, 0)
        b = a[0]
        y.unsqueeze_(1)
        c = y[0, 0, 1]
        y.squeeze_()
        a.mul_(2)
        b.mul_(y[2].detach().clone())
        c *= 5
        y.mul_(7)
        (a.sum() + b * c).backward()
    """,
    "copies of expanded tensors are in row-major order": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x.expand(3, 2, 2).clone()
        y.view(-1).mul_(2)
        a = T.empty_like(x.expand(3, 2, 2)).fill_(1).view(-1)
        b = x.expand(3, 2, 2).double().view(-1)
        c = T.zeros_like(x.unsqueeze(1).expand(2, 3, 2)).view(-1)
    """,
    "bool tensors are not subtracted": """
        x = T.tensor([1.0, 2.0])
        y = x > 1
        a = x - y
        b = True - x
        x -= y
        x.sub_(True)
        y.sub_(y)
        c = T.rsub(x, y)
    """,
    "ops of tensors of one dtype": """
        x = T.tensor([1.0, 2.0])
        y = x.double()
        a = x.lerp(y, 0.5)
        b = x.heaviside(y)
        c = x.lerp(x > 1, 0.5)
    """,
    "a dimension that a number does not have": """
        x = T.tensor(1.0, requires_grad=True)
        y = x.unflatten(1, (1, -1))
        z = x.unflatten(0, (1, -1))
    """,
    "writes to what .data returned are writes to that": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        w = T.tensor([3.0, 4.0], requires_grad=True)
        d = x.data
        a = d * w
        b = x * w
        d.add_(1)
        b.sum().backward()
        a.sum().backward()
        e = x.data
        c = e * w
        e[0] = 7
        c.sum().backward()
    """,
    "parts of expanded tensors are written": """
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        y = x * 1
        z = y.expand(2, 2, 3).diagonal()
        z.mul_(3)
        z[0] = 7
        y.expand(2, 2, 3).diagonal(1, 1, 2)[0].mul_(2)
        y.expand(2, 2, 3).unfold(2, 2, 1)[1, :, 1, 0].fill_(5)
        c = T.zeros(2, 3, dtype=T.complex64)
        T.view_as_real(c.expand(2, 2, 3))[1].add_(2)
        T.add(c.expand(2, 2, 3)[0], 1, out=c.expand(2, 2, 3)[1])
        y.square().sum().backward()
    """,
    "transforms under no_grad are not recorded": """
        x = T.tensor([0.5, 1.5], requires_grad=True)
        with T.no_grad():
            a, b = T.func.jvp(lambda a: a * a.sum(), (x,), (x,))
            c = T.func.jacrev(lambda a: a * a.sum())(x)
            d = T.func.jacfwd(lambda a: a * a.sum())(x.clone()).sum()
            e = T.func.grad(lambda a: (a * a * x).sum())(x.detach())
            f, g = T.func.grad_and_value(lambda a: (a * a * x).sum())(x)
            h = T.func.vjp(lambda a: a * x, x)[1](x)[0]
        i = T.func.grad(lambda a: (a * a * x).sum())(x.detach())
    """,
    "targets of soft margins, and numbers to repeat": """
        x = T.tensor([2.0, 3.0], requires_grad=True)
        y = T.nn.functional.soft_margin_loss(x, x)
        z = T.nn.functional.soft_margin_loss(x, T.ones(2))
        a = T.tensor(1.0).repeat_interleave(2, 0)
        b = T.tensor(1.0).repeat_interleave(2)
        c = T.tensor(1.0).repeat_interleave(T.tensor([2]), -1)
    """,
    "a reentrant checkpoint notices writes to its arguments": """
        x = T.tensor([1.5, 2.0], requires_grad=True)
        y = x * 1
        a, b = T.utils.checkpoint.checkpoint(lambda a: (a.sin(), a * a), y, use_reentrant=True)
        y += 0.25
        b.sum().backward(retain_graph=True)
        c = T.utils.checkpoint.checkpoint(lambda a, b: Square.apply(a) * x * b, x, x * 2, use_reentrant=True)
        c.sum().backward(retain_graph=True)
        x.detach().mul_(2.0)
        c.sum().backward()
    """,
    "a checkpoint whose arguments were packed": """
        x = T.tensor([1.5, 2.0], requires_grad=True)
        y = x.neg()
        with T.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            z = T.utils.checkpoint.checkpoint(lambda a: a * a, y, use_reentrant=True)
        y += 0.25
        z.sum().backward()
    """,
    "second derivatives of Functions whose saved tensors were packed": """
        x = T.tensor([1.5, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
            y = Square.apply(x * 1) + Square.apply(x) * x
        g, = T.autograd.grad(y.sum(), x, create_graph=True)
        g.square().sum().backward()
    """,
    "inference mode records nothing": """
        x = T.tensor([1.5, 2.0], requires_grad=True)
        with T.inference_mode():
            with T.enable_grad():
                y = x * 2
                z = (T.ones(2).requires_grad_() * 2).sin()
            T.set_grad_enabled(True)
            w = x * 3
            u = Inside.apply(T.ones(2))
        T.set_grad_enabled(True)
        v = x * 3
    """,
    "one label in a list of one": """
        x = T.tensor([0.25, 0.5], requires_grad=True)
        a = T.nn.functional.nll_loss(x, T.zeros(1, dtype=T.int64), reduction='none')
        b = T.nn.functional.cross_entropy(x, T.zeros(1, dtype=T.int64), reduction='none')
    """,
    "numbers that a dtype can't hold are not filled in": """
        a = T.tensor([3, 200], dtype=T.uint8)
        a.fill_(-1)
        a.fill_(300)
        b = a.masked_fill(a > 5, 1e6)
        c = a.index_fill(0, T.tensor([0]), -200)
        d = a.scatter(0, T.tensor([0]), 256)
        e = T.full((2,), 1e300, dtype=T.float32)
        f = T.full_like(a, float('nan'))
        g = T.zeros(2).masked_fill(T.tensor([True, False]), float('-inf'))
        h = T.zeros(2, dtype=T.float16).fill_(-70000.0)
    """,
    "Jacobians at tensors that are not row-major": """
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        a = T.func.jacfwd(lambda a: a * a.sum())(x.t()).sum(0)
        b = T.func.hessian(lambda a: (a * a * a).sum())(x.t()).sum(0)
    """,
    "copies of an empty tensor are no views of it": """
        x = T.zeros((0, 2), requires_grad=True)
        y, z = Two.apply(x, x)
        a = x.repeat(2, 1)
        a.t_()
        b = x.tile(2)
        b.add_(1)
        y.sum().backward()
    """,
    "the gradient of a maximum that is no number goes to its place alone": """
        x = T.tensor([[[1.0, 3.0, 2.0, 5.0, 5.0, 1.0, 7.0]]], requires_grad=True)
        g = T.tensor([[[float('nan'), float('inf'), 1.0]]])
        T.nn.functional.max_pool1d(x, 2).backward(g)
        T.nn.functional.max_pool1d(x, 3, 2).backward(g)
        T.nn.functional.max_pool1d(x, 3, 2, 0, 1).backward(-g)
        T.nn.functional.adaptive_max_pool1d(x, 3).backward(g)
    """,
    "hooks pack the outputs that a Function saved": """
        x = T.tensor([1.5, 2.0], requires_grad=True)
        with T.autograd.graph.saved_tensors_hooks(lambda t: [seen('packed', t), t.clone()][1], lambda t: t):
            y = Exp.apply(x)
            z, w = Context.apply(x * 1, x)
        g, = T.autograd.grad(y.sum(), x, create_graph=True)
        y.neg_()
        (g.square() + z).sum().backward()
    """,
    "anomaly mode looks at outputs that have hooks": """
        x = T.tensor([1.0, -1.25], requires_grad=True)
        a, b = x.sort(0)
        a.register_hook(double)
        a.retain_grad()
        y = T.nn.functional.group_norm(x.reshape(1, 1, -1), 1)
        y.register_hook(double)
        with T.autograd.set_detect_anomaly(True):
            a.mean().backward(retain_graph=True)
            y.square().mean().backward()
        (a * float('nan')).sum().backward()
    """,
    "what transforms return in inference mode is written later": """
        x = T.tensor([0.5, 1.5], requires_grad=True)
        with T.inference_mode():
            a = T.func.jacrev(lambda a: a.exp())(x)
            b, c = T.func.grad_and_value(lambda a: a.exp().sum())(x)
            d, e = T.func.jvp(lambda a: a * a, (x,), (x,))
            f = T.func.vjp(lambda a: a * a, x)[1](x)[0]
            g = T.func.vmap(lambda a: a * a)(x)
        a[0].zero_()
        b.add_(1)
        e.mul_(x)
        f[0] = 5.0
        c.add_(1)
    """,
    "a gated linear unit is one node": """
        x = T.tensor([[-1.0, 0.75], [-1.75, 1.5]], dtype=T.float64, requires_grad=True)
        y = T.nn.functional.glu(x, 0)
        h = y.grad_fn.register_hook(see_inputs('y'))
        g, = T.autograd.grad(y.sum(), [x], create_graph=True)
        g.square().sum().backward()
    """,
    "the graph is freed where something was saved, and a Function is told so that asks": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        class Silent(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * 2
        a = Silent.apply(x).sum()
        a.backward()
        a.backward()
        b = T.nn.functional.pad(x, (0, 1)).flip(0).roll(1).repeat(2).sum()
        b.backward()
        b.backward()
        c = Square.apply(x).sum()
        c.backward()
        c.backward()
    """,
    "what a checkpoint computed again is written before another backward": """
        x = T.tensor([-1.0, 2.0], requires_grad=True)
        y, z = T.utils.checkpoint.checkpoint(lambda a: (a.sin(), a * a), x, use_reentrant=False)
        z.sum().backward()
        with T.no_grad():
            x -= 5
        y.sum().backward()
        w = T.tensor([-1.0, 2.0], requires_grad=True)
        y, z = T.utils.checkpoint.checkpoint(lambda a: (a.sin(), a * a), w, use_reentrant=False)
        z.sum().backward()
        y.sum().backward()
    """,
    "a view follows its base in inference mode, too": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z = y[...]
        y.mul_(2)
        with T.inference_mode():
            a = z + 1
        b = (x * 1)[...].mul_(2)
        with T.no_grad():
            c = b + 1
        z.sum().backward()
        b.sum().backward()
    """,
    "signs of zero": """
        x = T.tensor([-0.25, 0.25, -0.0, -1.0], requires_grad=True)
        y = T.atan2(T.nn.functional.softshrink(x), x)
        z = T.nn.functional.cross_entropy(x.view(2, 1, 2), T.ones(2, 1, 2)).reciprocal()
    """,
    "one element is cast that is written by a mask, whatever else the index has": """
        x = T.zeros(1, 2, 3, dtype=T.float64)
        x[None, T.tensor([True])] = T.tensor(True)
        x[:, T.tensor([True, False])] += T.tensor(2.0)
        x[..., T.tensor([True, False, True])] = T.tensor([3], dtype=T.int32)
        x[T.tensor([0])] = T.tensor(True)
        x[T.tensor([True]), T.tensor([0])] = T.tensor(True)
    """,
}


def lines(source: str) -> list[str]:
    """Return the statements of a source text; an indented line belongs to the one before."""
    statements: list[str] = []
    for line in textwrap.dedent(source).strip().splitlines():
        if line.startswith(" "):
            statements[-1] += f"\n{line}"
        else:
            statements.append(line)
    return statements


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize("name", FOUND)
def test_programs_that_once_differed(name, watch):
    found = difference(lines(FOUND[name]), torch, plugrad, watch)
    assert found is None, str(found)


def test_random_programs():
    differing: list[str] = []
    classes, _ = find(range(300), lambda seed, small, found: differing.append("\n".join([str(found), *small])))
    assert not differing, "\n\n".join(differing)
    assert sum(map(len, classes.values())) < 60  # what is listed is the exception


def test_a_difference_is_found_and_shrunk():
    class Wrong:
        """plugrad with a `sin` that is a cosine, in its own namespace."""

        def __getattr__(self, name):
            return plugrad.cos if name == "sin" else getattr(plugrad, name)

    program = ["a = T.ones(2)", "b = a * 2", "c = T.sin(b)", "d = c + 1", "e = a + b"]
    small, found = shrink(program, torch, Wrong())
    assert small == ["a = T.ones(2)", "c = T.sin(a)"] or small == program[:3]
    assert (found.kind, found.name) == ("values", "c")


def test_the_same_seed_writes_the_same_program():
    assert write(5, torch) == write(5, torch) != write(6, torch)


def test_every_kind_of_difference_that_is_meant_has_its_reason():
    assert all(function.__doc__ and function.__doc__.partition("\n")[0].endswith(".") for function in KINDS)
