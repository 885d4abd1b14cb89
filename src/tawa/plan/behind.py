"""Dots that run one iteration behind: which they are, and where they stand among the operations of an iteration.

for i: …; put dS(i); dQ(i) = dot dS(i), K; put dQ(i); …   →   for i: …; put dS(i); dQ(i - 1) = dot dS(i - 1), K; …

A result that is not put leaves by a store or a reduction (`tawa.dialects.tt.is_reduction`) of the group itself. These
move behind by an iteration, too, and behind the last one they are done before whatever follows the loop. So they keep
their order, and pass only the accesses of the next iteration that come before them in the body. That nothing notices
if none of those accesses may reach the same memory, and none is a release, before which others may expect what was
stored: `tawa.analysis.loops.dependences` has an edge for each of these. Other programs see relaxed atomics in no
order.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.analysis.loops.dependences import is_exchanged
from tawa.dialects.aref import GetOp, PutOp
from tawa.dialects.tt import is_reduction, tma_store
from tawa.plan.cost.loop_costs import LoopCosts


def only_stored(loop: LoopCosts) -> set[int]:
    """The dots that read what consumer groups exchange, and whose results no other node needs than puts and stores.

    None if other accesses to memory of the loop must not pass these stores.
    """
    found: set[int] = set()
    for number in reversed(loop.dots):
        used = [edge for edge in loop.behind[number] if edge.kind in ("value", "sum")]
        passed = all(edge.target in found if edge.kind == "sum" else _is_stored(loop, edge.target) for edge in used)
        kept = any(value in loop.graph.loop.yielded for value in loop.graph.nodes[number].results)
        if passed and not kept and _is_exchanged(loop, number):
            found.add(number)
    moved = _reached(loop, found)
    stores = [number for number in moved if not PutOp.matches(loop.graph.nodes[number])]
    ordered = (edge for number in stores for edge in loop.behind[number] if edge.kind == "order")
    return found if all(edge.target in moved for edge in ordered) else set()


def _reached(loop: LoopCosts, dots: set[int]) -> set[int]:
    """The dots, and all nodes that their results reach in an iteration."""
    found = set(dots)
    for number in range(loop.count):
        if any(edge.source in found and edge.kind in ("value", "sum") for edge in loop.before[number]):
            found.add(number)
    return found


def _is_stored(loop: LoopCosts, number: int) -> bool:
    """Whether the results of a node only reach puts, stores and reductions."""
    op = loop.graph.nodes[number]
    if PutOp.matches(op) or tma_store(op) or is_reduction(op):
        return True
    used = [edge.target for edge in loop.behind[number] if edge.kind == "value"]
    return bool(used) and number not in loop.dots and all(_is_stored(loop, it) for it in used)


def _is_exchanged(loop: LoopCosts, number: int) -> bool:
    inputs = [edge.source for edge in loop.before[number] if edge.kind == "together"]
    gets = [get for it in inputs if (get := GetOp.of(loop.graph.nodes[it]))]
    return any(map(is_exchanged, gets)) or any(_is_exchanged(loop, it) for it in inputs)


def exchanged_early(loop: LoopCosts, stages: Sequence[int], sequence: Sequence[int]) -> list[int]:
    """The order in which a tile is exchanged as soon as it is there, and the dots that run behind follow at once.

    Earlier, their results would take registers beside the tiles from which the exchanged one is computed; later,
    the tensor cores would be idle while the results are stored.
    """
    late = {number for number in loop.dots if stages[number]}
    for number in reversed(range(loop.count)):
        used = [edge.target for edge in loop.behind[number] if edge.kind in ("value", "together")]
        if used and stages[number] and all(it in late for it in used):
            late.add(number)
    puts = [it for it in sequence if not stages[it] and PutOp.matches(loop.graph.nodes[it])]
    rest = [it for it in sequence if it not in late and it not in puts]
    needed = [edge for it in (*late, *puts) for edge in loop.before[it] if not loop.across(edge, stages)]
    at = 1 + max((rest.index(edge.source) for edge in needed if edge.source in rest), default=-1)
    first = [it for it in sequence if it in late and it not in loop.dots]
    return [*rest[:at], *first, *puts, *(it for it in sequence if it in late and it in loop.dots), *rest[at:]]
