"""The transformer: encoder and decoder layers, stacks of them, and both together."""

from __future__ import annotations

import copy
import math

import plugrad
from plugrad.extend import Module, collect, hookimpl
from plugrad.nn import functional as F

from .attention import MultiheadAttention
from .dropout import Dropout
from .layer_norm import LayerNorm
from .linear import Linear


def _get_activation_fn(activation):
    """Return the function that an `activation` argument means: a name or a callable."""
    if callable(activation):
        return activation
    if activation not in ("relu", "gelu"):
        wrong = RuntimeError if isinstance(activation, str) else TypeError
        raise wrong(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class _Block(Module):
    """What encoder and decoder layers share: attention and a feed-forward network, each with norm and residual."""

    attentions: tuple  # names of the attention modules, in order

    @classmethod
    def samples(cls, make):
        memory = () if issubclass(cls, TransformerEncoderLayer) else (make(2, 2, 4),)
        yield (4, 2, 6, 0.0), (make(3, 2, 4), *memory)
        yield make.args(4, 2, 6, 0.0, batch_first=True, norm_first=True), (make(2, 3, 4), *memory)

    def __init__(
        self, d_model, nhead, dim_feedforward=2048, dropout=0.1, activation="relu", layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        where = {"device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **where))
        self.linear1 = Linear(d_model, dim_feedforward, bias, **where)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **where)
        self.norm_first = norm_first
        count = len(self.attentions) + 1
        for number in range(1, count + 1):
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, **where))
        for number in range(1, count + 1):
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _get_activation_fn(activation)

    def _attend(self, number, query, memory, mask, padding, is_causal):
        module = getattr(self, self.attentions[number - 1])
        memory = query if memory is None else memory
        result = module(query, memory, memory, padding, False, mask, is_causal=is_causal)[0]
        return getattr(self, f"dropout{number}")(result)

    # Layers of others override these, so their names and arguments are PyTorch's.

    def _sa_block(self, x, attn_mask, key_padding_mask, is_causal=False):
        return self._attend(1, x, None, attn_mask, key_padding_mask, is_causal)

    def _ff_block(self, x):
        x = self.linear2(self.dropout(self.activation(self.linear1(x))))
        return getattr(self, f"dropout{len(self.attentions) + 1}")(x)

    def _residual(self, number, x, sublayer):
        """Add a sublayer's result, normalized before or after."""
        norm = getattr(self, f"norm{number}")
        return x + sublayer(norm(x)) if self.norm_first else norm(x + sublayer(x))


class TransformerEncoderLayer(_Block):
    """Self-attention and a feed-forward network.

    Args:
        d_model: size of the vectors.
        nhead: heads of the attention.
        dim_feedforward: size inside of the feed-forward network.
        dropout: its probability.
        activation: 'relu', 'gelu' or a function.
        layer_norm_eps: eps of the norms.
        batch_first: tensors are (batch, length, size) rather than (length, batch, size).
        norm_first: normalize before each sublayer rather than after its residual.
        bias: whether linear layers and norms have one.

    Called as `layer(src, src_mask=None, src_key_padding_mask=None, is_causal=False)`; masks as in MultiheadAttention.
    A. Vaswani et al., arXiv:1706.03762.

    >>> import plugrad as torch
    >>> torch.nn.TransformerEncoderLayer(8, 2, 16)(torch.ones(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    attentions = ("self_attn",)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        x = self._residual(1, src, lambda x: self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        return self._residual(2, x, self._ff_block)


class TransformerDecoderLayer(_Block):
    """Self-attention, attention to the encoder's output, and a feed-forward network.

    The arguments are those of TransformerEncoderLayer. Called as `layer(tgt, memory, tgt_mask=None, memory_mask=None,
    tgt_key_padding_mask=None, memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False)`.

    >>> import plugrad as torch
    >>> torch.nn.TransformerDecoderLayer(8, 2, 16)(torch.ones(5, 3, 8), torch.ones(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    attentions = ("self_attn", "multihead_attn")

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=False, memory_is_causal=False,
    ):  # fmt: skip
        x = self._residual(1, tgt, lambda x: self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self._residual(
            2, x, lambda x: self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        )
        return self._residual(3, x, self._ff_block)

    def _mha_block(self, x, mem, attn_mask, key_padding_mask, is_causal=False):
        return self._attend(2, x, mem, attn_mask, key_padding_mask, is_causal)


def _get_clones(module, count):
    return plugrad.nn.ModuleList([copy.deepcopy(module) for _ in range(count)])


def _leaves_padding_out(layer) -> bool:
    """Whether PyTorch has a kernel for such layers that computes without the places that are padded."""
    if not isinstance(layer, TransformerEncoderLayer) or layer.norm_first or layer.norm1.eps != layer.norm2.eps:
        return False
    attention, activation = layer.self_attn, layer.activation
    if not attention.batch_first or attention.in_proj_bias is None or attention.num_heads % 2:
        return False
    known = F.relu, F.gelu, plugrad.relu
    return activation in known or isinstance(activation, (plugrad.nn.ReLU, plugrad.nn.GELU))


def _is_causal(mask, given) -> bool:
    """Whether a mask is the causal one: as the caller says, else by looking at it."""
    if given is not None or mask is None:
        return bool(given)
    if not isinstance(mask, plugrad.Tensor):
        raise RuntimeError(f"a mask must be None or torch.Tensor, not {type(mask).__name__}")
    length = mask.shape[0]
    if tuple(mask.shape) != (length, length):
        return False
    causal = Transformer.generate_square_subsequent_mask(length, device=mask.device, dtype=mask.dtype)
    return bool((mask == causal).all())


class TransformerEncoder(Module):
    """A stack of encoder layers: copies of one.

    Args:
        encoder_layer: the layer that is copied.
        num_layers: how often.
        norm: applied to the result.
        enable_nested_tensor: whether padding becomes zeros in evaluation where nothing is recorded; see below.
        mask_check: whether it must then be at the end of each sequence.

    In evaluation, where no gradient can be asked for, PyTorch computes without the places that `src_key_padding_mask`
    names and fills them with zeros before the last norm; so does this. It does for layers with `batch_first=True`,
    `norm_first=False`, biases, an even number of heads and relu or gelu, called without `mask` and autocast.

    >>> import plugrad as torch
    >>> encoder = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, 16), 2)
    >>> encoder(torch.ones(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    @staticmethod
    def samples(make):
        yield (TransformerEncoderLayer(4, 2, 6, dropout=0.0), 2), make(3, 2, 4)

    def __init__(self, encoder_layer, num_layers, norm=None, enable_nested_tensor=True, mask_check=True):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm
        self.enable_nested_tensor, self.mask_check = enable_nested_tensor, mask_check
        self.use_nested_tensor = enable_nested_tensor and _leaves_padding_out(encoder_layer)

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        causal = _is_causal(mask, is_causal)
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        if src_key_padding_mask is not None and mask is None and self._fills_padding(src, src_key_padding_mask):
            src = src.masked_fill(src_key_padding_mask.bool().unsqueeze(-1), 0.0)  # of numbers, those that are not 0
        return src if self.norm is None else self.norm(src)

    def _fills_padding(self, src, padding) -> bool:
        """Whether PyTorch computes a call without the padded places, which are zeros then."""
        if not getattr(self, "use_nested_tensor", False) or self.layers[0].training or src.ndim != 3 or src.is_nested:
            return False
        if plugrad.is_autocast_enabled() or not plugrad.backends.mha.get_fastpath_enabled() or src.is_meta:
            return False
        recorded = plugrad.is_grad_enabled() and (src.requires_grad or any(p.requires_grad for p in self.parameters()))
        if recorded or not self.mask_check:
            return not recorded
        kept = padding.logical_not()
        return not plugrad.compiler.is_compiling() and not bool((kept[:, 1:] & ~kept[:, :-1]).any())


class TransformerDecoder(Module):
    """A stack of decoder layers: copies of one, with a `norm` at the end if given.

    >>> import plugrad as torch
    >>> decoder = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(torch.ones(5, 3, 8), torch.ones(7, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    @staticmethod
    def samples(make):
        yield (TransformerDecoderLayer(4, 2, 6, dropout=0.0), 1), (make(3, 2, 4), make(2, 2, 4))

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None, memory_key_padding_mask=None,
        tgt_is_causal=None, memory_is_causal=False,
    ):  # fmt: skip
        causal = _is_causal(tgt_mask, tgt_is_causal)
        for layer in self.layers:
            tgt = layer(
                tgt,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=causal,
                memory_is_causal=memory_is_causal,
            )
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder together.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias: see
            TransformerEncoderLayer.
        num_encoder_layers, num_decoder_layers: how many layers.
        custom_encoder, custom_decoder: modules to use instead.

    Called as `model(src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
    tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
    memory_is_causal=False)`. Raises RuntimeError when batches or sizes of src and tgt differ.

    >>> import plugrad as torch
    >>> model = torch.nn.Transformer(8, 2, 1, 1, 16)
    >>> model(torch.ones(7, 3, 8), torch.ones(5, 3, 8)).shape
    torch.Size([5, 3, 8])
    """

    @staticmethod
    def samples(make):
        yield (4, 2, 1, 1, 6, 0.0), (make(3, 2, 4), make(2, 2, 4))

    def __init__(
        self, d_model=512, nhead=8, num_encoder_layers=6, num_decoder_layers=6, dim_feedforward=2048, dropout=0.1,
        activation="relu", custom_encoder=None, custom_decoder=None, layer_norm_eps=1e-5, batch_first=False,
        norm_first=False, bias=True, device=None, dtype=None,
    ):  # fmt: skip
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        where = {"device": device, "dtype": dtype}

        def norm():
            return LayerNorm(d_model, layer_norm_eps, bias=bias, **where)

        self.encoder = custom_encoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*options, **where), num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*options, **where), num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first

    def _reset_parameters(self):
        for weight in self.parameters():
            if weight.ndim > 1:
                plugrad.nn.init.xavier_uniform_(weight)

    def forward(
        self, src, tgt, src_mask=None, tgt_mask=None, memory_mask=None, src_key_padding_mask=None,
        tgt_key_padding_mask=None, memory_key_padding_mask=None, src_is_causal=None, tgt_is_causal=None,
        memory_is_causal=False,
    ):  # fmt: skip
        batch = 0 if self.batch_first else 1
        if src.ndim == 3 and src.shape[batch] != tgt.shape[batch]:
            raise RuntimeError(f"the batch number of src and tgt must be equal, got {src.shape} and {tgt.shape}")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError(
                f"the feature number of src and tgt must be equal to d_model, {self.d_model}; got {src.shape} "
                f"and {tgt.shape}"
            )
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """Return the causal mask (sz, sz): minus infinity above the diagonal, else 0.

        >>> import plugrad as torch
        >>> torch.nn.Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        dtype = plugrad.get_default_dtype() if dtype is None else dtype
        return plugrad.triu(plugrad.full((sz, sz), -math.inf, dtype=dtype, device=device), 1)


@hookimpl
def plugrad_layers():
    return collect(Module, globals())
