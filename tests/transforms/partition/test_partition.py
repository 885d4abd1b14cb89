"""`partition`: one slice of the program for each partition."""

from __future__ import annotations

from tawa.transforms.partition.partition import Partition
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import after


def partitioned(text: str) -> str:
    return brief(after(Partition, text)[0])


def test_the_producer_has_the_puts_and_the_consumer_all_the_rest() -> None:
    check(
        partitioned(programs.tile_gemm()),
        """
        CHECK:      [[R:%\\w+]] = "aref.create"
        CHECK-NEXT: "warp.group"() <{partition = "producer", role = "producer",
        CHECK-SAME: num_warps = 1 : i32, registers = 24 : i32}>
        CHECK-NOT:  aref.get
        CHECK-NOT:  warp_group_dot
        CHECK-NOT:  dense
        CHECK:      "aref.put"([[R]], {{.*}})
        CHECK-NOT:  tt.descriptor_store
        CHECK:      "warp.end"()
        CHECK:      "warp.group"() <{partition = "consumer", role = "consumer",
        CHECK-SAME: num_warps = 4 : i32, registers = 240 : i32}>
        CHECK-NOT:  aref.put
        CHECK-NOT:  tt.descriptor_load
        CHECK:      "aref.get"([[R]], {{.*}})
        CHECK:      "ttng.warp_group_dot"
        CHECK:      "aref.consumed"([[R]], {{.*}})
        CHECK:      "tt.descriptor_store"
        CHECK:      "warp.end"()
        CHECK:      "tt.return"()
        """,
    )


def test_the_producer_loop_carries_the_count_only() -> None:
    check(
        partitioned(programs.tile_gemm()),
        """
        CHECK:      partition = "producer"
        CHECK:      [[C:%\\w+]] = "aref.first"
        CHECK:      "scf.for"(%zero_0, %n_0, %one_0, [[C]])
        CHECK-NEXT: ^bb{{[0-9]+}}(%k_0: i32, [[I:%\\w+]]: !aref.index<2>):
        CHECK:      [[N:%\\w+]] = "aref.advance"([[I]])
        CHECK-NEXT: "scf.yield"([[N]])
        """,
    )


def test_the_producer_makes_the_descriptors_of_its_loads_and_waits_for_its_copies() -> None:
    check(
        partitioned(programs.remade_gemm()),
        """
        CHECK:      partition = "producer"
        CHECK:      "aref.landed"
        CHECK-NEXT: "tt.make_tensor_descriptor"
        CHECK-NEXT: "tt.make_tensor_descriptor"
        CHECK:      partition = "consumer"
        CHECK-NOT:  aref.landed
        CHECK-NOT:  tt.make_tensor_descriptor
        """,
    )


def test_scalars_that_both_need_are_computed_by_both() -> None:
    check(
        partitioned(programs.persistent_gemm()),
        """
        CHECK:         partition = "producer"
        CHECK-COUNT-1: "arith.select"
        CHECK:         partition = "consumer"
        CHECK-COUNT-1: "arith.select"
        """,
    )


def test_a_branch_without_loads_is_not_in_the_producer() -> None:
    guarded = programs.branch(programs.store())
    check(
        partitioned(programs.kernel(f"{programs.gemm_loop()}\n{guarded}")),
        """
        CHECK:     partition = "producer"
        CHECK-NOT: scf.if
        CHECK:     partition = "consumer"
        CHECK:     "scf.if"
        CHECK:     "tt.descriptor_store"
        """,
    )


def test_a_while_keeps_its_control_in_both() -> None:
    check(
        partitioned(programs.while_gemm()),
        """
        CHECK: partition = "producer"
        CHECK: "scf.while"
        CHECK: "scf.condition"
        CHECK: "aref.put"
        CHECK: partition = "consumer"
        CHECK: "scf.while"
        CHECK: "scf.condition"
        CHECK: "aref.get"
        """,
    )


def test_a_guard_stays_around_the_partitions_with_its_other_branch() -> None:
    check(
        partitioned(programs.guarded_gemm()),
        """
        CHECK:      "arith.cmpi"
        CHECK:      "scf.if"
        CHECK:      "aref.create"
        CHECK-NOT:  "scf.if"
        CHECK:      partition = "producer"
        CHECK-NOT:  "arith.cmpi"
        CHECK:      partition = "consumer"
        CHECK-NOT:  "arith.cmpi"
        CHECK:      "tt.descriptor_store"
        CHECK:      "warp.end"()
        CHECK:      }, {
        CHECK:      "tt.descriptor_store"
        CHECK-NOT:  "scf.for"
        CHECK:      "tt.return"
        """,
    )


def test_operations_that_only_the_groups_need_are_not_left_before_the_guard() -> None:
    before = programs.binary("row", "muli", "n", "m")
    work = f"{programs.gemm_loop()}\n{programs.store(at='%row, %zero')}"
    check(
        partitioned(programs.kernel(f"{before}\n{programs.branch(work)}")),
        """
        CHECK-NOT: "arith.muli"
        CHECK:     "scf.if"
        CHECK:     partition = "consumer"
        CHECK:     "arith.muli"
        """,
    )


def test_each_partition_carries_its_own_values_of_a_while() -> None:
    check(
        partitioned(programs.while_sum()),
        """
        CHECK:      partition = "producer"
        CHECK:      "scf.while"(%zero_0, [[C:%\\w+]]) ({
        CHECK-NEXT: ^bb{{[0-9]+}}(%t_before_0: i32, {{%\\w+}}: !aref.index<2>):
        CHECK:      partition = "consumer"
        CHECK:      "scf.while"(%zeros_0, {{%\\w+}}, {{%\\w+}}) ({
        CHECK-NEXT: ^bb{{[0-9]+}}(%sum_before_0: tensor<64x64xf32, #mma>, {{%\\w+}}: i32, {{%\\w+}}: !aref.index<2>):
        """,
    )


def test_a_print_is_executed_once_by_the_consumer() -> None:
    properties = 'hex = false, isSigned = array<i32: 1>, prefix = "n: "'
    text = programs.op("tt.print", "%n", "i32", properties=properties)
    found = partitioned(programs.kernel(f"{text}\n{programs.gemm_loop()}\n{programs.store()}"))
    assert found.count('"tt.print"') == 1
    assert found.index('partition = "consumer"') < found.index('"tt.print"')


def test_the_function_body_is_rings_groups_and_return() -> None:
    module, _ = after(Partition, programs.persistent_gemm())
    body = programs.the(module, "tt.func").regions[0].block
    assert [op.name for op in body.ops] == ["aref.create", "warp.group", "warp.group", "tt.return"]


def test_a_sum_that_both_need_is_computed_once_in_front_of_them() -> None:
    check(
        partitioned(programs.given_sum()),
        """
        CHECK:      "aref.create"
        CHECK:      [[ROWS:%\\w+]] = "tt.reduce"
        CHECK:      [[N:%\\w+]] = "tt.reduce"([[ROWS]])
        CHECK:      partition = "producer"
        CHECK-NOT:  tt.reduce
        CHECK:      "scf.for"({{%\\w+}}, [[N]],
        CHECK:      partition = "consumer"
        CHECK-NOT:  tt.reduce
        CHECK:      "scf.for"({{%\\w+}}, [[N]],
        CHECK:      "tt.return"()
        """,
    )


def test_a_number_that_only_the_producer_may_compute_comes_to_the_consumer_through_a_ring() -> None:
    check(
        partitioned(programs.dynamic_gemm()),
        """
        CHECK:      [[N:%\\w+]] = "aref.create"() <{name = "number0", fill = "number"}>
        CHECK:      partition = "producer"
        CHECK:      "scf.while"
        CHECK:      "scf.for"
        CHECK:      [[TICKET:%\\w+]] = "tt.atomic_rmw"(%counter_0, {{.*}}) <{atomic_rmw_op = 4
        CHECK:      [[LAST:%\\w+]] = "arith.cmpi"([[TICKET]],
        CHECK-NEXT: "tt.atomic_rmw"(%counter_0, {{.*}}, [[LAST]]) <{atomic_rmw_op = 10
        CHECK-NEXT: [[NEXT:%\\w+]] = "arith.addi"([[TICKET]],
        CHECK-NEXT: "aref.put"([[N]], [[I:%\\w+]]) ({
        CHECK-NEXT: [[TILE:%\\w+]] = "tt.splat"([[NEXT]])
        CHECK-NEXT: "aref.filled"([[TILE]])
        CHECK:      "scf.yield"([[NEXT]],
        CHECK:      "warp.end"
        CHECK:      partition = "consumer"
        CHECK-NOT:  tt.atomic_rmw
        CHECK:      [[VIEW:%\\w+]] = "aref.get"([[N]], [[J:%\\w+]])
        CHECK:      [[LOADED:%\\w+]] = "ttg.local_load"([[VIEW]])
        CHECK-NEXT: [[GOT:%\\w+]] = "tt.unsplat"([[LOADED]])
        CHECK-NEXT: "aref.consumed"([[N]], [[J]])
        CHECK-NOT:  arith.addi
        CHECK:      "scf.yield"([[GOT]],
        """,
    )
