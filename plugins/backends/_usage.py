"""How much memory of devices is in use, and was at most: a function around CuPy's allocator counts.

It costs an allocation 0.45 us beside 3.65, on the host of an H100. CuPy's hooks would cost three times that, and the
peak of a process could be told only if somebody had asked at its beginning.
"""

from __future__ import annotations

DEVICES = 64


class Usage:
    """What CuPy's usual pool of memory, and the pools of graphs, hold."""

    def __init__(self, cupy, captures):
        self.cupy, self.captures = cupy, captures
        self.counts = [[0, 0] for _ in range(DEVICES)]  # the most bytes in use, and how many allocations
        self.reserved = [0] * DEVICES  # the most bytes, as far as somebody looked: nothing but `empty_cache` frees
        pool = cupy.get_default_memory_pool()
        malloc, used, counts = pool.malloc, pool.used_bytes, self.counts

        def counted(size):
            memory = malloc(size)
            now, count = used(), counts[memory.device_id]
            count[1] += 1
            if now > count[0]:
                count[0] = now
            return memory

        if cupy.cuda.get_allocator() == malloc:  # else the program chose another, which nobody counts
            cupy.cuda.set_allocator(counted)

    def __call__(self, number) -> dict:
        """Return what device `number`, the current one, has: bytes now and at most, in use and held; allocations."""
        pool, pools = self.cupy.get_default_memory_pool(), self.captures.memories()
        used, held = pool.used_bytes(), pool.total_bytes()
        graphs = sum([one.used_bytes() for one in pools])
        held_by_graphs, count = sum([one.total_bytes() for one in pools]), self.counts[number]
        self.reserved[number] = max(self.reserved[number], held + held_by_graphs)
        return {
            "allocated": used + graphs, "allocated_peak": max(count[0], used) + graphs, "allocations": count[1],
            "reserved": held + held_by_graphs, "reserved_peak": self.reserved[number],
        }  # fmt: skip

    def reset(self, number, peaks) -> None:
        """Begin to count anew on the current device: peaks, or how often there was an allocation."""
        if peaks:
            self.counts[number][0] = self.cupy.get_default_memory_pool().used_bytes()
            self.reserved[number] = 0
        else:
            self.counts[number][1] = 0
