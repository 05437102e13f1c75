"""Programs that once differed from PyTorch: views and what `.data` returns; source about a module `T`."""

PROGRAMS = {
    "a tangent that an op hands on under no_grad has no history": """
        v2 = T.tensor([1.5, 2.], requires_grad=True)
        v3 = v2 * 1
        v4 = v3[...]
        with T.no_grad():
            with F.dual_level():
                _a = F.make_dual(v3, v4)
                v6 = F.unpack_dual(T.cat([_a]))[1]
                v7 = F.unpack_dual(_a.gather(0, T.tensor([0, 1])))[1]
                v8 = F.unpack_dual(_a.flip(0))[1]
                v9 = F.unpack_dual(_a.index_select(0, T.tensor([0, 1])))[1]
                v10 = F.unpack_dual(_a.sort()[0])[1]
                v11 = F.unpack_dual(_a.masked_fill(_a > 5, 1))[1]
                v12 = F.unpack_dual(_a.sum(()))[1]
                v13 = F.unpack_dual(_a.cumsum(0))[1]
                v14 = F.unpack_dual(_a.sum_to_size(2))[1]
                v15 = F.unpack_dual(_a.tril() if _a.ndim > 1 else _a + 0)[1]
                v16 = F.unpack_dual(_a.amax(()))[1]
        v3.data.mul_(2)
    """,
    "detached inference tensors are written by what requires grad": """
        with T.inference_mode():
            i = T.tensor([1.0, 2.0, 3.0])
        w = T.tensor([1.0, 2.0, 3.0], requires_grad=True)
        d = i.detach()
        d.mul_(w)
        e = i.data
        e.div_(w)
        f = i[:2]
        f.requires_grad_()
    """,
    "a view keeps a flag of its own when its base, which has none, gets another shape": """
        b = T.tensor([[1.5, 2.0]])
        v = b[...]
        v.requires_grad = True
        b.t_()
        v.sum().backward()
        with T.no_grad():
            u = b[:1]
        u.requires_grad_()
        b.unsqueeze_(0)
        u.sum().backward()
        w = u * 2
        x = w[:1]
        w.detach_()
        w.unsqueeze_(0)
    """,
    "a view that can't be used any more says that it requires grad": """
        b = T.tensor([[1.0, 2.0]])
        v = Views.apply(b)
        b[..., -1] += T.tensor(2.0, requires_grad=True)
    """,
    "what .data returned and its views are written together, and follow its shape": """
        w = T.ones(2, requires_grad=True)
        x = T.ones(1, 2)
        d = x.data
        v = d[:1]
        y = v * w
        d.t_()
        d.mul_(T.tensor([[2.0], [3.0]], requires_grad=True))
        v.sum().backward()
        y.sum().backward()
    """,
    "what detach() and .data make of an inference tensor elsewhere may be written": """
        with T.inference_mode():
            a = T.ones(2)
        c = a.detach()
        c.add_(1)
        a.data.mul_(3)
        AddOne.apply(a.data)
        a.view(-1).detach().fill_(2)
        T.add(a, 1, out=c)
        c.requires_grad_()
    """,
    "an operand that was reshaped where nothing is recorded": """
        w = T.arange(24.0, dtype=T.float64).reshape(4, 2, 3).requires_grad_()
        x = T.tensor([2.0], dtype=T.float64, requires_grad=True)
        a = x.clone()
        with T.no_grad():
            T.sum(x, -1, out=a)
        (a * w * a).sum().backward(retain_graph=True)
        g, = T.autograd.grad((a / w.exp()).sum(), [x], create_graph=True)
        g.sum().backward()
        (a * 2).sum().backward()
        b = w * 1
        b.data = w.detach()[0]
        (w.square() - b).sum().backward()
        c = w[:1, :, :1] * 1
        c.data = T.ones(1, dtype=T.float64)
        T.where(w > 3, c, w).sum().backward()
        (c + T.ones(2, 2, dtype=T.float64)).sum().backward()
    """,
    "the edge of a view without history is refused in any mode": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        T.set_grad_enabled(False) and None
        v = y[:1]
        a = T.autograd.graph.get_gradient_edge(y)
        w = T.autograd.graph.get_gradient_edge(v)
    """,
}
