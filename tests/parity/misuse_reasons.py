"""Why another error than PyTorch's is right, or one where it has none, or none where it has one; `misuse` asks."""

from __future__ import annotations

import re

INTERNAL = (AttributeError, KeyError, UnboundLocalError, ZeroDivisionError, RecursionError, MemoryError, SystemError,
            AssertionError, NameError, StopIteration)  # fmt: skip


def is_internal(error) -> bool:
    """Whether an error says nothing of the arguments: it came up by chance from inside."""
    if isinstance(error, AssertionError) and str(error):
        return False  # as PyTorch's modules say what is wrong
    foreign = type(error).__module__.startswith("numpy") or "setting an array element" in str(error)
    return foreign or isinstance(error, INTERNAL)


# Why an error of another type, or an error where PyTorch has none, is right: each with the test by which it is known.
def says_the_argument(theirs, ours) -> bool:
    """We say which argument is of the wrong kind; PyTorch refuses the call, too, but meets something else first."""
    return theirs is not None and isinstance(ours, TypeError) and " must be " in str(ours)


FELL = re.compile(
    "Boolean value of Tensor|truth value of an|object is not (iterable|subscriptable|callable|reversible)|"
    "unsupported operand type|can only concatenate|(float|int)\\(\\) argument must be|must be real number|"
    "has no len\\(\\)|converted to Python scalars|interpreted as an integer|not supported between instances|"
    "object does not support|indices must be|"
    "attribute name must be string|can't multiply sequence|can't mod|unhashable|values to unpack|"
    "Tensor.__contains__ only supports|No module named|takes \\d+ positional argument|bad operand type"
)  # what Python or a tensor says when code goes on with a value that it never looked at


def met_by_chance(theirs, ours) -> bool:
    """PyTorch's Python code fell over the argument: an attribute, an item, an assertion; ours says what is wrong."""
    kinds = (AttributeError, AssertionError, IndexError, KeyError, RecursionError)
    foreign = type(theirs).__module__.startswith("numpy")
    fell = isinstance(theirs, kinds) or foreign or FELL.search(str(theirs))
    return bool(fell) and isinstance(ours, (TypeError, ValueError, RuntimeError)) and not FELL.search(str(ours))


def its_own_error(theirs, ours) -> bool:
    """The argument's own method raised, and its error is handed on."""
    return isinstance(ours, (RuntimeError, ValueError)) and str(ours).startswith(("asked for", "neither true nor"))


def other_dtypes(theirs, ours) -> bool:
    """PyTorch has no kernel for the dtype of one argument; ours says that the dtypes of two do not fit."""
    return more_kernels(None, theirs) and isinstance(ours, (RuntimeError, TypeError)) and "type" in str(ours)


def refused_when_made(theirs, ours) -> bool:
    """A layer or optimizer refuses wrong options when it is made, PyTorch's at its first use or never.

    Those with `made` or `stepped` make one and use it.
    """
    trace = ours.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_name != "__init__":
        trace = trace.tb_next
    return theirs is None and trace is not None and isinstance(ours, (TypeError, ValueError, AssertionError))


def array_in_place(theirs, ours) -> bool:
    """`x += array` is refused; PyTorch makes a new tensor, so that x is no longer the one that others hold."""
    return theirs is None and isinstance(ours, TypeError) and "not numpy.ndarray; write torch" in str(ours)


def absent(theirs, ours) -> bool:
    """An option that is not there says so."""
    return theirs is None and isinstance(ours, NotImplementedError) and "=True: " in str(ours)


def conversion(theirs, ours) -> bool:
    """A value that has no 64 bits, or whose own methods raise: PyTorch has ValueError, OverflowError or TypeError."""
    kinds = (ValueError, OverflowError, TypeError)
    return (
        isinstance(theirs, kinds)
        and isinstance(ours, kinds)
        and bool(re.search("verflow|too large|too big|__", str(theirs)))
    )


def takes_out(theirs, ours) -> bool:
    """Methods, too, take out=, and what is said is what is wrong with it."""
    return isinstance(theirs, TypeError) and bool(re.search(r"keyword argument 'out'|got \(out=", str(theirs)))


def flag_is_a_bool(theirs, ours) -> bool:
    """PyTorch's Python code takes anything for a flag or a word; here they are bools and strings everywhere."""
    return theirs is None and isinstance(ours, TypeError) and bool(re.search("must be (bool|str)", str(ours)))


def options_when_made(theirs, ours) -> bool:
    """An option of a loss that is of the wrong kind is refused when the module is made, not at its first call."""
    return theirs is None and isinstance(ours, TypeError) and "__init__(): argument" in str(ours)


def size_is_an_int(theirs, ours) -> bool:
    """An array of one element, a bool tensor and what PyTorch's Python code never looked at are no ints here."""
    return (
        theirs is None
        and isinstance(ours, TypeError)
        and bool(re.search("must be int.* not (ndarr|Ten|set|bool)", str(ours)))
    )


def hook_is_callable(theirs, ours) -> bool:
    """A hook that can't be called is refused when it is registered, not in the next backward."""
    return theirs is None and isinstance(ours, TypeError) and "hook must be callable" in str(ours)


def on_two_devices(theirs, ours) -> bool:
    """Tensors with and without data are not mixed here; PyTorch lets some through and returns what was in memory."""
    return "to be on the same device" in str(ours)


def out_of_range(theirs, ours) -> bool:
    """An index out of range is refused; PyTorch takes some modulo the size, and returns other elements."""
    return theirs is None and isinstance(ours, RuntimeError) and "is out of bounds for dimension" in str(ours)


def no_sound_result(theirs, ours) -> bool:
    """PyTorch's matrix exponential of half precision is not that: its elements are huge and of any sign."""
    return theirs is None and "linalg.matrix_exp: Low precision dtypes" in str(ours)


def word_when_given(theirs, ours) -> bool:
    """A word that a transform does not know is refused when the function is made, not at its first call."""
    return theirs is None and "Only allowed values for randomness" in str(ours)


def handed_on(theirs, ours) -> bool:
    """What PyTorch's Python code hands on without a look, or first looks at later, is refused where it is given."""
    words = r"must be (Tensor|Number), not|must return a list of \d+ rates|"
    words += r"autocast\(\): argument 'dtype'|weights_only must be|expected to return a Tensor or a"
    return theirs is None and isinstance(ours, TypeError) and bool(re.search(words, str(ours)))


def sparse_is_checked(theirs, ours) -> bool:
    """The indices of sparse tensors are always checked; PyTorch does that when it is asked to."""
    words = "_csr tensors have no batches|in col_indices and values must agree|inconsistent with indices|"
    words += "_csr tensors are matrices here|can't be cut into blocks"
    return theirs is None and bool(re.search(words, str(ours)))


def asked_of_the_argument(theirs, ours) -> bool:
    """PyTorch asked an odd object for more than ours does, and met the object's own error."""
    return str(theirs).startswith("asked for") and isinstance(ours, (TypeError, ValueError))


def own_option(theirs, ours) -> bool:
    """An option that PyTorch's function has not is given a wrong value."""
    unknown = isinstance(theirs, TypeError) and "unexpected keyword argument" in str(theirs)
    return unknown and isinstance(ours, (TypeError, ValueError)) and "unexpected keyword" not in str(ours)


def elements_overlap(theirs, ours) -> bool:
    """Elements that share memory are not written; PyTorch's methods that call Python write each several times."""
    return theirs is None and "more than one element of the written-to tensor" in str(ours)


REASONS = (
    own_option,
    elements_overlap,
    handed_on,
    sparse_is_checked,
    asked_of_the_argument,
    out_of_range,
    no_sound_result,
    word_when_given,
    options_when_made,
    on_two_devices,
    says_the_argument,
    met_by_chance,
    conversion,
    flag_is_a_bool,
    size_is_an_int,
    hook_is_callable,
    its_own_error,
    other_dtypes,
    absent,
    takes_out,
    array_in_place,
)
FOR_LAYERS = (refused_when_made,)


def errors_alike(theirs, ours) -> bool:
    """Whether an error is of the type of PyTorch's (None: it raised none), or differs for one of the reasons."""
    if theirs is not None and (
        isinstance(ours, type(theirs)) or "LinAlgError" in repr(theirs) and "LinAlg" in repr(ours)
    ):
        return True
    return not is_internal(ours) and any(reason(theirs, ours) for reason in REASONS)


# Why no error is right where PyTorch has one.
def more_kernels(case, theirs) -> bool:
    """PyTorch has no kernel or gradient for a dtype, no shape rule for tensors without data, or can't resize."""
    words = (
        "not implemented for",
        "attempted to run this operator with Meta tensors",
        "utograd not support dtype",
        "storage that is not resiz",
    )
    words += ("does not support automatic differentiation for outputs with complex dtype", "storage that is not resiz")
    return isinstance(theirs, RuntimeError) and any(text in str(theirs) for text in words)


def more_options(case, theirs) -> bool:
    """A documented option of ours that PyTorch's function or class has not."""
    return isinstance(theirs, TypeError) and any(
        f"unexpected keyword argument '{place}'" in str(theirs) for place, _ in case.changes
    )


def more_bits(case, theirs) -> bool:
    """A Python int of more than 64 bits is taken for the number that it is, where the result can hold it."""
    return bool(re.search("int too big|negative int to unsigned|Overflow when unpacking", str(theirs)))


def arrays(case, theirs) -> bool:
    """Functions made of others may take an array as the tensor that it stands for, or join one on their left."""
    words = r"not numpy\.|can't assign a numpy|'numpy.ndarray' and|NumPy ar"
    return isinstance(theirs, TypeError) and bool(re.search(words, str(theirs)))


def fails_inside(case, theirs) -> bool:
    """PyTorch fails over its own assumption: of gradients that are there, rows that are dense, views that exist."""
    words = r"nested_tensorlist\[0\]|X\.is_contiguous|INTERNAL ASSERT|view size is not compatible|`shifts` required"
    words += "|MKL FFT error"
    return isinstance(theirs, RuntimeError) and bool(re.search(words, str(theirs)))


def truth(case, theirs) -> bool:
    """A flag of autograd is true or false, whatever the int; PyTorch takes 1 and refuses 256."""
    return isinstance(theirs, OverflowError) and case.call.name.startswith("autograd.")


def more_in_files(case, theirs) -> bool:
    """Our own format holds NumPy's arrays and numbers, and memory formats, as what they are: nothing is unpickled."""
    return "Weights only load failed" in str(theirs) or "cannot pickle 'module'" in str(theirs)


MORE = (more_in_files, more_kernels, more_options, more_bits, arrays, fails_inside, truth)
