"""`pipeline_mma`: P iterations in flight, releases P iterations later, and the obstacles that keep a loop at P = 0."""

from __future__ import annotations

import pytest

from tawa.ir import print_module
from tawa.transforms.pipelining.pipeline_mma import PipelineMma
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import after
from tests.support.protocol import run, violations


def pipelined(text: str, mma_depth: int, depth: int = 3) -> tuple[str, list[str]]:
    module, remarks = after(PipelineMma, text, depth=depth, mma_depth=mma_depth)
    return brief(module), [remark.reason for remark in remarks]


def loop_of(body: str, **carried: str) -> str:
    values = {name: ("zeros", value, programs.ACC) for name, value in carried.items()}
    results = "%acc" if len(values) == 1 else f"%acc:{len(values)}"
    stored = "" if len(values) == 1 else programs.op("arith.addf", "%acc#0, %acc#1", _PAIR, "%total", programs.ACC)
    store = programs.store("acc" if len(values) == 1 else "total")
    return programs.kernel("\n".join((programs.for_loop(body, carried=values, results=results), stored, store)))


_PAIR = f"{programs.ACC}, {programs.ACC}"


def test_p_0_leaves_the_program_alone() -> None:
    text, remarks = pipelined(programs.tile_gemm(), 0)
    check(text, 'CHECK: "ttng.warp_group_dot"({{.*}}isAsync = false\nCHECK-NOT: warp_group_dot_wait')
    assert remarks == []


def test_p_0_runs_the_dots_of_one_iteration_together_and_waits_once() -> None:
    text, remarks = pipelined(programs.gate_up(), 0)
    assert remarks == []
    check(
        text,
        """
        CHECK:      partition = "consumer"
        CHECK:      [[G:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK-NEXT: [[U:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK-NEXT: [[W:%\\w+]]:2 = "ttng.warp_group_dot_wait"([[G]], [[U]]) <{pendings = 0 : i32}>
        CHECK-COUNT-3: "aref.consumed"
        CHECK-NEXT: "scf.yield"([[W]]#0, [[W]]#1,
        CHECK-NOT:  warp_group_dot_wait
        """,
    )


def test_p_1_releases_the_slot_of_the_iteration_before() -> None:
    check(
        pipelined(programs.tile_gemm(), 1)[0],
        """
        CHECK:      partition = "consumer"
        CHECK:      [[NEVER:%\\w+]] = "arith.constant"() <{value = false}>
        CHECK-NEXT: [[L:%\\w+]]:4 = "scf.for"({{.*}}, %zeros_0, [[C:%\\w+]], [[NEVER]], [[C]])
        CHECK-NEXT: ^bb{{.*}}, [[I:%\\w+]]: !aref.index<3>, [[OLD:%\\w+]]: i1, [[PREV:%\\w+]]: !aref.index<3>):
        CHECK-NEXT: [[ALWAYS:%\\w+]] = "arith.constant"() <{value = true}>
        CHECK:      "aref.get"([[R:%\\w+]], [[I]])
        CHECK:      [[D:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK-NEXT: [[W:%\\w+]] = "ttng.warp_group_dot_wait"([[D]]) <{pendings = 1 : i32}>
        CHECK-NEXT: "aref.consumed"([[R]], [[PREV]], [[OLD]])
        CHECK-NEXT: "scf.yield"([[W]], {{.*}}, [[ALWAYS]], [[I]])
        CHECK-NEXT: })
        CHECK-NEXT: [[LAST:%\\w+]] = "ttng.warp_group_dot_wait"([[L]]#0) <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"([[R]], [[L]]#3, [[L]]#2)
        CHECK-NEXT: "arith.truncf"([[LAST]])
        """,
    )


def test_p_2_releases_the_oldest_slot_first_behind_the_loop() -> None:
    check(
        pipelined(programs.tile_gemm(), 2)[0],
        """
        CHECK:      ^bb{{.*}} [[OLD1:%old_0]]: i1, [[OLD2:%old_1]]: i1,
        CHECK-SAME: [[PREV1:%previous_0]]: {{.*}} [[PREV2:%previous_1]]:
        CHECK:      "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 2 : i32}>
        CHECK-NEXT: "aref.consumed"({{.*}}, [[PREV2]], [[OLD2]])
        CHECK-NEXT: "scf.yield"({{.*}}, [[OLD1]], [[I:%\\w+]], [[PREV1]])
        CHECK:      "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 0 : i32}>
        CHECK-NEXT: "aref.consumed"({{.*}}#5, {{.*}}#3)
        CHECK-NEXT: "aref.consumed"({{.*}}#4, {{.*}}#2)
        """,
    )


@pytest.mark.parametrize("mma_depth", [1, 2])
def test_two_dots_are_two_groups_an_iteration(mma_depth: int) -> None:
    check(
        pipelined(programs.gate_up(), mma_depth)[0],
        f"""
        CHECK:      [[G:%\\w+]] = "ttng.warp_group_dot"({{{{.*}}}}isAsync = true
        CHECK-NEXT: [[U:%\\w+]] = "ttng.warp_group_dot"({{{{.*}}}}isAsync = true
        CHECK-NEXT: [[W:%\\w+]]:2 = "ttng.warp_group_dot_wait"([[G]], [[U]]) <{{pendings = {2 * mma_depth} : i32}}>
        CHECK-COUNT-3: "aref.consumed"
        CHECK-NEXT: "scf.yield"([[W]]#0, [[W]]#1,
        """,
    )


def test_chained_dots_wait_for_the_last_one_only() -> None:
    body = "\n".join((programs.iteration("sum", "half"), programs.iteration("half", "next", "_2", "%one, %k")))
    check(
        pipelined(loop_of(body, sum="next"), 1)[0],
        """
        CHECK:      [[H:%\\w+]] = "ttng.warp_group_dot"({{.*}}isAsync = true
        CHECK:      [[N:%\\w+]] = "ttng.warp_group_dot"({{.*}}, [[H]]) {{.*}}isAsync = true
        CHECK-NEXT: "ttng.warp_group_dot_wait"([[N]]) <{pendings = 2 : i32}>
        CHECK-COUNT-2: "aref.consumed"
        """,
    )


def test_each_of_two_loops_drains_before_the_next() -> None:
    check(
        pipelined(programs.two_loops(), 1)[0],
        """
        CHECK:     partition = "consumer"
        CHECK:     pendings = 1 : i32
        CHECK:     [[H:%\\w+]] = "ttng.warp_group_dot_wait"({{.*}}) <{pendings = 0 : i32}>
        CHECK:     "aref.consumed"
        CHECK:     "scf.for"({{.*}}[[H]],
        CHECK:     pendings = 1 : i32
        CHECK:     pendings = 0 : i32
        """,
    )


def computed_operand() -> str:
    """An iteration that doubles one tile before its dot."""
    double = programs.op("arith.addf", "%b, %b", f"{programs.TILE}, {programs.TILE}", "%bb", programs.TILE)
    return programs.iteration().replace(programs.alloc("y", "b"), f"{double}\n{programs.alloc('y', 'bb')}")


@pytest.mark.parametrize("mma_depth", [1, 2])
def test_an_operand_that_the_loop_computes_gets_buffers_in_rotation(mma_depth: int) -> None:
    text, remarks = pipelined(loop_of(computed_operand(), sum="next"), mma_depth)
    assert remarks == []
    assert f"memdesc<{mma_depth + 1}x64x64xf16" in after_types(mma_depth)
    check(
        text,
        f"""
        CHECK:      partition = "consumer"
        CHECK:      [[ALL:%\\w+]] = "ttg.local_alloc"()
        CHECK:      "scf.for"
        CHECK:      [[SLOT:%slot\\w*]]: i32
        CHECK:      [[ONE:%\\w+]] = "ttg.memdesc_index"([[ALL]], [[SLOT]])
        CHECK-NEXT: "ttg.local_store"({{{{.*}}}}, [[ONE]])
        CHECK-NEXT: "ttng.fence_async_shared"
        CHECK-NEXT: "ttng.warp_group_dot"({{{{.*}}}}, [[ONE]], {{{{.*}}}}isAsync = true
        CHECK:      pendings = {mma_depth} : i32
        CHECK:      "arith.addi"([[SLOT]],
        CHECK:      [[NEXT:%\\w+]] = "arith.select"
        CHECK:      "scf.yield"({{{{.*}}}}[[NEXT]]
        """,
    )


def after_types(mma_depth: int) -> str:
    module, _ = after(PipelineMma, loop_of(computed_operand(), sum="next"), depth=3, mma_depth=mma_depth)
    return print_module(module)


def test_p_0_needs_no_second_buffer() -> None:
    text, _ = pipelined(loop_of(computed_operand(), sum="next"), 0)
    check(text, "CHECK-NOT: ttg.memdesc_index")


def obstacles() -> list[tuple[str, str, str]]:
    """(id, program, part of the note)."""
    a_in_registers = programs.iteration().replace(
        programs.alloc("x", "a"), programs.op("ttg.convert_layout", "%a", programs.TILE, "%x", programs.OPERAND)
    )
    a_in_registers = a_in_registers.replace(f": ({programs.BUFFER}, ", f": ({programs.OPERAND}, ")
    scaled = programs.iteration(result="part") + "\n" + programs.binary("next", "mulf", "part", "part", programs.ACC)
    fresh = programs.iteration("zeros", "part") + "\n" + programs.binary("next", "addf", "part", "sum", programs.ACC)
    watched = programs.iteration() + "\n" + programs.op("arith.truncf", "%sum", programs.ACC, "%low", _NARROW)
    watched += "\n" + programs.op("ttg.local_alloc", "%low", _NARROW, "%seen", programs.BUFFER)
    watched += "\n" + programs.op("ttg.local_dealloc", "%seen", programs.BUFFER)
    swapped = "\n".join((programs.iteration("first", "one_more"), programs.iteration("second", "other", "_2")))
    shared = computed_operand() + "\n" + programs.op("ttg.local_dealloc", "%y", programs.BUFFER)
    return [
        ("a_in_registers", loop_of(a_in_registers, sum="next"), "operand A is in registers"),
        ("scaled", loop_of(scaled, sum="next"), "the result of the dot has another use"),
        (
            "scaled_once",
            loop_of(scaled.replace("%part, %part", "%part, %zeros"), sum="next"),
            "is used inside the loop",
        ),
        ("fresh", loop_of(fresh, sum="next"), "the accumulator does not come from the previous iteration"),
        ("watched", loop_of(watched, sum="next"), "the accumulator has another use"),
        ("swapped", loop_of(swapped, first="other", second="one_more"), "the accumulator moves to another variable"),
        ("shared", loop_of(shared, sum="next"), "an operand is in a buffer that others read or write as well"),
    ]


_NARROW = "tensor<64x64xf16, #mma>"


@pytest.mark.parametrize(("text", "reason"), [pytest.param(*rest, id=name) for name, *rest in obstacles()])
def test_a_wgmma_that_may_not_stay_in_flight_is_left_with_a_note(text: str, reason: str) -> None:
    found, remarks = pipelined(text, 1)
    assert len(remarks) == 1 and reason in remarks[0]
    assert remarks[0].startswith("no wgmma of this loop stays in flight")
    check(found, "CHECK: isAsync = false\nCHECK-NOT: warp_group_dot_wait")


def test_the_note_names_the_line_of_the_loop() -> None:
    text = obstacles()[3][1].replace(
        f"({', '.join(['i32'] * 3)}, {programs.ACC}) -> {programs.ACC}",
        f'({", ".join(["i32"] * 3)}, {programs.ACC}) -> {programs.ACC} loc("kernel.py":33:8)',
    )
    _, remarks = after(PipelineMma, text, depth=2, mma_depth=1)
    assert str(remarks[0].location) == "kernel.py:33"


def test_a_dot_in_a_branch_stays_synchronous() -> None:
    then = programs.iteration(result="sum_then")
    then = then.replace("sum_then", "picked_then")
    other = programs.op("arith.addf", "%sum, %sum", _PAIR, "%picked_else", programs.ACC)
    body = programs.branch(then, other, result="picked", type=programs.ACC)
    text, _ = pipelined(loop_of(body, sum="picked"), 1)
    check(text, "CHECK: isAsync = false\nCHECK-NOT: warp_group_dot_wait")


@pytest.mark.parametrize("mma_depth", [0, 1, 2])
def test_a_slot_that_is_read_behind_the_wait_as_well_is_not_released_before(mma_depth: int) -> None:
    dots = [
        programs.load("a", "a_desc"),
        programs.load("b", "b_desc"),
        programs.load("c", "c_desc"),
        *(programs.alloc(view, tile) for view, tile in ("xa", "yb", "zc")),
        programs.dot("next_gate", "x", "y", "gate"),
        programs.dot("next_up", "x", "z", "up"),
    ]
    late = programs.dot("late_then", "x", "y", "late")
    other = programs.op("arith.addf", "%late, %late", _PAIR, "%late_else", programs.ACC)
    branch = programs.branch(late, other, result="late_next", type=programs.ACC)
    branch = branch.replace("%late_then", "%late_next_then").replace("%late_else", "%late_next_else")
    values = {"gate": "next_gate", "up": "next_up", "late": "late_next"}
    carried = {name: ("zeros", value, programs.ACC) for name, value in values.items()}
    loop = programs.for_loop("\n".join((*dots, branch)), carried=carried, results="%acc:3")
    half = programs.op("arith.addf", "%acc#0, %acc#1", _PAIR, "%half", programs.ACC)
    total = programs.op("arith.addf", "%half, %acc#2", _PAIR, "%total", programs.ACC)
    lines = (loop, half, total, programs.store("total", "d_desc"))
    text = programs.kernel("\n".join(lines), arguments={"d_desc": programs.DESC})
    module, _ = after(PipelineMma, text, depth=3, mma_depth=mma_depth)
    for trips in (0, 1, 2, 5):
        assert violations(run(module, {"n": trips}), 3, mma_depth, trips) == []
    assert brief(module).count("isAsync = true") == 2


def test_a_while_is_left_at_p_0_with_a_note() -> None:
    module, remarks = after(PipelineMma, programs.while_sum())
    assert not any(it.name == "ttng.warp_group_dot_wait" for it in module.walk())
    assert [remark.reason for remark in remarks] == [
        "no wgmma of this loop stays in flight over an iteration: it is a `while`"
    ]
    assert after(PipelineMma, programs.while_gemm())[1] == []
