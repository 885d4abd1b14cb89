"""Spills: how they are seen, and what is tried where registers do not suffice."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge import attempt
from tawa.bridge.report import report
from tawa.bridge.request import Request
from tawa.bridge.spills import HARMLESS_BYTES, Spills, find_spills, frame_bytes, smaller_plans
from tawa.ir import parse_module
from tawa.kernels.attention.cases import find
from tawa.kernels.gemm.cases import tile_case
from tawa.pipeline import Outcome
from tawa.plan import PlanOptions
from tawa.plan.schedule import Schedule, ScheduledOp
from tests.bridge.fakes import plan_of
from tests.matrix.compiling import compile_case
from tests.support import programs


def schedule(stages: int) -> Schedule:
    ops = tuple(ScheduledOp(stage, stage, 0, "op") for stage in range(stages))
    return Schedule(0, "", 100, (), ops)


def elf(info: bytes) -> bytes:
    """A 64-bit ELF file with a section `.nv.info` and one of names."""
    names = b"\0.nv.info\0.names\0"
    section = struct.Struct("<IIQQQQIIQQ")
    at = 64 + 3 * section.size
    table = [
        (0,) * 10,
        (1, 0, 0, 0, at, len(info), 0, 0, 0, 0),
        (10, 0, 0, 0, at + len(info), len(names), 0, 0, 0, 0),
    ]
    head = bytearray(64)
    head[:5] = b"\x7fELF\x02"
    struct.pack_into("<Q", head, 0x28, 64)
    struct.pack_into("<HHH", head, 0x3A, section.size, 3, 2)
    return bytes(head) + b"".join(section.pack(*row) for row in table) + info + names


def attribute(name: int, *words: int, form: int = 4) -> bytes:
    return struct.pack(f"<BBH{len(words)}I", form, name, 4 * len(words), *words)


def test_the_largest_frame_of_a_cubin_is_found_among_other_attributes() -> None:
    plain = struct.pack("<BBH", 3, 0x11, 99)  # an attribute without payload
    info = attribute(0x2F, 1, 168) + plain + attribute(0x11, 1, 16) + attribute(0x11, 2, 80)
    assert frame_bytes(elf(info)) == 80
    assert frame_bytes(elf(attribute(0x2F, 1, 168))) == 0


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF\x02", b"no elf file at all", elf(attribute(0x11, 1, 8))[:80]])
def test_a_file_that_is_not_understood_says_nothing_of_frames(cubin: bytes) -> None:
    assert frame_bytes(cubin) is None


def test_plans_for_fewer_registers_give_up_stages_first_then_the_schedule_and_p() -> None:
    plan = replace(plan_of(3, mma_depth=1), schedules=(schedule(2),))
    made = [tried for tried, _ in smaller_plans(plan, PlanOptions())]
    assert [(it.max_stages, it.mma_depth, it.schedules) for it in made] == [(1, 1, ()), (0, 0, ())]
    assert all(it.rings == plan.rings and it.partitions == plan.partitions for it in made)


def test_operands_in_registers_are_given_up_first_and_for_good() -> None:
    plan = replace(plan_of(3, mma_depth=1), schedules=(schedule(2),), keep_operands=True)
    tries = smaller_plans(plan, PlanOptions())
    assert [(it.keep_operands, it.max_stages, text) for it, text in tries] == [
        (False, 2, "operands in shared memory"), (False, 1, "no stages"), (False, 0, "no schedule, P = 0")
    ]  # fmt: skip
    assert tries[0][0].schedules == ()


def test_a_p_that_was_asked_for_is_not_given_up() -> None:
    plan = replace(plan_of(3, mma_depth=1), schedules=(schedule(1),))
    assert [it.mma_depth for it, _ in smaller_plans(plan, PlanOptions(mma_depth=1))] == [1]


def test_a_plan_that_keeps_nothing_in_flight_has_nothing_to_give_up() -> None:
    assert smaller_plans(plan_of(3), PlanOptions()) == []


def test_a_kernel_that_spills_gets_a_plan_that_does_not_and_a_note_that_says_so() -> None:
    """The schedule of this backward pass wants more registers than a thread has; without it, next to none spill."""
    made = compile_case(find("dkdv_fp16_d128_causal"), PlanOptions(only_if_faster=False))
    record = made.metadata.tawa
    assert record["applied"] and record["plan"]["max_stages"] == 0 and record["plan"]["schedules"] == []
    notes = [it["reason"] for it in record["remarks"]]
    assert any("no schedule, P = 0" in it and "bytes of registers spill" in it for it in notes)
    spilled = report(made).ptxas.spill_bytes
    assert spilled <= HARMLESS_BYTES
    assert spilled == find_spills(made.asm["ptx"], made.asm["cubin"], made.metadata).bytes


def test_a_kernel_whose_wgmmas_wait_for_each_other_is_left_to_stock_although_that_spills_as_much() -> None:
    case = tile_case("fp16", False, True, (256, 128, 64), num_warps=4)  # accumulators of 256 registers a thread
    record = compile_case(case, PlanOptions()).metadata.tawa
    assert not record["applied"] and "each wgmma is waited for by itself" in record["reason"]
    pinned = compile_case(case, PlanOptions(only_if_faster=False)).metadata.tawa
    assert pinned["applied"] and any("each wgmma is waited for by itself" in it["reason"] for it in pinned["remarks"])


@pytest.mark.parametrize(("in_flight", "holds"), [(True, True), (False, False)])
def test_a_smaller_plan_of_one_group_that_waits_for_each_dot_does_not_pay(
    monkeypatch: pytest.MonkeyPatch, in_flight: bool, holds: bool
) -> None:
    """It spills less than stock, but nothing runs beside its wgmmas any more."""
    first = replace(plan_of(3, mma_depth=1), schedules=(schedule(2),))

    def with_depths(tools: Any, source: Any, request: Request, *rest: Any) -> attempt.Specialised:
        module = parse_module(programs.kernel(programs.gemm_loop()))
        for dot in (it for it in module.walk() if it.name == "ttng.warp_group_dot"):
            dot.properties["isAsync"] = "true" if in_flight or request.plan is None else "false"
        spills = Spills(900 if request.plan is None else 200)
        return attempt.Specialised(
            Outcome(True, request.plan or first, (), module=module), PlanOptions(), {}, 0, spills
        )

    monkeypatch.setattr(attempt, "_with_depths", with_depths)
    nothing: Any = None
    made = attempt._with_registers(nothing, nothing, Request(), nothing, "", 1, lambda: 400)
    assert isinstance(made, attempt.Specialised) and made.spills.bytes == 200
    assert attempt._holds(made, lambda: 400) is holds
    found = attempt._unless_spilled(made, Request(), lambda: 400)
    assert isinstance(found, attempt.Specialised) is holds
