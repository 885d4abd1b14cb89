"""`correct`: what rewrites an accumulator gets its vectors out of rings."""

from __future__ import annotations

from tawa.dialects.tcgen05 import CORRECTED
from tawa.ir import Module
from tawa.plan import Plan
from tawa.plan.fields import RingPlan
from tawa.transforms.tensor_memory.correct import Correct
from tests.cases.programs.corrections import corrected
from tests.cases.programs.tensor_memory import marked
from tests.support.filecheck import brief, check
from tests.support.passes import checked

DEPTH = 3


def run(text: str, *, correction: bool = True) -> tuple[Module, bool]:
    module = marked(text)
    result = Correct(Plan(correction=correction, rings=(RingPlan("factor0", depth=DEPTH),))).run(module)
    return checked(module), result.changed


def test_a_vector_goes_through_a_ring_as_soon_as_it_is_known() -> None:
    check(
        brief(run(corrected())[0]),
        """
        CHECK: %[[RING:.*]] = "aref.create"() <{name = "factor0", fill = "threads", reader = "correction"}>
        CHECK: "scf.for"
        CHECK: %[[FACTOR:.*]] = "math.exp2"(%row
        CHECK-NEXT: "aref.put"(%[[RING]], %[[COUNT:.*]]) ({
        CHECK: "ttg.local_store"(%[[FACTOR]]
        CHECK: %[[SLOT:.*]] = "aref.get"(%[[RING]], %[[COUNT]])
        CHECK: %[[OWN:.*]] = "ttg.local_load"(%[[SLOT]])
        CHECK-NEXT: "aref.consumed"(%[[RING]], %[[COUNT]])
        CHECK: %[[COLUMN:.*]] = "tt.expand_dims"(%[[OWN]])
        CHECK: %[[WIDE:.*]] = "tt.broadcast"(%[[COLUMN]])
        CHECK: "arith.mulf"(%sum{{.*}}, %[[WIDE]])
        """,
    )


def test_the_plan_has_the_depth_of_the_ring() -> None:
    (ring,) = [op for op in run(corrected())[0].walk() if op.properties.get("name") == '"factor0"']
    assert ring.result.type.startswith(f"!aref.ring<{DEPTH} x (!ttg.memdesc<64xf32, ")


def test_the_accumulator_and_what_follows_from_it_are_marked() -> None:
    module, _ = run(corrected())
    marks = [it.name for it in module.walk() if CORRECTED in it.attributes]
    assert marks.count("ttng.warp_group_dot") == 1 and "tt.descriptor_store" in marks and "arith.mulf" in marks
    assert "tt.reduce" not in marks


def test_without_a_partition_in_the_plan_nothing_changes() -> None:
    assert run(corrected(), correction=False)[1] is False
