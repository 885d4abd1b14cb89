"""Spills: how they are seen, and what becomes of kernels that spill."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from tawa.bridge.driver.driver import _Driver
from tawa.bridge.driver.spills import find_spills, frame_bytes
from tawa.bridge.launch.stock_facts import facts_of_log
from tawa.bridge.report.record import plan_of as recorded_plan
from tawa.bridge.report.report import report
from tawa.ir import parse_module
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.schedule import Schedule, ScheduledOp
from tawa.plan.search.runs import keeps_dots_in_flight
from tests.bridge.fakes import plan_of
from tests.cases.gemm.cases import tile_case
from tests.cases.operations.cases import find as find_operation
from tests.cases.programs import ttgir as programs
from tests.matrix.compiling import compile_case


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


def test_a_kernel_that_spills_gets_a_plan_that_spills_less_and_a_note_that_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two stages of this backward pass want more registers than a thread has; one stage spills less than stock."""
    plans: list[Plan] = []
    own = _Driver._try

    def seen(driver: _Driver, candidate: Any) -> Any:
        trial = own(driver, candidate)
        plans.extend(it for it in (trial.plan,) if it is not None)
        return trial

    monkeypatch.setattr(_Driver, "_try", seen)
    made = compile_case(
        find_operation("flex_gradients_d128_8warps"), PlanOptions(only_if_faster=False, num_consumer_groups=1)
    )
    record = made.metadata.tawa
    plan = recorded_plan(record)
    assert record["applied"] and plan is not None and plan.schedules
    assert all(it.stages == 1 for it in plan.loops)
    assert [it["plan"] for it in record["back_end_runs"]] == [
        "one consumer",
        "one consumer, 1 stages",
    ]
    first, second = (it["spill_bytes"] for it in record["back_end_runs"])
    assert second < first
    assert len(plans) > 1 and all(it.rings == plans[0].rings for it in plans)
    assert all(it.partitions == plans[0].partitions for it in plans)
    notes = [it["reason"] for it in record["remarks"]]
    assert any("no stages: " in it and "bytes of registers to local memory" in it for it in notes)
    spilled = report(made).ptxas.spill_bytes
    assert spilled == second
    assert spilled == find_spills(made.asm["ptx"], made.asm["cubin"], made.metadata).bytes


def test_a_kernel_whose_wgmmas_wait_for_each_other_is_left_to_stock_although_that_spills_as_much() -> None:
    case = tile_case("fp16", False, True, (256, 128, 64), num_warps=4)  # accumulators of 256 registers a thread
    assert not compile_case(case, PlanOptions()).metadata.tawa["applied"]
    pinned = compile_case(case, PlanOptions(only_if_faster=False)).metadata.tawa
    assert pinned["applied"] and any("ptxas serialises the wgmmas" in it["reason"] for it in pinned["remarks"])


@pytest.mark.parametrize("in_flight", [True, False])
def test_a_smaller_p_changes_a_program_only_where_dots_are_in_flight(in_flight: bool) -> None:
    module = parse_module(programs.kernel(programs.gemm_loop()))
    for dot in (it for it in module.walk() if it.name == "ttng.warp_group_dot"):
        dot.properties["isAsync"] = "true" if in_flight else "false"
    assert keeps_dots_in_flight(plan_of(3), module) is in_flight
    staged = replace(plan_of(3), loops=(LoopPlan(0, 0, schedule=schedule(2)),))
    assert keeps_dots_in_flight(staged, module)


def test_the_log_of_ptxas_says_what_is_known_of_a_stock_kernel() -> None:
    log = (
        "ptxas info    : Function properties for k\n 8 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\n"
    )
    log += "ptxas info    : Used 154 registers, used 1 barriers\n"
    note = "ptxas info    : (C7515) Potential Performance Loss: wgmma.mma_async instructions are serialized due to …\n"
    assert facts_of_log(log, 4096) == ProgramFacts(False, 154, 20, 4096)
    assert facts_of_log(note + log, 4096) == ProgramFacts(True, 154, 20, 4096)
    assert facts_of_log("", 4096) is None
