"""The random numbers that fractional pooling is given: more samples than the batch needs are no mistake."""

import pytest

import plugrad

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("n", [2, 3])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_more_samples_than_the_batch_needs(n, batch):
    x = torch.rand(*batch, 2, *(6,) * n, generator=torch.Generator().manual_seed(0))
    samples = torch.rand(3, 2, n, generator=torch.Generator().manual_seed(1))
    name, given = f"FractionalMaxPool{n}d", {"output_size": 3}
    theirs = getattr(torch.nn, name)(2, **given, _random_samples=samples)(x)
    ours = getattr(plugrad.nn, name)(2, **given, _random_samples=plugrad.from_numpy(samples.numpy()))
    assert ours(plugrad.from_numpy(x.numpy())).tolist() == theirs.tolist()
    with pytest.raises(RuntimeError, match="Expect _random_samples"):
        ours(plugrad.ones(4, 2, *(6,) * n))
