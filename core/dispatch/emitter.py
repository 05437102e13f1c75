"""The fast path: plans written down as Python source.

A generated function serves plain calls: tensors of one device and of types that the op's kernel takes as they are, no
rare mode. All other calls, and every wrong argument, it hands to the interpreter before the kernel has run. In the
source `x_` is the raw array of the argument `x`, `x_e` its edge, `_t` the tensor type of the call, `_y` the raw result.
"""

from __future__ import annotations

import textwrap

from plugrad.dispatch import source
from plugrad.dispatch.formulas import output_number
from plugrad.dispatch.support import globals_of


class NodeMakers(dict):
    """For every mask of inputs that require grad the function that makes the node of a call with many inputs.

    Under the negative of a mask: of a call with several results.
    """

    __slots__ = ("plan",)

    def __init__(self, plan):
        self.plan = plan

    def __missing__(self, mask):
        op, writer = self.plan.op, Writer(self.plan, mask < 0)
        text = writer.node_maker(abs(mask))
        label = f"node of {op.qualname}, {'several results, ' * (mask < 0)}inputs {abs(mask):b}"
        names = globals_of(op, **{f"node{key}": cls for key, cls in writer.nodes.items()})
        return self.setdefault(mask, source.compile_function(text, "make_node", label, names))


class Writer:
    """The source of one function, written step by step as its plan says."""

    def __init__(self, plan, multiple=False):
        self.plan, self.op, self.lines, self.multiple = plan, plan.op, [], multiple
        self.inline = len(plan.inputs) <= 2  # where the node is made; for more there is a function for each set
        self.nodes: dict = {}

    def add(self, depth: int, text: str) -> None:
        """Add lines, indented by `depth` steps."""
        self.lines += ["    " * depth + line for line in text.splitlines()]

    @property
    def text(self) -> str:
        """The source so far."""
        return "\n".join(self.lines) + "\n"

    # ------------------------------------------------------------------------------------------ bind

    def bind(self) -> None:
        """Write the signature, and the lines that settle packed arguments and NumPy's names."""
        plan = self.plan
        if plan.is_operator:  # the operands in the order in which Python hands them over
            signature = ", ".join(argument.name for argument in plan.arguments)
        else:
            signature = source.signature_source(self.op, takes_out=plan.out, older=bool(self.op.older))
        self.add(0, f"def {plan.name}({signature}):")
        for name in plan.constants:
            self.add(1, f"{name} = {source.default_source(self.op, name)}")
        if not plan.is_operator:
            self.lines += source.settle_source(self.op).splitlines()
            if self.op.older:
                given = {name: f"{name}={name}" for name in (*self.op.keyword_only, *["out"] * plan.out)}
                self.add(1, f"if _more:\n    return _older_form(_op, {plan.target is not None}, "
                            f"({', '.join(self.op.positional)}, *_more), dict({', '.join(given.values())}))")

    def general(self) -> str:
        """Return the call of the interpreter that serves what this function does not."""
        values = source.values_source(self.op)
        if self.plan.target is not None:
            return f"_general({self.plan.target}, {values})"
        if self.plan.is_operator:
            return f"_operate(_op, {values})"
        function = "_named" if self.op.checks_numbers else "_apply"
        return f"{function}(_op, {values}{', out' if self.plan.out else ''})"

    # ------------------------------------------------------------------------------------------ unwrap

    def unwrap(self, kernels: str = "_kernels") -> None:
        """Write the guards and the unwrapping of all arguments, and what happens to calls that are not plain."""
        plan, lead = self.plan, self.plan.lead
        self.add(1, "try:")
        self.add(2, f"_t = {lead.name}{'[0]' * (lead.role == 'leads')}._type")
        self.add(2, f"_k = {kernels}[_t]")
        self.add(2, f"if _modes.special{' or out is not None' * plan.out}:")
        self.add(3, "_k = None")
        self.add(2, "elif _k is not None:")
        for argument in plan.arguments:
            self.add(3, getattr(self, f"take_{argument.role}")(argument))
        if plan.target is not None:
            self.add(3, self.guard_target())
        self.add(1, "except Exception:\n    _k = None")
        self.add(1, "\n".join(["if _k is None:", *source.whole_source(self.op), f"    return {self.general()}"]))

    def types(self, name: str, known: str, otherwise: str) -> str:
        """Return the global with the types that pass for a parameter: its own, or that for unknown kinds."""
        return f"{known}_{name}" if name in self.op.known_kinds else otherwise

    def refresh(self, name: str, tensor: str, indent: str = "") -> str:
        """Return what brings a tensor up to date: with NumPy's writes only if a formula wants the argument's values."""
        used = any(name in formula.wants for formula in self.op.formulas)
        text = f"{indent}if {tensor}._view is not None:\n{indent}    {tensor}._refresh({'' if used else False})"
        return text if self.plan.target is None else text + textwrap.indent(self.guard_read(tensor), f"{indent}    ")

    def guard_read(self, tensor: str) -> str:
        """Return the lines that leave a write to the interpreter if it may read its own memory, where one is a view."""
        target, index = self.plan.target, ", index" * (self.op.inplace == "items")
        if tensor != target:
            return f"\nif {target}._view is None and _meet({target}, {tensor}{index}):\n    raise _General"
        read = [a.name for a in self.plan.arguments if a.role in ("operand", "partner", "input") and a.name != target]
        met = "\nif type({0}) not in _PLAIN and _meet({1}, {0}{2}):\n    raise _General"
        return "".join([met.format(name, target, index) for name in read])

    def take_lead(self, argument) -> str:
        name = argument.name
        return f"{self.refresh(name, name)}\n{name}_ = {name}._raw" + f"\n{name}_e = {name}._edge" * bool(argument.bit)

    def take_leads(self, argument) -> str:
        name = argument.name
        return f"""\
if type({name}) is not list and type({name}) is not tuple:
    raise _General
{name}_, {name}_e = [], None
for _x in {name}:
    if _x._type is not _t:
        raise _General
{self.refresh(name, "_x", "    ")}
    if _x._edge is not None:
        {name}_e = {name}
    {name}_.append(_x._raw)"""

    def take_operand(self, argument) -> str:
        name, edge = argument.name, argument.bit
        none = f" or {name} is None" if self.op.defaults.get(name, 0) is None else ""
        number = f"{name}_ = {name}"
        if (self.plan.direct or getattr(self.op.kernels.get("cpu"), "integers", None)) and not none:  # 0-d is faster
            number = f"{name}_ = _t.constants.get({name})\n    if {name}_ is None: {name}_ = _t.constant({name})"
        others = [a.name for a in self.plan.arguments if self.op.alike and a.role == "operand" and a is not argument]
        alike = "".join(f" and type({other}) is not float and type({other}) is not int" for other in others)
        return "\n".join([
            f"_c = type({name})",
            f"if _c is float or _c is int{none}:",
            f"    {number}",
            *([f"    {name}_e = None"] if edge else []),
            f"elif {name}._type is _t{alike}:",
            self.refresh(name, name, "    "),
            f"    {name}_ = {name}._raw",
            *([f"    {name}_e = {name}._edge"] if edge else []),
            "else:\n    _k = None",
        ])  # fmt: skip

    def take_partner(self, argument) -> str:
        taken = textwrap.indent(self.take_lead(argument), "    ")
        return f"if {argument.name}._type is _t:\n{taken}\nelse:\n    _k = None"

    def take_input(self, argument) -> str:
        name = argument.name
        return f"""\
if type({name}) in {self.types(name, '_plain', '_PLAIN')}:
    {name}_, {name}_e = {name}, None
else:
    if {name}._type.home is not _t.home:
        raise _General
{self.refresh(name, name, "    ")}
    {name}_, {name}_e = {name}._raw, {name}._edge"""

    def take_value(self, argument) -> str:
        name = argument.name
        types, others = self.types(name, "_plain", "_PLAIN"), self.types(name, "_types", "None")
        sizes = "" if name in self.op.known_kinds else f" or type({name}) is tuple and _all_plain(map(type, {name}))"
        return f"{name}_ = {name} if type({name}) in {types}{sizes} else _plain({name}, _t, {others})"

    def take_plain(self, argument, known="_plain", otherwise="_PLAIN") -> str:
        name = argument.name
        taken = f"if type({name}) not in {self.types(name, known, otherwise)}:\n    raise _General\n{name}_ = {name}"
        if name != "keepdim" or not self.op.keeps_given:
            return taken
        return f"if {name} is MISSING:\n    {name}_ = {name} = False\nelse:\n{textwrap.indent(taken, '    ')}"

    def take_shape(self, argument) -> str:
        name, kind = argument.name, self.op.known_kinds.get(argument.name)
        taken = self.take_plain(argument, "_sizes", "_PLAIN_OR_SEQUENCE")
        if kind is None or "ints" not in kind.words:
            return taken
        # What is kept of the call must not change with a list, or with tensors that stand for ints.
        several = f"elif type({name}) is list or type({name}) is tuple:\n    {name}_ = {name} = tuple({name})\n"
        several += f"    if not _are_ints({name}):\n        raise _General\nelse:\n{textwrap.indent(taken, '    ')}"
        return f"if _are_ints({name}):\n    {name}_ = {name}\n{several}"

    def take_dim(self, argument) -> str:
        name, lead = argument.name, self.plan.lead.name
        kind = self.op.known_kinds.get(name)
        several = "" if kind is not None and tuple not in kind.types else f" and type({name}) is not tuple"
        taken = f"""\
if not (_d := {lead}_.ndim) or type({name}) is not int{several}:
    raise _General
{name}_ = {name} % _d if type({name}) is int and -_d <= {name} < _d else _axes({name}, _d)"""
        if self.op.keeps_given:  # None itself is rare
            whole = f"if {name} is MISSING:\n    if keepdim is not MISSING:\n        raise _General\n"
            return f"{whole}    {name}_ = {name} = None\nelse:\n{textwrap.indent(taken, '    ')}"
        if kind is not None and type(None) not in kind.types:
            return taken
        return f"{name}_ = {name}\nif {name} is not None:\n{textwrap.indent(taken, '    ')}"

    def take_absent(self, argument) -> str:
        return f"{argument.name}_ = {argument.name}\nif {argument.name} is not None:\n    raise _General"

    def guard_target(self) -> str:
        """Return the lines that leave a write to the interpreter if anything is recorded."""
        target, plan = self.plan.target, self.plan
        kept = f"{target}._edge is not None or {target}._view is not None"  # asked before the mode, which is a property
        kept = f"({kept}) and _mode.grad and ({target}._edge is not None or _in_history({target}))"
        may_record = self.op.inplace != "values"
        lines = [f"if {kept} or not _t.locks and (_copies or 0 in {target}_.strides): _k = None"]
        if plan.direct is not None and self.op.write_function is None:
            for name in self.op.parameters[self.op.arity :]:
                lines.append(f"if {name} is not _d_{name}:\n    _k = None")
        for argument in plan.arguments:
            name = argument.name
            if may_record and argument.bit and name != target:
                lines.append(f"if {name}_e is not None and _mode.grad:\n    _k = None")
            if may_record and not argument.bit and argument.role in ("operand", "partner", "input"):
                lines.append(f"if getattr({name}, '_edge', None) is not None and _mode.grad:\n    _k = None")
            if argument.role == "value":  # a plain one is taken as it is
                met = f"({name}._view or {target}._view) is not None and _meet({target}, {name})"
                met = f"{name}._edge is not None and _mode.grad or {met}" if may_record else met
                lines.append(f"if {name}_ is not {name} and _isinstance({name}, _Tensor) and ({met}):\n    _k = None")
            if not plan.runs_kernel and (argument.role == "input" or argument.role == "value" and self.op.promote):
                lines.append(f"if {name}_ is not {name} and getattr({name}, '_type', None) is not _t:\n    _k = None")
        return "\n".join(lines)

    # ------------------------------------------------------------------------------------------ run

    def kernel(self, kernel: str = "_k") -> str:
        """Return the expression that runs the kernel, or another function of its arguments."""
        op, direct = self.op, self.plan.direct
        if direct is not None:
            return f"_t.functions.{direct}({', '.join([f'{name}_' for name in op.parameters[: op.arity]])})"
        constants = self.plan.constants
        arguments = [name if name in constants else f"{name}_" for name in op.positional]
        arguments += [f"{name}={name}{'' if name in constants else '_'}" for name in op.keyword_only]
        return f"{kernel}(_t.xp, {', '.join(arguments)})"

    def raw(self) -> str:
        """Return the display of all arguments as the kernel gets them."""
        constants = self.plan.constants
        return "[" + ", ".join(name if name in constants else f"{name}_" for name in self.op.parameters) + "]"

    def run(self) -> None:
        """Write the call of the kernel. One that raises has run, and is not run again."""
        self.add(1, f"try:\n    _y = {self.kernel()}")
        values = source.values_source(self.op)
        self.add(1, f"except Exception as _error:\n    _y = _failed(_op, _t, {self.raw()}, _error, {values})")

    # ------------------------------------------------------------------------------------------ wrap, view, history

    def wrap(self) -> None:
        """Write how the result becomes a Tensor."""
        plan, op = self.plan, self.op
        call = f"_op, {source.values_source(op)}, {self.raw()}, _t"
        many = f"return _finish_many({call}, %s, None, {self.mask()}, _makers)"
        if len(op.ordered_by) > 1 and op.trusted:
            operands = ", ".join(f"{op.parameters[i]}_" for i in op.ordered_by)
            self.add(1, f"_y = _ordered(_t, _y, {operands})")
        else:
            self.add(1, "if _type(_y) is not _t.array_type:")
            if plan.several or not op.trusted:
                self.add(2, f"if _type(_y) is _tuple:\n    {many % '_y'}")
            self.add(2, "_y = _t.wrap(_y)" if op.trusted else "_y = _wrapped(_op, _t, _y)")
        if op.returns is not None and not op.trusted:  # an error: it says that there are several
            self.add(1, many % "(_y,)")
        if plan.result == "lead" and not op.trusted:
            self.add(1, "if _y.dtype is not _t.np:\n    _y = _wrapped(_op, _t, _y).astype(_t.np)")
        if plan.view and op.itself:
            self.add(1, f"if _y is {op.parameters[0]}_:\n    return {op.parameters[0]}")
        self.add(1, "_r = _new(_Tensor)\n_r._raw = _y")
        looked_at = "_y" if op.trusted else "_wrapped(_op, _t, _y)"
        kernel = f"_t if _y.dtype is _t.np else _t.device.tensor_type({looked_at}.dtype)"
        self.add(1, f"_r._type = {dict(lead='_t', bool='_bool_type[_t]').get(plan.result, kernel)}")
        if op.any_order:
            self.add(1, f"if not _y.flags.c_contiguous:\n    _r._type = _open_type(_r._type, _y, {op.any_order!r})")
        if plan.view:
            rest = "".join(f"{name}, " for name in op.parameters[1:])
            first = op.parameters[0]
            shares = f"_y.base is {first}_ or _is_view_of(_y, {first}_, _t.backend, _op, ({rest}))"
            self.add(1, f"_r._view = _mark_view({first}, _op, ({rest})) if {shares} else None")
        else:
            self.add(1, "_r._view = None")

    def history(self) -> None:
        """Write how the call becomes a node, if any input requires grad."""
        inputs = [name for _, name, _ in self.plan.inputs]
        if not inputs:
            self.add(1, "_r._edge = None\nreturn _r")
            return
        paused = "_modes.paused and not _mode.records()"
        if self.plan.result == "kernel":
            paused += " or not _r._type.is_differentiable"
        if not self.inline:
            self.add(1, f"_m = {self.mask()}\nif not _m or {paused}:\n    _r._edge = None\n    return _r")
            self.add(1, f"_r._edge = _makers[_m]({self.node_arguments()})\nreturn _r")
            return
        if len(inputs) == 1:
            self.add(1, f"if {inputs[0]}_e is None or {paused}:\n    _r._edge = None\n    return _r")
            self.add(1, self.node(1, "_r._edge = _n\nreturn _r"))
            return
        first, second = inputs
        end = "_r._edge = _n\nreturn _r"
        self.add(1, f"if {first}_e is None:")
        self.add(2, f"if {second}_e is None or {paused}:\n    _r._edge = None\n    return _r")
        self.add(2, self.node(2, end))
        self.add(1, f"if {paused}:\n    _r._edge = None\n    return _r")
        self.add(1, f"if {second}_e is None:")
        self.add(2, self.node(1, end))
        self.add(1, self.node(3, end))

    def mask(self) -> str:
        """Return the expression for the inputs that require grad, a bit for each."""
        edges = [f"({name}_e is not None)" for _, name, _ in self.plan.inputs]
        return " | ".join(f"{edge} << {i}" if i else edge for i, edge in enumerate(edges)) or "0"

    def node_arguments(self) -> str:
        """Return what a node maker is given: result, type, inputs, edges, all arguments as the kernel got them."""
        inputs = [name for _, name, _ in self.plan.inputs]
        edges, raw = [f"{name}_e" for name in inputs], [f"{name}_" for name in self.op.parameters]
        return ", ".join(["_y", "_t", *inputs, *edges, *raw])

    def node_maker(self, mask: int) -> str:
        """Return the source of the function that makes the node for one mask."""
        if self.multiple:
            self.add(0, "def make_node(_, _values, _raw, _y):")
            self.add(1, f"{source.values_source(self.op)} = _values\n{self.raw()} = _raw")
            self.add(1, f"_t = {self.plan.lead.name}{'[0]' * (self.plan.lead.role == 'leads')}._type")
        else:
            self.add(0, f"def make_node({self.node_arguments()}):")
        self.add(1, self.node(mask, "_n.slots = {}\n" * self.multiple + "return _n"))
        return self.text

    def node(self, mask: int, end: str) -> str:
        """Return the lines that make the node for a mask of inputs that require grad."""
        op, plan = self.op, self.plan
        wanted = sorted([a for a in plan.arguments if a.bit & mask], key=lambda argument: argument.bit)
        real = not (plan.view or self.multiple)
        if wanted[0].role == "leads":
            (name,) = (argument.name for argument in wanted)
            cls = self.nodes[mask] = op.node(mask, (name,), self.multiple, real=real)
            edges = f"(*[x if x._edge is _LEAF else x._edge for x in {name}],)"
            fits = f"[(x._raw.shape, _t.np) if x._edge is not None else None for x in {name}]"
        else:
            cls = self.nodes[mask] = op.node(mask, (), self.multiple, real=real)
            e = "._edge" if self.multiple else "_e"
            edges = "(" + "".join(f"{n} if {n}{e} is _LEAF else {n}{e}, " for n in (a.name for a in wanted)) + ")"
            types = {"lead": "_t.np", "operand": "_t.np", "partner": "_t.np"}
            fits = "".join(f"({a.name}_.shape, {types.get(a.role) or f'{a.name}._type.np'}), " for a in wanted)
            fits = f"({fits})"
        same = self.fit_conditions(cls, wanted)
        if same is not None:
            fits = f"None if {' and '.join(same)} else {fits}" if same else "None"
        fresh = f"_node{mask}"
        for name, given in op.node_names.items():
            self.nodes[f"{mask}_{name}"] = op.node(mask, (), self.multiple, name, real)
            for a in plan.arguments:  # what has a gradient is a tensor, a number is one of these two
                unless = f"{a.name} is not None and type({a.name}) is not float and type({a.name}) is not int"
                given = given.replace(f"isinstance({a.name}, Tensor)", "True" if a in wanted else f"({unless})")
            fresh = f"_node{mask}_{name} if {given} else {fresh}"
        if op.name_node is not None and not op.node_names:
            fresh = f"_op.node({mask}, (), {self.multiple}, _op.name_node({', '.join(op.parameters)}))"
        saved = "".join(self.saved(name, cls.wanted) + ", " for name in cls.saves)
        return f"""\
_n = _new({fresh})
_n.edges = {edges}
_n.saved = ({saved})
_n.fit = {fits}
_n.rare = None
_n.seq = _tick()
{end}"""

    def fit_conditions(self, cls, wanted):
        """Return the conditions under which gradients fit their inputs as they come; None if they are never trusted."""
        op, plan = self.op, self.plan
        if not op.trusted or self.multiple:
            return None
        conditions = [f"{a.name}._type.np is _t.np" for a in wanted if a.role == "input"]
        if any(getattr(kernel, "halves", False) for kernel in op.kernels.values()):  # numbers make them float32
            conditions.insert(0, "not _t.is_half")
        if plan.result == "kernel":
            conditions.insert(0, "_y.dtype is _t.np")
        operands = sum(argument.role in ("lead", "operand", "partner", "input") for argument in plan.arguments)
        if op.broadcasts and operands > 1:
            conditions += [f"{a.name}_.shape == _y.shape" for a in wanted]
        roles = {argument.name: argument.role for argument in plan.arguments}
        others = [name for name in cls.saves if roles.get(name) in ("value", "input") and name not in op.inputs]
        others = [name for name in others if name not in op.known_kinds or not op.known_kinds[name].plain]
        return conditions + [f"(type({name}_) in _PLAIN or _narrow({name}_, _t.np))" for name in others]

    def saved(self, name: str, tensors) -> str:
        """Return the expression for what a formula calls `name`; `tensors` names arguments that certainly are some."""
        if name in self.plan.constants:
            return name
        if name in self.op.index:
            return f"{name}_"
        if (number := output_number(name)) is not None:
            return "_y" if number < 0 or not self.multiple else f"_y[{number}]"
        base, _, what = name.rpartition("_")
        if self.plan.lead.role == "leads" and base == self.plan.lead.name:
            return f"[x.{what} for x in {base}{'_' * (what == 'shape')}]"
        if base == self.plan.lead.name or base in tensors:
            return f"{base}_.shape" if what == "shape" else f"{base}.dtype"
        return f"getattr({base}_, 'shape', ())" if what == "shape" else f"getattr({base}, 'dtype', None)"

    # ------------------------------------------------------------------------------------------ variations

    def call(self) -> str:
        """Return the source of a function that carries out calls on arrays."""
        self.bind()
        if not self.plan.is_compiled:
            self.add(1, f"return {self.general()}")
            return self.text
        self.unwrap()
        self.run()
        self.wrap()
        self.history()
        return self.text

    def composite(self) -> str:
        """Return the source of a function whose kernel is called with tensors."""
        op = self.op
        self.bind()
        out = ", out" if self.plan.out else ""
        keywords = "".join(f", {name}={name}" for name in op.keyword_only)
        call = f"_kernel(_F, {', '.join(op.positional)}{keywords})"
        values = source.values_source(op)
        call = f"_fresh({call}, {values})" if op.fresh else call
        call = call if op.trusted else f"_r if _type(_r := {call}) is _Tensor else _composed(_op, _r)"
        met = f"(*{values}, out)" if out else values
        self.add(1, f"if _modes.watched and _met({met}):\n    return _composite(_op, {values}{out})\ntry:")
        looks = [look for look in map(self.look, op.known_kinds) if look]
        if looks:
            self.add(2, f"if {' or '.join(looks)}:\n    {values} = _check(_op, {values})")
        self.add(2, f"_r = {call}" if self.plan.out else f"return {call}")
        self.add(1, f"except _Exception as _error:\n    _wrong = _misfit(_op, {values}, {out[2:] or None}, _error)")
        self.add(2, "if _type(_wrong) is _tuple:\n    return _wrong[0]")
        self.add(2, "if _wrong is None:\n    raise\nraise _wrong from None")
        if self.plan.out:
            self.add(1, f"return _r if out is None else _write_out(_op, _r, out, values={values})")
        return self.text

    def look(self, name: str) -> str:
        """Return the condition under which an argument of a composite needs a look before it is used.

        Tensors need none: what is of another kind fails where it is used, unless the record declares it.
        """
        kind, default = self.op.known_kinds[name], name in self.op.defaults
        if kind.types == {bool}:
            return f"{name} is not True and {name} is not False"
        if name not in self.op.kinds and (not kind.plain or name == "p"):
            return ""  # a probability is compared, which refuses what is no number
        given = f"{name} is not _d_{name} and " if default else ""
        far = f" or _type({name}) is _int and not -_FAR <= {name} < _FAR" if {float, int} <= kind.types else ""
        return f"{given}(_type({name}) not in _types_{name}{far})"  # an op may be called `type`

    def write(self) -> str:
        """Return the source of an in-place form: without a temporary where nothing is recorded."""
        op, target = self.op, self.plan.target
        self.bind()
        if not self.plan.is_compiled:
            self.add(1, f"return {self.general()}")
            return self.text
        self.unwrap("_writable")
        # Counted as written first: whoever is interrupted, or out of memory or frames, in between may have written.
        self.add(1, f"try:\n    _touch({target})")
        if self.plan.direct is not None:
            call = f"_k({', '.join([f'{name}_' for name in op.parameters[: op.arity]])})\nreturn {target}"
            if op.write_function is not None:
                self.add(2, f"if {' and '.join([f'{name} is _d_{name}' for name in op.parameters[op.arity :]])}:")
            self.add(2 + (op.write_function is not None), call)
        if op.write_function is not None:
            arguments = ", ".join(f"{name}_" for name in op.parameters)
            self.add(2, f"if _write(_t.xp, {arguments}) is NotImplemented:\n    raise _General\nreturn {target}")
        elif self.plan.direct is None:
            self.write_result()
        if self.plan.direct is not None:
            self.add(1, f"except RuntimeWarning:  # made an error by the user; all is written\n    return {target}")
        self.add(1, "except (MemoryError, RecursionError):\n    raise")
        self.add(1, f"except Exception as _error:  # it refused, and wrote nothing\n    _untouch({target})")
        if op.write_function is not None:
            self.add(2, "if not isinstance(_error, (_General, ValueError)):  # the array is read-only\n    raise")
        self.add(2, f"return {self.general()}")
        return self.text

    def write_result(self) -> None:
        """Write the run of the kernel, as in `run`, over the target where it can do that; else its result is copied."""
        target, values = self.plan.target, source.values_source(self.op)
        fits = f"_y.shape == {target}_.shape{' and _y.dtype is _t.np' * (self.plan.result != 'bool')}"
        self.add(2, f"_w = getattr(_k, 'over', None)\n_y = _w and {self.kernel('_w')}\nif _y is {target}_:")
        self.add(2, f"    return {target}\nif _y is None or _y is NotImplemented:\n    _y = {self.kernel()}")
        self.add(1, "except (MemoryError, RecursionError):  # it may have written\n    raise")
        self.add(1, f"except Exception as _error:\n    _untouch({target})")
        self.add(2, f"_y = _failed(_op, _t, {self.raw()}, _error, {values})\n_touch({target})")
        self.add(1, f"try:\n    if not ({fits}):\n        raise _General\n    {target}_[...] = _y\n    return {target}")

    def factory(self) -> str:
        """Return the source of a function that makes a tensor from none: plain arguments, on the CPU."""
        op = self.op
        positional = [f"*{n}" if n == op.variadic else source.parameter_source(op, n) for n in op.positional]
        keywords = [source.parameter_source(op, n) for n in op.keyword_only if n != "dtype"]
        keywords += ["dtype=None", "device=None", "requires_grad=False", "out=None", "layout=None", "pin_memory=False"]
        positional, keywords = positional + ["*"] * (not op.variadic), keywords + ["**keywords"] * bool(op.variadic)
        self.add(0, f"def {op.name}({', '.join(positional + keywords)}):")
        self.lines += source.variadic_lines(op) if op.variadic else []
        plain = [n for n in op.parameters if n not in ("size", "dtype")]
        tests = [f"_type({n}) in {self.types(n, '_plain', '_PLAIN')}" for n in plain]
        if "size" in op.parameters:
            tests.append("_isinstance(size, (_tuple, _list)) and _INTS.issuperset(_map(_type, size))")
        here = "(not _modes.elsewhere if device is None else device is _cpu and not _modes.special)"
        tests = ["out is layout", "requires_grad is pin_memory is False", here, *tests]  # the first: both are None
        values = {n: "_d" if n == "dtype" else n for n in op.parameters}
        arguments = [values[n] for n in op.positional] + [f"{n}={values[n]}" for n in op.keyword_only]
        raw = f"[{', '.join(values.values())}]"
        create = f"_create(_op, {source.values_source(op)}, dtype, device, requires_grad, out, layout, pin_memory)"
        self.add(1, f"""\
if not ({' and '.join(tests)}):
    return {create}
_d = {'_dtypes._default.numpy' if op.promote == 'float' else None} if dtype is None else _getattr(dtype, "numpy", None)
if _d is None and dtype is not None:
    return {create}""")
        self.add(1, f"""\
try:
    _y = _kernel({', '.join(['_xp', *arguments])})
except _Exception as _error:
    _y = _failed(_op, {source.values_source(op)}, {raw}, _error)
if _type(_y) is not _array_type:
    _y = _xp.asarray(_y)
_t = _types.get(_y.dtype) or _cpu.tensor_type(_y.dtype)
if _d is not None and _y.dtype is not _d:
    _y = _y.astype(_d)
    _t = _cpu.tensor_type(_d)
_r = _new(_Tensor)
_r._raw = _y
_r._type = _t
_r._view = _r._edge = None
return _r""")
        return self.text
