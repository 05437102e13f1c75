"""What a picture of a graph shows: boxes for functions and variables, and arrows as the forward pass went."""

from __future__ import annotations

from dataclasses import dataclass, field

import plugrad

FAMILIES = ("leaf", "input", "elementwise", "reduction", "view", "op", "factory", "function", "result")


@dataclass
class Box:
    """A function or a variable: `kind` is one of `FAMILIES`, by which it is coloured; `lines` is what stands in it."""

    key: int
    kind: str
    lines: list[str]
    is_function: bool = True
    title: str = ""
    again: bool = False  # whether it stands for a variable that is drawn further up, too


@dataclass
class Tape:
    """The boxes of a graph in an order in which arrows lead forward, its arrows, and what it keeps for backward."""

    boxes: list[Box] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)  # from and to, as keys of boxes
    saved_bytes: int = 0
    left_out: int = 0  # functions that are further from the results than the picture goes


def record(results, names, most) -> Tape:
    """Return what there is to draw of the graph of some tensors.

    `names` maps the ids of tensors to what they are called. At most so many functions are shown, the last ones.
    """
    nodes, left_out = _functions(results, most)
    tape, counted, shapes = Tape(left_out=left_out), set(), _shapes(nodes, results)
    leaves: dict[int, Box] = {}
    for node in nodes:
        kind = _kind(node)
        held, fresh = _saved(node, counted)
        tape.saved_bytes += fresh
        lines = [node.name().removesuffix("0").removesuffix("Backward")]
        outputs = getattr(node, "outputs", None)
        if isinstance(outputs, tuple):
            lines.append(", ".join(_shape(tuple(shape), ttype.dtype) for shape, ttype in outputs))
        elif id(node) in shapes:
            lines.append(_shape(*shapes[id(node)]))
        if node.saved is None:
            lines.append("freed")
        elif held:
            lines.append(f"keeps {readable(held)}")
        tape.boxes.append(Box(id(node), kind, lines, title=_title(node)))
        for edge, _ in node.next_functions:
            variable = getattr(edge, "variable", None)
            if variable is not None:
                leaves.setdefault(id(variable), _leaf(variable, names))
            if edge is not None:
                tape.arrows.append((id(edge if variable is None else variable), id(node)))
    tape.boxes = [*leaves.values(), *tape.boxes]
    for number, result in enumerate(results):
        text = names.get(id(result)) or ("result" if len(results) == 1 else f"result {number}")
        key = -1 - number
        tape.boxes.append(Box(key, "result", [text, _shape(tuple(result.shape), result.dtype)], False))
        tape.arrows.append((id(result if result.grad_fn is None else result.grad_fn), key))
        if result.grad_fn is None and id(result) not in leaves:
            tape.boxes.insert(0, _leaf(result, names))
    there = {box.key for box in tape.boxes}
    tape.arrows = [arrow for arrow in tape.arrows if there.issuperset(arrow)]  # not from functions that are left out
    return tape


def readable(size) -> str:
    """Return a number of bytes as people read it.

    >>> readable(12), readable(3 * 2**20)
    ('12 B', '3.0 MiB')
    """
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    raise AssertionError("unreachable")


def _functions(results, most):
    """Return the last nodes of a graph in the order in which they were recorded, and how many are left out."""
    seen, waiting = {}, [result.grad_fn for result in results if result.grad_fn is not None]
    while waiting:
        node = waiting.pop()
        if id(node) in seen or hasattr(node, "variable"):
            continue
        seen[id(node)] = node
        waiting += [edge for edge, _ in node.next_functions if edge is not None]
    nodes = sorted(seen.values(), key=lambda node: node._sequence_nr())
    return nodes[-most:], max(len(nodes) - most, 0)


def _shapes(nodes, results) -> dict:
    """Return {id of a node: (shape, dtype) of its result}, as far as results, and what took it in further on, tell."""
    shapes = {id(one.grad_fn): (tuple(one.shape), one.dtype) for one in results if one.grad_fn is not None}
    for node in reversed(nodes):
        kept = dict(zip(node.saves, node.saved or ()))
        own = shapes.get(id(node))
        dtype = own[1] if own is not None else results[0].dtype
        if hasattr(kept.get("y"), "shape"):
            own = shapes[id(node)] = tuple(kept["y"].shape), plugrad.dtypes.from_numpy(kept["y"].dtype)
        edges = [edge for edge, _ in _edges(node)]
        if node.fit is not None:
            known = [None if fit is None else (fit[0], plugrad.dtypes.from_numpy(fit[1])) for fit in node.fit]
        elif len(edges) == 1 and isinstance(kept.get("input_shape"), tuple):
            known = [(kept["input_shape"], dtype)]
        else:  # without a fit the operands of elementwise ops have the shape of the result
            known = [own if _kind(node) == "elementwise" else None] * len(edges)
            for place, position in enumerate(node.positions or range(len(edges))):
                names = node.op.inputs if node.op is not None else ()
                operand = kept.get(names[position]) if position < len(names) else None
                if hasattr(operand, "shape"):
                    known[place] = tuple(operand.shape), dtype
        shapes.update({id(edge): shape for edge, shape in zip(edges, known) if shape is not None})
    for node in nodes:
        edges = [edge for edge, _ in _edges(node)]
        if id(node) not in shapes and _kind(node) == "elementwise" and len(edges) == 1 and id(edges[0]) in shapes:
            shapes[id(node)] = shapes[id(edges[0])]
    return shapes


def _edges(node):
    """Return the functions behind a node's own edges, in the order of `fit`."""
    functions = node.next_functions
    return [functions[position] for position in node.positions or range(len(node.edges))]


def _kind(node) -> str:
    if node.op is None:
        return "function"
    family = node.op.family
    family = {"unary": "elementwise", "binary": "elementwise"}.get(family, family)
    return family if family in FAMILIES else "op"


def _title(node) -> str:
    """Return what is shown when the mouse rests on a function: its formula's op, and what it keeps."""
    kept = [name for name, value in zip(node.saves, node.saved or ()) if hasattr(value, "nbytes")]
    return f"{node.name()}" + (f"; keeps {', '.join(kept)}" if kept else "")


def _saved(node, counted):
    """Return the bytes of the arrays that a node keeps, and of those that no other was seen to keep."""
    held = fresh = 0
    for value in node.saved or ():
        size = getattr(value, "nbytes", None)
        if isinstance(size, int):
            held += size
            base = value if getattr(value, "base", None) is None else value.base
            if id(base) not in counted:
                counted.add(id(base))
                fresh += size
    return held, fresh


def _leaf(tensor, names) -> Box:
    name = names.get(id(tensor)) or ("parameter" if isinstance(tensor, plugrad.nn.Parameter) else "leaf")
    kind = "leaf" if tensor.requires_grad else "input"
    return Box(id(tensor), kind, [name, _shape(tuple(tensor.shape), tensor.dtype)], False)


def _shape(shape, dtype) -> str:
    size = " x ".join(map(str, shape)) or "number"
    return size if dtype is plugrad.float32 else f"{size} {dtype.name}"
