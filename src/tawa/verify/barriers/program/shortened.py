"""Loops of many constant trips, run with fewer: whole rounds of the rings are left out of their steady state.

    for k in range(0, 4096, 64): …     D = 3, P = 1      64 trips → 10: nine rounds of 2·D trips are left out

Such a loop is a loop like any other, and an argument for a bound would be tried with fewer trips too. Here the number
stands in the text, and what is run has to be like it:

- what is left out are rounds in which every slot and parity comes back to where it was; the unroller compares what the
  body reads at the end with what it read a round before: the trips left out would do what the last round did;
- all loops lose the same number of trips, and `same_everywhere` requires all partitions to have lost the same in all.
  So a partition that makes more trips than another still makes as many more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tawa.dialects.scf import ForOp, trips_of
from tawa.ir import MemDescType, Operation, Value, parse_type
from tawa.verify.barriers.program.kernel import BarrierProgram, Fewer
from tawa.verify.barriers.run.events import InFlight, Known, Segment, Trace


def rows_of_barriers(program: BarrierProgram) -> list[int]:
    """How many mbarriers there are in each row of them: the depths of the rings."""
    types = [parse_type(op.result.type) for op in program.allocations]
    return [it.shape[0] for it in types if isinstance(it, MemDescType) and it.element == "i64" and len(it.shape) > 1]


def round_of(program: BarrierProgram) -> int:
    """After how many puts into each ring all slots and parities are what they were."""
    return 2 * math.lcm(*rows_of_barriers(program))


def shortened(program: BarrierProgram) -> Mapping[Operation, Fewer]:
    """Innermost loops of many constant trips, and how many of them are enough."""
    trips = {op: number for op in program.loops if (number := _constant_trips(program, op)) is not None}
    again = round_of(program)
    enough = again + program.most_in_flight + 1
    long = {op: number for op, number in trips.items() if number >= enough + again}
    if not long:
        return {}
    left_out = (min(long.values()) - enough) // again * again
    return {op: Fewer(number - left_out, again) for op, number in long.items()}


def _constant_trips(program: BarrierProgram, op: Operation) -> int | None:
    """The trips of an innermost loop where they stand in the text and its place in them decides nothing."""
    if not ForOp.matches(op) or op in program.outer_loops or op.regions[0].block.args[0] in program.needed:
        return None
    lower, upper, step = (_constant(program, bound) for bound in op.operands[:3])
    if lower is None or upper is None or step is None:
        return None
    return trips_of(lower, upper, step)


def _constant(program: BarrierProgram, value: Value) -> int | None:
    """The number in the text, or computed from such numbers, also where a partition is given it."""
    op = value.defining_op
    if op is None:
        sources = program.carried.get(value, ())
        return _constant(program, sources[0]) if len(sources) == 1 else None
    compute = program.scalar(op)
    if compute is None:
        return None
    inputs = [_constant(program, operand) for operand in op.operands]
    return None if None in inputs else compute(*inputs)


State = tuple[object, ...]


def state_of(program: BarrierProgram, args: Sequence[Value], carried: Sequence[Known], trace: Trace) -> State:
    """What the trips from here on depend on: the numbers that matter, and the wgmmas in flight, counted from now."""
    values: list[object] = [trace.issued - trace.done]
    for arg, known in zip(args, carried, strict=True):
        if isinstance(known, InFlight):
            values.append(tuple(sorted(group - trace.issued for group in known.groups)))
        elif arg in program.needed:
            values.append(known)
    return tuple(values)


def same_everywhere(segments: Sequence[Segment]) -> bool:
    """Whether partitions that run side by side have all lost as many trips."""
    return all(len({trace.shortened for trace in segment}) == 1 for segment in segments)
