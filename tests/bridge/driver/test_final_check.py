"""The check of the final TTGIR: a read that Triton moves past the release of its slot is not launched."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.bridge.driver import back_end
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.errors import InternalError, PlanError
from tawa.ir import Block, Module
from tawa.plan import LoopPlan, Plan, PlanOptions, RingPlan
from tawa.transforms.lowering.hold_slots import HoldSlots
from tawa.transforms.result import PassResult
from tawa.verify.barriers import check_barriers
from tawa.verify.preserved import check_final, preserved
from tawa.verify.verdict import Checked, Refuted, Verdict
from tests.cases.attention.cases import bench_case
from tests.cases.attention.cases import find as find_attention
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find as find_gemm
from tests.cases.operations.cases import find as find_operation
from tests.cases.pointers.cases import find as find_pointers
from tests.matrix.compiling import attempted, signature
from tests.support.sample import sample
from tests.support.verdicts import passes

pytestmark = pytest.mark.contract

SYNCHRONISING = ("ttng.wait_barrier", "ttng.warp_group_dot", "ttng.warp_group_dot_wait")
CASES = [
    find_gemm("tile_fp16_tt"), find_gemm("persistent_range"),
    find_attention("varlen_gqa"), find_attention("flex_d64"), find_attention("dq_fp16_d96_causal"),
    find_operation("chunk_scan"), find_operation("flex_gradients_d128_8warps"),
    find_pointers("grouped_tma_lengths"), find_pointers("weights_packed"),
]  # fmt: skip


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Module, Module, Verdict | None]]:
    """What every compile of the test checks: the proved module, the final text, and the verdict."""
    found: list[tuple[Module, Module, Verdict | None]] = []

    def check(proved: Module, final: Module) -> Verdict | None:
        found.append((proved, final, check_final(proved, final)))
        return found[-1][2]

    monkeypatch.setattr(back_end, "check_final", check)
    return found


def two_loops() -> Any:
    """Compiles attention over tiles, with one slot for the queries, which stay in registers."""
    from tawa.bridge.driver.compile import compile_kernel

    case = bench_case("two_loops", "bf16", 64, False, 1024, tile=(128, 64, 8))
    plan = Plan(form="persistent", rings=(RingPlan(depth=1),), loops=(LoopPlan(mma_depth=0, stages=0),))
    with launched_by_us():
        return compile_kernel(case.kernel, signature(case), Request(PlanOptions(), plan), **case.options())


def test_a_read_behind_the_release_of_its_slot_is_not_launched(
    monkeypatch: pytest.MonkeyPatch, seen: list[tuple[Module, Module, Verdict | None]]
) -> None:
    monkeypatch.setattr(HoldSlots, "run", lambda self, module: PassResult(False))  # type: ignore[misc]
    with pytest.raises((InternalError, PlanError)):
        two_loops()
    proved, final, verdict = seen[-1]
    assert passes(check_barriers(proved))
    assert isinstance(verdict, Checked | Refuted)  # the search may need more runs than a compile has time for
    found = check_barriers(final, budget_states=4_000_000)
    assert isinstance(found, Refuted) and found.witness.kind == "write before release"


def test_a_read_that_moves_within_the_lifetime_of_its_slot_is_proved_again(
    seen: list[tuple[Module, Module, Verdict | None]],
) -> None:
    two_loops()
    proved, final, verdict = seen[-1]
    assert not preserved(proved, final)  # Triton moved the load into the loop
    assert passes(verdict)


@pytest.mark.parametrize("case", sample(CASES, 1), ids=lambda case: case.name)
def test_what_triton_adds_to_a_program_does_not_change_its_protocol(
    case: Specimen, seen: list[tuple[Module, Module, Verdict | None]]
) -> None:
    with launched_by_us(function=case.kernel):
        attempted(case, PlanOptions(only_if_faster=False))
    assert seen
    assert all(verdict is None for _, _, verdict in seen)


def before(block: Block, at: int) -> int:
    """The place of the last operation before a place of a block that synchronises."""
    return max(place for place, op in enumerate(block.ops[:at]) if op.name in SYNCHRONISING)


@pytest.mark.parametrize("name", ["ttng.arrive_barrier", "ttng.async_tma_copy_global_to_local", "ttng.warp_group_dot"])
def test_a_move_in_the_final_program_is_seen(name: str, seen: list[tuple[Module, Module, Verdict | None]]) -> None:
    with launched_by_us():
        attempted(find_gemm("tile_fp16_tt"), PlanOptions(only_if_faster=False))
    proved, final, _ = seen[-1]
    assert preserved(proved, final)
    moved = [op for op in final.walk() if op.name == name][-1]
    block = moved.parent
    assert block is not None
    at = block.index_of(moved)
    block.ops.insert(before(block, at), block.ops.pop(at))
    assert not preserved(proved, final)
    block.ops.remove(moved)
    assert not preserved(proved, final)
