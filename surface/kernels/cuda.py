"""Kernels in CUDA C++ as functions of arrays and numbers, of which a call costs little more than the launch.

What is slow about a launch is Python: looking at arguments, and CuPy making an object of each. So a kernel gets a
function that is written out for its number of arguments, and hands CuPy the same objects again and again: addresses of
places in a piece of memory, into which one call of `struct` writes the arguments. CUDA has read them when the launch
returns.
"""

from __future__ import annotations

import array
import functools
import pathlib
import struct

import numpy

from plugrad import registry
from plugrad.dispatch.source import compile_function
from plugrad.kernels.loading import CompilationError, text_of

HEADER = pathlib.Path(__file__).with_name("plugrad_cuda.h")
THREADS, WARP = 256, 32  # of a block: PG_THREADS
SHORT = 512  # elements of a row for which the threads of one warp are enough
EACH = 1024  # elements of an array of a list for each block: PG_EACH
ROOM = 480  # words of 8 bytes of a list's table, PG_ROOM: CUDA takes 512 of all arguments
INT64, FLOAT32, BOOL = numpy.dtype("int64"), numpy.dtype("float32"), numpy.dtype("bool")
TYPES = {
    "float32": "float", "float64": "double", "int32": "int", "int64": "long long", "uint8": "unsigned char",
    "bool": "bool", "float16": "pg_half", "bfloat16": "pg_bfloat16",
}  # fmt: skip
FLOATING = ("float32", "float64", "float16", "bfloat16")
NAMES = ("launched", "checked")
PER = ("element", "pack", "row", "rows", "block", "list")
TOGETHER, MANY = 8, 1024  # short rows for a block of per="rows", where there are so many


class CudaFunction:
    """A kernel in CUDA C++ as a function of arrays and numbers, compiled by CuPy for each type it is called with.

    It returns NotImplemented for arrays that it does not serve. The arguments are those of `load_inline`.
    """

    def __init__(
        self, source, name, arrays, numbers, like, flags, per, indices, wide, masks, sizes, threads, struct, types
    ):
        if per not in PER:
            raise ValueError(f"load_inline(): per is {', '.join(map(repr, PER[:-1]))} or {PER[-1]!r}, not {per!r}")
        types = FLOATING if types == "floating" else (types,) if isinstance(types, str) else types
        if unknown := {*types} - {*TYPES}:
            wrong = ", ".join(map(repr, sorted(unknown)))
            raise ValueError(f"load_inline(): types are among {', '.join(TYPES)}, or 'floating', not {wrong}")
        self.source, self.__name__, self.flags, self.per, self.types = source, name, flags, per, frozenset(types)
        self.arrays, self.numbers, self.like, self.indices = arrays, numbers, like, frozenset(indices)
        self.wide, self.masks, self.threads, self.struct = frozenset(wide), frozenset(masks), threads, struct
        self.one_size = sizes and per in ("element", "pack", "list")
        of_type = [n for n in range(arrays) if n not in self.indices | self.wide | self.masks]
        self.typed = of_type[0] if of_type else 0  # the array that tells the type
        self.ready: dict = {}  # by threads of a block, device and type of elements
        self.declined: set = set()  # types of elements that were met, and are not among `types`
        self.checked = self.launched = None

    def __call__(self, *args, blocks=None):
        """Run the kernel; return its result, or None where it writes into arrays that it is given."""
        if len(args) != self.arrays + self.numbers + (self.struct > 0):
            return NotImplemented
        if self.checked is None:
            self._write_out()
        return self.checked(*args, blocks)

    def _write_out(self):
        """Make the function that looks at arguments and launches, and the one that only launches."""
        backend = registry.backend("cuda")
        if backend.xp is None:
            raise RuntimeError(f"{self.__name__} is a kernel for CUDA, which can't be used here: {backend.available()}")
        self.xp, self.backend = backend.xp, backend
        pointer = backend.xp.cuda.function.CPointer
        names = {
            "ready": self.ready, "INT64": INT64, "FLOAT32": FLOAT32, "BOOL": BOOL, "ndarray": backend.xp.ndarray,
            "pool": [], "general": self._general,
            "current": backend.xp.cuda.runtime.getDevice, "arguments": functools.partial(_arguments, pointer, self),
            "pack": struct.Struct(_words(self)).pack_into, "launch_table": _launch_table,
        }  # fmt: skip
        texts = {"checked": _list_text(self)} if self.per == "list" else {n: _text(self, n == "checked") for n in NAMES}
        for name, text in texts.items():
            setattr(self, name, compile_function(text, "launch", f"kernel {self.__name__}, {name}", dict(names)))

    def _general(self, args, blocks):
        """Serve a call that is not plain: the first for a type, on a device that is not current, or one to decline."""
        xp = self.xp
        if self.per != "list" and self._never_serves(args[self.typed]):
            return NotImplemented
        if self.per == "list":
            lists = [one if isinstance(one, list) else [one] for one in args[: self.arrays]]
            first, arrays = lists[0][0], [one[0] for one in lists]
            numbers = args[self.arrays :]
        else:
            arrays = [one for one in args if isinstance(one, xp.ndarray)]
            numbers = [one for one in args if isinstance(one, (bool, int, float))]
            structs = [one for one in args if type(one) is bytes and len(one) == self.struct]
            if len(arrays) != self.arrays or len(numbers) != self.numbers or len(structs) != (self.struct > 0):
                return NotImplemented
            first, lists = arrays[0], arrays
        device, dtype = first.device.id, arrays[self.typed].dtype
        if device != self.backend.current_device():  # CuPy does not look where the arrays of such a kernel are
            with first.device:
                return self(*args, blocks=blocks)
        if dtype.name not in self.types:
            return NotImplemented
        if self.per != "list" and not all([self._fits(n, one, dtype) for n, one in enumerate(arrays)]):
            return self._in_other_order(arrays, numbers)
        if self.one_size and self.per != "list" and any([one.size != first.size for one in arrays]):
            return NotImplemented  # it would read beyond an end
        if not first.size and self.per != "list":
            return None if self.like is None else xp.empty_like(arrays[self.like])
        for threads in (WARP, THREADS) if self.per in ("row", "rows") else (self.threads,):
            self._make_ready(dtype, device, threads)
        if self.per != "list":
            return self.launched(*arrays, *structs, *numbers, blocks)
        left = self.checked(*lists, *numbers, blocks)
        return left if isinstance(args[0], list) else NotImplemented if left else None

    def _never_serves(self, array):
        """Whether the type of an array, or gaps between its elements, tell already that the call is declined."""
        if not isinstance(array, self.xp.ndarray):
            return False
        if array.dtype in self.declined:
            return True
        if array.dtype.name not in self.types:
            self.declined.add(array.dtype)
            return True
        if array._c_contiguous or not array.size:
            return False
        span = sum([(n - 1) * step for n, step in zip(array.shape, array.strides)]) + array.itemsize
        return not self.one_size or span != array.nbytes

    def _in_other_order(self, arrays, numbers):
        """Serve arrays of elements that all lie in memory in one order which is not row-major, in that order."""
        first = arrays[0]
        if not self.one_size or first.flags.c_contiguous or first.ndim < 2:
            return NotImplemented
        order = sorted(range(first.ndim), key=lambda dim: -first.strides[dim])
        steps = [[step // one.itemsize for step in one.strides] for one in arrays]
        alike = all([one.shape == first.shape and step == steps[0] for one, step in zip(arrays, steps)])
        if not alike or not first.transpose(order).flags.c_contiguous:
            return NotImplemented
        result = self(*[one.transpose(order) for one in arrays], *numbers)
        if result is NotImplemented or self.like is None:
            return result
        return result.transpose([order.index(dim) for dim in range(first.ndim)])

    def _make_ready(self, dtype, device, threads):
        """Have a kernel for a type of elements on the device at hand; CuPy loads it when it first runs."""
        kernels = self.ready.setdefault((threads, device), {})
        if dtype not in kernels:
            kernels[dtype] = _Late(self, kernels, dtype, threads)

    def _fits(self, number, array, dtype):
        wide = number in self.wide and dtype.itemsize == 2
        other = INT64 if number in self.indices else BOOL if number in self.masks else FLOAT32 if wide else dtype
        return array.dtype == other and array.flags.c_contiguous

    def compiled(self, dtype, threads):
        """Return CuPy's function for a type of elements, on the device at hand."""
        expression = f"{self.__name__}<{TYPES[dtype]}>"
        options = ("--std=c++17", f"-DPG_THREADS={threads}", *self.flags)
        module = self.xp.RawModule(code=cuda_text(self.source), options=options, name_expressions=(expression,))
        try:
            return module.get_function(expression).kernel
        except self.xp.cuda.compiler.CompileException as error:
            raise CompilationError(f"{self.__name__} does not compile for {dtype}:\n{error}") from None


class _Late:
    """A kernel that is compiled when it is first launched, and then takes its own place."""

    def __init__(self, function, kernels, dtype, threads):
        self.function, self.kernels, self.dtype, self.threads = function, kernels, dtype, threads

    def __call__(self, grid, block, arguments):
        kernel = self.kernels[self.dtype] = self.function.compiled(self.dtype.name, self.threads)
        kernel(grid, block, arguments)


def cuda_text(source) -> str:
    """Return what CuPy compiles: the header, and the source."""
    return f"{HEADER.read_text(encoding='utf-8')}\n#line 1\n{text_of(source)}"


def _arguments(pointer, function):
    """Return memory for the arguments of one launch, 8 bytes for each but structs, and CuPy's pointers to them."""
    count, table = function.arrays + (function.like is not None) + 1, function.struct // 8
    if function.per == "list":
        count, table = 1, 1 + ROOM  # how many arrays, how many blocks before, and the arrays
    memory = array.array("q", bytes(8 * (count + table + function.numbers)))
    start, _ = memory.buffer_info()
    places = [*range(count + (function.struct > 0)), *range(count + table, len(memory))]
    return memory, tuple([pointer(start + 8 * place) for place in places])


def _words(function) -> str:
    """Return how `struct` calls what it writes: the size and addresses, then numbers; of lists only these."""
    addresses = function.arrays + (function.like is not None)
    bytes_of = f"{function.struct}s" if function.struct else ""
    return f"={function.numbers}d" if function.per == "list" else f"=q{addresses}Q{bytes_of}{function.numbers}d"


def _text(function, checks) -> str:
    """Return the source of `launch(*arrays, *numbers, blocks)`, which first looks at the arrays, or does not."""
    arrays = [f"a{n}" for n in range(function.arrays)]
    numbers = ["by_value"] * (function.struct > 0) + [f"n{n}" for n in range(function.numbers)]
    per = function.per
    of_rows = per in ("row", "rows")
    threads = f"{WARP} if size <= {SHORT} else {THREADS}" if of_rows else f"{function.threads}"
    lines = [
        f"dtype, device, whole = a{function.typed}.dtype, current(), a0.size",
        "size = a0.shape[-1] if a0.ndim else 1" if of_rows else "size = whole",
        f"threads = {threads}",
        *["wide = FLOAT32 if dtype.itemsize == 2 else dtype"] * bool(function.wide and checks),
        "kernel = ready[threads, device][dtype]",
    ]
    if checks:
        wanted = ["whole", "a0.data.device_id == device"]
        if function.struct:
            wanted.append(f"by_value.__class__ is bytes and len(by_value) == {function.struct}")
        for n, name in enumerate(arrays):
            dtype = "INT64" if n in function.indices else "BOOL" if n in function.masks else "dtype"
            dtype = "wide" if n in function.wide else dtype
            wanted += [f"{name}._c_contiguous"] + [f"{name}.dtype is {dtype}"] * (n != function.typed)
            wanted += [f"{name}.size == size"] * (n > 0 and function.one_size)
        general = f"return general(({', '.join([*arrays, *numbers])},), blocks)"
        lines = [
            "try:", *[f"    {line}" for line in lines],
            f"    if not ({' and '.join(wanted)}):", f"        {general}",
            "except (AttributeError, KeyError):", f"    {general}",
        ]  # fmt: skip
    elements = f"{function.threads} * 16 // a0.itemsize" if per == "pack" else f"{function.threads}"
    grid = {
        "row": "(whole // size,)", "rows": "(count // together,)",
        "block": "blocks if blocks.__class__ is tuple else (blocks,)",
    }  # fmt: skip
    if per == "rows":
        short = f"threads == {WARP} and count >= {MANY} and not count % {TOGETHER}"
        lines += ["count = whole // size", f"together = {TOGETHER} if {short} else 1"]
    block = "(threads, together)" if per == "rows" else "(threads,)"
    addresses = [f"{name}.data.ptr" for name in arrays]
    if function.like is not None:
        lines.append(f"result = ndarray(a{function.like}.shape, a{function.like}.dtype)")
        addresses.append("result.data.ptr")
    lines += [
        "try:", "    memory, given = pool.pop()", "except IndexError:", "    memory, given = arguments()",
        f"pack(memory, 0, {', '.join(['size', *addresses, *numbers])})",
        f"kernel({grid.get(per, f'(-(-size // ({elements})),)')}, {block}, given)",
        "pool.append((memory, given))",
    ]  # fmt: skip
    lines += ["return result"] if function.like is not None else []
    return "\n    ".join([f"def launch({', '.join([*arrays, *numbers])}, blocks):", *lines]) + "\n"


def _launch_table(kernel, memory, given, table, count, before, blocks):
    """Launch a kernel for the arrays in a table, each in as many blocks as it has parts of EACH elements.

    Return how many blocks there were with those of tables before.
    """
    if blocks:
        memory[0], memory[1] = count, before
        memory[2 : 2 + len(table)] = array.array("q", table)
        kernel((blocks,), (THREADS,), given)
    return before + blocks


def _list_text(function) -> str:
    """Return the source of `launch(*lists, *numbers, blocks)`, which returns where in the lists what is not served is.

    All else is served in as many launches as tables are filled.
    """
    arrays = [f"a{n}" for n in range(function.arrays)]
    lists = "".join([f"l{n}, " for n in range(function.arrays)])
    numbers = "".join([f"n{n}, " for n in range(function.numbers)])
    wanted = ["a0.data.device_id == device"]
    for n, name in enumerate(arrays):
        dtype = "INT64" if n in function.indices else "dtype"
        wanted += [f"{name}.dtype is {dtype} and {name}._c_contiguous"]
        wanted += [f"{name}.size == size"] * (n > 0 and function.one_size)
    most = ROOM // (function.arrays + 2)
    return f"""
def launch({lists}{numbers}blocks):
    if l0.__class__ is not list:
        return general(({lists}{numbers}), blocks)
    try:
        dtype, device = l{function.typed}[0].dtype, current()
        kernel = ready[{function.threads}, device][dtype]
        memory, given = pool.pop()
    except KeyError:
        return general(({lists}{numbers}), blocks)
    except IndexError:
        memory, given = arguments()
    pack(memory, {8 * (ROOM + 2)}, {numbers})
    table, left, count, before, blocks = [], [], 0, 0, 0
    for place, ({", ".join(arrays)},) in enumerate(zip({lists})):
        size = a0.size
        if not ({" and ".join(wanted)}):
            left.append(place)
            continue
        table += {", ".join([f"{name}.data.ptr" for name in arrays])}, size, blocks
        blocks -= -size // {EACH}
        count += 1
        if count == {most}:
            before = launch_table(kernel, memory, given, table, count, before, blocks)
            table, count, blocks = [], 0, 0
    launch_table(kernel, memory, given, table, count, before, blocks)
    pool.append((memory, given))
    return left
"""
