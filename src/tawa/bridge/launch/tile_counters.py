"""The counters from which the programs of a launch take their tiles (`tawa.transforms.ttir.dynamic_tiles`).

A counter is 0 before a launch, and the launch leaves it at 0. Two launches that may run at the same time must not share
one:

    launches on one stream           run one after the other: they share the counter of the stream
    launches on different streams    have different counters. A stream is known by the id that CUDA gives it, because a
                                     handle may be used again while work of the stream that had it still runs
    launches that are captured       each have a counter of their own: the graph may be replayed beside any other work.
                                     CUDA runs the replays of one executable graph one after the other. A graph that is
                                     made executable twice must not be replayed twice at the same time

The memory comes from the driver, in parts for many counters, and is kept until the process ends: a graph may be
replayed at any time. So nothing here needs PyTorch, and no launch initialises anything. A part can be allocated during
a capture: PyTorch forbids calls that might wait for a capture, but these wait only for a stream of their own.

Source: CUDA driver API, cuStreamGetId, cuStreamIsCapturing, cuThreadExchangeStreamCaptureMode, cuGraphLaunch.
"""

from __future__ import annotations

import ctypes
from functools import cache, cached_property
from threading import Lock
from typing import Any, Protocol

from tawa.errors import DeviceError

SPACING_BYTES = 128
"""The distance of two counters: a cache line, so that atomics on one do not wait for those on another."""
PART_BYTES = 1 << 18


class Driver(Protocol):
    """What the counters need of CUDA. stream: a handle; 0 is the default stream."""

    def context(self) -> int:
        """A number for the current context, which no other context has."""
        ...

    def stream_id(self, stream: int) -> int:
        """A number for a stream, which no other stream has or will have."""
        ...

    def is_capturing(self, stream: int) -> bool:
        """Whether launches on the stream are being captured into a graph."""
        ...

    def zeros(self, size: int) -> int:
        """The address of `size` bytes in the current context, all zero."""
        ...


class TileCounters:
    """The counters of a process."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.of_streams: dict[int, int] = {}
        self.left: dict[int, list[int]] = {}
        """By context: addresses of counters that no launch has had yet."""
        self.lock = Lock()

    def address(self, stream: int) -> int:
        """The address of the counter for one launch on a stream."""
        if self.driver.is_capturing(stream):
            with self.lock:
                return self._new()
        number = self.driver.stream_id(stream)
        found = self.of_streams.get(number)
        if found is None:
            with self.lock:  # two threads may launch on one stream
                found = self.of_streams.get(number)
                if found is None:
                    found = self.of_streams[number] = self._new()
        return found

    def _new(self) -> int:
        left = self.left.setdefault(self.driver.context(), [])
        if not left:
            start = self.driver.zeros(PART_BYTES)
            left.extend(range(start, start + PART_BYTES, SPACING_BYTES))
        return left.pop()


_INVALID_CONTEXT = 201
_CAPTURE_ENDS_IMPLICITLY = 906
"""The default stream, while a stream that waits for it is being captured. The launch itself will fail."""
_RELAXED, _NON_BLOCKING = 2, 1


class Cuda:
    """The `Driver` of this machine, which knows captures as well (`tawa.bridge.launch.workspaces.CapturingDriver`)."""

    @cached_property
    def library(self) -> Any:
        """CUDA's. Raises OSError on a machine without it, at the first call: a launch may also be chosen only."""
        return ctypes.CDLL("libcuda.so.1")

    def context(self) -> int:
        """As `Driver.context`."""
        number = ctypes.c_ulonglong()
        self._call("cuCtxGetId", None, ctypes.byref(number))
        return number.value

    def stream_id(self, stream: int) -> int:
        """As `Driver.stream_id`."""
        number = ctypes.c_ulonglong()
        self._call("cuStreamGetId", ctypes.c_void_p(stream), ctypes.byref(number))
        return number.value

    def is_capturing(self, stream: int) -> bool:
        """As `Driver.is_capturing`."""
        status = ctypes.c_int()
        self._call(
            "cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(status), allowed=_CAPTURE_ENDS_IMPLICITLY
        )
        return status.value != 0

    def capture_id(self, stream: int) -> int:
        """As `CapturingDriver.capture_id`."""
        status, number = ctypes.c_int(), ctypes.c_ulonglong()
        rest = (None, None, None)  # the graph and the dependencies
        where = ctypes.byref(status), ctypes.byref(number)
        self._call(
            "cuStreamGetCaptureInfo_v2", ctypes.c_void_p(stream), *where, *rest, allowed=_CAPTURE_ENDS_IMPLICITLY
        )
        return number.value if status.value else 0

    def zeros(self, size: int) -> int:
        """As `Driver.zeros`."""
        mode, address, stream = ctypes.c_int(_RELAXED), ctypes.c_ulonglong(), ctypes.c_void_p()
        self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
            self._call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING))
            self._call("cuMemsetD8Async", address, ctypes.c_ubyte(0), ctypes.c_size_t(size), stream)
            self._call("cuStreamSynchronize", stream)
            self._call("cuStreamDestroy_v2", stream)
        finally:
            self._call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        return address.value

    def _call(self, name: str, *args: Any, allowed: int = 0) -> None:
        function = getattr(self.library, name, None)
        if function is None:
            raise DeviceError(f"the CUDA driver has no {name}: cure: a driver of CUDA 12 or newer, or tiles='strided'")
        code = function(*args)
        if code == _INVALID_CONTEXT:
            self._make_current()
            code = function(*args)
        if code not in (0, allowed):
            raise DeviceError(f"{name} of the CUDA driver failed with error {code}")

    def _make_current(self) -> None:
        """Makes the primary context of Triton's device current in this thread, as Triton's launcher does."""
        from triton.runtime import driver

        active: Any = driver.active
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.library.cuDeviceGet(ctypes.byref(device), ctypes.c_int(active.get_current_device()))
        self.library.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.library.cuCtxSetCurrent(context)


@cache
def cuda_driver() -> Cuda:
    """The driver of this machine."""
    return Cuda()


@cache
def process_counters() -> TileCounters:
    """The counters of this process."""
    return TileCounters(cuda_driver())
