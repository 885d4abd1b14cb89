"""Refinement: the barrier level makes the accesses of the aref level, in the same order and at the same slots."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.barriers import check_refinement
from tawa.verify.refinement import Access, Made, unmatched
from tawa.verify.verdict import Proved
from tests.verify import mutations_barrier as mutate
from tests.verify.barriers.test_check import kind_of, made, ops


@pytest.mark.parametrize(
    ("change", "name", "place"),
    [
        (mutate.flip_parity, mutate.WAIT, 0),
        (mutate.next_slot(0), mutate.ARRIVE, 0),
        (mutate.copy_target, mutate.COPY, 0),
        (mutate.dot_operand, mutate.DOT, 0),
        (mutate.drop, mutate.ARRIVE, 1),
        (mutate.later, mutate.ARRIVE, 0),
    ],
)
def test_an_access_in_another_order_or_slot_does_not_refine(change: mutate.Change, name: str, place: int) -> None:
    aref, low = made("persistent")
    module = parse_module(low)
    changed = change(ops(module, name)[place])
    verdict = check_refinement(parse_module(aref), module)
    assert kind_of(verdict) == "refinement" if changed else isinstance(verdict, Proved)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_missing_wait_for_earlier_puts_does_not_refine(slot: int) -> None:
    aref, low = made("remade")
    module = parse_module(low)
    maker = next(op for op in ops(module, "tt.make_tensor_descriptor") if op.result.hint.startswith("own_a"))
    assert maker.parent is not None
    waits = [op for op in maker.parent.ops[: maker.parent.index_of(maker)] if op.name == mutate.WAIT]
    assert mutate.drop(waits[slot])
    assert kind_of(check_refinement(parse_module(aref), module)) == "refinement"


OP = parse_module(made("tile")[0]).op


def accesses(text: str) -> tuple[Made, ...]:
    """``c0 g1``: a release of ring 0, a get of ring 1."""
    kinds = {"c": "consumed", "g": "get"}
    return tuple((Access(kinds[it[0]], f"ring{it[1:]}"), OP) for it in text.split())


@pytest.mark.parametrize(
    ("wanted", "made", "left", "differs"),
    [
        ("c0 c1 g2", "c1 c0 g2", ("", ""), False),
        ("c0 c1 c2", "c2 c0 c1 g0", ("", "g0"), False),
        ("c0", "c1", ("c0", "c1"), False),  # c1 may follow
        ("c0 c1", "c1", ("c0", ""), False),
        ("c0 g2", "c1 c0 g2", ("c0 g2", "c1 c0 g2"), True),
        ("c0 g2 c1", "c1 g2 c0", ("c0 g2 c1", "c1 g2 c0"), True),
        ("g0 g1", "g1 g0", ("g0 g1", "g1 g0"), True),
        ("c0 c0", "c0 g1", ("c0", "g1"), True),
    ],
)
def test_only_releases_that_follow_each_other_may_change_places(
    wanted: str, made: str, left: tuple[str, str], differs: bool
) -> None:
    assert unmatched(accesses(wanted), accesses(made)) == (accesses(left[0]), accesses(left[1]), differs)
