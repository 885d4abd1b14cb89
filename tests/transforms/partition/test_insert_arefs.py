"""`insert_arefs`: loads become puts and gets, and the running count is threaded through all control flow."""

from __future__ import annotations

from tawa.transforms.partition.insert_arefs import InsertArefs
from tests.cases.programs import ttgir as programs
from tests.support.filecheck import brief, check
from tests.support.passes import after


def inserted(text: str, depth: int = 2) -> str:
    return brief(after(InsertArefs, text, depth=depth)[0])


def test_loads_of_one_dot_share_a_put_and_the_slot_is_released_after_the_dot() -> None:
    check(
        inserted(programs.tile_gemm(), depth=3),
        """
        CHECK:      [[R:%ring0_0]] = "aref.create"() <{name = "ring0"}>
        CHECK-NEXT: [[C:%\\w+]] = "aref.first"([[R]])
        CHECK:      "scf.for"(%zero_0, %n_0, %one_0, %zeros_0, [[C]])
        CHECK-NEXT: ^bb{{.*}} [[I:%\\w+]]: !aref.index<3>):
        CHECK-NEXT: "aref.put"([[R]], [[I]]) ({
        CHECK-NEXT: [[A:%\\w+]] = "tt.descriptor_load"(%a_desc_0, [[K:%\\w+]], %zero_0)
        CHECK-NEXT: [[B:%\\w+]] = "tt.descriptor_load"(%b_desc_0, [[K]], %zero_0)
        CHECK-NEXT: "aref.filled"([[A]], [[B]])
        CHECK-NEXT: })
        CHECK-NEXT: [[V:%\\w+]]:2 = "aref.get"([[R]], [[I]])
        CHECK-NEXT: [[N:%\\w+]] = "aref.advance"([[I]])
        CHECK-NEXT: [[D:%\\w+]] = "ttng.warp_group_dot"([[V]]#0, [[V]]#1, %sum_0)
        CHECK-NEXT: "aref.consumed"([[R]], [[I]])
        CHECK-NEXT: "scf.yield"([[D]], [[N]])
        CHECK-NOT:  local_alloc
        """,
    )


def test_one_count_goes_through_two_loops() -> None:
    check(
        inserted(programs.two_loops()),
        """
        CHECK:     aref.create
        CHECK-NOT: aref.create
        CHECK:     [[C:%\\w+]] = "aref.first"
        CHECK:     [[L:%\\w+]]:2 = "scf.for"(%zero_0, %n_0, %one_0, %zeros_0, [[C]])
        CHECK:     "scf.for"(%zero_0, %m_0, %one_0, [[L]]#0, [[L]]#1)
        """,
    )


def test_descriptors_that_a_loop_redefines_wait_once_for_earlier_copies() -> None:
    check(
        inserted(programs.remade_gemm()),
        """
        CHECK:      "scf.for"(%zero_0, %m_0, %one_0, %count_0)
        CHECK:      [[C:%count_[0-9]+]]: !aref.index<2>):
        CHECK-NEXT: "aref.landed"(%ring0_0, [[C]])
        CHECK-NEXT: "tt.make_tensor_descriptor"(%p_0
        CHECK-NEXT: "tt.make_tensor_descriptor"(%q_0
        CHECK-NEXT: "scf.for"(%zero_0, %n_0, %one_0, %zeros_0, [[C]])
        CHECK-NOT:  aref.landed
        """,
    )


def test_a_descriptor_that_is_redefined_after_more_copies_waits_for_them_too() -> None:
    second = programs.gemm_loop("more", "_2", init="acc").replace("%a_desc", "%again")
    text = programs.remade_gemm().replace(
        '%acc_narrow = "arith.truncf"(%acc)',
        f'{programs.made("again", "p")}\n{second}\n%acc_narrow = "arith.truncf"(%more)',
    )
    assert inserted(text).count('"aref.landed"') == 2


def test_the_count_goes_through_both_branches_of_an_if() -> None:
    check(
        inserted(programs.branching_gemm()),
        """
        CHECK:      "scf.for"(%zero_0, %m_0, %one_0, %count_0)
        CHECK:      [[C:%count_[0-9]+]]: !aref.index<2>):
        CHECK:      [[IF:%\\w+]]:2 = "scf.if"
        CHECK-NEXT: [[T:%\\w+]]:2 = "scf.for"({{.*}}, [[C]])
        CHECK:      "scf.yield"([[T]]#0, [[T]]#1)
        CHECK-NEXT: }, {
        CHECK-NEXT: [[E:%\\w+]]:2 = "scf.for"({{.*}}, [[C]])
        CHECK:      "scf.yield"([[E]]#0, [[E]]#1)
        CHECK:      "scf.yield"([[IF]]#1)
        """,
    )


def test_an_if_without_else_passes_the_count_on() -> None:
    body = programs.branch(f"{programs.gemm_loop()}\n{programs.store()}")
    behind = programs.store("zeros")  # so that the branch is no guard
    check(
        inserted(programs.kernel(f"{body}\n{behind}")),
        """
        CHECK:      [[C:%\\w+]] = "aref.first"
        CHECK:      "scf.if"(%flag_0) ({
        CHECK:      }, {
        CHECK-NEXT: "scf.yield"([[C]])
        """,
    )


def test_rings_of_a_guarded_program_are_created_inside_the_guard() -> None:
    body = programs.branch(f"{programs.gemm_loop()}\n{programs.store()}")
    check(
        inserted(programs.kernel(body)),
        """
        CHECK-NOT:  "aref.create"
        CHECK:      "scf.if"(%flag_0) ({
        CHECK-NEXT: "aref.create"
        CHECK-NEXT: "aref.first"
        CHECK:      "tt.descriptor_store"
        CHECK-NEXT: "scf.yield"()
        """,
    )


def test_the_count_goes_through_a_while() -> None:
    check(
        inserted(programs.while_gemm()),
        """
        CHECK:      [[C:%\\w+]] = "aref.first"
        CHECK:      "scf.while"(%zero_0, [[C]])
        CHECK:      "scf.condition"({{.*}}, [[B:%count_[0-9]+]])
        CHECK:      ^bb{{.*}} [[A:%count_[0-9]+]]: !aref.index<2>):
        CHECK:      [[L:%\\w+]]:2 = "scf.for"({{.*}}, [[A]])
        CHECK:      "scf.yield"({{.*}}, [[L]]#1)
        """,
    )


def test_a_tile_that_is_needed_in_registers_is_read_and_released_at_once() -> None:
    to_operand = programs.op("ttg.convert_layout", "%a", programs.TILE, "%x", programs.OPERAND)
    dot = programs.op(
        "ttng.warp_group_dot",
        "%x, %y, %sum",
        f"{programs.OPERAND}, {programs.BUFFER}, {programs.ACC}",
        "%next",
        programs.ACC,
        properties="inputPrecision = 0 : i32, isAsync = false, maxNumImpreciseAcc = 0 : i32",
    )
    lines = (programs.load("a", "a_desc"), to_operand, programs.load("b", "b_desc"), programs.alloc("y", "b"), dot)
    loop = programs.for_loop("\n".join(lines), carried={"sum": ("zeros", "next", programs.ACC)}, results="%acc")
    check(
        inserted(programs.kernel(f"{loop}\n{programs.store()}")),
        """
        CHECK:      [[A:%\\w+]] = "aref.get"([[RA:%\\w+]], [[I:%\\w+]])
        CHECK:      [[T:%\\w+]] = "ttg.local_load"([[A]])
        CHECK:      "aref.consumed"([[RA]], [[I]])
        CHECK:      "ttg.convert_layout"([[T]])
        CHECK:      [[B:%\\w+]] = "aref.get"([[RB:%\\w+]], [[J:%\\w+]])
        CHECK:      "ttng.warp_group_dot"({{.*}}, [[B]], {{.*}})
        CHECK-NEXT: "aref.consumed"([[RB]], [[J]])
        """,
    )


def test_views_of_a_slot_are_views_of_mutable_memory() -> None:
    trans = programs.op(
        "ttg.memdesc_trans", "%y", programs.BUFFER, "%t", programs.TRANSPOSED, properties="order = array<i32: 1, 0>"
    )
    body = programs.iteration().replace(programs.dot("next", "x", "y", "sum", line=12), "")
    body += (
        trans
        + "\n"
        + programs.dot("next", "x", "t", "sum").replace(
            f"({programs.BUFFER}, {programs.BUFFER}", f"({programs.BUFFER}, {programs.TRANSPOSED}"
        )
    )
    loop = programs.for_loop(body, carried={"sum": ("zeros", "next", programs.ACC)}, results="%acc")
    module, _ = after(InsertArefs, programs.kernel(f"{loop}\n{programs.store()}"))
    view = programs.the(module, "ttg.memdesc_trans")
    assert view.result.type == "!ttg.memdesc<64x64xf16, #shared_t, #smem, mutable>"


def test_new_operations_have_the_location_of_the_load() -> None:
    module, _ = after(InsertArefs, programs.tile_gemm())
    for name in ("aref.put", "aref.get", "aref.advance"):
        assert programs.the(module, name).loc == '"kernel.py":11:4'
    assert programs.the(module, "aref.consumed").loc == '"kernel.py":12:4'
