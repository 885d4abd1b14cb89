"""Triton's launcher without the search for scratch memory: the same call of the function in C, or Triton's own way."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.launch.straight import straight
from tests.bridge.launching import Launching

pytestmark = pytest.mark.contract

PASSED = (2, 3, 4, 5, 6, (8, 1, 0), "about", None, None, 7, 9)


def launcher(driver: Launching, **metadata: Any) -> Any:
    known = {
        "global_scratch_size": 0, "global_scratch_align": 1, "profile_scratch_size": 0, "profile_scratch_align": 1,
        "launch_cooperative_grid": False, "launch_pdl": True, "tensordesc_meta": (), "instrumentation_mode": "",
    }  # fmt: skip
    source = SimpleNamespace(signature={"x": "i32", "n": "i32"}, constants={})
    return driver.launcher_cls(source, SimpleNamespace(**{**known, **metadata}))


def test_the_function_in_c_gets_what_triton_passes(gpu: Launching) -> None:
    theirs = launcher(gpu)
    ours = straight(theirs)
    assert ours is not theirs
    theirs(*PASSED)
    ours(*PASSED)
    assert gpu.launched[0] == gpu.launched[1]


@pytest.mark.parametrize("metadata", [{"global_scratch_size": 128}, {"profile_scratch_size": 128}])
def test_a_kernel_with_scratch_memory_is_launched_by_triton(gpu: Launching, metadata: dict[str, Any]) -> None:
    theirs = launcher(gpu, **metadata)
    assert straight(theirs) is theirs


def test_another_launcher_stays_as_it_is() -> None:
    assert straight(print) is print


@pytest.mark.parametrize("metadata", [{}, {"other": True}])
def test_launches_are_counted(gpu: Launching, metadata: dict[str, Any]) -> None:
    count = SimpleNamespace(launches=0)
    theirs = (lambda *args: None) if metadata else launcher(gpu)
    for _ in range(3):
        straight(theirs, count)(*PASSED)
    assert count.launches == 3
