"""Loops with a large constant trip count, run with fewer trips: whole rounds of the rings are skipped.

    for k in range(0, 4096, 64): …     D = 3, P = 1      64 trips → 10: nine rounds of 2·D trips are skipped

If the bound were an argument, the loop would be tried with few trips as well. Here the trip count is fixed, so the
shortened run must be equivalent to the original one:

- the skipped rounds return every slot and parity to its former value. The unroller compares the loop-carried state at
  the end with that of one round earlier: the skipped trips would repeat the last round;
- all loops lose the same number of trips, and `same_everywhere` requires that all partitions lost the same number in
  total. So the differences between the partitions' trip counts are unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from tawa.dialects.scf import ForOp, trips_of
from tawa.ir import MemDescType, Operation, Value, parse_type
from tawa.verify.barriers.program.kernel import BarrierProgram, Fewer
from tawa.verify.barriers.run.events import InFlight, Known, Segment, Trace


def rows_of_barriers(program: BarrierProgram) -> list[int]:
    """The length of each array of mbarriers: the depths of the rings."""
    types = [parse_type(op.result.type) for op in program.allocations]
    return [it.shape[0] for it in types if isinstance(it, MemDescType) and it.element == "i64" and len(it.shape) > 1]


def round_of(program: BarrierProgram) -> int:
    """The number of puts into each ring after which all slots and parities repeat."""
    return 2 * math.lcm(*rows_of_barriers(program))


def shortened(program: BarrierProgram) -> Mapping[Operation, Fewer]:
    """The innermost loops with a large constant trip count, and the number of trips that suffices."""
    trips = {op: number for op in program.loops if (number := _constant_trips(program, op)) is not None}
    again = round_of(program)
    enough = again + program.most_in_flight + 1
    long = {op: number for op, number in trips.items() if number >= enough + again}
    if not long:
        return {}
    left_out = (min(long.values()) - enough) // again * again
    return {op: Fewer(number - left_out, again) for op, number in long.items()}


def _constant_trips(program: BarrierProgram, op: Operation) -> int | None:
    """The constant trip count of an innermost loop whose induction variable is not needed; else None."""
    if not ForOp.matches(op) or op in program.outer_loops or op.regions[0].block.args[0] in program.needed:
        return None
    lower, upper, step = (_constant(program, bound) for bound in op.operands[:3])
    if lower is None or upper is None or step is None:
        return None
    return trips_of(lower, upper, step)


def _constant(program: BarrierProgram, value: Value) -> int | None:
    """The value as a constant, folded and traced through captures of partitions; else None."""
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
    """The state that later trips depend on: needed numbers, and the wgmmas in flight relative to the latest one."""
    values: list[object] = [trace.issued - trace.done]
    for arg, known in zip(args, carried, strict=True):
        if isinstance(known, InFlight):
            values.append(tuple(sorted(group - trace.issued for group in known.groups)))
        elif arg in program.needed:
            values.append(known)
    return tuple(values)


def same_everywhere(segments: Sequence[Segment]) -> bool:
    """Whether concurrent partitions have all lost the same number of trips."""
    return all(len({trace.shortened for trace in segment}) == 1 for segment in segments)
