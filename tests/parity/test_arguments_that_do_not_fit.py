"""What calls with arguments that do not fit say, and calls at the edges that are right, beside PyTorch."""

from __future__ import annotations

import io

import numpy
import pytest

import plugrad

torch = pytest.importorskip("torch")


def outcome(use, library):
    try:
        return use(library), ""
    except Exception as error:
        return type(error), str(error)


WRONG = {
    **{
        f"addcdiv of {numerator} and {denominator}": (
            lambda lib, one=numerator, other=denominator: lib.addcdiv(
                lib.ones(2), lib.ones(2).to(getattr(lib, one)), lib.ones(2).to(getattr(lib, other))
            ),
            "Integer division with addcdiv is no longer supported",
        )
        for numerator, denominator in (("int64", "int64"), ("bool", "uint8"), ("bool", "bool"))
    },
    "addcdiv of integers in place": (
        lambda lib: lib.ones(2).addcdiv_(lib.tensor(2), lib.tensor(3)),
        "Integer division with addcdiv is no longer supported",
    ),
    "a list of addcdiv": (
        lambda lib: lib._foreach_addcdiv([lib.ones(2)], [lib.arange(2)], [lib.arange(2)]),
        "Integer division with addcdiv is no longer supported",
    ),
    **{
        f"numbers of addcmul {what}": (
            lambda lib, make=make: lib._foreach_addcmul(*[[lib.ones(2)] * 2] * 3, make(lib)),
            expected,
        )
        for what, expected, make in (
            ("without dimensions", "dimension 1", lambda lib: lib.tensor(1.0)),
            ("in a matrix", "dimension 1", lambda lib: lib.ones(1, 2)),
            ("apart", "contiguous", lambda lib: lib.ones(4)[::2]),
        )
    },
    "weights of lerp in a tensor": (
        lambda lib: lib._foreach_lerp([lib.ones(2)] * 2, [lib.ones(2)] * 2, lib.ones(2)),
        "invalid combination of arguments",
    ),
    "a mask among losses": (lambda lib: lib.nn.functional.l1_loss(lib.ones(2) > 0, lib.ones(2)), "with a bool tensor"),
    "bins that are a module": (lambda lib: lib.histogram(lib.ones(2), lib), "histogram"),
    "a mode that is a tensor of bool": (
        lambda lib: lib.grid_sampler(lib.ones(1, 2, 3, 4), lib.ones(1, 1, 1, 2), lib.tensor(True), 0, False),
        "'interpolation_mode' .position 3. must be int",
    ),
    "a device that is a list": (lambda lib: lib.testing.make_tensor(2, dtype=lib.float32, device=[1]), "list"),
    "a device's number that is a bool": (lambda lib: lib.device("cpu", False), "device"),
    "a protocol that is a list": (
        lambda lib: lib.save(lib.ones(2), io.BytesIO(), pickle_protocol=[1]),
        "cannot be interpreted as an integer",
    ),
    "an option that tensors are not made with": (lambda lib: lib.Tensor([1.0], requires_grad=True), "new"),
    "another name of sizes": (lambda lib: lib.Tensor(2, 3, unknown=1), "invalid combination of arguments"),
    "variances that are integers": (
        lambda lib: lib.nn.functional.gaussian_nll_loss(lib.ones(2), lib.ones(2), lib.ones(2).long()),
        "can't be cast to the desired output type",
    ),
    "diff of other sizes": (lambda lib: lib.diff(lib.ones(2, 3), prepend=lib.ones(4, 3)), "differencing dimension"),
    "diff, appended": (lambda lib: lib.diff(lib.ones(2, 3), dim=0, append=lib.ones(2, 4)), r"tensor.size\(1\) = 4"),
    "a storage of another type": (lambda lib: lib.ones(2).set_(lib.arange(2).storage()), "Expected a Storage of type"),
    "text in a tensor": (lambda lib: "a" in lib.ones(2), "you passed in a <class 'str'>"),
    "no subclass": (lambda lib: lib.ones(2).as_subclass(int), "from a class that does not inherit from Tensor"),
    "indices of int32": (
        lambda lib: lib.take_along_dim(lib.ones(2), lib.ones(2).int(), 0),
        "dtype of indices should be Long",
    ),
    "an index that has any attribute": (lambda lib: lib.ones(2)[lib], "are valid indices"),
    "batches of no matrices": (
        lambda lib: lib.linalg.solve_ex(lib.ones(0, 3, 3), lib.ones(2, 2, 3), left=False),
        "must match the size of tensor b",
    ),
    "equations of other batches": (
        lambda lib: lib.linalg.solve(lib.ones(2, 3, 3), lib.ones(4, 3, 1)),
        "must match the size",
    ),
    "running_mean of another size": (
        lambda lib: lib.nn.functional.batch_norm(lib.ones(4, 3), lib.ones(6), None, training=True),
        "running_mean should contain 3 elements not 6",
    ),
    "no running_var": (
        lambda lib: lib.nn.functional.batch_norm(lib.ones(4, 3), lib.ones(3), None),
        "running_var must be defined in evaluation mode",
    ),
    "running_var of another size": (
        lambda lib: lib.nn.functional.instance_norm(lib.ones(2, 3, 4), None, lib.ones(6)),
        "running_var should contain",
    ),
    "many scales in a tensor": (lambda lib: lib.nn.Upsample(scale_factor=lib.ones(2)), "Boolean value of Tensor"),
    "no scales in a tensor": (lambda lib: lib.nn.Upsample(scale_factor=lib.ones(0)), "Boolean value of Tensor"),
    "a cotangent that is no tensor": (
        lambda lib: lib.func.vjp(lambda a: a * 2, lib.ones(2))[1](lib.int64),
        "gradients can be either Tensors or None, but got dtype",
    ),
    "log probabilities of bools": (
        lambda lib: lib.nn.functional.nll_loss(lib.ones(2, 3, dtype=lib.bool), lib.tensor([0, 1])),
        "not implemented for '",
    ),
    "log probabilities of ints": (
        lambda lib: lib.nn.functional.nll_loss(lib.ones(2, 3).long(), lib.tensor([0, 1])),
        "not implemented for '",
    ),
    "a number of NumPy's for a tensor": (
        lambda lib: lib.testing.assert_close(lib.ones(2), numpy.float32(1)),
        "No comparison pair was able to handle",
    ),
    "groups of other channels": (
        lambda lib: lib.native_group_norm(lib.ones(2, 4, 3), lib.ones(4), None, 2, 2, 3, 2, 1e-5),
        "Expected weight to be a vector of size equal to the number of channels",
    ),
    "groups of more elements": (
        lambda lib: lib.native_group_norm(lib.ones(2, 4, 3), None, None, 2, 4, 1 << 40, 2, 1e-5),
        "HxW",
    ),
    "scales of another size": (
        lambda lib: lib.ormqr(lib.ones(4, 3), lib.ones(2), lib.ones(4, 2)),
        "must be equal to min",
    ),
    "scales of no reflections": (
        lambda lib: lib.ormqr(lib.ones(4, 3), lib.ones(1), lib.ones(2, 4), False, True),
        "must be equal to min",
    ),
    "indices of uint8": (lambda lib: lib.take_along_dim(lib.ones(2), lib.ones(2).byte(), 0), "dtype of indices"),
}


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("case", WRONG)
def test_arguments_that_do_not_fit_are_refused_in_the_same_words(case):
    use, words = WRONG[case]
    (theirs, _), (ours, _) = outcome(use, torch), outcome(use, plugrad)
    assert ours is theirs
    for library in (torch, plugrad):
        with pytest.raises(theirs, match=words):
            use(library)


def test_the_bias_of_conv_tbc_may_be_of_another_type():
    for dtype in ("uint8", "float64", "int64"):
        found = [
            lib.conv_tbc(lib.ones(5, 2, 3), lib.ones(3, 3, 2), lib.tensor([1, 2], dtype=getattr(lib, dtype)), 1)
            for lib in (torch, plugrad)
        ]
        assert found[0].tolist() == found[1].tolist() and str(found[0].dtype) == str(found[1].dtype)


def test_arrays_of_other_things_are_no_operands():
    for array in (numpy.array(["a", "b"]), numpy.array([None, None])):
        for library in (torch, plugrad):
            assert not numpy.any(library.ones(2) == array) and numpy.all(library.ones(2) != array)
    for number in (numpy.datetime64("2020"), numpy.str_("a")):
        for library in (torch, plugrad):
            assert (library.ones(2) == number) is False and (library.ones(2) != number) is True


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_of_no_rows_gives_no_rows(replacement):
    for library in (torch, plugrad):
        drawn = library.multinomial(library.ones(0, 3), 2, replacement=replacement)
        assert tuple(drawn.shape) == (0, 2) and drawn.dtype is library.int64


@pytest.mark.parametrize("replacement", [True, False])
def test_multinomial_of_more_categories_than_a_float_can_count(replacement):
    for library in (torch, plugrad):
        with pytest.raises(RuntimeError, match="number of categories cannot exceed"):
            library.multinomial(library.zeros(1).expand(2**24 + 1), 3, replacement)


def test_new_takes_its_size_by_name():
    for library in (torch, plugrad):
        tensor = library.ones(2).double().new(size=(2, 3))
        assert tuple(tensor.shape) == (2, 3) and tensor.dtype is library.float64
    with pytest.raises(TypeError, match="not both"):
        plugrad.ones(2).new(2, size=(3,))


@pytest.mark.parametrize("value", [1.5, [1.5], 1, True])
@pytest.mark.parametrize("index", ["mask", "row"])
def test_one_value_put_at_a_mask_may_be_of_another_type(value, index):
    def put(lib):
        x = lib.arange(6.0, dtype=lib.float64).reshape(2, 3).requires_grad_()
        value_ = lib.tensor(value)
        value_ = value_.requires_grad_() if value_.is_floating_point() else value_
        result = x.index_put([x > 1 if index == "mask" else lib.tensor([True, False])], value_)
        result.square().sum().backward()
        return [result.tolist(), str(result.dtype), x.grad.tolist(), value_.requires_grad and value_.grad.tolist()]

    assert put(plugrad) == put(torch)
    with pytest.raises(RuntimeError, match="source and destination dtypes match"):
        plugrad.zeros(2).index_put([plugrad.tensor([True, True])], plugrad.ones(2, dtype=plugrad.float64))


def test_arguments_of_functions_may_be_nested_deeply():
    def nested(lib, depth):
        class Doubled(lib.autograd.Function):
            @staticmethod
            def forward(ctx, x, data):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2, None

        data = [1.0]
        for _ in range(depth):
            data = [data]
        data.append(data)
        x = lib.ones(2, requires_grad=True)
        Doubled.apply(x, data).sum().backward()
        return x.grad.tolist()

    assert nested(plugrad, 5000) == nested(torch, 5000)


def test_views_of_other_dtypes_are_copied():
    for lib in (torch, plugrad):
        x = lib.arange(4.0)
        assert lib.view_copy(x, lib.int32).dtype is lib.int32
        assert lib.view_copy(x.view(2, 2).t(), size=(4,)).tolist() == [0, 2, 1, 3]
    assert plugrad.UntypedStorage(plugrad.tensor(3)).size() == torch.UntypedStorage(torch.tensor(3)).size() == 3
