"""Guards: whether a captured program does for a call what its function would do.

A guard is asked twice. In C it compares what a call finds with the very objects that were there before, which takes a
part of a microsecond and decides nearly always; where something differs, Python looks whether it matters.
"""

from __future__ import annotations

import numpy

from plugrad import Tensor, device, get_default_device, get_default_dtype, kernels
from plugrad.compiler.graph import at, varies
from plugrad.compiler.world import parts_of
from plugrad.graph import modes
from plugrad.graph.modes import levels, mode
from plugrad.tensor.layouts import lay_out
from plugrad.tensor.tensor import make

VALUES = (int, str, bytes, type(None), range, device)  # alike where they are equal


def modes_act() -> bool:
    """Whether modes or hooks of this thread see or change calls, or change where tensors are made."""
    one = mode.function_modes or mode.dispatch_modes or mode.op_hooks or modes.installed_hooks or mode.saved_hooks
    other = mode.inference or mode.anomaly or mode.autocast or levels
    return bool(one or other) or get_default_device().type != "cpu"


def shape_of(args, kwargs):
    """Return the structure of arguments, which tensors are one, and everything that is no tensor."""
    if not kwargs and all([type(a) is Tensor for a in args]) and len({*map(id, args)}) == len(args):
        return len(args)
    known: dict = {}

    def key_of(item):
        if isinstance(item, Tensor):
            return "tensor", known.setdefault(id(item), len(known))
        if isinstance(item, (float, complex, numpy.generic)):
            return type(item), repr(item)
        if getattr(item, "__dict__", None):  # attributes of a list or dict, too, are the program's to read
            return type(item), id(item)
        if isinstance(item, (list, tuple)):
            return type(item), *map(key_of, item)
        if isinstance(item, dict):
            return type(item), *[(key, key_of(value)) for key, value in item.items()]
        return type(item), item if isinstance(item, VALUES) else id(item)  # the program holds it

    return key_of(args), key_of(kwargs)


def signature_of(tensors, args, kwargs, grad) -> tuple:
    """Return what a call is like as (structure, sizes)."""
    kinds = [(t._type, t._raw.ndim, t._edge is not None, t._raw.flags.c_contiguous) for t in tensors]
    structure = (shape_of(args, kwargs), grad, get_default_dtype(), *kinds)
    return structure, tuple([(t._raw.shape, t._raw.strides) for t in tensors])


class Guard:
    """What has to be so for a program to serve a call.

    `given` are the sources that are arguments, `held` those that the program holds and that matter. `flat` says where
    tensors stand if all arguments are tensors or plain values: numbers of `args`, names of `kwargs`; else it is None.
    """

    def __init__(self, captured, given, held, args, kwargs):
        self.form, self.given, self.held, self.world = shape_of(args, kwargs), given, held, captured.world
        self.tensors = [s.tensor for s in held]
        self.known = {id(t): t for t in self.world.tensors}  # that an argument may be, by which the program may decide
        self.twins = captured.twins
        self.scope = captured.sizes
        self.types = [(s.value.shape, _strides(s), s.value.dtype, s.leads) for s in given]
        self.tells = [  # where the size stands that varies, and the number that is there for it
            (i, d, n) for i, (shape, *_) in enumerate(self.types) for d, n in enumerate(shape) if varies(n)
        ]
        self.edges = [s.leads for s in held]
        self.dtype, self.grad_mode = get_default_dtype(), captured.grad_mode
        self.touches_grads = captured.touches_grads or captured.world.asks_for_gradients
        self.had_grads = [s.grad is not None for s in (*given, *held)]
        self.written = [s for s in (*given, *held) if s.written]
        leaves = [*enumerate(args), *kwargs.items()]
        self.flat = [place for place, one in leaves if type(one) is Tensor]
        others = [one for place, one in leaves if place not in self.flat]
        if len(self.flat) != len(given) or any(isinstance(one, (Tensor, list, tuple, dict)) for one in others):
            self.flat = None
        self.plain = [(place, None if isinstance(one, Tensor) else one) for place, one in leaves]
        self.is_plain = type(self.form) is int  # all arguments are tensors, by their places
        self.same = None  # the part in C: same(args, kwargs)

    def size_of(self, shapes):
        """Return the size that arguments of these shapes have; True where none varies, False where it is not served."""
        if self.scope is None:
            return True
        for i, d, n in self.tells[:1]:
            base, slope = _line(n)
            size, rest = divmod(shapes[i][d] - base, slope)
            if not rest and self.scope.serves(size) and all(shapes[i][d] == n.at(size) for i, d, n in self.tells):
                return size
        return False

    def serves(self, tensors, args, kwargs, grad):
        """Return the size for which the program does for these arguments what the function would do.

        It is True where no size varies, and False where the program does something else. `grad` is the grad mode.
        """
        if self.form != (len(args) if tensors is args else shape_of(args, kwargs)):
            return False
        if len(tensors) != len(self.given) or grad is not self.grad_mode or get_default_dtype() is not self.dtype:
            return False
        for tensor, twin in zip(tensors, self.twins):
            if self.known.get(id(tensor)) is not twin:
                return False
            if tensor._type.plain is not tensor._type:
                lay_out(tensor)
        fits = all([len(t._raw.shape) == len(one[0]) for t, one in zip(tensors, self.types)])
        size = fits and self.size_of([t._raw.shape for t in tensors])
        if not size:
            return False
        for tensor, (shape, strides, dtype, leads) in zip(tensors, self.types):
            data = tensor._raw
            if self.scope is not None:
                shape, strides = at((shape, strides), size)
            if type(data) is not numpy.ndarray or data.shape != shape or data.strides != strides or data.dtype != dtype:
                return False
            if tensor._view is not None:
                tensor._refresh()
            if (tensor._edge is not None) is not leads or tensor.__dict__:
                return False
        if any([(t._edge is not None) is not leads for t, leads in zip(self.tensors, self.edges)]):
            return False
        if self.touches_grads:
            have = [getattr(t, "_grad", None) is not None for t in (*tensors, *self.tensors)]
            if have != self.had_grads:
                return False
        if not self.world.holds():
            return False
        return size if not self.written or not self.overlap(tensors, self.tensors) else False

    def tensors_in(self, args, kwargs) -> list:
        """Return the tensors among arguments that `same` took."""
        return [args[place] if type(place) is int else kwargs[place] for place in self.flat]

    def overlap(self, tensors, others=()) -> bool:
        """Whether memory that is written is that of another tensor, of which one at least is an argument."""
        arrays = [t._raw for t in (*tensors, *others)]
        ours = [tensors[s.place]._raw if s.place is not None else s.tensor._raw for s in self.written]
        return any(one is not other and numpy.may_share_memory(one, other) for one in ours for other in arrays)

    def settle(self, bound) -> None:
        """Make the part in C, for what is held as it is now: `bound` are its arrays."""
        self.same = None
        if self.flat is None or kernels.why_none() is not None or not hasattr(kernels.module(), "guard"):
            return
        grads = [int(had) if self.touches_grads else -1 for had in self.had_grads]
        tensors = iter(zip(self.given, grads))
        arguments = [_form(*next(tensors)) if place in self.flat else (one,) for place, one in self.plain]
        names = [place for place, _ in self.plain if type(place) is str]
        held = [(s.tensor, array, s.leads, had) for s, array, had in zip(self.held, bound, grads[len(self.given) :])]
        places = {known: place for place, known in enumerate(self.known)}
        twins = [places.get(id(twin), -1) for twin in self.twins]
        self.same = kernels.module().guard(
            _tensor(), _function(), tuple(arguments), tuple(names), tuple(held), tuple(self.world.watched()),
            tuple(self.known.values()), tuple(twins), *self._allowed(),
        )  # fmt: skip

    def _allowed(self) -> tuple:
        """Return the least size that is served, and for each from there on whether it is; nothing where none varies."""
        return (0, b"") if self.scope is None else (self.scope.low, self.scope.allowed.tobytes())


def _form(source, had) -> tuple:
    value, strides = source.value, _strides(source)
    lines = [_line(n) for n in (*value.shape, *strides)]
    bases, slopes, ndim = [base for base, _ in lines], [slope for _, slope in lines], len(value.shape)
    own = source.type, value.dtype, tuple(bases[:ndim]), tuple(bases[ndim:]), source.leads, had
    return (*own, tuple(slopes)) if any(slopes) else own


def _strides(source) -> tuple:
    """Return the strides that an argument has; dimensions of size 1 may have any."""
    return source.value.strides if varies(source.value.shape) else source.strides


def _line(n) -> tuple:
    """Return an integer of an argument as (what it is for size 0, by how much it grows with the size)."""
    if not varies(n):
        return n, 0
    slope = int(n.values[1] - n.values[0])
    return int(n.values[0]) - slope * n.scope.low, slope


def _tensor() -> tuple:
    """Return a tensor and what is in its slots, each another object, by which C finds the slots."""
    contents = tuple([object() for _ in range(5)])
    tensor = make(*contents[:3])
    tensor._view, tensor._grad = contents[3:]
    return tensor, contents


def _function() -> tuple:
    """Return a function and its parts that `World` watches."""

    def example(one=0, *, other=0): ...

    return example, parts_of(example)
