"""Batches of sequences of different lengths: padded, and packed step by step."""

from __future__ import annotations

from collections import namedtuple

import plugrad
from plugrad import Tensor
from plugrad.arguments import checked

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class PackedSequence(namedtuple("PackedSequence", ("data", "batch_sizes", "sorted_indices", "unsorted_indices"))):
    """Sequences of different lengths, longest first, stored step by step.

    `data` holds the elements of step 0 of all sequences, then those of step 1 of the sequences that have one...;
    `batch_sizes` says how many each step has. `sorted_indices` is the order that sorted the batch, `unsorted_indices`
    the one back; both are None for a batch that was sorted. Made by `pack_padded_sequence` and `pack_sequence`.
    """

    __slots__ = ()

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:
            assert isinstance(data, (list, tuple)) and len(data) == 2, (
                "Expected data to be a list or tuple of length 2, or batch_sizes to be a Tensor"
            )
            data, batch_sizes = data
        if not isinstance(batch_sizes, Tensor):
            raise TypeError(f"batch_sizes must be a Tensor of ints, not {type(batch_sizes).__name__}")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes.device.type != "cpu":
            raise ValueError(f"batch_sizes should always be on CPU, they are on {batch_sizes.device}")
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def to(self, *args, **kwargs):
        """Return the sequences with their data on another device or in another dtype.

        The arguments are those of Tensor.to, without ``copy``. The order stays int64, where the data are.
        """
        if "copy" in kwargs:
            raise RuntimeError(".to() does not accept copy argument: a copy is p._replace(data=p.data.clone())")
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        order = [None if index is None else index.to(data.device) for index in self[2:]]
        return type(self)(data, self.batch_sizes, *order)

    def cpu(self):
        """Return the sequences on the CPU."""
        return self.to("cpu")

    def cuda(self, *args):
        """Return the sequences on a GPU."""
        return self.to(*args or ("cuda",))

    def pin_memory(self):
        """Return the sequences with their data in memory that a GPU can copy from."""
        order = [None if index is None else index.pin_memory() for index in self[2:]]
        return type(self)(self.data.pin_memory(), self.batch_sizes, *order)

    def float(self):
        """Return the sequences as float32."""
        return self.to(dtype=plugrad.float32)

    def double(self):
        """Return the sequences as float64."""
        return self.to(dtype=plugrad.float64)

    def half(self):
        """Return the sequences as float16."""
        return self.to(dtype=plugrad.float16)

    def long(self):
        """Return the sequences as int64."""
        return self.to(dtype=plugrad.int64)

    def int(self):
        """Return the sequences as int32."""
        return self.to(dtype=plugrad.int32)

    def short(self):
        """Return the sequences as int16."""
        return self.to(dtype=plugrad.int16)

    def char(self):
        """Return the sequences as int8."""
        return self.to(dtype=plugrad.int8)

    def byte(self):
        """Return the sequences as uint8."""
        return self.to(dtype=plugrad.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in memory that a GPU can copy from."""
        return self.data.is_pinned()


@checked(permutation="tensor?")
def invert_permutation(permutation):
    """Return the order that undoes an order; None for None.

    Raises RuntimeError for a tensor that is not of int32 or int64.

    >>> import plugrad as torch
    >>> torch.nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is not None and permutation.dtype not in (plugrad.int32, plugrad.int64):
        raise RuntimeError(f"invert_permutation(): expected int32 or int64 for the order, not {permutation.dtype}")
    return None if permutation is None else plugrad.argsort(permutation)


@checked(padding_value="float", padding_side="str")
def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Return sequences (L_i, *) as one padded tensor (longest, batch, *).

    Args:
        sequences: a list of tensors that differ in their first size only.
        batch_first: return (batch, longest, *).
        padding_value: what fills up.
        padding_side: 'right' or 'left'.

    >>> import plugrad as torch
    >>> torch.nn.utils.rnn.pad_sequence([torch.ones(1), torch.ones(2)], batch_first=True)
    tensor([[1., 0.],
            [1., 1.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be either 'left' or 'right', but got {padding_side!r}")
    if not isinstance(batch_first, bool):
        raise TypeError(f"pad_sequence(): argument 'batch_first' must be bool, not {type(batch_first).__name__}")
    if not hasattr(type(sequences), "__iter__"):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    sequences = list(sequences)
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    for sequence in sequences:
        if not isinstance(sequence, plugrad.Tensor):
            raise TypeError(f"pad_sequence(): the sequences must be Tensors, not {type(sequence).__name__}")
        if not sequence.ndim:
            raise RuntimeError("pad_sequence(): a sequence must have at least one dimension; write x[None]")
    longest = max(sequence.shape[0] for sequence in sequences)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        if missing:
            fill = sequence.new_full((missing, *sequence.shape[1:]), padding_value)
            sequence = plugrad.cat([sequence, fill] if padding_side == "right" else [fill, sequence])
        padded.append(sequence)
    return plugrad.stack(padded, 0 if batch_first else 1)


@checked(padded_sequences="tensor", lengths="tensor")
def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """Return the sequences that `pad_sequence` padded, given their lengths.

    >>> import plugrad as torch
    >>> torch.nn.utils.rnn.unpad_sequence(torch.ones(3, 2), torch.tensor([1, 3]))
    [tensor([1.]), tensor([1., 1., 1.])]
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    if len(rows) != len(lengths):
        raise ValueError(f"there are {len(rows)} sequences, but {len(lengths)} lengths")
    return [row[:length] for row, length in zip(rows, lengths.tolist())]


@checked(input="tensor", batch_first="bool")
def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Pack a padded batch (longest, batch, *) of sequences of the given lengths.

    Args:
        input: the batch; (batch, longest, *) with `batch_first`.
        lengths: of the sequences, a list or a tensor.
        enforce_sorted: the lengths are known to decrease; False sorts.

    Raises RuntimeError for lengths that are not positive, do not fit the batch, or are not sorted as promised.

    >>> import plugrad as torch
    >>> packed = torch.nn.utils.rnn.pack_padded_sequence(torch.tensor([[1, 2], [3, 0]]), [2, 1])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 2, 3]), tensor([2, 1]))
    """
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    lengths = plugrad.as_tensor(lengths, dtype=plugrad.int64).cpu()
    if lengths.ndim != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D")
    order = None
    if not enforce_sorted:
        lengths, order = plugrad.sort(lengths, descending=True)
        order = order.to(input.device)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    counts = lengths.tolist()
    if len(counts) != input.shape[1]:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={input.shape[1]})"
        )
    if not counts or min(counts) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if counts != sorted(counts, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence to have it sorted."
        )
    if counts[0] > input.shape[0]:
        raise RuntimeError(f"a length is {counts[0]}, but the batch has {input.shape[0]} steps only")
    sizes = [sum(count > step for count in counts) for step in range(counts[0])]
    data = plugrad.cat([input[step, :size] for step, size in enumerate(sizes)])
    return PackedSequence(data, plugrad.tensor(sizes), order, None)


@checked(batch_first="bool", padding_value="float", total_length="int?")
def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """Return packed sequences as (padded (longest, batch, *), lengths).

    Args:
        sequence: what was packed.
        batch_first: return (batch, longest, *).
        padding_value: what fills up.
        total_length: pad to this length instead of the longest's.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> pad_packed_sequence(pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]), batch_first=True)
    (tensor([[1, 2],
            [3, 0]]), tensor([2, 1]))
    """
    if not hasattr(sequence, "batch_sizes"):
        what = type(sequence).__name__
        raise AttributeError(f"pad_packed_sequence() takes a PackedSequence, as pack_sequence() makes it, not {what}")
    sizes = sequence.batch_sizes.tolist()
    steps = len(sizes)
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                f"Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    rows = []
    for part in sequence.data.split(sizes):
        missing = sizes[0] - part.shape[0]
        rows.append(plugrad.cat([part, part.new_full((missing, *part.shape[1:]), padding_value)]) if missing else part)
    rows += [rows[0].new_full(tuple(rows[0].shape), padding_value)] * (steps - len(sizes))
    padded = plugrad.stack(rows)
    lengths = plugrad.tensor([sum(size > number for size in sizes) for number in range(sizes[0])])
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return padded, lengths


def pack_sequence(sequences, enforce_sorted=True):
    """Pack a list of sequences (L_i, *).

    The longest comes first, unless `enforce_sorted` is False.

    >>> import plugrad as torch
    >>> torch.nn.utils.rnn.pack_sequence([torch.tensor([1, 2]), torch.tensor([3])]).data
    tensor([1, 3, 2])
    """
    lengths = [sequence.shape[0] for sequence in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """Return the sequences that were packed, a list in the order of the batch.

    >>> import plugrad as torch
    >>> from plugrad.nn.utils import rnn
    >>> rnn.unpack_sequence(rnn.pack_sequence([torch.ones(1), torch.zeros(2)], enforce_sorted=False))
    [tensor([1.]), tensor([0., 0.])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
