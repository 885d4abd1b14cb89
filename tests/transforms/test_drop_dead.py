"""`drop_dead`: what no effect needs goes, also what a loop carries for itself alone."""

from __future__ import annotations

from tawa.dialects.scf import ForOp
from tawa.ir import Module
from tawa.transforms.drop_dead import DropDead
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import ACC, LOCK, binary, for_loop, iteration, kernel, op, ops_named, parse, store, the
from tests.support.passes import checked

SELF = binary("moved", "addi", "at", "two")


def with_carried_number(used: str = "") -> str:
    """A loop that carries, beside its sum, a number of which it makes the next."""
    body = f"{iteration()}\n{SELF}\n{used}"
    loop = for_loop(body, carried={"sum": ("zeros", "next", ACC), "at": ("zero", "moved", "i32")}, results="%acc:2")
    add = op("arith.addf", "%acc#0, %acc#0", f"{ACC}, {ACC}", "%total", ACC)
    return kernel(f"{loop}\n{add}\n{store('total')}", arguments=LOCK)


def cleaned(text: str) -> tuple[Module, bool]:
    module = parse(text)
    changed = DropDead().run(module).changed
    return checked(module), changed


def test_a_number_that_a_loop_carries_for_itself_is_dropped_with_what_computes_it() -> None:
    module, changed = cleaned(with_carried_number())
    assert changed
    assert [arg.hint for arg in ForOp(the(module, "scf.for")).iter_args] == ["sum"]
    assert not ops_named(module, "arith.addi")
    assert len(ops_named(module, "ttng.warp_group_dot")) == 1


def test_a_carried_number_that_a_store_in_the_loop_needs_stays() -> None:
    module, _ = cleaned(
        with_carried_number(op("tt.store", "%lock, %at", "!tt.ptr<i32>, i32")).replace("%out:", "%lock:")
    )
    assert [arg.hint for arg in ForOp(the(module, "scf.for")).iter_args] == ["sum", "at"]
    assert len(ops_named(module, "arith.addi")) == 1


def test_a_program_in_which_everything_is_needed_is_not_changed_a_second_time() -> None:
    module, _ = cleaned(programs.tile_gemm())
    assert not DropDead().run(module).changed
