"""Programs that once differed from PyTorch: values, views, writes, dtypes; source about a module `T`."""

PROGRAMS = {
    "complex numbers lie in memory as their parts do": """
        a = T.ones(2, 3, 2).diagonal()
        b = T.complex(a, a)
        c = b.view(-1) if b.is_contiguous() else b.t().view(-1)
        d = T.polar(T.ones(2, 3).t(), T.ones(2, 3).t()).t().view(6)
        e = T.complex(T.ones(3, 2).t(), T.ones(3)[:1]).t().view(6)
        f = T.complex(T.ones(1, 3), T.ones(2, 1)).view(6)
    """,
    "the norm over all dimensions but the only one is that of each element": """
        x = T.tensor([3.0, -4.0, 0.0], requires_grad=True)
        T.norm_except_dim(x).sum().backward()
        a = T.norm_except_dim(x.detach())
        b = T._weight_norm(T.tensor([1.0, -2.0]), T.tensor([5.0, 3.0]))
        T.norm_except_dim(T.tensor(2.0))
    """,
    "polynomials of a degree without end, groups of a flat tensor, triangles of a vector": """
        a = T.special.chebyshev_polynomial_t(T.tensor([0.25, 0.5]), -float("inf"))
        b = T.native_group_norm(T.arange(24.0), None, None, 2, 4, 3, 2, 1e-5)[0]
        c = T.native_group_norm(T.arange(24.0).reshape(2, 12), T.ones(4), None, 2, 4, 3, 2, 1e-5)[0]
        T.triu(T.ones(2, device="meta"))
        T.tril(T.ones(2, device="meta"))
    """,
    "elements of one memory have no step between them": """
        x = T.tensor([1.5, 0.25])
        a = x[0].unsqueeze(0).expand(2, 1)
        b = x[:1][None].expand(3, 2, 1)
        c = x[:1].expand(2, 1).T
        d = x[1].expand(2)[None]
    """,
    "a scalar view is written with itself, and summed over a broadcast": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        y = x.sum() * 2
        y[...] = y[...]
        (y + T.zeros(3)).sum().backward()
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
        g = x.sum_to_size(2)
        a.grad = T.ones(2)
    """,
    "an array of what has a history keeps it": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        a = T.asarray(y, requires_grad=True)
        b = T.asarray(y, requires_grad=False)
        (a * a).sum().backward()
    """,
    "what is seen as another dtype is no view that autograd knows of": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        a, b = y.view(T.float32), y.view(T.int32)
        c = [a._is_view(), b._is_view()]
        a.mul_(2)
        b[:1].mul_(1)
        d = y.grad_fn.name()
        (y + 1).sum().backward()
        x.view(T.float16).mul_(0)
        (y * y).sum().backward()
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
    "a leaf that no longer requires grad is still no one to write to by its views": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x[...]
        x.requires_grad = False
        y.add_(1)
        z = (y * 3).sum()
        z.backward()
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
    "a part of what has another shape by now": """
        x = T.ones(1, 3)
        y, *_ = x.split(1, 1)
        x.squeeze_()
        y.mul_(2.0)
    """,
    "out= that is expanded": """
        x = T.zeros(2).expand(3, 2)
        T.add(T.ones(3, 2), 1, out=x)
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
    "a leaf that becomes a result is no leaf of older graphs": """
        x = T.tensor([2.0, 1.0], requires_grad=True)
        y = T.tensor([3.0, 1.0], requires_grad=True)
        z = x * 2
        x.requires_grad = False
        x.mul_(y)
        z.sum().backward()
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
    "targets of soft margins, and numbers to repeat": """
        x = T.tensor([2.0, 3.0], requires_grad=True)
        y = T.nn.functional.soft_margin_loss(x, x)
        z = T.nn.functional.soft_margin_loss(x, T.ones(2))
        a = T.tensor(1.0).repeat_interleave(2, 0)
        b = T.tensor(1.0).repeat_interleave(2)
        c = T.tensor(1.0).repeat_interleave(T.tensor([2]), -1)
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
    "the gradient of a maximum that is no number goes to its place alone": """
        x = T.tensor([[[1.0, 3.0, 2.0, 5.0, 5.0, 1.0, 7.0]]], requires_grad=True)
        g = T.tensor([[[float('nan'), float('inf'), 1.0]]])
        T.nn.functional.max_pool1d(x, 2).backward(g)
        T.nn.functional.max_pool1d(x, 3, 2).backward(g)
        T.nn.functional.max_pool1d(x, 3, 2, 0, 1).backward(-g)
        T.nn.functional.adaptive_max_pool1d(x, 3).backward(g)
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
    "division that is rounded down has no gradient, unless it says how it is rounded": """
        a = T.tensor([3.0, -4.0], requires_grad=True)
        b = T.tensor([2.0, 3.0], requires_grad=True)
        c = T.div(a, b, rounding_mode="floor") + a % b
        c.sum().backward()
        d = a // b
        e = 7 // a
        f = T.floor_divide(a.double(), 2)
    """,
    "matrices of no dimensions, and pairs of nothing": """
        x = T.tensor(2.0, requires_grad=True)
        a = x.mT * 2
        b = T.view_as_complex(T.stack([T.zeros(0), T.zeros(0)], -1))
        c = T.view_as_complex(T.zeros(2, 0, 2))
        a.backward()
    """,
    "a sparse gradient becomes dense with the first dense one": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = T.nn.functional.embedding(T.tensor([0, 0]), x, sparse=True)
        y.sum().backward(retain_graph=True)
        y.sum().backward(retain_graph=True)
        x.sin().sum().backward()
        y.sum().backward()
    """,
    "einsum under autocast is a product of matrices only where something is summed": """
        x = T.tensor([[1.1], [2.2]])
        with T.autocast('cpu', dtype=T.bfloat16):
            a = T.einsum('ij,kj->ik', x, x)
            b = T.einsum('ij,kj->ik', x.mT, x.mT)
            c = T.einsum('i,i->', x[0], x[0])
            d = T.einsum('ij,j->i', x.mT, x[0])
    """,
    "a number of no dimensions joins tensors without data with its dtype": """
        x = T.ones(2, 3, dtype=T.int64, device='meta')
        c = T.tensor(1.5, dtype=T.float64)
        a = T.tensor([str((x + c).dtype) == 'torch.float64', str(T.atan2(x, c).dtype) == 'torch.float64'])
        b = T.tensor([str((x * c.half()).dtype) == 'torch.float16', str((c + x.float()).dtype) == 'torch.float32'])
    """,
    "what is squeezed may be said by a tensor": """
        x = T.ones(1, 2, requires_grad=True)
        a = x.squeeze(T.tensor(0))
    """,
    "a subclass's instance is a view, whose writes and gradients reach the tensor that it was made of": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        a = x.as_subclass(Marked)
        a.sum().backward()
        y = x * 2
        b = y.as_subclass(Marked)
        b.mul_(3)
        c = b.as_subclass(T.Tensor)
        y.add_(1)
        (y * c).sum().backward()
    """,
    "a copy of a tensor that requires grad requires it, too, where none is recorded": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        with T.no_grad():
            a = T.asarray(x, copy=True)
            b = T.asarray(x, dtype=T.float64)
            c = T.asarray(x * 2, copy=True)
    """,
    "nodes of normalizations, factorizations and products have PyTorch's names": """
        x = T.tensor([[[1.0, 2.0, 4.0], [2.0, 0.5, 1.0]], [[0.5, 3.0, 1.0], [2.0, 1.0, 1.0]]], requires_grad=True)
        a = T.nn.functional.group_norm(x, 1)
        b = T.nn.functional.batch_norm(x, None, None, training=True)
        c = T.nn.functional.instance_norm(x)
        d = T.nn.functional.layer_norm(x, (2, 3))
        e = T.nn.functional.layer_norm(x, (2, 2, 3))
        f = T.nn.functional.batch_norm(x[0], None, None, training=True)
        g = T.vdot(x[0, 0], x[0, 1])
        h = T.vdot(x[0, 0] * 1j, x[0, 1] + 2j)
        h.abs().backward()
        i, j = x[0].median(1)
    """,
    "tensordot of what has no dimensions": """
        x = T.tensor(2.0)
        a = T.tensordot(x, x, 0)
        b = T.tensordot(x, x, ([0], [0]))
        c = T.tensordot(x[None], x, ([0], [0]))
        d = T.tensordot(x[None], x[None], ([1], [0]))
    """,
    "random slopes are drawn for bfloat16, not for float16": """
        x = T.tensor([1.0, 2.0], dtype=T.bfloat16)
        a = T.nn.functional.rrelu(x, training=True)
        b = T.nn.functional.rrelu(x.half(), training=True)
        c = T.nn.functional.rrelu(x.half())
    """,
    "a list of numbers is an index of its own, whatever else has an __index__": """
        Index = type('Index', (), {'__index__': lambda self: 1})
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]])
        a = x[[0, Index()]]
        b = x[[Index()]]
        c = x[[Index(), None]]
        d = x[0, Index()]
        e = x[[0, object()]]
        f = x[[T.tensor(1), 0]]
    """,
    "integers are not interpolated by a number, whatever its type": """
        x = T.tensor([1, 2])
        a = T.lerp(x, x, 0.5)
        b = T.lerp(x, x, 2)
        x.lerp_(x, 0.5)
        c = T.lerp(x, x, T.tensor(0.5))
        d = T.lerp(x.bool(), x.bool(), 0.5)
    """,
    "a subclass's inference tensor stays one when it is detached": """
        x = T.ones(2).as_subclass(Marked)
        with T.inference_mode():
            a = x.clone().detach()
            b = x.detach()
            c = (x + 1).detach().view(-1)
    """,
    "expanded memory that a mask filled is still not written by others": """
        x = T.tensor(0.5)
        a = x.expand(2)
        a.masked_fill_(a > 0, -1.5)
        a.tanh_()
        a[a < 0] = 3.0
        a.mul_(2)
        with T.no_grad():
            a.add_(1)
        a.fill_(4)
    """,
    "dropout of one number of bfloat16 is of bfloat16": """
        x = T.tensor(3.0, dtype=T.bfloat16, requires_grad=True)
        y = T.manual_seed(7) and T.nn.functional.dropout(x)
        y.backward()
    """,
    "an integral over nothing depends on nothing": """
        x = T.zeros((2, 0), requires_grad=True)
        y = T.trapezoid(x)
        z = T.trapezoid(x.int(), T.ones(0))
    """,
    "what is sorted lies in memory as before": """
        x = T.tensor([[3.0, 1.0, 2.0], [0.5, 4.0, -1.0]])
        y = x.T
        z, w = y.sort(0)
        v = z.as_strided((6,), (1,))
        u = T.argsort(y, -1).as_strided((6,), (1,))
    """,
    "asarray() gives a view without history a flag of its own": """
        v0 = T.tensor([-0.5, 1.0], requires_grad=True)
        with T.no_grad():
            v1 = v0[...]
        v2 = T.asarray(v1)
        v1.sum().backward()
    """,
    "a backward to an edge of the graph retains nothing": """
        v0 = T.tensor([-0.5, 1.0], requires_grad=True)
        v1 = v0 * 2
        v2 = v1 * 3
        T.autograd.backward(v2.sum(), inputs=[T.autograd.graph.get_gradient_edge(v1), v0], retain_graph=True)
        T.autograd.backward(v2.sum(), inputs=[v1])
    """,
    "a real gradient of a complex result": """
        v0 = T.tensor([0.5, -1.5], requires_grad=True)
        v1 = T.complex(v0, v0)
        v2, = T.autograd.grad(v1, v0, T.ones_like(v0))
        v1.backward(T.ones_like(v0))
    """,
    "the Frobenius norm is one of a matrix": """
        v0 = T.arange(6.0).reshape(1, 2, 3)
        v1 = v0.norm(dim=(0, 1, 2))
        v2 = v0.norm("nuc")
        v3 = v0[0].norm("nuc")
        v4 = v0.norm(2, dim=(0, 1, 2))
        v5 = v0.norm("nuc", 0)
    """,
}
