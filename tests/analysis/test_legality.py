"""Why a kernel is not specialised: one test a remark, with its reason, place and cure."""

from __future__ import annotations

import pytest

from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import (
    ACC,
    DESC,
    LOCK,
    POINTERS,
    TILE,
    alloc,
    binary,
    dot,
    for_loop,
    gemm_loop,
    kernel,
    load,
    op,
    scalar_load,
    store,
    store_tile,
)
from tests.cases.programs.ttir import LOAD
from tests.support.pipeline import specialise

LEGAL = PlanOptions(only_if_faster=False)
"""Specialise whatever may be specialised, whether it pays or not."""


def first_remark(text: str, num_warps: int = 4) -> Remark:
    made = specialise(text, LEGAL, Target(num_warps=num_warps, num_stages=3))
    assert not made.applied and made.plan is None and made.aref == made.barrier == ""
    assert all(remark.kind == "declined" for remark in made.remarks)
    return made.remarks[0]


def gemm(*before: str, behind: str = "", loop: str = "", **options: object) -> str:
    return kernel("\n".join((*before, loop or gemm_loop(), store(line=20), behind)), **options)  # type: ignore[arg-type]


def inside(*lines: str) -> str:
    """The usual loop with more lines in front."""
    body = "\n".join((*lines, programs.iteration()))
    return for_loop(body, carried={"sum": ("zeros", "next", ACC)}, results="%acc", line=9)


def atomic(result: str = "old", *, sem: int = 4, line: int = 0, pointer: str = "lock") -> str:
    properties = f"atomic_rmw_op = 4 : i32, scope = 1 : i32, sem = {sem} : i32"
    types = "!tt.ptr<i32>, i32, i1"
    return op(
        "tt.atomic_rmw", f"%{pointer}, %zero, %flag", types, f"%{result}", "i32", line=line, properties=properties
    )


def spin(wait: str) -> str:
    """``while lock == 0: pass``."""
    return "\n".join(
        (
            '%done = "scf.while"(%zero) ({\n^bb0(%last: i32):',
            wait,
            programs.compare("again", "old", "zero", 0),
            '"scf.condition"(%again, %old) : (i1, i32) -> ()\n}, {\n^bb0(%unused: i32):',
            '"scf.yield"(%unused) : (i32) -> ()\n}) : (i32) -> i32',
        )
    )


# -- the module --------------------------------------------------------------------------------------------------------


def test_the_plain_kernel_is_specialised() -> None:
    """What the others change."""
    assert specialise(gemm(), LEGAL, Target(4, 3)).applied


def test_a_cluster_of_ctas_is_declined() -> None:
    remark = first_remark(gemm(num_ctas=2))
    assert remark.reason == "num_ctas=2: clusters of CTAs are not supported"
    assert remark.cure == "num_ctas=1"


@pytest.mark.parametrize("num_warps", [1, 2, 16])
def test_a_number_of_warps_no_consumer_has_is_declined(num_warps: int) -> None:
    remark = first_remark(gemm(), num_warps)
    assert remark.reason == f"num_warps={num_warps}: a consumer has 4 or 8 warps"
    assert remark.cure == "use num_warps=4 or 8"


def test_an_early_return_is_declined_at_its_branch() -> None:
    jump = '"cf.cond_br"(%flag)[^bb1, ^bb2] : (i1) -> () loc("kernel.py":5:8)'
    remark = first_remark(gemm(f'{jump}\n^bb1:\n"tt.return"() : () -> ()\n^bb2:'))
    assert remark.reason == "the kernel returns early or jumps: its control flow is not structured"
    assert str(remark.location) == "kernel.py:5"
    assert remark.cure == "put the rest of the kernel under an `if` instead of returning"


def test_a_kernel_that_is_specialised_already_is_declined() -> None:
    fork = (
        '"ttg.warp_specialize"() <{partitionNumWarps = array<i32: 1>}> ({\n"ttg.warp_yield"() : () -> ()\n}, {\n'
        '"ttg.warp_specialize.partitions"() ({\n"ttg.warp_return"() : () -> ()\n}) : () -> ()\n'
        '}) : () -> () loc("kernel.py":5:8)'
    )
    remark = first_remark(gemm(fork))
    assert remark.reason == "the kernel is warp-specialised already" and str(remark.location) == "kernel.py:5"


def test_a_call_is_declined_where_it_stands() -> None:
    remark = first_remark(gemm(op("tt.call", "%n", "i32", line=5, properties="callee = @helper")))
    assert remark.reason == "calls @helper, which is not inlined"
    assert str(remark.location) == "kernel.py:5" and remark.cure == "drop noinline=True from the callee"


@pytest.mark.parametrize(
    ("name", "word"), [("made.up", "made.up"), ("tt.elementwise_inline_asm", "tl.inline_asm_elementwise")]
)
def test_an_operation_of_unknown_effect_is_declined_where_it_stands(name: str, word: str) -> None:
    remark = first_remark(gemm(op(name, "%n", "i32", line=5)))
    assert remark.reason == f"{word} has unknown effects, so no load may move across it"
    assert str(remark.location) == "kernel.py:5"


BARRIER = op("ttg.barrier", "", "", line=5)


FROM_MEMORY = (
    op("tt.load", "%table", "!tt.ptr<i64>", "%number", "i64", properties=LOAD),
    op("tt.int_to_ptr", "%number", "i64", "%there", "!tt.ptr<f16>"),
    op("tt.load", "%there", "!tt.ptr<f16>", "%value", "f16", properties=LOAD),
)


@pytest.mark.parametrize(
    ("text", "is_declined"),
    [
        (gemm(loop=inside(BARRIER)), False),
        (gemm(*FROM_MEMORY, loop=inside(BARRIER), arguments={"table": "!tt.ptr<i64>"}), True),
        (gemm(BARRIER), False),
        (gemm(*FROM_MEMORY, BARRIER, arguments={"table": "!tt.ptr<i64>"}), True),
    ],
    ids=["in the loop", "in the loop, beside an address from memory", "before it", "before it, beside such an address"],
)
def test_a_barrier_beside_an_address_from_memory_is_declined_where_it_stands(text: str, is_declined: bool) -> None:
    made = specialise(text, LEGAL, Target(num_warps=4, num_stages=3))
    remarks = [it for it in made.remarks if "barrier" in it.reason]
    assert made.applied != is_declined
    assert bool(remarks) == is_declined
    if is_declined:
        assert remarks[0].reason == "ttg.barrier synchronises all warps of the kernel"
        assert str(remarks[0].location) == "kernel.py:5"
        assert remarks[0].cure == "remove the barrier, or take the addresses from arguments"


def test_no_load_runs_ahead_of_a_barrier_behind_an_atomic() -> None:
    remark = first_remark(gemm(atomic(sem=1), BARRIER, arguments=LOCK))
    assert remark.reason == "ttg.barrier may wait for what others write, and a load behind it may not run ahead of it"
    assert str(remark.location) == "kernel.py:5"


def test_a_barrier_and_an_atomic_behind_the_loads_are_the_consumers() -> None:
    text = gemm(behind=f"{BARRIER}\n{atomic(sem=4)}", arguments=LOCK)
    made = specialise(text, LEGAL, Target(num_warps=4, num_stages=3), verification="full")
    assert made.applied and made.verdict is not None


def test_a_barrier_outside_the_loops_is_the_consumers() -> None:
    made = specialise(gemm(BARRIER, behind=BARRIER), LEGAL, Target(num_warps=4, num_stages=3), verification="full")
    assert made.applied and made.verdict is not None
    assert made.aref.count("ttg.barrier") == 2


def test_a_barrier_behind_all_dots_orders_no_moved_load_even_beside_an_atomic() -> None:
    """As where a program publishes what it has summed."""
    text = gemm(behind="\n".join((BARRIER, atomic())), arguments=LOCK)
    made = specialise(text, LEGAL, Target(num_warps=4, num_stages=3), verification="full")
    assert made.applied and made.verdict is not None
    assert made.aref.count("ttg.barrier") == 1  # the consumer's alone
    assert made.aref.index("ttg.barrier") < made.aref.index("tt.atomic_rmw")


# -- the loads ---------------------------------------------------------------------------------------------------------


def test_a_kernel_without_a_dot_is_declined() -> None:
    remark = first_remark(kernel(load("a", "a_desc", "%zero, %zero")))
    assert remark.reason == "no tl.dot in the kernel: there is nothing to feed by separate warps"


def test_a_dot_outside_loops_is_declined() -> None:
    body = programs.iteration("zeros", "acc", at="%zero, %zero", line=10)
    remark = first_remark(kernel(f"{body}\n{store()}"))
    assert remark.reason == "the dot is not in a loop: there is no next tile to load meanwhile"
    assert str(remark.location) == "kernel.py:12"


def by_pointers(operand: int, *, base: str = "out", volatile: bool = False) -> tuple[str, str]:
    """What stands before the usual loop, and the loop, where A or B comes by pointers."""
    tile = "ab"[operand]
    splat = op("tt.splat", f"%{base}", "!tt.ptr<f16>", "%ptrs", POINTERS)
    properties = f"isVolatile = {str(volatile).lower()}"
    by_pointer = op("tt.load", "%ptrs", POINTERS, f"%{tile}", TILE, line=30, properties=properties)
    return splat, inside().replace(load(tile, ("a_desc", "b_desc")[operand], line=10 + operand), by_pointer)


@pytest.mark.parametrize(("operand", "fills"), [(0, ("registers", "tma")), (1, ("tma", "registers"))])
def test_an_operand_that_comes_by_pointers_has_a_ring_of_its_own(operand: int, fills: tuple[str, ...]) -> None:
    splat, loop = by_pointers(operand)
    made = specialise(gemm(splat, loop=loop), LEGAL, Target(num_warps=4, num_stages=3))
    assert made.applied and made.plan is not None
    assert tuple(ring.fill for ring in made.plan.rings) == fills
    assert made.plan.partitions[0].num_warps == 4


def test_a_store_through_the_pointer_that_a_moved_load_reads_is_declined_at_the_store() -> None:
    splat, loop = by_pointers(0)
    number = op("arith.sitofp", "%n", "i32", "%half", "f16")
    behind = f"{number}\n{op('tt.store', '%out, %half', '!tt.ptr<f16>, f16', line=40)}"
    remark = first_remark(gemm(splat, loop=loop, behind=behind))
    assert "tl.store writes through argument 'out', which the load at kernel.py:30 reads" in remark.reason
    assert str(remark.location) == "kernel.py:40" and remark.cure == "write to another tensor"


def test_a_volatile_load_through_pointers_stays_and_orders_what_is_behind_it() -> None:
    splat, loop = by_pointers(0, volatile=True)
    remark = first_remark(gemm(splat, loop=loop))
    assert remark.reason.startswith("tl.load may wait for what others write")
    assert str(remark.location) == "kernel.py:30"


def test_operands_that_nothing_loads_in_the_loop_are_declined() -> None:
    before = "\n".join(
        (load("a", "a_desc", "%zero, %zero"), load("b", "b_desc", "%zero, %zero"), alloc("x", "a"), alloc("y", "b"))
    )
    loop = for_loop(dot("next", "x", "y", "sum", line=12), carried={"sum": ("zeros", "next", ACC)}, results="%acc")
    remark = first_remark(gemm(before, loop=loop))
    assert remark.reason == "no operand of a dot is loaded inside a loop"
    assert str(remark.location) == "kernel.py:12"


# -- memory ------------------------------------------------------------------------------------------------------------


def test_a_store_to_what_a_moved_load_reads_is_declined_at_the_store() -> None:
    loop = gemm_loop()
    remark = first_remark(kernel(f"{loop}\n{store(desc='a_desc', line=20)}"))
    assert (
        "a descriptor's store writes through argument 'a_desc', which the load at kernel.py:10 reads" in remark.reason
    )
    assert str(remark.location) == "kernel.py:20" and remark.cure == "write to another tensor"


def test_an_atomic_on_what_a_moved_load_reads_is_declined() -> None:
    made = op("tt.make_tensor_descriptor", "%lock, %n, %n, %n", "!tt.ptr<i32>, i32, i32, i32", "%own", DESC)
    loop = gemm_loop().replace("%a_desc", "%own")
    remark = first_remark(gemm(made, loop=loop, behind=atomic(line=21), arguments=LOCK))
    assert "tl.atomic_add writes through argument 'lock'" in remark.reason and str(remark.location) == "kernel.py:21"


def test_a_store_to_an_unknown_address_is_declined() -> None:
    pointer = op("tt.int_to_ptr", "%n", "i32", "%p", "!tt.ptr<f16>")
    half = op("arith.constant", "", "", "%h", "f16", properties="value = 0.0 : f16")
    write = op("tt.store", "%p, %h", "!tt.ptr<f16>, f16", line=22)
    remark = first_remark(gemm(behind=f"{pointer}\n{half}\n{write}"))
    assert remark.reason.startswith(
        "tl.store goes to an address of unknown origin, which may alias what the load at kernel.py:10"
    )
    assert str(remark.location) == "kernel.py:22" and remark.cure == "derive each pointer from one kernel argument"


def test_a_load_from_an_unknown_descriptor_is_declined_where_the_kernel_writes() -> None:
    unknown = op("arith.select", "%flag, %a_desc, %made", f"i1, {DESC}, {DESC}", "%picked", DESC)
    pointer = op("tt.int_to_ptr", "%n", "i32", "%p", "!tt.ptr<f16>")
    made = op("tt.make_tensor_descriptor", "%p, %n, %n, %n", "!tt.ptr<f16>, i32, i32, i32", "%made", DESC)
    remark = first_remark(gemm(pointer, made, unknown, loop=gemm_loop().replace("%a_desc", "%picked")))
    reason = "a descriptor's load reads an address of unknown origin, which may alias what the kernel writes"
    assert remark.reason == reason
    assert str(remark.location) == "kernel.py:10"


def made_descriptor(pointer: str = "out", line: int = 0) -> str:
    return op(
        "tt.make_tensor_descriptor", f"%{pointer}, %n, %m, %n", "!tt.ptr<f16>, i32, i32, i32", "%own", DESC, line=line
    )


def test_a_load_whose_descriptor_is_made_anew_for_each_tile_is_specialised() -> None:
    assert specialise(programs.remade_gemm(), PlanOptions(), Target(num_warps=4, num_stages=3)).applied


def test_a_load_whose_descriptor_is_that_of_the_tile_before_is_declined_where_it_is_made() -> None:
    loop = gemm_loop().replace("%a_desc", "%before")
    tile = "\n".join((loop, made_descriptor(line=6), store()))
    carried = {"before": ("a_desc", "own", DESC)}
    remark = first_remark(kernel(for_loop(tile, induction="tile", upper="m", carried=carried, results="%last")))
    assert remark.reason.startswith("the descriptor of the load at kernel.py:10 is made in a loop")
    assert str(remark.location) == "kernel.py:6"


def addresses(*names: str, table: str = "lock") -> tuple[str, ...]:
    """Pointers whose addresses lie in `table`."""
    return tuple(
        line
        for name in names
        for line in (
            op("tt.load", f"%{table}", "!tt.ptr<i32>", f"%{name}_address", "i64"),
            op("tt.int_to_ptr", f"%{name}_address", "i64", f"%{name}", "!tt.ptr<f16>"),
        )
    )


def to_memory(pointer: str) -> str:
    half = op("arith.constant", "", "", "%h", "f16", properties="value = 0.0 : f16")
    return f"{half}\n{op('tt.store', f'%{pointer}, %h', '!tt.ptr<f16>, f16', line=22)}"


def test_a_store_and_a_load_by_addresses_of_one_table_are_declined() -> None:
    before = (*addresses("p", "q"), made_descriptor("p"))
    loop = gemm_loop().replace("%a_desc", "%own")
    remark = first_remark(gemm(*before, loop=loop, behind=to_memory("q"), arguments=LOCK))
    assert remark.reason.startswith("tl.store writes through argument 'lock', which the load at kernel.py:10 reads")
    assert str(remark.location) == "kernel.py:22"


def test_tables_of_addresses_are_taken_to_lead_to_different_memory_and_a_note_says_so() -> None:
    before = (*addresses("p"), *addresses("q", table="other"), made_descriptor("p"))
    loop = gemm_loop().replace("%a_desc", "%own")
    text = gemm(*before, loop=loop, behind=to_memory("q"), arguments={**LOCK, "other": "!tt.ptr<i32>"})
    made = specialise(text, LEGAL, Target(num_warps=4, num_stages=3))
    assert made.applied
    assert [remark.reason for remark in made.remarks if "taken" in remark.reason] == [
        "taken for granted: loads through 'lock', 'b_desc' do not alias stores through 'c_desc', 'other'"
    ]


def test_a_descriptor_made_in_the_loop_of_its_load_is_declined() -> None:
    remark = first_remark(gemm(loop=inside(made_descriptor(line=6)).replace("%a_desc", "%own")))
    assert str(remark.location) == "kernel.py:6"


def test_a_descriptor_made_before_the_loop_is_fine() -> None:
    text = gemm(made_descriptor(), loop=gemm_loop().replace("%a_desc", "%own"))
    assert specialise(text, LEGAL, Target(4, 3)).applied


def test_a_trip_count_that_the_kernel_itself_writes_is_declined() -> None:
    trips = scalar_load("trips", "lock", line=4)
    remark = first_remark(gemm(trips, loop=gemm_loop(upper="trips"), behind=atomic(line=21), arguments=LOCK))
    assert "tl.atomic_add writes through argument 'lock', which the load at kernel.py:4 reads" in remark.reason


def test_a_trip_count_that_nobody_writes_is_fine() -> None:
    text = gemm(scalar_load("trips", "lock"), loop=gemm_loop(upper="trips"), arguments=LOCK)
    assert specialise(text, LEGAL, Target(4, 3)).applied


# -- order: what another CTA writes ------------------------------------------------------------------------------------


def test_loads_behind_an_acquire_may_not_run_ahead_of_it() -> None:
    remark = first_remark(gemm(spin(atomic(line=5)), arguments=LOCK))
    assert str(remark.location) == "kernel.py:5" and remark.cure


def test_loads_behind_a_volatile_load_may_not_run_ahead_of_it() -> None:
    remark = first_remark(gemm(spin(scalar_load("old", "lock", volatile=True, line=5)), arguments=LOCK))
    assert str(remark.location) == "kernel.py:5" and remark.cure


def test_a_volatile_load_is_never_done_twice() -> None:
    text = gemm(scalar_load("trips", "lock", volatile=True, line=5), loop=gemm_loop(upper="trips"), arguments=LOCK)
    assert str(first_remark(text).location) == "kernel.py:5"


def test_an_acquire_in_the_loop_around_the_loads_is_one_before_the_next_tile() -> None:
    body = "\n".join((gemm_loop(), store(), atomic(line=5), binary("used", "addi", "old", "one")))
    remark = first_remark(kernel(for_loop(body, induction="tile", upper="m"), arguments=LOCK))
    assert str(remark.location) == "kernel.py:5"


@pytest.mark.parametrize("sem", [1, 3])
def test_an_atomic_that_acquires_nothing_is_fine(sem: int) -> None:
    used = binary("used", "addi", "old", "one")
    text = gemm(atomic(sem=sem), used, arguments=LOCK)
    assert specialise(text, LEGAL, Target(4, 3)).applied


def test_an_acquire_behind_all_loads_is_fine() -> None:
    text = gemm(behind=f"{atomic()}\n{binary('used', 'addi', 'old', 'one')}", arguments=LOCK)
    assert specialise(text, LEGAL, Target(4, 3)).applied


def test_an_atomic_behind_the_loads_whose_result_nobody_reads_is_fine() -> None:
    text = gemm(behind=atomic(), arguments=LOCK)
    assert specialise(text, LEGAL, Target(4, 3)).applied


# -- the producer ------------------------------------------------------------------------------------------------------


def producer_remark(*lines: str, at: str, arguments: dict[str, str] | None = None) -> Remark:
    loop = for_loop(
        "\n".join((*lines, programs.iteration(at=at))), carried={"sum": ("zeros", "next", ACC)}, results="%acc"
    )
    return first_remark(gemm(loop=loop, arguments=arguments or {}))


def folded(combine: str, tile: str) -> str:
    """``row``: the integer part of a tile, folded."""
    element, axis = "f32" if combine.endswith("f") else "i32", int("64x64" in tile)
    fold = (
        f'%r = "tt.reduce"(%tile) <{{axis = {axis} : i32}}> ({{\n^bb0(%l: {element}, %s: {element}):\n'
        f'%p = "{combine}"(%l, %s) : ({element}, {element}) -> {element}\n'
        f'"tt.reduce.return"(%p) : ({element}) -> ()\n}}) : ({tile}) -> {element} loc("kernel.py":7:0)'
    )
    cast = op("arith.fptosi", "%r", "f32", "%row", "i32") if element == "f32" else binary("row", "addi", "r", "r")
    zero = "0.0" if element == "f32" else "0"
    return "\n".join(
        (op("arith.constant", "", "", "%tile", tile, properties=f"value = dense<{zero}> : {tile}"), fold, cast)
    )


@pytest.mark.parametrize(
    ("combine", "tile", "why"),
    [
        (
            "arith.addf",
            "tensor<64xf32, #ttg.slice<{dim = 1, parent = #blocked}>>",
            "adds floats in an order that depends on the number of warps",
        ),
        ("arith.addi", "tensor<64x64xi32, #blocked>", "works on a large tile in registers"),
    ],
)
def test_an_address_from_a_tile_that_the_producer_cannot_fold_is_declined(combine: str, tile: str, why: str) -> None:
    remark = producer_remark(folded(combine, tile), at="%row, %k")
    assert remark.reason == f"the address or trip count of a load depends on a reduction, which {why}"
    assert str(remark.location) == "kernel.py:7"
    assert remark.cure == "compute addresses and loop bounds from scalars"


@pytest.mark.parametrize("combine", ["arith.addi", "arith.maxnumf"])
def test_a_small_tile_is_folded_by_a_producer_of_four_warps(combine: str) -> None:
    tile = f"tensor<64x{'f32' if combine.endswith('f') else 'i32'}, #ttg.slice<{{dim = 1, parent = #blocked}}>>"
    loop = inside(folded(combine, tile)).replace("%k, %zero)", "%row, %zero)")
    made = specialise(gemm(loop=loop), LEGAL, Target(4, 3))
    assert made.applied and made.plan is not None and made.plan.partitions[0].num_warps == 4
    assert made.plan.partitions[0].registers == 40 and made.plan.early_puts == 0


def test_an_address_that_comes_from_a_relaxed_atomic_is_sent_to_the_consumers() -> None:
    loop = inside(binary("row", "addi", "old", "k")).replace("%k, %zero)", "%row, %zero)")
    found = specialise(gemm(atomic(sem=1), loop=loop, arguments=LOCK), LEGAL, Target(4, 3))
    assert found.applied and found.plan is not None and "number0" in [ring.name for ring in found.plan.rings]


def test_an_address_that_comes_from_an_atomic_on_memory_that_a_consumer_reads_is_declined() -> None:
    remark = producer_remark(store_tile("lock"), atomic("row", sem=1, line=7), at="%row, %k", arguments=LOCK)
    assert remark.reason == "the address or trip count of a load depends on tl.atomic_add, which has side effects"
    assert str(remark.location) == "kernel.py:7"


def test_addresses_from_scalars_are_fine() -> None:
    loop = inside(binary("row", "muli", "k", "two")).replace("%k, %zero)", "%row, %zero)")
    assert specialise(gemm(loop=loop), LEGAL, Target(4, 3)).applied


def test_every_remark_says_what_where_and_how() -> None:
    remark = Remark("declined", "why", None, "what to do")
    assert str(remark) == "why\n  cure: what to do"
