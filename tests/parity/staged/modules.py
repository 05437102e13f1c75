"""Modules that are scripted, right and wrong ones, with arguments: MODULES.

`torch` is PyTorch or plugrad: the file is imported under both, see staged_twice.
"""

# ruff: noqa: B007, F811, F821, UP006, UP035, UP045

from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 4)
        self.b = nn.BatchNorm1d(4)
        self.d = nn.Dropout(0.0)
        self.k = 2
        self.s = "x"

    def forward(self, x):
        x = torch.relu(self.a(x))
        if self.training:
            x = self.d(x)
        for i in range(self.k):
            x = x + i
        return self.b(x)


class Cfg(nn.Module):
    n: torch.jit.Final[int]
    opt: Optional[int]
    sizes: List[int]

    def __init__(self, down=None):
        super().__init__()
        self.n = 3
        self.opt = None
        self.sizes = []
        self.down = down
        self.w = nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(1))
        self.register_parameter("bias", None)

    def forward(self, x, y: Optional[torch.Tensor] = None):
        self.count += 1
        if self.down is not None:
            x = self.down(x)
        if self.bias is not None:
            x = x + self.bias
        o = self.opt
        if o is not None:
            x = x * o
        if y is not None:
            x = x + y
        self.sizes.append(x.size(0))
        return x * self.w * self.n, len(self.sizes)


class Lst(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Linear(3, 3), nn.Tanh()), nn.ReLU()])
        self.dd = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Sigmoid()})

    def forward(self, x):
        r: List[torch.Tensor] = []
        for l in self.ls:
            x = l(x)
            r.append(x)
        for i, l in enumerate(self.ls):
            if i == 1:
                x = l(x)
        for k, v in self.dd.items():
            x = v(x)
        x = self.dd["a"](x)
        y = self.ls[0](x)
        for l in self.ls[1:]:
            y = l(y)
        return torch.stack(r).sum(0) + x + y, len(self.ls)


class Meth(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub = Inner()

    def helper(self, x, n: int = 2):
        return x * n

    @torch.jit.export
    def other(self, x):
        return self.helper(x, 3)

    @torch.jit.ignore
    def ig(self, x) -> torch.Tensor:
        return x + 100

    @torch.jit.unused
    def un(self, x) -> torch.Tensor:
        return weird(x)

    @property
    def two(self) -> int:
        return 2

    def forward(self, x):
        if x.sum() > 1000:
            x = self.un(x)
        return self.helper(x) + self.sub.scale(x) + self.sub(x) + self.two + self.ig(x)


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = 1.5

    @torch.jit.export
    def scale(self, x):
        return x * self.f

    def forward(self, x):
        return glob_fn(x)


def glob_fn(x):
    return inner_fn(x, 2) + 1


def inner_fn(x, k: int):
    return x**k


class Rnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.LSTM(3, 4, batch_first=True)
        self.e = nn.Embedding(5, 3)

    def forward(self, ids, h: Optional[Tuple[torch.Tensor, torch.Tensor]] = None):
        o, (a, c) = self.l(self.e(ids))
        return o[:, -1], a, c


class Att(nn.Module):
    def __init__(self):
        super().__init__()
        self.m = nn.MultiheadAttention(4, 2, batch_first=True)
        self.n = nn.LayerNorm(4)

    def forward(self, x):
        a, _ = self.m(x, x, x)
        return self.n(x + a)


class Act(nn.Module):
    def __init__(self):
        super().__init__()
        self.act = nn.functional.relu
        self.act2 = torch.tanh

    def forward(self, x):
        return self.act2(self.act(x))


class Has(nn.Module):
    def __init__(self):
        super().__init__()
        self.z = 1

    def forward(self, x):
        if hasattr(self, "zz"):
            return self.zz(x)
        if torch.jit.is_scripting():
            return x + 1
        return x


class SubSeq(nn.Sequential):
    def forward(self, x):
        for m in self:
            x = m(x) * 2
        return x


class Enc(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), 2, enable_nested_tensor=False
        )

    def forward(self, x):
        return self.e(x)


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2))
        self.g = nn.Linear(2 * 4 * 4, 3)

    def forward(self, x):
        x = self.f(x)
        x = x.view(x.size(0), -1)
        return torch.log_softmax(self.g(x), dim=1)


class BadAttr(nn.Module):
    def __init__(self):
        super().__init__()
        self.o = object()
        self.l = []

    def forward(self, x):
        return x + self.l[0]


class BadAttr2(nn.Module):
    def forward(self, x):
        return self.nope(x)


class SetNew(nn.Module):
    def forward(self, x):
        self.q = x
        return x


class SetConst(nn.Module):
    q: torch.jit.Final[int]

    def __init__(self):
        super().__init__()
        self.q = 1

    def forward(self, x):
        self.q = 2
        return x


class OptAttr(nn.Module):
    o: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.o = None

    def forward(self, x):
        if self.o is not None:
            return x + self.o
        return x


class State(nn.Module):
    hidden: Optional[torch.Tensor]

    def __init__(self):
        super().__init__()
        self.hidden = None
        self.step = 0
        self.l = nn.Linear(3, 3)

    def forward(self, x):
        h = self.hidden
        if h is None:
            h = torch.zeros_like(x)
        h = torch.tanh(self.l(x) + h)
        self.hidden = h.detach()
        self.step += 1
        return h


class TupOut(NamedTuple):
    a: torch.Tensor
    n: int


class NT(nn.Module):
    def forward(self, x) -> TupOut:
        return TupOut(a=x, n=x.size(0))


class Params(nn.Module):
    def __init__(self):
        super().__init__()
        self.ps = nn.ParameterList([nn.Parameter(torch.ones(1) * i) for i in range(3)])

    def forward(self, x):
        for p in self.ps:
            x = x + p
        return x + self.ps[1]


class DynIdx(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList([nn.ReLU(), nn.Tanh()])

    def forward(self, x, i: int):
        return self.ls[i](x)


class Sup(Net):
    def forward(self, x):
        return super().forward(x)


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.GRUCell(3, 3)

    def forward(self, x):
        h = torch.zeros(x.size(1), 3)
        outs = []
        for t in range(x.size(0)):
            h = self.c(x[t], h)
            outs.append(h)
        return torch.stack(outs), h


class Ret(nn.Module):
    def forward(self, x, mode: str = "a") -> Dict[str, torch.Tensor]:
        out = {"y": x}
        if mode == "a":
            return out
        elif mode == "b":
            out["z"] = x * 2
            return out
        raise ValueError("mode " + mode)


class ClsAttr(nn.Module):
    scale = 3
    __constants__ = ["flag"]

    def __init__(self):
        super().__init__()
        self.flag = True
        self.t = torch.ones(2)

    def forward(self, x):
        if self.flag:
            return x * self.t
        else:
            return self.notthere(x)


class BadCond(nn.Module):
    def forward(self, x):
        return x.foo


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)

    def forward(self, x):
        n = 0
        while n < 5 and bool(x.norm() < 10):
            x = self.a(x) * 2 if n % 2 == 0 else self.b(x) + 1
            n += 1
        return x, n


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.ModuleList([nn.Linear(3, 3), nn.ReLU()]) for _ in range(2)])
        self.p = 0.0

    def forward(self, x):
        for pair in self.layers:
            x = pair[1](pair[0](x))
        for i in range(len(self.layers)):
            x = x + 1
        x = nn.functional.dropout(x, p=self.p, training=self.training)
        return self.layers[-1][0](x)


class Containers(nn.Module):
    table: Dict[str, int]
    names: List[str]

    def __init__(self):
        super().__init__()
        self.table = {"a": 1}
        self.names = []
        self.lut = {"q": 2.5}
        self.sizes = [1, 2]
        self.pair = (1, "z")

    @staticmethod
    def stat(x, k: int):
        return x * k

    def forward(self, x, key: str = "a"):
        if key in self.table:
            x = x * self.table[key]
        else:
            self.table[key] = 5
        self.names.append(key)
        a, b = self.pair
        for s in self.sizes:
            x = x + s
        return self.stat(x, 2) * self.lut["q"] + a, b, len(self.names), self.table


class Accessed(nn.Module):
    def __init__(self):
        super().__init__()
        self._times = 3

    @property
    def times(self) -> int:
        return self._times

    @times.setter
    def times(self, value: int):
        self._times = value * 2

    def forward(self, x):
        self.times = self.times + 1
        self.times += 1
        return x * self.times, self._times


class ReadOnly(nn.Module):
    @property
    def times(self) -> int:
        return 3

    def forward(self, x):
        self.times = 4
        return x


class Among(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({"a": nn.ReLU(), "b": nn.Tanh()})

    def forward(self, x):
        if "a" in self.parts:
            x = self.parts["a"](x) + 1
        if "c" not in self.parts:
            x = x * 2
        return x


class Appends(nn.Module):
    def forward(self, items: List[int]):
        items.append(1)
        return len(items)


class SharedList(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Appends()

    def forward(self, x):
        items = [5]
        n = self.part(items) + self.part(items)
        return items, n


class Overloaded(nn.Module):
    @torch.jit._overload_method
    def twice(self, x: int) -> int: ...

    @torch.jit._overload_method
    def twice(self, x: str) -> str: ...

    def twice(self, x):
        return x + x

    def forward(self, x):
        return self.twice(3), self.twice("ab"), x


class Derived(torch.jit.ScriptModule):
    __constants__ = ["rounds"]

    def __init__(self):
        super().__init__()
        self.rounds, self.sizes = 2, torch.jit.Attribute([], List[int])
        self.inner, self.scale = nn.Linear(3, 3), nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(1))
        assert self.sizes == []
        self.define("""
            def shifted(self, x, by: float):
                return x * self.scale + by
        """)

    @torch.jit.script_method
    def forward(self, x):
        for _ in range(self.rounds):
            x = self.chosen(self.inner(x), 3)
        return self.shifted(x, 0.5), len(self.sizes)

    @torch.jit.script_method
    def chosen(self, x, k):
        # type: (Tensor, int) -> Tensor
        self.seen += 1
        if k > 2:
            return x * k
        return x

    def of_python(self):
        return {type(self.inner).__name__: "not compiled"}


class DerivedInPart(torch.jit.ScriptModule):
    def __init__(self):
        super().__init__()
        self.scale, self.other = nn.Parameter(torch.ones(3)), [{"by": 2.0, "name": "of no type"}]

    @torch.jit.script_method
    def scaled(self, x, by: float):
        return x * self.scale * by

    def forward(self, x, *more):
        return self.scaled(x, self.other[0]["by"]), len(more)


x23 = torch.arange(6.0).view(2, 3) / 6
x33 = torch.arange(9.0).view(3, 3) / 9
MODULES = [
    (Nested, (x23,)),
    (Containers, (x23, "mean")),
    (Containers, (x23, "q")),
    (Net, (x23,)),
    (Cfg, (torch.ones(2),)),
    (lambda: Cfg(nn.Linear(2, 2)), (torch.ones(1, 2), torch.ones(2))),
    (Lst, (x23,)),
    (Meth, (x23,)),
    (Rnn, (torch.tensor([[1, 2], [3, 4]]),)),
    (Att, (torch.ones(1, 2, 4),)),
    (Act, (x23,)),
    (Has, (x23,)),
    (lambda: SubSeq(nn.Linear(3, 3), nn.ReLU()), (x23,)),
    (Enc, (torch.arange(8.0).view(1, 2, 4),)),
    (CNN, (torch.arange(128.0).view(2, 1, 8, 8).sin(),)),  # of a ramp a value may lie on the edge of ReLU
    (BadAttr, (x23,)),
    (BadAttr2, (x23,)),
    (SetNew, (x23,)),
    (SetConst, (x23,)),
    (OptAttr, (x23,)),
    (State, (x23,)),
    (NT, (x23,)),
    (Params, (x23,)),
    (DynIdx, (x23, 1)),
    (Sup, (x23,)),
    (Loop, (x33[None],)),
    (Ret, (x23, "b")),
    (Ret, (x23, "c")),
    (ClsAttr, (torch.ones(2),)),
    (BadCond, (x23,)),
    (Cond, (x23,)),
    (Accessed, (x23,)),
    (ReadOnly, (x23,)),
    (Among, (x23,)),
    (SharedList, (x23,)),
    (Overloaded, (x23,)),
    (Derived, (x23,)),
]
