"""`draw`: the graph that a tensor was computed by, as DOT and as SVG."""

from __future__ import annotations

import os
import pathlib
from html import escape

import plugrad
from plugrad.pictures import tape as tapes
from plugrad.pictures.layout import HEIGHT_OF_LINE, Placed

# The fill of a box by what it is: (name in the legend, colour).
COLOURS = {
    "leaf": ("requires grad", "#b7e1cd"), "input": ("no grad", "#e8eaed"), "elementwise": ("elementwise", "#cfe2f3"),
    "reduction": ("reduction", "#fce5cd"), "view": ("view", "#ead1dc"), "op": ("other op", "#fff2cc"),
    "factory": ("factory", "#d9d9d9"), "function": ("Function", "#f4cccc"), "result": ("result", "#ffffff"),
}  # fmt: skip
_HEIGHT_OF_LEGEND = 34


def draw(results, params=None, *, most=400):
    """Return a picture of the graph that results were computed by.

    A box is a variable (rounded) or a recorded function, with the shape of its result and the memory that it keeps for
    backward, coloured by the family of its op; arrows go as the forward pass went.

    Args:
        results: a tensor with a history, or a sequence of these.
        params: names of leaves: a dict of tensors, or a Module, whose parameters are meant.
        most: the greatest number of functions; of a longer graph the last ones are shown.

    Returns a `GraphPicture`, which notebooks show. Raises TypeError for anything but tensors, ValueError for tensors
    without a history.

    >>> import plugrad as torch
    >>> w = torch.ones(2, requires_grad=True)
    >>> picture = torch.draw((w * 3).exp().sum(), {"w": w})
    >>> print(picture.dot().splitlines()[3].strip())
    n0 [label="w\\n2", shape=box, style="rounded,filled", fillcolor="#b7e1cd"]
    """
    results = [results] if isinstance(results, plugrad.Tensor) else list(results)
    for result in results:
        if not isinstance(result, plugrad.Tensor):
            raise TypeError(f"draw() takes a tensor or a sequence of tensors, not {type(result).__name__}")
        if not result.requires_grad:
            raise ValueError(
                "there is no graph to draw: the result does not require grad. It was computed from tensors that don't, "
                "or under no_grad(), or it was detached"
            )
    if isinstance(params, plugrad.nn.Module):
        params = {**dict(params.named_parameters()), **dict(params.named_buffers())}
    names = {id(tensor): name for name, tensor in (params or {}).items()}
    return GraphPicture(tapes.record(results, names, most))


class GraphPicture:
    """A picture of a graph, which `draw` returns: `dot()`, `svg()` and `save(path)`.

    `saved_bytes` is the memory that the graph keeps for backward, each array counted once.
    """

    def __init__(self, tape):
        self._tape = tape
        self.saved_bytes = tape.saved_bytes

    def __repr__(self):
        functions = sum(box.is_function for box in self._tape.boxes)
        return f"<GraphPicture of {functions} functions; save it: picture.save('graph.svg')>"

    def save(self, path) -> None:
        """Write the picture to a file: SVG or DOT, by the path's suffix; ValueError for another one."""
        path = pathlib.Path(os.fspath(path))
        if path.suffix not in (".svg", ".dot", ".gv"):
            raise ValueError(f"a picture is written as .svg or .dot, not {path.suffix or 'without a suffix'}: {path}")
        path.write_text(self.svg() if path.suffix == ".svg" else self.dot(), encoding="utf-8")

    def dot(self) -> str:
        """Return the graph in Graphviz's language, https://graphviz.org/doc/info/lang.html."""
        keys = {box.key: f"n{number}" for number, box in enumerate(self._tape.boxes)}
        lines = ["digraph {", "    rankdir=TB", '    node [fontname="monospace", fontsize=10]']
        for box in self._tape.boxes:
            label = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in box.lines)
            style = "filled" if box.is_function else "rounded,filled"
            colour = COLOURS[box.kind][1]
            lines.append(f'    {keys[box.key]} [label="{label}", shape=box, style="{style}", fillcolor="{colour}"]')
        lines += [f"    {keys[a]} -> {keys[b]}" for a, b in self._tape.arrows]
        return "\n".join([*lines, "}", ""])

    def svg(self) -> str:
        """Return the picture as SVG 1.1, laid out here."""
        placed = Placed(self._tape)
        kinds = [kind for kind in COLOURS if any(box.kind == kind for box in self._tape.boxes)]
        note = f"kept for backward: {tapes.readable(self.saved_bytes)}"
        if self._tape.left_out:
            note += f"; {self._tape.left_out} earlier functions are left out"
        legend = 12 + sum(len(COLOURS[kind][0]) * 6.7 + 30 for kind in kinds)
        width, height = max(placed.width, legend, len(note) * 6.7 + 24), placed.height + _HEIGHT_OF_LEGEND + 16
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="11">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#555"/></marker></defs>',
            f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
            *_legend(kinds, note, placed.height),
            *[_arrow(points) for points in placed.paths()],
            *[_box(placed.boxes[key], *corner) for key, corner in placed.corners.items()],
            "</svg>",
        ]
        return "\n".join(parts) + "\n"

    _repr_svg_ = svg


def _arrow(points) -> str:
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in zip(points, points[1:]):
        middle = (y + to_y) / 2
        path += f" C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
    return f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#arrow)"/>'


def _box(box, x, y, width, height) -> str:
    texts = "".join(
        f'<tspan x="{x + width / 2:.1f}" y="{y + 15 + number * HEIGHT_OF_LINE:.1f}">{escape(line)}</tspan>'
        for number, line in enumerate(box.lines)
    )
    corner, dashes = 2 if box.is_function else 9, ' stroke-dasharray="4 3"' if box.again else ""
    title = f"<title>{escape(box.title)}</title>" if box.title else ""
    return (
        f'<g>{title}<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner}" '
        f'fill="{COLOURS[box.kind][1]}" stroke="#555"{dashes}/><text text-anchor="middle">{texts}</text></g>'
    )


def _legend(kinds, note, y):
    x = 12.0
    for kind in kinds:
        text, colour = COLOURS[kind]
        yield f'<rect x="{x:.1f}" y="{y:.1f}" width="12" height="12" fill="{colour}" stroke="#555"/>'
        yield f'<text x="{x + 16:.1f}" y="{y + 10:.1f}">{escape(text)}</text>'
        x += len(text) * 6.7 + 30
    yield f'<text x="12" y="{y + 32:.1f}" fill="#555">{escape(note)}</text>'
