"""Right calls of everything public, from which wrong ones are made: samples of ops, and a table of the rest."""

from __future__ import annotations

import inspect
import operator

import numpy
import torch
from opinfo_convert import copy_with_strides

import plugrad
from plugrad import registry
from plugrad.testing import samples_of

# Neither has numbers to compare: drawn at random, never filled, or another order of what has none.
UNCOMPARED = ("rand", "empty", "dropout", "bernoulli", "normal", "uniform", "multinomial", "exponential", "geometric",
              "poisson", "binomial", "cauchy", "rrelu", "fractional", "gumbel", "resize", "svd", "eig", "qr", "lstsq",
              "kaiming", "xavier", "orthogonal", "sparse_", "seed", "getstate", "random", "initial_seed",
              "feature_alpha")  # fmt: skip


class Call:
    """A right call: the public dotted name, and source or values of its arguments."""

    def __init__(self, name, args, kwargs=None):
        self.name, self.args, self.kwargs = name, tuple(args), dict(kwargs or {})

    def function(self, library):
        """Return what is called, of PyTorch or plugrad."""
        if self.name.startswith("operator."):
            return getattr(operator, self.name.removeprefix("operator."))
        return operator.attrgetter(self.name)(library)

    def arguments(self, library):
        """Return fresh arguments for one of the libraries."""

        def fresh(tensor):
            if isinstance(tensor, plugrad.Tensor):
                mine = tensor.detach().clone().requires_grad_(tensor.requires_grad)
                return to_torch(tensor) if library is torch else mine
            return tensor

        def made(value):
            if isinstance(value, Source):
                return value.make(library)
            if isinstance(value, plugrad.Tensor):
                return fresh(value)
            if type(value) in (tuple, list):
                return type(value)(map(made, value))
            return constant(value, library)

        return [made(value) for value in self.args], {name: made(value) for name, value in self.kwargs.items()}


class Source:
    """An argument that is made from source with the library as `T`."""

    def __init__(self, text):
        self.text = text

    def make(self, library):
        return eval(self.text, {"T": library, "np": numpy})


def to_torch(tensor):
    """Return a tensor of plugrad as one of PyTorch with the same values and strides."""
    plain = tensor.detach()
    if plain.dtype is plugrad.bfloat16:
        made = torch.from_numpy(plain.float().numpy().copy()).bfloat16()
    else:
        made = torch.from_numpy(copy_with_strides(plain.numpy()))
    return made.requires_grad_(tensor.requires_grad)


def constant(value, library):
    """Return a dtype, device, layout... of plugrad as that of a library."""
    if library is plugrad:
        return value.clone_state() if isinstance(value, plugrad.Generator) else value
    if isinstance(value, (plugrad.dtype, plugrad.memory_format, plugrad.layout)):
        return getattr(torch, str(value).rpartition(".")[2])
    if isinstance(value, plugrad.device):
        return torch.device(str(value))
    if isinstance(value, plugrad.Generator):
        return torch.Generator().manual_seed(value.initial_seed())
    if isinstance(value, plugrad.Size):
        return torch.Size(value)
    return value


def has(library, name):
    """Whether a library has the dotted name."""
    try:
        Call(name, ()).function(library)
    except (AttributeError, NotImplementedError):
        return False
    return True


def load_everything():
    """Import every plugin, so that all records are there."""
    for name in dir(plugrad):
        if has(plugrad, name):
            for below in dir(getattr(plugrad, name)) if name in PLACES else ():
                has(plugrad, f"{name}.{below}")
    for below in dir(plugrad.nn.functional):
        has(plugrad, f"nn.functional.{below}")


PLACES = ("linalg", "special", "fft", "signal", "masked", "nn", "optim")


def of_ops():
    """Yield right calls of every public op and its in-place form, few for each."""
    load_everything()
    for op in list(registry.ops.values()):
        if op.provider is None or not op.module.startswith("plugrad."):
            continue
        chosen = [one for one in samples_of(op) if one.through is None or one.through.__name__ == "_on_copy"]
        methods = {op.name, *(name[7:] for name in op.names if name.startswith("Tensor."))}
        inplace = [f"Tensor.{name}_" for name in sorted(methods)] if op.inplace else []
        for name in (*op.names, *inplace):
            if name in NOT_CALLED or not (has(torch, name) and has(plugrad, name)):
                continue
            for sample in chosen if len(chosen) < 4 else (chosen[0], chosen[len(chosen) // 2], chosen[-1]):
                if name in inplace:
                    sample = sample.map(lambda t: t.detach())
                yield Call(name, sample.args, sample.kwargs)


NOT_CALLED = {"nn.functional.linear_cross_entropy"}


def of_table():
    """Yield the right calls of the table below."""
    for line in TABLE.strip().splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition("(")
        args, kwargs = eval(f"collect({rest}", {"collect": lambda *a, **k: (a, k), "S": Source, **SHORT})
        if has(torch, name) and has(plugrad, name):
            yield Call(name, args, kwargs)


SHORT = {name: Source(text) for name, text in {
    "x": "T.arange(6.).reshape(2, 3)", "v": "T.ones(2, 3, requires_grad=True)", "i": "T.tensor([0, 1])",
    "b": "T.tensor([True, False])", "g": "T.ones(2, 3)", "y": "(T.ones(2, 3, requires_grad=True) * 2)",
    "s": "(T.ones(2, 3, requires_grad=True) * 2).sum()", "p": "[T.nn.Parameter(T.ones(2, 3))]",
    "n": "np.ones((2, 3))", "f32": "T.float32", "i64": "T.int64", "cpu": "T.device('cpu')", "m": "T.nn.Linear(3, 2)",
    "sgd": "T.optim.SGD([T.nn.Parameter(T.ones(2))], 0.1)", "relu": "T.nn.ReLU()", "gen": "T.Generator()",
    "q": "T.ones(2, 4, 6)", "w": "T.empty(3, 5)",
}.items()}  # fmt: skip

TABLE = """
tensor([1, 2])
tensor([1., 2.], dtype=f32, device='cpu', requires_grad=True)
as_tensor([1, 2], dtype=f32)
asarray([1, 2], dtype=f32)
from_numpy(n)
frombuffer(b'abcdefgh', dtype=i64)
Tensor(2, 3)
FloatTensor(2, 3)
LongTensor([1, 2])
Size([2, 3])
device('cpu')
device('cpu', 0)
Generator()
Generator('cpu')
manual_seed(0)
result_type(x, 1)
can_cast(f32, i64)
promote_types(f32, i64)
broadcast_shapes((2, 1), (3,))
set_grad_enabled(True)
no_grad()
enable_grad()
inference_mode(True)
set_default_dtype(f32)
is_tensor(x)
is_floating_point(x)
is_complex(x)
numel(x)
is_nonzero(S("T.tensor(1.)"))
is_same_size(x, x)
finfo(f32)
iinfo(i64)
set_printoptions(precision=4)
Tensor.backward(s)
Tensor.backward(y, g, retain_graph=True, create_graph=False)
Tensor.requires_grad_(x, True)
Tensor.detach(x)
Tensor.detach_(x)
Tensor.item(S("T.tensor(1.)"))
Tensor.tolist(x)
Tensor.numpy(x)
Tensor.numpy(x, force=True)
Tensor.size(x)
Tensor.size(x, 0)
Tensor.stride(x, 0)
Tensor.dim(x)
Tensor.element_size(x)
Tensor.nelement(x)
Tensor.is_contiguous(x)
Tensor.data_ptr(x)
Tensor.storage_offset(x)
Tensor.register_hook(v, S("lambda g: g"))
Tensor.retain_grad(y)
Tensor.is_floating_point(x)
Tensor.is_shared(x)
Tensor.type(x)
Tensor.new(x, 2)
operator.getitem(x, 0)
operator.getitem(x, (0, 1))
operator.getitem(x, i)
operator.setitem(x, 0, 1.0)
operator.setitem(x, i, g)
operator.add(n, x)
operator.mul(x, n)
operator.contains(x, 1.0)
operator.add(x, 1)
operator.add(1, x)
operator.sub(x, g)
operator.sub(1, x)
operator.mul(x, g)
operator.truediv(x, g)
operator.truediv(2, g)
operator.floordiv(x, 2)
operator.mod(x, 2)
operator.pow(x, 2)
operator.pow(2, x)
operator.matmul(x, S("T.ones(3, 2)"))
operator.and_(i, 1)
operator.or_(i, i)
operator.xor(b, b)
operator.lshift(i, 1)
operator.eq(x, g)
operator.lt(x, 1)
operator.iadd(x, g)
operator.imul(x, 2)
autograd.grad(s, S("(T.ones(2, requires_grad=True),)"), allow_unused=True)
autograd.backward(s)
autograd.backward([y], [g], retain_graph=True)
autograd.functional.jacobian(S("lambda a: a * 2"), x)
autograd.functional.hessian(S("lambda a: (a * a).sum()"), x)
autograd.functional.vjp(S("lambda a: a * 2"), x, g)
func.grad(S("lambda a: (a * a).sum()"))
func.vmap(S("lambda a: a * 2"))
vmap(S("lambda a: a * 2"), 0)
nn.Parameter(x)
nn.Parameter(x, False)
nn.Linear(3, 2)
nn.Linear(3, 2, bias=False, dtype=f32)
nn.Bilinear(2, 3, 4)
nn.Identity()
nn.Flatten(1, -1)
nn.Unflatten(1, (2, 2))
nn.Conv1d(2, 4, 3)
nn.Conv2d(2, 4, 3, stride=2, padding=1, dilation=1, groups=2, bias=True, padding_mode='zeros')
nn.Conv3d(2, 4, (1, 2, 3))
nn.ConvTranspose1d(2, 4, 3)
nn.ConvTranspose2d(2, 4, 3, stride=2, padding=1, output_padding=1)
nn.MaxPool1d(2)
nn.MaxPool2d(2, stride=1, padding=0, ceil_mode=True)
nn.AvgPool2d(2, count_include_pad=False)
nn.AdaptiveAvgPool2d((1, 2))
nn.AdaptiveMaxPool1d(2)
nn.LPPool2d(2, 3)
nn.MaxUnpool2d(2)
nn.BatchNorm1d(3)
nn.BatchNorm2d(3, eps=1e-3, momentum=0.2, affine=False, track_running_stats=False)
nn.InstanceNorm2d(3)
nn.LayerNorm(3)
nn.LayerNorm((2, 3), eps=1e-3, elementwise_affine=False)
nn.GroupNorm(2, 4)
nn.RMSNorm(3)
nn.LocalResponseNorm(2)
nn.Embedding(5, 3)
nn.Embedding(5, 3, padding_idx=0, max_norm=1.0)
nn.Dropout(0.5)
nn.Dropout2d(0.3, inplace=True)
nn.AlphaDropout(0.1)
nn.ReLU()
nn.ReLU(inplace=True)
nn.LeakyReLU(0.1)
nn.ELU(1.0)
nn.Softmax(dim=1)
nn.LogSoftmax(1)
nn.Softplus(1, 20)
nn.PReLU(2)
nn.Hardtanh(-1, 1)
nn.Threshold(0.1, 20)
nn.GELU('tanh')
nn.GLU(-1)
nn.RNN(3, 4)
nn.LSTM(3, 4, num_layers=2, bias=True, batch_first=True, dropout=0.1, bidirectional=True)
nn.GRU(3, 4)
nn.LSTMCell(3, 4)
nn.GRUCell(3, 4)
nn.MultiheadAttention(4, 2)
nn.TransformerEncoderLayer(4, 2, 8)
nn.PixelShuffle(2)
nn.Upsample(scale_factor=2, mode='nearest')
nn.ZeroPad2d(1)
nn.ConstantPad1d(1, 0.5)
nn.ReflectionPad2d((1, 1, 1, 1))
nn.CosineSimilarity(1)
nn.PairwiseDistance(2)
nn.Fold((4, 5), 2)
nn.Unfold(2)
nn.MSELoss()
nn.L1Loss(reduction='sum')
nn.CrossEntropyLoss(label_smoothing=0.1, ignore_index=-1)
nn.NLLLoss()
nn.BCELoss()
nn.BCEWithLogitsLoss()
nn.SmoothL1Loss(beta=0.5)
nn.HuberLoss(delta=0.5)
nn.KLDivLoss(log_target=True)
nn.CTCLoss(blank=0, zero_infinity=True)
nn.TripletMarginLoss(margin=0.5, p=2)
nn.MarginRankingLoss()
nn.CosineEmbeddingLoss(0.1)
nn.Sequential(relu, relu)
nn.ModuleList([])
nn.ModuleDict({})
nn.ParameterList([])
nn.Module.train(m, True)
nn.Module.eval(m)
nn.Module.requires_grad_(m, False)
nn.Module.to(m, f32)
nn.Module.register_buffer(m, 'r', x, persistent=False)
nn.Module.register_parameter(m, 'r', None)
nn.Module.add_module(m, 'c', relu)
nn.Module.get_submodule(m, '')
nn.Module.zero_grad(m, set_to_none=True)
nn.Module.register_forward_hook(m, S("lambda *a: None"))
nn.Module.apply(m, S("lambda m: None"))
nn.Module.load_state_dict(m, S("dict(T.nn.Linear(3, 2).state_dict())"), strict=True)
nn.Linear.forward(m, x)
nn.Conv2d.forward(S("T.nn.Conv2d(2, 4, 3)"), S("T.ones(1, 2, 5, 5)"))
nn.LSTM.forward(S("T.nn.LSTM(6, 4)"), q)
nn.Embedding.forward(S("T.nn.Embedding(5, 3)"), i)
nn.BatchNorm1d.forward(S("T.nn.BatchNorm1d(4)"), q)
nn.LayerNorm.forward(S("T.nn.LayerNorm(3)"), x)
nn.MSELoss.forward(S("T.nn.MSELoss()"), x, g)
nn.CrossEntropyLoss.forward(S("T.nn.CrossEntropyLoss()"), x, i)
nn.MultiheadAttention.forward(S("T.nn.MultiheadAttention(6, 2)"), q, q, q)
nn.init.uniform_(w, 0.0, 1.0)
nn.init.normal_(w, 0.0, 1.0)
nn.init.constant_(w, 0.3)
nn.init.ones_(w)
nn.init.zeros_(w)
nn.init.eye_(w)
nn.init.xavier_uniform_(w, gain=1.0)
nn.init.kaiming_normal_(w, a=0, mode='fan_in', nonlinearity='relu')
nn.init.orthogonal_(w)
nn.init.trunc_normal_(w)
nn.init.sparse_(w, 0.1)
nn.init.calculate_gain('relu')
nn.utils.clip_grad_norm_(p, 1.0, norm_type=2.0)
nn.utils.clip_grad_value_(p, 1.0)
nn.utils.parameters_to_vector(p)
nn.utils.rnn.pad_sequence([x, x], batch_first=True)
nn.utils.rnn.pack_padded_sequence(q, S("T.tensor([2, 1, 1, 1])"), enforce_sorted=False)
optim.SGD(p, lr=0.1, momentum=0.9, dampening=0, weight_decay=0, nesterov=True, maximize=False)
optim.Adam(p, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=True)
optim.AdamW(p, lr=1e-3)
optim.Adamax(p, lr=1e-3)
optim.NAdam(p, lr=1e-3)
optim.RAdam(p, lr=1e-3)
optim.Adagrad(p, lr=1e-2, lr_decay=0, initial_accumulator_value=0)
optim.Adadelta(p, lr=1.0, rho=0.9)
optim.RMSprop(p, lr=1e-2, alpha=0.99, centered=True, momentum=0.1)
optim.Rprop(p, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50))
optim.ASGD(p, lr=1e-2)
optim.Optimizer.zero_grad(sgd, set_to_none=True)
optim.Optimizer.add_param_group(sgd, S("{'params': [T.nn.Parameter(T.ones(1))]}"))
optim.SGD.step(sgd)
optim.lr_scheduler.StepLR(sgd, 2, gamma=0.1, last_epoch=-1)
optim.lr_scheduler.MultiStepLR(sgd, [1, 2])
optim.lr_scheduler.ExponentialLR(sgd, 0.9)
optim.lr_scheduler.CosineAnnealingLR(sgd, 5, eta_min=0.0)
optim.lr_scheduler.LambdaLR(sgd, S("lambda e: 0.5"))
optim.lr_scheduler.LinearLR(sgd, start_factor=0.3, total_iters=4)
optim.lr_scheduler.ReduceLROnPlateau(sgd, mode='min', factor=0.1, patience=3)
optim.lr_scheduler.OneCycleLR(sgd, 0.1, total_steps=10)
"""


def parameters_of(call):
    """Return the names of further parameters that a call may be given, as far as Python can tell."""
    function = call.function(plugrad)
    op = getattr(function, "__op__", None)
    if op is not None:
        return list(op.parameters)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return [name for name, parameter in signature.parameters.items() if parameter.kind in kinds and name != "self"]
