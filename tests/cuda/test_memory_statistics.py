"""What `torch.cuda` tells of a device's memory: in use and held, now and at most."""

import gc

import pytest

import plugrad as torch
from plugrad import cuda

MEGA = 1 << 20


@pytest.fixture(autouse=True)
def _used():
    torch.zeros(1, device="cuda")
    gc.collect()
    torch.cuda.empty_cache()


def test_peaks_are_the_most_that_was_in_use():
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before
    x = torch.zeros(MEGA, device="cuda")
    y = x + 1
    assert cuda.memory_allocated() == before + 8 * MEGA
    del y
    assert cuda.memory_allocated() == before + 4 * MEGA
    assert cuda.max_memory_allocated() == before + 8 * MEGA
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before + 4 * MEGA
    del x
    assert cuda.memory_allocated() == before < cuda.max_memory_allocated()


def test_memory_stays_reserved_until_it_is_given_back():
    cuda.reset_peak_memory_stats()
    held = cuda.memory_reserved()
    x = torch.zeros(3 * MEGA, device="cuda")
    assert cuda.memory_reserved() == held + 12 * MEGA
    del x
    assert cuda.memory_reserved() == held + 12 * MEGA
    cuda.empty_cache()
    assert cuda.memory_reserved() <= held and cuda.max_memory_reserved() == held + 12 * MEGA
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_reserved() == cuda.memory_reserved()


def test_statistics_have_pytorchs_names():
    cuda.reset_accumulated_memory_stats()
    x = torch.zeros(MEGA, device="cuda")
    stats = cuda.memory_stats()
    assert [*stats] == sorted(stats)
    assert stats["allocation.all.allocated"] == 1
    for kind in "allocated_bytes", "active_bytes":
        assert stats[f"{kind}.all.current"] == cuda.memory_allocated() >= x.nbytes
        assert stats[f"{kind}.all.peak"] == cuda.max_memory_allocated()
    assert stats["reserved_bytes.all.current"] == cuda.memory_reserved()
    assert stats["reserved_bytes.all.peak"] == cuda.max_memory_reserved()
    assert cuda.memory_stats_as_nested_dict()["reserved_bytes"]["all"]["current"] == cuda.memory_reserved()
    assert "MiB" in cuda.memory_summary()
    assert torch.accelerator.max_memory_allocated() == cuda.max_memory_allocated()


def test_devices_are_counted_apart():
    if cuda.device_count() < 2:
        pytest.skip("there is one device")
    cuda.reset_peak_memory_stats(0), cuda.reset_peak_memory_stats(1)
    first, second = cuda.max_memory_allocated(0), cuda.max_memory_allocated(1)
    x = torch.zeros(MEGA, device="cuda:1")
    assert cuda.max_memory_allocated("cuda:1") == second + x.nbytes and cuda.max_memory_allocated(0) == first


def test_memory_of_graphs_counts():
    x = torch.zeros(MEGA, device="cuda")
    graph, used, held = cuda.CUDAGraph(), cuda.memory_allocated(), cuda.memory_reserved()
    with cuda.graph(graph):
        y = x + 1
    assert cuda.memory_allocated() == used + y.nbytes and cuda.memory_reserved() >= held + y.nbytes
    graph.reset()
    assert cuda.memory_allocated() == used + y.nbytes
    del y
    cuda.empty_cache()
    assert cuda.memory_allocated() == used and cuda.memory_reserved() <= held


def test_a_process_can_be_limited():
    total = cuda.mem_get_info()[1]
    assert cuda.get_per_process_memory_fraction() == 1.0
    try:
        cuda.set_per_process_memory_fraction(0.25)
        assert cuda.get_per_process_memory_fraction() == pytest.approx(0.25)
        with pytest.raises((RuntimeError, MemoryError)):
            torch.empty(total // 8, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    with pytest.raises(TypeError, match="must be `float`"):
        cuda.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Allowed range"):
        cuda.set_per_process_memory_fraction(1.5)


def test_old_names_warn():
    for name in "reset_max_memory_allocated", "reset_max_memory_cached":
        with pytest.warns(FutureWarning, match="resets /all/ peak"):
            getattr(cuda, name)()
    assert cuda.memory_cached() == cuda.memory_reserved() and cuda.max_memory_cached() == cuda.max_memory_reserved()
