"""Rings in Gluon: right values, proved protocols, and faults that are found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton.experimental.gluon")

from tawa.ir import Module
from tawa.sim import Descriptor, simulate
from tawa.verify.barriers import check_barriers
from tawa.verify.crossed_numbers import crossed_numbers
from tawa.verify.verdict import Refuted
from tests.matrix.gluon import gluon_module
from tests.rings import kernels
from tests.support.verdicts import passes

pytestmark = pytest.mark.usefixtures("without_ptx")

ORDERS = ("eager", "late", "random")


def products(D: int = 3, P: int = 0, fault: str = "none") -> Module:
    constants = {"BK": 64, "D": D, "P": P, "FAULT": fault, "num_warps": 4}
    boxes = {"a": [128, 64], "b": [64, 64], "c": [64, 64]}
    return gluon_module(kernels.products, boxes, constants, dict.fromkeys(boxes, "fp16"), {})


def squares(fault: str = "none") -> Module:
    scalars = {"x": "*fp32", "o": "*fp32"}
    return gluon_module(kernels.squares, {}, {"D": 2, "FAULT": fault, "num_warps": 4}, {}, scalars)


def alternating(fault: str = "none") -> Module:
    return gluon_module(kernels.alternating, {}, {"FAULT": fault, "num_warps": 4}, {}, {"o": "*i32"})


def marked() -> Module:
    return gluon_module(kernels.marked, {}, {"D": 2, "num_warps": 4}, {}, {"counter": "*i32", "o": "*i32"})


@pytest.mark.contract
@pytest.mark.parametrize(
    "made", [products, partial(products, D=2, P=1), squares, alternating, marked],
    ids=["products", "in_flight", "squares", "ping-pong", "tiles"],
)  # fmt: skip
def test_the_protocol_is_proved(made: Callable[[], Module]) -> None:
    assert passes(check_barriers(made()))


@pytest.mark.parametrize(
    ("kernel", "fault"),
    [
        (products, "copies before the slot is empty"),
        (products, "released before the dot has read it"),
        (products, "one group does not release"),
        (products, "too many readers"),
        (products, "shared memory is given back before the store has read it"),
        (squares, "released before it is read"),
        (squares, "never released"),
        (alternating, "the token is not waited for"),
        (alternating, "the token is not passed on"),
    ],
)
def test_a_fault_is_found(kernel: Any, fault: str) -> None:
    assert isinstance(check_barriers(kernel(fault=fault)), Refuted)


def test_a_slot_that_a_dot_in_flight_still_reads_must_not_be_released() -> None:
    assert isinstance(check_barriers(products(P=1, fault="released one iteration early")), Refuted)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("D", "P"), [(1, 0), (3, 0), (3, 1)])
@pytest.mark.parametrize("K", [0, 64, 320])
def test_products_are_right(D: int, P: int, K: int, order: Any) -> None:
    random = np.random.default_rng(0)
    a, b = random.standard_normal((128, max(K, 64))), random.standard_normal((max(K, 64), 64))
    a, b, c = a.astype(np.float16), b.astype(np.float16), np.full((128, 64), np.nan, np.float16)
    arguments = {"a": Descriptor(a), "b": Descriptor(b), "c": Descriptor(c), "K": K}
    simulate(products(D, P), arguments, (1, 1, 1), order, 0)
    exact = a[:, :K].astype(np.float64) @ b[:K].astype(np.float64)
    np.testing.assert_allclose(c, exact, rtol=2e-3, atol=1e-2)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("count", [0, 1, 5])
def test_values_of_threads_are_handed_on(count: int, order: Any) -> None:
    x = np.random.default_rng(0).standard_normal((5, 32, 32)).astype(np.float32)
    o = np.full_like(x, np.nan)
    simulate(squares(), {"x": x, "o": o, "count": count}, (1, 1, 1), order, 0)
    np.testing.assert_array_equal(o[:count], x[:count] ** 2)
    assert np.isnan(o[count:]).all()


@pytest.mark.parametrize("order", ORDERS)
def test_groups_alternate(order: Any) -> None:
    o = np.zeros((10, 128), np.int32)
    simulate(alternating(), {"o": o, "count": 5}, (1, 1, 1), order, 0)
    wanted, value = [], 1
    for _ in range(5):
        for group in range(2):
            value = 2 * value + group
            wanted.append(value)
    np.testing.assert_array_equal(o, np.repeat(np.array(wanted)[:, None], 128, 1))


def numbers() -> Module:
    return gluon_module(kernels.numbers, {}, {"D": 2, "num_warps": 4}, {}, {"o": "*i32"})


def test_a_number_that_is_read_behind_the_loop_that_carries_its_ring_is_known() -> None:
    module = numbers()
    crossed = crossed_numbers(module.walk())
    assert len(crossed.sources) == 2 and len(set(crossed.sources.values())) == 1
    assert passes(check_barriers(module, assume=["count >= 0"]))  # it waits for a number that -1 would not send


@pytest.mark.parametrize("order", ORDERS)
def test_a_number_behind_a_loop_is_right(order: Any) -> None:
    o = np.full(6, -1, np.int32)
    simulate(numbers(), {"o": o, "count": 5}, (1, 1, 1), order, 0)
    np.testing.assert_array_equal(o, range(6))


@pytest.mark.parametrize("order", ORDERS)
def test_numbers_of_tiles_reach_both_readers(order: Any) -> None:
    counter, o = np.zeros(1, np.int32), np.zeros((2, 7), np.int32)
    simulate(marked(), {"counter": counter, "o": o, "count": 7}, (3, 1, 1), order, 0)
    np.testing.assert_array_equal(o, [range(1, 8)] * 2)
    assert counter[0] == 7 + 3
