"""Statements about modules and optimizers: layers that are kept, called in train and eval, trained, copied, hooked."""

from __future__ import annotations

from support.program_statements import kind


def layer(w, n: int, dtype: str) -> str:
    """Return an expression for a module that takes tensors whose last dimension is `n`."""
    of = f"dtype={dtype}"
    return w.some(
        f"fill(T.nn.Linear({n}, 2, {of}))", f"fill(T.nn.Linear({n}, {n}, bias=False, {of}))",
        f"fill(T.nn.LayerNorm({n}, {of}))", f"fill(T.nn.BatchNorm1d({n}, {of}))",
        f"fill(T.nn.BatchNorm1d({n}, momentum=None, {of}))", f"fill(T.nn.BatchNorm1d({n}, affine=False, {of}))",
        f"fill(T.nn.Sequential(T.nn.Linear({n}, 3, {of}), T.nn.ReLU(True), T.nn.BatchNorm1d(3, {of})))",
        f"fill(T.nn.Sequential(T.nn.Linear({n}, 2, {of}), T.nn.Tanh(), T.nn.Linear(2, 1, {of})))",
        f"fill(T.nn.PReLU({n}, {of}))" if n > 1 else f"fill(T.nn.PReLU({of}))",
        f"fill(T.nn.RNN({n}, 2, batch_first=True, {of}))", f"fill(T.nn.GRU({n}, 2, {of}))",
        f"fill(T.nn.LSTM({n}, 2, {of}))", f"fill(T.nn.GRUCell({n}, 2, {of}))", f"fill(T.nn.LSTMCell({n}, 2, {of}))",
        f"fill(T.nn.Bilinear({n}, {n}, 2, {of}))", f"fill(T.nn.RMSNorm({n}, {of}))",
        f"fill(T.nn.Conv1d({n}, 2, 1, {of}))", f"fill(T.nn.ConvTranspose1d({n}, 2, 1, {of}))",
        f"fill(T.nn.GroupNorm(1, {n}, {of}))", f"fill(T.nn.InstanceNorm1d({n}, affine=True, {of}))",
        f"fill(T.nn.MultiheadAttention({n}, 1, batch_first=True, {of}))", "T.nn.Dropout(0.0)", "T.nn.Softmax(-1)",
        "T.nn.Identity()",
    )  # fmt: skip


def modules(w) -> list[str]:
    """Return the names of the modules that there are."""
    return [name for name, value in w.run.names.items() if name[0] == "m" and isinstance(value, w.oracle.nn.Module)]


@kind(1.2)
def new_module(w):
    x = w.floating(lambda t: t.ndim >= 1 and t.shape[-1] > 0)
    if x is None or len(modules(w)) > 2:
        return None
    return f"{w.new('m')} = {layer(w, w.shape(x)[-1], w.dtype(x).replace('torch', 'T'))}"


@kind(3)
def called(w):
    names = modules(w)
    x = w.floating(lambda t: t.ndim >= 1)
    if x is None or not names:
        return None
    m, one = w.some(*names), w.new()
    several = type(w.run.names[m]).__name__ in ("RNN", "GRU", "LSTM", "MultiheadAttention")
    arguments = {"Bilinear": f"{x}, {x}", "MultiheadAttention": f"{x}, {x}, {x}"}.get(type(w.run.names[m]).__name__, x)
    return f"{one}{', *_' if several else ''} = {m}({arguments})"


@kind(2.5)
def of_module(w):
    names = modules(w)
    if not names:
        return None
    m = w.some(*names)
    x = w.pick()
    handle, copy, one = f"h{w.count}", f"m{w.count}", f"v{w.count}"
    form = w.some(
        f"{m}.eval()", f"{m}.train()", f"{m}.zero_grad()", f"{m}.zero_grad(set_to_none=False)",
        f"{m}.requires_grad_(False)", f"{m}.requires_grad_()", f"{m}.double()",
        f"{m}.load_state_dict({m}.state_dict())", f"{copy} = copy.deepcopy({m})",
        f"{handle} = {m}.register_forward_hook(twice)",
        f"{handle} = {m}.register_forward_pre_hook(lambda module, args: tuple(a * 0.5 for a in args))",
        f"{handle} = {m}.register_full_backward_hook(lambda module, gi, go: [seen('{m}', g) for g in go] and None)",
        f"{handle} = {m}.register_full_backward_hook(lambda module, gi, go: times(gi, 2))",
        f"{handle} = {m}.register_full_backward_pre_hook(lambda module, go: times(go, 3))",
        f"[seen('{m}', b) for b in {m}.buffers()] and None", f"T.nn.utils.clip_grad_norm_({m}.parameters(), 0.5)",
        f"T.nn.utils.clip_grad_value_({m}.parameters(), 0.25)",
        f"{one} = T.nn.utils.parameters_to_vector({m}.parameters())",
        f"with T.no_grad():\n    [p.mul_(0.5) for p in {m}.parameters()]",
        f"[p.data.clamp_(-1, 1) for p in {m}.parameters()]",
        f"{one} = T.func.functional_call({m}, {{k: p * 2 for k, p in {m}.named_parameters()}}, ({x},))",
    )  # fmt: skip
    w.count += 1
    if form.startswith(handle):
        w.handles.append(handle)
    return form


OPTIMIZERS = (
    "SGD({}, lr=0.1)", "SGD({}, lr=0.1, momentum=0.9)",
    "SGD({}, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1)", "Adam({}, lr=0.1)", "AdamW({}, lr=0.1)",
    "Adam({}, lr=0.1, amsgrad=True, maximize=True)", "RMSprop({}, lr=0.1)",
    "RMSprop({}, lr=0.1, momentum=0.5, centered=True)", "Adagrad({}, lr=0.1)", "Adadelta({}, lr=0.1)",
    "Adamax({}, lr=0.1)", "NAdam({}, lr=0.1)", "RAdam({}, lr=0.1)", "Rprop({}, lr=0.1)", "ASGD({}, lr=0.1)",
)  # fmt: skip


@kind(1)
def new_optimizer(w):
    names = modules(w)
    if len([name for name in w.run.names if name[0] == "o"]) > 1:
        return None
    if names and w.chance(0.6):
        what = f"{w.some(*names)}.parameters()"
    else:
        leaf = w.floating(lambda t: t.is_leaf and t.requires_grad)
        if leaf is None:
            return None
        what = w.some(f"[{leaf}]", f"[{{'params': [{leaf}], 'lr': 0.05}}]")
    return f"{w.new('o')} = T.optim.{w.some(*OPTIMIZERS).format(what)}"


@kind(3)
def of_optimizer(w):
    names = [name for name in w.run.names if name[0] == "o" and name[1:].isdigit()]
    if not names:
        return None
    o = w.some(*names)
    return w.some(
        f"{o}.step()", f"{o}.step()", f"{o}.step()", f"{o}.zero_grad()", f"{o}.zero_grad(set_to_none=False)",
        f"{o}.param_groups[0]['lr'] *= 0.5", f"{o}.load_state_dict({o}.state_dict())",
        f"{o}.load_state_dict(copy.deepcopy({o}.state_dict()))",
    )  # fmt: skip
