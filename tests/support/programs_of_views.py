"""Programs that once differed from PyTorch: views and what `.data` returns; source about a module `T`."""

PROGRAMS = {
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
}
