"""Pooled images are row-major unless the input has its channels innermost, whatever order the kernel computed in."""

import itertools

import pytest

import plugrad

torch = pytest.importorskip("torch")

LAYERS = {
    "AdaptiveAvgPool2d": [((3, 4),), ((2, 2),), (3,), ((None, 4),)],
    "AdaptiveMaxPool2d": [((3, 4),), ((2, 2),), (3,)],
    "AvgPool2d": [(2,), (3, 2, 1), ((2, 3), 1)],
    "MaxPool2d": [(2,), (3, 2, 1), ((2, 3), 1)],
    "LPPool2d": [(2, 2)],
    "ZeroPad2d": [(1,)],
    "ReflectionPad2d": [(1,)],
    "Upsample": [(None, 2)],
    "Conv2d": [(3, 4, 3), (3, 4, 3, 2)],
    "ConvTranspose2d": [(3, 4, 3)],
}


@pytest.mark.parametrize("name", LAYERS)
def test_strides_are_those_of_pytorch(name):
    shapes = [(5, 6), (7, 7), (6, 8)]
    for options, batch, shape, last in itertools.product(LAYERS[name], (1, 2), shapes, (False, True)):
        seen = []
        for module in (torch, plugrad):
            x = module.ones(batch, 3, *shape, requires_grad=True)
            if last:
                x = x.detach().contiguous(memory_format=module.channels_last).requires_grad_()
            y = getattr(module.nn, name)(*options)(x)
            y.sum().backward()
            strides = [step for n, step in zip(y.shape, y.stride()) if n > 1]
            seen.append((strides, y.is_contiguous()))
        if batch == 1 and last:  # one image may count as either
            continue
        assert seen[0] == seen[1], (options, batch, shape, last)
