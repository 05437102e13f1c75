"""How much memory of CUDA devices is in use, and was at most; limits, and giving it back.

Bytes are those that CuPy's pool of memory counts, in units of 512, with the memory of CUDA graphs. The peak of what is
in use is counted from the first use of a device on, as in PyTorch; graphs enter it by what they hold at the moment.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict

import plugrad

_KINDS = "allocated_bytes active_bytes reserved_bytes"  # which plugrad can tell now and at most


def _usage(device) -> dict:
    cuda = plugrad.cuda
    if not cuda.is_initialized():  # nothing was allocated, and nobody should open a device to say so
        return dict.fromkeys(("allocated", "allocated_peak", "reserved", "reserved_peak", "allocations"), 0)
    number = cuda._index(device)
    with cuda._on(number):  # pools answer for the current device
        return cuda._needed().usage(number)


def empty_cache() -> None:
    """Give memory that is kept for reuse back to the device; does nothing without one."""
    cuda = plugrad.cuda
    if not cuda.is_initialized():
        return
    plugin = cuda._needed()
    plugin.captures.sweep()
    cuda.streams.let_go()
    for number in range(cuda.device_count()):
        with cuda._on(number):
            plugin.usage(number)  # which notes the most that was reserved
            plugin.xp.get_default_memory_pool().free_all_blocks()


def memory_allocated(device=None) -> int:
    """Return the bytes that arrays hold on the device, 0 without one."""
    return _usage(device)["allocated"]


def memory_reserved(device=None) -> int:
    """Return the bytes that are held or kept for reuse, 0 without a device."""
    return _usage(device)["reserved"]


def max_memory_allocated(device=None) -> int:
    """Return the most bytes that arrays held since the last `reset_peak_memory_stats`.

    >>> import plugrad as torch
    >>> torch.cuda.max_memory_allocated() >= torch.cuda.memory_allocated()
    True
    """
    return _usage(device)["allocated_peak"]


def max_memory_reserved(device=None) -> int:
    """Return the most bytes that were held or kept since `reset_peak_memory_stats`."""
    return _usage(device)["reserved_peak"]


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device=None) -> dict:
    """Return by PyTorch's names what is known of a device's memory.

    That is what is in use ("allocated_bytes", "active_bytes") and held ("reserved_bytes"), now and at most, and how
    many allocations there were; what PyTorch's allocator counts beside is not there. Nothing before CUDA's first use.
    """
    if not plugrad.cuda.is_initialized():
        return OrderedDict()
    known = _usage(device)
    stats = {"allocation.all.allocated": known["allocations"]}
    for kind in _KINDS.split():
        name = "reserved" if kind == "reserved_bytes" else "allocated"
        stats[f"{kind}.all.current"], stats[f"{kind}.all.peak"] = known[name], known[f"{name}_peak"]
    return OrderedDict(sorted(stats.items()))


def memory_stats_as_nested_dict(device=None) -> dict:
    """Return `memory_stats()` as dicts in dicts."""
    nested: dict = {}
    for name, value in memory_stats(device).items():
        kind, pool, metric = name.split(".")
        nested.setdefault(kind, {}).setdefault(pool, {})[metric] = value
    return nested


def memory_summary(device=None, abbreviated=False) -> str:
    """Return a table of what is known of a device's memory."""
    known, lines = _usage(device), ["|  Metric             |      Cur Usage |     Peak Usage |"]
    for name, title in (("allocated", "Allocated memory"), ("reserved", "GPU reserved memory")):
        lines.append(f"| {title:19} | {known[name] / 2**20:10.2f} MiB | {known[name + '_peak'] / 2**20:10.2f} MiB |")
    return "\n".join(lines) + "\n"


def mem_get_info(device=None) -> tuple:
    """Return the free and the total bytes of a device's memory."""
    cuda = plugrad.cuda
    cuda._needed()
    with cuda._on(device):
        return tuple(cuda._runtime().runtime.memGetInfo())


def reset_peak_memory_stats(device=None) -> None:
    """Begin new peaks with what is in use and held now; does nothing without a device."""
    _reset(device, True)


def reset_accumulated_memory_stats(device=None) -> None:
    """Begin to count allocations anew; does nothing without a device."""
    _reset(device, False)


def _reset(device, peaks):
    cuda = plugrad.cuda
    if cuda.is_initialized():
        number = cuda._index(device)
        with cuda._on(number):
            cuda._needed().usage.reset(number, peaks)


def reset_max_memory_allocated(device=None) -> None:
    """Call `reset_peak_memory_stats`, with a warning."""
    _old("reset_max_memory_allocated", device)


def reset_max_memory_cached(device=None) -> None:
    """Call `reset_peak_memory_stats`, with a warning."""
    _old("reset_max_memory_cached", device)


def _old(name, device):
    warnings.warn(
        f"torch.cuda.{name} now calls torch.cuda.reset_peak_memory_stats, which resets /all/ peak memory stats.",
        FutureWarning,
        stacklevel=3,
    )
    reset_peak_memory_stats(device)


def set_per_process_memory_fraction(fraction, device=None) -> None:
    """Let tensors have a part of a device's memory; beyond is OutOfMemoryError.

    Graphs' memory does not count. TypeError for what is no float, ValueError for one outside of [0, 1].
    """
    cuda = plugrad.cuda
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    pool = cuda._needed().xp.get_default_memory_pool()
    with cuda._on(device):
        pool.set_limit(size=max(1, int(fraction * mem_get_info(device)[1])))  # of 0 CuPy would make no limit


def get_per_process_memory_fraction(device=None) -> float:
    """Return the part of a device's memory that tensors may have."""
    cuda = plugrad.cuda
    pool = cuda._needed().xp.get_default_memory_pool()
    with cuda._on(device):
        limit = pool.get_limit()
    return limit / mem_get_info(device)[1] if limit else 1.0
