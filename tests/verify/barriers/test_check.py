"""The barrier check proves correct programs and refutes faulty ones with the kind of fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from tawa.ir import Module, Operation, parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import FaultKind, Proved, Refuted, Unknown, Verdict
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import LOCK, branch, compare, gemm_loop, kernel, scalar_load, store
from tests.support.pipeline import specialise
from tests.support.verdicts import passes
from tests.verify import mutations_barrier as mutate

DATA = Path(__file__).parents[1] / "data"
PROGRAMS = {
    "tile": programs.tile_gemm,
    "persistent": programs.persistent_gemm,
    "two_loops": programs.two_loops,
    "gate_up": programs.gate_up,
    "branching": programs.branching_gemm,
    "while": programs.while_gemm,
    "nested": programs.nested_loops,
    "remade": programs.remade_gemm,
    "remade_store": programs.remade_store,
    "guarded": programs.guarded_gemm,
    "given_sum": programs.given_sum,
    "while_sum": programs.while_sum,
    "while_listed": programs.while_listed,
    "searched": programs.searched,
}


def made(program: str, depth: int = 2, mma_depth: int = 1) -> tuple[str, str]:
    """The aref level and the barrier level."""
    options = PlanOptions(aref_depth=depth, mma_depth=mma_depth)
    outcome = specialise(PROGRAMS[program](), options, Target(num_warps=4, num_stages=3))
    assert outcome.applied, outcome.remarks
    return outcome.aref, outcome.barrier


def barrier(program: str, depth: int = 2, mma_depth: int = 1) -> Module:
    return parse_module(made(program, depth, mma_depth)[1])


def data(name: str) -> Module:
    return parse_module((DATA / f"{name}.mlir").read_text())


def ops(module: Module, name: str) -> list[Operation]:
    return [op for op in module.walk() if op.name == name]


def kind_of(verdict: Verdict) -> FaultKind:
    assert isinstance(verdict, Refuted), verdict
    assert verdict.witness.steps
    return verdict.witness.kind


# -- no false alarm ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("depth", "mma_depth"), [(1, 0), (2, 0), (2, 1), (3, 2)])
@pytest.mark.parametrize("program", PROGRAMS)
def test_the_pipeline_s_output_is_proved_and_refines_its_aref_level(program: str, depth: int, mma_depth: int) -> None:
    aref, low = made(program, depth, mma_depth)
    long = program == "nested" and mma_depth  # its states do not recur within the budget
    verdict = check_barriers(parse_module(low), effort="fast" if long else "full")
    assert passes(verdict) if long else isinstance(verdict, Proved), verdict
    refines = check_refinement(parse_module(aref), parse_module(low))
    assert isinstance(refines, Proved), refines


@pytest.mark.parametrize("path", sorted(Path("tests/data").glob("*.mlir")), ids=lambda path: path.stem)
def test_the_pipeline_s_output_for_real_kernels_is_proved(path: Path) -> None:
    outcome = specialise(path.read_text(), PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    if outcome.applied:
        verdict = check_barriers(parse_module(outcome.barrier))
        assert isinstance(verdict, Proved), verdict


@pytest.mark.parametrize("path", sorted(DATA.glob("gluon_*.mlir")), ids=lambda path: path.stem)
def test_hand_written_kernels_have_no_fault(path: Path) -> None:
    verdict = check_barriers(parse_module(path.read_text()))
    assert passes(verdict), verdict


# -- assumptions, budgets, limits --------------------------------------------------------------------------------------


def test_the_program_s_own_assumption_is_used_and_stated() -> None:
    verdict = check_barriers(data("gluon_attention_ping_pong.triton3_6"))
    assert isinstance(verdict, Proved), verdict
    assert "llvm.intr.assume in the kernel" in verdict.assumptions


def test_attention_that_may_be_empty_is_refuted_unless_assumed_otherwise() -> None:
    module = data("gluon_attention_ping_pong.triton3_6")
    for op in ops(module, "llvm.intr.assume"):
        op.erase()
    assert kind_of(check_barriers(module)) == "deadlock"
    assert isinstance(check_barriers(module, assume=("L >= 128",)), Proved)


def test_an_argument_can_be_fixed() -> None:
    module = data("gluon_attention_ping_pong.triton3_6")
    for op in ops(module, "llvm.intr.assume"):
        op.erase()
    empty = check_barriers(module, arguments={"L": 0})
    assert isinstance(empty, Refuted) and empty.witness.inputs["L"] == 0, empty
    assert isinstance(check_barriers(module, arguments={"L": 256}), Proved)


def test_a_budget_that_ends_early_is_unknown() -> None:
    verdict = check_barriers(barrier("persistent"), budget_states=10)
    assert isinstance(verdict, Unknown)
    assert "budget" in verdict.reason


def test_an_unknown_operation_on_shared_memory_is_unknown() -> None:
    module = barrier("tile")
    ops(module, "ttng.arrive_barrier")[0].name = "ttng.mystery"
    verdict = check_barriers(module)
    assert isinstance(verdict, Unknown)
    assert "ttng.mystery" in verdict.reason


def test_the_same_program_gets_the_same_verdict() -> None:
    module = barrier("tile")
    ops(module, "ttng.arrive_barrier")[0].erase()
    assert check_barriers(module) == check_barriers(module)


# -- faults by name ----------------------------------------------------------------------------------------------------

NAMED: list[tuple[FaultKind, str, mutate.Change, str, int]] = [
    ("deadlock", "tile", mutate.drop, mutate.ARRIVE, 0),
    ("deadlock", "persistent", mutate.flip_parity, mutate.WAIT, 1),
    ("read before write", "tile", mutate.drop, mutate.WAIT, 0),
    ("arrive count", "persistent", mutate.drop, mutate.WAIT, 1),
    ("write before release", "persistent", mutate.add("pendings", 1), mutate.DOT_WAIT, 0),
    ("write before release", "persistent", mutate.drop, mutate.STORE_WAIT, 0),
    ("write-write race", "persistent", mutate.double, mutate.COPY, 0),
    ("phase overrun", "persistent", mutate.double, mutate.ARRIVE, 0),
    ("arrive count", "persistent", mutate.double, mutate.EXPECT, 0),
    ("arrive count", "persistent", mutate.add("count", 1), mutate.INIT, 1),
    ("transaction bytes", "persistent", mutate.one_tile_more, mutate.EXPECT, 0),
    ("transaction bytes", "persistent", mutate.add("size", 1), mutate.EXPECT, 0),
    ("transaction bytes", "persistent", mutate.drop, mutate.COPY, 0),
    ("missing fence", "persistent", mutate.drop, mutate.FENCE, 0),
    ("accumulator in flight", "persistent", mutate.drop, mutate.DOT_WAIT, 1),
    ("barrier lifecycle", "tile", mutate.drop, mutate.INIT, 0),
    ("barrier lifecycle", "tile", mutate.double, mutate.INIT, 0),
    ("write before release", "persistent", mutate.drop, mutate.STORE_WAIT, 1),  # its buffer is released too early
    ("parity alias", "tile", mutate.constant_parity(1), mutate.WAIT, 1),
]


@pytest.mark.parametrize(("kind", "program", "change", "name", "place"), NAMED)
def test_each_fault_has_its_kind(kind: FaultKind, program: str, change: mutate.Change, name: str, place: int) -> None:
    module = barrier(program)
    assert change(ops(module, name)[place])
    assert kind_of(check_barriers(module)) == kind


@pytest.mark.parametrize("program", ["guarded", "while_listed"])
def test_a_missing_release_is_found_behind_a_guard_and_in_a_data_dependent_loop(program: str) -> None:
    module = barrier(program)
    assert mutate.drop(ops(module, mutate.ARRIVE)[0])
    assert kind_of(check_barriers(module)) == "deadlock"


def test_data_dependent_loops_with_different_conditions_are_not_proved() -> None:
    """Loops are identified by their condition and the addresses it reads, not by the position of their operations.

    Two conditions on one number in memory may be related, so numbers that tell them apart are no witness.
    """
    for change, kind in ((_other_condition, Unknown), (_other_place, Refuted)):
        module = barrier("while_listed")
        change(ops(module, "scf.while")[1])
        verdict = check_barriers(module)
        assert isinstance(verdict, kind), verdict


def _other_condition(loop: Operation) -> None:
    next(it for it in loop.walk() if it.name == "arith.cmpi").properties["predicate"] = "3 : i64"


def _other_place(loop: Operation) -> None:
    addptr = next(it for it in loop.walk() if it.name == "tt.addptr")
    addptr.set_operand(1, loop.regions[1].block.args[1])


def test_code_behind_a_guard_is_checked_whatever_its_condition() -> None:
    """The guard compares with 1000, which is more than every number tried."""
    many = programs.op("arith.constant", "", "", "%many", "i32", properties="value = 1000 : i32")
    go = f"{scalar_load('count', 'lock')}\n{compare('go', 'many', 'count', 2)}"
    work = branch(f"{gemm_loop()}\n{store()}", condition="go")
    text = kernel(f"{many}\n{go}\n{work}", arguments=LOCK)
    outcome = specialise(text, PlanOptions(aref_depth=2, mma_depth=1), Target(4, 3))
    assert outcome.applied, outcome.remarks
    module = parse_module(outcome.barrier)
    assert passes(check_barriers(module))
    assert mutate.drop(ops(module, mutate.ARRIVE)[0])
    assert kind_of(check_barriers(module)) == "deadlock"
    aref = parse_module(outcome.aref)
    ops(aref, "aref.consumed")[0].erase()
    assert isinstance(check_refinement(aref, parse_module(outcome.barrier)), Refuted)


@pytest.mark.parametrize("program", ["while_listed", "searched"])
def test_a_proof_states_that_partitions_read_the_same_numbers_in_memory(program: str) -> None:
    found = check_barriers(barrier(program, depth=2))
    assert isinstance(found, Proved), found
    assert found.assumptions == ("numbers in memory are the same in every partition",)
    assert not check_barriers(barrier("tile")).assumptions


def test_a_while_on_an_unknown_value_is_unknown() -> None:
    """Each partition might get a different value."""
    text = made("while_listed")[1].replace('"tt.load"(%there', '"tt.mystery"(%there')
    verdict = check_barriers(parse_module(text))
    assert isinstance(verdict, Unknown)


def test_a_tma_store_without_a_wait_is_a_leftover_credit() -> None:
    module = barrier("persistent")
    ops(module, "ttg.local_dealloc")[0].erase()
    assert passes(check_barriers(module))
    assert mutate.drop(ops(module, mutate.STORE_WAIT)[1])
    assert kind_of(check_barriers(module)) == "leftover credit"


@pytest.mark.parametrize("slot", [0, 1])
def test_a_descriptor_rewritten_while_a_copy_may_read_it_is_refuted(slot: int) -> None:
    module = barrier("remade", 2, 0)
    maker = next(op for op in ops(module, "tt.make_tensor_descriptor") if op.result.hint.startswith("own_a"))
    assert maker.parent is not None
    waits = [op for op in maker.parent.ops[: maker.parent.index_of(maker)] if op.name == mutate.WAIT]
    assert len(waits) == 2
    assert mutate.drop(waits[slot])
    assert kind_of(check_barriers(module, effort="fast")) == "write before release"


def test_a_descriptor_rewritten_while_a_store_may_read_it_is_refuted() -> None:
    module = barrier("remade_store")
    (maker,) = ops(module, "tt.make_tensor_descriptor")
    assert maker.parent is not None
    assert mutate.drop(maker.parent.ops[maker.parent.index_of(maker) - 1])
    assert kind_of(check_barriers(module, effort="fast")) == "write before release"


def test_two_readers_and_one_arrival_are_refuted() -> None:
    module = data("gluon_attention_ping_pong.triton3_6")
    for init in ops(module, mutate.INIT):
        init.properties["count"] = "1 : i32"
    assert isinstance(check_barriers(module), Refuted)


def test_a_witness_has_inputs_lines_slots_and_parities() -> None:
    module = barrier("tile")
    mutate.drop(ops(module, mutate.ARRIVE)[0])
    verdict = check_barriers(module)
    assert isinstance(verdict, Refuted)
    witness = verdict.witness
    assert witness.inputs == {"n": 3}
    waits = [step for step in witness.steps if step.action == "wait"]
    assert (waits[-1].target, waits[-1].slot, waits[-1].parity) == ("ring0_empty", 0, 0)
    assert any(step.location is not None and step.location.line == 11 for step in witness.steps)
