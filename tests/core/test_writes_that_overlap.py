"""Writes into memory that overlaps itself: a few ops may, as in PyTorch, and leave alone what they do not change."""

import warnings

import pytest

import plugrad

torch = pytest.importorskip("torch")


def expanded(module, dtype):
    return module.tensor([1, 2, 3]).to(getattr(module, dtype)).expand(3, 3)


def strided(module, dtype):
    return module.tensor([1, 2, 3]).to(getattr(module, dtype)).as_strided((3, 3), (0, 1))


def strided_in_place(module, dtype):
    return module.tensor([1, 2, 3]).to(getattr(module, dtype)).as_strided_((3, 3), (0, 1))


def set_to_storage(module, dtype):
    memory = module.tensor([1, 2, 3]).to(getattr(module, dtype))
    return memory.new_empty(0).set_(memory.untyped_storage(), 0, (3, 3), (0, 1))


def empty(module, dtype):
    x = module.empty_strided((3, 3), (0, 1), dtype=getattr(module, dtype))
    return x.fill_(2)


MADE = [expanded, strided, strided_in_place, set_to_storage, empty]


def places(module):
    return module.tensor([[True, False, False], [False, False, True], [False, False, False]])


def write_row(x, T):
    x[0] = 5


def write_places(x, T):
    x[places(T)] = 7


def write_tensor(x, T):
    x[T.tensor([0, 1]), T.tensor([0, 1])] = T.tensor([8, 9]).to(x.dtype)


WRITES = {
    "masked_fill_": lambda x, T: x.masked_fill_(places(T), 7),
    "index_fill_": lambda x, T: x.index_fill_(1, T.tensor([0, 2]), 9),
    "index_put_": lambda x, T: x.index_put_((T.tensor([0, 1]), T.tensor([0, 1])), T.tensor([8, 9]).to(x.dtype)),
    "places": write_places,
    "tensor": write_tensor,
    "row": write_row,
    "nan_to_num_": lambda x, T: x.nan_to_num_(),
    "fill_diagonal_": lambda x, T: x.fill_diagonal_(4),
    "add_": lambda x, T: x.add_(1),
    "mul_": lambda x, T: x.mul_(T.ones(3, 3).to(x.dtype)),
    "diagonal": lambda x, T: x.diagonal().fill_(6),
    "fill_": lambda x, T: x.fill_(1),
    "copy_": lambda x, T: x.copy_(T.zeros(3, 3).to(x.dtype)),
    "masked_scatter_": lambda x, T: x.masked_scatter_(places(T), T.zeros(9).to(x.dtype)),
    "index_add_": lambda x, T: x.index_add_(0, T.tensor([0]), T.ones(1, 3).to(x.dtype)),
}


def outcome(write, module, dtype, made):
    x = made(module, dtype)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            write(x, module)
        except RuntimeError as error:
            assert type(error) is RuntimeError
            return str(error), []
    return x.tolist(), [one.category for one in said if "expanded" in str(one.message)][:1]


@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("name", WRITES)
def test_what_may_be_written_is_what_pytorch_lets_write(name, dtype):
    for made in MADE:
        ours, theirs = (outcome(WRITES[name], module, dtype, made) for module in (plugrad, torch))
        if isinstance(theirs[0], str):
            assert isinstance(ours[0], str) and ours[0][:40] == theirs[0][:40], made
        else:
            assert ours[0] == theirs[0], made
            assert set(theirs[1]) <= set(ours[1]), made


def test_what_has_a_history_is_refused():
    x = (plugrad.ones(3, requires_grad=True) * 2).expand(3, 3)
    with pytest.raises(RuntimeError, match="single memory location"):
        x.masked_fill_(plugrad.ones(3, 3) > 0, 1.0)
