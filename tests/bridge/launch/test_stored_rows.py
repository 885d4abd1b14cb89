"""Tiles that are stored into columns of a larger tensor: TMA stores them only where it changes nothing behind them."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import triton
import triton.language as tl

import tawa
from tawa.bridge.launch.added_arguments import known_without, launch_spec
from tawa.plan import Plan, StorePlan
from tests.bridge.launching import Launching
from tests.cases.small.promoted_kernels import persistent_gemm

pytestmark = pytest.mark.usefixtures("without_ptx")

ROWS = "TMA would write behind rows that do not end at a multiple of 16 bytes"
PITCH = 8192
CONSTANTS = {"BM": 128, "BN": 256, "BK": 64, "PROGRAMS": 132, "num_warps": 8}


@triton.jit
def of_constant_length(
    a_ptr, b_ptr, c_ptr, M, N: tl.constexpr, K, stride_am, stride_bk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    persistent_gemm(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_bk, stride_cm, BM, BN, BK, PROGRAMS)


def tensor(address: int, element: Any) -> Any:
    return SimpleNamespace(data_ptr=partial(int, address), dtype=element)


def launched(kernel: Any, columns: int, element: Any = tl.float16, m: int = 8192, **more: Any) -> Any:
    """The kernel of a launch into the first columns of rows of 8192 elements; the launcher's choice is in `run`."""
    a, b = (tensor(1 << at, tl.float16) for at in (30, 31))
    sizes = (m, columns, 512, *3 * [PITCH])
    return kernel[(132,)](a, b, tensor(1 << 32, element), *sizes, **{**CONSTANTS, **more})


def stored(compiled: Any) -> list[str | None]:
    """How TMA stores C in a kernel; empty if the kernel stores it through pointers."""
    return [it.path for it in Plan.of(compiled.metadata.tawa["plan"]).stores]


def descriptors(gpu: Launching) -> int:
    """The descriptors that the last launch passed: of A and B, and of C if it is stored by TMA."""
    return str(gpu.launched[-1]).count("'tensor map'")


@pytest.fixture
def kernel(gpu: Launching, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(gpu, "encode", lambda *about: "tensor map")
    gpu.utils.fill_tma_descriptor = gpu.utils.fill_tma_descriptor_tiled = gpu.encode
    return tawa.jit(triton.jit(persistent_gemm.fn))


@pytest.mark.parametrize(("element", "whole", "cut"), [(tl.float16, 4088, 4092), (tl.float32, 4092, 4090)])
def test_rows_that_end_within_a_chunk_are_stored_through_pointers(
    gpu: Launching, kernel: Any, element: Any, whole: int, cut: int
) -> None:
    """By one compiled kernel: Triton tells it of neither length that it is a multiple of 16."""
    made = launched(kernel, whole, element)
    assert (stored(made), descriptors(gpu), made.run.by_plan) == (["promoted"], 3, {})
    assert [it.reason for it in launch_spec(made).conditions if it.only_for] == [ROWS]
    assert launched(kernel, cut, element) is made
    assert descriptors(gpu) == 2
    assert [stored(it) for it in made.run.by_plan.values()] == [[]]
    launched(kernel, whole, element)
    assert descriptors(gpu) == 3


@pytest.mark.parametrize("element", [tl.int8, tl.uint8])
def test_bytes_end_within_a_chunk_unless_16_divides_their_number(gpu: Launching, kernel: Any, element: Any) -> None:
    for columns, wanted in ((4088, 2), (4080, 3)):
        launched(kernel, columns, element)
        assert descriptors(gpu) == wanted


def test_rows_that_are_known_to_be_whole_need_no_condition(gpu: Launching, kernel: Any) -> None:
    made = launched(kernel, 4096)
    assert (stored(made), known_without(made), descriptors(gpu)) == (["promoted"], {}, 3)


@pytest.mark.parametrize(("columns", "paths"), [(4092, []), (4088, ["promoted"])])
def test_a_length_that_is_a_constant_is_judged_by_the_compile(gpu: Launching, columns: int, paths: list[str]) -> None:
    made = launched(tawa.jit(of_constant_length), columns)
    assert (stored(made), known_without(made)) == (paths, {})


def test_a_small_launch_gets_stock_tritons_kernel_if_that_is_faster(gpu: Launching, kernel: Any) -> None:
    made = launched(kernel, 4088)
    launched(kernel, 12, m=16)
    assert descriptors(gpu) == 0 and made.run.by_plan == {}


def test_a_store_that_the_user_pins_is_not_replaced(gpu: Launching, kernel: Any) -> None:
    plan = Plan(stores=(StorePlan("c_ptr", 0, path="promoted"),))
    made = launched(kernel, 4092, plan=plan)
    assert (known_without(made), descriptors(gpu)) == ({}, 0)
    launched(kernel, 4088, plan=plan)
    assert descriptors(gpu) == 3


def test_what_else_the_user_pins_stays(gpu: Launching, kernel: Any) -> None:
    made = launched(kernel, 4092, plan={"loops": [{"loop": 1, "mma_depth": 0}]})
    (other,) = made.run.by_plan.values()
    assert stored(other) == [] and Plan.of(other.metadata.tawa["plan"]).loop(1).mma_depth == 0
