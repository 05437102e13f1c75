"""`vmap`: a function of slices, applied to all slices of its arguments.

An elementwise op or reduction itself runs once on the whole batch; any other function runs in a loop over the slices.
"""

from __future__ import annotations

import collections
import functools
import warnings

import plugrad
from plugrad import Tensor, autograd, nest
from plugrad.arguments import is_int
from plugrad.autograd.rare.copied_views import copy_behind
from plugrad.autograd.rare.function_mistakes import with_defaults
from plugrad.autograd.rare.wrong_results import check_batch
from plugrad.dispatch.formulas import of_composites
from plugrad.extend import refusing_random, watching_random
from plugrad.func.captured_writes import Once, check_target

MANY = 64  # slices from which on a loop is worth a warning
_warned = False


def check_randomness(randomness) -> None:
    """Raise RuntimeError unless `randomness` is one of the words that `vmap` takes."""
    if not isinstance(randomness, str) or randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """Return the function that applies `func` to slices and stacks the results.

    An op of a tensor's elements or a reduction, or with a rule of its own (`@op.vmap`), given as `func` itself, runs
    once on the whole batch, and so does a Function with a rule of its own (its static method `vmap`), given as its
    `apply`. Any other function is called once for each slice: as general as Python (it may branch on values), and not
    faster than a loop, which a warning says once for batches of 64 slices and more.

    Args:
        func: takes slices, returns tensors.
        in_dims: dimension along which each argument is sliced, None for one that is passed whole; nested as the
            arguments are. Keyword arguments are passed whole.
        out_dims: dimension along which each result is stacked; None for one that is the same for all slices.
        randomness: "error" refuses ops that draw random numbers; "same" draws the same ones for each slice,
            whichever generators they come from; "different" others.
        chunk_size: accepted; a loop needs no memory for more than one slice at a time.

    Raises ValueError when sizes differ, there is nothing to slice, or the dims do not fit arguments or results, and
    RuntimeError for random numbers under randomness="error", and where a tensor that is the same for all slices is
    written to with other values for each.

    >>> import plugrad as torch
    >>> torch.func.vmap(torch.dot)(torch.ones(2, 3), torch.ones(2, 3))
    tensor([3., 3.])
    """
    check_randomness(randomness)
    if chunk_size is not None and not is_int(chunk_size):
        raise TypeError(f"vmap(): argument 'chunk_size' must be int, not {type(chunk_size).__name__}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def transformed(*args, **kwargs):
        name = getattr(func, "__name__", type(func).__name__)
        called = f"vmap({name}, in_dims={in_dims}, ...)(<inputs>)"
        dims = _input_dims(in_dims, args, called, name)
        values = [*nest.leaves(args)]
        size = _size(values, dims, called)
        check_target(func, dims)
        declared = size and _declared(func, args, kwargs, dims, size, randomness)
        if declared:
            return _moved(*declared, size, out_dims, name)
        at_once = size and randomness != "same" and _at_once(func, args, kwargs, dims, size)
        if at_once:
            return _place(at_once[0], out_dims, name)
        rule = _own_rule(func) if size else None
        if rule is not None:
            given = with_defaults(func.__self__.forward, args, kwargs)
            placed = *nest.rebuild(args, iter(dims)), *[None] * (len(given) - len(args))
            pair = rule(VmapInfo(size, randomness), placed, *given)
            return _moved(*_checked_pair(pair), size, out_dims, name)
        if not size:
            return _nothing(func, args, kwargs, values, dims, out_dims, name)
        if size >= MANY:
            _warn_of_loop(name, size)
        slices = [value if dim is None else value.unbind(dim) for value, dim in zip(values, dims)]

        def one(number):
            items = [part if dim is None else part[number] for part, dim in zip(slices, dims)]
            return func(*nest.rebuild(args, iter(items)), **kwargs)

        bases = [value if value._base is None else value._base for value, dim in zip(values, dims) if dim is not None]
        return _stacked(_each(one, size, randomness, Once(bases)), out_dims, name, bases)

    return transformed


def _each(one, size, randomness, once) -> list:
    """Return the results of all slices, with the random numbers that are asked for."""
    if randomness == "error":
        with refusing_random(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
            "randomness flags on vmap or perform the randomness operation out of vmap"
        ):
            return [once(one, number) for number in range(size)]
    if randomness == "different":
        return [once(one, number) for number in range(size)]
    states: dict = {}  # of each generator that was drawn from: what it was before

    def remember(generator):
        if id(generator) not in states:
            states[id(generator)] = generator, generator.get_state()

    def alike(number):
        for generator, state in states.values():
            generator.set_state(state)
        with watching_random(remember):
            return one(number)

    return [once(alike, number) for number in range(size)]


def _warn_of_loop(name, size) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"vmap calls {name} once for each of {size} slices, which takes as long as a loop; where that matters, "
            "write it with a batch dimension (this is said once)",
            stacklevel=3,
        )


# ---------------------------------------------------------------------------------------------------- dimensions


def _spread(dims, value, misfit):
    """Yield the dim of every leaf of a nest; one number serves all that are below it. `misfit` is the error."""
    nested = isinstance(value, (list, tuple, dict))
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        for _ in nest.leaves(value):
            yield dims
    elif _alike(dims, value, misfit):
        for one, item in zip(dims, value):
            yield from _spread(one, item, misfit)
    elif isinstance(dims, dict) and isinstance(value, dict) and dims.keys() == value.keys():
        for key, item in value.items():
            yield from _spread(dims[key], item, misfit)
    elif isinstance(dims, tuple) and len(dims) == 1 and not nested and misfit.args[0].count("out_dims"):
        yield dims[0]  # one result, whose dim may stand in a tuple
    else:
        raise misfit


def _alike(dims, value, misfit) -> bool:
    """Whether dims are nested as a value is: inputs as lists or as tuples, results as either."""
    inputs = "in_dims is not" in misfit.args[0]
    rows = isinstance(dims, (list, tuple)) and isinstance(value, (list, tuple)) and len(dims) == len(value)
    return rows and (not inputs or isinstance(dims, list) == isinstance(value, list))


def _input_dims(in_dims, args, called, name) -> list:
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{called}: expected `in_dims` to be int or a (potentially nested) tuple matching the inputs, got: "
            f"{type(in_dims)}"
        )
    if not args:
        raise ValueError(
            f"vmap({name})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    misfit = ValueError(
        f"{called}: in_dims is not compatible with the structure of `inputs`: in_dims has to be a number, or nested as "
        f"the {len(args)} input{'s' * (len(args) != 1)}"
    )
    return [*_spread(in_dims, args, misfit)]


def _size(values, dims, called) -> int:
    sizes = []
    for value, dim in zip(values, dims):
        if dim is None:
            continue
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{called}: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        if not -value.ndim <= dim < value.ndim:
            raise ValueError(
                f"{called}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                f"{value.ndim} so expected in_dim to satisfy -{value.ndim} <= in_dim < {value.ndim}."
            )
        sizes.append(value.shape[dim])
    if not sizes:
        raise ValueError(f"{called}: Expected at least one Tensor to vmap over: one in_dim must not be None")
    if len(set(sizes)) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the "
            "mapped dimension"
        )
    return sizes[0]


def _output_dims(value, out_dims, name):
    """Return the dims of all results; ValueError unless they fit, and what has one is a tensor."""
    if not all(dim is None or isinstance(dim, int) for dim in nest.leaves(out_dims)):
        raise ValueError(
            f"vmap({name}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints "
            "representing where in the outputs the vmapped dimension should appear."
        )
    misfit = ValueError(
        f"vmap({name}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of `outputs`"
    )
    dims = [*_spread(out_dims, value, misfit)]
    for leaf, dim in zip(nest.leaves(value), dims):
        if dim is not None and not isinstance(leaf, Tensor):
            raise ValueError(f"vmap({name}, ...): `{name}` must only return Tensors, got type {type(leaf)}.")
    return dims


def _common_view(parts, dim, bases):
    """Return the tensor whose slices are views of one of the bases, as a view of that; None for other tensors."""
    first = parts[0]
    if not isinstance(first, Tensor) or not any(first._base is base for base in bases):
        return None
    layout = first.shape, first.stride(), first.dtype
    for part in parts:
        if part._base is not first._base or part.requires_grad or (part.shape, part.stride(), part.dtype) != layout:
            return None
    if any(copy_behind(part._raw) is not None for part in parts):  # conjugates, copies that stand for views
        return None
    offsets = [part.storage_offset() for part in parts]
    steps = {after - before for before, after in zip(offsets, offsets[1:])} or {0}
    if len(steps) > 1 or min(steps) < 0 or first.dtype is not first._base.dtype:
        return None
    size, stride, dim = [*first.shape], [*first.stride()], dim % (first.ndim + 1)
    size.insert(dim, len(parts))
    stride.insert(dim, steps.pop())
    return first._base.as_strided(size, stride, offsets[0])


def _stacked(results, out_dims, name, bases):
    """Return the results stacked; where they are views of an input, as a view of it.

    So what a function does in place, and returns, is seen in the result, too.
    """
    first = results[0]
    columns = []
    dims = [*_output_dims(first, out_dims, name)]
    for parts, dim in zip(zip(*map(nest.leaves, results)), dims):
        if dim is not None:
            if not -parts[0].ndim - 1 <= dim <= parts[0].ndim:
                raise IndexError(
                    f"Dimension out of range (expected to be in range of [{-parts[0].ndim - 1}, {parts[0].ndim}], but "
                    f"got {dim})"
                )
            view = _common_view(parts, dim, bases)
            columns.append(plugrad.stack(parts, dim) if view is None else view)
            continue
        if any(part is not parts[0] and not _same(part, parts[0]) for part in parts):
            raise ValueError(
                f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None: its result differs "
                "between slices"
            )
        columns.append(parts[0])
    return nest.rebuild(first, iter(columns))


def _same(a, b) -> bool:
    return plugrad.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b


def _nothing(func, args, kwargs, values, dims, out_dims, name):
    """Return results without slices: one call on zeros tells their shapes."""
    items = [
        value if dim is None else value.new_zeros([n for i, n in enumerate(value.shape) if i != dim % value.ndim])
        for value, dim in zip(values, dims)
    ]
    result = func(*nest.rebuild(args, iter(items)), **kwargs)
    empty = []
    for leaf, dim in zip(nest.leaves(result), [*_output_dims(result, out_dims, name)]):
        empty.append(leaf if dim is None else plugrad.stack([leaf], dim).narrow(dim, 0, 0))
    return nest.rebuild(result, iter(empty))


# ---------------------------------------------------------------------------------------------------- whole batches


def _at_once(func, args, kwargs, dims, size):
    """Return [the result for the whole batch, which comes first], or None for functions that need the loop."""
    op = _record(func)
    tensors = [value for value in args if isinstance(value, Tensor)]
    if op is None or len(dims) != len(args) or any(isinstance(value, Tensor) for value in kwargs.values()):
        return None
    if any(type(tensor) is not Tensor or tensor._type is not tensors[0]._type for tensor in tensors):
        return None  # mixed dtypes: a slice may be a number where the batch is a vector, and promote otherwise
    lead = [value if dim is None else value.movedim(dim, 0) for value, dim in zip(args, dims)]
    if op.reduces:
        return _reduce(op, lead, kwargs, size) if dims[0] is not None and len(tensors) == 1 else None
    if not op.broadcasts or "dim" in op.parameters:
        return None
    ranks = [value.ndim - (dim is not None) if isinstance(value, Tensor) else 0 for value, dim in zip(args, dims)]
    lead = [
        value if dim is None else value.reshape((size, *[1] * (max(ranks) - rank), *value.shape[1:]))
        for value, dim, rank in zip(lead, dims, ranks)
    ]
    return [func(*lead, **kwargs)]


def _record(func):
    """Return the op whose public function this is, or None."""
    op = getattr(func, "__op__", None)
    return op if op is not None and func in (op.function, op.called.function) else None


def _reduce(op, args, kwargs, size):
    """Run a reduction over the dimensions of a slice."""
    if kwargs.get("out") is not None:
        return None
    values = dict(zip(op.parameters, op.bind(*args, **kwargs)))
    input, dim = args[0], values.get("dim")
    if "dim" not in values or (dim is not None and input.ndim == 1):
        return None
    if dim is None:
        if op.returns is not None or values.get("keepdim"):
            return None
        values["dim"], values[op.parameters[0]] = 1, input.reshape((size, -1))
    elif isinstance(dim, int):
        values["dim"] = dim + (dim >= 0)
    elif isinstance(dim, (list, tuple)) and dim and all(isinstance(one, int) for one in dim):
        values["dim"] = tuple([one + (one >= 0) for one in dim])
    else:
        return None
    return [op.function(**values)]


VmapInfo = collections.namedtuple("VmapInfo", "batch_size randomness")
VmapInfo.__doc__ = "What a Function's own `vmap` is told: the number of slices, and what random numbers are wanted."


def _own_rule(func):
    """Return the `vmap` of a Function whose `apply` a function is; None if it is none or has no such rule."""
    function = getattr(func, "__self__", None)
    is_apply = isinstance(function, type) and issubclass(function, autograd.Function) and func.__name__ == "apply"
    rule = getattr(function, "vmap", None) if is_apply else None
    if rule is not None and getattr(function, "generate_vmap_rule", False):
        raise RuntimeError(
            f"You tried to vmap over {function.__name__}, but it has both generate_vmap_rule=True and an overridden "
            "vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden vmap staticmethod to "
            "avoid ambiguity."
        )
    return rule


def _checked_pair(pair) -> tuple:
    """Return what a Function's own rule returned; RuntimeError unless it is results and where the batch is in them."""
    if not isinstance(pair, tuple) or len(pair) != 2:
        kind = f"a tuple of {len(pair)}" if isinstance(pair, tuple) else f"a {type(pair).__name__}"
        raise RuntimeError(
            "Expected the vmap staticmethod to have two returns, an output and out_dims with pytree structure "
            f"compatible with the output: `return y, 0`. Got {kind}"
        )
    results, placed = pair
    if not all(dim is None or isinstance(dim, int) for dim in nest.leaves(placed)):
        raise TypeError(f"The vmap staticmethod returned out_dims of {placed!r}: each must be an int, or None")
    misfit = RuntimeError(
        f"The vmap staticmethod returned an incompatible (out_dims, output) tuple: out_dims is {placed}, which does "
        f"not fit results of type {type(results).__name__}: write a dim (or None) for each"
    )
    if type(placed) is tuple and not isinstance(results, (tuple, list, dict)):
        raise misfit
    return results, nest.rebuild(results, iter([*_spread(placed, results, misfit)]))


def _declared(func, args, kwargs, dims, size, randomness):
    """Return (results, their dims) by the rule that an op declares for batches; None if it has none."""
    op = _record(func)
    if op is None or op.batched is None or len(dims) != len(args):
        return None
    values = op.bind(*args, **kwargs)
    in_dims = (*dims, *[None] * (len(values) - len(args)))
    count = len(op.positional)
    keywords = dict(zip(op.keyword_only, values[count:]))
    info = VmapInfo(size, randomness)
    result = op.batched(of_composites[op.scope], info, in_dims, *values[:count], **keywords)
    if result is NotImplemented:
        return None
    return result if op.trusted else check_batch(op, result, size)


def _moved(results, placed, size, out_dims, name):
    """Return what a Function's own rule returned, with the batch moved from where it is to where it is wanted."""
    moved = []
    wanted = [*_output_dims(results, out_dims, name)]
    for leaf, have, dim in zip(nest.leaves(results), _spread(placed, results, ValueError("vmap: out_dims")), wanted):
        batch = leaf.expand((size, *leaf.shape)) if have is None else leaf.movedim(have, 0)
        moved.append(batch if dim is None else batch.movedim(0, dim))
    return nest.rebuild(results, iter(moved))


def _place(result, out_dims, name):
    """Return the results of a whole batch with the batch where it is wanted."""
    placed = []
    for leaf, dim in zip(nest.leaves(result), [*_output_dims(result, out_dims, name)]):
        if dim is None:
            raise ValueError(f"vmap({name}, ...): `{name}` can not return a BatchedTensor when out_dim is None")
        placed.append(leaf.movedim(0, dim))
    return nest.rebuild(result, iter(placed))
