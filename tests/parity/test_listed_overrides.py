"""What PyTorch lists as overridable, function by function: a class that overrides ops is asked here, too."""

import functools
import inspect

import pytest

import plugrad as torch

oracle = pytest.importorskip("torch")

# Methods and properties of Tensor that PyTorch asks classes about, and plugrad does not: why.
NOT_ASKED = {
    "__reduce_ex__": "a pickle is of what it reads of the tensor, and asks about that",
    "_is_view": "the core asks it of every tensor",
    "_grad": "it is where `.grad` lies, which is asked about",
    **dict.fromkeys(
        """is_ipu is_maia is_mkldnn is_mps is_mtia is_nested is_quantized is_sparse is_sparse_csr is_vulkan is_xla
        is_xpu name volatile""".split(),
        "it is the same for all tensors of a class, and stands in that: a class that says else defines it",
    ),
}


class Answer:
    """What the class gives when it is asked."""


def asked(library):
    """Return a tensor of a class that is asked, and notes about what, in `told`."""

    class Asked(library.Tensor):
        told: list = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.told.append(func.__name__)
            return Answer()

    return library.ones(2, 2).as_subclass(Asked)


def _listed():
    """Yield the names that PyTorch lists as overridable, and are here, with both functions and PyTorch's signature."""
    ignored = oracle.overrides.get_ignored_functions()
    for function, stand_in in oracle.overrides.get_testing_overrides().items():
        name = (oracle.overrides.resolve_name(function) or "").removeprefix("torch.")
        if not name or function in ignored or name.startswith(("_C.", "ops.")):
            continue
        own = name.removesuffix(".__get__").removesuffix(".__set__")
        try:
            ours = functools.reduce(getattr, own.split("."), torch)
        except AttributeError:
            continue  # tests of what there is say why
        if not getattr(ours, "_is_absent", False):
            yield name, function, ours, inspect.signature(stand_in)


def _arguments(signature, x):
    """Return what a call needs, tensors of the class all of them."""
    args, kwargs = [], {}
    for parameter in signature.parameters.values():
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD
        if needed and parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = x
        elif needed:
            args.append([x, x] if parameter.name == "tensors" and parameter.kind is not parameter.VAR_POSITIONAL else x)
    return args, kwargs


def _answer(name, ours, signature, x):
    """Return what a class that is asked makes of one use, or the error of it; and how often it was asked."""
    args, kwargs = _arguments(signature, x)
    type(x).told.clear()
    try:
        if name.endswith("__get__"):
            result = getattr(x, name.split(".")[1])
        elif name.startswith("Tensor."):
            result = getattr(x, name.split(".")[1])(*args[1:], **kwargs)
        else:
            result = ours(*args, **kwargs)
    except Exception as error:
        result = error
    return result, len(type(x).told)


@pytest.mark.filterwarnings("ignore")
def test_classes_are_asked_about_all_that_pytorch_lists():
    """Once, before anything else; but for what is listed above."""
    there, x = asked(oracle), asked(torch)
    seen, wrong, listed = 0, {}, set()
    for name, theirs, ours, signature in _listed():
        if not isinstance(_answer(name, theirs, signature, there)[0], Answer):
            continue  # the signature is not that of the function
        result, count = _answer(name, ours, signature, x)
        seen += 1
        own = name.split(".")[1] if name.startswith("Tensor.") else None
        if isinstance(result, NotImplementedError) and not count:  # a form of the name that has no function here
            continue
        if not isinstance(result, Answer) or count != 1:
            listed.add(own) if own in NOT_ASKED else wrong.update({name: (result, type(x).told[:3])})
    assert seen > 1000 and not wrong
    assert listed == {*NOT_ASKED}


def test_methods_that_are_looked_up_late_are_tensors_own():
    x = asked(torch)
    assert type(x).values is torch.Tensor.values and type(x).is_conj is torch.Tensor.is_conj
    with torch.overrides.DisableTorchFunctionSubclass():
        assert x.is_conj() is False and x.dim_order() == (0, 1)
    assert x.is_same_size.__name__ == "is_same_size" and isinstance(x.is_conj(), Answer)
