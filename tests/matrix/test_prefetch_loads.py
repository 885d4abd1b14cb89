"""Prefetch of row loads by one iteration, and of operand rows with their tiles, keeps the same bits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import triton
import triton.language as tl

from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.warp import find_groups
from tawa.flow import Outcome
from tawa.ir import Module, Operation, parse_module, print_module
from tawa.plan import LoopPlan, OperandPlan, Plan, PlanOptions
from tawa.plan.decide.rings import Target
from tawa.symbolic.host.launch_spec import LaunchSpec
from tests.matrix.promoting import Launch, Promoted, promoted, run
from tests.support.pipeline import specialise
from tests.support.sample import sample
from tests.support.verdicts import passes


@triton.jit
def gated(a_ptr, b_ptr, g_ptr, c_ptr, T, stride_g, MOVE: tl.constexpr, KEEP: tl.constexpr, B: tl.constexpr):
    """Sums of products with a gate per row. KEEP: partial sums are stored, over the gates or to a separate tensor."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    g_ptrs = g_ptr + rows * stride_g
    for t in range(0, T, B):
        a = tl.load(a_ptr + rows[:, None] * T + (t + ks)[None, :])
        b = tl.load(b_ptr + (t + ks)[:, None] * B + rows[None, :])
        product = tl.dot(a, b)
        gate = tl.load(g_ptrs if MOVE else g_ptr + (t + rows) * stride_g, mask=t + rows < T, other=0.0)
        last = tl.load(g_ptr + (t + B - 1) * stride_g)
        acc = acc * last + product * gate[:, None]
        if KEEP == 1:
            tl.store(g_ptr + (T + t + rows) * stride_g, tl.sum(acc, axis=1))
        if KEEP == 2:
            tl.store(c_ptr + B * B + t + rows, tl.sum(acc, axis=1).to(tl.float16))
        g_ptrs += B * stride_g
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], acc.to(tl.float16))


def launch(trips: int, *, move: bool = False, keep: int = 0) -> Launch:
    lot, b = np.random.default_rng(trips), 64
    length = max(1, trips) * b
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((b, length)).astype(np.float16),
        "b_ptr": lot.standard_normal((length, b)).astype(np.float16),
        "g_ptr": lot.standard_normal((2 if keep == 1 else 1) * length * 3).astype(np.float32),
        "c_ptr": np.full(b * b + length, np.nan, np.float16),
        "T": trips * b, "stride_g": 3,
    }  # fmt: skip
    return Launch(gated, arguments, {"MOVE": move, "KEEP": keep, "B": b}, (1,))


NO_SCHEDULE = Plan(loops=(LoopPlan(stages=0),))
"""Loops keep the order of their operations."""


def made(given: Launch, plan: Plan = NO_SCHEDULE) -> tuple[Promoted, Outcome]:
    changed = promoted(given)
    options = PlanOptions(only_if_faster=False)
    outcome = specialise(print_module(changed.ttgir()), options, Target(4, 3), plan, pinned=False)
    assert outcome.applied, outcome.remarks
    assert passes(outcome.verdict)
    return changed, outcome


def of_consumer(module: Module, name: str) -> list[Operation]:
    (consumer,) = [group for group in find_groups(module) if group.role == "consumer"]
    return [op for op in consumer.op.walk() if op.name == name]


@pytest.mark.parametrize("order", sample(["random", "eager", "late"], 4))
@pytest.mark.parametrize("move", [False, True], ids=["made anew", "moved"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_prefetched_rows_give_the_same_bits(trips: int, move: bool, order: str) -> None:
    given = launch(trips, move=move)
    changed, outcome = made(given)
    assert len(of_consumer(parse_module(outcome.aref), "tt.load")) == 4
    before = run(given, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(given, parse_module(outcome.barrier), changed.result.launch, order)["c_ptr"]
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("trips", [1, 4])
def test_a_loop_with_a_schedule_prefetches_its_rows_and_does_not_wait_for_them(trips: int) -> None:
    given = launch(trips)
    changed, outcome = made(given, Plan())
    assert outcome.plan is not None
    ahead, waiting = (
        made(given, Plan(loops=(LoopPlan(stages=1),), operands=(OperandPlan(prefetched=it),)))[1].plan
        for it in (None, False)
    )
    assert ahead is not None and waiting is not None
    assert ahead.schedules[0].ii_cycles + 400 < waiting.schedules[0].ii_cycles
    assert len(of_consumer(parse_module(outcome.aref), "tt.load")) == 4 and outcome.plan.schedules
    before = run(given, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(given, parse_module(outcome.barrier), changed.result.launch, "late")["c_ptr"]
    assert before.tobytes() == after.tobytes()


@pytest.mark.parametrize("move", [False, True], ids=["made anew", "moved"])
def test_a_gate_and_the_last_of_a_block_are_loaded_before_the_dot_of_the_iteration_before(move: bool) -> None:
    _, outcome = made(launch(4, move=move, keep=2))
    loads = of_consumer(parse_module(outcome.aref), "tt.load")
    inside = [op for op in loads if enclosing_loops(op)]
    assert len(loads) == 4 and len(inside) == 2
    (loop,) = {enclosing_loops(op)[0] for op in inside}
    body = ForOp(loop).body
    (dot,) = of_consumer(parse_module(outcome.aref), "ttng.warp_group_dot")
    assert all(op.parent is body for op in inside)
    first = next(at for at, op in enumerate(body.ops) if op.name == dot.name)
    assert all(body.index_of(op) < first for op in inside)
    assert all(op.result in ForOp(loop).yielded for op in inside)


def test_memory_that_the_loop_writes_is_not_prefetched() -> None:
    given = launch(4, keep=1)
    changed, outcome = made(given)
    loads = of_consumer(parse_module(outcome.aref), "tt.load")
    assert len(loads) == 2 and all(enclosing_loops(op) for op in loads)
    before = run(given, changed.made.whole(), LaunchSpec())
    after = run(given, parse_module(outcome.barrier), changed.result.launch, "late")
    assert all(before[name].tobytes() == after[name].tobytes() for name in before)


def test_a_plan_without_prefetched_operands_prefetches_nothing() -> None:
    changed, outcome = made(launch(4))
    assert outcome.plan is not None
    bare = replace(outcome.plan, operands=(OperandPlan(prefetched=False),))
    again = specialise(print_module(changed.ttgir()), PlanOptions(), Target(4, 3), bare)
    assert len(of_consumer(parse_module(again.aref), "tt.load")) == 2


@triton.jit
def scaled(a_ptr, b_ptr, s_ptr, c_ptr, T, STORE: tl.constexpr, B: tl.constexpr):
    """B is halved before its row of scales is loaded. STORE: a store lies between the two."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for t in range(0, T, B):
        a = tl.load(a_ptr + rows[:, None] * T + (t + ks)[None, :])
        half = tl.load(b_ptr + (t + ks)[:, None] * B + rows[None, :]) * 0.5
        if STORE:
            tl.store(c_ptr + B * B + t + rows, rows.to(tl.float16))
        s = tl.load(s_ptr + t + rows)
        acc = tl.dot(a, half * s[None, :], acc)
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], acc.to(tl.float16))


@pytest.mark.parametrize(("store", "payloads"), [(False, [3]), (True, [2, 1])], ids=["nothing between", "a store"])
def test_a_row_of_scales_shares_the_ring_of_the_tiles_unless_a_store_stands_between(
    store: bool, payloads: list[int]
) -> None:
    lot, b, length = np.random.default_rng(0), 64, 256
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((b, length)).astype(np.float16),
        "b_ptr": lot.standard_normal((length, b)).astype(np.float16),
        "s_ptr": lot.standard_normal(length).astype(np.float16),
        "c_ptr": np.full(b * b + length, np.nan, np.float16),
        "T": length,
    }  # fmt: skip
    given = Launch(scaled, arguments, {"STORE": store, "B": b}, (1,))
    changed, outcome = made(given)
    assert outcome.plan is not None
    assert [len(ring.payload) for ring in outcome.plan.rings] == payloads
    before = run(given, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(given, parse_module(outcome.barrier), changed.result.launch, "late")["c_ptr"]
    assert before.tobytes() == after.tobytes()


@triton.jit
def divided(a_ptr, b_ptr, g_ptr, c_ptr, T, B: tl.constexpr):
    """The gate is divided by a value that would be 0 in the iteration after the last."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    for t in range(0, T, B):
        a = tl.load(a_ptr + rows[:, None] * T + (t + ks)[None, :])
        b = tl.load(b_ptr + (t + ks)[:, None] * B + rows[None, :])
        acc = acc + tl.dot(a, b) * tl.load(g_ptr + T // (T - t))
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], acc.to(tl.float16))


def test_a_division_that_may_trap_in_the_next_iteration_blocks_prefetching() -> None:
    lot, b, length = np.random.default_rng(0), 64, 192
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((b, length)).astype(np.float16),
        "b_ptr": lot.standard_normal((length, b)).astype(np.float16),
        "g_ptr": lot.standard_normal(8).astype(np.float32),
        "c_ptr": np.full(b * b, np.nan, np.float16),
        "T": length,
    }  # fmt: skip
    given = Launch(divided, arguments, {"B": b}, (1,))
    changed, outcome = made(given)
    assert len(of_consumer(parse_module(outcome.aref), "tt.load")) == 1
    before = run(given, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(given, parse_module(outcome.barrier), changed.result.launch, "late")["c_ptr"]
    assert before.tobytes() == after.tobytes()


@triton.jit
def far(a_ptr, b_ptr, g_ptr, c_ptr, FROM, TO, STEP: tl.constexpr, B: tl.constexpr):
    """A loop whose range exceeds that of a signed integer."""
    rows, ks = tl.arange(0, B), tl.arange(0, B)
    acc = tl.zeros((B, B), dtype=tl.float32)
    g_ptrs = g_ptr + 2 * rows  # no row that TMA could copy
    for t in range(FROM, TO, STEP):
        a = tl.load(a_ptr + (rows + (t & 1) * B)[:, None] * B + ks[None, :])
        b = tl.load(b_ptr + (ks + (t & 1) * B)[:, None] * B + rows[None, :])
        acc += tl.dot(a, b) * tl.load(g_ptrs)[:, None]
        g_ptrs += 2 * B
    tl.store(c_ptr + rows[:, None] * B + rows[None, :], acc.to(tl.float16))


def test_a_loop_over_more_than_half_of_all_numbers_loads_ahead_in_each_iteration() -> None:
    lot, b = np.random.default_rng(0), 64
    arguments: dict[str, Any] = {
        "a_ptr": lot.standard_normal((2 * b, b)).astype(np.float16),
        "b_ptr": lot.standard_normal((2 * b, b)).astype(np.float16),
        "g_ptr": lot.standard_normal(8 * b).astype(np.float32),
        "c_ptr": np.full((b, b), np.nan, np.float16),
        "FROM": -(2**31) + 5, "TO": 2**31 - 1,
    }  # fmt: skip
    given = Launch(far, arguments, {"STEP": 2**30 + 1, "B": b}, (1,))
    changed, outcome = made(given)
    assert len(of_consumer(parse_module(outcome.aref), "tt.load")) == 2
    before = run(given, changed.made.whole(), LaunchSpec())["c_ptr"]
    after = run(given, parse_module(outcome.barrier), changed.result.launch, "late")["c_ptr"]
    assert before.tobytes() == after.tobytes()
