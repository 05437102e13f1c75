"""Writes to real numbers seen as complex ones and the other way: gradients are those of the program without a write."""

from __future__ import annotations

import pytest

import plugrad as torch

WRITES = {
    "mul_": (lambda z: z.mul_(2 - 1j), lambda z: z * (2 - 1j)),
    "itself": (lambda z: z.__setitem__(..., z[...]), lambda z: z),
    "copy_": (lambda z: z.copy_(z.clone() * 1j), lambda z: z * 1j),
}


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0,)])
@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("look", [lambda z: z.imag, lambda z: z.conj().imag, lambda z: torch.view_as_real(z)[..., 1]])
def test_gradients_after_a_write(shape, name, look):
    write, written = WRITES[name]
    found = []
    for in_place in (True, False):
        torch.manual_seed(0)
        x = torch.randn(*shape, 2, dtype=torch.float64, requires_grad=True)
        z = torch.view_as_complex(x * 3)
        if in_place:
            write(z)
        else:
            z = written(z)
        look(z).sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_parts_of_a_number_that_is_written():
    z = torch.tensor(1 + 2j, dtype=torch.complex128, requires_grad=True)
    parts = torch.view_as_real(z * 1)
    parts[1] *= 5
    parts[1].backward()
    assert z.grad == 5j
