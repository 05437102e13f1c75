"""What plugins return that is no result is an error that names the record and whose it is, and says what to return."""

import numpy
import pytest

import plugrad as torch
from plugrad import registry
from plugrad.extend import LRScheduler, Optimizer, composite, factory, op, reduction, unary, view

X = torch.ones(2, 3)
WRONG = {
    "nothing": lambda a: None,
    "an array and nothing": lambda a: (a, None),
    "a list": lambda a: [a],
    "a tensor": lambda a: torch.ones(2),
    "a text": lambda a: "text",
    "a dict": lambda a: {"a": a},
    "objects": lambda a: numpy.array([None]),
    "texts": lambda a: numpy.array(["a"]),
    "a tuple in a tuple": lambda a: (a, (a,)),
    "a generator": lambda a: iter([a]),
}


def installed(install, record):
    install("plugrad-wrong", {"ops": [record]})
    return registry.op("wrong.seeded")


def refused(call, *words, error=TypeError):
    with pytest.raises(error) as caught:
        call()
    for word in ("wrong.seeded", "plugrad-wrong", *words):
        assert word in str(caught.value), str(caught.value)


def kernel(family, give):
    """Return a record of a family whose kernel gives something."""
    if family is reduction:
        return reduction(lambda xp, input, *, dim=None, keepdim=False: give(input), name="seeded", vjp=None)
    if family is factory:
        return factory(lambda xp, size: give(xp.ones(size)), name="seeded")
    return family(lambda xp, input: give(input), name="seeded", vjp=None)


@pytest.mark.parametrize("family", [op, unary, reduction, view, factory], ids=lambda family: family.__name__)
@pytest.mark.parametrize("wrong", WRONG)
def test_of_kernels(install, family, wrong):
    record = installed(install, kernel(family, WRONG[wrong]))
    given = (X, X.long(), X.half()) if family is not factory else (3,)
    for one in given:
        refused(lambda one=one: record(one), "kernel", "must return")


@pytest.mark.parametrize("give", [
    lambda a: a.numpy(), lambda a: (a, [a.numpy()]), lambda a: (row for row in a), lambda a: NotImplemented,
    lambda a: {"a": numpy.float64(1)},
])  # fmt: skip
@pytest.mark.parametrize("given", [X, X.as_subclass(type("Own", (torch.Tensor,), {}))], ids=["tensor", "subclass"])
def test_of_composites(install, give, given):
    record = installed(install, composite(name="seeded")(lambda F, input: give(input)))
    refused(lambda: record(given), "composite", "Tensors")


@pytest.mark.parametrize("right", [X, (X, 1), [X, None], {"x": X}, None, 2.5, X.shape, "text", torch.float64], ids=str)
def test_what_composites_may_return(install, right):
    record = installed(install, composite(name="seeded")(lambda F, input: right))
    assert record(X) is right


def test_of_kernels_with_several_results(install):
    record = installed(install, op(lambda xp, input: (input,), name="seeded", returns=("one", "two"), vjp=None))
    refused(lambda: record(X), "kernel", "returned 1", "tuple of 2")


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("wrong", [name for name in WRONG if name != "nothing"])
@pytest.mark.parametrize("family", [op, unary], ids=lambda family: family.__name__)
def test_of_gradient_formulas(install, family, wrong, recorded):
    record = family(lambda xp, input: input * 2, name="seeded")
    record.vjp(lambda F, g: WRONG[wrong](g))
    record = installed(install, record)
    x = torch.ones(2, 3, requires_grad=True)
    refused(lambda: record(x).sum().backward(create_graph=recorded), "input", error=RuntimeError)


META = {
    "nothing": lambda input: None, "a shape": lambda input: input.shape, "an int": lambda input: 3,
    "the wrong way round": lambda input: (input.dtype, input.shape),
    "PyTorch's dtype": lambda input: (input.shape, X.dtype),
    "a broken shape": lambda input: ((1.5,), input.dtype), "a negative shape": lambda input: ((-1,), input.dtype),
    "no dtype": lambda input: (input.shape, "nonsense"), "an array": lambda input: numpy.ones(2),
    "a text": lambda input: "text", "an empty tuple": lambda input: (), "objects": lambda input: (input.shape, "O"),
    "one more": lambda input: (input.shape, input.dtype, 3), "a list": lambda input: [input.shape, input.dtype],
}  # fmt: skip


@pytest.mark.parametrize("wrong", META)
def test_of_shape_rules(install, wrong):
    record = op(lambda xp, input: input * 2, name="seeded", vjp=None)
    record.meta(META[wrong])
    record = installed(install, record)
    refused(lambda: record(X.to("meta")), "shape rule", "(shape, dtype)")


@pytest.mark.parametrize("wrong", [name for name in WRONG if name not in ("nothing", "a list", "a tensor")])
def test_of_tangents(install, wrong):
    record = op(lambda xp, input: input * 2, name="seeded", like="input")
    record.jvp("input")(lambda F, tangent: WRONG[wrong](tangent))
    record = installed(install, record)
    refused(lambda: torch.func.jvp(record.function, (X,), (X,)), "jvp", "must return")


BATCHES = {name: WRONG[name] for name in WRONG if name != "an array and nothing"}
BATCHES |= {"no dim": lambda a: (a, "a"), "half a pair": lambda a: (a,), "another dim": lambda a: (a, (0, 1))}


@pytest.mark.parametrize("wrong", BATCHES)
def test_of_rules_for_batches(install, wrong):
    record = op(lambda xp, input: input * 2, name="seeded", like="input", vjp=None)
    record.vmap(lambda F, info, in_dims, input: BATCHES[wrong](input))
    record = installed(install, record)
    refused(lambda: torch.func.vmap(record.function)(torch.ones(4, 2, 3)), "vmap rule")


@pytest.mark.parametrize("place", [9, -4, 1])
def test_of_places_of_batches(install, place):
    record = op(lambda xp, input: input * 2, name="seeded", like="input", vjp=None)
    record.vmap(lambda F, info, in_dims, input: (input, place))
    record = installed(install, record)
    refused(lambda: torch.func.vmap(record.function)(torch.ones(4, 2, 3)), "batch of 4", error=ValueError)


# ---------------------------------------------------------------------------------------------------- optimizers


def optimizer(**members):
    def __init__(self, params, lr=0.1):
        Optimizer.__init__(self, params, {"lr": lr})

    return type("Seeded", (Optimizer,), {"__init__": __init__, **members})


def step(cls):
    parameter = torch.nn.Parameter(torch.ones(3))
    parameter.grad = torch.ones(3)
    cls([parameter]).step()
    return parameter.tolist()


def test_an_update_that_returns_what_it_should_write():
    with pytest.raises(TypeError, match=r"Seeded.update\(\) returned a ndarray.*into p"):
        step(optimizer(update=lambda self, xp, p, g, state, group: p - g))

    def update(self, xp, p, g, state, group):
        p -= g
        return p

    assert step(optimizer(update=update)) == [0.0] * 3


@pytest.mark.parametrize("slots", [None, ["m"], {"m": "text"}, {"m": None}])
def test_slots_that_are_no_dict_of_numbers_and_functions(slots):
    cls = optimizer(update=lambda self, xp, p, g, state, group: None, slots=lambda self, group: slots)
    with pytest.raises(TypeError, match=r"Seeded.slots\(\) returned .*must return a dict"):
        step(cls)


@pytest.mark.parametrize("rates", [None, 0.5, [], ["text"], [None], [1j], [0.5, 0.5]])
def test_rates_that_are_no_list_of_numbers(rates):
    cls = type("Seeded", (LRScheduler,), {"get_lr": lambda self: rates})
    with pytest.raises(TypeError, match=r"Seeded.get_lr\(\) must return a list of 1 rates"):
        cls(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
