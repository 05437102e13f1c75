"""`plugrad graph`: the graph of a result that a program computes, as a picture."""

from __future__ import annotations

import pathlib
import runpy
import sys

import typer

import plugrad
from plugrad.cli.output import say


def graph(
    script: pathlib.Path = typer.Argument(help="A Python program; it may import plugrad or torch."),
    arguments: list[str] = typer.Argument(None, metavar="-- ARGUMENTS", help="What the program is given."),
    result: str = typer.Option(None, "--result", "-r", help="The name of the tensor; else the one recorded last."),
    output: pathlib.Path = typer.Option(None, "--output", "-o", help="A .svg or .dot file; else DOT is printed."),
    most: int = typer.Option(400, min=1, help="The greatest number of functions; of more the last ones are drawn."),
):
    """Run a program, and draw the graph that one of its global tensors was computed by.

    Parameters are named as the program's models and variables name them. Memory that backward() has freed is shown so.
    """
    if output is not None and output.suffix not in (".svg", ".dot", ".gv"):
        raise typer.BadParameter(f"{output}: a picture is written as .svg or .dot")
    if not script.is_file():
        raise typer.BadParameter(f"there is no program {script}")
    plugrad.install_as_torch()
    sys.argv, sys.path[0] = [str(script), *(arguments or [])], str(script.resolve().parent)
    variables = runpy.run_path(str(script), run_name="__main__")
    picture = plugrad.draw(_chosen(variables, result), _names(variables), most=most)
    if output is None:
        say(picture.dot().rstrip("\n"), wrap=False)
    else:
        picture.save(output)
        say(f"{output}: {picture!r}".partition(";")[0].replace("<GraphPicture of ", ""))


def _chosen(variables, name):
    """Return the tensor of that name, or the one with a history that was recorded last."""
    tensors = {key: value for key, value in variables.items() if isinstance(value, plugrad.Tensor)}
    recorded = {key: value for key, value in tensors.items() if value.grad_fn is not None}
    if name is not None and name in tensors:
        return tensors[name]
    there = f"tensors with a history are: {', '.join(recorded) or 'none'}"
    if name is not None:
        raise typer.BadParameter(f"the program has no global tensor {name!r}; its {there}")
    if not recorded:
        raise typer.BadParameter(
            "the program leaves no global tensor that was computed with gradients: call what it does at its top level, "
            "or keep the loss in a global variable"
        )
    return max(recorded.values(), key=lambda tensor: tensor.grad_fn._sequence_nr())


def _names(variables):
    names = {}
    for key, value in variables.items():
        if isinstance(value, plugrad.nn.Module):
            names |= {f"{key}.{inner}": parameter for inner, parameter in value.named_parameters()}
        elif isinstance(value, plugrad.Tensor):
            names.setdefault(key, value)
    return names


COMMANDS = [graph]
