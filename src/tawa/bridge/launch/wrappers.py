"""Launchers around a launcher: each adds an argument, or does something before it launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tawa.bridge.launch.first.background import Task
from tawa.bridge.launch.first.learning import learning
from tawa.bridge.launch.host import Allocate
from tawa.bridge.launch.tile_counters import TileCounters
from tawa.bridge.launch.workspaces import Workspaces


def awaiting(task: Task, inner: Callable[..., None]) -> Callable[..., None]:
    """The same launcher for launches that may get another kernel when a task has ended."""

    def launch(*args: Any) -> None:
        if not task.ended.is_set():
            learning.wait_for(task)
        inner(*args)

    return launch


def with_counter(inner: Callable[..., None], counters: TileCounters) -> Callable[..., None]:
    """The same launcher, with the address of a counter behind all arguments."""

    def launch(grid_0: int, grid_1: int, grid_2: int, stream: int, *rest: Any) -> None:
        inner(grid_0, grid_1, grid_2, stream, *rest, counters.address(stream))

    return launch


def with_workspace(inner: Callable[..., None], workspaces: Workspaces, size: int, tiles: int) -> Callable[..., None]:
    """The same launcher, with the addresses of a workspace and of semaphores behind all arguments."""

    def launch(grid_0: int, grid_1: int, grid_2: int, stream: int, *rest: Any) -> None:
        inner(grid_0, grid_1, grid_2, stream, *rest, *workspaces.addresses(stream, size, tiles))

    return launch


def with_scratch(inner: Callable[..., None], allocate: Allocate) -> Callable[..., None]:
    """The same launcher, for launches in which `allocate` is Triton's allocator where the user has set none."""
    from triton.runtime import _allocation

    slot: Any = _allocation._allocator

    def launch(*args: Any) -> None:
        if not isinstance(slot.get(), _allocation.NullAllocator):
            inner(*args)
            return
        token = slot.set(allocate)
        try:
            inner(*args)
        finally:
            slot.reset(token)

    return launch
