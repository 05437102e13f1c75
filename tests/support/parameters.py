"""Small parameters, for tests of optimizers."""

import numpy

import plugrad


def parameter(array):
    """Return a tensor of an array's numbers that requires grad."""
    return plugrad.tensor(array, requires_grad=True)


def values(tensor):
    """Return the numbers of a tensor as an array."""
    return tensor.detach().numpy()


def one(value=1.0, grad=1.0):
    """Return a parameter of one number, with a gradient."""
    p = parameter(numpy.array([value], numpy.float32))
    p.grad = plugrad.tensor(numpy.array([grad], numpy.float32))
    return p
