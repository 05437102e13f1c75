"""`summary`: a model's layers as a table: shapes, parameters, multiply-adds, time, and memory kept for backward."""

from __future__ import annotations

import time
from dataclasses import dataclass

import plugrad
from plugrad.pictures.tape import readable
from plugrad.utils._pytree import tree_leaves
from plugrad.utils.flop_counter import FlopCounterMode


@dataclass
class Row:
    """One call of one module.

    `parameters` counts those of the module and of what is in it, `multiply_adds` those of products and convolutions,
    `seconds` is the time of the call, `saved_bytes` what its ops keep for backward beside parameters and what was kept
    before.
    """

    name: str
    kind: str
    depth: int
    input_shape: str = ""
    output_shape: str = ""
    parameters: int = 0
    multiply_adds: int = 0
    seconds: float = 0.0
    saved_bytes: int = 0
    again: bool = False


class Summary:
    """The table that `summary` returns: print it, or read `rows`.

    `parameters`, `trainable`, `multiply_adds`, `seconds` and `saved_bytes` are those of the whole model.
    """

    def __init__(self, rows, model, depth):
        self.rows, self._depth = rows, depth
        whole = rows[0]
        sizes = {id(parameter): parameter for parameter in model.parameters()}.values()
        self.parameters = sum(parameter.numel() for parameter in sizes)
        self.trainable = sum(parameter.numel() for parameter in sizes if parameter.requires_grad)
        self.parameter_bytes = sum(parameter.numel() * parameter.element_size() for parameter in sizes)
        self.multiply_adds, self.seconds, self.saved_bytes = whole.multiply_adds, whole.seconds, whole.saved_bytes

    def __str__(self):
        headings = ["layer", "input", "output", "parameters", "multiply-adds", "ms", "kept"]
        table = [
            [
                "  " * row.depth + (f"{row.name} ({row.kind})" if row.name else row.kind), row.input_shape,
                row.output_shape, "again" if row.again else f"{row.parameters:,}", f"{row.multiply_adds:,}",
                f"{row.seconds * 1e3:.2f}", readable(row.saved_bytes),
            ]
            for row in self.rows if self._depth is None or row.depth <= self._depth
        ]  # fmt: skip
        widths = [max(map(len, column)) for column in zip(headings, *table)]
        lines = [_line(headings, widths), "-" * (sum(widths) + 2 * len(widths) - 2)]
        lines += [_line(cells, widths) for cells in table]
        fixed = self.parameters - self.trainable
        without_grad = f", {fixed:,} without grad" if fixed else ""
        lines += [
            lines[1],
            f"parameters: {self.parameters:,} ({readable(self.parameter_bytes)}){without_grad}",
            f"multiply-adds: {self.multiply_adds:,}",
            f"kept for backward: {readable(self.saved_bytes)}",
            f"time of a forward pass: {self.seconds * 1e3:.2f} ms",
        ]
        return "\n".join(lines)

    __repr__ = __str__


def summary(model, *inputs, depth=None, **kwargs):
    """Return a table of the layers that a model calls, in their order.

    The model is called on the inputs twice: to count, and for the time. Its buffers, and the random numbers that come
    next, are afterwards what they were.

    Args:
        model: a Module.
        *inputs, **kwargs: what it is called with.
        depth: how many levels of modules within modules are printed; None prints all.

    Returns a `Summary`. Raises TypeError for what is no Module.

    >>> import plugrad as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU())
    >>> table = torch.summary(model, torch.zeros(2, 8))
    >>> [(row.name, row.output_shape, row.parameters, row.multiply_adds) for row in table.rows]
    [('', '2 x 4', 36, 64), ('0', '2 x 4', 36, 64), ('1', '2 x 4', 0, 0)]
    """
    if not isinstance(model, plugrad.nn.Module):
        raise TypeError(f"summary() takes a Module and what it is called with, not {type(model).__name__}")
    buffers = [
        (owner._buffers, name, buffer, buffer.detach().clone())
        for owner in model.modules()
        for name, buffer in owner._buffers.items()
        if buffer is not None and not _is_lazy(buffer)
    ]
    try:
        with plugrad.random.fork_rng():
            rows = _counted(model, inputs, kwargs)
            for row, (seconds,) in zip(rows, _Watch(model, lambda: (time.perf_counter(),)).of_calls(inputs, kwargs)):
                row.seconds = seconds
    finally:
        for table, name, buffer, before in buffers:
            table[name] = buffer
            with plugrad.no_grad():
                buffer.copy_(before)
    return Summary(rows, model, depth)


def _counted(model, inputs, kwargs):
    """Call the model and return a row for every call of a module, with what it counts and keeps."""
    known = {parameter.untyped_storage().data_ptr() for parameter in model.parameters() if not _is_lazy(parameter)}
    kept = 0

    def pack(tensor):
        nonlocal kept
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            known.add(storage.data_ptr())
            alive.append(storage)  # so that no other array comes to stand at the same address
            kept += storage.nbytes()
        return tensor

    alive: list = []
    with FlopCounterMode(display=False) as counter:
        with plugrad.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            watch = _Watch(model, lambda: (counter.get_total_flops(), kept))
            differences = watch.of_calls(inputs, kwargs)
    for row, (flops, size) in zip(watch.rows, differences):
        row.multiply_adds, row.saved_bytes = flops // 2, size
    return watch.rows


class _Watch:
    """Watches the calls of a model's modules: a row for each, and by how much some counters went up in it."""

    def __init__(self, model, read):
        self.model, self.read = model, read
        self.names = {module: name for name, module in model.named_modules()}
        self.rows: list = []
        self.differences: list = []
        self._open: list = []
        self._seen: set = set()

    def of_calls(self, inputs, kwargs) -> list[tuple]:
        """Call the model; return the differences of the counters for each call of a module, in the order of rows."""
        handles = []
        try:
            for module in self.names:
                handles.append(module.register_forward_pre_hook(self._enter, prepend=True, with_kwargs=True))
                handles.append(module.register_forward_hook(self._leave, with_kwargs=True, always_call=True))
            self.model(*inputs, **kwargs)
        finally:
            for handle in handles:
                handle.remove()
        return self.differences

    def _enter(self, module, args, kwargs):
        row = Row(self.names[module], type(module).__name__, len(self._open), again=module in self._seen)
        row.input_shape = _shapes((args, kwargs))
        self._seen.add(module)
        self._open.append((len(self.rows), self.read()))
        self.rows.append(row)
        self.differences.append(())

    def _leave(self, module, args, kwargs, output):
        place, before = self._open.pop()
        self.differences[place] = tuple(after - start for after, start in zip(self.read(), before))
        self.rows[place].output_shape = _shapes(output)
        self.rows[place].parameters = sum(parameter.numel() for parameter in module.parameters())


def _is_lazy(tensor) -> bool:
    return plugrad.nn.parameter.is_lazy(tensor)


def _shapes(nested) -> str:
    tensors = [leaf for leaf in tree_leaves(nested) if isinstance(leaf, plugrad.Tensor)]
    return ", ".join(" x ".join(map(str, tensor.shape)) or "number" for tensor in tensors)


def _line(cells, widths) -> str:
    left = [cell.ljust(width) for cell, width in zip(cells[:3], widths)]
    return "  ".join([*left, *[cell.rjust(width) for cell, width in zip(cells[3:], widths[3:])]]).rstrip()
