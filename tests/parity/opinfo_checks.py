"""The checks that one entry of op_db undergoes: results, gradients, variants, errors."""

from __future__ import annotations

import contextlib
import functools
import itertools

import numpy as np
import opinfo_binding as binding
import torch
from opinfo_compare import Mismatch, compare
from opinfo_convert import (
    Converter,
    Unconvertible,
    check_convertible,
    dtype_name,
    make_tensor,
    to_numpy,
)
from opinfo_report import (
    Guard,
    Report,
    TimeLimit,
    TorchRaises,
    brief,
    reference,
    time_limit,
)

# Factors of a decomposition are unique only up to sign or phase: what the entry says about gradients
# (`output_process_fn_grad`, often an absolute value) also decides whether two results are the same.
AMBIGUOUS = {"linalg.eig", "linalg.eigh", "linalg.svd", "svd", "svd_lowrank", "pca_lowrank", "geqrf"}


class Call:
    """A sample's arguments as tensors of one library, fresh for one call."""

    def __init__(self, library, sample) -> None:
        convert = Converter(library)
        self.input = convert(sample.input)
        self.args = convert(sample.args)
        self.kwargs = convert(sample.kwargs)
        self.leaves = convert.leaves

    def arguments(self):
        return (self.input, self.args, self.kwargs)

    def __call__(self, function):
        return function(self.input, *self.args, **self.kwargs)


def tensors_in(value):
    """Every tensor in a nest of tuples, lists and dicts."""
    if hasattr(value, "detach"):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def cotangents(library, outputs, seed: int):
    """A random tensor like each output; equal numbers in every library."""
    random = np.random.RandomState(seed)
    tensors = []
    for output in outputs:
        values = random.standard_normal(tuple(output.shape))
        if output.is_complex():
            values = values + 1j * random.standard_normal(tuple(output.shape))
        tensors.append(make_tensor(library, torch.tensor(values).to(getattr(torch, dtype_name(output)))))
    return tensors


def first_gradients(library, call: Call, outputs):
    """Gradients of the outputs for the call's leaves; the formulas run on plain arrays."""
    return library.autograd.grad(
        outputs, call.leaves, cotangents(library, outputs, 1), allow_unused=True, retain_graph=True
    )


def both_gradients(library, call: Call, outputs):
    """First gradients made with create_graph, and gradients of those for the leaves and the cotangents."""
    given = [tensor.requires_grad_() for tensor in cotangents(library, outputs, 1)]
    first = library.autograd.grad(outputs, call.leaves, given, allow_unused=True, create_graph=True)
    outputs = [gradient for gradient in first if gradient is not None and gradient.requires_grad]
    if not outputs:
        return first, ()
    second = library.autograd.grad(
        outputs, [*call.leaves, *given], cotangents(library, outputs, 2), allow_unused=True
    )
    return first, second


class Checker:
    """Runs the checks of one op_db entry, PyTorch against `target`, into a Report."""

    def __init__(self, op, target, *, limit: int | None = None, seconds: float = 10.0) -> None:
        self.op = op
        self.target = target
        self.limit = limit
        self.seconds = seconds
        self.report = Report(op_key(op))
        self.functions = {library: binding.bind(op, library) for library in (torch, target)}

    def run(self, dtypes) -> Report:
        self.check_names()
        for dtype in dtypes:
            if dtype in self.op.supported_dtypes("cpu"):
                self.check_dtype(dtype)
        self.check_errors()
        return self.report

    def check_dtype(self, dtype) -> None:
        differentiable = self.op.supports_autograd and dtype in self.op.supported_backward_dtypes("cpu")
        samples = self.generated(
            lambda: self.op.sample_inputs("cpu", dtype, requires_grad=differentiable), self.limit
        )
        for index, sample in enumerate(samples):
            with self.guarded("value", f"{dtype_name_of(dtype)} sample {index}: ", count=True) as guard:
                self.check_sample(sample, dtype, guard, first=index == 0)

    def generated(self, generate, limit) -> list:
        """What PyTorch's generator yields; nothing where it fails, say for want of a package."""
        try:
            return spread(generate(), limit)
        except Exception as error:
            self.report.skips(f"PyTorch's sample generator raises {type(error).__name__}: {brief(error, 60)}")
            return []

    @contextlib.contextmanager
    def guarded(self, category: str, prefix: str, count: bool = False):
        """One check: a mismatch or an exception of the target is a failure, whatever else happens goes on."""
        guard = Guard(self.report, category, prefix)
        failures = sum(self.report.failed.values())
        try:
            with time_limit(self.seconds):
                yield guard
        except Unconvertible as reason:
            self.report.skips(str(reason))
            count = False
        except TorchRaises as reason:
            self.report.skips(f"PyTorch raises {reason}")
            count = False
        except TimeLimit as limit:
            self.report.fails("timeout", f"{prefix}{guard.category}: {limit}")
        except Exception as error:
            guard.fails(error)
        if count:
            self.report.samples += 1
            self.report.clean += failures == sum(self.report.failed.values())

    def check_sample(self, sample, dtype, guard, first: bool) -> None:
        expected = reference(lambda: Call(torch, sample))
        result, random = self.torch_result(expected, sample)
        with guard.step("setup"):
            actual = Call(self.target, sample)
        if "setup" in guard.failed:
            return
        with guard.step("value"):
            returned = actual(self.functions[self.target])
            self.compare_results(sample, result, returned, values=not random)
            if not random:
                compare(
                    expected.arguments(),
                    actual.arguments(),
                    self.target.Tensor,
                    grad_flags=False,
                    path="arguments",
                )
        with guard.step("view"):
            if not guard.failed and sharing(expected, result) != sharing(actual, returned):
                raise Mismatch(
                    "view", "copies an argument" if any(sharing(expected, result)) else "is a view"
                )
        if expected.leaves and "value" not in guard.failed:
            self.check_gradients(sample, dtype, guard, not random)
        self.check_method(sample, guard, result, random)
        self.check_inplace(sample, dtype, guard, random)
        if first:
            self.check_aliases(sample, guard, random)

    def torch_result(self, call: Call, sample):
        """PyTorch's result, and whether chance (or uninitialised memory) has a part in it."""
        function, before = self.functions[torch], torch.get_rng_state()
        result = reference(lambda: call(function))
        for tensor in tensors_in(result):
            check_convertible(tensor)
        if self.op.has_nondeterministic_output:
            return result, True
        if torch.equal(before, torch.get_rng_state()):
            return result, False
        try:
            for seed in range(64):
                torch.manual_seed(seed)
                compare(result, Call(torch, sample)(function), torch.Tensor)
        except Mismatch:
            return result, True
        return result, False  # drew numbers without an effect: dropout in eval mode

    def compare_results(self, sample, expected, actual, *, category="value", values=True) -> None:
        tensor_type = self.target.Tensor
        try:
            compare(expected, actual, tensor_type, category=category, values=values)
        except Mismatch as mismatch:
            if mismatch.category != category or self.op.name not in AMBIGUOUS:
                raise
            compare(expected, actual, tensor_type, category=category, values=False)
            process = sample.output_process_fn_grad
            compare(process(expected), binding.rebind(process, self.target)(actual), tensor_type, category=category)

    def differentiable_outputs(self, library, sample):
        """A fresh call, made as the op's gradient tests make it, and its results that carry gradients."""
        call = Call(library, sample)
        wrapper = self.gradient_wrapper(library, sample)
        process = binding.rebind(sample.output_process_fn_grad, library)
        result = process(wrapper(self.functions[library], call.input, *call.args, **call.kwargs))
        return call, [tensor for tensor in tensors_in(result) if tensor.requires_grad]

    def gradient_wrapper(self, library, sample):
        """How the op's gradient tests call it; what they hide under a mask is found out by PyTorch alone."""
        wrapper = self.op.gradcheck_wrapper
        if library is torch or not getattr(wrapper, "__name__", "").startswith("gradcheck_wrapper_masked"):
            return binding.rebind(wrapper, library)

        def hiding(function, input, *args, **kwargs):
            output, seen = function(input, *args, **kwargs), masked_in(self.op.op, sample)
            return output if seen is None else library.where(Converter(library)(seen), output, output.new_zeros(()))

        return hiding

    def check_gradients(self, sample, dtype, guard, values: bool) -> None:
        call, outputs = reference(lambda: self.differentiable_outputs(torch, sample))
        if not outputs:
            return
        try:
            expected = first_gradients(torch, call, outputs)
        except Exception as error:
            return self.report.skips(f"PyTorch's gradient raises {type(error).__name__}")
        with guard.step("grad"):
            self_call, self_outputs = self.differentiable_outputs(self.target, sample)
            actual = first_gradients(self.target, self_call, self_outputs)
            self.compare_gradients(expected, actual, "grad", values)
        if dtype is torch.float64 and self.op.supports_gradgrad and "grad" not in guard.failed:
            self.check_second(sample, guard, call, outputs, values)

    def check_second(self, sample, guard, call, outputs, values: bool) -> None:
        try:
            first, second = both_gradients(torch, call, outputs)
        except Exception as error:
            return self.report.skips(f"PyTorch's second gradient raises {type(error).__name__}")
        with guard.step("gradgrad"):
            ours = both_gradients(self.target, *self.differentiable_outputs(self.target, sample))
            self.compare_gradients(first, ours[0], "gradgrad", values, slack=100)
            if second and not ours[1]:
                raise Mismatch("gradgrad", "gradients made with create_graph=True do not require grad")
            self.compare_gradients(second or [None] * len(ours[1]), ours[1], "gradgrad", values, slack=1000)

    def compare_gradients(self, expected, actual, category, values, slack=10.0) -> None:
        """Equal gradients; in the second order a missing one is as good as zeros: formulas differ there."""
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            path = f"gradient {index}"
            if left is not None and right is not None:
                compare(
                    left,
                    right,
                    self.target.Tensor,
                    category=category,
                    values=values,
                    grad_flags=False,
                    slack=slack,
                    path=path,
                )
            elif left is not right and (category == "grad" or not is_zero(left) or not is_zero(right)):
                raise Mismatch(category, f"{path} is {shown(right)}, not {shown(left)}")

    def check_method(self, sample, guard, result, random: bool) -> None:
        name = self.op.name
        if self.op.method_variant is None or "." in name or not isinstance(sample.input, torch.Tensor):
            return
        if not callable(getattr(torch.Tensor, name, None)):
            return
        try:
            call = Call(torch, sample)
            expected = call(lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs))
        except Exception:
            return  # the samples are the function's: not all of them fit the method
        with guard.step("method"):
            actual = Call(self.target, sample)(
                lambda input, *args, **kwargs: getattr(input, name)(*args, **kwargs)
            )
            self.compare_results(sample, expected, actual, category="method", values=not random)

    def check_inplace(self, sample, dtype, guard, random: bool) -> None:
        variant = self.op.inplace_variant
        if variant is None or not isinstance(sample.input, torch.Tensor):
            return
        call, outcome = Call(torch, sample), None
        copy = call.input.clone()
        try:
            outcome = binding.rebind(variant, torch)(copy, *call.args, **call.kwargs)
        except Exception as error:
            return self.check_inplace_refused(sample, guard, variant, error)
        with guard.step("inplace"):
            actual = Call(self.target, sample)
            written = actual.input.clone()
            returned = binding.rebind(variant, self.target)(written, *actual.args, **actual.kwargs)
            if (returned is written) != (outcome is copy):
                raise Mismatch("inplace", "does not return the tensor it was called on")
            compare(copy, written, self.target.Tensor, category="inplace", values=not random)
            if dtype is torch.float64 and self.op.supports_inplace_autograd and copy.requires_grad:
                expected = first_gradients(torch, call, [copy])
                ours = first_gradients(self.target, actual, [written])
                self.compare_gradients(expected, ours, "inplace", not random)

    def check_inplace_refused(self, sample, guard, variant, error) -> None:
        with guard.step("inplace"):
            actual = Call(self.target, sample)
            try:
                binding.rebind(variant, self.target)(actual.input.clone(), *actual.args, **actual.kwargs)
            except Exception as raised:
                if isinstance(raised, AttributeError):
                    raise
                return
            raise Mismatch("inplace", f"no error, PyTorch raises {type(error).__name__}: {brief(error)}")

    def check_names(self) -> None:
        """Every spelling that PyTorch has of this op: function, aliases, methods and their in-place forms."""
        names = [self.op.name.removeprefix("torch."), *(alias.name.removeprefix("torch.") for alias in self.op.aliases)]
        wanted = [name for name in names if binding.resolve(torch, name) is not None]
        for name in names:
            wanted += [f"Tensor.{form}" for form in (name, name + "_") if hasattr(torch.Tensor, form)]
        for name in wanted:
            if binding.resolve(self.target, name) is None:
                self.report.fails("name", f"no {self.target.__name__}.{name}")
            else:
                self.report.passes("name")

    def check_aliases(self, sample, guard, random: bool) -> None:
        for alias in self.op.aliases:
            name = alias.name.removeprefix("torch.")
            function = binding.resolve(self.target, name)
            if function is None or binding.resolve(torch, name) is None:
                continue  # check_names has told
            try:
                call = Call(torch, sample)
                expected = call(binding.resolve(torch, name))
            except Exception:
                continue  # an alias of part of the op (`maximum` of `max`)
            with guard.step("name"):
                self.compare_results(
                    sample,
                    expected,
                    Call(self.target, sample)(function),
                    category="name",
                    values=not random,
                )

    def check_errors(self) -> None:
        """Where PyTorch's error samples raise, the target raises the same class of exception."""
        if self.op.error_inputs_func is None:
            return
        for index, error in enumerate(self.generated(lambda: self.op.error_inputs("cpu"), None)):
            sample = error.sample_input
            if "out" in sample.kwargs:
                self.report.skips("error sample with out=")
                continue
            with self.guarded("error", f"error sample {index}: ") as guard:
                self.check_error(sample, error, guard)

    def check_error(self, sample, error, guard) -> None:
        call = reference(lambda: Call(torch, sample))
        try:
            call(self.functions[torch])
        except Exception as raised:
            expected = raised
        else:
            return self.report.skips("error sample that PyTorch accepts when called directly")
        with guard.step("setup"):
            actual = Call(self.target, sample)
        if "setup" in guard.failed:
            return
        guard.category = "error"
        wanted = f"PyTorch raises {type(expected).__name__}: {brief(expected)}"
        try:
            actual(self.functions[self.target])
        except Exception as raised:
            if isinstance(raised, self.accepted(error.error_type, type(expected))):
                return self.report.passes("error")
            message = f"{guard.prefix}{type(raised).__name__}: {brief(raised)}; {wanted}"
            return self.report.fails("errclass", message)
        self.report.fails("error", f"{guard.prefix}no error; {wanted}")

    def accepted(self, *error_types):
        """The target's exception classes that stand for those of PyTorch."""
        return _accepted(self.target, error_types)


@functools.cache
def _accepted(target, error_types) -> tuple:
    """`Checker.accepted` of few types, for hundreds of samples: each name that a target lacks costs milliseconds."""
    flat = []
    for error in error_types:
        flat += error if isinstance(error, tuple) else (error,)
    own = (
        binding.resolve(target, f"{error.__module__}.{error.__name__}".removeprefix("torch.")) for error in flat
    )
    named = (binding.resolve(target, f"linalg.{error.__name__}") for error in flat)
    return tuple(flat) + tuple(error for error in itertools.chain(own, named) if isinstance(error, type))


def masked_in(function, sample):
    """Which elements of the result of a function of `torch.masked` are defined; None where all are."""
    masks = [sample.kwargs.get(name) for name in ("mask", "input_mask", "other_mask")]
    if masks[0] is not None:
        return torch.masked._output_mask(function, sample.input, *sample.args, **sample.kwargs)
    if masks[1] is not None and masks[2] is not None:
        return torch.masked._input_mask(sample.input, mask=torch.logical_and(*masks[1:]))
    return None


def op_key(op) -> str:
    return f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name


def dtype_name_of(dtype) -> str:
    return str(dtype).removeprefix("torch.")


def shown(gradient) -> str:
    return "None" if gradient is None else f"a tensor of shape {tuple(gradient.shape)}"


def sharing(call: Call, result) -> list[bool]:
    """For each tensor of the result and each argument: does one lie in the other's memory?"""
    arguments = [to_numpy(tensor) for tensor in tensors_in(call.arguments())]
    results = [to_numpy(tensor) for tensor in tensors_in(result)]
    return [np.may_share_memory(left, right) for left in results if left.size for right in arguments]


def is_zero(gradient) -> bool:
    return gradient is None or not np.any(to_numpy(gradient))


def spread(samples, limit: int | None, pool: int = 1000) -> list:
    """At most `limit` samples, evenly spaced: the first of a list are rarely the interesting ones."""
    samples = list(samples) if limit is None else list(itertools.islice(samples, pool))
    if limit is None or len(samples) <= limit:
        return samples
    return [samples[index * (len(samples) - 1) // max(limit - 1, 1)] for index in range(limit)]
