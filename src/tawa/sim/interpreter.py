"""The interpreter: executes blocks, structured and unstructured control flow, calls, and concurrent partitions."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from tawa.dialects.aref import ConsumedOp, CreateOp, FilledOp, PutOp
from tawa.dialects.control_flow import successor_operands
from tawa.dialects.declare.declaration import by_name, op_names
from tawa.dialects.scf import ConditionOp, ForOp, IfOp, WhileOp, YieldOp
from tawa.dialects.tt import CallOp, FuncOp, ReturnOp
from tawa.dialects.ttg import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    WarpReturnOp,
    WarpSpecializeOp,
    WarpYieldOp,
)
from tawa.dialects.warp import EndOp, GroupOp
from tawa.ir import Block, Operation, Region
from tawa.sim.errors import EndlessLoop, SimulationError, UnsupportedOp
from tawa.sim.machine.addresses import ADDRESSES
from tawa.sim.machine.cta import STEP, Partition, Pause, Run
from tawa.sim.machine.values import Accumulator, Handler
from tawa.sim.ops import arefs, assembly, asynchronous, tcgen05
from tawa.sim.ops.descriptors import DESCRIPTORS
from tawa.sim.ops.elementwise import ELEMENTWISE
from tawa.sim.ops.extern import EXTERN
from tawa.sim.ops.global_memory import MEMORY
from tawa.sim.ops.tiles import TILES
from tawa.sim.time.cost import delivered_later

_HANDLERS: dict[str, Handler] = {
    **ELEMENTWISE,
    **TILES,
    **MEMORY,
    **ADDRESSES,
    **DESCRIPTORS,
    **EXTERN,
    **tcgen05.VIEWS,
}
_STEPS = {**asynchronous.STEPS, **arefs.STEPS, **tcgen05.STEPS}
_WAITS = {**asynchronous.WAITS, **arefs.WAITS, **assembly.WAITS}
_RETURNS = op_names(YieldOp, ConditionOp, ReturnOp, WarpYieldOp, WarpReturnOp, EndOp, FilledOp)
# The operations in their regions are timed, not the operations themselves.
_NESTING = op_names(ForOp, IfOp, WhileOp, CallOp, WarpSpecializeOp, GroupOp)
# The scheduler may switch partitions after these operations.
_PROTOCOL = frozenset(name for name in _STEPS if name.startswith("ttng.")) | op_names(
    AsyncCopyGlobalToLocalOp, AsyncCommitGroupOp, AsyncWaitOp, CreateOp, PutOp, ConsumedOp
)


def run_block(partition: Partition, block: Block) -> Run:
    """Executes a block of a structured region; returns the operands of its terminator."""
    returned, successor = yield from _block(partition, block)
    if successor is not None:
        raise UnsupportedOp("a branch inside a structured region")
    return returned


def run_region(partition: Partition, region: Region, args: list[Any]) -> Run:
    """Executes blocks from the entry block, following branches; returns the operands of the last terminator."""
    block: Block | None = region.blocks[0]
    returned = args
    while block is not None:
        partition.env.update(zip(block.args, returned, strict=True))
        returned, block = yield from _block(partition, block)
    return returned


def _block(partition: Partition, block: Block) -> Generator[Pause, None, tuple[list[Any], Block | None]]:
    env, freed = partition.env, partition.cta.freed(block)
    for op in block.ops:
        args = [env[value] for value in op.operands]
        if op.name in _RETURNS:
            if partition.recorder:
                partition.recorder.step(op, None)
            return args, None
        if op.successors:
            return _branch(op, args)
        partition.at = op
        try:
            handler = _HANDLERS.get(op.name)
            if handler is not None:
                results = handler(partition, op, [it.use() if isinstance(it, Accumulator) else it for it in args])
            elif op.name in _STEPS:
                results = _STEPS[op.name](partition, op, args)
            else:
                results = yield from _wait(partition, op, args)
                partition.at = op
        except SimulationError as error:
            raise partition.cta.located(error, op, partition) from None
        env.update(zip(op.results, results, strict=True))
        for allocation in freed.get(op, ()):
            try:
                asynchronous.free(partition, allocation)
            except SimulationError as error:
                raise partition.cta.located(error, allocation, partition) from None
        if partition.recorder and op.name not in _NESTING:
            partition.recorder.step(op, partition.cta.line(op), later=delivered_later(op))
        if op.name in _PROTOCOL:
            yield STEP
    return [], None


def _wait(partition: Partition, op: Operation, args: list[Any]) -> Run:
    """Executes an operation that may wait, by itself or in its regions."""
    if op.name in _WAITS:
        return _WAITS[op.name](partition, op, args)
    handler = _WITH_REGIONS.get(op.name)
    if handler is None:
        raise UnsupportedOp("tawa.sim does not implement this operation")
    return handler(partition, op, args)


def _branch(op: Operation, args: list[Any]) -> tuple[list[Any], Block]:
    edges = successor_operands(op)
    if not edges:
        raise UnsupportedOp("an unknown kind of branch")
    following, uses = edges[0] if len(edges) == 1 or args[0] else edges[1]
    return [args[use.index] for use in uses], following


def _for(partition: Partition, op: Operation, args: list[Any]) -> Run:
    lower, upper, step, *carried = args
    trips = ForOp(op).trips(int(lower), int(upper), int(step))
    if trips is None:
        raise EndlessLoop(f"a loop with step {step} from {lower} to {upper} never ends")
    body = op.regions[0].block
    for trip in range(trips):
        partition.env.update(zip(body.args, (lower + trip * step, *carried), strict=True))
        carried = yield from run_block(partition, body)
    return carried


def _if(partition: Partition, op: Operation, args: list[Any]) -> Run:
    region = op.regions[0 if args[0] else 1]
    if not region.blocks or not region.blocks[0].ops:
        return []
    return (yield from run_block(partition, region.block))


def _while(partition: Partition, op: Operation, args: list[Any]) -> Run:
    before, after = (region.block for region in op.regions)
    while True:
        partition.env.update(zip(before.args, args, strict=True))
        go_on, *args = yield from run_block(partition, before)
        if not go_on:
            return args
        partition.env.update(zip(after.args, args, strict=True))
        args = yield from run_block(partition, after)


def _call(partition: Partition, op: Operation, args: list[Any]) -> Run:
    name = op.properties["callee"].strip('@"')
    function = next((it for it in partition.cta.module.body.ops if (view := FuncOp.of(it)) and view.name == name), None)
    if function is None:
        raise UnsupportedOp(f"a call of {name}, which is not defined in the module")
    caller, partition.env = partition.env, {}
    results = yield from run_region(partition, function.regions[0], args)
    partition.env = caller
    return results


def _warp_specialize(partition: Partition, op: Operation, args: list[Any]) -> Run:
    view = WarpSpecializeOp(op)
    captures = [partition.env[value] for value in view.capturing.operands]
    members = [partition.cta.spawn("default", partition.env, partition.agent)]
    members[0].code = run_region(members[0], view.regions[0], [])
    members[0].wgmmas, members[0].stores = partition.wgmmas, partition.stores
    members[0].copies, members[0].unfenced = partition.copies, partition.unfenced
    members[0].fenced_copies = partition.fenced_copies
    for number, region in enumerate(view.regions[1:]):
        member = partition.cta.spawn(f"partition{number}", {})
        member.fenced_copies = partition.fenced_copies
        member.code = run_region(member, region, captures)
        members.append(member)
    yield from partition.fork_and_join(op, members, "all partitions to end")
    partition.fenced_copies = members[0].fenced_copies
    return members[0].outcome or []


def _groups(partition: Partition, op: Operation, args: list[Any]) -> Run:
    return arefs.run_groups(partition, op, run_block)


def _put(partition: Partition, op: Operation, args: list[Any]) -> Run:
    return arefs.put(partition, op, args, run_block)


_WITH_REGIONS: dict[str, Callable[[Partition, Operation, list[Any]], Run]] = by_name(
    {
        ForOp: _for,
        IfOp: _if,
        WhileOp: _while,
        CallOp: _call,
        WarpSpecializeOp: _warp_specialize,
        GroupOp: _groups,
        PutOp: _put,
    }
)
"""Operations that execute regions or callees."""
