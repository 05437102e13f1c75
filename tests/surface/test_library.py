"""Ops that a program defines under PyTorch's names: calls, gradients, shapes, other devices, and what is refused."""

import uuid
from collections.abc import Sequence

import numpy
import pytest

import plugrad as torch
from plugrad import Tensor, registry
from plugrad.library import Library, OpCheckError, custom_op, opcheck


def cube(x: Tensor, factor: float = 1.0) -> Tensor:
    """The third power, by NumPy, which autograd can't look into."""
    return torch.from_numpy(factor * x.detach().numpy() ** 3)


def saves(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])
    ctx.factor = inputs[1]


def cube_backward(ctx, grad):
    return grad * ctx.factor * 3 * ctx.saved_tensors[0] ** 2, None


@pytest.fixture
def name():
    return f"tests::op_{uuid.uuid4().hex[:8]}"


def test_a_custom_op_with_its_gradients(name):
    op = custom_op(name, cube, mutates_args=())
    op.register_autograd(cube_backward, setup_context=saves)
    op.register_fake(lambda x, factor=1.0: torch.empty_like(x))
    x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(op, (x, 2.0)) and torch.autograd.gradgradcheck(op, (x,))
    public = getattr(torch.ops.tests, name.partition("::")[2])
    assert torch.equal(public(x, factor=3.0), 3 * x**3) and torch.equal(public.default(x), x**3)
    assert op(torch.ones(2, 3, device="meta")).shape == (2, 3)
    assert set(opcheck(op, (x,)).values()) == {"SUCCESS"}
    record = registry.op(f"session.{name.replace('::', '_')}")
    assert torch.equal(record.function(x), x**3) and record.doc.startswith("The third power")


def test_lists_of_tensors_and_several_results(name):
    @custom_op(name, mutates_args=())
    def both(xs: Sequence[Tensor], n: int) -> tuple[Tensor, Tensor]:
        return xs[0] * n, xs[1].clone()

    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="no autograd formula was registered"):
        both([x, x], 3)[0].sum().backward()
    both.register_autograd(lambda ctx, a, b: ([3 * a, b], None))
    a, b = both([x, 2 * x], 3)
    (a.sum() + b.sum()).backward()
    assert x.grad.tolist() == [5.0, 5.0]


def test_an_op_that_writes(name):
    @custom_op(name, mutates_args={"x"})
    def add_to(x: Tensor, y: Tensor) -> None:
        x.add_(y)

    x = torch.zeros(2)
    assert add_to(x, torch.ones(2)) is None and x.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="writes to its arguments"):
        add_to.register_autograd(lambda ctx, grad: grad)
    assert opcheck(add_to, (x, x.clone()), test_utils="test_schema") == {"test_schema": "SUCCESS"}


def test_opcheck_notices(name):
    @custom_op(name, mutates_args=())
    def writes(x: Tensor) -> Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(OpCheckError, match="not defined as mutable but was mutated"):
        opcheck(writes, (torch.ones(2),), test_utils="test_schema")
    writes.register_fake(lambda x: x.new_empty(3))
    writes.register_autograd(lambda ctx, grad: 2 * grad)
    x = torch.ones(2, requires_grad=True)
    failed = opcheck(writes, (x,), raise_exception=False)
    assert "returns" in str(failed["test_faketensor"]) and failed["test_autograd_registration"] == "SUCCESS"
    assert isinstance(failed["test_aot_dispatch_dynamic"], Exception)


def test_libraries(name):
    home, _, own = name.partition("::")
    library = Library(home, "FRAGMENT")
    assert library.define(f"{own}(Tensor x, int n=2) -> Tensor") == own
    public = getattr(torch.ops.tests, own)
    with pytest.raises(NotImplementedError, match="Could not run"):
        public(torch.ones(2))

    @torch.library.impl(library, own, "CompositeImplicitAutograd")
    def times(x, n=2):
        return x * n

    x = torch.ones(2, requires_grad=True)
    assert public(x).requires_grad and public(x, n=5).tolist() == [5.0, 5.0]
    torch.library.impl(name, "cpu", lambda x, n=2: x.clone())
    library._destroy()
    with pytest.raises(AttributeError, match="no attribute"):
        getattr(torch.ops.tests, own)


def test_ops_of_plugrad_by_their_names_there():
    x = torch.tensor([4.0])
    assert torch.ops.aten.sqrt.default(x) == torch.ops.aten.add.Tensor(x, -2) == 2
    assert torch.equal(torch.ops.aten.slice_copy(torch.arange(4), 0, 1, 3), torch.tensor([1, 2]))
    images = torch.ones(2, 3, 4, 4).to(memory_format=torch.channels_last)
    assert torch.ops.aten.slice_copy(images, 0, 0, 1).is_contiguous()
    with pytest.raises(AttributeError, match="'aten' object has no attribute 'no_such_op'"):
        torch.ops.aten.no_such_op  # noqa: B018


@pytest.mark.parametrize(
    ("define", "error", "text"),
    [
        (lambda: custom_op("bare", cube, mutates_args=()), ValueError, "namespace::name"),
        (lambda: custom_op("aten::own", cube, mutates_args=()), ValueError, "reserved"),
        (lambda: custom_op("tests::bad", lambda x: x, mutates_args=()), ValueError, "must have a type annotation"),
        (lambda: custom_op("tests::bad", cube, mutates_args={"z"}), ValueError, "were not found"),
        (lambda: torch.library.define("tests::bad", "Tensor x"), RuntimeError, "can't be read"),
        (lambda: torch.library.register_fake("tests::absent", cube), RuntimeError, "there is no op"),
        (lambda: Library("tests", "OTHER"), ValueError, "Unsupported library type"),
        (lambda: Library("aten", "DEF"), RuntimeError, "reserved"),
        (lambda: torch.library.triton_op("tests::bad", cube, mutates_args=()), NotImplementedError, "CuPy"),
    ],
)
def test_what_is_refused(define, error, text):
    with pytest.raises(error, match=text):
        define()


def test_wrong_calls(name):
    op = custom_op(name, cube, mutates_args=())
    for call in (lambda: op(), lambda: op(3), lambda: op(torch.ones(2), 1.0, 2)):
        with pytest.raises(RuntimeError, match=name):
            call()
    alias = custom_op(f"{name}_same", lambda x: x, mutates_args=(), schema="(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="must not also be an input"):
        alias(torch.ones(2))
    assert isinstance(op(torch.ones(2)).numpy(), numpy.ndarray)
