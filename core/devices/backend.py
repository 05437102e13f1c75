"""What a device plugin brings: the contract for backends."""

from __future__ import annotations

import re

import numpy

from plugrad import registry


class Backend:
    """What a device plugin must bring; subclass it and register the instance or the class.

    `name` is the device's type ("cuda"), `xp` its array module, `array_type` the class of its arrays. `symbolic`
    backends hold no data: ops on them run shape rules instead of kernels.
    """

    name: str
    xp = None
    array_type: type
    symbolic = False

    def available(self) -> str | None:
        """Return None when the device works here, else the reason why not."""
        return None

    def device_count(self) -> int:
        """Number of devices of this type."""
        return 1

    def from_numpy(self, array: numpy.ndarray, index: int):
        """Return the array on device number `index`."""
        raise NotImplementedError(f"backend {self.name!r} does not say how to copy from NumPy")

    def to_numpy(self, array) -> numpy.ndarray:
        """Return the array as a NumPy array in host memory."""
        raise NotImplementedError(f"backend {self.name!r} does not say how to copy to NumPy")

    def scipy(self, name: str):
        """Return the module that does for these arrays what `scipy.<name>` does.

        Called at the first use of each name ("special", "linalg"): this is the place to import it. What a module
        lacks, and NotImplementedError here, count as an op that this device does not have.
        """
        raise NotImplementedError(f"backend {self.name!r} has nothing in the place of scipy.{name}")

    def synchronize(self, index: int) -> None:
        """Wait until all work on the device is done."""

    def generator(self, seed: int):
        """Return a new random generator with NumPy's `Generator` interface."""
        return self.xp.random.default_rng(seed)

    def storage(self, array):
        """Return the object that owns the array's memory: equal for an array and all its views."""
        base = array.base
        while base is not None:  # NumPy's as_strided puts an object of its own between a view and its base
            if isinstance(base, self.array_type):
                array = base
            base = getattr(base, "base", None)
        return array

    def owns_index(self, array) -> int | None:
        """Return the device number of an array, or None where there is only one device."""
        return None


def _check_backend(backend) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", backend.name):
        raise TypeError(f"the device type {backend.name!r} must be in lower case, as in 'cuda'")
    cls = backend if isinstance(backend, type) else type(backend)
    if backend.symbolic:
        return
    missing = [name for name in ("from_numpy", "to_numpy") if getattr(cls, name) is getattr(Backend, name)]
    # A class may find its array module only when an instance is made.
    if not isinstance(backend, type):
        missing += [name for name in ("xp", "array_type") if getattr(backend, name, None) is None]
    if missing:
        raise TypeError(f"backend {backend.name!r} has no {' and no '.join(missing)}")


registry.declare_kind(
    "backends", home="backends", base=Backend, what="classes or records", named_by="name", check=_check_backend
)
