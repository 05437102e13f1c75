"""Modules called with other tensors than their own: what they see, and what is as before afterwards."""

import pytest

import plugrad

torch = pytest.importorskip("torch")


def classes(T):
    class Counting(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = T.nn.Linear(1, 1)
            self.tied = self.inner.bias
            self.register_buffer("count", T.zeros(1))
            self.register_parameter("none", None)
            self.plain, self.number = T.ones(1), 3.0

        def forward(self, x):
            self.count = self.count + 1
            held = [(name, p.tolist()) for name, p in self.named_parameters()]
            more = getattr(self, "more", None)
            result = self.inner.weight * x + self.tied + self.plain
            return [result.tolist(), held, None if more is None else more.tolist()]

    return Counting()


VALUES = {
    "a buffer that is bound anew": lambda T: {"count": T.full((1,), 5.0)},
    "tied names": lambda T: {"inner.weight": T.ones(1, 1), "tied": T.full((1,), 2.0)},
    "two values for tied names": lambda T: {"tied": T.ones(1), "inner.bias": T.zeros(1)},
    "an attribute": lambda T: {"plain": T.full((1,), 7.0)},
    "a new attribute": lambda T: {"more": T.ones(2)},
    "a new parameter": lambda T: {"more": T.nn.Parameter(T.ones(2)), "inner.other": T.nn.Parameter(T.ones(1))},
    "in the place of none": lambda T: {"none": T.nn.Parameter(T.ones(1))},
    "no tensor": lambda T: {"inner.weight": 3.0},
    "in the place of a number": lambda T: {"number": T.ones(1)},
    "of no submodule": lambda T: {"outer.weight": T.ones(1, 1)},
    "all but tied ones": lambda T: {
        "inner.weight": T.ones(1, 1), "inner.bias": T.ones(1), "count": T.zeros(1),
    },
}  # fmt: skip


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("case", VALUES)
def test_calls_with_other_tensors(case, strict, several):
    def outcome(T):
        T.manual_seed(0)
        model, values = classes(T), VALUES[case](T)
        before = {name: id(value) for name, value in vars(model).items()}
        if "count" not in values:
            model.forward = lambda x, forward=model.forward: (forward(x), model._buffers.update(count=count))[0]
            count, before = model.count, {**before, "forward": id(model.forward)}
        tables = [dict(table) for table in (model._parameters, model._buffers, model.inner._parameters)]
        given = [values, {}] if several else values
        try:
            result = T.func.functional_call(model, given, T.ones(1), strict=strict)
        except Exception as error:
            result = type(error)
        assert before == {name: id(value) for name, value in vars(model).items()}
        now = (model._parameters, model._buffers, model.inner._parameters)
        assert all(old == dict(new) for old, new in zip(tables, now, strict=True))
        return result, [(name, getattr(value, "tolist", float)()) for name, value in values.items() if name != "number"]

    ours, theirs = outcome(plugrad), outcome(torch)
    assert ours[1] == theirs[1]
    assert ours[0] == theirs[0] or isinstance(ours[0], type) and issubclass(ours[0], theirs[0])


@pytest.mark.parametrize("name", ["inner.weight", "inner.outer.inner.weight", "inner.other.weight"])
def test_modules_in_a_circle(name):
    def outcome(T):
        model = classes(T)
        model.inner.outer = model
        given = {name: T.full((1, 1), 3.0), "count": T.ones(1)}
        try:
            model.forward = lambda x: (model.inner.weight * x, model.count)
            weight, count = T.func.functional_call(model, given, T.ones(1), tie_weights=False)
        except Exception as error:
            return type(error)
        return weight.tolist(), count.tolist(), model.count.tolist()

    assert outcome(plugrad) == outcome(torch)
