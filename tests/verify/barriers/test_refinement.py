"""Refinement: the barrier level makes the accesses of the aref level, in the same order and at the same slots."""

from __future__ import annotations

import pytest

from tawa.ir import parse_module
from tawa.verify.barriers import check_refinement
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
