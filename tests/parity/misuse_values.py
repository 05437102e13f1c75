"""Wrong arguments, as source: each expression makes the same thing with PyTorch and with plugrad as `T`."""

from __future__ import annotations

import decimal
import enum
import fractions

import numpy


class Odd:
    """Objects whose special methods lie, raise or return what they must not."""

    class Length:
        def __len__(self):
            return -1

        def __getitem__(self, place):
            raise IndexError(place)

    class Index:
        def __index__(self):
            return "1"

    class Raising:
        def __getattr__(self, name):
            raise RuntimeError(f"asked for {name}")

    class Array:
        def __array__(self, dtype=None, copy=None):
            return "no array"

    class Claims:
        dtype, shape, ndim, device, _type, _view, _edge = "float32", None, "2", 3, None, None, None

    class Truth:
        def __bool__(self):
            raise ValueError("neither true nor false")

    class Int(int):
        pass

    class RaisingIndex:
        def __index__(self):
            raise ValueError("no index")

    class RaisingFloat:
        def __float__(self):
            raise LookupError("no float")

    class Indexable:
        def __index__(self):
            return 1

    class Items:
        def __iter__(self):
            raise LookupError("no items")

    class Unhashable:
        __hash__ = None

    class Level(enum.IntEnum):
        LOW, HIGH = 1, 2

    @staticmethod
    def loop():
        items = [1.0]
        items.append(items)
        return items


def nested(depth):
    """A list in a list in a list..."""
    data = [1.0]
    for _ in range(depth):
        data = [data]
    return data


NAMES = {"Odd": Odd, "np": numpy, "Decimal": decimal.Decimal, "Fraction": fractions.Fraction, "nested": nested}

PLAIN = (
    """
None | 'a' | '' | 'mean' | b'a' | 1.5 | 1.0 | 0.0 | -0.5 | True | False | 0 | 1 | 2 | 3 | -1 | -5 | 7 | 1j | 10**30
-10**30 | 1<<62 | 1<<63 | 1<<64 | float('nan') | float('inf') | -float('inf')
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
SEQUENCES = (
    """
() | [] | [[]] | (None,) | ('a',) | (1.5,) | [1.0, 2] | (2, True) | (True,) | [True, 2] | (1, 'a') | (1, None)
(-1,) | (0, 0) | (1, 2, 3, 4, 5) | (1 << 62,) | (1, 1 << 64) | [0] | (0, 1) | [0, -1] | [[0], [1]] | range(2)
range(3) | {} | {'a': 1} | {1, 2} | slice(None) | (1, (2,)) | nested(3) | nested(100) | nested(5000)
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
OBJECTS = (
    """
object() | int | Exception | T | len | Odd.Length() | Odd.Index() | Odd.Raising() | Odd.Array() | Odd.Claims()
Odd.Truth() | Odd.Int(1) | Decimal('1.5') | Fraction(1, 2) | np.int64(1) | np.float32(0.5) | np.float64(1.0)
np.bool_(True) | np.array(1) | np.array([0, 1]) | np.ones((2, 3), 'float32') | np.array(['a']) | np.array([None])
Ellipsis | NotImplemented
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
CONSTANTS = (
    """
T.float32 | T.int64 | T.bool | T.device('cpu') | T.device('meta') | T.strided | T.contiguous_format
T.channels_last | T.Generator() | T.Size([2])
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
TENSORS = (
    """
T.tensor(1) | T.tensor(1.5) | T.tensor(True) | T.tensor(1j) | T.ones(2) | T.ones(2, 3) | T.ones(0) | T.ones(2, 3, 4)
T.arange(3) | T.tensor([0, 1]) | T.tensor([True, False]) | T.ones(2, device='meta')
T.ones(2, 3, requires_grad=True) | T.tensor(1.0, requires_grad=True) | [T.ones(2)] | (T.ones(2), 3)
[T.ones(2), None] | T.tensor(float('nan')) | T.ones(3).half() | T.ones(2, dtype=T.complex64)
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
RARER = (
    """
np.int8(1) | np.uint64(1 << 63) | np.float16(0.5) | np.float64('nan') | np.complex64(1) | np.str_('a')
np.timedelta64(1) | np.datetime64('2020') | np.array(['1']) | np.array([1, None], object) | np.array([1], '>i4')
Fraction(3, 1) | Decimal('NaN') | Decimal('1e400') | '1' | '-1' | '1.5' | b'1' | bytearray(b'1') | memoryview(b'12')
(1 << 31) | -(1 << 63) | 10**400 | 5e-324 | -0.0 | complex('nan') | [[1.0, 2.0], [3.0]] | [1, [2, 3]] | [[None]]
[None] | Odd.loop() | [T.ones(2), T.ones(3)] | [T.ones(2), 1.0] | (i for i in (1, 2)) | iter([1, 2]) | {0, 1}
frozenset([1]) | {0: 1} | {'dim': 0} | Odd.RaisingIndex() | Odd.RaisingFloat() | Odd.Indexable() | Odd.Items()
Odd.Unhashable() | Odd.Level.HIGH | T.ones(2, 3).to_sparse() | T.eye(3).to_sparse_csr() | T.empty(0, 3)
T.ones(2, 3, dtype=T.bfloat16) | T.ones(1).expand(3) | T.ones(2, 3).t() | T.nn.Linear(1, 1) | T.tensor(3, dtype=T.int8)
T.nn.Parameter(T.ones(2)) | T.int8 | T.device('cpu', 0) | T.sparse_coo | float | T.nn | T.finfo(T.float32) | 'cuda'
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
POOLS = [[text.strip() for text in pool] for pool in (PLAIN, SEQUENCES, OBJECTS, CONSTANTS, TENSORS, RARER)]

# What can become of a tensor `x` that a right call has.
CHANGES = (
    """
x.long() | x.int() | x.bool() | x.half() | x.bfloat16() | x.double() | x.float() | x.to(T.uint8) | x.to(T.complex64)
x.to('meta') | x.unsqueeze(0) | x.unsqueeze(-1) | x[:0] | x[..., :1] | x[..., None, :] | x.reshape(-1)
x.flatten()[:1] | x.sum() | x.detach() | x * float('nan') | x.detach().numpy() | x.tolist() | [x] | (x, x) | x.T
x.expand(2, *x.shape) | -x | x * 0
""".replace("\n", "|")
    .strip("| ")
    .split("|")
)
CHANGES = [text.strip() for text in CHANGES]
# What a method may be called on: always a tensor.
SELVES = [text for text in CHANGES if text.startswith(("x", "-x")) and ".numpy" not in text and ".tolist" not in text]
