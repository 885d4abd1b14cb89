"""Whether a program has the protocol of another: every change of an event is seen, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tawa.ir import Builder, Module, Operation, clone_op, parse_module
from tawa.ir.attributes import int_attr
from tawa.verify.preserved import preserved
from tests.verify import mutations_barrier
from tests.verify.mutations_edits import FENCE, nudge

DATA = Path(__file__).parent / "data"
PROGRAMS = ("gluon_gemm.triton3_6", "gluon_attention_causal.triton3_6", "gluon_attention_ping_pong.triton3_6")
RING = '''
"builtin.module"() ({
  "tt.func"() <{function_type = (!tt.tensordesc<tensor<64x64xf16>>, i32) -> (), sym_name = "ring"}> ({
  ^bb0(%x: !tt.tensordesc<tensor<64x64xf16>>, %n: i32):
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %yes = "arith.constant"() <{value = true}> : () -> i1
    %slots = "ttg.local_alloc"() : () -> !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>
    %full = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #bars, #smem, mutable>
    %empty = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #bars, #smem, mutable>
    %other = "ttg.local_alloc"() : () -> !ttg.memdesc<2x1xi64, #bars, #smem, mutable>
    %f0 = "ttg.memdesc_index"(%full, %zero) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
    "ttng.init_barrier"(%f0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>) -> ()
    %o0 = "ttg.memdesc_index"(%other, %zero) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
    "ttng.init_barrier"(%o0) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>) -> ()
    "ttg.warp_specialize"(%slots, %full, %empty, %other, %n, %x) <{partitionNumWarps = array<i32: 1>}> ({
      %stage = "ttg.local_alloc"() : () -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
      %last:2 = "scf.for"(%zero, %n, %one, %zero, %zero) ({
      ^bb1(%i: i32, %slot: i32, %parity: i32):
        %fs = "ttg.memdesc_index"(%full, %slot) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
        "ttng.wait_barrier"(%fs, %parity, %yes) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>, i32, i1) -> ()
        %tile = "ttg.memdesc_index"(%slots, %slot) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        %q = "ttg.local_load"(%tile) : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>) -> tensor<64x64xf16, #blocked>
        "ttng.fence_async_shared"() <{bCluster = false}> : () -> ()
        %es = "ttg.memdesc_index"(%empty, %slot) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
        "ttng.arrive_barrier"(%es, %yes) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>, i1) -> ()
        %os = "ttg.memdesc_index"(%other, %slot) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
        "ttng.arrive_barrier"(%os, %yes) <{count = 1 : i32}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>, i1) -> ()
        %flipped = "arith.xori"(%parity, %slot) : (i32, i32) -> i32
        %next = "arith.subi"(%one, %slot) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
        "scf.yield"(%next, %flipped) : (i32, i32) -> ()
      }) : (i32, i32, i32, i32, i32) -> (i32, i32)
      %r = "ttg.local_load"(%stage) : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>) -> tensor<64x64xf16, #blocked>
      "ttng.async_tma_store_wait"() <{pendings = 1 : i32}> : () -> ()
      "ttg.local_dealloc"(%stage) : (!ttg.memdesc<64x64xf16, #shared, #smem, mutable>) -> ()
      "ttg.warp_yield"() : () -> ()
    }, {
      "ttg.warp_specialize.partitions"() ({
      ^bb2(%slots1: !ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, %full1: !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, %empty1: !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, %other1: !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, %n1: i32, %x1: !tt.tensordesc<tensor<64x64xf16>>):
        %zero1 = "arith.constant"() <{value = 0 : i32}> : () -> i32
        %yes1 = "arith.constant"() <{value = true}> : () -> i1
        %f1 = "ttg.memdesc_index"(%full1, %zero1) : (!ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32) -> !ttg.memdesc<1xi64, #bars, #smem, mutable>
        %s1 = "ttg.memdesc_index"(%slots1, %zero1) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, i32) -> !ttg.memdesc<64x64xf16, #shared, #smem, mutable>
        "ttng.barrier_expect"(%f1, %yes1) <{size = 8192 : i32}> : (!ttg.memdesc<1xi64, #bars, #smem, mutable>, i1) -> ()
        "ttng.async_tma_copy_global_to_local"(%x1, %zero1, %zero1, %f1, %s1, %yes1) <{cache = 1 : i32, evict = 1 : i32, isVolatile = false}> : (!tt.tensordesc<tensor<64x64xf16>>, i32, i32, !ttg.memdesc<1xi64, #bars, #smem, mutable>, !ttg.memdesc<64x64xf16, #shared, #smem, mutable>, i1) -> ()
        "ttg.warp_return"() : () -> ()
      }) : () -> ()
    }) : (!ttg.memdesc<2x64x64xf16, #shared, #smem, mutable>, !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, !ttg.memdesc<2x1xi64, #bars, #smem, mutable>, i32, !tt.tensordesc<tensor<64x64xf16>>) -> ()
    "tt.return"() : () -> ()
  }) : () -> ()
}) {"ttg.num-warps" = 4 : i32} : () -> ()
'''  # fmt: skip  # noqa: E501
"""A ring of two slots, read in a loop; each read is followed by two arrivals."""


def after(change: Callable[[Module], None]) -> bool:
    """Whether the ring is preserved under a change."""
    changed = parse_module(RING)
    change(changed)
    return preserved(parse_module(RING), changed)


def every(module: Module, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def move(op: Operation, target: Operation) -> None:
    """Moves an operation before another one."""
    op.detach()
    assert target.parent is not None
    target.parent.insert(target.parent.index_of(target), op)


def number(module: Module, name: str, attribute: str, value: int) -> None:
    for op in every(module, name):
        op.properties[attribute] = int_attr(value)


def arrivals_swapped(module: Module) -> None:
    first, second = every(module, "ttng.arrive_barrier")
    move(second.operands[0].owner, first)  # type: ignore[arg-type]
    move(second, first)


def read_behind_the_arrival(module: Module) -> None:
    (read, _), arrivals = every(module, "ttg.local_load"), every(module, "ttng.arrive_barrier")
    move(read, arrivals[1])


def read_before_the_loop(module: Module) -> None:
    (loop,), (read, *_) = every(module, "scf.for"), every(module, "ttg.local_load")
    tile = read.operands[0].owner
    assert isinstance(tile, Operation)
    tile.set_operand(1, loop.operands[0])
    move(tile, loop)
    move(read, loop)


def read_into_the_loop(module: Module) -> None:
    move(every(module, "ttg.local_load")[1], every(module, "ttng.wait_barrier")[0])


def freed_before_the_read(module: Module) -> None:
    move(every(module, "ttg.local_dealloc")[0], every(module, "ttg.local_load")[1])


def another_slot(module: Module) -> None:
    arrival = every(module, "ttng.arrive_barrier")[0]
    view = arrival.operands[0].owner
    assert isinstance(view, Operation)
    builder = Builder.before(view)
    one = every(module, "arith.constant")[1].result
    view.set_operand(1, builder.create("arith.subi", (one, view.operands[1]), ("i32",)).result)


def another_rotation(module: Module) -> None:
    """The slots rotate by another number: the difference is carried by the loop."""
    (rotation,) = every(module, "arith.subi")
    rotation.set_operand(0, every(module, "arith.constant")[0].result)


def a_sum_that_does_not_cancel(module: Module) -> None:
    """A number is taken away twice."""
    (rotation,), (loop,) = every(module, "arith.subi"), every(module, "scf.for")
    build, slot, number = Builder.before(rotation), rotation.operands[1], loop.operands[1]
    moved = build.create("arith.subi", (slot, number), ("i32",)).result
    rotation.set_operand(1, build.create("arith.subi", (moved, number), ("i32",)).result)


def another_trip_count(module: Module) -> None:
    (loop,) = every(module, "scf.for")
    loop.set_operand(1, loop.operands[2])


def another_read(module: Module) -> None:
    """A slot is read before any other access to it."""
    (loop,), slots = every(module, "scf.for"), every(module, "ttg.local_alloc")[0].result
    build, slot = Builder.before(loop), "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
    view = build.create("ttg.memdesc_index", (slots, loop.operands[0]), (slot,))
    build.create("ttg.local_load", (view.result,), ("tensor<64x64xf16>",))


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda it: number(it, "ttng.barrier_expect", "size", 4096), id="bytes"),
        pytest.param(lambda it: number(it, "ttng.async_tma_store_wait", "pendings", 2), id="pendings"),
        pytest.param(lambda it: number(it, "ttng.arrive_barrier", "count", 2), id="arrivals"),
        arrivals_swapped, read_behind_the_arrival, read_before_the_loop, read_into_the_loop, freed_before_the_read,
        another_slot, another_rotation, a_sum_that_does_not_cancel, another_trip_count, another_read,
    ],
)  # fmt: skip
def test_a_change_of_the_protocol_is_seen(change: Callable[[Module], None]) -> None:
    assert not after(change)


def a_fence(module: Module) -> None:
    fence = every(module, FENCE)[0]
    assert fence.parent is not None
    fence.parent.insert(0, clone_op(fence, {}))


def an_allocation_of_its_own(module: Module) -> None:
    """A tile goes through shared memory."""
    read = every(module, "ttg.local_load")[1]
    build = Builder.before(every(module, "ttg.warp_yield")[0])
    shared = "!ttg.memdesc<64x64xf16, #shared, #smem>"
    made = build.create("ttg.local_alloc", (read.result,), (shared,))
    build.create("ttg.local_load", (made.result,), (read.result.type,))


def a_loop_without_events(module: Module) -> None:
    (loop,) = every(module, "scf.for")
    empty = Builder.before(loop).insert(clone_op(loop, {}))
    for op in list(empty.regions[0].block.ops):
        if op.name.startswith(("ttng.", "ttg.local")):
            op.erase()


def constants_folded(module: Module) -> None:
    """Zero is computed, and the sum of a number and zero is used in its place."""
    (rotation,) = every(module, "arith.subi")
    zero, one, _ = every(module, "arith.constant")[:3]
    build = Builder.before(rotation)
    nothing = build.create("arith.subi", (one.result, one.result), ("i32",)).result
    rotation.set_operand(1, build.create("arith.addi", (rotation.operands[1], nothing), ("i32",)).result)
    view = every(module, "ttg.memdesc_index")[0]
    view.set_operand(1, Builder.before(view).create("arith.muli", (zero.result, one.result), ("i32",)).result)


def sums_cancelled(module: Module) -> None:
    """A number is added and taken away again."""
    (rotation,), (loop,) = every(module, "arith.subi"), every(module, "scf.for")
    build, slot = Builder.before(rotation), rotation.operands[1]
    for there, back in (("arith.addi", "arith.subi"), ("arith.subi", "arith.addi")):
        moved = build.create(there, (slot, loop.operands[1]), ("i32",)).result
        slot = build.create(back, (moved, loop.operands[1]), ("i32",)).result
    rotation.set_operand(1, slot)


@pytest.mark.parametrize(
    "change", [a_fence, an_allocation_of_its_own, a_loop_without_events, constants_folded, sums_cancelled]
)
def test_what_does_not_concern_the_protocol_is_no_change(change: Callable[[Module], None]) -> None:
    assert after(change)


def test_a_missing_fence_is_seen() -> None:
    proved = parse_module(RING)
    a_fence(proved)
    assert not preserved(proved, parse_module(RING))


HARMLESS = {
    ("nudge", None),
    ("double", "fence_async_shared"),
    ("double", "async_tma_store_wait"),
    ("double", "warp_group_dot_wait"),
}
"""Kinds of mutants that change nothing, or add what Triton may add."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mutant_of_a_program_is_another_program(name: str) -> None:
    text = (DATA / f"{name}.mlir").read_text()
    proved = parse_module(text)
    assert preserved(proved, parse_module(text))
    unseen = {
        (mutant.kind, None if mutant.site.kind.change is nudge else mutant.target)
        for mutant in mutations_barrier.mutants(text, 8)
        if preserved(proved, mutant.module)
    }
    assert unseen <= HARMLESS
