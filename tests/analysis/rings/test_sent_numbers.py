"""Which numbers only the producer may compute, and what moves to it beside them."""

from __future__ import annotations

from tawa.analysis.rings.guards import find_guards
from tawa.analysis.rings.sent_numbers import NOTHING_SENT, SentInfo, find_sent
from tawa.dialects.tt import FuncOp
from tests.cases.programs.ttgir import (
    COUNTER,
    atomic,
    binary,
    dynamic_gemm,
    for_loop,
    gemm_loop,
    kernel,
    op,
    ops_named,
    parse,
    persistent_gemm,
    store,
    store_tile,
)


def sent(text: str) -> SentInfo:
    module = parse(text)
    function = next(view for it in module.body.ops if (view := FuncOp.of(it)))
    loads = ops_named(module, "tt.descriptor_load")
    return find_sent(find_guards(function, loads), loads)


def hints(found: SentInfo) -> tuple[list[str], list[str]]:
    return [it.result.hint for it in found.numbers], [
        it.results[0].hint if it.results else it.name for it in found.beside
    ]


def test_the_result_of_an_atomic_that_ends_a_loop_of_the_producer_is_sent() -> None:
    found = sent(dynamic_gemm())
    assert hints(found) == (["ticket"], ["old"]) and found.names == ("number0",)
    assert [value.hint for value in found.values] == ["next_tile"]  # all that the consumers use follows from it


def test_a_kernel_whose_producer_needs_no_atomic_sends_nothing() -> None:
    assert sent(persistent_gemm()) == NOTHING_SENT


def test_an_atomic_that_only_the_consumer_uses_is_not_sent() -> None:
    text = kernel("\n".join((gemm_loop(), atomic("ticket", "one"), store(at="%ticket, %zero"))), arguments=COUNTER)
    assert sent(text) == NOTHING_SENT


def test_an_atomic_that_orders_other_accesses_is_not_sent() -> None:
    assert sent(dynamic_gemm(ticket=atomic("ticket", "one", sem=4))) == NOTHING_SENT


def test_nothing_is_sent_if_a_tile_of_the_same_memory_is_stored() -> None:
    """The consumer would make that store, and the order of the two would be lost."""
    also = store_tile("counter")
    assert sent(dynamic_gemm(ticket="\n".join((also, atomic("ticket", "one"))))) == NOTHING_SENT


def test_nothing_is_sent_if_an_access_may_be_of_the_same_memory() -> None:
    unknown = (
        op("tt.int_to_ptr", "%wide", "i64", "%there", "!tt.ptr<i32>"),
        op("tt.store", "%there, %one", "!tt.ptr<i32>, i32", properties="cache = 1 : i32, evict = 1 : i32"),
    )
    wide = op("arith.extsi", "%m", "i32", "%wide", "i64")
    assert sent(dynamic_gemm(ticket="\n".join((wide, *unknown, atomic("ticket", "one"))))) == NOTHING_SENT


def test_a_second_atomic_whose_result_is_used_is_sent_as_well() -> None:
    """Here it decides the trips of the consumer only; but it is beside the first, so the producer executes it."""
    two = "\n".join((atomic("first", "one"), atomic("more", "one"), binary("ticket", "addi", "first", "more")))
    found = sent(dynamic_gemm(ticket=two))
    assert hints(found) == (["first", "more"], ["old"]) and found.names == ("number0", "number1")


def test_a_number_for_the_inner_loop_is_sent_too() -> None:
    body = "\n".join((atomic("trips", "one"), gemm_loop(upper="trips"), store(at="%tile, %zero")))
    found = sent(kernel(for_loop(body, induction="tile", upper="m"), arguments=COUNTER))
    assert hints(found) == (["trips"], [])


def test_the_result_itself_is_sent_if_two_numbers_follow_from_it() -> None:
    body = (
        atomic("ticket", "one"), binary("trips", "addi", "ticket", "one"), binary("row", "muli", "ticket", "two"),
        gemm_loop(upper="trips"), store(at="%row, %zero"),
    )  # fmt: skip
    found = sent(kernel(for_loop("\n".join(body), induction="tile", upper="m"), arguments=COUNTER))
    assert [value.hint for value in found.values] == ["ticket"]


def test_what_follows_by_a_way_that_only_the_consumer_goes_is_not_sent() -> None:
    body = (
        atomic("ticket", "one"), binary("trips", "addi", "ticket", "one"), gemm_loop(upper="trips"),
        binary("row", "addi", "trips", "two"), store(at="%row, %zero"),
    )  # fmt: skip
    found = sent(kernel(for_loop("\n".join(body), induction="tile", upper="m"), arguments=COUNTER))
    assert [value.hint for value in found.values] == ["trips"]
