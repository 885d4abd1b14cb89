"""Other warps than the launch's: only where stock Triton's kernel, which is compiled for that, has the same sums."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.triton.read_module import read_levels
from tawa.bridge.triton.structured import read_kernel
from tawa.errors import PlanError
from tawa.plan import Plan
from tawa.plan.decide.warps import check_other_warps
from tawa.plan.search.space import NOT_AHEAD
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.cases.small.row_kernels import (
    counted,
    decayed,
    eighths,
    grown,
    in_place,
    of_a_chunk,
    scored,
    side_by_side,
    spread,
    twice,
    weighed,
)  # fmt: skip
from tests.matrix.compiling import signature
from tests.matrix.promoting import Launch
from tests.support.fronts import front

TWO_GROUPS = Plan(groups=2)


def launch(kernel: Any, rows: int, columns: int) -> Launch:
    """A launch of a kernel that computes with rows; nothing is run."""
    half, single = np.zeros(1, np.float16), np.zeros(1, np.float32)
    arguments: dict[str, Any] = {"q_ptr": single, "k_ptr": half, "g_ptr": single, "sums_ptr": single, "out_ptr": single}
    arguments |= {"a_ptr": single, "T": 1, "J": 4}
    known = {"J": 8} if kernel is grown else {}
    taken = {name: it for name, it in arguments.items() if name in kernel.arg_names and name not in known}
    return Launch(kernel, taken, {**known, "B": rows, "N": columns}, (1,), told=False)


def compiled(given: Launch, launched: int, wanted: int | None) -> Any:
    request = Request(plan=replace(NOT_AHEAD, num_warps=wanted))
    return compile_kernel(given.kernel, given.signature(), request, num_warps=launched, num_stages=3)


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(
    ("kernel", "shape", "launched", "wanted"),
    [
        (spread, (16, 64), 1, 2), (spread, (32, 128), 2, 4), (weighed, (16, 64), 1, 4), (scored, (16, 64), 8, 2),
        (decayed, (16, 64), 1, 4), (of_a_chunk, (16, 64), 1, 2),
    ],
)  # fmt: skip
def test_a_kernel_gets_other_warps_where_layouts_leave_its_sums_alone(
    kernel: Any, shape: tuple[int, int], launched: int, wanted: int
) -> None:
    made = compiled(launch(kernel, *shape), launched, wanted)
    assert made.metadata.num_warps == wanted and f'"ttg.num-warps" = {wanted} : i32' in made.asm["ttgir"]


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(
    ("kernel", "shape", "launched", "wanted"),
    [(spread, (16, 64), 1, 4), (spread, (32, 128), 1, 2), (grown, (64, 256), 1, 2), (weighed, (8, 8), 2, 4)],
    ids=["converted product", "renamed product", "carried product", "uneven sum"],
)
def test_it_does_not_where_a_sum_may_round_otherwise(
    kernel: Any, shape: tuple[int, int], launched: int, wanted: int
) -> None:
    wrong = rf"num_warps={wanted} in a launch with num_warps={launched}: a sum may round .*:\d+\); cure: leave"
    with pytest.raises(PlanError, match=wrong):
        compiled(launch(kernel, *shape), launched, wanted)


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(
    ("kernel", "shape", "launched", "told"),
    [(spread, (32, 128), 1, "changes nothing"), (weighed, (8, 8), 2, "may give other bits: .* in two ways")],
)
def test_nor_is_a_kernel_rewritten_whose_sums_would_round_otherwise(
    kernel: Any, shape: tuple[int, int], launched: int, told: str
) -> None:
    with pytest.raises(PlanError, match=told):
        compiled(launch(kernel, *shape), launched, None)


def test_it_does_not_where_llvm_pairs_sums_of_products() -> None:
    with pytest.raises(PlanError, match="LLVM pairs sums of products"):
        compiled(launch(eighths, 32, 128), 1, 2)


FLOATS = {name: np.zeros(1, np.float32) for name in ("q_ptr", "out_ptr")}
COUNT = {**FLOATS, "count_ptr": np.zeros(1, np.int32)}
MEMORY = "threads may need what others access in memory"


def ttir(kernel: Any, arguments: dict[str, Any], constants: dict[str, Any]) -> Any:
    given = Launch(kernel, arguments, {"N": 64, **constants}, (1,), told=False)
    made = front(given.kernel, given.signature(), num_warps=1)
    return read_kernel(made.ttir, made.context)


@pytest.mark.parametrize(
    ("kernel", "arguments", "constants", "why"),
    [
        (in_place, {"q_ptr": FLOATS["q_ptr"], "J": 4}, {}, MEMORY),
        (twice, {**FLOATS, "J": 4}, {"FENCE": False}, MEMORY),
        (twice, {**FLOATS, "J": 4}, {"FENCE": True}, ""),
        (counted, COUNT, {"SEM": "release", "TICKET": False}, MEMORY),
        (counted, COUNT, {"SEM": "relaxed", "TICKET": True}, MEMORY),
        (counted, COUNT, {"SEM": "relaxed", "TICKET": False}, ""),
        (side_by_side, FLOATS, {}, "the order of its elements is that of a layout"),
    ],
)
def test_a_kernel_for_one_warp_may_lack_what_several_need(
    kernel: Any, arguments: dict[str, Any], constants: dict[str, Any], why: str
) -> None:
    module = ttir(kernel, arguments, constants)
    if not why:
        check_other_warps(module, 1, 4)
        return
    with pytest.raises(PlanError, match=why):
        check_other_warps(module, 1, 4)


def specialised(case: Specimen, plan: Plan) -> Any:
    return compile_kernel(
        case.kernel, signature(case), Request(plan=plan), num_warps=case.num_warps, num_stages=case.num_stages
    )


@pytest.mark.usefixtures("without_ptx")
@pytest.mark.parametrize(
    "case",
    [find("tile_fp16_nt"), find("tile_fp8e4nv_nt")],
    ids=lambda it: it.name,
)
def test_a_launch_of_four_warps_gets_two_groups_of_four_with_the_same_bits(case: Specimen) -> None:
    assert case.num_warps == 4
    made = specialised(case, TWO_GROUPS)
    plan = Plan.of(made.metadata.tawa["plan"])
    assert [it.num_warps for it in plan.partitions if it.role == "consumer"] == [4, 4]
    assert read_levels(made)
    assert orders_with_other_bits(case, made, simulated(case, unspecialised(case, made))) == []


@pytest.mark.gpu
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["tile_fp16_nn", "tile_bf16_nt", "tile_fp8e4nv_nt", "tile_fp32_nt"])
@pytest.mark.parametrize("form", ["as_written", "persistent"])
def test_two_groups_give_stock_tritons_bits_on_a_gpu(name: str, form: str) -> None:
    import torch

    import tawa
    from tests.cases import launch

    case = find(name).with_sizes(M=1000, N=2048, K=1536)
    inputs, found = launch.make_tensors(case, seed=5), []
    for plan in ({"form": "stock"}, {"form": form, "groups": 2}):
        kernel: Any = tawa.jit(case.kernel)
        tensors = {key: value.clone() for key, value in inputs.items()}
        launch.poison(case, tensors)
        launch.launch(case, kernel, tensors, plan=plan)
        found.append(tensors["c"].view(torch.uint8).clone())
    assert found[0].equal(found[1])
