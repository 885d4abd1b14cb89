"""Attention kernels on NumPy data: right against float64, and specialised ones with the bits of what they were.

A sample on small problems: `bench/attention/proofs.py` takes every case, on the problem that it is listed with.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.triton.read_module import read_levels
from tawa.dialects.tt import ReduceOp
from tawa.ir import TensorType, parse_type
from tawa.machine.machines import ACCUMULATOR_COLUMNS
from tawa.plan import Plan, PlanOptions
from tests.cases.arrays import make_arrays, simulate_case
from tests.cases.attention.builders import ragged_case, resized
from tests.cases.attention.cases import find
from tests.cases.case import Specimen
from tests.cases.simulated import ORDERS, errors, orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import attempted, pinned, specialised_levels
from tests.support.sample import EVERY_CASE, sample

SMALL = [
    ("two_loops_fp16_d64_causal", 256, 256),
    ("two_loops_causal_333x200", 150, 100),
    ("two_loops_full_200x333", 130, 200),
    ("two_loops_fp8e4nv_d64_full", 128, 256),
    ("reordered_two_loops_d64_causal", 200, 200),
    ("branch_fp16_d64_causal", 256, 256),
    ("one_loop_alibi_causal", 128, 256),
    ("two_loops_softcap_full", 128, 130),
    ("persistent_200x333", 200, 250),
    ("two_loops_gqa_together", 300, 200),
    ("two_loops_window100", 400, 400),
    ("tutorial_fp16_d64_causal", 256, 256),
    ("two_parts_fp16_d96_causal", 150, 200),
    ("two_parts_fp16_d192_full", 150, 200),
    ("two_parts_d192_128_causal", 150, 200),
    ("dq_fp16_d64_causal", 130, 200),
    ("dkdv_fp16_d64_full", 130, 200),
    ("added_fp16_d64_causal", 130, 200),
    ("added_bf16_d128_full", 130, 200),
    ("added_every_option", 200, 250),
    ("dq_window_alone", 200, 250),
    ("dkdv_softcap", 130, 200),
]
LATE_SUMS = [
    ("two_loops_causal_333x200", 150, 300),
    ("branch_fp16_d64_causal", 128, 256),
    ("persistent_200x333", 200, 250),
    ("two_loops_fp8e4nv_d64_full", 128, 256),
]
AS_LISTED = [
    "varlen_fp16_d64_causal",
    "ragged_fp16_d64_causal",
    "ragged_fp16_d96_full",
    "ragged_window",
    "ragged_d192_128_causal",
    "packed_added_window_softcap",
    "packed_dq_gqa",
]
SAME_BITS = [
    ("two_loops_causal_333x200", 150, 300),
    ("two_parts_d192_128_causal", 150, 300),
    ("branch_fp16_d64_causal", 128, 384),
]


def small(name: str, queries: int, keys: int) -> Specimen:
    return resized(find(name), queries, keys).with_sizes(B=1)


def check(case: Specimen) -> None:
    compiled = specialised_levels(case, pinned(*case.plans[0]))
    assert errors(case, simulated(case, unspecialised(case, compiled))).share <= 1


@pytest.mark.parametrize(("name", "queries", "keys"), sample(SMALL, 4))
def test_kernel_is_right_on_a_small_problem(name: str, queries: int, keys: int) -> None:
    check(small(name, queries, keys))


@pytest.mark.parametrize(("name", "queries", "keys"), LATE_SUMS)
def test_kernel_with_sums_after_its_loops_is_right(name: str, queries: int, keys: int) -> None:
    case = small(name, queries, keys)
    compiled = specialised_levels(case, replace(pinned(*case.plans[0]), precision="relaxed"))
    specialised = read_levels(compiled)[1]
    tiles = [parse_type(op.result.type) for op in specialised.walk() if op.name == ReduceOp.NAME]
    assert any(isinstance(it, TensorType) and it.shape[1:] == (ACCUMULATOR_COLUMNS,) for it in tiles)
    assert errors(case, simulated(case, specialised)).share <= 1


@pytest.mark.parametrize("name", sample(AS_LISTED, 3))
def test_kernel_is_right_on_the_problem_it_is_listed_with(name: str) -> None:
    check(find(name))


@pytest.mark.parametrize(("name", "queries", "keys"), sample(SAME_BITS, 3))
def test_specialised_kernel_has_the_bits_of_the_unspecialised_one(name: str, queries: int, keys: int) -> None:
    case = small(name, queries, keys)
    compiled = specialised_levels(case, pinned(*case.plans[0]))
    assert orders_with_other_bits(case, compiled, simulated(case, unspecialised(case, compiled))) == []


ADDED = {
    "added_fp16_d64_full": (260, 256, (0,)),
    "added_fp16_d64_causal": (260, 256, (0, 1)),
    "added_bf16_d128_full": (130, 256, (0,)),
    "added_gqa": (130, 256, (1, 2)),
    "added_window": (260, 256, (0, 1, 2)),
}
"""Queries, keys, and the loops that add to dQ."""
ADDED_BY = {
    "in lock step": ({"groups": 1}, False),
    "a store warp": ({"groups": 1}, True),
    "groups that exchange": ({"groups": 2, "exchange": True}, False),
    "one iteration behind": ({"groups": 2, "exchange": True, "loops": [{"behind": True}]}, True),
    "behind, without a store warp": ({"groups": 2, "exchange": True, "loops": [{"behind": True}]}, False),
    "behind, Q and dO in one slot": ({"groups": 2, "exchange": True, "loops": [{"behind": True}]}, True),
    "automatic": ({}, None),
}
"""Plans, and whether a warp of its own adds; None: as the planner decides, which is so."""


@pytest.mark.parametrize(("how", "name"), sample(product(ADDED_BY, ADDED), 6))  # each of both at least once
def test_gradients_that_are_added_up_are_the_same_in_each_order(name: str, how: str) -> None:
    (queries, keys, loops), (plan, by_a_warp) = ADDED[name], ADDED_BY[how]
    pins = {} if by_a_warp is None else {"store_warp": by_a_warp}
    stores = [{"argument": "dq_desc", "loop": loop, **pins} for loop in loops]
    both = ("q_desc", "do_desc") if "one slot" in how else ()
    operands = [{"argument": it, "loop": loop, "ring": "both"} for it in both for loop in loops]
    case = small(name, queries, keys)
    asked = Plan.of({**plan, "stores": stores, "operands": operands})
    found, compiled = attempted(case, PlanOptions(only_if_faster=False), asked)
    assert isinstance(found, Specialised), found.remarks
    assert found.outcome.plan is not None
    handed = tuple(it.loop for it in found.outcome.plan.stores if it.store_warp)
    assert handed == (() if by_a_warp is False else loops)
    wanted = simulated(case, unspecialised(case, compiled))
    module = read_levels(compiled)[1]
    made = [simulated(case, module, order) for order in ORDERS]
    assert errors(case, made[0]).share <= 1
    for key, values in wanted.items():
        assert all(it[key].tobytes() == made[0][key].tobytes() for it in made)
        # The sum over two groups is rounded between them, here, unlike in a wgmma.
        if plan.get("groups") == 1 or key != "sums":
            assert made[0][key].tobytes() == values.tobytes()


FROM_REGISTERS: dict[str, dict[str, object]] = {
    "in lock step": {"groups": 1},
    "groups that exchange": {"groups": 2, "exchange": True},
    "one iteration behind": {"groups": 2, "exchange": True, "loops": [{"behind": True}]},
}


LENGTHS = (64, 260 if EVERY_CASE else 130)


@pytest.mark.parametrize(("how", "name", "queries"), sample(
    product(FROM_REGISTERS, ("from_registers_d64", "from_registers_d128"), LENGTHS), 4))  # fmt: skip
def test_gradients_that_threads_add_up_are_the_same_in_each_order(name: str, how: str, queries: int) -> None:
    case = small(name, queries, 256)
    found, compiled = attempted(case, PlanOptions(only_if_faster=False), Plan.of(FROM_REGISTERS[how]))
    assert isinstance(found, Specialised), found.remarks
    assert "atomic_rmw" in compiled.asm["aref"] and "#linear" in compiled.asm["aref"]
    wanted = simulated(case, unspecialised(case, compiled))
    module = read_levels(compiled)[1]
    made = [simulated(case, module, order) for order in ORDERS]
    assert errors(case, made[0]).share <= 1
    for key, values in wanted.items():
        assert all(it[key].tobytes() == made[0][key].tobytes() for it in made)
        # The sum over two groups is rounded between them, here, unlike in a wgmma.
        if how == "in lock step" or key != "sums":
            assert made[0][key].tobytes() == values.tobytes()


IN_STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "in lock step": ("steps_fp16_d64_full", {"groups": 1}),
    "groups that exchange": ("steps_bf16_d128_causal", {"groups": 2, "exchange": True}),
    "groups that exchange, grouped heads": ("steps_bf16_d128_causal", {"groups": 2, "exchange": True}),
    "one iteration behind": (
        "steps_fp16_d64_causal",
        {"groups": 2, "exchange": True, "loops": [{"behind": True}]},
    ),
    "groups that own dots": ("owned_steps", {"groups": 2, "split": "columns", "exchange": True}),
}
"""Cases and Plans."""


@pytest.mark.parametrize("how", IN_STEPS)
def test_sums_in_steps_have_the_same_bits_in_any_order_of_programs(how: str) -> None:
    name, plan = IN_STEPS[how]
    group = 2 if "grouped" in how else 1
    case = small(name, 70, 4 * find(name).size("BN") - 10).with_sizes(H=group, HK=1)
    case = replace(case, constexprs={**case.constexprs, "GROUP": group})
    loops = () if name == "owned_steps" else (1, 2) if group > 1 else (0, 1)
    by_pointers = [{"argument": "steps_ptr", "loop": loop, "path": "pointers"} for loop in loops]
    with launched_by_us(function=case.kernel):
        found, levels = attempted(case, PlanOptions(only_if_faster=False), Plan.of({**plan, "operands": by_pointers}))
    assert isinstance(found, Specialised), found.remarks
    assert errors(case, simulated(case, unspecialised(case, levels))).share <= 1
    programs, made = [(x, 0, 0) for x in range(4)], list[dict[str, Any]]()
    for order in (programs, programs[::-1]):
        made.append(make_arrays(case))
        simulate_case(case, read_levels(levels)[1], made[-1], launch=found.launch, programs=order)
    assert errors(case, made[0]).share <= 1
    assert all(made[0][key].tobytes() == made[1][key].tobytes() for key in ("sums", "dk", "dv"))


@pytest.mark.parametrize("causal", [False, True])
def test_what_neighbouring_sequences_hold_changes_nothing(causal: bool) -> None:
    queries, keys = (60, 0, 1, 129), (70, 3, 128, 0)
    case = ragged_case("amid_nan", queries, keys, causal=causal)
    module = read_levels(specialised_levels(case, pinned(2, 0)))[1]
    wanted, queries_at, keys_at = simulated(case, module), np.cumsum((0, *queries)), np.cumsum((0, *keys))
    for sequence in range(len(queries)):
        own, of_k = (slice(at[sequence], at[sequence + 1]) for at in (queries_at, keys_at))
        arrays = make_arrays(case)
        for name, part in (("q", own), ("k", of_k), ("v", of_k)):
            alone = np.full_like(arrays[name], np.nan)
            alone[part] = arrays[name][part]
            arrays[name] = alone
        simulate_case(case, module, arrays)
        assert np.array_equal(arrays["o"][own], wanted["o"][own]) and np.isfinite(wanted["o"]).all()
        assert np.array_equal(arrays["lse"][:, own], wanted["lse"][:, own])
