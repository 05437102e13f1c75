"""Samplers: in which order, and in which batches, a loader takes the items of a data set."""

from __future__ import annotations

import itertools

import plugrad

_OF_THE_ORDER = ("generator", "epoch", "sampler")  # attributes of samplers


class Sampler:
    """An iterable of indices, or of lists of them: a subclass defines `__iter__`."""

    def __init__(self, data_source=None):
        pass

    def __class_getitem__(cls, item):
        return cls

    def __iter__(self):
        raise NotImplementedError("Subclasses of Sampler should implement __iter__.")

    def state_dict(self) -> dict:
        """Return what decides the order of the next pass.

        That is the state of a generator, an epoch, or an inner sampler's state.
        """
        state = {}
        for name in _OF_THE_ORDER:
            value = getattr(self, name, None)
            if value is not None and (name != "sampler" or hasattr(value, "state_dict")):
                read = {"generator": "get_state", "sampler": "state_dict"}.get(name)
                state[name] = getattr(value, read)() if read else value
        return state

    def load_state_dict(self, state) -> None:
        """Have the next pass go in the order that a state stands for."""
        for name, value in state.items():
            if name not in _OF_THE_ORDER or getattr(self, name, None) is None:
                raise ValueError(f"the state has a {name}, and this {type(self).__name__} has none")
            if name == "epoch":
                self.epoch = value
            elif name == "generator":
                self.generator.set_state(value)
            else:
                self.sampler.load_state_dict(value)


class SequentialSampler(Sampler):
    """All indices in order.

    >>> from plugrad.utils.data import SequentialSampler
    >>> [*SequentialSampler("abc")]
    [0, 1, 2]
    """

    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(range(len(self.data_source)))

    def __len__(self):
        return len(self.data_source)


def drawn_seed(generator=None) -> int:
    """Return a seed that is drawn."""
    return int(plugrad.empty((), dtype=plugrad.int64).random_(generator=generator))


def _check_count(count) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={count}")


class RandomSampler(Sampler):
    """All indices in random order.

    Or `num_samples` of them; with `replacement` drawn independently of each other.

    >>> from plugrad.utils.data import RandomSampler
    >>> sorted(RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source, replacement=False, num_samples=None, generator=None):
        self.data_source, self.replacement, self._num_samples = data_source, replacement, num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_count(self.num_samples)

    @property
    def num_samples(self):
        """How many indices there are."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self):
        n, wanted, generator = len(self.data_source), self.num_samples, self.generator
        if generator is None:  # one of its own, so that what the program draws meanwhile does not change the order
            generator = plugrad.Generator().manual_seed(drawn_seed())
        if self.replacement:
            for count in itertools.chain(itertools.repeat(32, wanted // 32), [wanted % 32]):
                yield from plugrad.randint(n, (count,), generator=generator).tolist()
            return
        for count in itertools.chain(itertools.repeat(n, wanted // n), [wanted % n]):  # the last is drawn even for 0
            yield from plugrad.randperm(n, generator=generator).tolist()[:count]

    def __len__(self):
        return self.num_samples


class SubsetRandomSampler(Sampler):
    """Given indices in random order."""

    def __init__(self, indices, generator=None):
        self.indices, self.generator = indices, generator

    def __iter__(self):
        for number in plugrad.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[number]

    def __len__(self):
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """`num_samples` indices drawn with probabilities in proportion to `weights`.

    >>> from plugrad.utils.data import WeightedRandomSampler
    >>> [*WeightedRandomSampler([0.0, 1.0], 2)]
    [1, 1]
    """

    def __init__(self, weights, num_samples, replacement=True, generator=None):
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = plugrad.as_tensor(weights, dtype=plugrad.double)
        if self.weights.ndim != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def __iter__(self):
        drawn = plugrad.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self):
        return self.num_samples


class BatchSampler(Sampler):
    """The indices of a sampler in lists of `batch_size`.

    `drop_last` leaves out a last one that is shorter.

    >>> from plugrad.utils.data import BatchSampler
    >>> [*BatchSampler(range(5), 2, drop_last=False)]
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler, batch_size, drop_last):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self):
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self):
        count = len(self.sampler)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
