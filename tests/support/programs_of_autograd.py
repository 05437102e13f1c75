"""Programs that once differed from PyTorch: graphs, hooks, Functions, modes, transforms; source about a module `T`."""

PROGRAMS = {
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
    "views made under no_grad are not written where it is off": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = T.zeros(2)
        with T.no_grad():
            z = y[:1]
        z.add_(x[0, :1])
        z.add_(1)
    """,
    "what is written in place may be computed in another dtype": """
        x = T.tensor([-2.0, 3.0], dtype=T.float64, requires_grad=True)
        y = x * 3
        a = (x * 2).float()
        a.mul_(y)
        a.add_(1)
        b = (x * 2).float()
        b[...] *= y
        b[0] /= y[0]
        c = (x * 2).half()
        c.pow_(2).mul_(y)
        (a.sum() + b.sum() + c.float().sum()).backward(retain_graph=True)
        d = (x * 2).float()
        e = d * y
        d.add_(1)
        e.sum().backward()
    """,
    "views made under no_grad require grad as long as their base does": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        y = x * 2
        with T.no_grad():
            a = x[0]
            b = a[:1]
            c = y.T
            d, e = y.unbind()
            f = x.detach()[0]
        with T.inference_mode():
            g = x.view(4)
        h = a * x[1] + b
        h.sum().backward()
        i = c[1].exp()
        i.sum().backward()
        a.add_(1)
        a.sum().backward(inputs=[a])
        b.backward(T.ones_like(b))
        d[0].backward()
        j = copy.copy(b)
        T.autograd.grad(a.sum(), a)
        a.requires_grad_(False)
        c.detach_()
        g.register_hook(see('g'))
        (g * 2).sum().backward()
        g.requires_grad_()
        (g * 2).sum().backward()
        x.requires_grad_(False)
        a.requires_grad_()
        (a * b).sum().backward()
    """,
    "views that get another shape under no_grad keep their history": """
        x = T.tensor([[1.0, 2.0]], requires_grad=True)
        a = x.transpose(0, 1)
        with T.no_grad():
            b = x[0]
            a.squeeze_(1)
            b.unsqueeze_(0)
        c = a * 2
        (b * 2).sum().backward()
    """,
    "views made under no_grad are of no use after a write": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        with T.no_grad():
            a = x[0]
            x.mul_(2)
            b = x[1]
        print(a.requires_grad)
        c = a[0]
        d = a * 2
        with T.no_grad():
            e = a * 2
        f = b * 2
        del a, c
    """,
    "views of leaves are not written, by Functions either": """
        x = T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
        a = x.as_strided((2,), (1,))
        a.zero_()
        AddOne.apply(a)
        b = x.split(1)[0]
        b += 1
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
    "a kept gradient has the shape that the tensor had": """
        x = T.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]], requires_grad=True)
        y = x * 2
        y.retain_grad()
        y.backward(x.detach(), retain_graph=True)
        y.t_()
        y.retain_grad()
        (y * x.detach()).sum().backward(retain_graph=True)
        z = x * 3
        z.retain_grad()
        z.unsqueeze_(1)
        z.transpose_(0, 1)
        z.sin().sum().backward()
    """,
    "a view that is a leaf is moved into the graph with its base": """
        x = T.tensor([1.0, 2.0])
        y = x.view_as(x)
        y.requires_grad_()
        a, b = Dirty.apply(x, y)
        (x * b).sum().backward()
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
    "indices of an output that was saved": """
        x = T.tensor([1.0, 3.0], requires_grad=True)
        v, i = Largest.apply(x)
        j = i[...]
        j.unsqueeze_(0)
        v.backward()
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
    "inference mode makes inference tensors": """
        x = T.ones(2)
        with T.inference_mode():
            a = T.zeros_like(x)
            b = x.new_zeros(3)
            c = copy.deepcopy(x)
            d = x.real
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
    "a view of a base that was reshaped in place": """
        v1 = T.tensor([0.5, -2.0], dtype=T.float64, requires_grad=True)
        v2 = v1.exp().sum()
        v3 = v2.expand_as(v2)
        v2.squeeze_()
        v4, = T.autograd.grad(v3, [v2], create_graph=True, materialize_grads=True)
        v5 = v1 * 2
        v6 = v5[1:]
        v5.unsqueeze_(0)
        v7, v8 = T.autograd.grad(v6.square().sum(), [v5, v1], allow_unused=True)
    """,
    "what an op saved of a tensor before that got its flag": """
        w = T.tensor([2.0, 3.0], dtype=T.float64, requires_grad=True)
        a, b, d = T.tensor([[5.0, 7.0], [0.5, 1.5], [4.0, 6.0]], dtype=T.float64).unbind()
        p, q, r = T.nn.Parameter(a.clone()), T.nn.Parameter(b), T.nn.Parameter(d.clone())
        c, e, s = a.clone(), a[:], r.detach()
        _x = p.requires_grad_(False), q.requires_grad_(False), r.requires_grad_(False)
        y = w * a + w.exp() ** p + w * b + w * c + w * e + w * r.detach() + w * s + w * w * d.detach()
        late = T.nn.Parameter(a)
        _x = p.requires_grad_(), p.requires_grad_(False), [v.requires_grad_() for v in (b, c, d, e, p, q, r)]
        z = y + w * T.ones(2, dtype=T.float64).requires_grad_()
        g, = T.autograd.grad(y.square().sum(), [w], create_graph=True)
        g1, g2, g3, g4, g5, g6, g7 = T.autograd.grad(g.sum(), [c, e, p, q, r, d, late], allow_unused=True)
    """,
    "an operand that got its flag late, in functions and without it again": """
        w = T.tensor([2.0, 3.0], dtype=T.float64, requires_grad=True)
        a, b, c, d = T.tensor([[5.0, 7.0], [0.5, 1.5], [4.0, 6.0], [1.0, 2.0]], dtype=T.float64).clone().unbind()
        y = T.addcmul(a, w, a) + T.where(w > 2, w * w, b) * b + w / c + w * d
        _x = [v.requires_grad_() for v in (a, b, c, d)]
        d.requires_grad = False
        (T.autograd.grad(y.sum(), [w], create_graph=True)[0] ** 2).sum().backward()
    """,
    "a deviation of zero, forward": """
        x = T.zeros(2, 2, dtype=T.float64, requires_grad=True)
        with F.dual_level():
            a = F.unpack_dual(F.make_dual(x, T.ones_like(x)).std(0))[1]
        b, = T.autograd.grad(x.std(0).sum(), [x], create_graph=True)
        c, = T.autograd.grad(b.sum(), [x], allow_unused=True)
    """,
    "writes in forward mode, differentiated backward": """
        x = T.tensor([[-0.75, 0.5], [0.25, 1.5]], dtype=T.float64, requires_grad=True)
        with F.dual_level():
            _a = F.make_dual(x, x * x)
            _b = _a * 2
            _b.mul_(_a)
            _b[:1].mul_(_a[:1])
            y = F.unpack_dual(_b.sin_())[1]
        y.sin().sum().backward()
    """,
    "a derivative that is its direction is no other name of it": """
        x = T.tensor([1.5, -1.0], dtype=T.float64, requires_grad=True)
        y = x * 2
        a = T.func.jvp(lambda a: a + 0.5, (y,), (x,))[1]
        c = T.func.linearize(lambda a: a + 0.5, y)[1](x)
        d = T.autograd.functional.jvp(lambda a: a + 0.5, y, x, create_graph=True)[1]
        e = T.func.jvp(lambda a: a * 1, (x.detach(),), (x.detach(),))[1]
        e.add_(1)
    """,
    "tangents of inference tensors are computed outside of inference mode": """
        with T.inference_mode():
            x = T.tensor([[0.5, -1.25], [-1.0, 1.5]], dtype=T.float64)
        with F.dual_level():
            d = F.make_dual(x.detach(), x.detach())
            a = F.unpack_dual(d.sort(-1)[0].clamp(max=0.5))[1]
            b = F.unpack_dual(d.cumprod(0))[1]
            c = F.unpack_dual(T.outer(d.flatten(), x.flatten()))[1]
    """,
    "the mean beside a variance of one element has a gradient": """
        x = T.tensor([[0.5], [1.5]], dtype=T.float64, requires_grad=True)
        a, b = T.var_mean(x, 1)
        b.sum().backward()
        c, d = T.std_mean(x, 1)
        d.sum().backward()
    """,
    "a tangent that is handed on as it is has no history where none is recorded": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        t = x * 3
        with F.dual_level():
            d = F.make_dual(x, t)
            with T.no_grad():
                a = F.unpack_dual(T.zeros_like(d) + d)[1]
                b = F.unpack_dual(d.clone())[1]
            c = F.unpack_dual(T.zeros_like(d) + d)[1]
    """,
    "what as_strided saw of a tensor was written, and its gradient lies in another order": """
        x = T.tensor([[-2.0, 0.75, 3.0], [-2.0, 0.25, 1.0]], dtype=T.float64, requires_grad=True)
        y = x * 2
        a = y.as_strided((2,), (1,))
        a.copy_(a)
        y.sum().backward(create_graph=True)
        z = x.t() * 2
        b = z.as_strided((2,), (2,), 1)
        b.zero_()
        c, = T.autograd.grad((z * z).sum(), [x], create_graph=True)
        (z * z).sum().backward()
    """,
    "sparse gradients are accumulated while the walk is recorded": """
        x = T.tensor([[1.25, 2.0]], dtype=T.float64, requires_grad=True)
        y = T.nn.functional.embedding(T.tensor([0, 0]), x, sparse=True)
        y.sum().backward(create_graph=True)
        y = T.nn.functional.embedding(T.tensor([0, 0]), x, sparse=True)
        y.sum().backward(create_graph=True)
    """,
    "an argument that a call with a subclass hands on is a view of that subclass": """
        x = T.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        m = T.ones(2).as_subclass(Marked)
        a = x.type_as(m)
        b = x.to(m)
        c, _ = T.broadcast_tensors(x, m)
        (a * b * c).as_subclass(T.Tensor).sum().backward()
        d = y.type_as(m)
        d.mul_(3)
        y.sum().backward()
    """,
    "what arrives at a deviation of zero goes no further, NaN included": """
        x = T.tensor([2.0, 2.0], dtype=T.float64, requires_grad=True)
        y = x.std()
        (y / y).backward(retain_graph=True)
        g, = T.autograd.grad(x.std() * 3 + x.sum() ** 2, [x], create_graph=True)
    """,
    "a tangent that is a leaf is handed on as a view": """
        x = T.tensor([2.0, 2.0], requires_grad=True)
        with F.dual_level():
            d = F.make_dual(x, x)
            a = F.unpack_dual(d + 0.5)[1]
            b = F.unpack_dual(T.zeros_like(d) + d)[1]
            with T.no_grad():
                c = F.unpack_dual(d + 0.5)[1]
        (a * b).sum().backward()
    """,
}
