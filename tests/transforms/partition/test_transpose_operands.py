"""`transpose_operands`: a second ring, filled by a converter, in place of a transposition by the consumers."""

from __future__ import annotations

from tawa.dialects import structure_rules
from tawa.dialects.warp import find_groups
from tawa.ir import Module, verify_structure
from tawa.plan import PartitionPlan, Plan, RingPlan
from tawa.transforms.partition.insert_arefs import InsertArefs
from tawa.transforms.partition.partition import Partition
from tawa.transforms.partition.transpose_operands import TransposeOperands
from tests.cases.programs import transposed
from tests.cases.programs.ttgir import ops_named, parse
from tests.support.filecheck import brief, check


def converted(text: str, *, reordered: bool = False, registers: int = 24, partition: bool = False) -> Module:
    """The program, with all tiles transposed by a converter for which that is possible."""
    module = parse(text)
    channels = transposed.channels_with_converter(module, reordered)
    rings = tuple(RingPlan(it.name, depth=2) for it in channels)
    parts = (
        PartitionPlan("producer", "producer", 1, registers),
        PartitionPlan("converter", "converter", 2, registers),
        PartitionPlan("consumer", "consumer", 4),
    )
    plan = Plan(rings=rings, partitions=parts)
    assert InsertArefs(channels, plan).run(module).changed
    assert TransposeOperands(channels, plan).run(module).changed
    if partition:
        Partition(plan).run(module)
    assert verify_structure(module, structure_rules()) == []
    return module


def test_the_dot_reads_a_slot_that_a_put_by_stores_has_filled() -> None:
    check(
        brief(converted(transposed.gemm())),
        """
        CHECK:      "aref.create"() <{name = "ring1_transposed", fill = "stores"}>
        CHECK:      [[R:%ring1_0]] = "aref.create"() <{name = "ring1", reader = "converter"}>
        CHECK:      [[V:%\\w+]] = "aref.get"([[R]], [[I:%\\w+]])
        CHECK:      "aref.put"(%ring1_transposed_0, [[J:%\\w+]]) ({
        CHECK-NEXT: ^bb{{.*}}([[S:%slot_0]]: !ttg.memdesc<64x64xf8E4M3FN, #shared_t, #smem, mutable>):
        CHECK:      "ttg.memdesc_reinterpret"([[V]])
        CHECK:      "ttg.local_load"
        CHECK:      "ttg.local_store"
        CHECK:      "aref.filled"()
        CHECK:      "aref.consumed"([[R]], [[I]])
        CHECK-NEXT: [[T:%\\w+]] = "aref.get"(%ring1_transposed_0, [[J]])
        CHECK:      "ttng.warp_group_dot"({{.*}}, [[T]], %sum_0)
        CHECK:      "aref.consumed"(%ring1_transposed_0, [[J]])
        """,
    )


def test_what_stands_between_two_rings_becomes_a_partition() -> None:
    module = converted(transposed.gemm(), partition=True)
    held = {group.partition: [op.name for op in group.op.walk()] for group in find_groups(module)}
    assert list(held) == ["producer", "converter", "consumer"]
    assert {"tt.descriptor_load", "aref.put"} <= set(held["producer"]) and "aref.get" not in held["producer"]
    assert {"aref.get", "aref.put", "aref.consumed", "ttg.local_store"} <= set(held["converter"])
    assert not {"ttng.warp_group_dot", "tt.descriptor_store", "tt.descriptor_load"} & set(held["converter"])
    assert not {"aref.put", "ttg.local_load", "ttg.local_store", "ttg.local_alloc"} & set(held["consumer"])


def test_a_view_of_columns_is_transposed_as_well() -> None:
    module = converted(transposed.gemm(moves=True))
    views = [op.result.type for op in ops_named(module, "aref.get")]
    assert [type for type in views if "#shared_t" in type] == []
    assert not [op for op in ops_named(module, "tt.trans") if op.parent_op is None or op.parent_op.name != "aref.put"]


def test_a_reordered_tile_has_its_other_operand_in_the_same_order() -> None:
    check(
        brief(converted(transposed.gemm(chained=True), reordered=True)),
        """
        CHECK:      [[P:%\\w+]] = "arith.truncf"
        CHECK-NEXT: [[A:%\\w+]] = "tt.reshape"([[P]])
        CHECK-NEXT: [[B:%\\w+]] = "tt.trans"([[A]]) <{order = array<i32: 0, 1, 3, 2, 4>}>
        CHECK-NEXT: [[C:%\\w+]] = "tt.reshape"([[B]])
        CHECK-NEXT: [[L:%\\w+]] = "ttg.convert_layout"([[C]])
        CHECK:      "ttng.warp_group_dot"([[L]],
        """,
    )


def test_threads_with_more_registers_take_larger_pieces() -> None:
    counts = [len(ops_named(converted(transposed.gemm(), registers=it), "ttg.local_store")) for it in (24, 32, 40, 64)]
    assert counts == [4, 4, 2, 2]
