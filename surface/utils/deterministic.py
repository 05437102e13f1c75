"""`torch.utils.deterministic`: whether new memory is filled."""

from __future__ import annotations

import sys
import types

from plugrad.extend import choose_memory, chosen_memory


class _Module(types.ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether `empty` and its like hold NaN, or the largest integer, while ops have to be deterministic."""
        return chosen_memory("fill")

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, value):
        if not isinstance(value, bool):
            raise RuntimeError(f"expected a bool, but got {type(value).__name__}; write True or False")
        choose_memory(fill=value)


sys.modules[__name__].__class__ = _Module
