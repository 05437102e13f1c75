"""Sums of products by labelled dimensions: `einsum`, `tensordot`, and chains of matrix products."""

from __future__ import annotations

import math

import plugrad
from plugrad.extend import Op, axes, collect, composite, hookimpl, op, write_out

from .matmul import product

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_HIDDEN = "".join(map(chr, range(0x100, 0x160)))  # labels of the dimensions that an ellipsis stands for


# ---------------------------------------------------------------- two operands


_layouts: dict = {}


def _layout(labels):
    """How to bring two operands into the form of a matrix product, and the result into that of `labels`."""
    layout = _layouts.get(labels)
    if layout is None:
        left, right, result = labels
        batch = [c for c in left if c in right and c in result]
        rows = [c for c in left if c not in right]
        columns = [c for c in right if c not in left]
        summed = [c for c in left if c in right and c not in result]
        have = batch + rows + columns
        layout = _layouts[labels] = (
            tuple(left.index(c) for c in batch + rows + summed),
            tuple(right.index(c) for c in batch + summed + columns),
            tuple(have.index(c) for c in result),
            len(batch),
            len(summed),
        )
    return layout


def _autocast(input, other, labels):
    """Lower precision for products of matrices: where a sum has more than one term."""
    left, right, result = labels
    summed = any([c in right and c not in result and n != 1 for c, n in zip(left, input.shape)])
    return "lower" if summed else None


@op(at=(), node="BmmBackward0", autocast=_autocast, kinds={"input": "tensor", "other": "tensor"})
def contract(xp, input, other, labels):
    """Sum of products of two tensors, by three words of labels as in `einsum`.

    Dimensions that the third word does not name are summed over.

    `("bij", "bjk", "bik")`: in no word does a label repeat; one that is in only one operand is in the result.
    """
    order, other_order, out_order, batch, summed = _layout(labels)
    input, other = input.transpose(order), other.transpose(other_order)
    size, other_size, last = input.shape, other.shape, len(order) - summed
    b, n, k = math.prod(size[:batch]), math.prod(size[batch:last]), math.prod(size[last:])
    m = math.prod(other_size[batch + summed :])
    if batch:
        result = product(xp, input.reshape(b, n, k), other.reshape(b, k, m))
    else:
        result = product(xp, input.reshape(n, k), other.reshape(k, m))
    return result.reshape(size[:last] + other_size[batch + summed :]).transpose(out_order)


@contract.meta
def contract_meta(input, other, labels):
    size = dict(zip(labels[0] + labels[1], tuple(input.shape) + tuple(other.shape)))
    return tuple(size[c] for c in labels[2]), input.dtype


@contract.vjp("input")
def contract_vjp_input(F, g, other, labels):
    left, right, result = labels
    return F.contract(g, F.conjugated(other), (result, right, left))


@contract.vjp("other")
def contract_vjp_other(F, g, input, labels):
    left, right, result = labels
    return F.contract(F.conjugated(input), g, (left, result, right))


@contract.samples
def contract_samples(make):
    yield make.args(make(2, 3, 4), make(4, 2, 5), ("bij", "jbk", "kib"))
    yield make.args(make(3), make(2), ("i", "j", "ji"))


# ---------------------------------------------------------------- einsum


def _subscript(number):
    """The letter for a number of the sublist format."""
    if number is Ellipsis:
        return "..."
    if not 0 <= number < 52:
        raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
    return _LETTERS[number]


def _as_equation(arguments):
    """Turn `(x, [0, 1], y, [1, 2], [0, 2])` into an equation and operands."""
    if len(arguments) == 1:
        return "", ()
    operands, words = arguments[0::2], ["".join(map(_subscript, word)) for word in arguments[1::2]]
    if len(arguments) % 2:
        return f"{','.join(words)}->{''.join(map(_subscript, arguments[-1]))}", operands[:-1]
    return ",".join(words), operands


def _check_word(word, offset, what) -> None:
    """Raise RuntimeError for what is neither a letter, a space nor the one ellipsis, which has no spaces in it."""
    bare, dots, rest = word.partition("...")
    if "." in bare:
        raise RuntimeError(f"einsum(): found '.' for {what} that is not part of any ellipsis (...)")
    if "." in rest:
        raise RuntimeError(f"einsum(): found '.' for {what} for which an ellipsis was already found")
    for c in bare + rest:
        if c not in _LETTERS and c != " ":
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {offset + word.index(c)} in the equation "
                "string, subscripts must be in [a-zA-Z]"
            )


def _parse(equation, ndims):
    """Return one word of labels per operand, and that of the result, with ellipses spelled out."""
    inputs, arrow, output = equation.partition("->")
    words = inputs.split(",")
    if len(words) > len(ndims):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    if len(words) < len(ndims):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    spelled, widest, offset = [], 0, 0
    for i, (word, ndim) in enumerate(zip(words, ndims)):
        _check_word(word, offset, f"operand {i}")
        offset += len(word) + 1
        word = word.replace(" ", "")
        count, covered = len(word.replace("...", "")), "..." in word
        if count > ndim or (count != ndim and not covered):
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({count}) "
                f"{'is more than the number of dimensions' if covered else 'does not match the number of dimensions'} "
                f"({ndim}) for operand {i}{'' if covered else ' and no ellipsis was given'}"
            )
        hidden = ndim - count
        widest = max(widest, hidden)
        spelled.append(word.replace("...", _HIDDEN[len(_HIDDEN) - hidden :]))
    hidden = _HIDDEN[len(_HIDDEN) - widest :]
    letters = "".join(spelled)
    if not arrow:
        return spelled, hidden + "".join(sorted(c for c in set(letters) if c in _LETTERS and letters.count(c) == 1))
    _check_word(output, offset + 1, "output")
    result = output.replace(" ", "").replace("...", hidden)
    for c in result:
        if result.count(c) > 1:
            raise RuntimeError(f"einsum(): output subscript {c} appears more than once in the output")
        if c not in letters and c in _LETTERS:
            raise RuntimeError(f"einsum(): output subscript {c} does not appear in the equation for any input operand")
    return spelled, result


def _sizes(words, shapes):
    """Size of each label; a size of 1 gives way to any other."""
    size = {}
    for i, (word, shape) in enumerate(zip(words, shapes)):
        own = {}
        for c, n in zip(word, shape):
            if own.setdefault(c, n) != n:
                raise RuntimeError(
                    f"einsum(): subscript {c} is repeated for operand {i} but the sizes don't match, {n} != {own[c]}"
                )
        for c, n in own.items():
            known = size.setdefault(c, n)
            if known == 1:
                size[c] = n
            elif n not in (1, known):
                what = f"subscript {c} has size {n} for operand {i}"
                if c not in _LETTERS:
                    what = f"dimension {word.index(c)} covered by ellipsis in operand {i} has size {n}"
                raise RuntimeError(f"einsum(): {what} which does not broadcast with previously seen size {known}")
    return size


def _tidy(shape, word, needed, size):
    """Steps that take the diagonal of repeated labels, sum over those nobody needs, and drop broadcast ones.

    Returns the steps, as pairs (name of an op, its arguments), with the shape and the word that they leave.
    """
    steps = []
    for c in dict.fromkeys(word):
        while word.count(c) > 1:
            first, second = [i for i, d in enumerate(word) if d == c][:2]
            steps.append(("diagonal", (0, first, second)))
            word = word[:first] + word[first + 1 : second] + word[second + 1 :] + c
            shape = shape[:first] + shape[first + 1 : second] + shape[second + 1 :] + (shape[first],)
    lonely = tuple(i for i, c in enumerate(word) if c not in needed)
    if lonely:
        steps.append(("sum", (lonely,)))
        shape = tuple(n for c, n in zip(word, shape) if c in needed)
        word = "".join(c for c in word if c in needed)
    if any(n == 1 and size[c] != 1 for c, n in zip(word, shape)):
        kept = [(c, n) for c, n in zip(word, shape) if n != 1 or size[c] == 1]
        word, shape = "".join(c for c, _ in kept), tuple(n for _, n in kept)
        steps.append(("reshape", (shape,)))
    return steps, shape, word


_plans: dict = {}


def _plan(equation, shapes):
    """What to do with operands of these shapes.

    A list of (steps, labels or None, steps on the operand) for the first operand and what it is joined with, and the
    last steps.
    """
    words, result = _parse(equation, [len(shape) for shape in shapes])
    size = _sizes(words, shapes)
    pending = []
    for i, (shape, word) in enumerate(zip(shapes, words)):
        needed = set(result).union(*(w for j, w in enumerate(words) if j != i))
        pending.append(_tidy(shape, word, needed, size))
    first, shape, have = pending[0]
    joins = []
    for i, (steps, other, word) in enumerate(pending[1:], 1):
        needed = set(result).union(*(w for _, _, w in pending[i + 1 :]))
        # What a dropped dimension leaves behind in only one operand is summed there.
        more, shape, have = _tidy(shape, have, needed | set(word), size)
        less, other, word = _tidy(other, word, needed | set(have), size)
        together = "".join(c for c in dict.fromkeys(have + word) if c in needed)
        sizes = dict(zip(have + word, shape + other))
        joins.append((more, (have, word, together), steps + less))
        have, shape = together, tuple(sizes[c] for c in together)
    last, shape, have = _tidy(shape, have, result, size)
    if have != result or not (first or joins or last):
        missing = [c for c in result if c not in have]  # of size 1 everywhere
        if missing:
            last.append(("reshape", ((1,) * len(missing) + shape,)))
            have = "".join(missing) + have
        last.append(("permute", (tuple(have.index(c) for c in result),)))
    return first, joins, last


def _run(F, operand, steps):
    for name, arguments in steps:
        operand = getattr(F, name)(operand, *arguments)
    return operand


@composite(
    variadic="operands", at=("einsum",), autocast={"cuda": "lower"}, kinds={"equation": "any", "operands": "any"}
)
def einsum(F, equation, operands=()):
    """Sum of products of tensors, by Einstein's convention.

    Args:
        equation: a letter for each dimension of each operand, as in "ij,jk->ik": dimensions with the same letter
            are multiplied element by element, and those whose letter is not on the right are summed. Without
            "->" the letters that appear once remain, in alphabetical order. "..." stands for dimensions that
            broadcast. A repeated letter in one operand takes its diagonal.
        operands: the tensors; or, in place of equation and operands, tensors and lists of ints in turn, the
            last one for the result: `einsum(x, [0, 1], y, [1, 2], [0, 2])`.

    Errors: `RuntimeError` when equation and shapes do not fit.

    >>> import plugrad as torch
    >>> torch.einsum("ij,j->i", torch.tensor([[1., 2.], [3., 4.]]), torch.tensor([1., 1.]))
    tensor([3., 7.])
    """
    if not isinstance(equation, str):
        single = len(operands) > 0 and not any(hasattr(one, "__iter__") for one in operands)  # einsum(x, [0, 0])
        if hasattr(equation, "shape"):
            equation, operands = _as_equation((equation, *((operands,) if single else operands)))
    if operands and not isinstance(equation, str):
        what = type(equation).__name__
        raise TypeError(f"einsum(): argument 'equation' (position 1) must be str, not {what}; write 'ij,jk->ik'")
    if not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one "
            "operand and its subscripts list"
        )
    try:
        shapes = tuple([tuple(operand.shape) for operand in operands])
    except AttributeError:
        odd = next(type(operand).__name__ for operand in operands if not hasattr(operand, "shape"))
        raise TypeError(f"einsum(): argument 'operands' (position 2) must be Tensors, not {odd}") from None
    plan = _plans.get((equation, shapes))
    if plan is None:
        if len(_plans) > 1000:
            _plans.clear()
        plan = _plans[equation, shapes] = _plan(equation, shapes)
    first, joins, last = plan
    result = _run(F, operands[0], first)
    for (steps, labels, other_steps), operand in zip(joins, operands[1:]):
        if operand.dtype is not result.dtype and set(labels[2]).issuperset(labels[0] + labels[1]):
            common = plugrad.promote_types(operand.dtype, result.dtype)  # nothing is summed: a product of elements
            result, operand = result.to(common), operand.to(common)
        result = F.contract(_run(F, result, steps), _run(F, operand, other_steps), labels)
    return _run(F, result, last)


@einsum.samples
def einsum_samples(make):
    yield "ij,jk->ik", make(2, 3), make(3, 4)
    yield "bii->bi", make(2, 3, 3)
    yield "i,j", make(2), make(3)


# ---------------------------------------------------------------- tensordot


@composite(
    at=("tensordot",), kinds={"dims": "any", "a": "tensor", "b": "tensor"},
    autocast={"cpu": "lower", "cuda": "promote"},
)  # fmt: skip
def tensordot(F, a, b, dims=2, *, out=None):
    """Sum of products over several dimensions of two tensors.

    Args:
        a, b: the tensors.
        dims: int n, for the last n dimensions of `a` and the first n of `b`, or two lists of dimensions.

    >>> import plugrad as torch
    >>> torch.tensordot(torch.ones(2, 3, 4), torch.ones(3, 4, 5), dims=2).shape
    torch.Size([2, 5])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = tuple(range(-dims, 0)), tuple(range(dims))
    if not isinstance(dims, (tuple, list)) or len(dims) != 2:
        raise RuntimeError(
            "tensordot expects dims to be int or tuple[list[int], list[int]] or list[list[int]] containing two lists, "
            f"but got dims={dims}"
        )
    first, second = ((d,) if isinstance(d, int) else tuple(d) for d in dims)
    if len(first) != len(second):
        raise RuntimeError("both dimension lists should have same length")
    if first and not (a.ndim and b.ndim):
        raise IndexError(f"Dimension specified as {(second if a.ndim else first)[0]} but tensor has no dimensions")
    first, second = axes(first, a.ndim), axes(second, b.ndim)
    left, right = list(_LETTERS[: a.ndim]), list(_LETTERS[a.ndim : a.ndim + b.ndim])
    for i, j in zip(first, second):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
                f"second has size {b.shape[j]} in dim {j}"
            )
        if a.shape[i] != b.shape[j]:  # in its own type: a sum of small integers would be int64
            a = F.sum(a, i, True, dtype=a.dtype) if b.shape[j] == 1 else a
            b = F.sum(b, j, True, dtype=b.dtype) if b.shape[j] != 1 else b
        right[j] = left[i]
    gone = {left[i] for i in first}
    kept = [c for c in left + right if c not in gone]
    result = F.einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", a, b)
    return result if out is None else write_out(tensordot, result, out)


@tensordot.samples
def tensordot_samples(make):
    yield make(2, 3, 4), make(3, 4, 5)
    yield make.args(make(2, 3, 4), make(4, 2), dims=([0, 2], [1, 0]))


# ---------------------------------------------------------------- chains


def _best_order(sizes):
    """Where to split each chain of matrices with sizes[i] rows so that the fewest products are needed.

    Cormen, Leiserson, Rivest and Stein, Introduction to Algorithms, section 14.2.
    """
    n = len(sizes) - 1
    cost = [[0] * n for _ in range(n)]
    split = [[0] * n for _ in range(n)]
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def _chained(F, chain, split, i, j):
    """Multiply the matrices from number i to number j of a chain, in the order that `_best_order` found."""
    if i == j:
        return chain[i]
    middle = split[i][j]
    return F.mm(_chained(F, chain, split, i, middle), _chained(F, chain, split, middle + 1, j))


@composite(at=("linalg.multi_dot",), autocast={"cuda": "lower"})
def multi_dot(F, tensors, *, out=None):
    """Product of two or more matrices in the order that costs least.

    The first and last may be vectors.

    >>> import plugrad as torch
    >>> torch.linalg.multi_dot([torch.ones(2), torch.ones(2, 3), torch.ones(3)])
    tensor(6.)
    """
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    last = len(tensors) - 1
    for i, tensor in enumerate(tensors):
        if tensor.ndim != 2 and (tensor.ndim != 1 or 0 < i < last):
            where = (
                "the first tensor must be 1D or 2D"
                if i == 0
                else ("the last tensor must be 1D or 2D" if i == last else f"tensor {i} must be 2D")
            )
            raise RuntimeError(f"multi_dot(): {where} but got {tensor.ndim}D")
        if tensor.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype} and tensor {i} {tensor.dtype}"
            )
    row, column = tensors[0].ndim == 1, tensors[last].ndim == 1
    chain = list(tensors)
    chain[0] = F.unsqueeze(chain[0], 0) if row else chain[0]
    chain[last] = F.unsqueeze(chain[last], 1) if column else chain[last]
    for i, (one, two) in enumerate(zip(chain, chain[1:])):
        if one.shape[1] != two.shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(tensors[i].shape)} and "
                f"{list(tensors[i + 1].shape)} cannot be multiplied"
            )
    split = _best_order([chain[0].shape[0], *(matrix.shape[1] for matrix in chain)])

    result = _chained(F, chain, split, 0, last)
    if row or column:
        result = F.reshape(result, tuple(result.shape[row : 2 - column]))
    return result if out is None else write_out(multi_dot, result, out)


@multi_dot.samples
def multi_dot_samples(make):
    yield ([make(2, 3), make(3, 4), make(4, 2)],)


@composite(at=("chain_matmul",), variadic="matrices", autocast={"cuda": "lower"})
def chain_matmul(F, matrices, *, out=None):
    """Product of matrices in the order that costs least.

    `linalg.multi_dot` takes them as a list.

    >>> import plugrad as torch
    >>> torch.chain_matmul(torch.ones(1, 2), torch.ones(2, 3), torch.ones(3, 1))
    tensor([[6.]])
    """
    matrices = matrices if isinstance(matrices, (tuple, list)) else (matrices,)
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for matrix in matrices:
        if matrix.ndim != 2:
            raise RuntimeError(f"Tensor dimension is {matrix.ndim}, expected 2 instead; linalg.multi_dot takes vectors")
    if len(matrices) == 1:
        return matrices[0]
    return F.multi_dot(list(matrices), out=out)


@chain_matmul.samples
def chain_matmul_samples(make):
    yield make(2, 3), make(3, 4), make(4, 2)


@hookimpl
def plugrad_ops():
    return collect(Op, globals())
