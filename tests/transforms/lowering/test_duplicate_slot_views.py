"""`duplicate_slot_views`: sibling regions whose wgmmas read one slot each recompute its address."""

from __future__ import annotations

import pytest

from tawa.dialects.inline.markers import SameNumberOp
from tawa.ir import Module, Operation, print_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.transforms.lowering.duplicate_slot_views import DuplicateSlotViews
from tawa.transforms.lowering.lower_arefs import LowerArefs
from tests.cases.programs import ttgir as programs
from tests.cases.programs.ttgir import (
    ACC,
    alloc,
    binary,
    branch,
    compare,
    dot,
    for_loop,
    kernel,
    load,
    ops_named,
    store,
)
from tests.support.passes import after
from tests.support.pipeline import specialise
from tests.support.verdicts import passes


def loop(result: str, init: str, upper: str) -> str:
    """A loop whose dots read %x, defined outside, and a tile per iteration. %x is B: A would go to registers."""
    k, sum, next, b, y = (f"{name}_{result}" for name in ("k", "sum", "next", "b", "y"))
    body = "\n".join((load(b, "b_desc", f"%{k}, %zero"), alloc(y, b), dot(next, y, "x", sum)))
    return for_loop(body, induction=k, upper=upper, carried={sum: (init, next, ACC)}, results=f"%{result}")


def each_tile(*body: str) -> str:
    """A loop over %m tiles that loads %x once and stores %acc for each."""
    start = (load("a", "a_desc", "%zero, %tile"), alloc("x", "a"))
    return kernel(for_loop("\n".join((*start, *body, store())), induction="tile", upper="m"))


def two_loops() -> str:
    return each_tile(loop("half", "zeros", "n"), loop("acc", "half", "tile"))


def two_branches() -> str:
    odd = (binary("odd", "remsi", "tile", "two"), compare("is_even", "odd", "zero", 0))
    sides = loop("acc_then", "zeros", "n"), loop("acc_else", "zeros", "m")
    return each_tile(*odd, branch(*sides, condition="is_even", result="acc", type=ACC))


def slots_of_dots(module: Module) -> list[Operation]:
    """The definition of the slot index of the second operand of each dot."""
    views = [dot.operands[1].defining_op for dot in ops_named(module, "ttng.warp_group_dot")]
    assert all(view is not None and view.name == "ttg.memdesc_index" for view in views)
    return [view.operands[1].owner for view in views]  # type: ignore[misc, union-attr]


def made(text: str, depth: int = 2) -> Module:
    return after(DuplicateSlotViews, text, depth=depth, mma_depth=0)[0]


@pytest.mark.parametrize("text", [two_loops(), two_branches()], ids=["loops", "branches"])
def test_two_loops_that_read_one_slot_have_an_index_each(text: str) -> None:
    first, second = slots_of_dots(made(text))
    assert first is not second
    assert SameNumberOp.matches(first) and SameNumberOp.matches(second)
    assert first.operands == second.operands


def test_the_index_is_computed_before_the_loop_not_inside() -> None:
    for slot in slots_of_dots(made(two_loops())):
        assert slot.parent is not None
        assert "scf.for" in [op.name for op in slot.parent.ops[slot.parent.index_of(slot) :]]


@pytest.mark.parametrize(
    "text",
    [
        programs.tile_gemm(),
        programs.persistent_gemm(),
        programs.two_loops(),
        programs.nested_loops(),
        each_tile(loop("acc", "zeros", "n")),
        each_tile(load("c", "b_desc", "%zero, %tile"), alloc("z", "c"), dot("start", "z", "x", "zeros"),
                  loop("half", "start", "n"), loop("acc", "half", "tile")),
    ],
    ids=["tile", "persistent", "loops with a slot each", "nested", "one loop", "a dot in front of both loops"],
)  # fmt: skip
def test_a_slot_whose_address_is_computed_on_every_path_stays(text: str) -> None:
    before = print_module(after(LowerArefs, text, depth=2, mma_depth=0)[0])
    assert print_module(made(text)) == before


def test_a_ring_of_one_slot_does_not_change() -> None:
    assert not any(SameNumberOp.matches(op) for op in made(two_loops(), depth=1).walk())


@pytest.mark.parametrize("text", [two_loops(), two_branches()], ids=["loops", "branches"])
def test_the_checks_see_through_the_shuffle(text: str) -> None:
    options = PlanOptions(enable_warp_specialization=True, aref_depth=2)
    outcome = specialise(text, options, Target(num_warps=4, num_stages=2), verification="full")
    assert outcome.applied, outcome.remarks
    assert outcome.barrier.count("shfl.sync.idx") == 2
    assert passes(outcome.verdict)
