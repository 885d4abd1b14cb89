"""Which numbers are computed before the partitions start."""

from __future__ import annotations

from tawa.analysis.rings.given_numbers import given_numbers
from tawa.analysis.rings.guards import find_guards
from tawa.dialects.tt import FuncOp
from tests.cases.programs.ttgir import (
    LOCK,
    binary,
    branch,
    compare,
    for_loop,
    gemm_loop,
    kernel,
    ops_named,
    parse,
    scalar_load,
    store,
    summed,
)


def names(text: str) -> list[str]:
    module = parse(kernel(text, arguments=LOCK))
    function = next(view for it in module.body.ops if (view := FuncOp.of(it)))
    loads = ops_named(module, "tt.descriptor_load")
    return [value.hint for value in given_numbers(find_guards(function, loads), loads)]


def gemm(*before: str, upper: str) -> str:
    return "\n".join((*before, gemm_loop(upper=upper), store()))


def test_the_sum_of_a_tile_is_given_and_what_follows_from_it_is_not() -> None:
    assert names(gemm(summed("sum"), binary("twice", "addi", "sum", "sum"), upper="twice")) == ["sum"]


def test_scalars_that_every_partition_can_compute_are_not() -> None:
    assert names(gemm(binary("p", "addi", "n", "m"), scalar_load("q", "lock"), upper="q")) == []


def test_the_result_of_a_branch_that_sums_a_tile_is_given() -> None:
    other = binary("trips_else", "addi", "n", "m")
    text = branch(summed("trips_then"), other, result="trips", type="i32")
    assert names(gemm(text, upper="trips")) == ["trips"]


def test_a_sum_in_front_of_a_guard_is_given_too() -> None:
    work = f"{gemm_loop(upper='sum')}\n{store()}"
    assert names(f"{summed('sum')}\n{compare('go', 'n', 'm', 2)}\n{branch(work, condition='go')}") == ["sum"]


def test_a_sum_in_a_loop_around_the_loads_is_not() -> None:
    assert names(for_loop("\n".join((summed("sum"), gemm_loop(upper="sum"), store())), induction="t", upper="m")) == []


def test_the_sum_of_a_result_of_the_consumer_is_not() -> None:
    first = gemm_loop("first", "_f")
    assert names(gemm(first, summed("sum", "first"), upper="sum")) == []
