"""`find_promotions`: which loads and stores TMA can make, and what has to hold for each of them."""

from __future__ import annotations

from tawa.analysis.tma.accesses import is_operand_load
from tawa.analysis.tma.promotions import find_promotions
from tawa.dialects.tt import FuncOp
from tawa.ir import clone_op, print_module
from tests.transforms.ttir.test_promote_to_tma import gemm, with_store


def test_nothing_is_changed() -> None:
    module = with_store()
    before = print_module(module)
    find_promotions(module, "host", persistent=True)
    find_promotions(module, "kernel")
    assert print_module(module) == before


def test_there_is_an_entry_for_each_operand_load_in_textual_order() -> None:
    module = gemm()
    promotions = find_promotions(module)
    assert [load.op for load in promotions.loads] == [op for op in module.walk() if is_operand_load(op)]
    assert [load.decision.box.block for load in promotions.loads if load.decision] == [(64, 32), (32, 32)]


def test_an_entry_says_where_a_descriptor_is_made() -> None:
    module = gemm()
    host, kernel = find_promotions(module), find_promotions(module, "kernel")
    assert [load.decision.place for load in host.loads if load.decision] == [None, None]
    places = [load.decision.place for load in kernel.loads if load.decision]
    function = FuncOp(module.body.ops[0])
    assert [place.block for place in places if place] == [function.body] * 2


def test_what_cannot_be_promoted_has_a_reason_and_a_cure() -> None:
    first, second = find_promotions(gemm(divisible=("a", "b", "k")), "kernel").loads
    assert first.decision is None and first.reason == "its stride s is not known to be a multiple of 16 bytes"
    assert "multiple of 16" in first.cure
    assert second.decision is not None and not second.reason


def test_conditions_are_those_of_the_loads_that_are_chosen() -> None:
    promotions = find_promotions(gemm(divisible=("a", "b")))
    a, b = promotions.loads
    of_a = [str(it) for it in promotions.choose(frozenset({a.op})).conditions]
    of_b = [str(it) for it in promotions.choose(frozenset({b.op})).conditions]
    assert any("s" in text for text in of_a) and not any("s" in text for text in of_b)
    assert [str(it) for it in promotions.choose().conditions] == list(dict.fromkeys([*of_a, *of_b]))


def test_what_is_taken_for_granted_is_so_for_the_loads_that_are_chosen() -> None:
    promotions = find_promotions(gemm(), "kernel")
    a, b = promotions.loads
    assert promotions.choose().taken == tuple(dict.fromkeys((*a.taken, *b.taken)))
    assert promotions.choose(frozenset({a.op})).taken == a.taken == ("s is not negative",)
    assert promotions.choose(frozenset({b.op})).taken == b.taken == ()  # in the loop k is positive


def test_stores_are_only_chosen_beside_a_load() -> None:
    promotions = find_promotions(with_store(), persistent=True)
    assert [store.decision is not None for store in promotions.stores] == [True]
    assert len(promotions.choose().stores) == 1
    assert promotions.choose(frozenset()).stores == ()
    assert promotions.choose(stores=frozenset()).stores == ()


def test_stores_are_not_looked_at_where_no_load_can_be_promoted() -> None:
    assert find_promotions(with_store(aligned=False), "kernel", persistent=True).stores == ()


def test_several_functions_are_declined() -> None:
    module = gemm()
    module.body.append(clone_op(module.body.ops[0], {})).properties["sym_name"] = '"other"'
    promotions = find_promotions(module)
    assert promotions.declined is not None and "calls or jumps" in promotions.declined.reason
    assert promotions.loads == () and promotions.choose().loads == ()
