"""`resolve_groups`: each consumer gets its number, and what the producer loads for one group it loads for each."""

from __future__ import annotations

from dataclasses import replace

from tawa.dialects.aref import CreateOp
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.warp import find_groups
from tawa.flow import Flow, run
from tawa.plan import OperandPlan, RingPlan
from tawa.remarks import Remark
from tawa.transforms.partition.partition import Partition
from tawa.transforms.partition.resolve_groups import ResolveGroups
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ping_pong import grouped, inside, plan_of
from tests.support.passes import checked, flow_of, to_arefs


def partitioned(text: str) -> Flow:
    """Two groups, whose numbers are still markers."""
    plan = plan_of(text)
    flow = flow_of(text, plan, groups=2)
    assert run(flow, to_arefs(), until=Partition.__name__) is None
    return flow


def resolved(flow: Flow) -> tuple[bool, tuple[Remark, ...]]:
    result = ResolveGroups().run(flow.module)
    checked(flow.module)
    return result.changed, result.remarks


def rings(flow: Flow) -> list[str]:
    return [view.name for op in flow.module.walk() if (view := CreateOp.of(op))]


def test_the_number_in_each_consumer_is_a_constant_and_rings_that_do_not_need_it_are_shared() -> None:
    flow = partitioned(grouped(programs.tile_gemm()))
    assert resolved(flow) == (True, ())
    assert not any(GroupIndexOp.matches(op) for op in flow.module.walk())
    assert rings(flow) == ["ring0"]
    consumers = [group for group in find_groups(flow.module) if group.role == "consumer"]
    factors = [inside(group.op, "arith.muli")[0].operands[0].defining_op for group in consumers]
    assert [op.properties["value"] for op in factors if op] == ["0 : i32", "1 : i32"]


def test_a_tile_that_depends_on_the_group_gets_a_ring_for_each_and_the_other_is_shared() -> None:
    text = grouped(programs.tile_gemm()).replace("(%a_desc, %k,", "(%a_desc, %shift,")
    flow = partitioned(text)
    assert resolved(flow) == (True, ())
    assert sorted(rings(flow)) == ["ring0_0", "ring0_1", "ring1"]
    producer, *consumers = sorted(find_groups(flow.module), key=lambda group: group.role != "producer")
    assert len(inside(producer.op, "aref.put")) == 3
    used = [{get.operands[0].hint for get in inside(group.op, "aref.get")} for group in consumers]
    assert used == [{"ring0_0", "ring1"}, {"ring0_1", "ring1"}]


def test_a_slot_has_the_tiles_of_all_groups_where_one_ring_is_asked_for_them() -> None:
    text = grouped(programs.tile_gemm()).replace("(%a_desc, %k,", "(%a_desc, %shift,")
    plan = replace(plan_of(text), operands=(OperandPlan(ring="ring0"),), rings=(RingPlan("ring0", depth=2),))
    flow = flow_of(text, plan, groups=2)
    assert run(flow, to_arefs(), until=Partition.__name__) is None
    assert [(it.slot_bytes, it.copies) for it in flow.plan.rings] == [(3 * programs.TILE_BYTES, 1)]
    assert resolved(flow) == (True, ())
    assert rings(flow) == ["ring0"]
    producer, *consumers = sorted(find_groups(flow.module), key=lambda group: group.role != "producer")
    (put,) = inside(producer.op, "aref.put")
    loads = inside(put, "tt.descriptor_load")
    assert [load.operands[0].hint for load in loads] == ["a_desc", "a_desc", "b_desc"]
    assert loads[0].operands[1] is not loads[1].operands[1]
    for number, group in enumerate(consumers):
        (get,) = inside(group.op, "aref.get")
        assert [bool(view.uses) for view in get.results] == [number == 0, number == 1, True]


def test_a_trip_count_of_the_producer_that_depends_on_the_group_declines() -> None:
    flow = partitioned(grouped(programs.tile_gemm(), upper="shift"))
    changed, (remark,) = resolved(flow)
    assert not changed and remark.kind == "declined"
    assert "control flow of the producer depends on the group index" in remark.reason
    assert "num_consumer_groups=1" in str(remark)


def test_a_program_of_one_consumer_is_left_alone() -> None:
    text = programs.tile_gemm()
    flow = flow_of(text, plan_of(text, groups=1, ping_pong=False))
    assert run(flow, to_arefs(), until=Partition.__name__) is None
    assert resolved(flow) == (False, ())
