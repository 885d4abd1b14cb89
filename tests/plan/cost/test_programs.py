"""Programs for the model of time: stock Triton's kernel, and that of a Plan."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.plan import LoopPlan, OperandPlan, Plan, RingPlan
from tawa.plan.cost.programs import Program, ProgramFacts, stock_program
from tawa.plan.fields import PartitionPlan, StorePlan
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, workload


@pytest.mark.parametrize(
    ("tile", "warps", "stages", "ctas"),
    [
        ((128, 256, 64), 8, 3, 1),  # registers: 128 and more a thread, 256 threads
        ((64, 64, 64), 4, 3, 4),  # shared memory: 3 slots of 16 KiB
        ((64, 64, 64), 4, 6, 2),
        ((128, 128, 64), 4, 1, 3),  # registers: 128 + 26, 128 threads
    ],
)
def test_registers_and_shared_memory_say_how_many_ctas_share_an_sm(
    tile: tuple[int, int, int], warps: int, stages: int, ctas: int
) -> None:
    assert stock_program(workload(by_descriptors(*tile)), warps, stages).ctas == ctas


def test_chained_dots_and_addresses_take_registers() -> None:
    plain = stock_program(workload(by_descriptors(128, 128, 32)), 4, 1)
    assert stock_program(workload(by_pointers(128, 128, 32)), 4, 1).ctas < plain.ctas


def test_stock_does_not_fit_if_its_slots_do_not() -> None:
    assert stock_program(workload(by_descriptors(128, 256, 64)), 8, 4).fits
    assert not stock_program(workload(by_descriptors(128, 256, 64)), 8, 5).fits


def test_stock_loads_by_tma_if_the_kernel_does() -> None:
    assert stock_program(workload(chained()), 8, 3).by_tma
    assert not stock_program(workload(by_pointers()), 8, 3).by_tma


def plan(**changes: object) -> Plan:
    decided: dict[str, object] = {
        "form": "as_written",
        "groups": 2,
        "ctas_per_sm": 1,
        "partitions": (
            PartitionPlan("producer", "producer", 4),
            PartitionPlan("consumer0", "consumer", 4),
            PartitionPlan("consumer1", "consumer", 4),
        ),
        "operands": (OperandPlan("a", 0, path="host_descriptor", ring="ring0"),),
        "rings": (RingPlan("ring0", depth=3), RingPlan("ring1", depth=2)),
        "loops": (LoopPlan(0, mma_depth=1),),
    }
    return Plan(**{**decided, **changes})  # type: ignore[arg-type]


def test_a_program_has_the_decisions_of_its_plan() -> None:
    found = Program(plan())
    assert found.specialised and not (found.persistent or found.dynamic or found.longest_first or found.staged)
    assert (found.groups, found.num_warps, found.ctas, found.slots, found.in_flight) == (2, 8, 1, 3, 1)
    assert (found.programs, found.shares, found.by_pointers, found.piece_bytes) == (1, 1, 0.0, 0)


def test_a_loop_of_several_stages_is_staged() -> None:
    assert Program(plan(loops=(LoopPlan(0, mma_depth=0, stages=2),))).staged
    assert not Program(plan(loops=(LoopPlan(0, mma_depth=0, stages=1),))).staged


def test_the_form_of_a_plan_and_the_spills_of_each_group() -> None:
    assert Program(plan(form="persistent")).persistent
    assert Program(plan(), ProgramFacts(spilled=96)).spilled == 48


@pytest.mark.parametrize(("path", "by_tma"), [("promoted", True), ("pointers", False), ("cp.async", False)])
def test_paths_of_operands_say_whether_they_come_by_tma(path: str, by_tma: bool) -> None:
    assert Program(plan(operands=(OperandPlan("a", 0, path=path, ring="ring0"),))).by_tma is by_tma  # type: ignore[arg-type]


def test_a_store_through_pointers_may_be_made_by_tma() -> None:
    assert Program(plan(stores=(StorePlan("c", 0, path="promoted"),))).stores_by_tma


@pytest.mark.parametrize(
    ("registers", "shared", "warps", "ctas"),
    [(154, 147480, 8, 1), (100, 50000, 4, 4), (168, 1000, 4, 3), (32, 1000, 8, 8), (0, 230000, 4, 1)],
)
def test_facts_say_how_many_ctas_share_an_sm(registers: int, shared: int, warps: int, ctas: int) -> None:
    assert ProgramFacts(False, registers, 0, shared).ctas(warps) == ctas


def test_facts_of_the_stock_kernel_take_the_place_of_estimates() -> None:
    of = workload(by_descriptors(64, 64, 64))
    estimated, known = (stock_program(of, 4, 3, facts) for facts in (None, ProgramFacts(True, 168, 8, 49152)))
    assert (estimated.ctas, estimated.serialised) == (4, False)
    assert (known.ctas, known.serialised, known.spilled) == (3, True, 8)
    assert known.plan == replace(estimated.plan, ctas_per_sm=3)
    assert not stock_program(of, 4, 3, ProgramFacts(True, 168, 8, 240000)).fits


def test_a_ring_of_numbers_hides_no_latency_of_tiles() -> None:
    rings = (RingPlan("ring0", depth=1, fill="tma"), RingPlan("number0", depth=2, fill="number"))
    assert Program(plan(rings=rings)).slots == 1
