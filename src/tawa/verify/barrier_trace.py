"""Unrolls a barrier-level program, for given numbers, into one straight line of protocol events a partition.

    for k in range(n): wait full[s], p; dot; arrive empty[s]      n = 2
      →  wait full[0] 0; dot reads a[0]; arrive empty[0]; wait full[1] 0; dot reads a[1]; arrive empty[1]

Scalars are computed, tiles are not: of a tile only the wgmma groups that still write it are known. What decides
control flow, slots, parities and predicates must be a number; everything else is skipped (`barrier_program`).
An operation that touches shared memory or barriers in a way not known here raises `NotUnderstood`, never a guess.

Longer than most files: one short function for each operation, and the table that names them all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tawa.dialects.registry import UNKNOWN, spec_of
from tawa.dialects.scalars import evaluate, width_of
from tawa.dialects.ttg import VIEWS, WarpSpecializeOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.ir import Block, MemDescType, Operation, Value, parse_type
from tawa.ir.attributes import read_array, read_int
from tawa.verify.barrier_program import (
    CLOSED,
    NUMBER_OPS,
    BarrierProgram,
    Memory,
    NotUnderstood,
    branches,
    captures,
    is_number,
)


class NeedsNumber(Exception):
    """Control flow depends on a number read from memory: the caller chooses one for `key` and tries again."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@dataclass(frozen=True, slots=True)
class InFlight:
    """A tile that wgmma groups (by number, of the partition that holds it) may still write."""

    groups: frozenset[int]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A scalar that is not known, and the operation that made it."""

    op: Operation | None


Known = int | Memory | InFlight | Opaque | str | None
Environment = dict[Value, Known]


@dataclass(slots=True, eq=False)
class Event:
    """One protocol event. `amount`: arrivals, bytes, or groups that may stay in flight."""

    kind: str
    op: Operation
    memory: tuple[Memory, ...] = ()
    barrier: Memory | None = None
    amount: int = 0
    parity: int = 0


@dataclass(slots=True)
class Trace:
    """What one partition does. `issued`, `done`: wgmma groups so far, and of these the first that may be in flight."""

    partition: str
    events: list[Event] = field(default_factory=list[Event])
    issued: int = 0
    done: int = 0


Segment = list[Trace]
"""Partitions that run side by side; one trace alone before the fork and behind the join."""

_MAX_EVENTS = 50_000

# -- unrolling ---------------------------------------------------------------------------------------------------------


class Unrolled:
    """One unrolling. `segments`: what happens; `broken`: an assumption of the program that does not hold."""

    def __init__(
        self,
        program: BarrierProgram,
        numbers: Mapping[Value, int],
        chosen: Mapping[str, int],
        more: Mapping[str, Handler],
    ) -> None:
        self.program = program
        self.more = more
        self.chosen = chosen
        self.segments: list[Segment] = []
        self.broken = False
        self.assumed: dict[Operation, None] = {}
        self.count = 0
        self.alloc_numbers = {op: number for number, op in enumerate(program.allocations)}
        environment: Environment = {arg: numbers.get(arg, Opaque(None)) for arg in program.entry.args}
        for arg in program.entry.args:
            if arg.type.startswith("!tt.ptr"):
                environment[arg] = f"arg{arg.index}"
        self.main = Trace("default")
        self._function(environment)
        self.segments.append([self.main])

    def _function(self, env: Environment) -> None:
        block = self.program.entry
        for _ in range(10_000):
            self.run(block, env, self.main)
            end = block.terminator
            if end.name == "cf.br":
                following, given = end.successors[0], list(end.operands)
            elif end.name == "cf.cond_br":
                condition = env.get(end.operands[0])
                if not isinstance(condition, int):
                    raise NotUnderstood("a branch whose condition is not a number", end)
                following, given = branches(end)[0 if condition else 1]
            else:
                return
            env.update(zip(following.args, [env.get(value) for value in given], strict=True))
            block = following
        raise NotUnderstood("the branches do not end", self.program.function)

    def run(self, block: Block, env: Environment, trace: Trace) -> list[Known]:
        """Runs one block; the operands of its terminator."""
        for op in self.program.kept_in(block):
            handler = self.more.get(op.name) or _HANDLERS.get(op.name) or _by_kind(op)
            handler(self, op, env, trace)
        return [env.get(operand) for operand in block.terminator.operands]

    def emit(self, trace: Trace, event: Event) -> None:
        """Adds an event."""
        trace.events.append(event)
        self.count += 1
        if self.count > _MAX_EVENTS:
            raise NotUnderstood(f"more than {_MAX_EVENTS} protocol events in one run", event.op)


Handler = Callable[[Unrolled, Operation, Environment, Trace], None]


def number(op: Operation, value: Value, env: Environment, what: str) -> int:
    """What an operand is; raises NotUnderstood where it is not a number."""
    known = env.get(value)
    if isinstance(known, int):
        return known
    cause = known.op.name if isinstance(known, Opaque) and known.op is not None else "an unknown value"
    raise NotUnderstood(f"{what} of {op.name} depends on {cause}", op)


def _memory(op: Operation, value: Value, env: Environment) -> Memory:
    known = env.get(value)
    if isinstance(known, Memory):
        return known
    raise NotUnderstood(f"{op.name} touches shared memory that is not an allocation of this kernel", op)


def holds(op: Operation, condition: Value | None, env: Environment) -> bool:
    """Whether a predicated operation takes place."""
    return condition is None or bool(number(op, condition, env, "the predicate"))


def predicate(op: Operation, after: int) -> Value | None:
    """The i1 operand at or behind position `after`."""
    rest = [operand for operand in op.operands[after:] if operand.type == "i1"]
    return rest[0] if rest else None


def _check_uses(self: Unrolled, op: Operation, env: Environment, trace: Trace, skip: int = -1) -> None:
    for index, operand in enumerate(op.operands):
        known = env.get(operand) if index != skip else None
        if isinstance(known, InFlight) and any(group >= trace.done for group in known.groups):
            self.emit(trace, Event("use", op))


def _scalar(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    compute = self.program.scalar(op)
    inputs = [env.get(operand) for operand in op.operands]
    numbers = [known if isinstance(known, int) else None for known in inputs]
    if compute is not None and None not in numbers:
        made: int | None = compute(*numbers)
    else:
        (made,) = evaluate(op, numbers) if len(op.results) == 1 else (None,)
    if made is not None:
        env[op.result] = made
        return
    blame = next((known for known in inputs if isinstance(known, Opaque)), Opaque(op))
    for result in op.results:
        env[result] = blame


def _program_number(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    key = f"{NUMBER_OPS[op.name]}({read_int(op.properties.get('axis', '0 : i32'))})"
    if key not in self.chosen:
        raise NeedsNumber(key)
    env[op.result] = self.chosen[key]


def _pointer(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    base, offset = (env.get(operand) for operand in op.operands)
    env[op.result] = f"{base}+{offset}" if isinstance(base, str) and isinstance(offset, int) else Opaque(op)


def _load(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    _check_uses(self, op, env, trace)
    address = env.get(op.operands[0])
    if not isinstance(address, str) or width_of(op.result.type) is None:
        for result in op.results:
            env[result] = Opaque(op)
        return
    key = f"*({address})"
    if key not in self.chosen:
        raise NeedsNumber(key)
    env[op.result] = self.chosen[key]


def _value(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    """A tile operation: its operands must be complete."""
    if any("!ttg.memdesc" in value.type for value in (*op.operands, *op.results)):
        raise NotUnderstood(f"{op.name} touches shared memory in a way this check does not know", op)
    if spec_of(op.name) is UNKNOWN and op.name.startswith(CLOSED):
        raise NotUnderstood(f"{op.name} is not known to this check", op)
    _check_uses(self, op, env, trace)
    for region in op.regions:
        for block in region.blocks:
            self.run(block, env, trace)
    for result in op.results:
        env[result] = Opaque(op)


# -- control flow ------------------------------------------------------------------------------------------------------


def _for(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    lower, upper, step = (number(op, value, env, "a bound") for value in op.operands[:3])
    if step <= 0:
        raise NotUnderstood(f"a loop with step {step}", op)
    body = op.regions[0].block
    carried = [env.get(value) for value in op.operands[3:]]
    for induction in range(lower, upper, step):
        env[body.args[0]] = induction
        env.update(zip(body.args[1:], carried, strict=True))
        self.count += 1
        if self.count > _MAX_EVENTS:
            raise NotUnderstood(f"more than {_MAX_EVENTS} iterations and events in one run", op)
        carried = self.run(body, env, trace)
    env.update(zip(op.results, carried, strict=True))


def _if(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    condition = env.get(op.operands[0])
    blocks = [region.block if region.blocks and region.blocks[0].ops else None for region in op.regions]
    if not isinstance(condition, int):
        _either(self, op, blocks, env, trace)
        return
    block = blocks[0 if condition else 1]
    if block is not None:
        env.update(zip(op.results, self.run(block, env, trace), strict=True))


def _either(self: Unrolled, op: Operation, blocks: list[Block | None], env: Environment, trace: Trace) -> None:
    """A condition that is not a number: fine as long as neither branch takes part in the protocol."""
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
    while True:
        env.update(zip(before.args, carried, strict=True))
        _, *handed = self.run(before, env, trace)
        self.count += 1
        if self.count > _MAX_EVENTS:
            raise NotUnderstood("a while loop that does not end", op)
        if not number(op, before.terminator.operands[0], env, "the condition"):
            env.update(zip(op.results, handed, strict=True))
            return
        env.update(zip(after.args, handed, strict=True))
        carried = self.run(after, env, trace)


def _fork(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if trace is not self.main:
        raise NotUnderstood("partitions inside a partition", op)
    view = WarpSpecializeOp(op)
    handed = [env.get(value) for value in captures(op)]
    self.segments.append([Trace(trace.partition, trace.events)])
    trace.events = []
    default = Trace("default", issued=trace.issued, done=trace.done)
    results = self.run(view.default, env, default)
    segment = [default]
    for number, block in enumerate(view.partitions):
        mine = Trace(f"partition{number}")
        self.run(block, dict(zip(block.args, handed, strict=True)), mine)
        segment.append(mine)
    self.segments.append(segment)
    trace.issued, trace.done = default.issued, default.done
    env.update(zip(op.results, results, strict=True))


# -- memory and barriers -----------------------------------------------------------------------------------------------


def _alloc(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = Memory(self.alloc_numbers[op])
    env[op.result] = memory
    if op.operands:
        _check_uses(self, op, env, trace)
        self.emit(trace, Event("write", op, (memory,)))


def _view(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = _memory(op, op.operands[0], env)
    match op.name:
        case "ttg.memdesc_index":
            if memory.reshaped or memory.box is not None:
                raise NotUnderstood("an index into a reshaped view of shared memory", op)
            slot = number(op, op.operands[1], env, "the slot")
            memory = memory._replace(path=(*memory.path, slot))
        case "ttg.memdesc_subslice":
            if memory.reshaped or memory.box is not None:
                raise NotUnderstood("a slice of a reshaped view of shared memory", op)
            offsets, type = read_array(op.properties["offsets"]), parse_type(op.result.type)
            assert isinstance(type, MemDescType)
            box = tuple((start, start + size) for start, size in zip(offsets, type.shape, strict=True))
            memory = memory._replace(box=box)
        case "ttg.memdesc_trans":
            pass
        case _:
            memory = memory._replace(reshaped=True)
    env[op.result] = memory


def _init(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    count = read_int(op.properties["count"])
    self.emit(trace, Event("init", op, barrier=_memory(op, op.operands[0], env), amount=count))


def _inval(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("inval", op, barrier=_memory(op, op.operands[0], env)))


def _wait(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if holds(op, predicate(op, 2), env):
        parity = number(op, op.operands[1], env, "the parity") & 1
        self.emit(trace, Event("wait", op, barrier=_memory(op, op.operands[0], env), parity=parity))


def _arrive(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if holds(op, predicate(op, 1), env):
        count = read_int(op.properties.get("count", "1 : i32"))
        self.emit(trace, Event("arrive", op, barrier=_memory(op, op.operands[0], env), amount=count))


def _expect(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    if holds(op, predicate(op, 1), env):
        size = read_int(op.properties["size"])
        self.emit(trace, Event("expect", op, barrier=_memory(op, op.operands[0], env), amount=size))


def _copy_in(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    views = [index for index, operand in enumerate(op.operands) if operand.type.startswith("!ttg.memdesc")]
    if len(views) != 2 or op.properties.get("multicast", "false") not in ("false", ""):
        raise NotUnderstood("a TMA copy of an unknown form", op)
    barrier, target = (op.operands[index] for index in views)
    if holds(op, predicate(op, views[1] + 1), env):
        type = parse_type(target.type)
        assert isinstance(type, MemDescType)
        memory = _memory(op, target, env)
        self.emit(trace, Event("copy in", op, (memory,), _memory(op, barrier, env), type.bytes))


def _copy_out(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    sources = [operand for operand in op.operands if operand.type.startswith("!ttg.memdesc")]
    self.emit(trace, Event("copy out", op, tuple(_memory(op, source, env) for source in sources)))


def _pendings(kind: str) -> Handler:
    def handle(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
        pendings = read_int(op.properties.get("pendings") or op.properties.get("num") or "0 : i32")
        self.emit(trace, Event(kind, op, amount=pendings))

    return handle


def _plain(kind: str) -> Handler:
    def handle(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
        self.emit(trace, Event(kind, op))

    return handle


def _store(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    _check_uses(self, op, env, trace)
    self.emit(trace, Event("write", op, (_memory(op, op.operands[1], env),)))


def _read(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("read", op, (_memory(op, op.operands[0], env),)))


def _dealloc(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    memory = _memory(op, op.operands[0], env)
    if not _holds_barriers(op.operands[0]):
        self.emit(trace, Event("free", op, (memory,)))


def _holds_barriers(value: Value) -> bool:
    type = parse_type(value.type)
    return isinstance(type, MemDescType) and type.element == "i64"


def _async_copy(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    self.emit(trace, Event("cp.async", op, (_memory(op, op.operands[1], env),)))


def _dot(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    view = WarpGroupDotOp(op)
    _check_uses(self, op, env, trace, skip=2)
    reads = tuple(_memory(op, operand, env) for operand in (view.a, view.b) if operand.type.startswith("!ttg.memdesc"))
    number = trace.issued
    trace.issued += 1
    if view.is_async:
        before = env.get(view.accumulator)
        groups = before.groups if isinstance(before, InFlight) else frozenset[int]()
        env[op.result] = InFlight(frozenset({number, *(group for group in groups if group >= trace.done)}))
        self.emit(trace, Event("dot", op, reads))
        return
    trace.done = trace.issued  # it waits for itself, and so for everything before it
    env[op.result] = None
    self.emit(trace, Event("dot", op, reads))
    self.emit(trace, Event("dot wait", op))


def _dot_wait(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    pendings = read_int(op.properties["pendings"])
    trace.done = max(trace.done, trace.issued - pendings)
    for operand, result in zip(op.operands, op.results, strict=True):
        env[result] = env.get(operand)
    self.emit(trace, Event("dot wait", op, amount=pendings))


def _assume(self: Unrolled, op: Operation, env: Environment, trace: Trace) -> None:
    known = env.get(op.operands[0])
    if isinstance(known, int):
        self.assumed[op] = None
        self.broken |= not known


_PROTOCOL: dict[str, Handler] = {
    "ttng.init_barrier": _init,
    "ttng.inval_barrier": _inval,
    "ttng.wait_barrier": _wait,
    "ttng.arrive_barrier": _arrive,
    "ttng.barrier_expect": _expect,
    "ttng.async_tma_copy_global_to_local": _copy_in,
    "ttng.async_tma_copy_local_to_global": _copy_out,
    "ttng.async_tma_reduce": _copy_out,
    "ttng.async_tma_store_wait": _pendings("store wait"),
    "ttng.fence_async_shared": _plain("fence"),
    "ttg.local_store": _store,
    "ttg.local_load": _read,
    "ttg.local_dealloc": _dealloc,
    "ttg.async_copy_global_to_local": _async_copy,
    "ttg.async_commit_group": _plain("cp.async commit"),
    "ttg.async_wait": _pendings("cp.async wait"),
    "ttng.warp_group_dot": _dot,
    "ttng.warp_group_dot_wait": _dot_wait,
    "llvm.intr.assume": _assume,
}

_CONTROL: dict[str, Handler] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.while": _while,
    "ttg.warp_specialize": _fork,
    "ttg.local_alloc": _alloc,
    "tt.addptr": _pointer,
    "tt.load": _load,
    **dict.fromkeys(NUMBER_OPS, _program_number),
    **dict.fromkeys(sorted(VIEWS), _view),
}


_HANDLERS = {**_PROTOCOL, **_CONTROL}


def _by_kind(op: Operation) -> Handler:
    return _scalar if op.name.startswith("arith.") and op.results and is_number(op.result.type) else _value


def unroll(
    program: BarrierProgram,
    numbers: Mapping[Value, int],
    chosen: Mapping[str, int],
    more: Mapping[str, Handler] | None = None,
) -> Unrolled:
    """The events of one run with these arguments and other chosen numbers. `more`: what other operations do.

    Raises NotUnderstood, and NeedsNumber where `chosen` lacks one.
    """
    return Unrolled(program, numbers, chosen, more or {})


Signature = tuple[tuple[tuple[object, ...], ...], ...]


def signature(segments: list[Segment]) -> Signature:
    """What two unrollings with the same events have in common."""
    return tuple(
        tuple((event.kind, event.op, event.memory, event.barrier, event.amount, event.parity) for event in trace.events)
        for segment in segments
        for trace in segment
    )


__all__ = [
    "BarrierProgram",
    "Event",
    "Memory",
    "NeedsNumber",
    "NotUnderstood",
    "Segment",
    "Trace",
    "Unrolled",
    "unroll",
]
