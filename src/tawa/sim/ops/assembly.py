"""Inline assembly: named barriers, fences, and moves between its operands. Any other result must be unused."""

from __future__ import annotations

from typing import Any

from tawa.dialects.declare.declaration import by_name
from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.dialects.inline.effects import NamedBarrier, Unlisted, effects_of, moved_operands
from tawa.dialects.inline.markers import RoundedProductOp, SameNumberOp
from tawa.dialects.ttg import warps_of, warps_of_cta
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_string
from tawa.machine.nvidia import WARP
from tawa.sim.errors import UnsupportedOp
from tawa.sim.machine import named_barriers
from tawa.sim.machine.cta import STEP, Partition, Pause, Run
from tawa.sim.machine.values import Accumulator
from tawa.sim.ops.asynchronous import Wait, fence


def _inline_assembly(partition: Partition, op: Operation, args: list[Any]) -> Run:
    args = [it.use() if isinstance(it, Accumulator) else it for it in args]
    if SameNumberOp.matches(op):
        return args
    if RoundedProductOp.matches(op):
        return [args[0] * args[1]]
    effects, results = effects_of(op), _results(op, args)
    if isinstance(effects, Unlisted) or results is None:
        text = read_string(op.properties["asm_string"])
        raise UnsupportedOp(f"the inline assembly {text!r}")
    for effect in effects:
        if isinstance(effect, NamedBarrier):
            yield from _meet(partition, op, effect, args)
        else:
            fence(partition, op)
    return results


def _results(op: Operation, args: list[Any]) -> list[Any] | None:
    """The results: operands that the assembly only moves; None if it computes one that is used."""
    sources = moved_operands(op)
    if any(result.uses and source is None for result, source in zip(op.results, sources, strict=True)):
        return None
    return [None if source is None else args[source] for source in sources]


def _meet(partition: Partition, op: Operation, effect: NamedBarrier, args: list[Any]) -> Run:
    number = _number(op, effect.number, args)
    count = warps_of_cta(op) * WARP if effect.threads is None else _number(op, effect.threads, args)
    known = partition.cta.named
    barrier = known.setdefault(number, named_barriers.NamedBarrier(number))
    name = f"named barrier {number}"
    partition.log(op, "arrive", name)
    partition.contributes((barrier, barrier.rounds))
    place = barrier.arrive(warps_of(op) * WARP, count)
    if effect.waits:
        yield Pause(
            lambda: barrier.rounds > place,
            lambda: f"{name}, which has {barrier.arrived} of {barrier.count} threads",
        )
        partition.log(op, "pass", name)
        partition.waits_for((barrier, place))
    else:
        yield STEP
    return []


def _number(op: Operation, value: int | Value, args: list[Any]) -> int:
    return value if isinstance(value, int) else int(args[op.operands.index(value)])


WAITS: dict[str, Wait] = by_name({ElementwiseInlineAsmOp: _inline_assembly})
"""Handlers, by operation name."""
