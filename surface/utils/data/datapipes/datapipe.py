"""Data pipes: iterables and sequences of items that are chained by methods, `pipe.map(f).batch(4)`."""

from __future__ import annotations

from functools import partial

from plugrad.utils.data.dataset import Dataset, IterableDataset

__all__ = ["IterDataPipe", "MapDataPipe", "functional_datapipe"]


class _Chained:
    """What the bases of data pipes share: methods that make one pipe of another, by name."""

    functions: dict = {}

    def __getattr__(self, name):
        if name in type(self).functions:
            return partial(type(self).functions[name], self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @classmethod
    def register_function(cls, function_name, function) -> None:
        """Give all pipes of this kind a method that returns `function(pipe, ...)`."""
        cls.functions[function_name] = function

    @classmethod
    def register_datapipe_as_function(cls, function_name, cls_to_register, enable_df_api_tracing=False) -> None:
        """Give all pipes of this kind a method; ValueError if there is one of the name."""
        if function_name in cls.functions:
            raise ValueError(f"Unable to add DataPipe function name {function_name} as it is already taken")
        cls.functions[function_name] = cls_to_register


class IterDataPipe(_Chained, IterableDataset):
    """A source of items one after the other, which methods chain to others.

    >>> from plugrad.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper(range(5)).map(lambda x: x * x).filter(lambda x: x != 4).batch(2))
    [[0, 1], [9, 16]]
    """

    functions: dict = {}


class MapDataPipe(_Chained, Dataset):
    """A source of items by key, which methods chain to others.

    >>> from plugrad.utils.data.datapipes.map import SequenceWrapper
    >>> pipe = SequenceWrapper([1, 2, 3]).map(str)
    >>> pipe[1], len(pipe)
    ('2', 3)
    """

    functions: dict = {}


class functional_datapipe:
    """A decorator that makes a class of data pipes a method of all pipes of its kind.

    Other classes stay as they are. Raises ValueError for a name that is taken.

    >>> from plugrad.utils.data import IterDataPipe, functional_datapipe
    >>> @functional_datapipe("doubled_for_this_page")
    ... class Doubled(IterDataPipe):
    ...     def __init__(self, source):
    ...         self.source = source
    ...     def __iter__(self):
    ...         return (2 * item for item in self.source)
    >>> from plugrad.utils.data.datapipes.iter import IterableWrapper
    >>> list(IterableWrapper([1, 2]).doubled_for_this_page())
    [2, 4]
    """

    def __init__(self, name: str, enable_df_api_tracing=False):
        self.name, self.enable_df_api_tracing = name, enable_df_api_tracing

    def __call__(self, cls):
        """Register the class, and return it."""
        kinds = (IterDataPipe, MapDataPipe) if isinstance(cls, type) else ()
        kind = next((one for one in kinds if issubclass(cls, one)), None)
        if kind is not None:
            kind.register_datapipe_as_function(self.name, cls)
        return cls
