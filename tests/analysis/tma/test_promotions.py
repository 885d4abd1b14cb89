"""`find_raises`: which loads and stores TMA can make, and what has to hold for each of them."""

from __future__ import annotations

from tawa.analysis.tma.accesses import is_operand_load
from tawa.analysis.tma.promotions import find_raises
from tawa.dialects.tt import FuncOp
from tawa.ir import clone_op, print_module
from tests.transforms.ttir.test_promote_to_tma import gemm, with_store


def test_nothing_is_changed() -> None:
    module = with_store()
    before = print_module(module)
    find_raises(module, "host", persistent=True)
    find_raises(module, "kernel")
    assert print_module(module) == before


def test_there_is_an_entry_for_each_operand_load_in_textual_order() -> None:
    module = gemm()
    raises = find_raises(module)
    assert [load.op for load in raises.loads] == [op for op in module.walk() if is_operand_load(op)]
    assert [load.decision.box.block for load in raises.loads if load.decision] == [(64, 32), (32, 32)]


def test_an_entry_says_where_a_descriptor_is_made() -> None:
    module = gemm()
    host, kernel = find_raises(module), find_raises(module, "kernel")
    assert [load.decision.place for load in host.loads if load.decision] == [None, None]
    places = [load.decision.place for load in kernel.loads if load.decision]
    function = FuncOp(module.body.ops[0])
    assert [place.block for place in places if place] == [function.body] * 2


def test_what_cannot_be_raised_has_a_reason_and_a_cure() -> None:
    first, second = find_raises(gemm(divisible=("a", "b", "k")), "kernel").loads
    assert first.decision is None and first.reason == "its stride s is not known to be a multiple of 16 bytes"
    assert "multiple of 16" in first.cure
    assert second.decision is not None and not second.reason


def test_conditions_are_those_of_the_loads_that_are_chosen() -> None:
    raises = find_raises(gemm(divisible=("a", "b")))
    a, b = raises.loads
    of_a = [str(it) for it in raises.choose(frozenset({a.op})).conditions]
    of_b = [str(it) for it in raises.choose(frozenset({b.op})).conditions]
    assert any("s" in text for text in of_a) and not any("s" in text for text in of_b)
    assert [str(it) for it in raises.choose().conditions] == list(dict.fromkeys([*of_a, *of_b]))


def test_what_is_taken_for_granted_is_so_for_the_loads_that_are_chosen() -> None:
    raises = find_raises(gemm(), "kernel")
    a, b = raises.loads
    assert raises.choose().taken == tuple(dict.fromkeys((*a.taken, *b.taken)))
    assert raises.choose(frozenset({a.op})).taken == a.taken == ("s is not negative",)
    assert raises.choose(frozenset({b.op})).taken == b.taken == ()  # in the loop k is positive


def test_stores_are_only_chosen_beside_a_load() -> None:
    raises = find_raises(with_store(), persistent=True)
    assert [store.decision is not None for store in raises.stores] == [True]
    assert len(raises.choose().stores) == 1
    assert raises.choose(frozenset()).stores == ()
    assert raises.choose(stores=frozenset()).stores == ()


def test_stores_are_not_looked_at_where_no_load_can_be_raised() -> None:
    assert find_raises(with_store(aligned=False), "kernel", persistent=True).stores == ()


def test_several_functions_are_declined() -> None:
    module = gemm()
    module.body.append(clone_op(module.body.ops[0], {})).properties["sym_name"] = '"other"'
    raises = find_raises(module)
    assert raises.declined is not None and "calls or jumps" in raises.declined.reason
    assert raises.loads == () and raises.choose().loads == ()
