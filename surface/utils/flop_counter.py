"""`torch.utils.flop_counter`: floating point operations of products and convolutions, forward and backward.

What PyTorch counts is counted, under its names of the ops: matrix products of two matrices or two batches of them,
and convolutions. Its CPU counts nothing for `scaled_dot_product_attention` without dropout, and so it is here.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict

from plugrad import ops
from plugrad.extend import OpHook
from plugrad.extend.blocks import Restoring
from plugrad.library import is_packet, op_of, watching
from plugrad.utils.flop_formulas import (
    addmm_flop,
    baddbmm_flop,
    bmm_flop,
    conv_backward_flop,
    conv_flop,
    conv_flop_count,
    flop_registry,
    get_shape,
    mm_flop,
    register_flop_formula,
    sdpa_backward_flop_count,
    sdpa_flop_count,
    shape_wrapper,
)
from plugrad.utils.module_tracker import ModuleTracker

__all__ = [
    "FlopCounterMode", "addmm_flop", "baddbmm_flop", "bmm_flop", "conv_backward_flop", "conv_flop", "conv_flop_count",
    "flop_registry", "get_shape", "mm_flop", "register_flop_formula", "sdpa_backward_flop_count", "sdpa_flop_count",
    "shape_wrapper",
]  # fmt: skip

_SUFFIXES = ("", "K", "M", "B", "T")
# Ops that are counted by other words than those of the products in them: none, or a contraction as one of matrices.
_WHOLE = {"bilinear": None, "tensordot": "mm", "scaled_dot_product_attention": None}


def _matmul(a, b, out):
    """The op that PyTorch makes of a product: none for vectors, one of matrices where one factor is no batch."""
    if min(a.ndim, b.ndim) > 1:
        name = "mm" if min(a.ndim, b.ndim) == 2 else "bmm"
        yield name, name, 2 * math.prod(out.shape) * a.shape[-1], (a, b)


def _product(name, backward):
    def flops(a, b, out, *_):
        yield name, backward, 2 * math.prod(out.shape) * a.shape[-1], (a, b)

    return flops


def _linear(x, weight, bias, out):
    if x.ndim > 1:
        name = "mm" if bias is None else "addmm"
        yield name, "mm", 2 * math.prod(out.shape) * weight.shape[-1], (x, weight)


def _contract(a, b, labels, out):
    left, right, kept = labels
    sizes = {**dict(zip(left, a.shape)), **dict(zip(right, b.shape))}
    if len(sizes) > len({*kept}):  # otherwise nothing is summed, and it is no product of matrices
        yield "bmm", "bmm", 2 * math.prod(sizes.values()), (a, b)


def _convolve(x, weight, geometry, out):
    places, channels = (x if geometry.transposed else out).shape[2:], weight.shape[0] * weight.shape[1]
    flops = 2 * math.prod(places) * x.shape[0] * channels * math.prod(weight.shape[2:])
    yield "convolution", "convolution_backward", flops, (x,)
    yield None, "convolution_backward", flops * geometry.groups, (weight,)


def _sequence(gates, hidden, weight, *_):
    flops = 2 * hidden.shape[0] * math.prod(weight.shape)  # of a step
    yield "addmm", "mm", len(gates) * flops, (weight,)
    yield None, "mm", (len(gates) - 1) * flops, (gates,)
    yield None, "mm", flops, (hidden,)


_FORMULAS = {
    "matmul": lambda call: _matmul(*call.args[:2], call.result),
    "mm": lambda call: _product("mm", "mm")(*call.args[:2], call.result),
    "bmm": lambda call: _product("bmm", "bmm")(*call.args[:2], call.result),
    "addmm": lambda call: _product("addmm", "mm")(*call.args[1:3], call.result),
    "baddbmm": lambda call: _product("baddbmm", "bmm")(*call.args[1:3], call.result),
    "linear": lambda call: _linear(*call.args[:2], (*call.args, None)[2], call.result),
    "contract": lambda call: _contract(*call.args[:3], call.result),
    "convolve": lambda call: _convolve(*call.args[:2], call.args[3], call.result),
    "gru_sequence": lambda call: _sequence(*call.args),
    "rnn_sequence": lambda call: _sequence(*call.args),
}
_COUNTED = frozenset(flop_registry)  # the ops whose calls the rules above find in those of others


class _Counter(OpHook):
    """Tells a mode of the products among the ops that are called, and of ops that have a formula of their own."""

    def __init__(self, counter, formulas):
        super().__init__()
        self.counter, self.inside = counter, ()
        self.formulas = {op_of(target): formula for target, formula in formulas.items()}

    def wants(self, op):
        return op.name in _FORMULAS or op.name in _WHOLE or op.name == "addbmm" or op in self.formulas

    def of_library(self, definition, values, run):
        """Count a call of an op of `torch.library`, if it has a formula."""
        if definition not in self.formulas:
            return run(values)
        return self._by_formula(definition, f"{definition.home}.{definition.name}", values, {}, lambda: run(values))

    def _by_formula(self, op, name, args, kwargs, run):
        outer, self.inside = self.inside, (*self.inside, None)  # what it calls is part of it
        try:
            result = run()
        finally:
            self.inside = outer
        if not any(one is None for one in outer):
            flops = self.formulas[op](*args, out_val=result, **kwargs)
            self.counter.count(name, flops, self.counter.tracker.parents)
        return result

    def around(self, call, run):
        if call.op in self.formulas:
            call.result = self._by_formula(call.op, call.op.name, call.args, call.kwargs, run)
            return call.result
        name, outer = call.op.name, self.inside
        counted = name in _FORMULAS and not any(one is None for one in outer)
        if name == "baddbmm" or name not in _FORMULAS:
            self.inside = (*outer, self._rule(call))
        try:
            call.result = run()
        finally:
            self.inside = outer
        if counted:
            for forward, backward, flops, factors in _FORMULAS[name](call):
                rename = next(iter(outer), "")
                self._note(rename or forward, rename or backward, flops, factors, call.result)
        return call.result

    @staticmethod
    def _rule(call):
        if call.op.name == "scaled_dot_product_attention":
            dropout = (*call.args[4:5], call.kwargs.get("dropout_p", 0.0))[0]
            return "bmm" if dropout else None
        return _WHOLE.get(call.op.name)

    def _note(self, forward, backward, flops, factors, result):
        counter, parents = self.counter, self.counter.tracker.parents
        if forward is not None:
            counter.count(forward, flops, parents)
        times = sum(factor.requires_grad for factor in factors)
        if times and result.grad_fn is not None:
            result.grad_fn.register_prehook(lambda grads: counter.count(backward, times * flops, parents))


class FlopCounterMode(Restoring):
    """Counts the floating point operations of its `with` block.

    By module and by op.

    Args:
        mods: accepted; modules are known without it.
        depth: how many levels of modules the table shows; None shows all.
        display: whether leaving the block prints the table.
        custom_mapping: {op: formula of shapes} of further ops, beside those of `register_flop_formula`.

    >>> import plugrad as torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    >>> with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     model(torch.ones(2, 3)).sum().backward()
    >>> counter.get_total_flops()
    96
    >>> print(counter.get_table())
    Module          FLOP    % Total
    ------------  ------  ---------
    Sequential        96    100.00%
    - aten.addmm      48     50.00%
    - aten.mm         48     50.00%
    Sequential.0      96    100.00%
    - aten.addmm      48     50.00%
    - aten.mm         48     50.00%
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        formulas = {target: formula for target, formula in flop_registry.items() if target not in _COUNTED}
        for target, formula in (custom_mapping or {}).items():
            if not is_packet(target):
                raise ValueError(f"custom_mapping: {target} is no op such as torch.ops.mylib.foo")
            if target in _COUNTED:
                raise NotImplementedError(
                    f"custom_mapping: products and convolutions are counted where they are, inside of other ops too, "
                    f"so that there is no formula to be exchanged for {target}; count it in an op of your own"
                )
            formulas[target] = formula if getattr(formula, "_get_raw", False) else shape_wrapper(formula)
        self.depth, self.display, self.tracker = depth, display, ModuleTracker()
        self.flop_counts: dict = defaultdict(lambda: defaultdict(int))
        self._hook, self._on = _Counter(self, formulas), False

    def begin(self):
        self.flop_counts.clear()
        self.tracker.begin()
        self._hook.__enter__()
        watching.append(self._hook.of_library)
        self._on = True
        return self

    def end(self):
        self._on = False
        watching.remove(self._hook.of_library)
        self._hook.__exit__(None, None, None)
        self.tracker.end()
        if self.display:
            print(self.get_table(self.depth))

    def count(self, name: str, flops: int, parents) -> None:
        """Add operations of an op, as PyTorch calls it, to the modules of these names."""
        if self._on:
            for parent in parents:
                self.flop_counts[parent][name] += flops

    def get_total_flops(self) -> int:
        """Return the number of all operations."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict:
        """Return the numbers as {module's name: {op: number}}.

        All modules together are "Global".
        """
        return {
            module: {_packet(name): flops for name, flops in counts.items()}
            for module, counts in self.flop_counts.items()
        }

    def get_table(self, depth=None) -> str:
        """Return the numbers as a table of the modules down to a depth.

        By default that of the mode.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        modules = sorted(name for name in self.flop_counts if name != "Global")
        shown = [name for name in modules if depth is None or name.count(".") < depth]
        if not any(sum(self.flop_counts[name].values()) >= total for name in shown) and self.flop_counts["Global"]:
            shown.insert(0, "Global")
        rows = [row for name in shown for row in self._rows(name, total)]
        return _table([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    def _rows(self, module, total):
        suffix = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
        counts = self.flop_counts[module]
        named = [(f"- {op if '.' in op else f'aten.{op}'}", flops) for op, flops in counts.items()]
        for name, flops in ((module, sum(counts.values())), *named):
            share = f"{flops / total:.2%}" if total else "0%"
            yield name, f"{flops / 1000**suffix:.3f}{_SUFFIXES[suffix]}" if suffix else str(flops), share


def _table(rows) -> str:
    """Lay rows out below their header, as the package tabulate does: text to the left, numbers to the right."""
    header, *body = rows
    widths = [max(len(title) + 2, *(len(row[k]) for row in body)) for k, title in enumerate(header)]
    lines = [header, tuple("-" * width for width in widths), *body]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in lines)


def _packet(name):
    """Return what PyTorch knows an op by whose calls were counted under a name."""
    home, _, own = name.rpartition(".")
    return getattr(getattr(ops, home or "aten"), own, f"aten.{name}")
