"""`register_operands`: a loop-invariant left operand stays in registers, if there are enough."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.analysis.loops.register_operands import operands_to_keep
from tawa.analysis.names import loop_number, name_module
from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.errors import PlanError
from tawa.ir import Builder, Module, Value, parse_module
from tawa.plan import LoopPlan, Plan, PlanOptions
from tawa.plan.defaults import KEPT_REGISTERS
from tawa.transforms.pipelining.register_operands import KeepInRegisters
from tests.cases.attention.builders import forward_case
from tests.cases.attention.cases import find
from tests.cases.case import Specimen
from tests.matrix.compiling import attempted, compile_case, signature
from tests.support.fronts import front
from tests.support.sample import sample

pytestmark = pytest.mark.usefixtures("without_ptx")


def level(case: Specimen) -> Module:
    """The aref level of a case, specialised wherever that is legal."""
    return parse_module(compile_case(case, PlanOptions(only_if_faster=False)).asm["aref"])


def pinned(case: Specimen, plan: Plan) -> tuple[Plan, str]:
    """The whole Plan, and the aref level, of a case with a part of its Plan pinned."""
    made = front(case.kernel, signature(case), **case.options())
    job = made.job(case.name)
    found = specialise(job, Request(plan=plan))
    assert isinstance(found, Specialised) and found.outcome.plan is not None
    return found.outcome.plan, job.texts["aref"]


def looped(module: Module) -> list[WarpGroupDotOp]:
    return [dot for op in module.walk() if (dot := WarpGroupDotOp.of(op)) and enclosing_loops(op)]


@pytest.mark.parametrize("keys", [64, 128])
def test_queries_stay_in_registers_and_are_read_once(keys: int) -> None:
    module = level(forward_case("kept", dim=128, causal=False, tile=(128, keys, 8)))
    dots = looped(module)
    assert dots and all(dot.a_in_registers for dot in dots)
    loads = [op for op in module.walk() if op.name == "ttg.local_load"]
    assert len(loads) == 2 and not any(enclosing_loops(load) for load in loads)  # once for each consumer group
    kept = [dot.a.type for dot in dots if dot.a.defining_op in loads]
    assert kept == 2 * ["tensor<64x128xf16, #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>>"]


def test_a_slot_is_given_back_where_its_operand_was_loaded() -> None:
    """Queries of a persistent kernel: the next tile's are loaded during the current tile, into a single slot."""
    module = level(find("persistent_fp16_d128_full"))
    kept = [op for op in module.walk() if op.name == "ttg.local_load"]
    assert len(kept) == 2 and all(dot.a_in_registers for dot in looped(module))
    for load in kept:
        get = GetOp.of(load.operands[0].defining_op)
        assert get is not None and load.parent is not None
        behind = load.parent.ops[load.parent.index_of(load) + 1]
        release = ConsumedOp.of(behind)
        assert release is not None and (release.ring, release.index) == (get.ring, get.index)
        others = [use.op for use in get.index.uses if ConsumedOp.of(use.op)]
        assert others == [behind]


def test_a_slot_that_others_read_too_is_given_back_where_it_was() -> None:
    case = find("persistent_fp16_d128_full")
    _, text = pinned(case, Plan(loops=(LoopPlan(None, mma_depth=0, stages=0, kept=()),)))
    for others in (0, 1):
        module = parse_module(text)
        name_module(module)
        slots = dict.fromkeys(dot.a for dot in looped(module) if not dot.a_in_registers)
        releases = [use.op for slot in slots for use in index_of(slot).uses if ConsumedOp.of(use.op)]
        places = [release.parent.index_of(release) for release in releases if release.parent]
        for release, slot in zip(releases, slots, strict=True):
            for _ in range(others):
                Builder.before(release).create("ttg.local_load", (slot,), ("tensor<64x128xf16, #blocked>",))
        numbers = {loop_number(enclosing_loops(slot_dot.op)[0]) for slot_dot in looped(module) if slot_dot.a in slots}
        kept = Plan(loops=tuple(LoopPlan(number, kept=(0,)) for number in numbers))
        assert len(releases) == 2 and KeepInRegisters(kept).run(module).changed
        moved = [release.parent.index_of(release) for release in releases if release.parent]
        assert all(dot.a_in_registers for dot in looped(module))
        assert [now < then for now, then in zip(moved, places, strict=True)] == 2 * [not others]


def index_of(slot: Value) -> Value:
    get = GetOp.of(slot.defining_op)
    assert get is not None
    return get.index


@pytest.mark.parametrize(
    "name",
    sample(
        [
            "two_loops_fp8e4nv_d128_full",  # fp8 would have to be shuffled
            "two_loops_tile128x64_4warps",  # 64 registers for the queries, as many for the sums, 32 for the scores
            "dkdv_fp16_d128_full",  # two sums of 64 registers, two scores of 32, and K and V
        ],
        4,
    ),
)
def test_elsewhere_operands_stay_in_shared_memory(name: str) -> None:
    module = level(find(name))
    assert any(not dot.a_in_registers for dot in looped(module))
    assert not any(op.name == "ttg.local_load" for op in module.walk())


@pytest.mark.parametrize(
    ("name", "kept"), [("two_loops_fp16_d128_full", 1), ("dkdv_fp16_d128_full", 0), ("two_loops_tile128x64_4warps", 0)]
)
def test_room_is_looked_for_before_anything_is_compiled(name: str, kept: int) -> None:
    _, levels = attempted(find(name), PlanOptions(only_if_faster=False))
    warps = 4  # of each group, and of the whole consumer of the last
    assert len(operands_to_keep(parse_module(levels.asm["ttgir"]).op, warps, KEPT_REGISTERS)) == kept


def test_an_operand_that_each_iteration_brings_is_not_kept() -> None:
    from tests.cases.gemm.cases import find as find_gemm

    case = find_gemm("tile_fp16_nn")
    assert not operands_to_keep(
        parse_module(attempted(case, PlanOptions())[1].asm["ttgir"]).op, case.num_warps, KEPT_REGISTERS
    )
    module = level(case)
    assert looped(module) and not any(dot.a_in_registers for dot in looped(module))


def test_a_plan_may_leave_them_in_shared_memory() -> None:
    case = forward_case("left", dim=128, causal=False, tile=(128, 64, 8))
    plan = Plan.of(compile_case(case, PlanOptions(only_if_faster=False)).metadata.tawa["plan"])
    assert [loop.kept for loop in plan.loops] == [(0,)]
    every, one = (Plan(loops=(LoopPlan(number, kept=()),)) for number in (None, 0))
    whole = replace(plan, loops=tuple(replace(loop, kept=(), schedule=None, stages=None) for loop in plan.loops))
    assert all("ttg.local_load" not in pinned(case, left)[1] for left in (every, one, whole))


def test_a_plan_may_keep_them_where_the_planner_would_not() -> None:
    """Two accumulators of 64 registers, two score tiles of 32, and K and V: no operand would be kept."""
    case = find("dkdv_fp16_d128_full")
    plan = Plan.of(compile_case(case, PlanOptions(only_if_faster=False)).metadata.tawa["plan"])
    (loop,) = plan.loops
    kept = Plan(loops=(LoopPlan(loop.loop, kept=(0,)),))
    made, text = pinned(case, kept)
    assert loop.kept == () and made.loop(loop.loop).kept == (0,)
    assert text.count('"ttg.local_load"') == made.consumer_groups


@pytest.mark.parametrize("kept", [(1,), (7,)])
def test_an_operand_that_changes_or_a_dot_that_is_not_there_cannot_be_kept(kept: tuple[int, ...]) -> None:
    plan = Plan(loops=(LoopPlan(0, kept=kept),))
    with pytest.raises(PlanError, match=rf"dot {kept[0]} of loop 0 \(.*\.py:\d+\).*cure: kept without {kept[0]}"):
        pinned(forward_case("kept", dim=128, causal=False, tile=(128, 64, 8)), plan)
