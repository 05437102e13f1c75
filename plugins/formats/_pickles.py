"""Pickles without the pickle machine: an interpreter of their opcodes that calls and imports nothing by itself.

A name in a pickle is an inert `Name`. What is called, built or referred to is decided by the `world` that the
interpreter is given, and it is asked only with plain values: it has `name(dotted)`, `call(function, arguments)`,
`new(cls, arguments)`, `build(instance, state)`, `persistent(identity)`, and `strange`, whether what it made may be used
as a container.
"""

from __future__ import annotations

import struct

from plugrad.formats import CheckpointError, damaged

_KEY_PARTS = 10_000  # a key of nested tuples that share parts could take for ever to hash


class UndecodedText(CheckpointError, UnicodeDecodeError):
    """A string of Python 2's is not in the encoding that it was read with; a UnicodeDecodeError, as PyTorch's is."""

    def __str__(self):
        return f"{UnicodeDecodeError.__str__(self)}: a string of Python 2's; load with encoding='latin1' or 'bytes'"


class Name:
    """What a pickle calls by a name, such as "torch.nn.modules.linear.Linear"."""

    __slots__ = ("dotted",)

    def __init__(self, dotted):
        self.dotted = dotted


def _integer(code, size):
    unpack = struct.Struct(f"<{code}").unpack
    return lambda run: unpack(run.take(size))[0]


def _text(length, encoding, errors="strict"):
    def read(run):
        return str(run.take(length(run)), encoding, errors)

    return read


def _long(run, length):
    return int.from_bytes(run.take(length), "little", signed=True)


_byte, _short, _int, _uint, _ulong = (_integer(*form) for form in (("B", 1), ("H", 2), ("i", 4), ("I", 4), ("Q", 8)))
_FLAGS = {"00": False, "01": True}
PUSHED = {  # opcodes that push what follows them in the pickle
    b"N": lambda run: None, b"\x88": lambda run: True, b"\x89": lambda run: False,
    b")": lambda run: (), b"]": lambda run: [], b"}": lambda run: {}, b"\x8f": lambda run: set(),
    b"K": _byte, b"M": _short, b"J": _int,
    b"\x8a": lambda run: _long(run, _byte(run)), b"\x8b": lambda run: _long(run, _uint(run)),
    b"I": lambda run: _FLAGS[text] if (text := run.line()) in _FLAGS else int(text),
    b"L": lambda run: int(run.line().removesuffix("L")), b"F": lambda run: float(run.line()),
    b"G": lambda run: struct.unpack(">d", run.take(8))[0],
    b"V": lambda run: run.raw_line().decode("raw_unicode_escape"),
    b"X": _text(_uint, "utf-8", "surrogatepass"), b"\x8c": _text(_byte, "utf-8", "surrogatepass"),
    b"\x8d": _text(_ulong, "utf-8", "surrogatepass"),
    b"U": lambda run: run.old_text(_byte(run)), b"T": lambda run: run.old_text(_uint(run)),
    b"C": lambda run: run.take(_byte(run)), b"B": lambda run: run.take(_uint(run)),
    b"\x8e": lambda run: run.take(_ulong(run)), b"\x96": lambda run: bytearray(run.take(_ulong(run))),
    b"c": lambda run: run.world.name(f"{run.line()}.{run.line()}"),
    b"h": lambda run: run.memo[_byte(run)], b"j": lambda run: run.memo[_uint(run)],
    b"g": lambda run: run.memo[int(run.line())],
}  # fmt: skip


def quickly_hashed(value):
    """Return a key of a dict or set; ValueError for one that would take too long to hash."""
    if type(value) not in (tuple, frozenset):
        return value
    pending, count = [value], 0
    while pending:
        parts = pending.pop()
        count += len(parts)
        if count > _KEY_PARTS:
            raise ValueError("a key is larger than any that a program saves")
        pending += [part for part in parts if type(part) in (tuple, frozenset)]
    return value


class Interpreter:
    """Runs one pickle in `data`, from `position` on; afterwards `position` is behind it.

    Strings of Python 2 are decoded by `encoding`; "bytes" leaves them as they are.
    """

    def __init__(self, data: bytes, world, where: str, position=0, encoding="latin1"):
        self.data, self.world, self.where, self.position = data, world, where, position
        self.encoding = encoding
        self.stack: list = []
        self.marks: list = []
        self.memo: dict = {}

    def wrong(self, why) -> Exception:
        """Return the error that says what is wrong at this place."""
        return damaged(self.where, f"byte {self.position} of its pickle: {why}")

    def run(self):
        """Return the object of the pickle."""
        while True:
            code = self.take(1)
            if code == b".":
                return self.pop()
            try:
                if code in PUSHED:
                    self.stack.append(PUSHED[code](self))
                else:
                    step = STEPS.get(code)
                    if step is None:
                        raise self.wrong(f"the opcode {code!r} is not understood")
                    step(self)
            except UndecodedText:
                raise
            except (KeyError, IndexError, UnicodeError, OverflowError, TypeError, ValueError) as error:
                raise self.wrong(f"opcode {code!r}: {error!r}"[:200]) from None

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if count > len(self.data) - self.position:
            raise self.wrong("it is cut off")
        self.position += count
        return self.data[self.position - count : self.position]

    def old_text(self, count: int):
        """Return the next bytes as the string that they were in Python 2."""
        try:
            return self.take(count) if self.encoding == "bytes" else str(self.take(count), self.encoding)
        except UnicodeDecodeError as error:
            raise UndecodedText(*error.args) from None

    def raw_line(self) -> bytes:
        """Return the bytes up to the next end of a line."""
        end = self.data.find(b"\n", self.position, self.position + 10_000)
        if end < 0:
            raise self.wrong("it is cut off")
        return self.take(end + 1 - self.position)[:-1]

    def line(self) -> str:
        """Return the text up to the next end of a line."""
        return self.raw_line().decode("utf-8")

    def pop(self):
        """Take the value on top of the stack."""
        if len(self.stack) <= (self.marks[-1] if self.marks else 0):
            raise self.wrong("a value is taken that is not there")
        return self.stack.pop()

    def top(self):
        """Return the value on top of the stack."""
        if not self.stack:
            raise self.wrong("a value is used that is not there")
        return self.stack[-1]

    def popped(self) -> list:
        """Take what stands above the last mark."""
        start = self.marks.pop()
        values = self.stack[start:]
        del self.stack[start:]
        return values

    def remember(self, number) -> None:
        """Keep the value on top under a number."""
        self.memo[number] = self.top()

    def push_tuple(self, count) -> None:
        """Replace the topmost values by a tuple of them."""
        values = [self.pop() for _ in range(count)]
        self.stack.append(tuple(values[::-1]))

    def container(self, kind):
        """Return the container on top of the stack, None for a strange object of the world's."""
        value = self.top()
        if isinstance(value, kind):
            return value
        if self.world.strange(value):
            return None
        raise self.wrong(f"a {type(value).__name__} is filled as a {kind.__name__}")

    def extend(self, values) -> None:
        """Append values to the list on top."""
        target = self.container(list)
        if target is not None:
            list.extend(target, values)

    def update(self, values, target=None) -> None:
        """Set alternating keys and values in the dict on top."""
        target = self.container(dict) if target is None else target
        if len(values) % 2:
            raise self.wrong("a dict has a key without a value")
        for key, value in zip(values[::2], values[1::2]):
            if target is not None:
                target[quickly_hashed(key)] = value

    def add(self, values) -> None:
        """Add values to the set on top."""
        target = self.container(set)
        if target is not None:
            target.update(map(quickly_hashed, values))

    def call(self, make) -> None:
        """Call what stands below the arguments on top."""
        arguments, function = self.pop(), self.pop()
        if type(arguments) is not tuple:
            raise self.wrong("something is called with what is not a tuple of arguments")
        self.stack.append(make(function, arguments))

    def new_with_names(self) -> None:
        """Make an object with arguments by name, which nothing that is data needs."""
        named = self.pop()
        if named != {}:
            raise self.wrong("an object is made with arguments by name")
        self.call(self.world.new)

    def build(self) -> None:
        """Give the object below a state its state."""
        state = self.pop()
        self.stack[-1] = self.world.build(self.top(), state)

    def stack_global(self) -> None:
        """Push the name whose two parts are on top."""
        name, module = self.pop(), self.pop()
        if type(name) is not str or type(module) is not str:
            raise self.wrong("a name that is not text")
        self.stack.append(self.world.name(f"{module}.{name}"))

    def make_dict(self) -> None:
        """Push a dict of what stands above the mark."""
        values, made_of = self.popped(), {}
        self.stack.append(made_of)
        self.update(values, made_of)

    def pop_one(self) -> None:
        """Drop the value on top, or a mark."""
        if self.marks and self.marks[-1] == len(self.stack):
            self.marks.pop()
        else:
            self.pop()

    def protocol(self) -> None:
        """Read the protocol's number."""
        if self.take(1)[0] > 5:
            raise self.wrong("it is of a protocol that is not known")


STEPS = {
    b"\x80": Interpreter.protocol,
    b"\x95": lambda run: run.take(8),  # a frame: its length is not needed
    b"(": lambda run: run.marks.append(len(run.stack)),
    b"q": lambda run: run.remember(_byte(run)), b"r": lambda run: run.remember(_uint(run)),
    b"p": lambda run: run.remember(int(run.line())), b"\x94": lambda run: run.remember(len(run.memo)),
    b"t": lambda run: run.stack.append(tuple(run.popped())),
    b"\x85": lambda run: run.push_tuple(1), b"\x86": lambda run: run.push_tuple(2),
    b"\x87": lambda run: run.push_tuple(3),
    b"l": lambda run: run.stack.append(run.popped()), b"d": Interpreter.make_dict,
    b"a": lambda run: run.extend([run.pop()]), b"e": lambda run: run.extend(run.popped()),
    b"s": lambda run: run.update([run.pop(), run.pop()][::-1]), b"u": lambda run: run.update(run.popped()),
    b"\x90": lambda run: run.add(run.popped()),
    b"\x91": lambda run: run.stack.append(frozenset(map(quickly_hashed, run.popped()))),
    b"0": Interpreter.pop_one, b"1": lambda run: run.popped(), b"2": lambda run: run.stack.append(run.top()),
    b"Q": lambda run: run.stack.append(run.world.persistent(run.pop())),
    b"R": lambda run: run.call(run.world.call), b"\x81": lambda run: run.call(run.world.new),
    b"\x92": Interpreter.new_with_names, b"b": Interpreter.build, b"\x93": Interpreter.stack_global,
}  # fmt: skip
