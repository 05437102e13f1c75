"""Random arrays, made on the CPU as PyTorch makes them there, so that one seed gives the same numbers.

What counts is the order: how many words of the stream one number takes, which of their bits, and where the second
normal number of a pair goes. On other devices the array library draws, and the numbers are its own.
"""

from __future__ import annotations

import math
import warnings
from functools import cache, partial

import numpy

from plugrad.extend import is_integral, is_single_or_double, native_function, rng

from ._checks import dtype_word

DIGITS = {"float16": 11, "bfloat16": 8}  # significant bits; wider floats are drawn directly
# NumPy computes faster with 0-d arrays than with numbers.
_BITS_24, _BITS_53 = numpy.array(2**24 - 1, "uint64"), numpy.array(2**53 - 1, "uint64")
_SINGLE, _DOUBLE = numpy.dtype("float32"), numpy.dtype("float64")
_STEP_24, _STEP_53 = numpy.array(2.0**-24, _SINGLE), numpy.array(2.0**-53)
_ONE, _MINUS_TWO, _CIRCLE = (
    {dtype: numpy.array(value, dtype) for dtype in (_SINGLE, _DOUBLE)} for value in (1, -2, 2 * math.pi)
)
# Infinities are results. A warning that the program turned into an error would have the kernel draw once more.
QUIET = partial(numpy.errstate, all="ignore")
BLOCK = 8192
MANY = 1000  # NumPy computes more logarithms faster than the C library
CALL = 256  # words: fewer are drawn by NumPy at less cost than by a function in C
LOOP = 300  # permutations of fewer are made by a loop
FEW = 16  # from so many numbers on, normal ones are made in blocks, each half of one with the other


def refuse_integers(name, dtype):
    """Raise what PyTorch raises for a kernel that there is for floating point numbers only."""
    if is_integral(dtype):
        raise NotImplementedError(f"\"{name}\" not implemented for '{dtype_word(dtype)}'; give a floating point dtype")


def _nothing(*_):
    """Stand for a function in C that is not there, or serves something else: nothing is drawn."""
    return NotImplemented


_fill_with_words, _distributed = native_function("twister_words", _nothing), native_function("distributed", _nothing)


def _memory(bits):
    """Return the state of a bit generator as functions in C take it, or None."""
    return None if _fill_with_words is _nothing else getattr(bits, "memory", None)


def words(source, size):
    """Words of 32 bits, in a uint64 array."""
    bits = source.bit_generator
    if size.__class__ is int and size < CALL or (memory := _memory(bits)) is None:
        return bits.random_raw(size)
    drawn = numpy.empty(size)  # a float's memory holds a word of 64 bits: functions in C are chosen by floating dtypes
    with bits.lock:
        _fill_with_words(drawn, memory)
    return drawn.view("uint64")


UNIFORM, NORMAL, COIN, EXPONENTIAL, GEOMETRIC, CAUCHY, INTEGER = range(7)  # as the function in C numbers them


def is_plain(xp, out):
    """Whether numbers can be written to an array on the CPU one by one as they are drawn."""
    return xp is numpy and is_single_or_double(out.dtype) and out.flags.c_contiguous and out.flags.writeable


def drawn_by_c(xp, out, generator, kind, a, b=0.0):
    """Whether a function in C has written numbers of a distribution to an array. Where it did not, none was drawn."""
    if not is_plain(xp, out):
        return False
    if kind not in (UNIFORM, COIN) and out.size > MANY:
        return False
    return _written(rng(xp, generator), out, kind, a, b)


def _written(source, out, kind, a, b):
    bits = source.bit_generator
    memory = _memory(bits)
    if memory is None:
        return False
    with bits.lock:
        return _distributed(out, memory, kind, a, b) is None


def long_words(source, size):
    """Words of 64 bits, as uint64: two of 32 bits, the higher one first."""
    pairs = words(source, (size, 2) if isinstance(size, int) else (*size, 2))
    return pairs[..., 0] << 32 | pairs[..., 1]


def doubles(xp, source, size):
    """Uniform float64 of [0, 1), of 53 bits each."""
    if xp is not numpy:
        return source.random(size)
    out = numpy.empty(size)
    if _written(source, out, UNIFORM, 0.0, 1.0):
        return out
    return (long_words(source, size) & _BITS_53) * _STEP_53


def singles(xp, source, size):
    """Uniform float32 of [0, 1), of 24 bits each."""
    if xp is not numpy:
        return source.random(size, dtype="float32")
    out = numpy.empty(size, _SINGLE)
    if _written(source, out, UNIFORM, 0.0, 1.0):
        return out
    drawn = (words(source, size) & _BITS_24).astype(_SINGLE)
    drawn *= _STEP_24
    return drawn


def rounded(xp, drawn, dtype):
    """Float64 numbers in another dtype; to half precision by way of float32, as PyTorch converts them."""
    if numpy.dtype(dtype).itemsize == 2 and xp is numpy:
        drawn = numpy.asarray(drawn).astype(_SINGLE)
    return xp.asarray(drawn).astype(dtype, copy=False)


def in_memory_order(array, draw):
    """Return `draw(shape)` in the shape of an array, with the numbers in the order of its memory."""
    if array.flags.c_contiguous:
        return draw(array.shape)
    order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
    drawn = draw(tuple([array.shape[axis] for axis in order]))
    return drawn.transpose([order.index(axis) for axis in range(array.ndim)])


def _between(source, size, dtype, low, high):
    """Uniform float32 or float64 of [low, high); product and sum are rounded once, as by a fused instruction."""
    out = numpy.empty(size, dtype)
    if not _written(source, out, UNIFORM, low, high):
        _fill_in_numpy(out, words(source, size) if dtype is _SINGLE else words(source, (*size, 2)), low, high)
    return out


def _fill_in_numpy(out, drawn, low, high):
    """Write uniform numbers of [low, high) to `out`, from words that were drawn."""
    low, high = float(out.dtype.type(low)), float(out.dtype.type(high))
    span = float(out.dtype.type(high - low))
    out = out.reshape(-1)
    drawn = drawn.reshape(-1) if out.dtype is _SINGLE else drawn.reshape(-1, 2)
    if out.dtype is _SINGLE:
        product = (drawn & _BITS_24) * numpy.array(span * 2.0**-24)  # exact
        out[...] = _odd_sum(product, low)
        return
    numpy.multiply((drawn[:, 0] << 32 | drawn[:, 1]) & _BITS_53, _STEP_53, out)
    if low == 0:
        out *= span
    else:
        _scale_in_blocks(out, low, span)


def _odd_sum(product, low):
    """Sums in float64 that are right when they are rounded again: what is not exact ends in an odd digit."""
    total = product + low
    part = total - product
    lost = (product - (total - part)) + (low - part)
    bits = total.view("int64")
    bits += ((lost != 0) & (bits & 1 == 0)) * numpy.where((lost > 0) == (total > 0), 1, -1)
    return total


def _scale_in_blocks(flat, low, span):
    """Write flat * span + low to `flat`, rounded once.

    What product and sum round off is had exactly, by T. J. Dekker (Numerische Mathematik 18, 1971) and D. Knuth.
    """
    digits, exponent = math.frexp(span)
    coarse = math.ldexp(min(float(_SINGLE.type(digits)), 1 - 2.0**-24), exponent)  # of 24 bits; the rest has 29
    fine = span - coarse
    for start in range(0, flat.size, BLOCK):  # which stays in the cache
        x = flat[start : start + BLOCK]
        head = x.astype(_SINGLE).astype(_DOUBLE)
        tail = x - head
        product = x * span
        lost = (head * coarse - product) + tail * coarse + head * fine + tail * fine
        total = product + low
        part = total - product
        lost += (product - (total - part)) + (low - part)
        numpy.add(total, lost, out=x)


def uniform_array(xp, size, dtype, generator, low=0.0, high=1.0):
    """Samples of [low, high); half precision is rounded from float32, and what is rounded to `high` counts as `low`."""
    dtype, source = xp.dtype(dtype), rng(xp, generator)
    if dtype is _SINGLE and xp is numpy and low == 0.0 and high == 1.0:
        return singles(xp, source, size)
    refuse_integers("check_uniform_bounds", dtype)
    if dtype.kind == "c":
        parts = uniform_array(xp, (*size, 2), "float32" if dtype.itemsize == 8 else "float64", generator, low, high)
        return xp.ascontiguousarray(parts).view(dtype)[..., 0]
    if xp is numpy and (low != 0.0 or high != 1.0):
        drawn = _between(source, size, _DOUBLE if dtype.itemsize == 8 else _SINGLE, low, high)
    else:
        drawn = doubles(xp, source, size) if dtype.itemsize == 8 else singles(xp, source, size)
        if low != 0.0 or high != 1.0:
            drawn = drawn * drawn.dtype.type(high - low) + drawn.dtype.type(low)
    if is_single_or_double(dtype):
        return xp.asarray(drawn)
    drawn = xp.asarray(drawn).astype(dtype)
    return xp.where(drawn == dtype.type(high), dtype.type(low), drawn)


def _polar(u1, u2):
    """Polar coordinates of pairs of normal numbers (G. Box, M. Muller, 1958): of u1 in (0, 1] comes the radius."""
    dtype = u1.dtype
    radius = numpy.log(u1)
    radius *= _MINUS_TWO[dtype]
    return numpy.sqrt(radius, radius), u2 * _CIRCLE[dtype]


def _blocks(u):
    """Put normal numbers in the place of uniform ones, whose number is a multiple of 16; return them."""
    _make_normal(u)
    return u


def _make_normal_in_numpy(u):
    u = u.reshape(-1, 2, FEW // 2)
    radius, angle = _polar(_ONE[u.dtype] - u[:, 0], u[:, 1])
    numpy.multiply(radius, numpy.cos(angle), u[:, 0])
    numpy.multiply(radius, numpy.sin(angle), u[:, 1])


_make_normal = native_function("normal_blocks", _make_normal_in_numpy)


def _many_normals(source, n, wide):
    """`n` >= 16 standard normal numbers. The last 16 are drawn anew where blocks of 16 don't come out even."""
    uniform = doubles if wide else singles
    rest = n % FEW
    if not rest:
        return _blocks(uniform(numpy, source, n))
    u = uniform(numpy, source, n + FEW)
    u[n - rest : n - rest + FEW] = u[n:]  # NumPy minds that they overlap
    blocks = _blocks(u[: n - rest + FEW])
    blocks[n - FEW : n] = blocks[-FEW:]
    return blocks[:n].copy()


def _many_half_normals(source, n):
    """`n` >= 16 normal numbers for half precision: the last 16 follow what was drawn for whole blocks."""
    out, whole = numpy.empty(n, "float32"), n - n % FEW
    out[:whole] = _blocks(singles(numpy, source, whole))
    if whole < n:
        out[n - FEW :] = _blocks(singles(numpy, source, FEW))
    return out


def _fill_pairs_in_numpy(out, drawn):
    """Write pairs of standard normal float64 to `out`, from four words each: of the angle, and of the radius."""
    u = ((drawn[::2] << 32 | drawn[1::2]) & _BITS_53) * _STEP_53
    if out.size < LOOP // 10:  # Python's own numbers take less than calls for arrays
        numbers = u.tolist()
        for i, (second, first) in enumerate(zip(numbers[::2], numbers[1::2])):
            radius, angle = math.sqrt(-2 * math.log1p(-first)), 2 * math.pi * second
            out[2 * i], out[2 * i + 1] = radius * math.cos(angle), radius * math.sin(angle)
        return
    radius, angle = numpy.sqrt(-2 * numpy.log1p(-u[1::2])), 2 * math.pi * u[::2]
    numpy.multiply(radius, numpy.cos(angle), out[::2])
    numpy.multiply(radius, numpy.sin(angle), out[1::2])


_fill_pairs = native_function("normal_pairs", _fill_pairs_in_numpy)


def normals_one_by_one(source, n):
    """`n` standard normal float64 of pairs; the second of a pair that is not used waits in the source."""
    bits = source.bit_generator
    spare = getattr(bits, "spare", None)
    if n == 0:
        return numpy.empty(0)
    taken = int(spare is not None)
    drawn = numpy.empty(taken + (n - taken + 1) // 2 * 2)
    if taken:
        drawn[0] = spare
    _fill_pairs(drawn[taken:], words(source, 2 * (drawn.size - taken)))
    if hasattr(bits, "spare"):
        bits.spare = float(drawn[n]) if drawn.size > n else None
    return drawn if drawn.size == n else drawn[:n].copy()


def normal_array(xp, size, dtype, generator, mean=0.0, std=1.0, dense=True):
    """Normal samples; complex ones have the variance in total. `dense`: whether they go where memory has no gaps."""
    dtype, source = xp.dtype(dtype), rng(xp, generator)
    if dtype is not _SINGLE:
        refuse_integers("normal_kernel", dtype)
    if dtype.kind == "c":
        real = "float32" if dtype.itemsize == 8 else "float64"
        parts = normal_array(xp, (*size, 2), real, generator, mean, std / 2**0.5, dense)
        return xp.ascontiguousarray(parts).view(dtype)[..., 0]
    n, wide = math.prod(size), dtype.itemsize == 8
    if dense and FEW <= n <= MANY and xp is numpy and is_single_or_double(dtype):
        out = numpy.empty(size, dtype)
        if _written(source, out, NORMAL, mean, std):
            return out
    if xp is not numpy:
        drawn = xp.asarray(source.standard_normal(size, dtype="float64" if wide else "float32"))
    elif n < FEW or not dense:
        drawn = normals_one_by_one(source, n)
    else:
        half = not is_single_or_double(dtype)
        drawn = _many_half_normals(source, n) if half else _many_normals(source, n, wide)
    if std != 1.0 or mean != 0.0:
        (_multiply_add if xp is numpy else _multiply_add_anywhere)(drawn, std, mean)
    if abs(std) > 1000 or abs(mean) > 1000:
        with QUIET():
            return rounded(xp, drawn.reshape(size), dtype)
    return rounded(xp, drawn.reshape(size), dtype)


def _multiply_add_anywhere(drawn, std, mean):
    with QUIET():
        drawn *= drawn.dtype.type(std)
        drawn += drawn.dtype.type(mean)


_multiply_add = native_function("multiply_add", _multiply_add_anywhere)


@cache
def _largest(name) -> float:
    """The largest number of a floating point dtype."""
    return _LARGEST.get(name) or float(numpy.finfo(name).max)


@cache
def highest(dtype) -> int:
    """The end of a dtype's range of integers; for floats where neighbouring ones can no longer be told apart."""
    if dtype.kind == "b":
        return 1
    return 2 ** _digits(dtype) if dtype.kind not in "iu" else int(numpy.iinfo(dtype).max)


@cache
def _lowest(dtype) -> int:
    return int(numpy.iinfo(dtype).min) if dtype.kind != "b" else 0


def _digits(dtype) -> int:
    return DIGITS.get(dtype.name) or numpy.finfo(dtype).nmant + 1


_C_NAMES = {
    "bool": "bool", "uint8": "unsigned char", "int8": "signed char", "int16": "short int", "int32": "int",
    "int64": "long int", "float16": "c10::Half", "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
}  # fmt: skip
_MODEST = 32752  # twice as much is the largest float16
_LARGEST = {"float16": 65504.0, "bfloat16": 3.3895313892515355e38}


def check_bounds(dtype, low, high) -> None:
    """Raise RuntimeError for bounds of uniform numbers that a dtype has not, or whose distance it has not."""
    if dtype.kind == "f" and -_MODEST <= low <= high <= _MODEST:
        return  # all floats have these; to ask for names and limits takes longer than to draw a few
    refuse_integers("check_uniform_bounds", dtype)
    name, part = dtype.name, {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    most = _largest(part)
    for side, bound in (("from", low), ("to", high)):
        if not -most <= bound <= most:
            raise RuntimeError(f"{side} is out of bounds for {_C_NAMES.get(part, part)}")
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    if high - low > most:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{dtype_word(name)}>::max(), but found to={high} and "
            f"from={low} which result in to-from to exceed the limit"
        )


def check_count(dtype, n) -> None:
    """Raise RuntimeError for more numbers of a permutation than a dtype can tell apart."""
    most = highest(dtype)
    if is_integral(dtype):
        if n > most + 1:
            raise RuntimeError(f"value cannot be converted to type {dtype.name}_t without overflow")
    elif n > most + 1:
        raise RuntimeError(f"n cannot be greater than {most + 1} for {dtype_word(dtype)} type.")


def check_range(dtype, low, high) -> None:
    """Raise RuntimeError for a range of integers that a dtype has not."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype.kind in "biu":
        least, most = _lowest(dtype), highest(dtype)
    else:
        most = _largest(dtype.name)
        least = -most
    for name, value in (("from", low), ("to - 1", high - 1)):
        if not least <= value <= most:
            raise RuntimeError(f"{name} is out of bounds for {_C_NAMES.get(dtype.name, dtype.name)}")
        if dtype.kind not in "biu" and abs(value) > 2 ** _digits(dtype):
            digits, shown = _digits(dtype), _C_NAMES.get(dtype.name, dtype.name)
            warnings.warn(
                f"{name} is out of bounds [-(2^{digits}), 2^{digits}]. Due to precision limitations {shown} can "
                "support discrete uniform distribution only within this range.",
                stacklevel=4,
            )


def integer_array(xp, low, high, size, dtype, generator):
    """Integers of [low, high): remainders, of words of 64 bits where the range is so wide that it would show."""
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    source, span = rng(xp, generator), high - low
    if xp is not numpy:
        wide = "uint64" if high > 2**63 else "int64"
        return xp.asarray(source.integers(low, high, size, dtype=wide)).astype(dtype)
    if span < 2**28:
        out = numpy.empty(size)
        if abs(low) < 2**53 and _written(source, out, INTEGER, low, span):
            drawn = out.view("int64")
        else:
            drawn = (words(source, size) % numpy.array(span, "uint64")).view("int64") + low
        return drawn.astype(dtype, copy=False)
    drawn = long_words(source, size)
    if span < 2**64:
        drawn = drawn % numpy.uint64(span) + numpy.uint64(low % 2**64)
    return drawn.astype("uint64" if high > 2**63 else "int64").astype(dtype)


def any_integer_array(xp, size, dtype, generator, limit):
    """Integers of [0, limit), the range of a dtype."""
    if xp is not numpy:
        return integer_array(xp, 0, limit, size, dtype, generator)
    source, wide = rng(xp, generator), numpy.dtype(dtype).itemsize == 8 and numpy.dtype(dtype).kind != "c"
    drawn = (long_words if wide else words)(source, size)
    return (drawn % drawn.dtype.type(limit) if limit < 2**64 else drawn).astype(dtype)


def permutation(source, n):
    """0 ... n - 1 in random order, as int64, by R. Durstenfeld's algorithm (CACM 7, 1964)."""
    if n < 2:
        return numpy.arange(n)
    out = numpy.empty(n)  # a float's memory holds an integer of 64 bits: functions in C are chosen by floating dtypes
    _permute(out, (words if n < (2**32 - 1) // 20 else long_words)(source, n - 1))
    return out.view("int64")


def _permute_in_numpy(out, drawn):
    """Write a permutation, as int64, to the memory of `out`, from words that were drawn."""
    steps = (drawn % numpy.arange(out.size, 1, -1, dtype=drawn.dtype)).view("int64")
    out.view("int64")[...] = _swapped(steps) if out.size < LOOP else _swapped_at_once(steps)


_permute = native_function("permute", _permute_in_numpy)


def _swapped(steps):
    """0 ... n - 1 after swaps of each place but the last, in turn, with the one so many steps after it."""
    order = list(range(len(steps) + 1))
    for here, step in enumerate(steps.tolist()):
        there = here + step
        order[here], order[there] = order[there], order[here]
    return numpy.array(order)


def _swapped_at_once(steps):
    """What `_swapped` returns, without a loop over the places.

    A swap leaves at `there` what was `here`, which no later swap but one with the same `there` takes. So what a place
    gets is what an earlier place held when its turn came, and so on: chains, which are followed all at once. They
    double with each pass and are of logarithmic length.
    """
    turns = numpy.arange(len(steps) + 1)
    there = turns.copy()
    there[:-1] += steps
    held = turns.copy()
    held[there] = turns  # of several turns the last counts
    while not numpy.array_equal(earlier := held[held], held):
        held = earlier
    turn = _order(there)
    places = there[turn]
    again = numpy.flatnonzero(places[1:] == places[:-1])
    there[turn[again + 1]] = held[turn[again]]
    return there


def _order(places):
    """The stable order of 0 <= places < their number; NumPy sorts numbers of 16 bits in linear time."""
    order = numpy.argsort(places.astype("uint16"), kind="stable")
    for shift in range(16, (len(places) - 1).bit_length(), 16):
        digits = (places >> shift).astype("uint16")
        order = order[numpy.argsort(digits[order], kind="stable")]
    return order


def exponential_array(xp, size, dtype, generator, rate=1.0):
    """Exponential samples: 1 - u lies in (0, 1], so that the logarithm is finite."""
    drawn = xp.log1p(-doubles(xp, rng(xp, generator), size)) * (-1.0 / rate)
    if rate > 0.001:
        return rounded(xp, drawn, dtype)
    with QUIET():
        return rounded(xp, drawn, dtype)


def coin_draws(xp, shape, generator, dtype):
    """Uniform numbers of [0, 1) to compare with probabilities of a dtype."""
    return (doubles if dtype == "float64" else singles)(xp, rng(xp, generator), shape)


def coin_flips(xp, shape, p, generator):
    """True with probability `p`, a number or an array of them."""
    if hasattr(p, "dtype"):
        return coin_draws(xp, shape, generator, p.dtype) < p
    source = rng(xp, generator)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p}")
    if xp is not numpy:
        return source.random(shape) < p
    return (long_words(source, shape) & _BITS_53) < numpy.array(_coin_end(p), "uint64")


def _coin_end(p) -> int:
    """The end of those numbers of 53 bits that stand for heads, which come with probability `p`."""
    return math.ceil(p * 2**53)


def tosses(xp, shape, p, generator, dtype, head=1.0):
    """`head` with probability `p`, a number or an array of them, else 0."""
    if xp is numpy and not hasattr(p, "dtype") and 0 <= p <= 1:
        out = numpy.empty(shape, dtype)
        if drawn_by_c(xp, out, generator, COIN, _coin_end(p), head):
            return out
    drawn = xp.asarray(coin_flips(xp, shape, p, generator), dtype)  # which is no scalar, whose type would grow
    if head != 1:
        drawn *= head
    return drawn
