"""Workspaces and semaphores: which launches share them, and what launches of shared tiles pass."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from tawa.bridge.launch.workspaces import LEAST_BYTES, LEAST_SEMAPHORES, Workspaces
from tawa.symbolic.host.launch_spec import LaunchSpec, Shared
from tests.bridge.launch.test_launcher import TENSOR, launcher
from tests.bridge.launch.test_tile_counters import Library, Streams, cuda

SHARED = Shared(3, 64 * 128)


class Captures(Streams):
    """A driver whose streams take part in captures by number."""

    def __init__(self) -> None:
        super().__init__()
        self.captures: dict[int, int] = {}

    def capture_id(self, stream: int) -> int:
        return self.captures.get(stream, 0)


def test_launches_on_one_stream_share_memory_and_those_on_two_do_not() -> None:
    workspaces = Workspaces(Captures())
    first, second = workspaces.addresses(0, 100, 4), workspaces.addresses(7, 100, 4)
    assert len({*first, *second}) == 4
    assert workspaces.addresses(0, 50, 2) == first and workspaces.addresses(7, 100, 4) == second


def test_launches_of_one_capture_share_memory_which_no_other_launch_has() -> None:
    driver = Captures()
    workspaces = Workspaces(driver)
    found = [workspaces.addresses(7, 100, 4)]
    for capture in (1, 2):
        driver.captures = {7: capture, 8: capture}
        found += [workspaces.addresses(7, 100, 4), workspaces.addresses(8, 100, 4)]
        assert workspaces.addresses(7, 100, 4) == found[-2]
    driver.captures = {}
    assert len(set(found)) == 5 and workspaces.addresses(7, 100, 4) == found[0]


def test_memory_grows_and_what_was_too_small_is_left_to_its_launches() -> None:
    driver = Captures()
    workspaces = Workspaces(driver)
    small = workspaces.addresses(0, 1, 1)
    large = workspaces.addresses(0, LEAST_BYTES + 1, 1)
    assert large[0] != small[0] and large[1] == small[1]
    more = workspaces.addresses(0, 1, LEAST_SEMAPHORES + 1)
    assert more[0] == large[0] and more[1] != large[1]
    assert [size for _, size in driver.made] == [LEAST_BYTES, 4096, 2 * LEAST_BYTES, 8192]


def test_threads_that_launch_on_one_stream_get_the_same_memory() -> None:
    workspaces, found = Workspaces(Captures()), list[tuple[int, int]]()
    threads = [threading.Thread(target=lambda: found.append(workspaces.addresses(3, 100, 4))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1


def shared(grid: tuple[int, int, int], spec: LaunchSpec, **metadata: Any) -> list[Any]:
    """What a launch passes behind the arguments of the user."""
    passed: list[Any] = []
    launch = launcher(
        lambda *all_of: passed.append((all_of[:3], all_of[13:])), lambda *_: passed.append("stock"), spec,
        processors=4, workspaces=Workspaces(Captures()),
    )  # fmt: skip
    for name, value in metadata.items():
        setattr(launch.kernel.metadata, name, value)
    launch(*grid, 0, 7, None, None, None, None, TENSOR, 100, True, (48, None))
    return passed


def test_a_launch_has_so_many_times_more_programs_along_x_and_passes_both_addresses() -> None:
    ((grid, added),) = shared((6, 2, 1), LaunchSpec(shared=SHARED))
    assert grid == (18, 2, 1) and len(added) == 2 and added[0] != added[1]


def test_a_launch_that_may_overlap_the_next_one_gets_the_stock_kernel() -> None:
    assert shared((6, 2, 1), LaunchSpec(shared=SHARED), launch_pdl=True) == ["stock"]


def test_a_grid_whose_partial_sums_are_too_large_gets_the_stock_kernel() -> None:
    assert shared((1 << 16, 1, 1), LaunchSpec(shared=SHARED)) == ["stock"]


def test_the_addresses_are_declared_behind_everything_else() -> None:
    from tawa.bridge.launch.added_arguments import Extended

    names = list(Extended(SimpleNamespace(signature={"x": "*fp16"}), LaunchSpec(shared=SHARED)).signature.items())
    assert names == [("x", "*fp16"), ("tawa_workspace", "*fp32"), ("tawa_semaphores", "*i32")]
    assert LaunchSpec.from_json(LaunchSpec(shared=SHARED).to_json()) == LaunchSpec(shared=SHARED)


def test_a_stream_takes_part_in_no_capture_unless_the_driver_says_so() -> None:
    library = Library()
    assert cuda(library).capture_id(5) == 0 and library.calls == ["cuStreamGetCaptureInfo_v2"]
