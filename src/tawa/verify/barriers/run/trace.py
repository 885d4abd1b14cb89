"""Unrolls a barrier-level program, for given numbers, into one sequence of protocol events per partition.

    for k in range(n): wait full[s], p; dot; arrive empty[s]      n = 2
      →  wait full[0] 0; dot reads a[0]; arrive empty[0]; wait full[1] 0; dot reads a[1]; arrive empty[1]

Scalars are computed, tiles are not: a tile is represented by the wgmma groups that may still write it. Everything that
decides control flow, slots, parities and predicates must be a known number; the rest is skipped (`program.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tawa.dialects.arith import constant_int
from tawa.dialects.control_flow import successor_operands
from tawa.dialects.declare.declaration import by_name, is_opaque, op_names
from tawa.dialects.inline.effects import acts
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.lifetimes import freed_behind
from tawa.dialects.scalars import Scalar, evaluate, width_of
from tawa.dialects.scf import ForOp, IfOp, WhileOp, trips_of
from tawa.dialects.tt import AddPtrOp, LoadOp
from tawa.dialects.ttg import VIEWS, LocalAllocOp, LocalLoadOp, LocalStoreOp, WarpSpecializeOp
from tawa.dialects.warp import GroupOp
from tawa.ir import Block, Operation, Region, Value
from tawa.verify.assumptions import POSITIVE_STEP
from tawa.verify.barriers.program.assembly import act
from tawa.verify.barriers.program.kernel import (
    CLOSED,
    NUMBER_OPS,
    BarrierProgram,
    NotUnderstood,
    chooses_tile,
    is_number,
    number_key,
)
from tawa.verify.barriers.program.operations import MAKERS, STEPS, alloc, check_uses, free, memory_of, number, view
from tawa.verify.barriers.program.outcomes import BOTH, NO, YES, Outcome, outcome_of, picks_flag
from tawa.verify.barriers.program.shortened import State, same_everywhere, state_of
from tawa.verify.barriers.run.events import (
    MAX_EVENTS,
    Environment,
    Event,
    InFlight,
    Known,
    NeedsNumber,
    Opaque,
    Recorder,
    Segment,
    Trace,
    Undefined,
)
from tawa.verify.barriers.run.numbers import Numbers
from tawa.verify.crossed_numbers import ATOMIC
from tawa.verify.data_dependent_loops import PREFIX
from tawa.verify.given_numbers import called


class Unrolled(Recorder):
    """One unrolling; `segments` holds the events."""

    def __init__(
        self,
        program: BarrierProgram,
        numbers: Mapping[Value, int],
        chosen: Mapping[str, int],
        more: Mapping[str, Handler],
        limit: int,
    ) -> None:
        super().__init__(program, limit)
        self.more = more
        self.chosen = chosen
        self.segments: list[Segment] = []
        self.outcomes: dict[Operation, int] = dict.fromkeys(program.decisions, 0)
        self.times: dict[tuple[str, str], int] = {}  # how often each partition has entered a data-dependent loop
        self.atomics: dict[Operation, int] = {}  # how often each atomic was executed
        self.numbers = Numbers()
        self.main = Trace("default")
        self.region(program.function.regions[0], first_values(program, numbers), self.main)
        self.segments.append([self.main])
        if not same_everywhere(self.segments):
            raise NotUnderstood("partitions have different loops with large constant trip counts", program.function)

    def region(self, region: Region, env: Environment, trace: Trace) -> list[Known]:
        """Runs a region from its first block, along its branches; returns the operands of the last terminator."""
        block = region.blocks[0]
        for _ in range(10_000):
            ended = self.run(block, env, trace)
            end = block.terminator
            edges = successor_operands(end)
            if not edges:
                return ended
            first = len(edges) == 1 or number(end, end.operands[0], env, "the condition")
            following, uses = edges[0 if first else 1]
            env.update(zip(following.args, [env.get(use.value) for use in uses], strict=True))
            block = following
        raise NotUnderstood("the branches do not terminate", region.blocks[0].terminator)

    def run(self, block: Block, env: Environment, trace: Trace) -> list[Known]:
        """Runs one block; returns the operands of its terminator."""
        plan = self.program.plans.get(block)
        if plan is None:
            plan = self._plan(block)
            self.program.plans[block] = plan
        for step, op in plan:
            step(self, op, env, trace)
        return [env.get(operand) for operand in block.terminator.operands]

    def _plan(self, block: Block) -> list[tuple[Handler, Operation]]:
        """The steps of a block, with the memory that is freed after each."""
        kept, freed = set(self.program.kept_in(block)), freed_behind(block)
        plan: list[tuple[Handler, Operation]] = []
        for op in block.ops:
            if op in kept:
                plan.append((self._step_of(op), op))
            plan += [(free, allocation) for allocation in freed.get(op, ())]
        return plan

    def trips_of(self, loop: Operation, trace: Trace) -> int | None:
        """The chosen trip count of a data-dependent loop; None for other loops, which evaluate their condition."""
        name = self.program.ended_by_memory.get(loop)
        if name is None:
            return None
        time = self.times[trace.partition, name] = self.times.get((trace.partition, name), -1) + 1
        key = f"{PREFIX}{name}, time {time}"
        if key not in self.chosen:
            raise NeedsNumber(key)
        return self.chosen[key]

    def _step_of(self, op: Operation) -> Handler:
        if acts(op):
            return act
        if op in self.program.given:
            return _given
        if op in self.program.crossed.atomics:
            return _atomic
        if op in self.program.crossed.loads:
            return _receive
        if op.results and op.results[0] in self.program.crossed.sources:
            return _received
        if op in self.program.crossed.stores and op.name not in self.more:
            return _send
        if op in self.program.functions:
            return _function
        step = self.more.get(op.name)
        if step is None and op.name in MAKERS:
            return MAKERS[op.name](op)
        step = step or STEPS.get(op.name) or _CONTROL.get(op.name)
        if step is not None:
            return step
        if chooses_tile(op):
            return _choose
        if not (
            (op.name.startswith("arith.") or SameNumberOp.matches(op)) and op.results and is_number(op.result.type)
        ):
            return _value
        compute = self.program.scalar(op)
        return _scalar if compute is None else _computed(op, compute)


Handler = Callable[[Unrolled, Operation, Environment, Trace], None]


def first_values(program: BarrierProgram, numbers: Mapping[Value, int]) -> Environment:
    """The initial environment: the given numbers, pointers by name, other arguments unknown."""
    env: Environment = dict(program.constants)
    env.update((arg, numbers.get(arg, Opaque(None))) for arg in program.entry.args)
    for arg in program.entry.args:
        if arg.type.startswith("!tt.ptr"):
            env[arg] = f"arg{arg.index}"
    return env


def _computed(op: Operation, compute: Scalar) -> Handler:
    """The step of a scalar operation, with a fast path for two known operands."""
    result = op.result
    if len(op.operands) != 2:
        return _scalar
    first, second = op.operands
    outcome = outcome_of(op)
    if outcome is not None:
        return _decision(op, compute, outcome)

    def step(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
        left, right = env.get(first), env.get(second)
        made = compute(left, right) if type(left) is int and type(right) is int else None
        if made is None:
            _scalar(self, op, env, trace)
        else:
            env[result] = made

    return step


def _decision(op: Operation, compute: Scalar, outcome: Outcome) -> Handler:
    """Like `_computed`; also records the outcome."""
    first, second, result = op.operands[0], op.operands[1], op.result

    def step(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
        left, right = env.get(first), env.get(second)
        made = compute(left, right) if type(left) is int and type(right) is int else None
        if made is None:
            _scalar(self, op, env, trace)
            self.outcomes[op] |= BOTH  # if a needed number depends on it, the check stops there
        else:
            env[result] = made
            self.outcomes[op] |= outcome(left, right, made)  # type: ignore[arg-type]

    return step


def _scalar(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    compute = self.program.scalar(op)
    inputs = [env.get(operand) for operand in op.operands]
    numbers = [known if isinstance(known, int) else None for known in inputs]
    if compute is not None and None not in numbers:
        made: int | None = compute(*numbers)
    else:
        (made,) = evaluate(op, numbers) if len(op.results) == 1 else (None,)
    if op in self.outcomes and picks_flag(op):
        self.outcomes[op] |= BOTH if made is None else YES if made else NO
    if made is not None:
        env[op.result] = made
        return
    undefined = compute is not None and None not in numbers
    blame = next((known for known in inputs if isinstance(known, Opaque)), Opaque(op, undefined))
    for result in op.results:
        env[result] = blame


def _program_number(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    key = number_key(op)
    if key not in self.chosen:
        raise NeedsNumber(key)
    env[op.result] = self.chosen[key]


def _pointer(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    base, offset = (env.get(operand) for operand in op.operands)
    undefined = _undefined(base, offset)
    if isinstance(base, str) and not isinstance(offset, int):
        # Not a chosen number, but equal in all partitions that compute it by the same expression.
        tree = self.program.tree(AddPtrOp(op).offset)
        offset = None if tree is None else f"tree {tree}"
    known = isinstance(base, str) and isinstance(offset, int | str)
    env[op.result] = f"{base}+{offset}" if known else undefined or Opaque(op)


def _undefined(*inputs: Known) -> Opaque | None:
    """The input that has no defined value, such as a quotient by zero: nor has what is computed from it."""
    return next((known for known in inputs if isinstance(known, Opaque) and known.undefined), None)


def _load(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    check_uses(self, op, env, trace)
    address = env.get(LoadOp(op).pointers)
    if not isinstance(address, str) or width_of(op.result.type) is None:
        for result in op.results:
            env[result] = _undefined(address) or Opaque(op)
        return
    env[op.result] = _chosen(self, address)


def _given(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    check_uses(self, op, env, trace)
    env[op.result] = _chosen(self, self.program.given[op])


def _function(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    check_uses(self, op, env, trace)
    function = self.program.functions[op]
    inputs = [env.get(value) for value in function.inputs]
    known = all(isinstance(value, int | str) for value in inputs)
    env[op.result] = _chosen(self, called(function.name, *inputs)) if known else Opaque(op)


def _atomic(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    """The result of an atomic: another number each time."""
    time = self.atomics[op] = self.atomics.get(op, -1) + 1
    env[op.result] = _chosen(self, f"{ATOMIC}{self.program.crossed.atomics[op]}, time {time}")


def _send(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = memory_of(op, LocalStoreOp(op).buffer, env)
    place = self.numbers.send(memory, env.get(self.program.crossed.stores[op]))
    self.emit(trace, Event("write", op, (memory,), number=place))


def _receive(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = memory_of(op, LocalLoadOp(op).buffer, env)
    place, number = self.numbers.receive(trace, memory)
    needed = self.program.crossed.loads[op] in self.program.needed
    self.emit(trace, Event("read", op, (memory,), number=place if needed else -1))
    env[op.result] = number


def _received(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    known = env.get(op.operands[0])
    env[op.result] = Opaque(op) if known is None else known


def _chosen(self: Unrolled, name: str) -> int:
    key = f"*({name})"
    if key not in self.chosen:
        raise NeedsNumber(key)
    return self.chosen[key]


def _value(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    """A tile operation: its operands must not be in flight."""
    if any("!ttg.memdesc" in value.type for value in (*op.operands, *op.results)):
        raise NotUnderstood(f"{op.name} accesses shared memory in a way that this check does not model", op)
    if is_opaque(op.name) and op.name.startswith(CLOSED):
        raise NotUnderstood(f"{op.name} is not known to this check", op)
    check_uses(self, op, env, trace)
    for region in op.regions:
        for block in region.blocks:
            self.run(block, env, trace)
    for result in op.results:
        env[result] = Opaque(op)


def _choose(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    """Selects between tiles, which stay in flight: the back end renames registers or waits."""
    condition, *tiles = (env.get(operand) for operand in op.operands)
    if isinstance(condition, int):
        env[op.result] = tiles[0 if condition else 1]
        return
    groups = [group for tile in tiles if isinstance(tile, InFlight) for group in sorted(tile.groups)]
    env[op.result] = InFlight(frozenset(groups)) if groups else Opaque(op)


# -- control flow ------------------------------------------------------------------------------------------------------


def _for(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    lower, upper, step = (number(op, value, env, "a bound") for value in op.operands[:3])
    trips = trips_of(lower, upper, step)
    if trips is None and constant_int(op.operands[2]) is None:
        raise Undefined(op, POSITIVE_STEP)
    if trips is None:
        raise NotUnderstood(f"a loop with step {step}", op)
    body = op.regions[0].block
    carried = [env.get(value) for value in op.operands[3:]]
    places, fewer = range(lower, lower + trips * step, step or 1), self.program.shortened.get(op)
    self.outcomes[op] |= YES if places else NO
    before: State = ()
    for place in places if fewer is None else places[: fewer.trips]:
        if fewer is not None and place == places[fewer.trips - fewer.again]:
            before = state_of(self.program, body.args[1:], carried, trace)
        env[body.args[0]] = place
        env.update(zip(body.args[1:], carried, strict=True))
        self.tick(op)
        carried = self.run(body, env, trace)
    if fewer is not None:
        if state_of(self.program, body.args[1:], carried, trace) != before:
            raise NotUnderstood(f"the state after {len(places)} trips does not recur", op)
        trace.shortened += 1
    env.update(zip(op.results, carried, strict=True))


def _if(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if op in self.program.guards:
        self.run(self.program.guards[op], env, trace)
        return
    condition = env.get(op.operands[0])
    blocks = [region.block if region.blocks and region.blocks[0].ops else None for region in op.regions]
    if not isinstance(condition, int):
        _either(self, op, blocks, env, trace)
        return
    block = blocks[0 if condition else 1]
    if block is not None:
        env.update(zip(op.results, self.run(block, env, trace), strict=True))


def _either(self: Unrolled, op: Operation, blocks: list[Block | None], env: Environment, trace: Trace) -> None:
    """A branch with an unknown condition: allowed if neither side takes part in the protocol."""
    if any(inner.name in _FORKS for inner in op.walk()):
        number(op, op.operands[0], env, "the condition")
    before, outcomes = len(trace.events), list[list[Known]]()
    for block in blocks:
        if block is not None:
            outcomes.append(self.run(block, env, trace))
    if any(event.kind != "use" for event in trace.events[before:]):
        number(op, op.operands[0], env, "the condition")
    for index, result in enumerate(op.results):
        first = outcomes[0][index]
        same = all(outcome[index] == first for outcome in outcomes)
        tiles = [outcome[index] for outcome in outcomes if isinstance(outcome[index], InFlight)]
        if same:
            env[result] = first
        elif tiles:
            env[result] = InFlight(frozenset(group for tile in tiles for group in tile.groups))  # type: ignore[union-attr]
        else:
            env[result] = Opaque(op)


def _while(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    before, after = op.regions[0].block, op.regions[1].block
    carried = [env.get(value) for value in op.operands]
    left = self.trips_of(op, trace)
    while True:
        env.update(zip(before.args, carried, strict=True))
        _, *handed = self.run(before, env, trace)
        self.tick(op)
        again = number(op, before.terminator.operands[0], env, "the condition") if left is None else left
        left = None if left is None else left - 1
        if not again:
            env.update(zip(op.results, handed, strict=True))
            return
        env.update(zip(after.args, handed, strict=True))
        carried = self.run(after, env, trace)


def _fork(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if trace is not self.main:
        raise NotUnderstood("partitions inside a partition", op)
    fork = WarpSpecializeOp(op)
    handed = [env.get(value) for value in fork.capturing.operands]
    self.segments.append([Trace(trace.partition, trace.events)])
    trace.events = []
    default = Trace("default", issued=trace.issued, done=trace.done)
    segment, results, parts = [default], list[Known](), [(fork.regions[0], env, default)]
    for place, region in enumerate(fork.regions[1:]):
        mine = Trace(f"partition{place}")
        inside: Environment = dict(self.program.constants)
        inside.update(zip(region.blocks[0].args, handed, strict=True))
        segment.append(mine)
        parts.append((region, inside, mine))
    for region, environment, own in sorted(parts, key=lambda it: not self.program.sends(it[0])):
        ended = self.region(region, environment, own)
        results = ended if own is default else results
    self.segments.append(segment)
    trace.issued, trace.done = default.issued, default.done
    env.update(zip(op.results, results, strict=True))


_FORKS = op_names(WarpSpecializeOp, GroupOp)

# -- memory and barriers -----------------------------------------------------------------------------------------------


_CONTROL: dict[str, Handler] = {
    **by_name(
        {
            ForOp: _for,
            IfOp: _if,
            WhileOp: _while,
            WarpSpecializeOp: _fork,
            LocalAllocOp: alloc,
            AddPtrOp: _pointer,
            LoadOp: _load,
        }
    ),
    **dict.fromkeys(NUMBER_OPS, _program_number),
    **dict.fromkeys(sorted(VIEWS), view),
}


def unroll(
    program: BarrierProgram,
    numbers: Mapping[Value, int],
    chosen: Mapping[str, int],
    more: Mapping[str, Handler] | None = None,
    limit: int = MAX_EVENTS,
) -> Unrolled:
    """Unrolls one run with these arguments and other chosen numbers. `more`: handlers of further operations.

    Raises NotUnderstood, NeedsNumber if `chosen` lacks a number, and TooLong past `limit` events and iterations.
    """
    return Unrolled(program, numbers, chosen, more or {}, min(limit, MAX_EVENTS))
