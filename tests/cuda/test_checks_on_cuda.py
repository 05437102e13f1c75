"""`plugrad check --device cuda`: gradients of ops and layers are judged where they are computed."""

import pytest

import plugrad as torch
from plugrad import registry
from plugrad.testing import check
from plugrad.testing.conformance import checks_of

SUBJECTS = ["conj", "take_rows", "masked_sum", "scatter", "nn.Linear", "nn.Embedding", "nn.AdaptiveLogSoftmaxWithLoss"]


@pytest.mark.parametrize("name", SUBJECTS)
def test_gradients_of_what_is_right(name):
    """Samples may write an index down; parameters are changed one by one, where they are."""
    subject = registry.resolve(name) if "." in name else registry.op(name)
    (judged,) = [case for case in checks_of(subject, "cuda") if case.name == "gradient"]
    assert judged() is None


class Forgetful(torch.autograd.Function):
    """Forgets a factor in the gradient of what it is given second."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight * weight

    @staticmethod
    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        return g * weight * weight, g * x * weight


def test_gradients_of_what_is_wrong():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.tensor([0.7, -1.2, 0.4], dtype=torch.float64))

        def forward(self, x):
            return Forgetful.apply(x, self.weight)

    layer, before = Layer().cuda(), [0.7, -1.2, 0.4]
    x = torch.tensor([0.3, 0.9, -1.1], dtype=torch.float64, device="cuda", requires_grad=True)
    verdict = check(layer, (x,))
    assert verdict.status == "FAIL" and verdict.input == "weight"
    assert layer.weight.tolist() == before
    verdict = check(lambda x: (x * layer.weight.detach()).sin(), (x,))
    assert verdict.status == "PASS"
