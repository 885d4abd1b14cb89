"""GPU time of single launches, between two events on their own stream, read long after the launch.

Nothing here waits, and nothing disturbs a capture of a CUDA graph on another thread: CUDA forbids some calls to all
threads while one captures in global mode, unless a thread asks for the relaxed mode, as it is done here.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

_NOT_READY = 600
_RELAXED = 2
_SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 %begin, %now, %wanted;
    .reg .pred %early;
    ld.param.u64 %wanted, [nanoseconds];
    mov.u64 %begin, %globaltimer;
again:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %early, %now, %wanted;
    @%early bra again;
    ret;
}
"""
"""One thread that waits: it leaves the caches as they are."""


class Clock(Protocol):
    """Marks places on streams."""

    def mark(self, stream: int) -> Any:
        """A mark behind what was launched on a stream."""
        ...

    def read_ms(self, begin: Any, end: Any) -> float | None:
        """Milliseconds between two marks, which are given back; None as long as the second was not reached."""
        ...

    def is_reached(self, mark: Any) -> bool:
        """Whether the GPU has passed a mark."""
        ...

    def forget(self, *marks: Any) -> None:
        """Gives marks back unread."""
        ...

    def wait(self) -> None:
        """Waits until all that was launched has ended."""
        ...

    def occupy(self, stream: int, seconds: float) -> None:
        """Keeps a stream busy for that time. Raises OSError where CUDA refuses it."""
        ...


class EventClock:
    """Events of CUDA's driver, of the context of the thread that launches. Used events are kept for later marks."""

    def __init__(self, cuda: Any) -> None:
        self.cuda = cuda
        self.free: list[Any] = []

    def mark(self, stream: int) -> Any:
        """An event on a stream. Raises OSError where CUDA refuses it."""
        if self.free:
            event = self.free.pop()
        else:
            event = ctypes.c_void_p()
            with beside_captures():
                _check(self.cuda.cuEventCreate(ctypes.byref(event), 0))
        _check(self.cuda.cuEventRecord(event, ctypes.c_void_p(stream)))
        return event

    def is_reached(self, mark: Any) -> bool:
        """Whether the GPU has passed an event."""
        with beside_captures():
            status = self.cuda.cuEventQuery(mark)
        if status != _NOT_READY:
            _check(status)
        return status != _NOT_READY

    def read_ms(self, begin: Any, end: Any) -> float | None:
        """Milliseconds between two events, which are given back; None as long as the second was not reached."""
        if not self.is_reached(end):
            return None
        found = ctypes.c_float()
        with beside_captures():
            _check(self.elapsed(ctypes.byref(found), begin, end))
        self.forget(begin, end)
        return found.value

    def forget(self, *marks: Any) -> None:
        """Gives events back unread."""
        self.free += marks

    def wait(self) -> None:
        """Waits until all that was launched in this context has ended."""
        self.cuda.cuCtxSynchronize()

    def occupy(self, stream: int, seconds: float) -> None:
        """One thread waits for that time. Raises OSError where CUDA refuses it."""
        context = ctypes.c_void_p()
        _check(self.cuda.cuCtxGetCurrent(ctypes.byref(context)))
        time_ns = ctypes.c_uint64(int(seconds * 1e9))
        given = (ctypes.c_void_p * 1)(ctypes.addressof(time_ns))
        one = (1,) * 6  # the grid, and a CTA
        _check(self.cuda.cuLaunchKernel(_spin(context.value), *one, 0, ctypes.c_void_p(stream), given, None))

    @functools.cached_property
    def elapsed(self) -> Any:
        """The function has another name since CUDA 13."""
        return getattr(self.cuda, "cuEventElapsedTime_v2", None) or self.cuda.cuEventElapsedTime


@contextmanager
def beside_captures() -> Iterator[None]:
    """Lets this thread make calls that CUDA forbids while another thread captures a graph in global mode."""
    cuda, mode = _cuda(), ctypes.c_int(_RELAXED)
    if cuda is None:
        yield
        return
    cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))
    try:
        yield
    finally:
        cuda.cuThreadExchangeStreamCaptureMode(ctypes.byref(mode))


@functools.cache
def _spin(context: int | None) -> Any:
    """The kernel of one thread that waits, in the current context, which is `context`."""
    cuda, module, function = _cuda(), ctypes.c_void_p(), ctypes.c_void_p()
    with beside_captures():
        _check(cuda.cuModuleLoadData(ctypes.byref(module), _SPIN))
        _check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"spin"))
    return function


def _check(status: int) -> None:
    if status:
        raise OSError(f"CUDA error {status}")


@functools.cache
def _cuda() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def event_clock() -> Clock | None:
    """A clock for the launches of one kernel on one device; None without a CUDA driver."""
    return EventClock(_cuda()) if _cuda() is not None else None
