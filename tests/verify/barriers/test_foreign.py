"""Programs of other producers: stock Triton's pipelines, and operations that Tawa's pipeline does not emit."""

from __future__ import annotations

from typing import Any

import pytest

from tawa.ir import Module, parse_module
from tawa.verify.barriers import check_barriers
from tawa.verify.run.memory import COPIES_SEEN, FENCED_READS
from tawa.verify.verdict import FaultKind, Proved, Refuted, Unknown
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

TILE = "!ttg.memdesc<64x64xf16, #shared, #smem, mutable>"
HALF = "!ttg.memdesc<32x64xf16, #shared, #smem, mutable, 64x64>"
BARRIER = "!ttg.memdesc<1xi64, #barriers, #smem, mutable>"
DESCRIPTOR = "!tt.tensordesc<tensor<64x64xf16, #shared>>"
HALVES = DESCRIPTOR.replace("<64x", "<32x")
DATA = "tensor<64x64xf16, #blocked>"
PIECE = "tensor<32x64xf16, #blocked>"
POINTERS = "tensor<64x64x!tt.ptr<f16>, #blocked>"
RESULT = "tensor<64x64xf32, #mma>"
ARGUMENTS = (
    f"%desc: {DESCRIPTOR}, %halves: {HALVES}, %data: {DATA}, %piece: {PIECE}, %at: {POINTERS}, %acc: {RESULT}, "
    "%counter: !tt.ptr<i32>, %n: i32"
)

ALLOC = f'%tile = "ttg.local_alloc"() : () -> {TILE}'
CONTENTS = f'%tile = "ttg.local_alloc"(%data) : ({DATA}) -> {TILE}'
MAKE = f'%bar = "ttg.local_alloc"() : () -> {BARRIER}'
INIT = f'"ttng.init_barrier"(%bar) <{{count = 1 : i32}}> : ({BARRIER}) -> ()'
INVAL = f'"ttng.inval_barrier"(%bar) : ({BARRIER}) -> ()'
EXPECT = f'"ttng.barrier_expect"(%bar, %yes) <{{size = 8192 : i32}}> : ({BARRIER}, i1) -> ()'
COPY_IN = (
    f'"ttng.async_tma_copy_global_to_local"(%desc, %zero, %zero, %bar, %tile, %yes) : '
    f"({DESCRIPTOR}, i32, i32, {BARRIER}, {TILE}, i1) -> ()"
)
WAIT = f'"ttng.wait_barrier"(%bar, %zero) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}> : ({BARRIER}, i32) -> ()'
LOAD = f'%got = "ttg.local_load"(%tile) : ({TILE}) -> {DATA}'
STORE = f'"ttg.local_store"(%data, %tile) : ({DATA}, {TILE}) -> ()'
FENCE = '"ttng.fence_async_shared"() <{bCluster = false}> : () -> ()'
COPY_OUT = f'"ttng.async_tma_copy_local_to_global"(%desc, %zero, %zero, %tile) : ({DESCRIPTOR}, i32, i32, {TILE}) -> ()'
STORE_WAIT = '"ttng.async_tma_store_wait"() <{pendings = 0 : i32}> : () -> ()'
CP_ASYNC = (
    f'%copy = "ttg.async_copy_global_to_local"(%at, %tile) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0>}}> : '
    f"({POINTERS}, {TILE}) -> !ttg.async.token"
)
COMMIT = '%group = "ttg.async_commit_group"(%copy) : (!ttg.async.token) -> !ttg.async.token'
DOT = (
    f'%sum = "ttng.warp_group_dot"(%tile, %tile, %acc) <{{inputPrecision = 0 : i32, isAsync = true, '
    f"maxNumImpreciseAcc = 0 : i32}}> : ({TILE}, {TILE}, {RESULT}) -> {RESULT}"
)
DOT_WAIT = f'%done = "ttng.warp_group_dot_wait"(%sum) <{{pendings = 0 : i32}}> : ({RESULT}) -> {RESULT}'


TWO = TILE.replace("<64", "<2x64")
TWO_BARRIERS = BARRIER.replace("<1", "<2x1")


def slots(name: str, slot: int, two: str, one: str) -> tuple[str, ...]:
    """Two slots, and one of them by its number."""
    return (
        f'%two_{name} = "ttg.local_alloc"() : () -> {two}',
        f'%at = "arith.constant"() <{{value = {slot} : i32}}> : () -> i32',
        f'%{name} = "ttg.memdesc_index"(%two_{name}, %at) : ({two}, i32) -> {one}',
    )


def cp_wait(left: int) -> str:
    return f'%waited = "ttg.async_wait"(%group) <{{num = {left} : i32}}> : (!ttg.async.token) -> !ttg.async.token'


def slice_of(name: str, row: int) -> str:
    return f'%{name} = "ttg.memdesc_subslice"(%tile) <{{offsets = array<i32: {row}, 0>}}> : ({TILE}) -> {HALF}'


def store_into(name: str) -> str:
    return f'"ttg.local_store"(%piece, %{name}) : ({PIECE}, {HALF}) -> ()'


def copy_out_of(name: str) -> str:
    return (
        COPY_OUT.replace("%tile", f"%{name}")
        .replace(TILE, HALF)
        .replace("%desc", "%halves")
        .replace(DESCRIPTOR, HALVES)
    )


def kernel(*lines: str) -> Module:
    constants = (
        '%zero = "arith.constant"() <{value = 0 : i32}> : () -> i32',
        '%yes = "arith.constant"() <{value = true}> : () -> i1',
    )
    body = "\n".join((*constants, *lines, '"tt.return"() : () -> ()'))
    return parse_module(
        f'"builtin.module"() ({{\n"tt.func"() <{{sym_name = "kernel"}}> ({{\n^bb0({ARGUMENTS}):\n{body}\n'
        "}) : () -> ()\n}) : () -> ()\n"
    )


LANDED = (ALLOC, MAKE, INIT, EXPECT, COPY_IN, WAIT)
RIGHT: dict[str, tuple[str, ...]] = {
    "cp.async, waited for and fenced": (ALLOC, CP_ASYNC, COMMIT, cp_wait(0), FENCE, DOT, DOT_WAIT),
    "a view behind the last slot that nothing uses": (
        *slots("unused", 2, TWO, TILE),
        *(it.replace("%at", "%one") for it in slots("tile", 1, TWO, TILE)),
        STORE,
    ),
    "a barrier that is invalidated and made again": (*LANDED, INVAL, INIT, INVAL),
    "a store into one half while TMA reads the other": (
        *(ALLOC, slice_of("low", 0), slice_of("high", 32), store_into("low"), FENCE, copy_out_of("low")),
        *(store_into("high"), STORE_WAIT),
    ),
    "a TMA store that is waited for before its tile is written": (
        *(ALLOC, STORE, FENCE, COPY_OUT, STORE_WAIT, STORE, FENCE, COPY_OUT, STORE_WAIT),
    ),
    "a TMA copy over a tile that was stored, loaded and fenced": (
        *(ALLOC, MAKE, INIT, STORE, LOAD, FENCE, EXPECT, COPY_IN, WAIT),
    ),
    "a TMA copy over a tile of cp.async that was waited for and fenced": (
        *(ALLOC, MAKE, INIT, CP_ASYNC, COMMIT, cp_wait(0), FENCE, EXPECT, COPY_IN, WAIT),
    ),
    "a wgmma of an immutable allocation with contents": (
        CONTENTS.replace(", mutable", ""),
        DOT.replace(", mutable", ""),
        DOT_WAIT,
    ),
    "a tile in flight that a select hands on": (
        *LANDED,
        DOT,
        f'%one = "arith.select"(%yes, %sum, %acc) : (i1, {RESULT}, {RESULT}) -> {RESULT}',
        DOT_WAIT.replace("%sum", "%one"),
    ),
}
WRONG: dict[str, tuple[FaultKind, tuple[str, ...]]] = {
    "cp.async, read before its group is complete": (
        "read before write",
        (ALLOC, CP_ASYNC, COMMIT, cp_wait(1), FENCE, DOT, DOT_WAIT),
    ),
    "cp.async, not committed": ("read before write", (ALLOC, CP_ASYNC, cp_wait(0).replace("%group", "%copy"), LOAD)),
    "a TMA copy over a tile that was stored": ("missing fence", (ALLOC, MAKE, INIT, STORE, EXPECT, COPY_IN, WAIT)),
    "a TMA copy over a tile that is stored to again after the fence": (
        "missing fence",
        (ALLOC, MAKE, INIT, STORE, FENCE, STORE, EXPECT, COPY_IN, WAIT),
    ),
    "a TMA copy over a tile of cp.async": (
        "missing fence",
        (ALLOC, MAKE, INIT, CP_ASYNC, COMMIT, FENCE, cp_wait(0), EXPECT, COPY_IN, WAIT),
    ),
    "a wgmma of a mutable allocation with contents": ("missing fence", (CONTENTS, DOT, DOT_WAIT)),
    "a tile behind the last slot": ("out of bounds", (*slots("tile", 2, TWO, TILE), STORE)),
    "a tile before the first slot": ("out of bounds", (*slots("tile", -1, TWO, TILE), STORE)),
    "a read behind the last slot": ("out of bounds", (*slots("tile", 2, TWO, TILE), LOAD)),
    "a barrier behind the last slot": ("out of bounds", (*slots("bar", 2, TWO_BARRIERS, BARRIER), INIT)),
    "a wait behind the last slot": ("out of bounds", (*slots("bar", 2, TWO_BARRIERS, BARRIER), WAIT)),
    "a barrier that is made again while it lives": ("barrier lifecycle", (*LANDED, INIT)),
    "a barrier that is waited for after its end": ("barrier lifecycle", (*LANDED, INVAL, WAIT)),
    "a barrier that is invalidated before its bytes are there": (
        "barrier lifecycle",
        (ALLOC, MAKE, INIT, EXPECT, INVAL),
    ),
    "a store into the half that TMA reads": (
        "write before release",
        (ALLOC, slice_of("low", 0), store_into("low"), FENCE, copy_out_of("low"), store_into("low"), STORE_WAIT),
    ),
    "a store into the whole while TMA reads a half": (
        "write before release",
        (ALLOC, slice_of("low", 0), store_into("low"), FENCE, copy_out_of("low"), STORE, STORE_WAIT),
    ),
    "a tile that is written while a TMA store reads it": (
        "write before release",
        (ALLOC, STORE, FENCE, COPY_OUT, STORE, STORE_WAIT),
    ),
    "a TMA store that is in flight at the end": ("leftover credit", (ALLOC, STORE, FENCE, COPY_OUT)),
    "a tile in flight that is used behind a select": (
        "accumulator in flight",
        (
            *LANDED,
            DOT,
            f'%one = "arith.select"(%yes, %sum, %acc) : (i1, {RESULT}, {RESULT}) -> {RESULT}',
            f'%bad = "arith.addf"(%one, %one) : ({RESULT}, {RESULT}) -> {RESULT}',
            DOT_WAIT,
        ),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_correct_programs_are_proved(name: str) -> None:
    verdict = check_barriers(kernel(*RIGHT[name]))
    assert passes(verdict), verdict


@pytest.mark.parametrize("name", WRONG)
def test_faults_are_refuted_with_their_kind(name: str) -> None:
    kind, lines = WRONG[name]
    verdict = check_barriers(kernel(*lines))
    assert isinstance(verdict, Refuted), verdict
    assert verdict.witness.kind == kind, verdict.witness.message


ATOMIC = '%ticket = "tt.atomic_rmw"(%counter, %zero, %yes) : (!tt.ptr<i32>, i32, i1) -> i32'
CONDITION = '%more = "arith.cmpi"(%ticket, %zero) <{predicate = 4 : i64}> : (i32, i32) -> i1'


def test_a_branch_on_the_result_of_an_atomic_is_tried_both_ways() -> None:
    once = f'"scf.if"(%more) ({{\n{INVAL}\n"scf.yield"() : () -> ()\n}}, {{\n}}) : (i1) -> ()'
    verdict = check_barriers(kernel(*LANDED, ATOMIC, CONDITION, once))
    assert isinstance(verdict, Proved), verdict
    twice = check_barriers(kernel(*LANDED, ATOMIC, CONDITION, INVAL, once))
    assert isinstance(twice, Refuted) and twice.witness.kind == "barrier lifecycle", twice


def test_a_fault_that_depends_on_the_results_of_two_atomics_is_unknown() -> None:
    """They may be related: here, both flags may be the same number."""
    second, other = ATOMIC.replace("%ticket", "%second"), CONDITION.replace("%ticket", "%second")
    once = f'"scf.if"(%more) ({{\n{INVAL}\n"scf.yield"() : () -> ()\n}}, {{\n}}) : (i1) -> ()'
    again = once.replace("%more", "%also")
    body = (ATOMIC, CONDITION, second, other.replace("%more", "%also"), once, again)
    verdict = check_barriers(kernel(*LANDED, *body))
    assert isinstance(verdict, Unknown) and "several atomics" in verdict.reason, verdict


def test_a_proof_does_not_rely_on_the_result_of_a_division() -> None:
    divide = '%part = "arith.divsi"(%zero, %n) : (i32, i32) -> i32'
    condition = CONDITION.replace("%ticket", "%part")
    body = f'"scf.if"(%more) ({{\n{INVAL}\n"scf.yield"() : () -> ()\n}}, {{\n}}) : (i1) -> ()'
    verdict = check_barriers(kernel(*LANDED, divide, condition, body))
    assert isinstance(verdict, Proved) and not verdict.assumptions, verdict


# -- stock Triton ------------------------------------------------------------------------------------------------------

STOCK = ("tile_fp16_nn", "persistent", "persistent_epilogue_flat", "two_loops", "device_desc_8warps")


def stock(name: str) -> Module:
    """The output of stock Triton for a case, as the bridge reads it."""
    bridge: Any = pytest.importorskip("tawa.bridge.triton.generic_print")
    pytest.importorskip("triton")
    from triton._C import libtriton

    from tests.cases.gemm import cases as gemm
    from tests.cases.pointers import cases as pointers
    from tests.matrix.compiling import compile_case

    native: Any = libtriton
    context = native.ir.context()
    native.ir.load_dialects(context)
    native.nvidia.load_dialects(context)
    family, _, case = name.rpartition(" ")
    text: str = compile_case((pointers if family else gemm).find(case), None).asm["ttgir"]
    return parse_module(bridge.print_generic(bridge.parse_module(text, context)))


@pytest.mark.parametrize("name", STOCK)
def test_pipelines_of_stock_triton_have_no_fault(name: str) -> None:
    verdict = check_barriers(stock(name), effort="fast")
    assert passes(verdict), verdict


def test_a_pointer_gemm_of_triton_3_6_relies_on_what_the_fence_of_3_9_ensures() -> None:
    """cp.async writes through the generic proxy; the wgmma reads through the async proxy."""
    from tawa.bridge.triton.versions import triton_version

    verdict = check_barriers(stock("pointer masked_nn"), effort="fast")
    assert passes(verdict), verdict
    assert (COPIES_SEEN in verdict.assumptions) == (triton_version()[:2] == (3, 6))


@pytest.mark.parametrize(
    ("reliance", "program"),
    [
        (COPIES_SEEN, (ALLOC, CP_ASYNC, COMMIT, cp_wait(0), DOT, DOT_WAIT)),
        (FENCED_READS, (ALLOC, MAKE, INIT, STORE, FENCE, LOAD, EXPECT, COPY_IN, WAIT)),
    ],
)
def test_what_stands_in_for_a_fence_of_one_partition_is_stated(reliance: str, program: tuple[str, ...]) -> None:
    verdict = check_barriers(kernel(*program))
    assert isinstance(verdict, Proved) and reliance in verdict.assumptions, verdict


def test_a_kernel_that_takes_its_tiles_from_a_counter_has_no_fault() -> None:
    verdict = check_barriers(stock("dynamic_tiles"), effort="fast")
    assert passes(verdict), verdict


@pytest.mark.parametrize("lines", [(COPY_IN,), (STORE, FENCE, COPY_OUT)])
def test_a_copy_whose_descriptor_has_other_blocks_than_the_buffer_is_unknown(lines: tuple[str, ...]) -> None:
    """It moves the bytes of a block, so that a barrier that expects those of the buffer never completes."""
    other = [line.replace("%desc", "%halves").replace(DESCRIPTOR, HALVES) for line in lines]
    verdict = check_barriers(kernel(ALLOC, MAKE, INIT, EXPECT, *other, WAIT))
    assert isinstance(verdict, Unknown) and "blocks of 32x64xf16" in verdict.reason, verdict


LOADED = '%ticket = "tt.load"(%counter) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tt.ptr<i32>) -> i32'
AGAIN = LOADED.replace("%ticket", "%second")
NEXT = '%next = "tt.addptr"(%counter, %n) : (!tt.ptr<i32>, i32) -> !tt.ptr<i32>'
WRITTEN = '"tt.store"(%next, %n) : (!tt.ptr<i32>, i32) -> ()'


@pytest.mark.parametrize(
    ("lines", "equal"),
    [
        ((LOADED, AGAIN), True),
        ((LOADED, NEXT, WRITTEN, AGAIN), False),
        (tuple(it.replace("<{", "<{isVolatile = true, ") for it in (LOADED, AGAIN)), False),
    ],
    ids=["memory that nobody writes", "memory that the kernel writes", "volatile loads"],
)
def test_two_loads_of_one_address_are_equal_if_the_memory_cannot_change(lines: tuple[str, ...], equal: bool) -> None:
    """The barrier is invalidated twice, if one number is 0 or more and the other is not."""
    other = CONDITION.replace("%ticket", "%second").replace("%more", "%also")
    end = '"scf.yield"() : () -> ()'
    once = f'"scf.if"(%more) ({{\n{INVAL}\n{end}\n}}, {{\n}}) : (i1) -> ()'
    rest = f'"scf.if"(%also) ({{\n{end}\n}}, {{\n{INVAL}\n{end}\n}}) : (i1) -> ()'
    verdict = check_barriers(kernel(*LANDED, *lines, CONDITION, other, once, rest))
    assert isinstance(verdict, Proved if equal else Unknown), verdict
