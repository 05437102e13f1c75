"""Classes that override ops beside PyTorch's: which function they are asked about, and with which arguments."""

import contextlib
import functools
import inspect

import pytest

import plugrad as torch
from plugrad.graph.modes import watched

oracle = pytest.importorskip("torch")

OPERATORS = """x + y|2 + x|x * y|2 * x|x - 2|2 - x|x / y|2 / x|2 // x|x % y|2 % x|x ** 2|2 ** x|-x|abs(x)|x @ x|x < y
x != y|~n|1 & n|1 | n|1 ^ n|1 << n|1 >> n|+x|x[0]|n.__rmul__(2)""".replace("\n", "|").split("|")


@pytest.mark.parametrize("written", OPERATORS)
def test_classes_are_asked_about_operators_as_in_pytorch(written):
    """By the same name, and with the operands in the same order."""
    told = []
    for library in (oracle, torch):
        seen = []

        class Noted(library.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func.__name__, [type(one).__name__ for one in args]))
                return super().__torch_function__(func, types, args, kwargs or {})

        names = {"x": library.eye(2).as_subclass(Noted), "y": library.ones(2, 2)}
        names["n"] = library.ones(2, 2, dtype=library.int64).as_subclass(Noted)
        eval(written, names)
        told.append(seen)
    assert told[0] == told[1] or told == [[(told[0][0][0], told[1][0][1])], told[1]]


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("old", ["Tensor", "Named"])
@pytest.mark.parametrize("make", [
    lambda T, cls, x: cls(x),
    lambda T, cls, x: T.Tensor(x),
    lambda T, cls, x: T.FloatTensor(x),
    lambda T, cls, x: x.new(x),
    lambda T, cls, x: T.Tensor.__new__(cls, x),
])  # fmt: skip
def test_a_tensor_that_is_made_of_one_has_its_history(make, old, recorded):
    def use(T):
        class Named(T.Tensor):
            pass

        leaf = T.ones(2, requires_grad=recorded)
        x = (leaf * 2).as_subclass(Named if old == "Named" else T.Tensor)
        made = make(T, Named, x)
        assert type(x.new(2, 3)) is type(x.new([1.0])) is type(x)
        result = [type(made).__name__, made.requires_grad, made._is_view(), made is x]
        if recorded:
            (made * 3).sum().backward()
            result.append(leaf.grad.tolist())
        return result

    assert use(torch) == use(oracle)


class Stranger:
    """Stands for a tensor, and is none."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "taken over", func


def _asked(function, signature):
    """Return what a function gives for strangers in the place of all arguments that it needs, or its error."""
    args, kwargs = [], {}
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL or parameter.default is parameter.empty:
            if parameter.kind is parameter.KEYWORD_ONLY:
                kwargs[parameter.name] = Stranger()
            elif parameter.kind is not parameter.VAR_KEYWORD:
                args.append(Stranger())
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("place", ["", "functional", "nn.functional", "nn.init", "linalg", "fft", "special"])
def test_classes_that_are_no_tensors_are_asked_when_they_are_first_met(place):
    """No function was told of the class before, or of any other."""
    theirs, ours = [functools.reduce(getattr, filter(None, place.split(".")), library) for library in (oracle, torch)]
    told = oracle.overrides.get_testing_overrides()
    asked, wrong = 0, []
    for name in sorted(dir(theirs)):
        function = getattr(theirs, name)
        if name[0] == "_" or not callable(function) or function not in told:
            continue
        signature = inspect.signature(told[function])
        if _asked(function, signature) != ("taken over", function):
            continue
        asked += 1
        watched.discard("overriding classes")
        found = _asked(getattr(ours, name), signature)
        if not isinstance(found, NotImplementedError) and found != ("taken over", getattr(ours, name)):
            wrong.append((name, found))
    assert asked and not wrong


def test_the_outermost_op_is_asked_wherever_the_class_is_met():
    """Be it in what a composite of composites calls, or in a list."""
    x = torch.ones(1, 2, 3)
    for function, args in [
        (torch.nn.functional.multi_head_attention_forward, (Stranger(),) * 13),
        (torch.nn.functional.interpolate, (Stranger(),)),
        (torch.cartesian_prod, (x, Stranger())),
        (torch.hstack, ((x, Stranger()),)),
        (torch.nn.functional.cosine_similarity, (x, Stranger())),
        (torch.dist, (x, Stranger())),
        (torch.einsum, ("ij,jk", x[0], Stranger())),
    ]:
        watched.discard("overriding classes")
        assert function(*args) == ("taken over", function)
        with torch.overrides.DisableTorchFunctionSubclass(), pytest.raises((TypeError, AttributeError)):
            function(*args)


class Inside:
    """A class that composites meet inside of them alone."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return args[1] * 2


@pytest.mark.parametrize("hooked", [False, True])
def test_a_class_that_is_met_inside_of_a_composite_is_asked_there(hooked):
    """Also where a hook has the outer composites' classes asked before they run."""

    class Watching(torch.extend.OpHook):
        def before(self, call):
            pass

    @torch.extend.composite
    def inner_with_a_stranger(F, x):
        """Return twice the input."""
        return F.add(Inside(), x)

    @torch.extend.composite
    def outer_with_a_stranger(F, x):
        """Return twice the input, and a bit."""
        return torch.inner_with_a_stranger(x) + torch.dist(x, x)

    torch.extend.register(inner_with_a_stranger, outer_with_a_stranger)
    for name in "inner_with_a_stranger", "outer_with_a_stranger":
        watched.discard("overriding classes")
        with Watching() if hooked else contextlib.nullcontext():
            assert getattr(torch, name)(torch.ones(2)).tolist() == [2.0, 2.0]


def test_a_class_gets_the_item_methods_that_tensor_has():
    """They are the keys of tables of overrides, which a program fills before it uses any of them."""

    def use(T):
        keys = {getattr(T.Tensor, name): name for name in ("__getitem__", "__setitem__", "__rpow__", "__rsub__", "add")}

        class Telling(T.Tensor):
            told = []

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                cls.told.append(keys.get(func))
                return super().__torch_function__(func, types, args, kwargs or {})

        x = T.ones(3).as_subclass(Telling)
        x[0] = 2.0
        x[0], 2**x, 2 - x, x + x
        return Telling.told

    assert use(torch) == use(oracle)


PLACES = ["", "functional", "nn.functional", "nn.init", "linalg", "fft", "special", "Tensor"]


def test_functions_are_listed_as_overridable_or_as_not():
    """What PyTorch lists is listed, but for questions to a Tensor itself, which no class is asked about here."""
    ours, theirs = torch.overrides.get_overridable_functions(), oracle.overrides.get_overridable_functions()
    listed, told = ({one for functions in lists.values() for one in functions} for lists in (ours, theirs))
    ignored, missing = torch.overrides.get_ignored_functions(), set()
    for place in PLACES:
        there, here = (functools.reduce(getattr, filter(None, place.split(".")), T) for T in (oracle, torch))
        assert ours[here]
        for name in dir(there):
            function = getattr(here, name, None) if name[0] != "_" else None
            if getattr(function, "_is_absent", not inspect.isfunction(function)):
                continue
            if getattr(there, name) in told:
                assert (function in listed) != (function in ignored), (place, name)
                missing |= {(place, name)} if function in ignored else set()
    assert {place for place, _ in missing} == {"Tensor"}
    assert not {name for _, name in missing} & {"add_", "detach", "expand", "copy_", "uniform_"}
    assert {torch.zeros, torch.is_tensor, torch.from_numpy} <= ignored and torch.Tensor.__setitem__ in listed


def test_stand_ins_have_the_signatures_of_what_they_stand_for():
    for function, stand_in in torch.overrides.get_testing_overrides().items():
        assert inspect.signature(function) == inspect.signature(stand_in)
        assert _asked(stand_in, inspect.signature(stand_in)) == -1
    with pytest.raises(TypeError):
        torch.overrides.get_testing_overrides()[torch.mm](1)


@pytest.mark.parametrize("written", [
    "T.neg(x, out=y)", "T.add(x, x, out=y)", "T.cumsum(x, 0, out=y)", "T.sum(x, 0, out=z)", "T.cat([x], out=y)",
    "T.std(x, 0, out=z)", "T.sort(x, 0, out=(y, n))", "T.where(x > 0, x, x, out=y)", "T.full((2, 2), 3.0, out=y)",
    "T.mm(x, x, out=y)",
])  # fmt: skip
def test_the_class_of_what_is_written_is_asked(written):
    told = []
    for library in (oracle, torch):
        seen = []

        class Noted(library.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None, seen=seen):
                seen.append((func.__name__, sorted(kwargs or {})))
                return super().__torch_function__(func, types, args, kwargs or {})

        y, z = (library.empty(shape).as_subclass(Noted) for shape in ((2, 2), (2,)))
        names = {"T": library, "x": library.eye(2), "y": y, "z": z, "n": library.empty((2, 2), dtype=library.int64)}
        result = eval(written, names)
        told.append(([*seen], y.tolist() if "out=z" not in written else z.tolist(), result is y, result is z))
    assert told[0] == told[1]


@pytest.mark.filterwarnings("ignore:Full backward hook")
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("written", [
    "Own.apply(v)[0]", "Own.apply(v, x)[0]", "Own.apply(x, v)[1]", "Own.apply(x, v)[0]", "Own.apply(p)[0]",
    "hooked(T.nn.Softmax(-1))(v)", "hooked(T.nn.Linear(2, 2))(v)", "hooked(T.nn.Identity())(x)",
])  # fmt: skip
def test_a_function_that_hands_on_its_input_keeps_its_class(written, recorded):
    """So do modules with backward hooks, which hang on such a function."""
    told = []
    for library in (oracle, torch):

        seen = []

        class Own(library.autograd.Function):
            @staticmethod
            def forward(ctx, *given):
                return given

            @staticmethod
            def backward(ctx, *grads):
                return grads

        class Named(library.Tensor):
            pass

        def hooked(module, seen=seen):
            module.register_full_backward_hook(lambda module, given, got: seen.append(type(given[0]).__name__))
            return module

        x = library.eye(2, requires_grad=recorded) * 1
        names = {"T": library, "Own": Own, "x": x, "v": x.as_subclass(Named), "p": library.nn.Parameter(x.detach())}
        result = eval(written, names | {"hooked": hooked})
        if result.requires_grad:
            result.sum().backward()
        told.append((type(result).__name__, result.requires_grad, result.is_leaf, seen))
    assert told[0] == told[1]


PROPERTIES = """shape ndim dtype device grad T mT H mH data is_leaf requires_grad grad_fn layout is_cuda itemsize nbytes
real is_meta output_nr _version retains_grad is_cpu""".split()
CALLS = """one.item()|float(one)|int(one)|bool(one)|range(5)[n]|x.size()|x.size(0)|x.numpy()|x.tolist()|x.numel()
x.dim()|x.stride()|x.storage_offset()|x.data_ptr()|x.is_contiguous()|x.element_size()|x.nelement()|x.ndimension()|len(x)
x.is_floating_point()|x.is_complex()|x.get_device()|x.untyped_storage()|repr(x)|str(x)|dir(x)|x.is_shared()
x.requires_grad_()|x.detach()|1.0 in x|reversed(x)|x.is_inference()|setattr(x, 'grad', None)|x.__array__()
setattr(x, 'requires_grad', False)|setattr(x, 'data', T.ones(2, 2))|T.numel(x)|T.is_floating_point(x)
T.result_type(x, x)|(x.requires_grad_() * 2).sum().backward()|T.Size(x.shape)|x.as_subclass(T.Tensor)|x.data.data
T.Tensor._make_subclass(type(x), T.ones(2))|x.register_hook(print) if x.requires_grad else None""".replace("\n", "|")


def _told(library, written, own):
    """Which functions a class is asked about in a call, and of which class the result is."""
    seen = []

    class Noted(library.Tensor):
        if own:

            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                seen.append(library.overrides.resolve_name(func).rpartition("Tensor.")[2].rpartition("torch.")[2])
                return super().__torch_function__(func, types, args, kwargs or {})

    numbers = {"x": library.eye(2), "one": library.tensor(3.0), "n": library.tensor(3)}
    names = {name: value.as_subclass(Noted) for name, value in numbers.items()}
    result = eval(written, {**names, "T": library})
    return type(result).__name__, [name.replace("plugrad.", "") for name in seen]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("written", [*CALLS.split("|"), *[f"x.{name}" for name in PROPERTIES]])
def test_classes_are_asked_about_methods_and_properties_as_in_pytorch(written, own):
    assert _told(torch, written, own) == _told(oracle, written, own)


def test_a_gradient_is_a_plain_tensor_and_data_of_the_class():
    for library in (oracle, torch):

        class Named(library.Tensor):
            pass

        x = library.ones(2).as_subclass(Named).requires_grad_()
        (x * 2).sum().backward()
        assert type(x.grad) is library.Tensor and type(x.data) is Named and x.data.tolist() == [1.0, 1.0]
        x.data = library.zeros(2)
        assert x.tolist() == [0.0, 0.0] and type(library.nn.Parameter(library.ones(1)).data) is library.Tensor


@pytest.mark.parametrize("library", [oracle, torch])
def test_what_a_class_defines_is_its_own(library):
    class Renamed(library.Tensor):
        shape = "of its own"

        def size(self):
            return "own", self.dim()

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__ if func is library.Tensor.dim else super().__torch_function__(func, types, args)

    x = library.ones(2).as_subclass(Renamed)
    assert (x.shape, x.size(), library.ones(2).dim()) == ("of its own", ("own", "dim"), 1)
