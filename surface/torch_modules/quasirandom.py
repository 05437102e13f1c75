"""`torch.quasirandom`: Sobol's points, which fill the unit cube more evenly than random ones."""

from __future__ import annotations

import numpy

import plugrad
from plugrad import Tensor
from plugrad.extend import held_back

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol sequence one after another; PyTorch's, also where they are scrambled.

    Direction numbers: S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better two-dimensional projections"
    (2008), criterion D(6). Scrambling: J. Matousek, "On the L2-discrepancy for anchored boxes" (1998): a random linear
    map of the bits, and a random shift.

    Args:
        dimension: coordinates of a point, 1 to 21201.
        scramble: whether a random map and shift is applied.
        seed: of the scrambling; None draws from the default generator.

    Raises ValueError for another dimension.

    >>> import plugrad as torch
    >>> torch.quasirandom.SobolEngine(2).draw(3)
    tensor([[0.0000, 0.0000],
            [0.5000, 0.5000],
            [0.7500, 0.2500]])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if not 1 <= dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], not {dimension}"
            )
        self.seed, self.scramble, self.dimension = seed, scramble, dimension
        self.sobolstate = plugrad.from_numpy(_direction_numbers(dimension, self.MAXBIT))
        self.shift = plugrad.zeros(dimension, dtype=plugrad.int64)
        if scramble:
            self._scramble()
        self.quasi = self.shift.clone()
        self.num_generated = 0

    def draw(self, n: int = 1, out: Tensor | None = None, dtype=None) -> Tensor:
        """Return the next n points, (n, dimension) in [0, 1); of the default dtype unless another one is given."""
        self._check_count(n)
        with held_back():  # the present point and its number belong together
            rows = self._advance(n) if self.num_generated else self._advance(n - 1, first=0)
            self.num_generated += n
        points = plugrad.from_numpy(rows).to(dtype or plugrad.get_default_dtype()) * 2.0**-self.MAXBIT
        return points if out is None else out.resize_as_(points).copy_(points)

    def draw_base2(self, m: int, out: Tensor | None = None, dtype=None) -> Tensor:
        """Return the next 2**m points; ValueError where that makes the number of all points no power of two."""
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: n={self.num_generated}+2**{m}="
                f"{total}. If you still want to do this, please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n, out, dtype)

    def reset(self):
        """Begin the sequence again; return the engine."""
        with held_back():
            self.quasi.copy_(self.shift)
            self.num_generated = 0
        return self

    def fast_forward(self, n: int):
        """Leave the next n points out; return the engine."""
        self._check_count(n)
        with held_back():
            self._advance(n if self.num_generated else n - 1)
            self.num_generated += n
        return self

    @staticmethod
    def _check_count(n):
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")

    def _advance(self, n, first=1) -> numpy.ndarray:
        """Return the n points after the present one as integers; the last of them becomes the present one.

        `first=0` has the present one, too, in front.

        From a point to the next one changes the direction number of the lowest zero bit of the point's number
        (I. A. Antonov and V. M. Saleev, 1979).
        """
        numbers = numpy.arange(n, dtype=numpy.int64) + max(self.num_generated - 1, 0)
        lowest = ~numbers & (numbers + 1)
        steps = self.sobolstate.numpy().T[numpy.bitwise_count(lowest - 1)]
        rows = numpy.bitwise_xor.accumulate(numpy.vstack([self.quasi.numpy()[None], steps]))
        self.quasi.copy_(plugrad.from_numpy(rows[-1]))
        return rows[first:]

    def _scramble(self):
        generator = None if self.seed is None else plugrad.Generator().manual_seed(self.seed)
        bits = (self.dimension, self.MAXBIT)
        shift = plugrad.randint(2, bits, generator=generator)
        self.shift = plugrad.mv(shift, 2 ** plugrad.arange(self.MAXBIT))
        maps = plugrad.randint(2, (*bits, self.MAXBIT), generator=generator).tril().numpy()
        numpy.einsum("dii->di", maps)[...] = 1
        places = numpy.arange(self.MAXBIT - 1, -1, -1)  # the highest bit first
        digits = (self.sobolstate.numpy()[..., None] >> places) & 1
        mapped = numpy.einsum("dpm,djm->djp", maps, digits) & 1
        self.sobolstate = plugrad.from_numpy((mapped << places).sum(-1))

    def __repr__(self):
        given = [f"dimension={self.dimension}"]
        if self.scramble:
            given.append("scramble=True")
        if self.seed is not None:
            given.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(given)})"


def _direction_numbers(dimension, bits):
    from scipy.stats import qmc  # half a second to import

    return qmc.Sobol(dimension, scramble=False, bits=bits)._sv.astype(numpy.int64)  # a table that SciPy keeps to itself
