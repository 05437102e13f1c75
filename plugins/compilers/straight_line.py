"""The compiler that makes a straight line of calls of NumPy, which write into planned memory."""

from __future__ import annotations

import sys

import numpy as np

from plugrad.compiler import on_arrays
from plugrad.compiler.graph import Value, at, dims_in, varies
from plugrad.extend import hookimpl, native_function

IN_C = ("add", "subtract", "multiply", "divide", "negative", "square", "sqrt")
SMALL = 1 << 15  # bytes
MOVING = ("fresh", "given")  # kinds of buffers that are elsewhere at each call


def numpy(graph, example_inputs):
    """Run the program as one straight line of NumPy's calls, captured once.

    >>> import plugrad as torch
    >>> double = torch.compile(lambda x: x + x, backend="numpy")
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    return on_arrays(graph, Line, "numpy")


_count = getattr(sys, "getrefcount", None) or (lambda array: sys.maxsize)


class Line:
    """A graph as source: `names` of its arrays and other objects, and a code object for each part.

    Sizes that vary, and tuples of them, have names: `sized` says which.
    """

    any_size = True

    def __init__(self, graph):
        self.scope, self.sized, self.late = graph.scope, {}, None
        self.arrays: dict = {}  # the key of a value -> (value, name)
        self.whole: dict = {}  # buffer -> name of the array that is all of it
        self.objects = {"store": _store, "ndarray": np.ndarray}
        self.given = {b: f"given{b.index}" for b in graph.buffers if b.kind == "given"}
        self.last = {buffer: last for buffer, (_, last) in graph.uses().items()}
        self.views: dict = {}  # buffer -> keys of the values that steps use of it, and how often one makes it
        for step in graph.steps:
            for value in step.reads():
                self.views.setdefault(value.buffer, set()).add(value.key)
            for number, value in enumerate(step.values()):
                self.views.setdefault(value.buffer, set()).update([value.key, (id(step), number)])
        self.sources, self.local = [], set()
        self.functions: list = []  # others that are seldom called: (name, lines, what it returns)
        for number, part in enumerate(graph.parts):
            self.lines, self.known, self.born = [], set(), set()
            self.part(graph, part)
            self.sources.append((number, self.lines))
        self.moving = [name for value, name in self.arrays.values() if value.buffer.kind in MOVING]
        self.moving += sorted(self.local)
        top = f"    global {', '.join(self.moving)}\n" if self.moving else ""
        bodies = [(f"part{number}", lines, "") for number, lines in self.sources] + self.functions
        self.texts = {
            name: f"def {name}():\n{top}" + "".join(f"    {line}\n" for line in [*lines, f"return {result}"])
            for name, lines, result in bodies
        }
        self.source = "\n".join(self.texts.values())
        parts = "\n".join(self.texts[f"part{number}"] for number, _ in self.sources)
        self.code = compile(parts, "<compiled by 'numpy'>", "exec")
        self.direct_code = None
        self.texts = {name: self.texts[name] for name, _, _ in self.functions}
        self.sources = self.sources if len(self.sources) == 1 else [(number, None) for number, _ in self.sources]
        self.functions = self.views = self.last = self.born = self.lines = None  # nobody asks for them again

    def direct(self, given, results) -> bool:
        """Let a program of one part have `direct(*arrays)`, which takes those of `given` and returns results.

        False is returned where some of these are no new memory of their own. It takes no other memory that moves, so
        that nothing has to be given, fetched and cleared.
        """
        if len(self.sources) > 1 or any(value.buffer.kind != "fresh" for value in results):
            return False
        if any(value.key not in self.arrays or value.buffer not in self.whole for value in results):
            return False
        ((_, self.lines),) = self.sources
        self.lines = lines = [*self.lines]
        names = [self.array(value) for value in results]  # views of what the lines make are added to them
        head = f"def direct({', '.join(self.given[buffer] for buffer in given)}):"
        ends = f"return {', '.join(names)}{',' if len(names) > 1 else ''}"
        text = "\n".join([head, *(f"    {line}" for line in [*lines, ends])])
        self.direct_code = compile(text.replace("(again(", "(again_with(locals(), "), "<compiled by 'numpy'>", "exec")
        self.known = self.lines = None
        return True

    def __call__(self, memory):
        return Bound(self, memory)

    def varying(self, used) -> list:
        """Return the arrays in planned memory whose sizes vary, with their names: those that parts use, or others."""
        if self.late is None:
            codes = [one for code in (self.code, self.direct_code) if code for one in code.co_consts]
            named = {name for code in codes for name in getattr(code, "co_names", ())}
            late = [pair for pair in self.arrays.values() if pair[0].buffer.kind not in MOVING and pair[0].varies]
            self.late = {which: [pair for pair in late if (pair[1] in named) is which] for which in (True, False)}
        return self.late[used]

    def part(self, graph, part):
        """Add the lines of a part."""
        for index in part:
            self.step(graph.steps[index])
            self.let_go(index)

    def let_go(self, index):
        """Add lines that let go of what no step after this one needs."""
        for buffer in [b for b in self.born if self.last[b] <= index]:
            self.lines += [f"{name} = None" for v, name in self.arrays.values() if v.buffer is buffer]
            self.born.discard(buffer)

    def word(self, item) -> str:
        """Return how an argument is written in the source."""
        if isinstance(item, Value):
            return self.array(item)
        if self.scope is not None and varies(item) and not isinstance(item, list):
            if not isinstance(item, tuple) or all(type(one) is int or varies(one) for one in item):
                return self.sized.setdefault(item, f"z{len(self.sized)}")
        if type(item) in (int, bool, type(None), str):
            return repr(item)
        if type(item) is tuple:
            return f"({''.join(self.word(one) + ', ' for one in item)})"
        if type(item) is list:
            return f"[{', '.join(self.word(one) for one in item)}]"
        if type(item) is dict:
            return f"{{{', '.join(f'{self.word(k)}: {self.word(v)}' for k, v in item.items())}}}"
        if type(item) is slice:
            return f"slice({self.word(item.start)}, {self.word(item.stop)}, {self.word(item.step)})"
        if isinstance(item, tuple) and hasattr(item, "_make"):
            return f"{self.word(item._make)}(({''.join(self.word(one) + ', ' for one in item)}))"
        key = f"o{len(self.objects)}"
        self.objects[key] = item
        return key

    def array(self, value, new=False) -> str:
        """Return the name of an array; a view of memory that moves is made before it is used in a part."""
        known = self.arrays.get(value.key)
        if known is None:
            itself = value.buffer.kind == "given" and value.is_whole and value.shape == value.buffer.shape
            name = f"given{value.buffer.index}" if itself else None
            known = self.arrays[value.key] = (value, name or f"v{len(self.arrays)}")
        name = known[1]
        if value.buffer.kind in MOVING and name not in self.known:
            self.known.add(name)
            if new:
                self.whole[value.buffer] = name
            elif value.buffer.kind == "given":
                self.whole[value.buffer] = f"given{value.buffer.index}"
            if self.whole[value.buffer] != name:
                whole = self.whole[value.buffer]
                dtype, shape, offset, strides = map(self.word, (value.dtype, value.shape, value.offset, value.strides))
                self.lines.append(f"{name} = ndarray({shape}, {dtype}, {whole}, {offset}, {strides})")
        return name

    def step(self, step):
        """Add the line of a step."""
        function, objects = step.function, self.objects
        if isinstance(function, np.ufunc) and self.quick(step):
            return
        is_plain = isinstance(function, np.ufunc) and function is getattr(np, step.name, None)
        label = step.name if is_plain else f"f{len(objects)}"
        objects.setdefault(label, function)
        given = [self.word(one) for one in step.args]
        given += [f"{key}={self.word(value)}" for key, value in step.kwargs.items()]
        if step.writes or step.kind == "python":
            self.lines.append(f"{label}({', '.join(given)})")
            return
        moves = [value is not None and value.buffer.kind == "fresh" for value in step.results]
        outs = ["_" if one is None else self.array(one, new) for one, new in zip(step.results, moves)]
        self.born.update([value.buffer for value, new in zip(step.results, moves) if new])
        call = f"{label}({', '.join(given)})"
        if step.takes_out and not moves[0]:
            self.lines.append(f"{label}({', '.join([*given, f'out={outs[0]}'])})")
        elif step.several:
            self.lines.append(f"results = {call}")
            for number, (value, out, new) in enumerate(zip(step.results, outs, moves)):
                if value is not None:
                    self.lines.append(self.kept(value, out, f"results[{number}]", new))
        else:
            (value,) = step.results
            self.lines.append(call if value is None else self.kept(value, outs[0], call, moves[0], step.takes_out))

    def quick(self, step) -> bool:
        """Add a step of arithmetic on few elements as a call in C, which allocates sooner than NumPy writes."""
        if step.name not in IN_C or len(step.results) != 1 or any(key != "out" for key in step.kwargs):
            return False
        if dims_in(step.args):
            return False
        (result,) = step.results
        if result.shape == () or result.buffer.nbytes > SMALL or result.dtype.kind != "f" or not result.is_whole:
            return False
        moves = result.buffer.kind == "fresh"
        if not moves and (result.buffer.kind != "temporary" or len(self.views[result.buffer]) > 2):
            return False
        label = f"quick_{step.name}"
        self.objects.setdefault(label, native_function(step.name, getattr(np, step.name)))
        given = [self.word(np.array(a, result.dtype) if type(a) in (int, float) else a) for a in step.args]
        self.lines.append(f"{self.array(result, moves)} = {label}({', '.join(given)})")
        if moves:
            self.born.add(result.buffer)
        else:
            self.local.add(self.array(result))
        return True

    def kept(self, value, out, call, new, takes_out=False) -> str:
        """Return the line that keeps a result: as it is where its memory is new, else a copy."""
        if not new:
            return f"store({out}, {call})"
        if takes_out and value.shape:
            return f"{out} = {call}"
        self.objects.setdefault("check", _check)
        return f"{out} = check({call}, {self.word(value.shape)}, {self.word(value.dtype)})"


class Bound:
    """A line that is bound to memory: its `parts`."""

    def __init__(self, line, memory):
        self.line, self.space = line, dict(line.objects)
        self.memory = memory
        self.size = None  # for which sizes that vary are there
        for value, name in line.arrays.values():
            later = value.buffer.kind in MOVING or value.varies
            self.space[name] = None if later else value.on(memory[value.buffer])
        exec(line.code, self.space)
        self.parts = [self.space[f"part{number}"] for number, _ in line.sources]
        if line.direct_code is not None:
            exec(line.direct_code, self.space)
            self.direct = self.space["direct"]
        self.nothing = dict.fromkeys([*line.moving, *line.whole.values()])

    def resize(self, size):
        """Have the sizes that vary be such."""
        self.size = size
        for item, name in self.line.sized.items():
            self.space[name] = at(item, size)
        self.bind(self.line.varying(True))

    def bind(self, arrays):
        """Let names be arrays of the sizes that there are now."""
        for value, name in arrays:
            self.space[name] = value.on(self.memory[value.buffer], self.size)

    def give(self, value, array):
        """Let an argument be an array, or what an earlier part made."""
        self.space[self.line.given.get(value.buffer) or self.line.whole[value.buffer]] = array

    def fetch(self, value):
        """Return the array of a value in memory that moves."""
        known = self.line.arrays.get(value.key)
        array = None if known is None else self.space[known[1]]
        if array is None:
            whole = self.space[self.line.whole[value.buffer]]
            array = value.on(whole, self.size)
        return array

    def clear(self):
        """Let go of all memory that is new at each call."""
        self.space.update(self.nothing)


def _check(result, shape, dtype):
    """Return a result that is as it was in the capture: in row-major order, and in memory that nobody else has."""
    if result.shape != shape or result.dtype != dtype:
        raise RuntimeError(
            f"a compiled program got a result of shape {list(result.shape)} and {result.dtype}, and before one of "
            f"{list(shape)} and {dtype}: the size of an op's result depends on values; run it uncompiled"
        )
    if type(result) is np.ndarray and result.flags.c_contiguous:
        owner = result.base
        if (_count(result) <= _OWN) if owner is None else (type(owner) is np.ndarray and _count(owner) <= _OWNER):
            return result
    return np.array(result, order="C")


def _measure() -> tuple:
    """Return how many references `_check` sees to an array that nobody else has, and to the owner of one's memory."""

    def seen(result, shape, dtype):
        owner = result.base
        return _count(result) if owner is None else _count(owner)

    space = {"seen": seen, "make": np.empty, "view": lambda: np.empty(4).reshape(2, 2)}
    exec("own = seen(make(2), (2,), 0)\nowner = seen(view(), (2, 2), 0)", space)
    return space["own"], space["owner"]


def _store(array, result):
    _check(result, array.shape, array.dtype)
    array[...] = result


_OWN, _OWNER = _measure()


@hookimpl
def plugrad_compilers():
    return [numpy]
