"""Counters of tiles: which launches share one."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch import tile_counters
from tawa.bridge.launch.tile_counters import PART_BYTES, SPACING_BYTES, TileCounters
from tawa.errors import DeviceError
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.bridge.launch.test_launcher import TENSOR, launcher


class Streams:
    """A driver whose streams are known by handle, and whose memory is counted up. made: the parts, by context."""

    def __init__(self) -> None:
        self.ids: dict[int, int] = {}
        self.captured: set[int] = set()
        self.current = 1
        self.made: list[tuple[int, int]] = []

    def context(self) -> int:
        return self.current

    def stream_id(self, stream: int) -> int:
        return self.ids.get(stream, stream + 1000)

    def is_capturing(self, stream: int) -> bool:
        return stream in self.captured

    def zeros(self, size: int) -> int:
        self.made.append((self.current, size))
        return 1 << 20 * len(self.made)


def test_launches_on_one_stream_share_a_counter_and_those_on_two_do_not() -> None:
    counters = TileCounters(Streams())
    first, second = counters.address(0), counters.address(7)
    assert first != second and abs(first - second) >= SPACING_BYTES
    assert [counters.address(0), counters.address(7)] == [first, second]


def test_every_captured_launch_has_a_counter_of_its_own() -> None:
    driver = Streams()
    counters = TileCounters(driver)
    eager = counters.address(7)
    driver.captured = {7}
    captured = [counters.address(7) for _ in range(5)]
    driver.captured = set()
    assert len({eager, *captured}) == 6
    assert counters.address(7) == eager and counters.address(9) not in captured


def test_a_stream_that_gets_the_handle_of_an_older_one_does_not_get_its_counter() -> None:
    driver = Streams()
    counters = TileCounters(driver)
    before = counters.address(7)
    driver.ids[7] = 5
    assert counters.address(7) != before


def test_counters_are_taken_from_parts_and_no_two_are_alike() -> None:
    driver = Streams()
    counters = TileCounters(driver)
    per_part = PART_BYTES // SPACING_BYTES
    found = [counters.address(stream) for stream in range(per_part + 1)]
    assert len(set(found)) == per_part + 1 and driver.made == [(1, PART_BYTES)] * 2
    assert all(address % SPACING_BYTES == 0 for address in found)


def test_a_counter_lies_in_the_memory_of_its_own_context() -> None:
    driver = Streams()
    counters = TileCounters(driver)
    counters.address(0)
    driver.current = 2
    counters.address(1)
    assert [context for context, _ in driver.made] == [1, 2]


def test_threads_that_launch_on_one_stream_get_one_counter() -> None:
    class Slow(Streams):
        def zeros(self, size: int) -> int:
            time.sleep(0.01)  # the others arrive meanwhile
            return super().zeros(size)

    counters, found = TileCounters(Slow()), list[int]()
    threads = [threading.Thread(target=lambda: found.append(counters.address(3))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def counted(launches: list[tuple[int, ...]], spec: LaunchSpec, driver: Streams, **metadata: Any) -> list[Any]:
    """What launches pass behind the arguments of the user. launches: the grid and the stream of each."""
    passed: list[Any] = []
    launch = launcher(
        lambda *all_of: passed.append((all_of[:3], all_of[13:])), lambda *_: passed.append("stock"), spec,
        processors=4, counters=TileCounters(driver),
    )  # fmt: skip
    for name, value in metadata.items():
        setattr(launch.kernel.metadata, name, value)
    for *grid, stream in launches:
        launch(*grid, stream, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    return passed


def test_a_launch_passes_the_address_of_a_counter_behind_everything_else() -> None:
    driver = Streams()
    found = counted([(6, 2, 1, 0), (6, 2, 1, 5), (6, 2, 1, 0)], LaunchSpec(axes=2, counter=True), driver)
    (grid, (x, y, first)), (_, (_, _, second)), (_, (_, _, again)) = found
    assert grid == (4, 1, 1) and (x, y) == (6, 2)
    assert first == again != second


def test_launches_of_a_loop_that_the_kernel_has_pass_the_counter_alone() -> None:
    found = counted([(6, 1, 1, 0)], LaunchSpec(counter=True), Streams())
    ((grid, added),) = found
    assert grid == (6, 1, 1) and len(added) == 1


def test_a_grid_of_two_axes_gets_the_stock_kernel_if_the_loop_is_over_one() -> None:
    assert counted([(6, 2, 1, 0)], LaunchSpec(counter=True), Streams()) == ["stock"]


def test_a_launch_that_may_overlap_the_next_one_gets_the_stock_kernel() -> None:
    assert counted([(6, 1, 1, 0)], LaunchSpec(axes=1, counter=True), Streams(), launch_pdl=True) == ["stock"]


def test_the_counter_is_declared_behind_the_sizes_of_the_grid() -> None:
    from tawa.bridge.launch.added_arguments import Extended

    source = SimpleNamespace(signature={"x": "*fp16"})
    names = list(Extended(source, LaunchSpec(axes=2, counter=True)).signature.items())
    assert names == [("x", "*fp16"), ("tawa_grid_0", "i32"), ("tawa_grid_1", "i32"), ("tawa_tile_counter", "*i32")]


class Library:
    """As much of the CUDA driver as the counters call. calls: their names, in order."""

    def __init__(self, *, old: bool = False, fails: int = 0) -> None:
        self.calls: list[str] = []
        self.old, self.fails = old, fails

    def __getattr__(self, name: str) -> Any:
        if self.old and name == "cuStreamGetId":
            raise AttributeError(name)

        def call(*args: Any) -> int:
            self.calls.append(name)
            return self.fails

        return call


def cuda(library: Library) -> Any:
    driver = object.__new__(tile_counters.Cuda)
    driver.library = library
    return driver


def test_memory_is_made_without_waiting_for_a_capture() -> None:
    library = Library()
    cuda(library).zeros(256)
    assert library.calls[0] == library.calls[-1] == "cuThreadExchangeStreamCaptureMode"
    assert "cuMemAlloc_v2" in library.calls and "cuMemsetD8Async" in library.calls


def test_a_driver_that_is_too_old_is_named_with_a_cure() -> None:
    with pytest.raises(DeviceError, match="CUDA 12 or newer, or tiles='strided'"):
        cuda(Library(old=True)).stream_id(0)


def test_an_error_of_the_driver_is_not_swallowed() -> None:
    with pytest.raises(DeviceError, match=r"cuMemAlloc_v2|cuThreadExchange"):
        cuda(Library(fails=2)).zeros(256)


def test_a_default_stream_that_a_capture_forbids_is_left_to_the_launch() -> None:
    assert not cuda(Library(fails=906)).is_capturing(0)
