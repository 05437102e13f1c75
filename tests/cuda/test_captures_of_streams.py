"""Streams that capture, as CuPy sees them: on a GPU CUDA's, else the stand-in's, which is held to do the same."""

import numpy
import pytest

UNSUPPORTED, INVALIDATED, UNJOINED = 900, 901, 904  # cudaErrorStreamCapture...


@pytest.fixture
def stream(cupy):
    one = cupy.cuda.Stream(non_blocking=True)
    with one:
        yield one


def test_work_is_done_at_each_launch_and_not_before(cupy, stream):
    x, out = cupy.arange(6, dtype="float32").reshape(2, 3), cupy.zeros((2, 3), "float32")
    kernel = cupy.RawKernel(
        """extern "C" __global__ void add(float* out, const float* x, float by) {
            out[threadIdx.x] = x[threadIdx.x] + by;
        }""",
        "add",
    )
    kernel((1,), (6,), (out, x, cupy.float32(0)))
    out.fill(0)
    stream.synchronize()
    stream.begin_capture()
    assert stream.is_capturing()
    kernel((1,), (6,), (out, x, cupy.float32(10)))  # whose arguments are gone when the graph is launched
    copied, total = out.copy(), (out * 2).sum(1)
    cleared = out.copy()
    cleared.data.memset_async(0, cleared.nbytes)
    graph = stream.end_capture()
    assert not stream.is_capturing()
    assert cupy.asnumpy(out).tolist() == [[0] * 3] * 2
    for step in range(3):
        graph.launch()
        wanted = numpy.arange(6).reshape(2, 3) + 10 + step
        assert cupy.asnumpy(out).tolist() == wanted.tolist() == cupy.asnumpy(copied).tolist()
        assert cupy.asnumpy(total).tolist() == (2 * wanted).sum(1).tolist()
        assert not cupy.asnumpy(cleared).any()
        x += 1


def test_what_was_not_computed_yet_shows(cupy, stream, on_stand_in):
    if not on_stand_in:
        pytest.skip("memory of a GPU may hold anything")
    x = cupy.ones(100)
    stream.begin_capture()
    y = x + 1
    graph = stream.end_capture()
    assert (cupy.asnumpy(y).view("uint8") == 0xA5).all()
    graph.launch()
    assert (cupy.asnumpy(y) == 2).all()


@pytest.mark.parametrize("wait", ["stream", "device", "event"])
def test_waiting_spoils_a_capture(cupy, stream, wait):
    event = cupy.cuda.Event()
    x = cupy.ones(3)
    stream.begin_capture()
    x += 1
    event.record(stream)
    call = {"stream": stream.synchronize, "device": cupy.cuda.Device().synchronize, "event": event.synchronize}[wait]
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError) as caught:
        call()
    assert caught.value.status in (UNSUPPORTED, 907)  # of an event that was recorded in a capture CUDA says so
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError) as caught:
        stream.end_capture()
    assert caught.value.status == INVALIDATED
    assert x.sum().item() == 3 and not stream.is_capturing()


def test_copies_from_and_to_the_host_are_refused(cupy, stream):
    x = cupy.ones(3)
    for copy in x.get, lambda: cupy.asarray([1.0, 2.0]):
        stream.begin_capture()
        with pytest.raises(RuntimeError):
            copy()
        try:
            stream.end_capture()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            assert error.status == INVALIDATED
    assert x.get().tolist() == [1, 1, 1]


def test_streams_join_a_capture_by_events_and_have_to_be_waited_for(cupy, stream):
    x, side = cupy.ones(3), cupy.cuda.Stream(non_blocking=True)

    def captured(join):
        stream.begin_capture()
        side.wait_event(stream.record())
        with side:
            y = x * 2
        if join:
            stream.wait_event(side.record())
        return y, stream.end_capture()

    y, graph = captured(True)
    graph.launch()
    assert cupy.asnumpy(y).tolist() == [2, 2, 2]
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError) as caught:
        captured(False)
    assert caught.value.status == UNJOINED
    with side:
        assert (x + 1).sum().item() == 6


def test_work_of_other_streams_is_no_part_of_it(cupy, stream):
    x, other = cupy.ones(3), cupy.cuda.Stream(non_blocking=True)
    stream.synchronize()  # the other one waits for nobody
    stream.begin_capture()
    y = x * 2
    with other:
        z = x + 5
        other.synchronize()
    graph = stream.end_capture()
    with other:
        assert cupy.asnumpy(z).tolist() == [6, 6, 6]
        z.fill(0)
    graph.launch()
    stream.synchronize()
    assert cupy.asnumpy(y).tolist() == [2, 2, 2] and not cupy.asnumpy(z).any()


def test_the_default_stream_and_a_second_capture_are_refused(cupy, stream):
    with pytest.raises(RuntimeError, match="default"):
        cupy.cuda.Stream.null.begin_capture()
    stream.begin_capture()
    with pytest.raises(cupy.cuda.runtime.CUDARuntimeError):
        stream.begin_capture()
    try:
        stream.end_capture()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        assert error.status == INVALIDATED
    with pytest.raises((RuntimeError, cupy.cuda.runtime.CUDARuntimeError)):
        stream.end_capture()


def test_cupys_own_products_are_refused(cupy, stream):
    a = cupy.ones((3, 3), "float32")
    a @ a
    stream.synchronize()
    stream.begin_capture()
    with pytest.raises(Exception, match="unsupported|NOT_SUPPORTED"):
        a @ a
    try:
        stream.end_capture()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        assert error.status == INVALIDATED
    assert (a @ a).sum().item() == 27


def test_sorting_is_captured(cupy, stream):
    x = cupy.asarray([3, 1, 2])
    cupy.sort(x), cupy.argsort(x), cupy.lexsort(cupy.stack([x, -x]))
    stream.synchronize()
    stream.begin_capture()
    results = cupy.sort(x), cupy.argsort(x)
    graph = stream.end_capture()
    x[...] = cupy.asarray([7, 9, 8])
    graph.launch()
    assert [one.get().tolist() for one in results] == [[7, 8, 9], [0, 2, 1]]
