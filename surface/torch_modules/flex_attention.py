"""`torch.nn.attention.flex_attention`: attention whose scores a function changes, and masks given as functions.

Scores are computed whole here; a `BlockMask` says which blocks of them count, and decides nothing about the numbers.
"""

from __future__ import annotations

import math
import typing

import plugrad
from plugrad.arguments import checked

__all__ = [
    "AuxOutput", "AuxRequest", "BlockMask", "FlexKernelOptions", "and_masks", "create_block_mask", "create_mask",
    "flex_attention", "noop_mask", "or_masks",
]  # fmt: skip

_DEFAULT_SPARSE_BLOCK_SIZE = 128
FlexKernelOptions = dict


class AuxRequest(typing.NamedTuple):
    """What `flex_attention` shall return beside its result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(typing.NamedTuple):
    """What was asked for: the logarithms of the sums of exponentials, and the largest scores, (B, H, Q)."""

    lse: plugrad.Tensor | None = None
    max_scores: plugrad.Tensor | None = None


def noop_mask(batch, head, q_idx, kv_idx):
    """Let all pairs count."""
    return plugrad.ones((), dtype=plugrad.bool, device=batch.device)


def and_masks(*mask_mods):
    """Return a mask function of the pairs that count for all of the given ones."""
    return _joined(mask_mods, True, lambda one, other: one & other)


def or_masks(*mask_mods):
    """Return a mask function of the pairs that count for any of the given ones."""
    return _joined(mask_mods, False, lambda one, other: one | other)


def _joined(mask_mods, start, join):
    if not all(map(callable, mask_mods)):
        raise RuntimeError(f"All inputs should be callable mask_mods: {mask_mods}")

    def joined(b, h, q_idx, kv_idx):
        mask = plugrad.tensor(start, device=b.device)
        for one in mask_mods:
            mask = join(mask, one(b, h, q_idx, kv_idx))
        return mask

    return joined


def _places(sizes, device):
    """Return the four indices of scores of these sizes, which broadcast against each other."""
    shapes = ((-1, 1, 1, 1), (-1, 1, 1), (-1, 1), (-1,))
    return [plugrad.arange(n, device=device).view(shape) for n, shape in zip(sizes, shapes)]


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """Return the bool tensor (B, H, Q_LEN, KV_LEN) that a mask function means; of a score function: what it keeps.

    Args:
        mod_fn: `f(b, h, q_idx, kv_idx)`, or `f(score, b, h, q_idx, kv_idx)`.
        B, H: batches and heads; None, where the function does not depend on them, is 1.
        Q_LEN, KV_LEN: the lengths of queries and keys.
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    places = _places(sizes, device)
    if mod_fn.__code__.co_argcount == 5 if hasattr(mod_fn, "__code__") else False:
        return mod_fn(plugrad.zeros(sizes, device=device), *places) != -math.inf
    return mod_fn(*places).expand(sizes).clone()


def create_block_mask(
    mask_mod, B, H, Q_LEN, KV_LEN, device=None, BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, _compile=False,
    separate_full_blocks=True, compute_dq_write_order=False, dq_kv_order=True,
):  # fmt: skip
    """Return the BlockMask of a mask function; the arguments are those of `create_mask`.

    Args:
        BLOCK_SIZE: queries and keys of a block, one number or two.
        separate_full_blocks: whether blocks in which all pairs count are told apart.
    """
    size = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    missing = [-n % block for n, block in zip((Q_LEN, KV_LEN), size)]
    padded = plugrad.nn.functional.pad(mask.to(plugrad.int32), (0, missing[1], 0, missing[0]))
    blocks = padded.unflatten(-1, (-1, size[1])).unflatten(-3, (-1, size[0]))
    counts = blocks.sum((-3, -1))
    full = (counts == size[0] * size[1]) & separate_full_blocks
    partial = (counts > 0) & ~full
    return BlockMask(partial, full if separate_full_blocks else None, size, mask_mod, (Q_LEN, KV_LEN))


def _ordered(dense):
    """Return (how many blocks of each row count, all blocks of the row with those in front)."""
    dense = dense.to(plugrad.int32)
    order = plugrad.argsort(dense, dim=-1, descending=True, stable=True)
    return dense.sum(-1, dtype=plugrad.int32), order.to(plugrad.int32)


def _dense(counts, indices):
    """Return the bool tensor of blocks of which `_ordered` makes these."""
    columns = plugrad.arange(indices.shape[-1], device=indices.device)
    mask = plugrad.zeros(indices.shape, dtype=plugrad.int32, device=indices.device)
    return mask.scatter(-1, indices.long(), (columns < counts[..., None]).to(plugrad.int32)).bool()


class BlockMask:
    """Which blocks of scores count, as lists: for each row of blocks its columns, and the other way round.

    Made by `create_block_mask` or `BlockMask.from_kv_blocks`.

    Args:
        partial: bool (B, H, rows, columns), blocks in which some pairs count.
        full: bool, those in which all do; None where they are not told apart.
        block_size: (queries, keys) of a block.
        mask_mod: the mask function.
        seq_lengths: the lengths of queries and keys.
    """

    _LISTS = tuple(f"{full}{of}_{what}" for full in ("", "full_") for of in ("kv", "q")
                   for what in ("num_blocks", "indices"))  # fmt: skip

    def __init__(self, partial, full, block_size, mask_mod, seq_lengths):
        self.BLOCK_SIZE, self.mask_mod, self.seq_lengths = block_size, mask_mod or noop_mask, seq_lengths
        for prefix, dense in (("", partial), ("full_", full)):
            for of, blocks in (("kv", dense), ("q", None if dense is None else dense.transpose(-2, -1))):
                counts, indices = (None, None) if blocks is None else _ordered(blocks)
                setattr(self, f"{prefix}{of}_num_blocks", counts)
                setattr(self, f"{prefix}{of}_indices", indices)

    @classmethod
    def from_kv_blocks(
        cls, kv_num_blocks, kv_indices, full_kv_num_blocks=None, full_kv_indices=None,
        BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE, mask_mod=None, seq_lengths=None, compute_q_blocks=True, **orders,
    ):  # fmt: skip
        """Return the mask of lists of columns, (B, H, rows) and (B, H, rows, columns)."""
        if kv_indices.dim() < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")
        size = BLOCK_SIZE if isinstance(BLOCK_SIZE, tuple) else (BLOCK_SIZE, BLOCK_SIZE)
        rows, columns = kv_indices.shape[-2:]
        full = None if full_kv_indices is None else _dense(full_kv_num_blocks, full_kv_indices)
        lengths = seq_lengths or (rows * size[0], columns * size[1])
        return cls(_dense(kv_num_blocks, kv_indices), full, size, mask_mod, lengths)

    @property
    def shape(self) -> tuple:
        """(B, H, queries, keys)."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def to_dense(self):
        """Return the int32 tensor (B, H, rows, columns): 1 for blocks that count."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_indices is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(plugrad.int32)

    def numel(self) -> int:
        """Return the number of scores."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return how many of a hundred scores are not computed by blocks."""
        return 100 * (1 - self.to_dense().sum().item() * math.prod(self.BLOCK_SIZE) / self.numel())

    def as_tuple(self, flatten=True) -> tuple:
        """Return the lengths, the lists, the size of a block and the mask function."""
        lists = tuple(getattr(self, name) for name in self._LISTS)
        if flatten:
            return (*self.seq_lengths, *lists, *self.BLOCK_SIZE, self.mask_mod)
        return (self.seq_lengths, *lists, self.BLOCK_SIZE, self.mask_mod)

    def _changed(self, change):
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name in self._LISTS:
            value = getattr(self, name)
            setattr(other, name, None if value is None else change(value))
        return other

    def to(self, device):
        """Return the mask on another device."""
        return self._changed(lambda value: value.to(device))

    def __getitem__(self, index):
        return self._changed(lambda value: value[index])

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


@checked(enable_gqa="bool", return_lse="bool")
def flex_attention(
    query, key, value, score_mod=None, block_mask=None, scale=None, enable_gqa=False, return_lse=False,
    kernel_options=None, *, return_aux=None,
):  # fmt: skip
    """Return softmax(score_mod(query @ key.mT * scale)) @ value, where the mask lets pairs count.

    Args:
        query: (B, Hq, L, E).
        key: (B, H, S, E).
        value: (B, H, S, Ev).
        score_mod: `f(score, b, h, q_idx, kv_idx)` of tensors that broadcast, which returns the new scores.
        block_mask: a BlockMask, whose function says which pairs count.
        scale: 1 / sqrt(E) by default.
        enable_gqa: whether Hq may be a multiple of H, so that heads share keys.
        return_lse: whether to return the logarithms of the sums of exponentials, (B, Hq, L), too.
        kernel_options: accepted.
        return_aux: an AuxRequest, for more than the result.

    A query for which no pair counts gets zeros. Raises ValueError where sizes do not fit.

    >>> import plugrad as torch
    >>> from plugrad.nn.attention.flex_attention import flex_attention
    >>> x = torch.ones(1, 1, 2, 3)
    >>> flex_attention(x, x, x, score_mod=lambda score, b, h, q, k: score - (q - k).abs()).shape
    torch.Size([1, 1, 2, 3])
    """
    _check(query, key, value, block_mask, enable_gqa)
    groups = query.shape[1] // key.shape[1]
    keys, values = (key, value) if groups == 1 else (t.repeat_interleave(groups, 1) for t in (key, value))
    wide = plugrad.float64 if query.dtype is plugrad.float64 else plugrad.float32
    scores = (query @ keys.mT).to(wide) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    places = _places(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *places).to(wide)
    if block_mask is not None:
        scores = plugrad.where(block_mask.mask_mod(*places), scores, -math.inf)
    lse = plugrad.logsumexp(scores, -1, keepdim=True)
    empty = lse == -math.inf
    weights = plugrad.exp(scores - lse.masked_fill(empty, 0))
    out = weights.to(query.dtype) @ values
    if return_aux is not None:
        peaks = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse[..., 0] if return_aux.lse else None, peaks)
    return (out, lse[..., 0]) if return_lse else out


def _check(query, key, value, block_mask, enable_gqa) -> None:
    if not query.dim() == key.dim() == value.dim() == 4:
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, shared = query.shape[1], key.shape[1]
    if not enable_gqa and heads != shared:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={shared}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % shared:
        raise ValueError(f"Expect number of query heads to be a multiple of kv heads but got Hq={heads}, Hkv={shared}.")
    lengths = (query.shape[-2], key.shape[-2])
    if block_mask is not None and tuple(block_mask.seq_lengths) != lengths:
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} but got q_len={lengths[0]} and "
            f"kv_len={lengths[1]}: make one for these lengths by create_block_mask"
        )
