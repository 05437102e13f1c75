"""Tables of vectors that are looked up by number."""

from __future__ import annotations

import plugrad
from plugrad.extend import Module, Parameter, collect, hookimpl
from plugrad.nn import functional as F

from ._common import parameter


class Embedding(Module):
    """A table of vectors; the module returns those that its integer input names.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a vector.
        padding_idx: row that stays as it is in training and starts as zeros; negative counts from the end.
        max_norm: rows that are looked up are first scaled down to this norm.
        norm_type: which p-norm that is.
        scale_grad_by_freq: divide gradients by how often the row was named.
        sparse: the table's gradient is a sparse tensor, which SGD, Adagrad and SparseAdam take.

    Raises AssertionError when `padding_idx` is not a row, or a given table has another shape. Starts normal, N(0, 1).

    >>> import plugrad as torch
    >>> torch.nn.Embedding(10, 3)(torch.tensor([[1, 2], [4, 5]])).shape
    torch.Size([2, 2, 3])
    """

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False,
        sparse=False, _weight=None, _freeze=False, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.padding_idx = _row(padding_idx, num_embeddings)
        self.max_norm, self.norm_type = max_norm, norm_type
        self.scale_grad_by_freq, self.sparse = scale_grad_by_freq, sparse
        _set_table(self, _weight, not _freeze, device, dtype)

    def reset_parameters(self):
        """Give the table new normal values, and zeros in the row of `padding_idx`."""
        _reset_table(self)

    def forward(self, input):
        return F.embedding(
            input, self.weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.sparse
        )

    def extra_repr(self):
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, default in (("padding_idx", None), ("max_norm", None), ("norm_type", 2)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)}")
        parts += [f"{name}=True" for name in ("scale_grad_by_freq", "sparse") if getattr(self, name)]
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """Return an Embedding of a table (rows, vector size), fixed unless not `freeze`."""
        _check_table(embeddings)
        return cls(*embeddings.shape, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, embeddings, freeze)

    @staticmethod
    def samples(make):
        """Yield what to test it with; with `scale_grad_by_freq` no gradient is a slope."""
        yield make.args(5, 3, scale_grad_by_freq=False), make.ints(2, 3, high=5)
        yield make.args(5, 3, padding_idx=1, scale_grad_by_freq=False), make.ints(4, high=5)


class EmbeddingBag(Module):
    """The sum, mean or maximum of the vectors of a table that each bag names.

    Args:
        num_embeddings: rows of the table.
        embedding_dim: size of a vector.
        max_norm: rows that are looked up are first scaled down to this norm.
        norm_type: which p-norm that is.
        scale_grad_by_freq: divide gradients by how often the row was named; not for maxima.
        mode: "sum", "mean" or "max".
        sparse: accepted; gradients are dense.
        include_last_offset: the last element of `offsets` is no bag, but where the last one ends.
        padding_idx: row that does not count, stays as it is in training and starts as zeros.

    Called as `layer(input, offsets=None, per_sample_weights=None)`: `input` (B, n) are bags of one size, (n) bags one
    after another, each of which starts where `offsets` (B) says. Raises AssertionError when `padding_idx` is not a
    row, or a given table has another shape. Starts normal, N(0, 1).

    >>> import plugrad as torch
    >>> torch.nn.EmbeddingBag(10, 3, mode="sum")(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 3])).shape
    torch.Size([2, 3])
    """

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, _weight=None, include_last_offset=False, padding_idx=None, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.padding_idx = _row(padding_idx, num_embeddings, "padding_idx")
        _set_table(self, _weight, True, device, dtype)
        self.mode, self.sparse, self.include_last_offset = mode, sparse, include_last_offset

    def reset_parameters(self):
        """Give the table new normal values, and zeros in the row of `padding_idx`."""
        _reset_table(self)

    def forward(self, input, offsets=None, per_sample_weights=None):
        return F.embedding_bag(
            input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip

    def extra_repr(self):
        parts = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, default in (("max_norm", None), ("norm_type", 2), ("scale_grad_by_freq", False)):
            if getattr(self, name) != default:
                parts.append(f"{name}={getattr(self, name)!r}")
        parts.append(f"mode={self.mode!r}")
        return ", ".join(parts if self.padding_idx is None else [*parts, f"padding_idx={self.padding_idx}"])

    @classmethod
    def from_pretrained(
        cls, embeddings, freeze=True, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, mode="mean",
        sparse=False, include_last_offset=False, padding_idx=None,
    ):  # fmt: skip
        """Return an EmbeddingBag of a table (rows, vector size), fixed if `freeze`."""
        _check_table(embeddings)
        bag = cls(
            *embeddings.shape, max_norm, norm_type, scale_grad_by_freq, mode, sparse, embeddings, include_last_offset,
            padding_idx,
        )  # fmt: skip
        bag.weight.requires_grad_(not freeze)
        return bag

    @staticmethod
    def samples(make):
        """Yield what to test it with; with `scale_grad_by_freq` no gradient is a slope."""
        yield make.args(5, 3, scale_grad_by_freq=False), make.ints(2, 3, high=5)
        yield make.args(5, 3, mode="sum", padding_idx=1, scale_grad_by_freq=False), make.ints(4, 2, high=5)


def _row(padding_idx, rows, what="Padding_idx"):
    """Return the row that `padding_idx` names, counted from the start."""
    if padding_idx is None:
        return None
    if padding_idx and not -rows <= padding_idx < rows:
        raise AssertionError(f"{what} must be within num_embeddings: there are {rows} rows, it is {padding_idx}")
    return padding_idx % rows if padding_idx else 0


def _check_table(embeddings) -> None:
    if embeddings.ndim != 2:
        raise AssertionError(
            f"Embeddings parameter is expected to be 2-dimensional, it has {embeddings.ndim} dimensions"
        )


def _set_table(module, given, learned, device, dtype) -> None:
    shape = (module.num_embeddings, module.embedding_dim)
    if given is None:
        module.weight = parameter(*shape, device=device, dtype=dtype).requires_grad_(learned)
        _reset_table(module)
        return
    if tuple(given.shape) != shape:
        raise AssertionError(
            f"Shape of weight does not match num_embeddings and embedding_dim: {list(given.shape)}, not {list(shape)}"
        )
    module.weight = Parameter(given, requires_grad=learned)


def _reset_table(module) -> None:
    plugrad.nn.init.normal_(module.weight)
    if module.padding_idx is not None:
        with plugrad.no_grad():
            module.weight[module.padding_idx].fill_(0)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
