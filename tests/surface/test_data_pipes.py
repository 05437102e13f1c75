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
