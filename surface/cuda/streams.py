"""Streams and events of CUDA devices: CuPy's, each on the device of its own, whichever is the current one."""

from __future__ import annotations

import collections
import contextlib
import weakref

import plugrad


def _cuda():
    return plugrad.cuda._runtime()


class Stream:
    """A queue of work on a device: CuPy's, used by `with torch.cuda.stream(...)`.

    Without a device it raises RuntimeError, as in a CPU build of PyTorch.
    """

    def __init__(self, device=None, priority=0, **others):
        if not plugrad.cuda.is_available():
            raise RuntimeError("torch.cuda.Stream requires CUDA support: there is no CUDA device here")
        self.device = plugrad.device("cuda", plugrad.cuda._index(device))
        with self._current():
            self._stream = others.get("stream") or _cuda().Stream(non_blocking=True)

    def _current(self):
        """Return a context in which the stream's device is the current one."""
        return _cuda().Device(self.device.index)

    def synchronize(self) -> None:
        """Wait until its work is done."""
        with self._current():
            self._stream.synchronize()

    def query(self) -> bool:
        """Whether its work is done."""
        with self._current():
            return bool(self._stream.done)

    def wait_stream(self, stream) -> None:
        """Have work that comes wait for what another stream has now."""
        self.wait_event(stream.record_event())

    def wait_event(self, event) -> None:
        """Have work that comes wait for an event, if it was recorded."""
        if event._event is not None:
            with self._current():
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
        return isinstance(other, Stream) and (other._stream, other.device) == (self._stream, self.device)

    def __hash__(self):
        return hash((self._stream, self.device))


class Event:
    """A moment in a stream, to wait for or to measure by.

    It is on the device of the stream that it is recorded in first. Without a device it raises RuntimeError, as in a CPU
    build of PyTorch.
    """

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if not plugrad.cuda.is_available():
            raise RuntimeError("Tried to instantiate dummy base class Event: there is no CUDA device here")
        self._options = {"block": blocking, "disable_timing": not enable_timing, "interprocess": interprocess}
        self._event = self.device = None

    def record(self, stream=None) -> None:
        """Note the moment when the work that a stream has now is done.

        Raises RuntimeError for a stream of another device than the one before.
        """
        stream = current_stream() if stream is None else stream
        if self._event is not None and self.device != stream.device:
            raise RuntimeError(
                f"Event device {self.device.index} does not match recording stream's device {stream.device.index}.; "
                "make an event for each device"
            )
        with stream._current():
            if self._event is None:
                self._event, self.device = _cuda().Event(**self._options), stream.device
            self._event.record(stream._stream)

    def synchronize(self) -> None:
        """Wait for the moment."""
        if self._event is not None:
            self._event.synchronize()

    def query(self) -> bool:
        """Whether the moment is past; it is if the event was not recorded."""
        return self._event is None or bool(self._event.done)

    def wait(self, stream=None) -> None:
        """Have a stream's work that comes wait for the moment."""
        (current_stream() if stream is None else stream).wait_event(self)

    def elapsed_time(self, end_event) -> float:
        """Return the milliseconds until a later event.

        Raises ValueError for events that were not recorded, or on two devices, or without `enable_timing=True`.
        """
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if self.device != end_event.device:
            raise ValueError(f"Both events must be on the same device; they are on {self.device}, {end_event.device}")
        if self._options["disable_timing"] or end_event._options["disable_timing"]:
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        return float(_cuda().get_elapsed_time(self._event, end_event._event))


def current_stream(device=None):
    """Return the stream that work goes to."""
    plugrad.cuda._needed().captures.here()  # one that was broken off had a stream of its own
    number = plugrad.cuda._index(device)
    return Stream(number, stream=_cuda().get_current_stream(number))


def default_stream(device=None):
    """Return the stream that work goes to where none was chosen."""
    return Stream(device, stream=_cuda().Stream.null)


def set_stream(stream) -> None:
    """Choose the stream that work goes to; its device is the current one then.

    None leaves both as they are.
    """
    if stream is not None:
        if stream.device.index != plugrad.cuda.current_device():
            plugrad.cuda.set_device(stream.device.index)
        stream._stream.use()


class StreamContext:
    """A context whose work goes to a stream, on the device of that.

    None changes nothing, so that it works without a device.
    """

    def __init__(self, stream):
        self.stream, self._regions = stream, contextlib.ExitStack()

    def __enter__(self):
        if self.stream is not None:
            with contextlib.ExitStack() as regions:
                if self.stream.device.index != plugrad.cuda.current_device():
                    regions.enter_context(plugrad.cuda.device(self.stream.device))
                regions.enter_context(self.stream._stream)
                self._regions = regions.pop_all()

    def __exit__(self, *exception):
        self._regions.close()
        return False


def stream(stream):
    """Return a context whose work goes to a stream; None changes nothing."""
    return StreamContext(stream)


# ---------------------------------------------------------------------------------------------------- memory

_held: collections.deque = collections.deque()  # (moment, its stream, memory that work before it uses)


def record_stream(tensor, stream) -> None:
    """Have the memory of a tensor kept for a stream: see `Tensor.record_stream`."""
    if tensor.device.type != "cuda":
        raise NotImplementedError(
            f"Could not run 'aten::record_stream' with arguments from the '{tensor.device.type.upper()}' backend: only "
            "memory of CUDA devices is given back to a stream"
        )
    if not isinstance(stream, Stream):
        raise TypeError(f"record_stream(): argument 'stream' must be a torch.cuda.Stream, not {type(stream).__name__}")
    let_go()
    owner = tensor._raw
    while owner.base is not None:
        owner = owner.base
    weakref.finalize(owner, _keep, owner.data, stream).atexit = False


def _keep(memory, stream) -> None:
    _held.append((None if _capturing() else stream.record_event(), stream, memory))


def _capturing() -> bool:
    """Whether something is captured, in which an event would become a part of the graph."""
    return plugrad.cuda._needed().captures.capture is not None


def let_go() -> None:
    """Free memory that was kept for other streams, as far as these are done."""
    for _ in range(0 if _capturing() else len(_held)):
        with contextlib.suppress(IndexError):  # another thread may have been here
            moment, stream, memory = _held.popleft()
            moment = stream.record_event() if moment is None else moment
            if not moment.query():
                _held.append((moment, stream, memory))
            del memory
