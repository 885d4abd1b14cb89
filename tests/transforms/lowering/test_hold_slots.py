"""`hold_slots`: a slot that is read before a loop is released behind it, because Triton may move the load inside."""

from __future__ import annotations

import pytest

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.scf import LOOPS
from tawa.dialects.ttg import LocalLoadOp
from tawa.ir import Module, Operation, parse_module
from tawa.plan import LoopPlan, Plan, PlanOptions, RingPlan
from tawa.transforms.lowering.hold_slots import HoldSlots
from tests.cases.attention.cases import bench_case
from tests.matrix.compiling import signature

pytestmark = pytest.mark.usefixtures("without_ptx")

FLAT = Plan(loops=(LoopPlan(mma_depth=0, stages=0),))


def compiled(plan: Plan) -> Module:
    """Attention over tiles, one slot for the queries, which stay in registers."""
    case = bench_case("two_loops", "bf16", 64, False, 1024, tile=(128, 64, 8))
    asked = Plan(form="persistent", rings=(RingPlan(depth=1),)).over(plan)
    with launched_by_us():
        request = Request(PlanOptions(), asked)
        made = compile_kernel(case.kernel, signature(case), request, **case.options())
    return parse_module(made.asm["aref"])


def loop_of(op: Operation) -> Operation | None:
    return next((it for it in op.ancestors() if it.name in LOOPS), None)


def releases(module: Module) -> list[tuple[Operation, Operation]]:
    """Each load of a slot that only another loop uses, and the release of that slot beside it."""
    found: list[tuple[Operation, Operation]] = []
    for op in module.walk():
        get = GetOp.of(op.operands[0].defining_op) if LocalLoadOp.matches(op) else None
        if get is not None and op.parent and all(loop_of(user) is not loop_of(op) for user in op.results[0].users):
            same = [it for it in op.parent.ops if (end := ConsumedOp.of(it)) and end.index is get.index]
            found += [(op, it) for it in same]
    return found


def test_a_slot_is_released_behind_the_loop_that_uses_it() -> None:
    module = compiled(FLAT)
    pairs = releases(module)
    assert pairs
    for load, release in pairs:
        assert load.parent is not None
        last = max(place for place, op in enumerate(load.parent.ops) if op.name in LOOPS)
        assert load.parent.index_of(release) > last
    assert not HoldSlots().run(module).changed


def test_a_release_right_behind_the_load_is_moved() -> None:
    module = compiled(FLAT)
    for load, release in releases(module):
        assert load.parent is not None
        load.parent.insert(load.parent.index_of(load) + 1, release.detach())
    assert HoldSlots().run(module).changed
    assert all(load.parent.index_of(release) > load.parent.index_of(load) + 1 for load, release in releases(module))  # type: ignore[union-attr]
