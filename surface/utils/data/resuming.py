"""Where a loader is in its data: what `DataLoader.state_dict` says, and how an epoch goes on from there.

An order is drawn when an epoch begins, so the state holds the random states of that moment and how many batches were
given since. To go on, the epoch begins once more from these states, and the indices of those batches are passed over:
nothing is loaded for them. The program's own random numbers are meanwhile left as they are.
"""

from __future__ import annotations

import contextlib

import plugrad
from plugrad.utils.data.sampler import drawn_seed

KEYS = {"batches", "order", "generator", "random", "seed"}


class Resumable:
    """What of `DataLoader` is about its state."""

    _began = None  # the state at the beginning of the running epoch
    _pending = None  # the state that the next epoch begins with
    _current = None  # the progress of the running epoch

    def state_dict(self) -> dict:
        """Return where the loader is: the order of the epoch, how many batches it gave.

        Load it into a loader of the same data and options, which then begins where this one is. With random numbers in
        the program, such as dropout's, save `torch.get_rng_state()` beside it. What workers, or an IterableDataset in
        workers, draw for themselves starts anew.

        >>> import plugrad as torch
        >>> loader = torch.utils.data.DataLoader(range(6), batch_size=2, shuffle=True)
        >>> batches = iter(loader)
        >>> _ = next(batches)
        >>> state = loader.state_dict()
        >>> rest = [batch.tolist() for batch in batches]
        >>> loader.load_state_dict(state)
        >>> rest == [batch.tolist() for batch in loader]
        True
        """
        if self._pending is not None:
            return dict(self._pending)
        if self._current is None or self._current.ended:
            return {"batches": 0, **_states(self), "random": None, "seed": self._seed_of_workers}
        return {"batches": self._current.given, **self._began}

    def load_state_dict(self, state) -> None:
        """Have the next epoch begin where the loader was whose state this is.

        Raises ValueError for what is no state of a loader.
        """
        if not isinstance(state, dict) or KEYS - {*state}:
            raise ValueError(f"this is no state of a DataLoader: it must hold {', '.join(sorted(KEYS))}")
        if state["generator"] is not None and self.generator is None:
            raise ValueError("the state is of a DataLoader with generator=, and this one has none")
        if state["order"] and not hasattr(self._index_sampler, "load_state_dict"):
            name = type(self._index_sampler).__name__
            raise ValueError(f"the state has that of a sampler, and {name} has no load_state_dict to take it")
        self._pending, self._current = dict(state), None

    @contextlib.contextmanager
    def _beginning(self):
        """Draw the workers' seed, and note the states in which an epoch begins; or restore those that were loaded.

        Yields the seed, and the number of batches to pass over.
        """
        state, self._pending = self._pending, None
        if state is not None:
            _restore(self, state)
        with contextlib.ExitStack() as stack:
            seed = self._seed_of_workers if state is None else state["seed"]
            if seed is None:
                seed = drawn_seed(self.generator)
            if state is not None and state["random"] is not None:
                stack.enter_context(plugrad.random.fork_rng(devices=()))
                plugrad.set_rng_state(state["random"])
            self._began = {**_states(self), "random": plugrad.get_rng_state(), "seed": seed}
            yield seed, state["batches"] if state is not None else 0

    @property
    def _seed_of_workers(self):
        """The seed of workers that are kept; None: the next epoch draws one."""
        kept = self.persistent_workers and self._iterator is not None and self._iterator.workers
        return self._began["seed"] if kept else None


def _states(loader) -> dict:
    """Return what decides the order of a loader's next epoch."""
    describe = getattr(loader._index_sampler, "state_dict", dict)
    return {"order": describe(), "generator": None if loader.generator is None else loader.generator.get_state()}


def _restore(loader, state) -> None:
    if state["generator"] is not None:
        loader.generator.set_state(state["generator"])
    if state["order"]:
        loader._index_sampler.load_state_dict(state["order"])
