"""Checks of layers: Modules, constructed and called as they declare, or as is usual."""

from __future__ import annotations

import copy
import gc
import inspect
import io
import math
import pickle
import weakref

import plugrad
from plugrad.nn.forms import functional_form as functional_form_of
from plugrad.overrides import TorchFunctionMode
from plugrad.testing.calls import Skip, agree, described, same_bits
from plugrad.testing.checks import documents, instances
from plugrad.testing.checks.guesses import Trial, build, declared, or_fail, or_skip, trials, trials_of_op
from plugrad.testing.gradients.checker import check
from plugrad.testing.gradients.verdict import FAIL, INCONCLUSIVE
from plugrad.testing.samples import Sample
from plugrad.testing.tensors import differentiable, is_float, tensors_in


def checks(cls) -> dict:
    """Return the checks of a Module class by name."""
    chosen = documents.checks(cls) | CHECKS
    if not hasattr(cls, "reset_parameters"):
        del chosen["reset"]
    if hasattr(cls, "cls_to_become"):  # a lazy layer: it has parameters after its first call, and is of that class then
        del chosen["device and dtype"], chosen["initialised"]
    if not any(isinstance(p.default, bool) for p in inspect.signature(cls).parameters.values()):
        del chosen["options"]
    return chosen


def each(cls, device):
    """Yield (label, trial) for the ways to construct and call a Module."""
    for number, trial in enumerate(or_skip(_trials, cls, device)):
        yield f"sample {number} {cls.__name__}{trial}", trial


def _trials(cls, device):
    return trials_of_op(cls, device) if hasattr(cls, "op") and declared(cls) is None else trials(cls, device)


def has_samples(cls, device):
    """It can be constructed and called, and has a repr that names it."""
    if cls.forward is plugrad.nn.Module.forward:
        raise Skip("it has no `forward`, and is there for others to derive from")
    advice = (
        "declare a static method `samples(make)` that yields pairs of the constructor's arguments and those of the "
    )
    chosen = or_fail(advice + "call, such as `yield (4,), make(2, 4)`", _trials, cls, device)
    assert chosen, "its `samples` yields nothing"
    for trial in chosen:
        module = build(cls, trial, device)
        run(module, trial)
        assert type(module).__name__ in repr(module), f"its repr {repr(module)!r} does not name {cls.__name__}"


def run(module, trial, training=None) -> list:
    """Call a module with the inputs of a trial, seeded, and return the tensors of the result."""
    if training is not None:
        module.train(training)
    plugrad.manual_seed(0)
    given = trial.given.copied()
    return tensors_in(module(*given.args, **given.kwargs))


def same(one, other, label):
    """Assert that two lists of results are equal."""
    assert len(one) == len(other), f"{label}: {len(one)} results, {len(other)} before"
    for first, second in zip(one, other, strict=True):
        agree(first.detach(), second.detach(), label)


def state_dict(cls, device):
    """A state dict, saved and loaded, makes another module give the same."""
    for label, trial in each(cls, device):
        first, second = build(cls, trial, device, seed=0), build(cls, trial, device, seed=1)
        run(first, trial)  # moves running statistics
        file = io.BytesIO()
        plugrad.save(first.state_dict(), file)
        file.seek(0)
        told = second.load_state_dict(plugrad.load(file))
        assert not told.missing_keys and not told.unexpected_keys, f"{label}: {told}"
        for (name, one), other in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
            assert same_bits(one, other), f"{label}, argument {name!r}: its state dict does not bring it back"
        same(run(second, trial, False), run(first, trial, False), f"{label} with the loaded state dict")


def device_and_dtype(cls, device):
    """The keywords `device` and `dtype` of the constructor say where parameters are, and of which type."""
    done = 0
    for label, trial in each(cls, device):
        plain = cls(*trial.construct.args, **trial.construct.kwargs)
        parts = [*trial.construct.args, *trial.construct.kwargs.values()]
        if not list(plain.parameters()) or any(isinstance(part, plugrad.nn.Module) for part in parts):
            continue
        known = inspect.signature(cls).parameters
        for name in ("device", "dtype"):
            free = any(p.kind is p.VAR_KEYWORD for p in known.values())
            assert name in known or free, f"its constructor has parameters to make, but no argument {name!r}"
        wide = cls(*trial.construct.args, **{**trial.construct.kwargs, "dtype": plugrad.float64})
        for name, tensor in wide.named_parameters():
            assert not is_float(tensor) or tensor.dtype in (plugrad.float64, plugrad.complex128), (
                f"{label}, argument 'dtype'=float64: {name} is {tensor.dtype}"
            )
        far = cls(*trial.construct.args, **{**trial.construct.kwargs, "device": "meta"})
        for name, tensor in [*far.named_parameters(), *far.named_buffers()]:
            assert tensor.device.type == "meta", f"{label}, argument 'device'='meta': {name} is on {tensor.device}"
        done += 1
    if not done:
        raise Skip("it has no parameters of its own")


def gradient(cls, device):
    """The gradients of inputs and parameters agree with measured slopes."""
    done, vague = 0, None
    for label, trial in each(cls, device):
        for training in (True, False):  # in training it may be random, and then nothing can be measured
            module = build(cls, trial, device).train(training)
            named = [*trial.given.args, *trial.given.kwargs.values()]
            graded = differentiable([named, list(module.parameters())])
            outputs = differentiable(run(module, trial))
            if not graded or not outputs:
                break
            verdict = check(_called(module, trial), tuple(named), fast_mode=True)
            if verdict.status == INCONCLUSIVE:
                vague = f"{label}: {verdict.message}"
                continue
            place = verdict.input
            name = _name_of(cls, place) if isinstance(place, int) else place
            mode = "" if training else " in evaluation"
            assert verdict.status != FAIL, f"{label}{mode}, argument {name!r}: {verdict.message}"
            done += 1
    assert done or vague is None, vague
    if not done:
        raise Skip("nothing in it requires grad")


def _called(module, trial):
    """Return the module, or one that calls it with the trial's keyword arguments."""
    if not trial.given.kwargs:
        return module
    count, names = len(trial.given.args), list(trial.given.kwargs)

    class ByKeyword(plugrad.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = module

        def forward(self, *values):
            return self.module(*values[:count], **dict(zip(names, values[count:], strict=True)))

    return ByKeyword()


def _name_of(cls, place) -> str:
    names = list(inspect.signature(cls.forward).parameters)[1:]
    return names[place] if place < len(names) else f"input {place}"


def parameters_known(cls, device):
    """What a result depends on is registered: no Parameter outside of `parameters()`, and none changed by a call."""
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        for name, value in vars(module).items():
            assert not isinstance(value, plugrad.Tensor), (
                f"{label}, argument {name!r}: `to` and `state_dict` do not know this tensor; register_buffer it"
            )
        before = [(name, p.requires_grad, p.detach().clone()) for name, p in module.named_parameters()]
        outputs = run(module, trial)
        for (name, graded, values), p in zip(before, module.parameters(), strict=True):
            assert p.requires_grad is graded, f"{label}, argument {name!r}: the call changes its requires_grad"
            assert same_bits(p, values), f"{label}, argument {name!r} was written by the call"
        known = {id(p) for p in [*module.parameters(), *tensors_in((trial.construct.args, trial.construct.kwargs))]}
        for leaf in _leaves(outputs):
            assert id(leaf) in known or not isinstance(leaf, plugrad.nn.Parameter), (
                f"{label}: a Parameter of shape {tuple(leaf.shape)} is used that `parameters()` does not have: put it "
                "into an attribute of its own, or into a ParameterList"
            )


def _leaves(outputs):
    """Yield the leaf tensors that results depend on."""
    waiting, seen = [y.grad_fn for y in outputs if y.grad_fn is not None], set()
    while waiting:
        node = waiting.pop()
        if node is None or id(node) in seen:
            continue
        seen.add(id(node))
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [following for following, _ in node.next_functions]


def reset(cls, device):
    """`reset_parameters` sets all of the layer's own parameters, to values that depend on the seed alone."""
    done = 0
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        own = list(module.named_parameters(recurse=False))
        if not own:
            continue
        writes = []
        for seed in (0, 0):
            for _, p in own:
                p.data.fill_(7.5)
            plugrad.manual_seed(seed)
            module.reset_parameters()
            writes.append([p.detach().clone() for _, p in own])
        for (name, _), one, other in zip(own, *writes, strict=True):
            assert not bool((one == 7.5).any()), f"{label}, argument {name!r} is not written by reset_parameters"
            assert same_bits(one, other), f"{label}, argument {name!r}: reset_parameters does not keep to the seed"
        done += 1
    if not done:
        raise Skip("it has no parameters of its own")


class _Poison(TorchFunctionMode):
    """Fills what is made without values with NaN."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("empty", "empty_like", "empty_strided", "new_empty") and is_float(result):
            result.detach().fill_(math.nan)
        return result


def initialised(cls, device):
    """The constructor leaves no parameter or buffer as `empty` made it."""
    for label, trial in each(cls, device):
        with _Poison():
            module = cls(*trial.construct.args, **trial.construct.kwargs)
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            filled = not is_float(tensor) or not bool(tensor.isnan().any())
            assert filled, f"{label}, argument {name!r}: the constructor never gives it values; call reset_parameters"


def options(cls, device):
    """With each bool option flipped it can be constructed, called and differentiated, or says why not."""
    done = 0
    for label, trial in each(cls, device):
        parameters = inspect.signature(cls).parameters
        said = {*list(parameters)[: len(trial.construct.args)], *trial.construct.kwargs}
        for name, parameter in parameters.items():
            if not isinstance(parameter.default, bool) or name in said:
                continue
            changed = {**trial.construct.kwargs, name: not parameter.default}
            other = Trial(Sample(trial.construct.args, changed), trial.given)
            where = f"{label} with argument {name!r}={not parameter.default}"
            try:
                module = build(cls, other, device)
                outputs = differentiable(run(module, other))
            except (ValueError, RuntimeError, NotImplementedError, AssertionError):  # a refusal
                continue
            except Exception as error:
                raise AssertionError(f"{where}: {described(error)}") from error
            done += 1
            if not outputs:
                continue
            verdict = check(_called(module.eval(), other), tuple([*other.given.args, *other.given.kwargs.values()]),
                            fast_mode=True)  # fmt: skip
            assert verdict.status != FAIL, f"{where}: {verdict.message}"
    if not done:
        raise Skip("it has no bool option")


def own_options(cls, device):
    """Options are an instance's own: another one of the class, with another value, changes nothing in its results."""
    for label, trial in each(cls, device):

        def construct(kwargs, trial=trial):
            return build(cls, Trial(Sample(trial.construct.args, kwargs), trial.given), device)

        instances.assert_own(
            cls, trial.construct, label, construct, lambda module, trial=trial: run(module, trial, False)
        )


def memory(cls, device):
    """The memory of a call's arguments is released with its results."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        for label, trial in each(cls, device):
            module = build(cls, trial, device)
            alive = [i for i, reference in enumerate(_called_once(module, trial)) if reference() is not None]
            assert not alive, (
                f"{label}, argument {_name_of(cls, alive[0])!r}: the layer still holds its memory when all results are "
                "gone"
            )
    finally:
        if collecting:
            gc.enable()


def _called_once(module, trial) -> list:
    given = trial.given.copied()
    references = [weakref.ref(t._raw) for t in given.tensors()]
    module(*given.args, **given.kwargs)
    return references


def train_and_eval(cls, device):
    """`train` and `eval` reach all submodules, and in evaluation the result does not depend on the seed."""
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        assert all(part.training for part in module.modules()), f"{label}: it does not start in training mode"
        assert module.eval() is module, f"{label}: eval() does not return the module"
        assert not any(part.training for part in module.modules()), f"{label}: eval() does not reach all submodules"
        before = {name: t.clone() for name, t in module.state_dict().items()}
        first = run(module, trial)
        plugrad.manual_seed(1)
        given = trial.given.map(lambda t: t.detach().clone())
        second = tensors_in(module(*given.args, **given.kwargs))
        same(second, first, f"{label} in evaluation, with another seed")
        for name, t in module.state_dict().items():
            assert same_bits(t, before[name]), f"{label}: a call in evaluation changes {name!r}"
        assert all(part.training for part in module.train().modules()), f"{label}: train() does not reach all"


def pickling(cls, device):
    """A pickled module comes back as the same class, and gives the same."""
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        run(module, trial)  # moves running statistics
        again = pickle.loads(pickle.dumps(module))
        assert type(again) is type(module), f"{label}: unpickling gives a {type(again).__name__}"
        for training in (False, True):
            same(run(again, trial, training), run(module, trial, training), f"{label}, unpickled")


def deepcopy(cls, device):
    """A deep copy gives the same, and shares no parameter with the original."""
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        run(module, trial)  # moves running statistics
        again = copy.deepcopy(module)
        for (name, one), (_, other) in zip(module.named_parameters(), again.named_parameters(), strict=True):
            assert one is not other and one.data_ptr() != other.data_ptr(), f"{label}: the copy shares {name!r}"
        for training in (False, True):
            same(run(again, trial, training), run(module, trial, training), f"{label}, copied")


def functional_form(cls, device):
    """Called with its parameters as arguments (`func.functional_call`) it gives the same."""
    for label, trial in each(cls, device):
        module = build(cls, trial, device)
        tensors = {name: t.detach().clone() for name, t in [*module.named_parameters(), *module.named_buffers()]}
        expected = run(build(cls, trial, device), trial)
        for t in module.parameters():
            t.data = t.detach() * 0  # what it computes with must be what it was given
        plugrad.manual_seed(0)
        given = trial.given.map(lambda t: t.detach().clone())
        results = plugrad.func.functional_call(module, tensors, given.args, given.kwargs)
        same(tensors_in(results), expected, f"{label}, by functional_call")
        if type(module) is cls and not _nested(trial):
            given, options = trial.given.map(lambda t: t.detach().clone()), _by_name(cls, trial.construct)
            state = {name: t for name, t in tensors.items() if t is not None}
            plugrad.manual_seed(0)
            derived = functional_form_of(cls)(*given.args, **given.kwargs, **options, state=state)
            same(tensors_in(derived), expected, f"{label}, as a function")


def _by_name(cls, construct) -> dict:
    """Return the constructor's arguments by name."""
    bound = inspect.signature(cls).bind(*construct.args, **construct.kwargs)
    variadic = [p.name for p in bound.signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    named = dict(bound.arguments)
    for name in variadic:
        named |= named.pop(name, {})
    return named


def _nested(trial) -> bool:
    """Whether the constructor takes modules, or any number of arguments: such a layer is no function of its options."""
    values = [*trial.construct.args, *trial.construct.kwargs.values()]
    return any(isinstance(value, plugrad.nn.Module) for value in values)


def inputs_unchanged(cls, device):
    """Neither the call nor its backward writes into its inputs, unless it is told to by `inplace=True`."""
    for label, trial in each(cls, device):
        if trial.construct.kwargs.get("inplace"):
            continue
        for training in (True, False):
            module, given = build(cls, trial, device).train(training), trial.given.copied()
            before = [t.detach().clone() for t in given.tensors()]
            outputs = differentiable(module(*given.args, **given.kwargs))
            for stage in ("the call", "backward"):
                if stage == "backward" and outputs:
                    plugrad.autograd.backward(outputs, [plugrad.ones_like(y) for y in outputs])
                for number, (t, then) in enumerate(zip(given.tensors(), before, strict=True)):
                    where = f"{label}{'' if training else ' in evaluation'}, argument {_name_of(cls, number)!r}"
                    assert same_bits(t, then), f"{where} was written by {stage}"


CHECKS = {
    "samples": has_samples,
    "state dict": state_dict,
    "device and dtype": device_and_dtype,
    "gradient": gradient,
    "parameters": parameters_known,
    "reset": reset,
    "initialised": initialised,
    "options": options,
    "instances": own_options,
    "memory": memory,
    "train and eval": train_and_eval,
    "pickling": pickling,
    "deepcopy": deepcopy,
    "functional form": functional_form,
    "inputs unchanged": inputs_unchanged,
}
