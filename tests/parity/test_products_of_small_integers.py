"""tensordot over dimensions of size 1 keeps the type of small integers, whose sums are int64 elsewhere."""

import itertools

import pytest

import plugrad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float32", "complex64"])
def test_tensordot_with_dimensions_of_size_one(dtype):
    for first, second in itertools.product([(2, 3), (2, 1), (1, 3), (1, 1)], [(3, 4), (1, 4), (3, 1)]):
        results = []
        for module in (torch, plugrad):
            a = (module.arange(first[0] * first[1]) + 100).reshape(first).to(getattr(module, dtype))
            b = (module.arange(second[0] * second[1]) + 50).reshape(second).to(getattr(module, dtype))
            y = module.tensordot(a, b, dims=([1], [0]))
            results.append((str(y.dtype), y.tolist()))
        assert results[0] == results[1], (first, second)
