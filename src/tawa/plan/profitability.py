"""Profitability: why a kernel, or a Plan of it, is not expected to beat stock Triton's kernel.

These are heuristics about speed, not conditions for correctness: if the user asks for specialisation or pins a Plan,
the reasons are only notes.
"""

from __future__ import annotations

from tawa.analysis.resources import unfit_dots
from tawa.ir import Module
from tawa.machine.hopper import LEAST_FILLS, SMALL_OPERANDS, WIDE_INSTRUCTION
from tawa.plan.cost.budget import Budget, Channels, StockCopies
from tawa.plan.plan import Plan
from tawa.plan.planner import most_fills

_TOO_LARGE = "the accumulator of a dot takes all registers of an SM: it spills to local memory with any compiler"
_POINTERS = "operands come through pointers, not by TMA, and stock Triton copies them ahead just as well"


def why_not_expected(
    module: Module, plan: Plan, channels: Channels, budget: Budget, persistent: bool, chained: bool, copies: StockCopies
) -> str:
    """Why the Plan is not expected to beat stock Triton; empty when it is. Arguments as for `why_not_worth_it`."""
    reason = _TOO_LARGE if budget.registers.fill_an_sm(budget.num_warps, budget.groups) else ""
    reason = reason or ("" if pointer_loads_worth(channels, chained) else _POINTERS)
    reason = reason or why_not_worth_it(plan, channels, budget, persistent, chained, copies)
    return reason or unfit_dots(module)


def why_not_worth_it(
    plan: Plan,
    channels: Channels,
    budget: Budget,
    persistent: bool,
    chained: bool = False,
    stock_copies: StockCopies = "tma",
) -> str:
    """Why the Plan is not expected to beat stock Triton; empty when it is.

    persistent: whether the loads are in a loop over tiles; such a kernel is written for one CTA per SM.
    chained: whether a dot reads the result of another dot.
    stock_copies: how stock Triton copies the tiles. If instructions of all its warps do, specialisation pays even for
        CTAs that share an SM (1.04 to 1.14 of stock at 128 × 128, `bench/results/pointers.json`); if they copy one
        element at a time, it pays for every kernel with enough iterations.
    """
    fills = most_fills(channels)
    if fills < LEAST_FILLS and not persistent:
        trips = "once" if fills == 1 else f"{fills} times"
        return f"a program fills its rings {trips} only, which stock Triton does ahead just as well"
    turning = [ring.depth for ring in plan.rings if ring.name not in budget.outer]
    if turning == [1]:
        return "its ring has one slot only, so that nothing is loaded while the consumer computes"
    if persistent or stock_copies == "elements":
        return ""
    ours, stock = budget.ctas(channels, max(ring.slots for ring in plan.rings)), budget.stock_ctas(channels)
    groups = f" of {budget.groups} groups" if budget.groups > 1 else ""
    # At most two CTAs of a stock kernel that loads through pointers share an SM, because the addresses take registers.
    # One CTA keeps the tensor cores busy if each wgmma has 256 columns. Consumer groups do not replace CTAs: softmax of
    # 64 keys at a time needs more warps.
    if stock_copies == "rows" and budget.groups == 1:
        stock = min(stock, 1 if budget.registers.instruction >= WIDE_INSTRUCTION and not chained else 2)
    if ours < stock:
        return (
            f"{ours} CTA{'s' * (ours > 1)}{groups} would share an SM instead of {stock}, "
            "which hide each other's epilogues"
        )
    if budget.groups == 1 and ours > 1 and budget.operand_bits <= SMALL_OPERANDS and stock_copies == "tma":
        return f"{ours} CTAs share an SM, so that one loads while another computes: specialisation adds little"
    return ""


def pointer_loads_worth(channels: Channels, chained: bool) -> bool:
    """Whether a producer that loads through pointers is expected to beat stock Triton, which prefetches as well.

    chained: whether a dot reads the result of another dot of the same iteration. Then the consumer computes while the
    tensor cores are idle, and it saves the instructions for the copies.
    """
    return chained or all(channel.fill == "tma" for channel in channels)


__all__ = ["pointer_loads_worth", "why_not_expected", "why_not_worth_it"]
