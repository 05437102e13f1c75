"""What autograd refuses: the type and the leading words of PyTorch's errors and warnings."""

import re
import uuid
import warnings

import pytest

import plugrad
import plugrad.utils.checkpoint
from plugrad import backends

torch = pytest.importorskip("torch")

SCALAR = ("hessian", "vhp", "hvp")
PRODUCTS = ("vjp", "jvp", "vhp", "hvp")


def leaf(T):
    return T.tensor([1.0, 2.0], requires_grad=True)


def of_functional(name):
    """Yield the words of an error of `autograd.functional`, and a call that raises it."""
    own = (lambda x: (x**3).sum()) if name in SCALAR else (lambda x: x**3)
    vector = (lambda T: (T.ones(2),)) if name in PRODUCTS else (lambda T: ())
    call = lambda T, *args, **options: getattr(T.autograd.functional, name)(*args, **options)  # noqa: E731
    strict = lambda T, f: call(T, f, T.ones(2), *vector(T), strict=True)  # noqa: E731
    yield f"The inputs given to {name} must be either a Tensor", lambda T: call(T, own, 1)
    yield "but the value at index 1 has type <class 'int'>", lambda T: call(T, own, (T.ones(2), 1))
    outputs = f"outputs of the user-provided function given to {name} must"
    yield outputs, lambda T: call(T, lambda x: 1, T.ones(2), *vector(T))
    constant = "Output 0 of the user-provided function does not require gradients."
    yield constant, lambda T: strict(T, lambda x: T.ones(() if name in SCALAR else 2))
    if name in SCALAR:
        yield "with respect to input 0 is independent of the input", lambda T: strict(T, lambda x: x.sum())
    if name in PRODUCTS:
        yield "v has invalid size: should be torch.Size([2])", lambda T: call(T, own, T.ones(2), T.ones(3))
        yield f"The v given to {name} must be either", lambda T: call(T, own, T.ones(2), (T.ones(2), 2))
        whose = "the user-provided function returns" if name == "vjp" else "the input to the user-provided function is"
        yield f"The vector v can only be None if {whose}", lambda T: call(T, own, T.ones(2))


def detached_data(T, value):
    x = leaf(T)
    x.data = value


def edge_and_materialize(T):
    x = leaf(T)
    edge = T.autograd.graph.get_gradient_edge(x * 2)
    T.autograd.grad((x * 3).sum(), (x, edge), allow_unused=True, materialize_grads=True)


def writing_pack_hook(T):
    with T.autograd.graph.saved_tensors_hooks(lambda x: x.add_(1), lambda x: x):
        leaf(T).exp()


def checkpoint_of_nothing(T):
    T.utils.checkpoint.checkpoint(lambda x: x.detach(), leaf(T), use_reentrant=True).sum().backward()


def two_backwards(T):
    class Both(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def vjp(ctx, g):
            return g

    Both.apply(leaf(T)).sum().backward()


MISTAKES = [
    *[pair for name in ("vjp", "jvp", "jacobian", "hessian", "vhp", "hvp") for pair in of_functional(name)],
    ("Output 0 of the user-provided function is independent of input 1", lambda T: T.autograd.functional.jacobian(
        lambda x, y: x * 2, (T.ones(2), T.ones(2)), strict=True)),
    ("cannot be empty", lambda T: T.autograd.grad(leaf(T).sum(), [])),
    ("materialize_grads cannot be used when the given input is a GradientEdge", edge_and_materialize),
    ("have incompatible tensor type", lambda T: detached_data(T, T.eye(2).to_sparse())),
    ("must be floating point or complex dtype", lambda T: detached_data(T, T.tensor([1, 2]))),
    ("A saved tensor pack hook is modifying its input in place.", writing_pack_hook),
    ("none of output has requires_grad=True", checkpoint_of_nothing),
    ("Implementing both 'backward' and 'vjp'", two_backwards),
]  # fmt: skip


@pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])
def test_errors_have_pytorchs_type_and_words(library):
    library.autograd.graph, library.autograd.functional  # noqa: B018
    for words, call in MISTAKES:
        kind = TypeError if "must be either" in words or "at index" in words or "given to" in words else RuntimeError
        with pytest.raises(kind, match=re.escape(words)):
            call(library)


def test_data_takes_another_floating_dtype():
    for library in (torch, plugrad):
        x = library.ones(2, requires_grad=True)
        x.data = library.ones(3, dtype=library.float64)
        assert x.dtype is library.float64 and tuple(x.shape) == (3,) and x.requires_grad


def warned(library, call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return len(caught)


@pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])
def test_what_is_said_once_is_said_each_time_if_that_is_asked_for(library):
    def call():
        x = library.ones(2, requires_grad=True)
        x.sum().backward(create_graph=True)

    assert library.is_warn_always_enabled() is False
    library.set_warn_always(True)
    try:
        assert library.is_warn_always_enabled() and [warned(library, call), warned(library, call)] == [1, 1]
    finally:
        library.set_warn_always(False)
    assert [warned(library, call), warned(library, call)][1] == 0
    with pytest.raises(RuntimeError, match="expects a bool, but got str"):
        library.set_warn_always("yes")


def test_a_warning_is_given_once_for_each_key():
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    counts = [warned(plugrad, lambda key=key: backends.warn_once(key, "text")) for key in (one, two, one)]
    assert counts == [1, 1, 0]


@pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])
def test_a_mark_on_what_was_no_input_is_warned_of(library):
    class Marks(library.autograd.Function):
        @staticmethod
        def forward(ctx, x, own):
            y = x + 1 if own else x.add_(1)
            ctx.mark_dirty(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g, None

    for own in (True, False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Marks.apply(library.ones(2, requires_grad=True) * 1, own)
        assert len(caught) == own and all("a tensor that was not an input" in str(w.message) for w in caught)


@pytest.mark.parametrize("library", [torch, plugrad], ids=["torch", "plugrad"])
def test_setup_context_sees_defaults_of_forward(library):
    class Power(library.autograd.Function):
        @staticmethod
        def forward(x, exponent=3, scale=1):
            return scale * x**exponent

        @staticmethod
        def setup_context(ctx, inputs, output):
            x, ctx.exponent, ctx.scale = inputs
            ctx.save_for_backward(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * ctx.scale * ctx.exponent * x ** (ctx.exponent - 1), None, None

    for arguments, slope in (((), 12.0), ((2,), 4.0), ((2, 5), 20.0)):
        x = library.tensor(2.0, requires_grad=True)
        Power.apply(x, *arguments).backward()
        assert x.grad.item() == slope


def read_twice(T, clears):
    """What a Function sees of what it saved when it reads that twice in backward."""
    seen = []

    class Reads(T.autograd.Function):
        clear_saved_tensors_on_access = clears

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            for _ in range(2):
                seen.append(len(ctx.saved_tensors))
            return g

    y = Reads.apply(leaf(T)).sum()
    for _ in range(2):
        try:
            y.backward(retain_graph=True)
        except RuntimeError as error:
            seen.append(str(error)[:60])
    return seen


@pytest.mark.parametrize("clears", [False, True])
def test_a_function_may_forget_what_it_saved_once_that_was_read(clears):
    assert read_twice(plugrad, clears) == read_twice(torch, clears)


@pytest.mark.parametrize("result", [None, 3, "a", {"a": 1}], ids=repr)
def test_a_function_may_return_no_tensor(result):
    for T in (torch, plugrad):
        class Returns(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return result

        assert Returns.apply(leaf(T)) == Returns.apply(T.ones(2)) == result


@pytest.mark.parametrize("answer", [3, "a", (1,), "a tensor"], ids=repr)
def test_hooks_after_accumulation_return_nothing(answer):
    errors = []
    for T in (torch, plugrad):
        x = leaf(T)
        x.register_post_accumulate_grad_hook(lambda x: x.detach() if answer == "a tensor" else answer)
        with pytest.raises((RuntimeError, TypeError)) as raised:
            x.sum().backward()
        errors.append((raised.type, str(raised.value)[:30]))
    assert errors[1] == errors[0]


def test_views_made_in_a_mode_say_in_which():
    for name in ("no_grad", "inference_mode"):
        errors = []
        for T in (torch, plugrad):
            x = T.ones(2)
            with getattr(T, name)():
                view = x[:1]
            with pytest.raises(RuntimeError) as raised:
                view.mul_(T.ones(1, requires_grad=True))
            errors.append(str(raised.value)[:75])
        assert errors[1] == errors[0]
