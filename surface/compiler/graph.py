"""What an array compiler gets: the calls of NumPy that a program comes down to, over buffers of memory.

A `Graph` is a list of steps. A step calls a function with arguments; arrays among them are `Value`s, each a view
(shape, strides, offset) of a `Buffer`. There are no nodes for views: memory is where it is. A step either has
`results`, arrays that its function returns and whose memory is new, or `writes`, values that it writes into.
`Graph.parts` are the ranges of steps that are called one after another: all of the program, or forward and backward.

    kind      what the step is                                            effects
    array     a function of NumPy, a method of its arrays or setitem      writes what `writes` says
    kernel    an op's own kernel on NumPy's arrays, or a formula's        "random": it draws numbers, and always runs
    python    something of the program's to be called: optimizer.step()   any: it sees all memory that is bound
    native    a call in C, among the `inner` steps of a kernel            writes results and what `writes` says

    buffer    what its memory is
    temporary planned: it lives between the first step and the last one that use it
    fresh     new at each call: what the function of a step returned, as `fetch` gives it; it may become a result
    constant  the same at each call; `owner` has it
    initial   the same at the beginning of each call, and then written
    given     an argument's own memory, which `give` names before its part is called
    argument  a copy of an argument that is written, or whose elements are in another order than row-major
    bound     the memory of a tensor that the program holds, a parameter: steps read and write it where it is
"""

from __future__ import annotations

import numpy

from plugrad.compiler.sizes import Dim, Real

ALIGNMENT = 64
ASSIGNABLE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class of Python's, whose objects may get another one
# Functions that may write to `out=`, and how many arguments by place some have before it.
BEFORE_OUT = dict.fromkeys("amax amin max min dot concatenate stack".split(), 2) | dict.fromkeys(
    "sum prod cumsum cumprod clip".split(), 3
)
TAKE_OUT = frozenset("matmul dot concatenate stack cumsum cumprod sum prod amax amin max min clip".split())


class Buffer:
    """Memory of `nbytes` bytes; `owner` is the array that had it in the capture, of that `shape`.

    `itself` is the value that is all of it, in row-major order, or None where that array had another order. `sizes` are
    (nbytes, shape, strides) where these are not the owner's.
    """

    __slots__ = ("index", "owner", "nbytes", "kind", "holder", "kept", "shape", "dense", "original", "itself")

    def __init__(self, index, owner, kind, sizes=None):
        self.index, self.owner, self.kind = index, owner, kind
        self.nbytes, self.shape, strides = (owner.nbytes, owner.shape, owner.strides) if sizes is None else sizes
        self.dense = owner.flags.c_contiguous
        self.holder, self.kept, self.original = None, False, None  # kept: it is looked at after the last step
        self.itself = Value(self, self.shape, strides, 0, owner.dtype) if self.dense else None

    @classmethod
    def planned(cls, index, shape, dtype):
        """Return a temporary one for an array in row-major order."""
        strides = [dtype.itemsize]
        for n in shape[::-1]:
            strides.insert(0, strides[0] * n)
        buffer = cls(index, numpy.empty(0, dtype), "temporary", (strides[0], tuple(shape), tuple(strides[1:])))
        buffer.owner = None
        return buffer

    def __repr__(self):
        return f"{self.kind}{self.index}"


class Value:
    """An array that steps compute with: a view of a buffer, which begins `offset` bytes after its start."""

    __slots__ = ("buffer", "shape", "strides", "offset", "dtype", "key", "is_whole")

    def __init__(self, buffer, shape, strides, offset, dtype):
        self.buffer, self.shape, self.strides, self.offset, self.dtype = buffer, shape, strides, offset, dtype
        self.key = buffer.index, shape, strides, offset, dtype.str  # of values that are the same array it is the same
        step, dense = dtype.itemsize, offset == 0
        for n, stride in zip(shape[::-1], strides[::-1]):
            dense = dense and (n == 1 or stride == step)
            step *= n
        self.is_whole = dense and step == buffer.nbytes and step > 0  # all of its buffer, in row-major order

    def on(self, memory, size=None):
        """Return the array in the memory of the buffer, a flat array of bytes; `size` is for sizes that vary."""
        if size is None:
            return numpy.ndarray(self.shape, self.dtype, memory, self.offset, self.strides)
        shape, offset, strides = at((self.shape, self.offset, self.strides), size)
        return numpy.ndarray(shape, self.dtype, memory, offset, strides)

    @property
    def varies(self) -> bool:
        """Whether a size that varies is in it."""
        return varies((self.shape, self.offset, self.strides))

    def __repr__(self):
        return f"{self.buffer!r}[{self.dtype}{list(self.shape)}]"


class Step:
    """One call, `function(*args, **kwargs)`, its arrays replaced by values; `op` is the op that made it."""

    __slots__ = (
        "kind", "name", "function", "args", "kwargs", "results", "writes", "effect", "several", "op", "inner", "_reads",
    )  # fmt: skip

    def __init__(self, kind, name, function, args, kwargs, results, writes, effect, several=False):
        self.kind, self.name, self.function, self.args, self.kwargs = kind, name, function, args, kwargs
        self.results, self.writes, self.effect, self.several, self.op = results, writes, effect, several, None
        self.inner = self._reads = None

    def reads(self) -> list:
        """Return the values among the arguments; one that is only written into may be among them."""
        if self._reads is None:
            self._reads = []
            note = self._reads.append
            changed(lambda item: note(item) if isinstance(item, Value) else None, (self.args, self.kwargs))
        return self._reads

    def values(self) -> list:
        """Return the values that it returns or writes."""
        return [value for value in (*self.results, *self.writes) if value is not None]

    def varies(self) -> bool:
        """Whether sizes that vary are among the arguments, or in the shapes of values."""
        return bool(dims_in((self.args, self.kwargs))) or any(value.varies for value in (*self.reads(), *self.values()))

    @property
    def takes_out(self) -> bool:
        """Whether the function writes its result into the array that it gets as `out`."""
        if self.kind != "array" or self.several or "where" in self.kwargs or None in self.results:
            return False
        function = self.function
        if len(self.args) > BEFORE_OUT.get(self.name, len(self.args)):  # it says itself by place that there is none
            return False
        if isinstance(getattr(function, "__self__", None), numpy.ufunc):
            return function.__name__ in ("reduce", "accumulate")
        return isinstance(function, numpy.ufunc) or self.name in TAKE_OUT

    def __repr__(self):
        results = ", ".join(map(repr, self.values()))
        given = ", ".join([*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items() if k != "out")])
        return f"{results} = {self.name}({given})" if results else f"{self.name}({given})"


class Graph:
    """A captured program: `steps` over `buffers`, in `parts`, ranges of steps that are called one after another.

    `scope` says of which sizes the integers in it are, or is None where they are plain ones.
    """

    def __init__(self, steps, buffers, ends, scope=None):
        self.steps, self.buffers, self.scope = steps, buffers, scope
        self.shares: dict = {}  # a buffer -> the one whose memory it has
        self.parts = [range(a, b) for a, b in zip((0, *ends[:-1]), ends)]

    def simplify(self) -> None:
        """Fold what is constant, and drop what nobody needs. Compilers get graphs for which this was done."""
        written: dict = {}
        for step in self.steps:
            for value in step.values():
                written[value.buffer] = written.get(value.buffer, 0) + 1
        for buffer in self.buffers:
            if buffer.kind == "constant" and written.get(buffer):
                buffer.kind, buffer.owner = "initial", buffer.original  # filled anew at each call
        kept = [not self._folds(step, written) for step in self.steps]
        needed = {buffer for buffer in self.buffers if buffer.kept or buffer.kind in ("bound", "argument")}
        for index in range(len(self.steps) - 1, -1, -1):
            step = self.steps[index]
            if not kept[index]:
                continue
            if step.kind != "python" and not step.effect and not any(v.buffer in needed for v in step.values()):
                kept[index] = False
                continue
            needed.update([value.buffer for value in step.reads()])
        ends = [sum(kept[: part.stop]) for part in self.parts]
        self.steps = [step for step, keep in zip(self.steps, kept) if keep]
        self.parts = [range(a, b) for a, b in zip((0, *ends[:-1]), ends)]
        self._place()

    def _place(self) -> None:
        """Say of which buffers the memory is new at each call, and which are arguments' own."""
        touched: set = set()
        for step in self.steps:
            for value in step.results:
                if value is not None and value.is_whole and value.buffer.kind == "temporary":
                    if value.buffer not in touched and (value.buffer.kept or not step.takes_out):
                        value.buffer.kind = "fresh"
            touched.update([value.buffer for value in (*step.reads(), *step.values())])
        written = {value.buffer for step in self.steps for value in step.writes}
        for buffer in self.buffers:
            if buffer.kind == "argument" and buffer not in written and buffer.dense:
                buffer.kind = "given"

    def _folds(self, step, written) -> bool:
        """Whether a step always has the same results, which its buffers' owners have already."""
        if step.kind != "array" or step.effect or step.writes or not all(step.results):
            return False
        if any(written[value.buffer] > 1 for value in step.results):
            return False
        if any(value.buffer.kind != "constant" for value in step.reads()) or self.scope and step.varies():
            return False
        for value in step.results:
            value.buffer.kind = "constant"
        return True

    def uses(self) -> dict:
        """Return for each buffer the first and the last step that use it."""
        last = len(self.steps)
        spans = {buffer: (0, last) for buffer in self.buffers if buffer.kind in ("argument", "initial")}
        for index, step in enumerate(self.steps):
            for value in (*step.reads(), *step.values()):
                first = spans.get(value.buffer, (index, 0))[0]
                spans[value.buffer] = (first, max(index, spans.get(value.buffer, (0, 0))[1]))
        for buffer in self.buffers:
            if buffer.kept:
                spans[buffer] = (spans.get(buffer, (0, 0))[0], last)
        return spans

    def layout(self, size=None, uses=None) -> tuple:
        """Return (places, size): where in one piece of memory each buffer that is planned begins, and its size.

        Buffers that are not in use at the same step share memory: the largest are placed first, each as low as it goes.
        `size` is that for which it is, where sizes vary; `uses` what `uses()` returned, if that was asked before.
        """
        spans = self.uses() if uses is None else dict(uses)
        shares = {buffer: self.owner(buffer) for buffer in self.shares if buffer in spans}
        for buffer, owner in shares.items():
            first, last = spans.pop(buffer)
            known = spans.get(owner, (first, last))
            spans[owner] = (min(first, known[0]), max(last, known[1]))
        planned = [b for b in spans if b.kind in ("temporary", "argument", "initial")]
        placed: list = []
        places, total = {}, 0
        for nbytes, buffer in sorted([(at(b.nbytes, size), b) for b in planned], key=lambda pair: -pair[0]):
            first, last = spans[buffer]
            start = 0
            for begin, end, other_first, other_last in placed:
                if other_first <= last and first <= other_last and start < end and begin < start + nbytes:
                    start = max(start, end)
            end = start + -(-max(nbytes, 1) // ALIGNMENT) * ALIGNMENT
            places[buffer] = start
            placed.append((start, end, first, last))
            placed.sort()
            total = max(total, end)
        places.update({buffer: places[owner] for buffer, owner in shares.items() if owner in places})
        return places, total

    def owner(self, buffer) -> Buffer:
        """Return the buffer whose memory one has."""
        while buffer in self.shares:
            buffer = self.shares[buffer]
        return buffer

    def __str__(self):
        lines = []
        for number, part in enumerate(self.parts):
            lines += [f"part {number}:", *(f"  {self.steps[index]!r}" for index in part)]
        return "\n".join(lines)


def changed(function, item):
    """Return arguments with `function` applied to what is no tuple, list or dict in them."""
    cls = item.__class__
    if cls is tuple:
        return tuple([changed(function, one) for one in item])
    if cls is list:
        return [changed(function, one) for one in item]
    if cls is dict:
        return {key: changed(function, one) for key, one in item.items()}
    if cls is slice:
        return slice(changed(function, item.start), changed(function, item.stop), changed(function, item.step))
    if isinstance(item, tuple):  # with names, or a shape
        return getattr(cls, "_make", tuple)([changed(function, one) for one in item])
    return function(item)


def varies(item) -> bool:
    """Whether something is a size that varies, or a tuple or list with one in it."""
    if isinstance(item, (tuple, list)):
        return any(map(varies, item))
    return type(item) in (Dim, Real)


def dims_in(arguments) -> list:
    """Return the numbers that vary among arguments."""
    dims: list = []
    changed(lambda one: dims.append(one) if type(one) in (Dim, Real) else None, arguments)
    return dims


def hides_dims(arguments) -> bool:
    """Whether an object among arguments has attributes in which sizes vary: those it would keep for all sizes."""
    objects: list = []
    changed(lambda one: objects.append(one) if type(one).__flags__ & ASSIGNABLE else None, arguments)
    return any(
        bool(dims_in(getattr(one, name, None)))
        for one in objects
        if not isinstance(one, (Value, Dim, Real))
        for name in (*getattr(one, "__dict__", ()), *slots_of(type(one)))
    )


def slots_of(cls) -> list:
    """Return the names of the slots of a class and of those that it derives from."""
    names = []
    for one in cls.__mro__:
        own = vars(one).get("__slots__", ())
        for name in [own] if isinstance(own, str) else own:
            if name[:2] != "__":
                names.append(name)
            elif name[-2:] != "__":  # private to its class
                names.append(f"_{one.__name__.lstrip('_')}{name}")
    return names


def plainly(item):
    """Return arguments with sizes as they are in the call at hand."""
    return changed(lambda one: one.hint if type(one) in (Dim, Real) else one, item)


def at(item, size):
    """Return arguments with sizes as they are for a size."""
    return changed(lambda one: one.at(size) if type(one) in (Dim, Real) else one, item)


def plain(array) -> numpy.ndarray:
    """Return a copy of an array in memory of its own, with the same strides."""
    low, high = numpy.lib.array_utils.byte_bounds(array) if array.size else (0, 0)
    if array.size == 0 or high - low == array.nbytes and array.flags.forc:
        return array.copy("K")
    memory = numpy.zeros(high - low, "uint8")
    start = array.__array_interface__["data"][0] - low
    copy = numpy.ndarray(array.shape, array.dtype, memory, start, array.strides)
    copy[...] = array
    return copy
