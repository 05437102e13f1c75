"""What is written by an index, and to what a conjugate stands for: on CUDA as on the CPU."""

import itertools

import pytest

import plugrad as torch

SHAPES = [(0, 2), (3,), (2, 3), (2, 3, 2)]
VALUES = [(0,), (1,), (2,), (3,), (6,), (0, 2), (1, 2), (2, 2), (3, 2), (1, 1, 2), (5,)]
INDICES = {  # by what they are called
    "a mask that holds": lambda x: x > -1,
    "a mask that holds nowhere": lambda x: x > 1,
    "a mask of rows": lambda x: x[..., 0] > -1,
    "a mask of no rows": lambda x: x[..., 0] > 1,
    "a mask and a number": lambda x: (x[:, 0] > 1, 0),
    "no indices": lambda x: torch.zeros(0, dtype=torch.int64, device=x.device),
    "no indices behind": lambda x: (slice(None), torch.zeros(0, dtype=torch.int64, device=x.device)),
    "one index": lambda x: torch.tensor([0], device=x.device),
}


def written(shape, value, index, device):
    """Return a tensor of zeros in which ones are written, or the kind of error."""
    x = torch.zeros(shape, device=device)
    try:
        x[index(x)] = torch.ones(value, device=device)
    except (IndexError, RuntimeError) as error:
        return type(error)
    return x.tolist()


@pytest.mark.parametrize("index", INDICES)
def test_values_that_do_not_fit_are_refused_wherever_an_index_points(index):
    for shape, value in itertools.product(SHAPES, VALUES):
        outcomes = [written(shape, value, INDICES[index], device) for device in ("cpu", "cuda")]
        assert outcomes[0] == outcomes[1], (shape, value, *outcomes)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "float64", "complex64"])
def test_numbers_where_a_mask_of_rows_holds(dtype):
    results = []
    for device in ("cpu", "cuda"):
        x = torch.ones(2, 1, 2, dtype=getattr(torch, dtype), device=device)
        x[torch.tensor([False, True], device=device)] = 0
        x[torch.tensor([True, False], device=device)] = True
        x[x == 0] = 2
        results.append(x.tolist())
    assert results[0] == results[1]


def test_an_index_of_what_has_no_elements_is_refused_at_once():
    """CuPy wraps indices by a division, here by zero."""
    x = torch.zeros(0, 2, device="cuda")
    with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
        x[torch.tensor([0, 1], device="cuda")] = 1.0
    with pytest.raises(IndexError, match="index is out of bounds for dimension with size 0"):
        x[torch.tensor([0], device="cuda")]


def test_a_conjugate_follows_and_is_not_written(cuda):
    x = torch.tensor([1 + 2j, 3 - 1j], device=cuda)
    y = x.conj()
    part, alias = y[1:], y.detach()
    assert y.is_conj() and part.is_conj() and not x.is_conj()
    x.mul_(2)
    assert y.tolist() == alias.tolist() == [2 - 4j, 6 + 2j] and part.tolist() == [6 + 2j]
    x[0] = 1j
    assert y.conj().tolist() == x.tolist() == [1j, 6 - 2j]
    for write in (lambda: y.add_(1), lambda: part.zero_(), lambda: alias.fill_(0), lambda: torch.add(x, 1, out=y)):
        with pytest.raises(RuntimeError, match="the conjugate of a complex tensor can't be written in place"):
            write()
    assert y.clone().add_(1).tolist() == [1 - 1j, 7 + 2j]
    assert y.numpy(force=True).tolist() == y.cpu().tolist() == y.tolist()


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (2, 0, 1)])
def test_a_conjugate_lies_in_memory_as_its_tensor(order, cuda):
    x = torch.zeros(2, 3, 4, dtype=torch.complex64, device=cuda).permute(order)
    assert x.conj().stride() == x.conj_physical().stride() == x.stride() and x.mH.stride() == x.mT.stride()


def test_the_gradient_of_a_conjugate_after_a_write(cuda):
    gradients = []
    for device in ("cpu", cuda):
        x = torch.tensor([1 + 2j, 3 - 1j], device=device, requires_grad=True)
        z = x * 1
        y = z.conj()
        z.mul_(z.detach().clone())
        (y * y).sum().backward(torch.tensor(1 + 0j, device=device))
        gradients.append(x.grad.tolist())
    assert gradients[0] == gradients[1]


def test_a_value_saved_from_a_conjugate_is_stale_when_it_followed(cuda):
    x = torch.tensor([1 + 2j], device=cuda)
    w = torch.tensor([1j], device=cuda, requires_grad=True)
    y = x.conj()
    product = (w * y).sum()
    x.mul_(2)
    assert y.tolist() == [2 - 4j]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward(torch.tensor(1 + 0j, device=cuda))
