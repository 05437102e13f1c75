"""Tensors that got their flag after an op had saved them: whom the second derivative leads to, and that none is taken
for another."""

import copy
import gc
import io
import pickle

import pytest

import plugrad as torch
from plugrad import Tensor, registry
from plugrad.graph.saved import flagged
from plugrad.testing.samples import samples_of


def second(y, w, *tensors):
    """Return the gradients of y's gradient with respect to some tensors."""
    (g,) = torch.autograd.grad(y, w, torch.ones_like(y), create_graph=True)
    return torch.autograd.grad(g.sum(), tensors, allow_unused=True) if g.requires_grad else (None,) * len(tensors)


def pair():
    w = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    return w, torch.tensor([5.0, 7.0], dtype=torch.float64)


@pytest.mark.parametrize("made", ["a", "a[:]", "torch.nn.Parameter(a)", "a.clone()"])
def test_the_second_derivative_leads_to_a_late_flag(made):
    w, a = pair()
    a = eval(made, {"a": a, "torch": torch})
    a.requires_grad_(False)
    y = w * w * a
    a.requires_grad_()
    assert second(y, w, a)[0].tolist() == [4.0, 6.0]
    a.requires_grad_(False)
    assert not torch.autograd.grad(y * 2, w, torch.ones_like(y), retain_graph=True)[0].requires_grad


@pytest.mark.parametrize("other", [
    "a.detach()", "a.data", "copy.copy(a)", "copy.deepcopy(a)", "pickle.loads(pickle.dumps(a))", "a.view(2)",
    "torch.nn.Parameter(a)", "a.as_subclass(Named)", "from_data(a)", "a.detach().detach()", "a[...]",
    "torch.as_tensor(a.numpy())", "Tensor._make_subclass(Tensor, a)",
    "torch.utils.swap_tensors(a, a.clone()) or a.detach()",
])  # fmt: skip
@pytest.mark.parametrize("kept", [True, False])
def test_no_tensor_is_taken_for_another_with_its_memory(other, kept):
    """Neither the one that was not used, nor, once that is gone, the one that it was made of."""

    class Named(Tensor):
        pass

    def from_data(a):
        x = torch.zeros(2, dtype=torch.float64)
        x.data = a
        return x

    w, a = pair()
    names = {**globals(), "Named": Named, "from_data": from_data, "a": a}
    if kept:  # used is the one, flagged the other
        made = eval(other, names).requires_grad_(False)
        y = w * w * a
        made.requires_grad_()
        assert second(y, w, made) == (None,)
    w, a = pair()
    made = eval(other, {**names, "a": a}).requires_grad_(False)
    y = w * w * made
    if not kept:
        del made
        gc.collect()
    a.requires_grad_()
    assert second(y, w, a) == (None,)


def test_what_is_noted_is_no_attribute_and_goes_with_the_tensor():
    w, a = pair()
    before, late = {**vars(a)}, torch.ones(2, dtype=torch.float64)
    y = w * a.detach() + w * late
    a.requires_grad_(), late.requires_grad_()
    assert vars(a) == before and id(late._raw) in flagged
    for one in (copy.copy(late), copy.deepcopy(late), pickle.loads(pickle.dumps(late))):
        assert not hasattr(one, "_shares") or one._raw is late._raw
    file = io.BytesIO()
    torch.save({"a": a, "late": late}, file)
    key = id(late._raw)
    del late, one
    gc.collect()
    assert key not in flagged and y.requires_grad


def flat(value):
    """Yield the tensors in a value."""
    for item in value if isinstance(value, (list, tuple)) else (value,):
        yield from (item,) if isinstance(item, Tensor) else flat(item) if isinstance(item, (list, tuple)) else ()


@pytest.mark.filterwarnings("ignore")
def test_no_op_returns_another_tensor_with_the_array_of_one_that_is_there():
    """By its array a tensor is known that a node saved."""
    seen, wrong = 0, set()
    for op in registry.ops.values():
        for sample in samples_of(op, torch.float64)[:3] if op.sample_function is not None else ():
            given = {id(one._raw): one for one in flat([*sample.args, *sample.kwargs.values()])}
            try:
                results = [*flat([sample.call(op.function)])]
            except (NotImplementedError, RuntimeError, TypeError, ValueError):
                continue
            seen += 1
            for one in results:
                if given.setdefault(id(one._raw), one) is not one and one.numel():
                    wrong.add(op.name)
    assert seen > 500 and not wrong
