"""Checks of a backend: its arrays, its memory, and the ops that every program needs on it."""

from __future__ import annotations

import contextlib
import functools

import numpy

import plugrad
from plugrad import registry
from plugrad.testing.calls import Skip, call, graded, gradients, same_bits
from plugrad.testing.checks import documents, kernels
from plugrad.testing.samples import samples_of
from plugrad.testing.tensors import tensors_in

DTYPES = "bool uint8 int8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
BASIC = (
    "add sub mul div neg exp log sqrt tanh sigmoid relu pow maximum where sum mean amax argmax cumsum matmul reshape "
    "transpose expand cat stack getitem index_select gather softmax linear conv2d mse_loss cross_entropy"
).split()


def checks(backend) -> dict:
    """Return the checks of a backend, a class or its instance, by name."""
    cls = backend if isinstance(backend, type) else type(backend)
    chosen = {name: _of_class(cls, check) for name, check in documents.checks(cls).items()} | CHECKS
    if cls.name == "cpu":
        return chosen
    if cls.symbolic:
        return chosen | {f"shapes of {name}": functools.partial(op_shapes, name=name) for name in BASIC}
    with contextlib.suppress(AssertionError):  # of one that is not registered each check says so
        try:
            usable(backend)
        except Skip:  # nothing can run: the checks above tell why
            return chosen
    names = [op.name for op in registry.ops.values() if op.provider.builtin]
    return chosen | {f"parity of {name}": functools.partial(op_parity, name=name) for name in names}


def _of_class(cls, check):
    return lambda backend, device: check(cls, device)


def usable(backend):
    """Return the backend's instance as the registry has it; skip where it can't run here."""
    assert backend.name in registry.backends, f"no backend named {backend.name!r} is registered"
    instance = registry.backend(backend.name)
    cls = backend if isinstance(backend, type) else type(backend)
    assert type(instance) is cls, f"device {backend.name!r} is served by {type(instance).__qualname__}"
    reason = instance.available()
    if reason is not None:
        raise Skip(f"it can't be used here: {reason}")
    return instance


def with_data(backend):
    """Return the instance of a backend whose arrays have data; skip for a symbolic one."""
    instance = usable(backend)
    if instance.symbolic:
        raise Skip("its arrays have no data")
    return instance


def availability(backend, device):
    """`available()` gives None or a reason to read, and there is at least one device where it is None."""
    assert isinstance(backend.name, str) and backend.name.isidentifier(), f"its name {backend.name!r} is not a name"
    instance = backend() if isinstance(backend, type) else backend
    reason = instance.available()
    assert reason is None or (isinstance(reason, str) and reason.strip()), (
        f"available() must return None, or say why not; it returns {reason!r}"
    )
    if reason is None:
        assert instance.device_count() >= 1, "it is available, and device_count() is 0"
        assert instance.xp is not None and isinstance(instance.array_type, type), "it has no `xp`, or no `array_type`"


def round_trip(backend, device):
    """Arrays of every dtype and layout go to the device and come back the same, in memory of their own."""
    instance = with_data(backend)
    whole = numpy.arange(24).reshape(2, 3, 4)
    for name in DTYPES:
        for label, array in (
            ("whole", whole), ("0-d", whole[0, 0, 0:1].reshape(())), ("empty", whole[:, :0]),
            ("strided", whole[:, ::2, ::-1]),
        ):  # fmt: skip
            array = array.astype(name, order="K")
            moved = instance.from_numpy(array, 0)
            right = isinstance(moved, instance.array_type)
            assert right, f"{name}, {label}: from_numpy gives {type(moved).__qualname__}"
            back = instance.to_numpy(moved)
            assert type(back) is numpy.ndarray, f"{name}, {label}: to_numpy gives {type(back).__qualname__}"
            assert back.dtype == array.dtype and back.shape == array.shape, (
                f"{name}, {label}: {array.dtype}{list(array.shape)} comes back as {back.dtype}{list(back.shape)}"
            )
            assert (back == array).all(), f"{name}, {label}: values change on the way"
            if backend.name == "cpu" or not array.size:  # the CPU's memory may be NumPy's
                continue
            given = array.copy()
            moved = instance.from_numpy(given, 0)
            for what, memory in (("from_numpy keeps", given), ("to_numpy hands out", instance.to_numpy(moved))):
                if memory.flags.writeable:
                    memory[...] = ~memory if memory.dtype == bool else memory + memory.dtype.type(1)
                told = instance.to_numpy(moved)
                assert (told == array).all(), f"{name}, {label}: {what} the device's memory, and NumPy can write to it"


def tensors(backend, device):
    """Tensors are made on the device, moved to it and back, and say where they are."""
    name = with_data(backend).name
    ones = plugrad.ones(2, 3, device=name)
    moved = plugrad.tensor([1.5, -2.0]).to(name)
    for t in (ones, moved, ones + ones, moved.detach(), moved.clone()):
        assert t.device.type == name, f"a tensor made for {name!r} is on {t.device}"
    for dtype in (plugrad.float32, plugrad.float64):
        x = plugrad.tensor([1.5, 2.0]).to(dtype).to(name)
        for what, t in (("x", x), ("x + x", x + x), ("exp(x)", x.exp()), ("x.sum()", x.sum()), ("2 * x", 2 * x)):
            assert t._raw.dtype == t.dtype.numpy, f"{what} of {t.dtype} holds {t._raw.dtype}"
    assert moved.cpu().tolist() == [1.5, -2.0], f"values change on the way: {moved.cpu().tolist()}"
    if name != "cpu":
        try:
            moved + plugrad.ones(2)
        except RuntimeError:
            return
        raise AssertionError("it adds a tensor of its own and one on the CPU, and raises no RuntimeError")


def storage(backend, device):
    """A view has the storage of its base, a copy has one of its own, and writes through a view are seen."""
    instance = with_data(backend)
    x = plugrad.zeros(3, 4, device=instance.name)
    view, copied = x[1:, ::2], x.clone()
    assert instance.storage(view._raw) is instance.storage(x._raw), "storage() of a view is not that of its base"
    own = instance.storage(copied._raw)
    assert own is not instance.storage(x._raw), "storage() of a copy is that of the original"
    view += 1
    expected = numpy.zeros((3, 4))
    expected[1:, ::2] += 1
    assert (x.cpu().numpy() == expected).all(), "a write through a view does not reach its base"
    assert x._version == 1, "a write through a view is not counted: storage() gives other objects each time"


def random_numbers(backend, device):
    """Random numbers come from its generator, and one seed gives one sequence."""
    name = with_data(backend).name
    draws = []
    for seed in (5, 5, 6):
        plugrad.manual_seed(seed)
        draws.append(plugrad.randn(16, device=name))
    assert draws[0].device.type == name, f"random numbers for {name!r} are on {draws[0].device}"
    assert same_bits(draws[0], draws[1]), "manual_seed does not make its random numbers the same"
    assert not same_bits(draws[0], draws[2]), "its random numbers do not depend on manual_seed"


def training(backend, device):
    """A step of training gives on the device what it gives on the CPU."""
    name = with_data(backend).name
    results = []
    for place in ("cpu", name):
        plugrad.manual_seed(0)
        model = plugrad.nn.Sequential(plugrad.nn.Linear(4, 5), plugrad.nn.Tanh(), plugrad.nn.Linear(5, 3)).double()
        x = plugrad.linspace(-1, 1, 8, dtype=plugrad.float64).reshape(2, 4)
        model, x = model.to(place), x.to(place)
        optimizer = plugrad.optim.Adam(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = plugrad.nn.functional.cross_entropy(model(x), plugrad.tensor([0, 2]).to(place))
            loss.backward()
            optimizer.step()
        results.append([loss, *model.parameters()])
    for one, other in zip(results[1], results[0], strict=True):
        kernels.close(one, other, "after three steps of training")


def no_data(backend, device):
    """A symbolic array has shape, strides and dtype of the real one, views are views, and data are refused."""
    instance = usable(backend)
    if not instance.symbolic:
        raise Skip("its arrays have data")
    real = plugrad.ones(2, 3, 4).transpose(0, 2)
    moved = real.to(instance.name)
    for label, change in (
        ("moved", lambda t: t), ("sliced", lambda t: t[1:, ::2]), ("cast", lambda t: t.half()),
        ("added", lambda t: t + t), ("cloned", lambda t: t.clone()), ("reshaped", lambda t: t.reshape(-1)),
    ):  # fmt: skip
        told, fact = change(moved), change(real)
        facts = [(t.shape, t.dtype, t.stride(), t.is_contiguous()) for t in (told, fact)]
        assert facts[0] == facts[1], f"a tensor {label} is {facts[0]}, on the CPU {facts[1]}"
        assert told.device.type == instance.name, f"a tensor {label} is on {told.device}"
    x = plugrad.zeros(3, 4, device=instance.name)
    base, view, copied = (instance.storage(t._raw) for t in (x, x[1:, ::2], x.clone()))
    assert view is base, "storage() of a view is not that of its base"
    assert copied is not base, "storage() of a copy is that of the original"
    try:
        told = x.cpu()
    except NotImplementedError:
        return
    raise AssertionError(f"it has no data, and to_numpy gives some: {told!r}")


def op_shapes(backend, device, name):
    """Shape and dtype of the op's results and gradients on the device are those on the CPU."""
    place, op = usable(backend).name, registry.op(name)
    for number, sample in enumerate(samples_of(op)):
        moved = sample.map(lambda t: t.detach().to(place).requires_grad_(t.requires_grad))
        pairs = [*zip(tensors_in(call(op, moved)), tensors_in(call(op, sample)), strict=True)]
        if graded(op, sample):
            pairs += zip(gradients(op, moved), gradients(op, sample), strict=True)
        for one, other in pairs:
            facts = [t if t is None else (t.shape, t.dtype) for t in (one, other)]
            assert facts[0] == facts[1], f"sample {number} {sample}: {place} says {facts[0]}, it is {facts[1]}"
            assert one is None or one.device.type == place, f"sample {number} {sample}: a result is on {one.device}"


def op_parity(backend, device, name):
    """The op gives on the device what it gives on the CPU."""
    kernels.parity(registry.op(name), device, with_data(backend).name)


CHECKS = {
    "availability": availability,
    "round trip": round_trip,
    "tensors": tensors,
    "storage": storage,
    "random numbers": random_numbers,
    "training": training,
    "no data": no_data,
}
