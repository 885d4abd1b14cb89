"""Guards: which branches stay outside of the partitions."""

from __future__ import annotations

from tawa.analysis.rings.guards import GuardInfo, find_guards, guards_around
from tawa.dialects.tt import FuncOp
from tawa.ir import Module
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import (
    LOCK,
    branch,
    compare,
    gemm_loop,
    kernel,
    op,
    ops_named,
    parse,
    scalar_load,
    store,
)

WORK = f"{gemm_loop()}\n{store()}"
MARKER = op(
    "tt.elementwise_inline_asm", "%two", "i32", "%group", "i32",
    properties='asm_string = "tawa.group", constraints = "=r,r", packed_element = 1 : i32, pure = true',
)  # fmt: skip


def guards(text: str) -> GuardInfo:
    module = parse(text)
    return find_guards(function_of(module), ops_named(module, "tt.descriptor_load"))


def function_of(module: Module) -> FuncOp:
    return next(view for it in module.body.ops if (view := FuncOp.of(it)))


def test_a_kernel_without_a_branch_has_no_guard() -> None:
    found = guards(programs.tile_gemm())
    assert found.guards == () and found.work is found.function.body


def test_a_branch_around_all_work_is_a_guard_and_so_is_one_inside_of_it() -> None:
    assert len(guards(kernel(branch(WORK))).guards) == 1
    second = f"{compare('go', 'n', 'm', 2)}\n{branch(WORK, condition='go')}"
    found = guards(kernel(branch(second)))
    assert len(found.guards) == 2
    assert found.work.ops[0].name == "scf.for"
    assert [block is found.way[-1] for block in found.way] == [False, False, True]
    assert guards_around(found.function, found.work) == found


def test_a_number_from_memory_may_decide() -> None:
    first = f"{scalar_load('count', 'lock')}\n{compare('go', 'zero', 'count', 2)}"
    found = guards(kernel(f"{first}\n{branch(WORK, condition='go')}", arguments=LOCK))
    assert len(found.guards) == 1
    assert {"tt.load", "arith.cmpi"} <= {it.name for it in found.stays().ops}


def test_what_happens_instead_stays_with_what_it_needs_and_nothing_else() -> None:
    text = branch(WORK, store("zeros", at="%row, %zero"), condition="flag")
    unused = programs.binary("unused", "addi", "n", "m")
    found = guards(kernel(f"{programs.binary('row', 'muli', 'n', 'm')}\n{unused}\n{text}"))
    assert len(found.guards) == 1
    kept = {it.results[0].hint for it in found.stays().ops if it.results}
    assert {"row", "zeros", "flag"} <= kept
    assert not {"unused", "acc", "a"} & kept


def test_an_effect_beside_the_branch_is_no_guard() -> None:
    assert guards(kernel(f"{branch(WORK)}\n{store('zeros')}")).guards == ()
    assert guards(kernel(f"{store('zeros')}\n{branch(WORK)}")).guards == ()


def test_an_assumption_before_the_branch_is_no_obstacle() -> None:
    assume = op("llvm.intr.assume", "%flag", "i1")
    assert len(guards(kernel(f"{assume}\n{branch(WORK)}")).guards) == 1


def test_a_branch_that_gives_a_value_is_no_guard() -> None:
    text = branch(gemm_loop("acc_then"), "", result="acc", type=programs.ACC).replace("%acc_else", "%zeros")
    assert guards(kernel(f"{text}\n{store()}")).guards == ()


def test_loads_in_both_branches_are_not_guarded() -> None:
    other = f"{gemm_loop('acc_2', '_2')}\n{store('acc_2')}"
    assert guards(kernel(branch(WORK, other))).guards == ()


def test_a_branch_that_each_group_decides_for_itself_is_no_guard() -> None:
    own = f"{MARKER}\n{compare('go', 'zero', 'group', 2)}"
    assert guards(kernel(f"{own}\n{branch(WORK, condition='go')}")).guards == ()
    instead = branch(WORK, store("zeros", at="%group, %zero"))
    assert guards(kernel(f"{MARKER}\n{instead}")).guards == ()
