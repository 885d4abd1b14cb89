"""`resolve_groups`: whatever the producer computes from the group index, it computes and carries once per group."""

from __future__ import annotations

from tawa.dialects.aref import LandedOp, PutOp
from tawa.dialects.inline.markers import GroupIndexOp
from tawa.dialects.scf import ForOp
from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tests.cases.pointers.cases import find
from tests.cases.programs.ttgir import ops_named
from tests.cases.small.pointer_kernels import made, ttgir
from tests.matrix.compiling import specialised_levels


def test_a_loop_of_the_producer_carries_the_addresses_of_each_group() -> None:
    assert any(GroupIndexOp.of(it) for it in parse_module(ttgir("wrapped_groups")).walk())
    module = parse_module(made("wrapped_groups").aref)
    assert not any(GroupIndexOp.of(it) for it in module.walk())
    producer = next(it for it in ops_named(module, "warp.group") if "producer" in it.properties["role"])
    loop = next(view for it in producer.walk() if (view := ForOp.of(it)))
    pointers = [arg.type for arg in loop.iter_args if "!tt.ptr" in arg.type]
    assert len([text for text in pointers if text.startswith("tensor<64x32x")]) == 2  # A, for two groups of 64 rows
    assert len([it for it in producer.walk() if PutOp.of(it)]) == 3  # A of each group; B, which both read


def test_the_copies_of_every_group_have_landed_before_a_descriptor_is_redefined() -> None:
    options = PlanOptions(enable_warp_specialization=True, num_consumer_groups=2, aref_depth=2)
    module = parse_module(specialised_levels(find("grouped_tma"), options).asm["aref"])
    producer = next(it for it in ops_named(module, "warp.group") if "producer" in it.properties["role"])
    waits = [view for it in producer.walk() if (view := LandedOp.of(it))]
    assert {wait.ring for wait in waits} == {put.ring for it in producer.walk() if (put := PutOp.of(it))}
    assert len(waits) == 3  # for A of each group, and for B, which both read
