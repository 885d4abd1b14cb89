"""Typed views: named operands and attributes of one operation."""

from __future__ import annotations

import pytest

from tawa.dialects.aref import ConsumedOp, CreateOp, GetOp, PutOp, RingType, index_depth
from tawa.dialects.arith import constant_int
from tawa.dialects.scf import ForOp, IfOp, WhileOp, enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, DescriptorStoreOp, FuncOp
from tawa.dialects.ttg import LocalAllocOp, WarpSpecializeOp
from tawa.dialects.ttng import WarpGroupDotOp, WarpGroupDotWaitOp
from tawa.dialects.warp import GroupOp
from tawa.flow import Outcome
from tawa.ir import Operation, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ops_named, the
from tests.support.pipeline import specialise


@pytest.fixture(scope="module")
def made() -> Outcome:
    return specialise(programs.persistent_gemm(), PlanOptions(aref_depth=3, mma_depth=1), Target(4, 3))


def test_a_view_reads_one_operation_only() -> None:
    with pytest.raises(ValueError, match=r"ForOp reads scf.for, not scf.if"):
        ForOp(Operation("scf.if"))
    assert ForOp.of(Operation("scf.if")) is None and ForOp.of(None) is None


def test_a_loop_names_what_it_carries() -> None:
    module = parse_module(programs.tile_gemm())
    loop = ForOp(the(module, "scf.for"))
    assert [value.hint for value in loop.bounds] == ["zero", "n", "one"]
    assert [value.hint for value in loop.inits] == ["zeros"]
    assert loop.induction.hint == "k" and [arg.hint for arg in loop.iter_args] == ["sum"]
    assert [value.hint for value in loop.yielded] == ["next"]


def test_a_loop_takes_another_carried_value() -> None:
    loop = ForOp(the(parse_module(programs.tile_gemm()), "scf.for"))
    inside = loop.carry(loop.bounds[0], "more")
    assert loop.iter_args[-1] is inside and loop.inits[-1] is loop.bounds[0]
    assert loop.op.results[-1].type == inside.type == "i32" and loop.op.results[-1].index == 1


def test_a_branch_lists_the_blocks_that_exist() -> None:
    module = parse_module(programs.kernel(programs.branch("")))
    branch = IfOp(the(module, "scf.if"))
    assert branch.condition.hint == "flag" and len(branch.branches) == 1
    made = branch.ensure_else()
    assert len(branch.branches) == 2 and made.terminator.name == "scf.yield"
    assert branch.ensure_else() is made and len(made.ops) == 1


def test_a_while_has_a_block_that_decides_and_one_that_works() -> None:
    repeat = WhileOp(the(parse_module(programs.while_gemm()), "scf.while"))
    assert repeat.before.terminator.name == "scf.condition" and repeat.after.terminator.name == "scf.yield"


def test_enclosing_loops_come_innermost_first() -> None:
    module = parse_module(programs.persistent_gemm())
    dot = the(module, "ttng.warp_group_dot")
    outer, inner = ops_named(module, "scf.for")
    assert enclosing_loops(dot) == [inner, outer]
    assert enclosing_loops(outer) == []


def test_a_kernel_has_a_name_and_a_structured_body() -> None:
    function = FuncOp(the(parse_module(programs.tile_gemm()), "tt.func"))
    assert function.name == "kernel" and function.structured and function.body.terminator.name == "tt.return"


def test_a_load_has_a_descriptor_indices_a_tile_and_a_layout() -> None:
    load = DescriptorLoadOp(ops_named(parse_module(programs.tile_gemm()), "tt.descriptor_load")[0])
    assert load.descriptor.hint == "a_desc" and [value.hint for value in load.indices] == ["k", "zero"]
    assert load.tile.shape == (64, 64) and load.encoding == "#shared"


def test_a_store_has_a_descriptor_a_source_and_indices() -> None:
    store = DescriptorStoreOp(the(parse_module(programs.tile_gemm()), "tt.descriptor_store"))
    assert store.descriptor.hint == "c_desc" and store.source.hint == "acc_tile" and len(store.indices) == 2


def test_an_allocation_may_have_contents() -> None:
    module = parse_module(programs.tile_gemm())
    source = LocalAllocOp(ops_named(module, "ttg.local_alloc")[0]).source
    assert source is not None and source.hint == "a"
    assert LocalAllocOp(Operation("ttg.local_alloc", (), [programs.SLOT])).source is None


def test_a_dot_names_its_operands() -> None:
    dot = WarpGroupDotOp(the(parse_module(programs.tile_gemm()), "ttng.warp_group_dot"))
    assert (dot.a.hint, dot.b.hint, dot.accumulator.hint) == ("x", "y", "sum")
    assert not dot.is_async and not dot.a_in_registers


def test_constants_are_read_where_they_are_integers() -> None:
    module = parse_module(programs.tile_gemm())
    values = {op.result.hint: constant_int(op.result) for op in ops_named(module, "arith.constant")}
    assert values == {"zero": 0, "one": 1, "two": 2, "flag": 1, "zeros": None}
    assert constant_int(the(module, "tt.func").regions[0].block.args[0]) is None


# -- arefs and groups --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ring", "text"),
    [
        (
            RingType(3, ("!ttg.memdesc<4xf16, #s, #smem>", "i32")),
            "!aref.ring<3 x (!ttg.memdesc<4xf16, #s, #smem>, i32)>",
        ),
        (RingType(1, ()), "!aref.ring<1 x ()>"),
    ],
)
def test_a_ring_type_comes_back(ring: RingType, text: str) -> None:
    assert str(ring) == text and RingType.parse(text) == ring
    assert index_depth(ring.index_type) == ring.depth


@pytest.mark.parametrize("text", ["i32", "!aref.ring<3>", "!aref.index<3>"])
def test_another_type_is_no_ring(text: str) -> None:
    with pytest.raises(ValueError, match="not a ring type"):
        RingType.parse(text)


def test_another_type_is_no_index() -> None:
    assert index_depth("i32") is None


def test_aref_accesses_name_their_ring_and_count(made: Outcome) -> None:
    module = parse_module(made.aref)
    ring = CreateOp(the(module, "aref.create"))
    assert ring.name == "ring0" and ring.type.depth == 3 and len(ring.type.payload) == 2
    put, get = PutOp(the(module, "aref.put")), GetOp(the(module, "aref.get"))
    assert put.ring is get.ring is ring.op.result
    assert put.index.type == get.index.type == "!aref.index<3>" and not put.fresh
    assert [op.name for op in put.body.ops] == ["tt.descriptor_load", "tt.descriptor_load", "aref.filled"]
    inside, behind = (ConsumedOp(op) for op in ops_named(module, "aref.consumed"))
    assert inside.condition is not None and behind.condition is not None
    assert ConsumedOp(Operation("aref.consumed", [ring.op.result, get.index])).condition is None


def test_groups_have_a_name_a_role_warps_and_registers(made: Outcome) -> None:
    producer, consumer = (GroupOp(op) for op in ops_named(parse_module(made.aref), "warp.group"))
    assert (producer.partition, producer.role, producer.num_warps, producer.registers) == (
        "producer",
        "producer",
        1,
        24,
    )
    assert (consumer.partition, consumer.role, consumer.num_warps) == ("consumer", "consumer", 4)
    assert consumer.body.terminator.name == "warp.end"


def test_a_wait_says_how_many_groups_may_stay_in_flight(made: Outcome) -> None:
    waits = ops_named(parse_module(made.aref), "ttng.warp_group_dot_wait")
    assert [WarpGroupDotWaitOp(op).pendings for op in waits] == [1, 0]


def test_a_fork_has_a_default_block_and_partitions(made: Outcome) -> None:
    fork = WarpSpecializeOp(the(parse_module(made.barrier), "ttg.warp_specialize"))
    assert fork.default.terminator.name == "ttg.warp_yield"
    assert [block.terminator.name for block in fork.partitions] == ["ttg.warp_return"]
    assert fork.num_warps == (1,)
