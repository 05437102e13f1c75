"""What libraries do in plain Python around their ops, under a compiler: they ask for types, and keep what they know."""

from __future__ import annotations

import functools
import threading

import pytest

import plugrad as torch
from plugrad import nn
from support.compiled_programs import agree, compiled, loudly, programs  # noqa: F401

P = nn.Parameter(torch.ones(3))
TYPES = {
    "an argument": lambda x: x * 2 if type(x) is torch.Tensor else x * 3,
    "a parameter": lambda x: x * P if type(P) is nn.Parameter else x * 3,
    "a table": lambda x: x * {torch.Tensor: 2.0}.get(type(x), 3.0),
    "a class": lambda x: x * 2 if x.__class__ in (torch.Tensor,) and isinstance(P, nn.Parameter) else x * 3,
}


@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside a thread"])
@pytest.mark.parametrize("name", TYPES)
def test_tensors_keep_their_types_in_a_capture(name, beside):
    function, event = TYPES[name], threading.Event()
    other = threading.Thread(target=event.wait)
    if beside:
        other.start()
    try:
        call = compiled(function, fullgraph=True)
        for _ in range(2):
            agree(call(torch.arange(3.0)), function(torch.arange(3.0)), name)
    finally:
        event.set()
        if beside:
            other.join()
    assert type(P) is nn.Parameter and type(torch.Tensor.__dict__["_data"]) is type(torch.Tensor.__dict__["_type"])
    assert type(torch.Tensor.__dict__["_data"]).__name__ == "member_descriptor"


class Heads(nn.Module):
    """Splits and joins heads by patterns, as a library does that keeps what it knows of types, patterns and shapes."""

    def __init__(self):
        super().__init__()
        self.inner, self.kinds = nn.Linear(4, 8), {}

        @functools.lru_cache
        def reading(pattern, heads):
            return [pattern, heads, [0, 2, 1, 3]]

        def sizes(heads, shape):
            return [shape[0], shape[1], heads, shape[2] // heads]

        self.reading, self.sizes, self.uncached = reading, functools.lru_cache(8)(sizes), sizes

    def forward(self, x):
        x = self.inner(x)
        if type(x) not in self.kinds:
            self.kinds[type(x)] = "permute"
        _, heads, order = self.reading("b n (h d) -> b h n d", 2)
        try:
            sizes = self.sizes(heads, x.shape)
        except TypeError:  # for shapes without a hash
            sizes = self.uncached(heads, x.shape)
        return getattr(x.reshape(sizes), self.kinds[type(x)])(order).softmax(-1)


def test_a_library_that_keeps_what_it_knows_of_types_and_shapes():
    model = Heads()
    call = compiled(model)
    for size in (3, 5, 7, 4, 3):
        x = torch.randn(size, 6, 4)
        agree(call(x), model(x), str(size))
    assert len(programs(call)) == 1
