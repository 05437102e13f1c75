"""`plugrad.cuda`: is there a CUDA device, how many, wait for it, seed it, and how much memory is in use.

Without a device, questions have the answer of a machine without one, and what needs one raises AssertionError, as a CPU
build of PyTorch does. With one, what has a meaning with CuPy is there: its streams and events too.
"""

from __future__ import annotations

import contextlib

import plugrad
from plugrad import absent, registry
from plugrad.backends import following
from plugrad.cuda import _pinned, amp  # noqa: F401 - tensors ask the first
from plugrad.cuda.graphs import (
    CUDAGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
    make_graphed_callables,
)
from plugrad.cuda.memory import (
    empty_cache,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from plugrad.extend import generator_of

__all__ = [
    "AcceleratorError", "CUDAGraph", "Event", "OutOfMemoryError", "Stream", "StreamContext", "amp",
    "can_device_access_peer", "current_device", "current_stream", "default_stream", "device", "device_count",
    "device_of", "empty_cache", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_gencode_flags", "get_per_process_memory_fraction", "get_rng_state", "get_rng_state_all", "graph",
    "graph_pool_handle", "init", "initial_seed", "ipc_collect", "is_available", "is_bf16_supported",
    "is_current_stream_capturing", "is_initialized", "is_tf32_supported", "make_graphed_callables", "manual_seed",
    "manual_seed_all", "max_memory_allocated", "max_memory_cached", "max_memory_reserved", "mem_get_info",
    "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_stats_as_nested_dict",
    "memory_summary", "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "seed", "seed_all", "set_device", "set_per_process_memory_fraction", "set_rng_state",
    "set_rng_state_all", "set_stream", "stream", "synchronize",
]  # fmt: skip

has_half, has_magma, default_generators = True, False, ()


class AcceleratorError(RuntimeError):
    """What PyTorch raises for an error of an accelerator; CuPy raises its own."""


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises when a device has no more memory; CuPy raises its own."""


def _backend():
    return registry.backend("cuda") if "cuda" in registry.backends else None


def is_available() -> bool:
    """Whether tensors can be on CUDA devices here.

    >>> import plugrad as torch
    >>> torch.cuda.is_available() in (True, False)
    True
    """
    return "cuda" in registry.backends and registry.reason("cuda") is None


def is_initialized() -> bool:
    """Whether the device was used already."""
    return is_available() and "cuda" in registry.loaded_backends()


def device_count() -> int:
    """Return the number of CUDA devices, 0 when they can't be used.

    `plugrad backends` and `plugrad doctor` say why they can't.
    """
    return _backend().device_count() if is_available() else 0


def is_bf16_supported(including_emulation=True) -> bool:
    """Whether tensors of bfloat16 can be on the device: with CuPy, always."""
    return is_available()


def is_tf32_supported() -> bool:
    """Return False: CuPy multiplies float32 as it is."""
    return False


def _needed():
    """Return the backend, or raise AssertionError with the reason why there is none."""
    backend = _backend()
    reason = "there is no backend named 'cuda'" if backend is None else backend.available()
    if reason is not None:
        raise AssertionError(f"Torch not compiled with CUDA enabled: CUDA can't be used here: {reason}")
    return backend


def _runtime():
    return _needed().xp.cuda


def _on(device):
    """Return a context on a device, the current one by default."""
    return _runtime().Device(_index(device))


def _index(device) -> int:
    if device is None:
        return current_device()
    number = device if isinstance(device, int) else plugrad.device(device).index
    return current_device() if number is None else number


def init() -> None:
    """Make the device ready; it is at its first use, too."""
    _needed()


def current_device() -> int:
    """Return the number of the device that "cuda" means in this thread."""
    return _needed().current_device()


def set_device(device) -> None:
    """Have "cuda" mean a device in this thread; a negative number leaves it as it is.

    Ops compute on the device of their tensors all the same, at less cost if that is the current one.
    Raises AcceleratorError for a device that does not exist.
    """
    number = _index(device)
    if number >= 0:
        if number >= device_count():
            raise AcceleratorError(f"CUDA error: invalid device ordinal: {number}, of {device_count()} devices")
        _runtime().runtime.setDevice(number)
        following.moved("cuda")


class device:
    """A context in which "cuda" means a device, in this thread.

    None or a negative number leave it as it is.
    """

    def __init__(self, device):
        self.idx = -1 if device is None or isinstance(device, int) and device < 0 else _index(device)
        self.prev_idx = -1

    def __enter__(self):
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(self, *exception):
        set_device(self.prev_idx)
        return False


class device_of(device):
    """A context in which "cuda" means the device of a tensor.

    Nothing changes for tensors that are not on CUDA devices.
    """

    def __init__(self, obj):
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def _properties(device):
    return _runtime().runtime.getDeviceProperties(_index(device))


class _Properties:
    """What a device tells about itself: `name`, `major`, `minor`, `total_memory`, `multi_processor_count`."""

    def __init__(self, known):
        self.name, self.major, self.minor = known["name"].decode(), known["major"], known["minor"]
        self.total_memory, self.multi_processor_count = known["totalGlobalMem"], known["multiProcessorCount"]

    def __repr__(self):
        megabytes = self.total_memory // 2**20
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={megabytes}MB, multi_processor_count={self.multi_processor_count})"
        )


def get_device_properties(device=None):
    """Return what a device tells about itself: name, capability, memory."""
    return _Properties(_properties(device))


def get_device_name(device=None) -> str:
    """Return the name of a device."""
    return _properties(device)["name"].decode()


def get_device_capability(device=None) -> tuple:
    """Return the compute capability of a device: (major, minor)."""
    known = _properties(device)
    return known["major"], known["minor"]


def get_arch_list() -> list:
    """Return []: CuPy compiles kernels as they are used, for the device."""
    return []


def get_gencode_flags() -> str:
    """Return the compiler's flags for these architectures."""
    return ""


def can_device_access_peer(device, peer_device) -> bool:
    """Whether a device can read the memory of another."""
    return bool(_runtime().runtime.deviceCanAccessPeer(_index(device), _index(peer_device)))


def synchronize(device=None) -> None:
    """Wait until all work on a device is done."""
    _needed().synchronize(_index(device))


# ---------------------------------------------------------------------------------------------------- streams


class Stream:
    """A queue of work on a device: CuPy's, used by `with torch.cuda.stream(...)`.

    Without a device it raises RuntimeError, as in a CPU build of PyTorch.
    """

    def __init__(self, device=None, priority=0, **others):
        if not is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support: there is no CUDA device here")
        self.device = plugrad.device("cuda", _index(device))
        with _on(device):
            self._stream = others.get("stream") or _runtime().Stream(non_blocking=True)

    def synchronize(self) -> None:
        """Wait until its work is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether its work is done."""
        return bool(self._stream.done)

    def wait_stream(self, stream) -> None:
        """Have work that comes wait for what another stream has now."""
        self.wait_event(stream.record_event())

    def wait_event(self, event) -> None:
        """Have work that comes wait for an event."""
        self._stream.wait_event(event._event)

    def record_event(self, event=None):
        """Record an event, a new one by default; return it."""
        event = Event() if event is None else event
        event.record(self)
        return event

    @property
    def cuda_stream(self) -> int:
        """The address of CUDA's own stream."""
        return self._stream.ptr

    def __eq__(self, other):
        return isinstance(other, Stream) and other._stream == self._stream

    def __hash__(self):
        return hash(self._stream)


class Event:
    """A moment in a stream, to wait for or to measure by.

    Without a device it raises RuntimeError, as in a CPU build of PyTorch.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if not is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: there is no CUDA device here")
        self._event = _runtime().Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)

    def record(self, stream=None) -> None:
        """Note the moment when the work that a stream has now is done."""
        self._event.record((current_stream() if stream is None else stream)._stream)

    def synchronize(self) -> None:
        """Wait for the moment."""
        self._event.synchronize()

    def query(self) -> bool:
        """Whether the moment is past."""
        return bool(self._event.done)

    def wait(self, stream=None) -> None:
        """Have a stream's work that comes wait for the moment."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event) -> float:
        """Return the milliseconds until a later event."""
        return float(_runtime().get_elapsed_time(self._event, end_event._event))


def current_stream(device=None):
    """Return the stream that work goes to."""
    _needed().captures.here()  # one that was broken off had a stream of its own
    return Stream(device, stream=_runtime().get_current_stream(_index(device)))


def default_stream(device=None):
    """Return the stream that work goes to where none was chosen."""
    return Stream(device, stream=_runtime().Stream.null)


def set_stream(stream) -> None:
    """Choose the stream that work goes to; None leaves it as it is."""
    if stream is not None:
        stream._stream.use()


class StreamContext:
    """A context whose work goes to a stream.

    None changes nothing, so that it works without a device.
    """

    def __init__(self, stream):
        self.stream = stream
        self._region = contextlib.nullcontext() if stream is None else stream._stream

    def __enter__(self):
        self._region.__enter__()

    def __exit__(self, *exception):
        return self._region.__exit__(*exception)


def stream(stream):
    """Return a context whose work goes to a stream; None changes nothing."""
    return StreamContext(stream)


# ---------------------------------------------------------------------------------------------------- random numbers


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device; does nothing without one."""
    if is_available():
        generator_of("cuda").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; does nothing without one."""
    for number in range(device_count()):
        generator_of(f"cuda:{number}").manual_seed(seed)
    manual_seed(seed)


def seed() -> None:
    """Seed the generator of the current device from the system's entropy."""
    if is_available():
        generator_of("cuda").seed()


seed_all = seed


def initial_seed() -> int:
    """Return the seed of the current device's generator."""
    _needed()
    return generator_of("cuda").initial_seed()


def get_rng_state(device="cuda"):
    """Return the state of a device's generator."""
    _needed()
    return generator_of(plugrad.device(device)).get_state()


def set_rng_state(new_state, device="cuda") -> None:
    """Set the state of a device's generator; does nothing without a device."""
    if is_available():
        generator_of(plugrad.device(device)).set_state(new_state)


def get_rng_state_all() -> list:
    """Return the states of all devices' generators."""
    return [get_rng_state(f"cuda:{number}") for number in range(device_count())]


def set_rng_state_all(new_states) -> None:
    """Set the states of all devices' generators."""
    for number, state in enumerate(new_states):
        set_rng_state(state, f"cuda:{number}")


def ipc_collect() -> None:
    """Do nothing with a device: memory is never shared between processes."""
    _needed()


_refused = absent.attributes("cuda")


def __getattr__(name):
    if name == "_initialized":  # which reversible networks read
        return is_initialized()
    # The classes `FloatTensor`, `FloatStorage`... of this device.
    if name.endswith(("Tensor", "Storage")):
        kinds = plugrad.legacy.typed_classes("cuda") | plugrad.storage.typed.classes("cuda")
        globals().update(kinds)
        if name in kinds:
            return kinds[name]
    return _refused(name)
