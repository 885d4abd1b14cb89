"""`hand_stores`: a warp of its own issues the stores of tiles that the consumer stages in a ring."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.errors import PlanError
from tawa.flow import Flow, run
from tawa.ir import parse_module
from tawa.plan import PartitionPlan, PlanOptions, StorePlan
from tawa.plan.decide.rings import Target
from tawa.transforms.drop_names import DropNames
from tawa.transforms.partition.partition import Partition
from tawa.verify.verdict import Proved
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import checked, flow_of, plan_for, to_arefs
from tests.support.pipeline import specialise

STORER = PartitionPlan("storer", "storer", 1, 24)


def partitioned(text: str, buffers: int = 1) -> Flow:
    plan = plan_for(parse_module(text), 2, 1)
    stores = (StorePlan(buffers=buffers, store_warp=True),)
    flow = flow_of(text, replace(plan, partitions=(*plan.partitions, STORER), stores=stores))
    assert run(flow, to_arefs(), until=Partition.__name__) is None
    DropNames().run(flow.module)
    checked(flow.module)
    return flow


def test_the_consumer_stages_a_tile_and_the_warp_stores_it_and_releases_the_slot() -> None:
    check(
        brief(partitioned(programs.persistent_gemm(), buffers=2).module),
        """
        CHECK:      [[R:%stage0_0]] = "aref.create"() <{name = "stage0", fill = "threads", reader = "storer"}>
        CHECK:      partition = "consumer"
        CHECK:      "aref.put"([[R]], {{.*}}
        CHECK-NEXT: ^{{.*}}([[S:%\\w+]]: {{.*}}):
        CHECK-NEXT: "ttg.local_store"({{.*}}, [[S]])
        CHECK:      "warp.end"
        CHECK:      partition = "storer"
        CHECK:      [[T:%\\w+]] = "aref.get"([[R]], [[I:%\\w+]])
        CHECK:      "ttng.async_tma_copy_local_to_global"(%c_desc_0, {{.*}}, [[T]])
        CHECK-NEXT: "ttng.async_tma_store_wait"() <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"([[R]], [[I]])
        CHECK-NOT:  tt.descriptor_store
        """,
    )


def test_the_store_warp_computes_where_the_tile_goes_and_nothing_else() -> None:
    module = partitioned(programs.persistent_gemm()).module
    storer = next(op for op in module.walk() if op.properties.get("partition") == '"storer"')
    names = {op.name for op in storer.walk()}
    assert not names & {"ttng.warp_group_dot", "tt.descriptor_load", "ttg.local_store"}
    assert not any(result.type.startswith("tensor<") for op in storer.walk() for result in op.results)


@pytest.mark.parametrize("buffers", [1, 2])
def test_a_kernel_with_a_store_warp_is_proved(buffers: int) -> None:
    plan = replace(partitioned(programs.persistent_gemm()).pins, partitions=(), rings=())
    plan = replace(plan, stores=(StorePlan(buffers=buffers, store_warp=True),), max_registers=None)
    made = specialise(programs.persistent_gemm(), PlanOptions(), Target(4, 3), plan)
    assert made.plan is not None and isinstance(made.verdict, Proved)
    assert [part.role for part in made.plan.partitions] == ["producer", "storer", "consumer"]
    again = specialise(programs.persistent_gemm(), PlanOptions(), Target(4, 3), made.plan)
    assert again.barrier == made.barrier


def test_stores_of_epilogues_stay_with_the_consumer_unless_a_plan_says_otherwise() -> None:
    made = specialise(programs.persistent_gemm(), PlanOptions(enable_warp_specialization=True), Target(4, 3))
    assert made.plan is not None and not any(it.store_warp for it in made.plan.stores)


def test_a_store_outside_of_loops_cannot_be_handed_over() -> None:
    plan = replace(plan_for(parse_module(programs.tile_gemm()), 2, 1), partitions=(), rings=(), max_registers=None)
    plan = replace(plan, stores=(StorePlan(store_warp=True),))
    with pytest.raises(PlanError, match=r"to a store warp, but it is not in a loop.*cure: store_warp=false"):
        specialise(programs.tile_gemm(), PlanOptions(), Target(4, 3), plan)


def test_a_store_in_slices_is_not_handed_over() -> None:
    text = programs.persistent_gemm()
    plan = replace(plan_for(parse_module(text), 2, 1), partitions=(), rings=(), max_registers=None)
    plan = replace(plan, stores=(StorePlan(store_warp=True, slices=2),))
    with pytest.raises(PlanError, match="to a store warp, but not in one staged piece"):
        specialise(text, PlanOptions(), Target(4, 3), plan)
