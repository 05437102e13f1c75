"""Casts and moves of packed sequences, and unpacking them: as PyTorch's."""

import pytest

import plugrad
from plugrad.nn.utils import rnn

torch = pytest.importorskip("torch")


def packed(library):
    sequences = [library.arange(n).float() for n in (2, 4, 1)]
    return library.nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False)


@pytest.mark.parametrize("cast", "float double half long int short char byte cpu".split())
def test_casts(cast):
    ours, theirs = (getattr(packed(library), cast)() for library in (plugrad, torch))
    assert str(ours) == str(theirs)
    same = packed(plugrad)
    assert (getattr(same, cast)() is same) == (cast in ("float", "cpu"))


def test_moves_and_pinned_memory():
    ours, theirs = packed(plugrad), packed(torch)
    assert ours.is_cuda is theirs.is_cuda is False and ours.is_pinned() is theirs.is_pinned() is False
    assert str(ours.to(plugrad.ones(1).double())) == str(theirs.to(torch.ones(1).double()))
    assert ours.to("meta").sorted_indices.is_meta and not ours.to("meta").batch_sizes.is_meta
    with pytest.raises(RuntimeError, match="does not accept copy"):
        ours.to("cpu", copy=True)


def test_sequences_are_unpacked_in_the_order_given():
    assert str(rnn.unpack_sequence(packed(plugrad))) == str(torch.nn.utils.rnn.unpack_sequence(packed(torch)))
