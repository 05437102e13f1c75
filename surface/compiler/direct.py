"""Programs that keep nothing between a call and its walk backward: each of the two is one call of C.

What is asked, allocated and computed at a call is the same as ever, by `native/serving.inc`. Where a kernel does not
serve, or another thread is at the same place, the call is done as those of other programs.
"""

from __future__ import annotations

from plugrad.compiler.runs import is_function, late_of, written_back_of_arrays, written_node
from plugrad.kernels import module


class Direct:
    """Calls of a program in C, for the arrays `keep` that its tensors have now.

    `serve(args, kwargs)` returns the results; None where the guard says no, and False where the call is to be done in
    another way. `node(results, args, kwargs, self)` gives them their history, if they get one.
    """

    size = None  # for which sizes that vary are there: none does

    def __init__(self, program, serve, run_back):
        self.program, self.keep, self.serve, self.run_back = program, program.bound, serve, run_back
        self.node, self.gradients = program.in_c

    def back(self, grads, saved):
        """Return the gradients of a call whose results have these, by number; `saved` is what its node saved."""
        gradients = self.gradients(self.run_back, grads, saved)
        if gradients is None:
            instance = self.program.instance(self.keep)
            for value, array in zip(late_of(self.program), saved):
                if value.buffer.kind != "bound":  # which the instance has already
                    instance.code.give(value, array)
            gradients = self.program.back(instance, grads)
        return gradients


def parts_of(program):
    """Return what is left in Python of calls in C: what makes nodes, and gradients; None where there are no such calls.

    Both are None for a program without gradients.
    """
    captured, graph = program.captured, program.graph
    if program.scope is not None or not program.is_quiet or not is_function(program) or program.guard.flat is None:
        return None
    places = program.guard.flat
    if any(type(place) is not int for place in places) or any(e[0] != "tensor" or e[4] for e in captured.results):
        return None
    structure = captured.structure
    if type(structure) is not int and not (type(structure) is tuple and all(type(one) is int for one in structure)):
        return None
    if len({value.buffer for _, value in program.arguments}) < len(program.arguments):
        return None
    if not captured.wanted:
        return (None, None) if len(graph.parts) == 1 else None
    before = {value.buffer for i in graph.parts[0] for value in graph.steps[i].values()}
    if any(buffer.kind == "temporary" for buffer in program.read_late & before):
        return None
    gradients = [value for value in captured.gradients if value is not None]
    if len({v.buffer for v in gradients}) < len(gradients) or not all(map(_is_new, gradients)):
        return None
    return written_node(program), written_back_of_arrays(program)


def _is_new(value) -> bool:
    return value.buffer.kind == "fresh" and value.is_whole


def direct_of(program):
    """Return the `Direct` of a program for what it holds now; None where C does not do all of it."""
    if program.guard.same is None or not hasattr(program.make, "plan_of_runner"):
        return None
    captured = program.captured
    try:
        code = program.free.pop().code
    except IndexError:
        code = program.instance().code
    results = [entry[1] for entry in captured.results]
    run = code.runner(0, [value for _, value in program.arguments], results)
    run_back = None
    if captured.wanted:
        roots = [value for value in captured.root_grads if value.buffer in captured.used]
        gradients = [value for value in captured.gradients if value is not None]
        run_back = code.runner(1, [*roots, *late_of(program)], gradients)
    if run is None or captured.wanted and run_back is None:
        return None
    places = tuple([program.guard.flat[place] for place, _ in program.arguments])
    types = tuple([entry[2] for entry in captured.results])
    types = types if type(captured.structure) is tuple else types[0]
    return Direct(program, module().server(program.guard.same, run, places, types), run_back)
