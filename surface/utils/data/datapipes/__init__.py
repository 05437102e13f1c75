"""Data pipes: the bases, and the pipes of items one after the other and by key."""

from plugrad.utils.data.datapipes import datapipe, iter, map

__all__ = ["datapipe", "iter", "map"]
