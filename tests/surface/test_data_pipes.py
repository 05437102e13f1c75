"""Data pipes give what PyTorch's give, chained by methods, in a loader too; wrong ones are refused alike."""

import copy

import pytest

import plugrad

torch = pytest.importorskip("torch")


def pipes(library):
    """Return the results of chains, and the types of errors."""
    data = library.utils.data
    iterated, mapped = data.datapipes.iter, data.datapipes.map
    numbers = lambda n=7: iterated.IterableWrapper(range(n))  # noqa: E731
    pairs = iterated.IterableWrapper([(1, 2, 3), (4, 5, 6)])
    chains = [
        numbers().map(lambda x: x + 1).filter(lambda x: x % 2 == 1),
        numbers().batch(3), numbers().batch(3, drop_last=True), numbers().batch(2, wrapper_class=tuple),
        numbers(2).concat(numbers(3)), numbers(2).zip(numbers(3), numbers(4)),
        pairs.map(lambda x: -x, input_col=1), pairs.map(lambda x, y: x * y, input_col=[0, 2]),
        pairs.map(lambda x, y: x * y, input_col=[0, 2], output_col=1), pairs.map(str, input_col=0, output_col=-1),
        pairs.filter(lambda x: x > 2, input_col=0), copy.deepcopy(numbers().map(str)),
    ]  # fmt: skip
    results = [list(chain) for chain in chains]
    results += [[batch.tolist() for batch in data.DataLoader(chains[0], batch_size=2)]]
    results += [[batch.tolist() for batch in numbers().batch(3).collate()]]
    results += [len(numbers()), len(chains[1]), len(chains[2]), len(chains[4]), len(chains[5]), len(numbers().map(str))]
    keyed = mapped.SequenceWrapper({"a": 1}).map(lambda x: x + 1)
    results += [keyed["a"], len(keyed), isinstance(keyed, data.Dataset), isinstance(chains[0], data.IterableDataset)]
    for wrong in (
        lambda: numbers().no_such_pipe, lambda: numbers().batch(0), lambda: numbers().concat([1]),
        lambda: len(chains[0]), lambda: list(numbers().filter(lambda x: x)), lambda: numbers().map(str, output_col=1),
        lambda: data.functional_datapipe("x")(int), lambda: data.functional_datapipe("batch")(type(numbers())),
    ):  # fmt: skip
        try:
            results.append(wrong())
        except Exception as error:  # PyTorch's own are sometimes plain Exceptions
            results.append(type(error) if type(error) is not ValueError else Exception)
    return results


@pytest.mark.filterwarnings("ignore")
def test_pipes_are_pytorchs():
    assert pipes(plugrad) == pipes(torch)


FURTHER = {
    "shuffled": lambda T, n, m: [list(n(9).shuffle()), list(n(9).shuffle(buffer_size=3)), len(n(4).shuffle())],
    "with a seed": lambda T, n, m: [list(n(9).shuffle().set_seed(3)), list(m(9).shuffle().set_seed(3))],
    "not shuffled": lambda T, n, m: [list(n(5).shuffle().set_shuffle(False)), list(m(5).shuffle().set_shuffle(False))],
    "shuffled twice": lambda T, n, m: [list(one) for one in [n(9).shuffle()] * 2],
    "shuffled batches": lambda T, n, m: list(n(6).batch(2).shuffle(unbatch_level=1)),
    "of no buffer": lambda T, n, m: n(3).shuffle(buffer_size=0),
    "unbatched": lambda T, n, m: list(n(7).batch(2).unbatch()),
    "unbatched wholly": lambda T, n, m: [list(n(7).batch(2).batch(2).unbatch(unbatch_level=k)) for k in (-1, 0, 1, 2)],
    "too deep": lambda T, n, m: list(n(3).unbatch()),
    "no level": lambda T, n, m: list(n(3).batch(2).unbatch(-2)),
    "grouped": lambda T, n, m: list(n(9).groupby(lambda x: x % 3)),
    "groups of two": lambda T, n, m: list(n(9).groupby(lambda x: x % 3, group_size=2, buffer_size=4)),
    "with keys": lambda T, n, m: list(n(9).groupby(lambda x: x % 2, group_size=3, buffer_size=4, keep_key=True)),
    "full": lambda T, n, m: list(n(9).groupby(lambda x: x, group_size=3, buffer_size=4)),
    "dropped": lambda T, n, m: list(n(9).groupby(lambda x: x, group_size=3, buffer_size=4, drop_remaining=True)),
    "guaranteed": lambda T, n, m: list(
        n(12).groupby(lambda x: x % 5, group_size=3, buffer_size=6, guaranteed_group_size=2)
    ),
    "of no size": lambda T, n, m: n(9).groupby(lambda x: x, group_size=0),
    "of no guarantee": lambda T, n, m: n(9).groupby(lambda x: x, guaranteed_group_size=2),
    "in turn": lambda T, n, m: [list(n(3).mux(n(5), n(4))), len(n(3).mux(n(5))), list(n(0).mux(n(2)))],
    "forked": lambda T, n, m: [list(one) for one in n(4).fork(2)] * 2,
    "forked in turn": lambda T, n, m: list(zip(*n(4).fork(num_instances=3))),
    "forked once": lambda T, n, m: list(n(3).fork(1)),
    "forked lengths": lambda T, n, m: [len(one) for one in n(4).fork(2)],
    "copies": lambda T, n, m: [
        a is b for how in (None, "shallow", "deep")
        for a, b in zip(*T.utils.data.datapipes.iter.IterableWrapper([[1], [2]]).fork(2, copy=how))
    ],
    "a fork that runs ahead": lambda T, n, m: list(n(9).fork(2, buffer_size=3)[0]),
    "a fork that begins anew": lambda T, n, m: _begun_anew(n),
    "no fork": lambda T, n, m: n(3).fork(0),
    "a fork of no copies": lambda T, n, m: n(3).fork(2, copy="none"),
    "sorted": lambda T, n, m: [list(one) for one in n(7).demux(2, lambda x: x % 2)],
    "sorted without some": lambda T, n, m: [
        list(one) for one in n(7).demux(2, lambda x: [0, 1, None][x % 3], drop_none=True)
    ],
    "sorted to nowhere": lambda T, n, m: list(n(7).demux(2, lambda x: x)[0]),
    "sorted too far": lambda T, n, m: list(n(9).demux(2, lambda x: int(x > 1), buffer_size=3)[0]),
    "sorted lengths": lambda T, n, m: len(n(7).demux(2, lambda x: x % 2)[0]),
    "samples": lambda T, n, m: list(T.utils.data.datapipes.iter.Sampler(n(4))),
    "batches by key": lambda T, n, m: [m(5).batch(2)[2], len(m(5).batch(2)), len(m(5).batch(2, drop_last=True))],
    "no batch": lambda T, n, m: m(5).batch(2)[3],
    "no full batch": lambda T, n, m: m(5).batch(2, drop_last=True)[2],
    "one after the other": lambda T, n, m: [m(2).concat(m(3))[3], len(m(2).concat(m(3)))],
    "none after": lambda T, n, m: m(2).concat(m(3))[5],
    "side by side": lambda T, n, m: [m(2).zip(m(3))[1], len(m(2).zip(m(3)))],
    "none beside": lambda T, n, m: m(2).zip(m(3))[2],
    "of another kind": lambda T, n, m: m(2).zip([1]),
    "keys": lambda T, n, m: sorted(m(5).shuffle(indices=[1, 3])),
}  # fmt: skip


def _begun_anew(numbers):
    one, other = numbers(4).fork(2)
    first, second = iter(one), iter(other)
    taken = [next(first), next(second), next(first)]
    again = iter(one)
    return taken, next(again), list(other), next(second)


@pytest.mark.parametrize("case", FURTHER)
@pytest.mark.filterwarnings("ignore")
def test_further_pipes_are_pytorchs(case):
    def outcome(library):
        iterated, mapped = library.utils.data.datapipes.iter, library.utils.data.datapipes.map
        library.manual_seed(5)
        try:
            result = FURTHER[case](
                library, lambda n=7: iterated.IterableWrapper(range(n)), lambda n=7: mapped.SequenceWrapper(range(n))
            )
            return repr(result)
        except Exception as error:
            return type(error)

    assert outcome(plugrad) == outcome(torch)


def test_forks_without_a_limit_say_so():
    with pytest.warns(UserWarning, match="Unlimited buffer size"):
        list(plugrad.utils.data.datapipes.iter.IterableWrapper([1]).fork(2, buffer_size=-1)[0])
