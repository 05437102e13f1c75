"""Functions with gradient formulas of one's own."""

import plugrad as torch


class Custom(torch.autograd.Function):
    """A function with a gradient formula of one's own, right or wrong."""

    @staticmethod
    def forward(ctx, x, function, formula):
        ctx.save_for_backward(x)
        ctx.formula = formula
        return function(x)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ctx.formula(g, x), None, None


def custom(function, formula):
    """Return the function of one tensor with the gradient `formula(g, x)`."""
    return lambda x: Custom.apply(x, function, formula)
