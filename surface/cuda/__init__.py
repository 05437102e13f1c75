"""`plugrad.cuda`: is there a CUDA device, how many, wait for it, seed it, and how much memory is in use.

Without a device, questions have the answer of a machine without one, and what needs one raises AssertionError, as a CPU
build of PyTorch does. With one, what has a meaning with CuPy is there: its streams and events too.
"""

from __future__ import annotations

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
from plugrad.cuda.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    set_stream,
    stream,
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
    """Return the number of a device, the current one by default; AcceleratorError where there is none of it."""
    if device is None:
        return current_device()
    number = _number(device)
    if not 0 <= number < (count := _needed().device_count()):
        raise AcceleratorError(f"CUDA error: invalid device ordinal: {number}, of {count} devices")
    return number


def _number(device) -> int:
    """Return the number of a device, that of the current one where it has none; ValueError for one that is no CUDA."""
    if isinstance(device, int):
        return device
    device = plugrad.device(getattr(device, "idx", device))
    if device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {device}")
    return current_device() if device.index is None else device.index


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
    if _number(device) >= 0:
        _runtime().runtime.setDevice(_index(device))
        following.moved("cuda")


class device:
    """A context in which "cuda" means a device, in this thread.

    None or a negative number leave it as it is.
    """

    def __init__(self, device):
        self.idx = -1 if device is None else _number(device)
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
    number = current_device() if device is None else _number(device)
    if not 0 <= number < _needed().device_count():
        raise AssertionError(f"Invalid device id: {number}, of {device_count()} devices")
    return _runtime().runtime.getDeviceProperties(number)


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


# ---------------------------------------------------------------------------------------------------- random numbers


def manual_seed(seed: int) -> None:
    """Seed the generator of the current device; does nothing without one."""
    if is_available():
        generator_of("cuda").manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the generators of all devices; does nothing without one."""
    for number in range(device_count()):
        generator_of(f"cuda:{number}").manual_seed(seed)


def seed() -> None:
    """Seed the generator of the current device from the system's entropy."""
    if is_available():
        generator_of("cuda").seed()


def seed_all() -> None:
    """Seed the generators of all devices by one number from the system."""
    if is_available():
        manual_seed_all(generator_of("cuda").seed())


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
