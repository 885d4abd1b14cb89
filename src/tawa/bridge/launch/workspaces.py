"""The memory that programs share to sum a tile in shares (`tawa.transforms.ttir.split_k`): workspaces and semaphores.

A workspace has any contents before a launch. The semaphores are 0 before it, and the launch leaves them at 0. Two
launches that may run at the same time must not share either:

    launches on one stream           run one after the other: they share the memory of the stream, which grows with the
                                     largest launch. What was too small is kept, since a launch may still use it
    launches on different streams    have different memory, by the id of the stream
    launches that are captured       share memory with those that one capture gets from the same stream, which are in
                                     order in the graph as well. Two replays of one executable graph do not overlap. A
                                     graph that is made executable twice must not be replayed twice at the same time

The memory comes from the driver and is kept until the process ends (`tawa.bridge.launch.tile_counters` says why).
Source: CUDA driver API, cuStreamGetCaptureInfo, cuStreamGetId.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Protocol

from tawa.bridge.launch.tile_counters import Driver, cuda_driver

LEAST_BYTES = 1 << 20
"""The least size of a workspace."""
LEAST_SEMAPHORES = 1 << 10
_SEMAPHORE_BYTES = 4


class CapturingDriver(Driver, Protocol):
    """What workspaces need of CUDA."""

    def capture_id(self, stream: int) -> int:
        """A number for the capture that a stream takes part in, which no other capture has; 0 without one."""
        ...


@dataclass(slots=True)
class _Memory:
    """What the launches of one stream, or of one stream in one capture, share."""

    workspace: int = 0
    bytes: int = 0
    semaphores: int = 0
    count: int = 0


class Workspaces:
    """The workspaces and semaphores of a process."""

    def __init__(self, driver: CapturingDriver) -> None:
        self.driver = driver
        self.known: dict[tuple[int, int], _Memory] = {}
        self.lock = Lock()

    def addresses(self, stream: int, bytes: int, tiles: int) -> tuple[int, int]:
        """The addresses of a workspace of at least so many bytes, and of a semaphore for each tile, for one launch."""
        capture = self.driver.capture_id(stream)
        key = (capture, stream) if capture else (0, self.driver.stream_id(stream))
        found = self.known.get(key)
        if found is None or found.bytes < bytes or found.count < tiles:
            with self.lock:  # two threads may launch on one stream
                found = self.known.setdefault(key, _Memory())
                self._grow(found, bytes, tiles)
        return found.workspace, found.semaphores

    def _grow(self, memory: _Memory, bytes: int, tiles: int) -> None:
        if memory.bytes < bytes:
            size = max(LEAST_BYTES, bytes, 2 * memory.bytes)
            memory.workspace, memory.bytes = self.driver.zeros(size), size
        if memory.count < tiles:
            count = max(LEAST_SEMAPHORES, tiles, 2 * memory.count)
            memory.semaphores, memory.count = self.driver.zeros(count * _SEMAPHORE_BYTES), count


@cache
def process_workspaces() -> Workspaces:
    """The workspaces of this process."""
    return Workspaces(cuda_driver())
