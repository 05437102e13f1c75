"""What a device plugin brings: the contract for backends."""

from __future__ import annotations

import re

import numpy

from plugrad import registry


class Backend:
    """What a device plugin brings; subclass it and register the instance or the class.

    Here is all that plugrad asks of a backend. What has no default (`name`, `xp`, `array_type`, `from_numpy` and
    `to_numpy`) every backend defines. Its arrays have, like NumPy's, `shape`, `strides`, `dtype`, `ndim`, `size`,
    `itemsize`, `base`, `flags.c_contiguous`, `astype` and `copy`, and support weak references.

    A symbolic backend, whose arrays have no data, derives from `SymbolicBackend`.
    """

    name: str
    """The type of its devices, such as "cuda"."""
    xp = None
    """The array module that kernels get: NumPy's functions on these arrays."""
    functions = None
    """What ops that are one function of `xp` call instead, by the same names; None for `xp`."""
    many = None
    """What takes lists of arrays: `norm(arrays)`, `clip(arrays, norm, most)`, `unscale(arrays, factor, found)`."""
    array_type: type
    """The class of its arrays; no other backend has the same."""
    symbolic = False
    """Whether its arrays have no data, so that shape rules run in place of kernels."""
    stands_for: str | None = None
    """The type of the devices whose kernels run later, where its arrays note a program; None for its own."""
    numbered = True
    """Whether there may be several devices of this type: its name alone then means `current_device()`."""
    on = None
    """Where there may be: `on(index)` returns a context in which that device is the current one."""

    def cast(self, array, dtype):
        """Return the array in another dtype."""
        return array.astype(dtype)

    def copy(self, array):
        """Return a copy of the array with its elements in row-major order."""
        return array.copy()

    def available(self) -> str | None:
        """Return None when the device works here, else the reason why not."""
        return None

    def device_count(self) -> int:
        """Number of devices of this type."""
        return 1

    def current_device(self) -> int:
        """Return the number of the device that the type alone means."""
        return 0

    def from_numpy(self, array: numpy.ndarray, index: int):
        """Return the array on device number `index`; raise for a dtype that it lacks."""
        raise NotImplementedError(f"backend {self.name!r} does not say how to copy from NumPy")

    def to_numpy(self, array) -> numpy.ndarray:
        """Return the array as a NumPy array in host memory."""
        raise NotImplementedError(f"backend {self.name!r} does not say how to copy to NumPy")

    def scipy(self, name: str):
        """Return the module that does for these arrays what `scipy.<name>` does.

        Called at the first use of each name ("special", "linalg"): this is the place to import it. What a module
        lacks, and NotImplementedError here, count as an op that this device does not have.
        """
        raise NotImplementedError(f"backend {self.name!r} has nothing in place of scipy.{name}")

    def synchronize(self, index: int) -> None:
        """Wait until all work on the device is done."""

    def generator(self, seed: int):
        """Return a new random generator with NumPy's `Generator` interface."""
        return self.xp.random.default_rng(seed)

    def storage(self, array):
        """Return what owns the array's memory: the same for an array and all its views."""
        base = array.base
        while base is not None:  # NumPy's as_strided puts an object of its own between a view and its base
            if isinstance(base, self.array_type):
                array = base
            base = getattr(base, "base", None)
        return array

    def owns_index(self, array) -> int | None:
        """Return the device number of an array, or None where there is only one device."""
        return None

    def empty(self, shape, dtype, operands=()):
        """Return a new symbolic array, contiguous or as an elementwise op on `operands`."""
        raise self._not_symbolic("empty")

    def probe(self, array) -> numpy.ndarray:
        """Return a NumPy array of one element per dimension, to ask a kernel its dtype."""
        raise self._not_symbolic("probe")

    def host_type(self, dtype):
        """Return the CPU's tensor type of a NumPy dtype, with which probes are computed."""
        raise self._not_symbolic("host_type")

    def view(self, op, raw):
        """Return the results of a view op on `raw`, the first an array of this backend."""
        raise self._not_symbolic("view")

    def _not_symbolic(self, method):
        return NotImplementedError(
            f"backend {self.name!r} has no `{method}`: one whose arrays have no data derives from "
            "plugrad.extend.SymbolicBackend"
        )

    @staticmethod
    def _check_record(backend) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*", backend.name):
            raise TypeError(f"the device type {backend.name!r} must be in lower case, as in 'cuda'")
        cls = backend if isinstance(backend, type) else type(backend)
        needed = ("empty", "view") if backend.symbolic else ("from_numpy", "to_numpy")
        missing = [name for name in needed if getattr(cls, name) is getattr(Backend, name)]
        # A class may find its array module only when an instance is made.
        if not backend.symbolic and not isinstance(backend, type):
            missing += [name for name in ("xp", "array_type") if getattr(backend, name, None) is None]
        if missing:
            lacks = f"has no {' and no '.join(missing)}"
            lacks = f"is symbolic and {lacks}: derive it from SymbolicBackend" if backend.symbolic else lacks
            raise TypeError(f"backend {backend.name!r} {lacks}")

registry.declare_kind("backends", home="backends", base=Backend, what="classes or records", named_by="name")
