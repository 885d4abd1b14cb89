"""What the interpreter does with operations that have effects or regions.

A handler may be a generator: it yields the mbarrier and the parity that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from bench.reviewed.machine import (
    NEVER,
    Access,
    Barrier,
    Ends,
    InFlight,
    Landing,
    Memory,
    NotModelled,
    Partition,
    View,
    Wrong,
    constant_of,
    element_bits,
    tile_bytes,
)
from tawa.ir import MemDescType, Operation, Value, parse_type, shape_of
from tawa.ir.attributes import read_array, read_int

if TYPE_CHECKING:
    from bench.reviewed.interpreter import Machine

Env = dict[Value, Any]
ENDS = frozenset(
    {"scf.yield", "scf.condition", "tt.return", "ttg.warp_yield", "ttg.warp_return", "tt.reduce.return"}
)  # fmt: skip


def constant(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A number, if the constant is one."""
    env[op.result] = constant_of(op)


def program_id(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The number of the program."""
    axis = op.properties["axis"].split()[0]
    env[op.result] = machine.arguments.get(f"pid{axis}", 0)


def programs(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The size of the grid."""
    axis = op.properties["axis"].split()[0]
    env[op.result] = machine.arguments.get(f"programs{axis}", 1)


# -- control flow ------------------------------------------------------------------------------------------------------


def loop(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """A loop with a counter."""
    low, high, step = (machine.number(it, env, part) for it in op.operands[:3])
    carried = [machine.take(it, env, part, loose=True) for it in op.operands[3:]]
    block = op.regions[0].block
    for number in range(low, high, step):
        for arg, value in zip(block.args, [number, *carried], strict=True):
            env[arg] = value
        carried = yield from machine.block(block, env, part)
    for result, value in zip(op.results, carried, strict=True):
        env[result] = value


def while_loop(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """A loop with a condition."""
    carried = [machine.take(it, env, part, loose=True) for it in op.operands]
    before, after = op.regions[0].block, op.regions[1].block
    for _ in range(1 << 20):
        for arg, value in zip(before.args, carried, strict=True):
            env[arg] = value
        holds, *carried = yield from machine.block(before, env, part)
        if holds is None:
            raise NotModelled("a condition is not known")
        if not holds:
            break
        for arg, value in zip(after.args, carried, strict=True):
            env[arg] = value
        carried = yield from machine.block(after, env, part)
    else:
        raise Wrong(f"a loop of {part.name} does not end")
    for result, value in zip(op.results, carried, strict=True):
        env[result] = value


def branch(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """A branch."""
    taken = op.regions[0 if machine.number(op.operands[0], env, part) else 1]
    found = (yield from machine.block(taken.block, env, part)) if taken.blocks else []
    for result, value in zip(op.results, found, strict=True):
        env[result] = value


def fork(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """Starts the partitions, and waits for them behind the default one."""
    holder = op.regions[1].block.ops[0]
    captures = [machine.take(it, env, part) for it in (op.operands or holder.operands)]
    warps = read_array(op.properties["partitionNumWarps"])
    children: list[Partition] = []
    for number, region in enumerate(holder.regions):
        inner = dict(zip(region.block.args, captures, strict=True))
        child = Partition(f"partition{number}", {**part.clock, f"partition{number}": 1}, warps[number] * 32)
        child.steps = machine.block(region.block, inner, child)
        children.append(child)
    part.tick()
    machine.partitions.extend(children)
    results = yield from machine.block(op.regions[0].block, env, part)
    yield Ends(children), 0
    for result, value in zip(op.results, results, strict=True):
        env[result] = value


# -- shared memory -----------------------------------------------------------------------------------------------------


def alloc(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """An allocation of its own, filled if there is a tile."""
    memory = Memory(op.result.hint or "memory")
    view = View(memory, ((0, tile_bytes(op.result.type)),))
    env[op.result] = view
    if op.operands:
        machine.take(op.operands[0], env, part)
        machine.touch(view, part, "the initial store", True).fenced = True  # Triton adds this fence later


def dealloc(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The end of an allocation: as a write."""
    view = env[op.operands[0]]
    machine.touch(view, part, "the end of the allocation", True)
    for key in [it for it in machine.barriers if it[0] == id(view.memory)]:
        del machine.barriers[key]


def index(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """One slot."""
    view, number, size = env[op.operands[0]], machine.number(op.operands[1], env, part), tile_bytes(op.result.type)
    ((low, high),) = view.where
    if not 0 <= number < (high - low) // size:
        raise Wrong(f"{part.name} uses slot {number} of {(high - low) // size} of {view.memory.name}")
    env[op.result] = View(view.memory, ((low + number * size, low + number * size + size),))


def subslice(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Rows, or parts of rows."""
    view = env[op.operands[0]]
    whole, sliced = parse_type(op.operands[0].type), parse_type(op.result.type)
    assert isinstance(whole, MemDescType) and isinstance(sliced, MemDescType)
    offsets = read_array(op.properties["offsets"])
    if len(view.where) != 1 or len(whole.shape) != 2:
        env[op.result] = view
        return
    bits, ((low, _),) = element_bits(whole.element), view.where
    rows = range(offsets[0], offsets[0] + sliced.shape[0])
    starts = [low + (row * whole.shape[1] + offsets[1]) * bits // 8 for row in rows]
    length = sliced.shape[1] * bits // 8
    if length * 8 == whole.shape[1] * bits:
        env[op.result] = View(view.memory, ((starts[0], starts[-1] + length),))
    else:
        env[op.result] = View(view.memory, tuple((it, it + length) for it in starts))


def same_bytes(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Another view of all bytes."""
    env[op.result] = env[op.operands[0]]


def reinterpret(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The first bytes as another type."""
    view = env[op.operands[0]]
    ((low, _),) = view.where
    env[op.result] = View(view.memory, ((low, low + tile_bytes(op.result.type)),))


def local_store(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """A store of threads."""
    value, view = machine.take(op.operands[0], env, part), env[op.operands[1]]
    machine.touch(view, part, "a store", True)
    view.memory.values[view.where[0][0]] = value
    yield "store"


def local_load(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A load of threads."""
    view = env[op.operands[0]]
    machine.touch(view, part, "a load", False)
    env[op.result] = view.memory.values.get(view.where[0][0], 0 if shape_of(op.result) == (1,) else None)


def fence(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Fences the stores that are ordered before it."""
    every = {id(it.memory): it.memory for it in env.values() if hasattr(it, "memory")}
    for memory in every.values():
        for access in memory.accesses:
            if access.writes and access.generic and access.before(part.clock):
                access.fenced = True


# -- mbarriers ---------------------------------------------------------------------------------------------------------


def init(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """An mbarrier."""
    view, count = env[op.operands[0]], read_int(op.properties["count"])
    machine.touch(view, part, "the initialisation", True)
    name = f"{view.memory.name}[{view.where[0][0] // 8}] {len(machine.barriers)}"
    machine.barriers[id(view.memory), view.where[0][0]] = Barrier(name, count, count)


def inval(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The end of an mbarrier."""
    view = env[op.operands[0]]
    machine.barrier(view, part, "an invalidation")
    machine.touch(view, part, "the invalidation", True)
    del machine.barriers[id(view.memory), view.where[0][0]]


def used(machine: Machine, op: Operation, env: Env, part: Partition, who: str) -> Barrier:
    """The mbarrier of an operation, which is used from now on."""
    view = env[op.operands[0]]
    found = machine.barrier(view, part, who)
    view.memory.accesses = [it for it in view.memory.accesses if it.writes or it.ends[0][0] != part.name]
    machine.touch(view, part, who, False)
    return found


def wait(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """Waits for the end of a phase."""
    if machine.holds(op, 2, env, part):
        yield used(machine, op, env, part, "a wait"), machine.number(op.operands[1], env, part)


def arrive(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Arrivals."""
    if machine.holds(op, 1, env, part):
        count = read_int(op.properties.get("count", "1 : i32"))
        used(machine, op, env, part, "an arrival").arrive(count, part.clock)
        part.tick()


def expect(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """One arrival, and bytes to come."""
    if machine.holds(op, 1, env, part):
        used(machine, op, env, part, "an expectation").arrive(1, part.clock, read_int(op.properties["size"]))
        part.tick()


# -- copies and dots ---------------------------------------------------------------------------------------------------


def described(machine: Machine, value: Value, env: Env, part: Partition, end: tuple[str, int]) -> Access | None:
    """The read of a descriptor that the kernel made."""
    memory = machine.descriptors.get(env[value])
    if memory is None:
        return None
    return memory.access(Access(f"a copy of {part.name}", False, False, ((0, 128),), [end]), part.clock)


def load_tile(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """A TMA load."""
    if not machine.number(op.operands[-1], env, part):
        return
    bar_view, view = env[op.operands[-3]], env[op.operands[-2]]
    bar = machine.barrier(bar_view, part, "a copy")
    access = machine.touch(view, part, "a copy", True, (bar.name, NEVER))
    size = sum(high - low for low, high in view.where)
    reads = described(machine, op.operands[0], env, part, (bar.name, NEVER))
    if reads is not None:
        access.ends = reads.ends
    machine.landings.append(Landing(bar, size, dict(part.clock), access))
    yield "copy"


def store_tile(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A TMA store."""
    end = part.issue("TMA stores")
    machine.touch(env[op.operands[-1]], part, "a TMA store", False, end)
    described(machine, op.operands[0], env, part, end)
    part.tick()


def store_wait(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Waits for TMA stores."""
    part.settle("TMA stores", read_int(op.properties["pendings"]))


def dot(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A wgmma."""
    end = part.issue("wgmmas")
    for operand in op.operands[:2]:
        found = machine.take(operand, env, part)
        if hasattr(found, "memory"):
            machine.touch(found, part, "a wgmma", False, end)
    machine.take(op.operands[2], env, part, loose=True)
    if op.properties.get("isAsync") == "true":
        env[op.result] = InFlight(end)
    else:
        part.settle("wgmmas", 0)
        env[op.result] = None
    part.tick()


def dot_wait(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Waits for wgmmas."""
    part.settle("wgmmas", read_int(op.properties["pendings"]))
    for operand, result in zip(op.operands, op.results, strict=True):
        env[result] = machine.take(operand, env, part, loose=True)


def copy_addresses(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A cp.async."""
    group = part.issued.get("groups", 0) + 1
    access = machine.touch(env[op.operands[1]], part, "a cp.async", True, (f"groups of {part.name}", group), False)
    part.copies.append(access)
    for result in op.results:
        env[result] = None


def commit(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The end of a group of cp.async."""
    part.issue("groups")
    for result in op.results:
        env[result] = None


def group_wait(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Waits for groups of cp.async."""
    part.settle("groups", read_int(op.properties["num"]))
    for result in op.results:
        env[result] = None


def copies_arrive(machine: Machine, op: Operation, env: Env, part: Partition) -> Iterator[object]:
    """Arrivals of all threads, once their cp.async have landed."""
    bar = used(machine, op, env, part, "an arrival of copies")
    for access in part.copies:
        access.ends.append((bar.name, bar.phase + 1))
    part.copies = []
    machine.landings.append(Landing(bar, 0, dict(part.clock), None, part.threads))
    yield "copy"


# -- global memory -----------------------------------------------------------------------------------------------------


def load(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A number in memory."""
    at = machine.take(op.operands[0], env, part)
    env[op.result] = None
    if op.result.type.startswith(("tensor", "!")) or not isinstance(at, tuple):
        return
    table = machine.tables.get(at[0])
    if table is not None:
        env[op.result] = table(at[1]) if callable(table) else table[at[1] % len(table)]
    else:
        env[op.result] = machine.counters.get(at, 0) if not op.result.type.startswith("f") else 0.0


def atomic(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A counter in memory."""
    at = machine.take(op.operands[0], env, part)
    env[op.result] = None
    if op.result.type.startswith("tensor") or not isinstance(at, tuple):
        return
    table, old = machine.tables.get(at[0]), machine.counters.get(at, 0)
    more = machine.take(op.operands[1], env, part)
    machine.counters[at] = old + more if isinstance(more, int) else old
    env[op.result] = table(old) if callable(table) else table[old % len(table)] if table else old


def reduce(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """The only element, if there is one."""
    taken = [machine.take(it, env, part) for it in op.operands]
    for result, operand, value in zip(op.results, op.operands, taken, strict=True):
        env[result] = value if shape_of(operand) == (1,) else None


def make_descriptor(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A descriptor in memory of its own."""
    key = ("made", id(op))
    memory = machine.descriptors.setdefault(key, Memory("a descriptor"))
    access = Access(f"the creation of {part.name}", True, False, ((0, 128),), [(part.name, part.tick())])
    memory.access(access, part.clock)
    env[op.result] = key


def write_descriptor(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """A descriptor at an address."""
    key = machine.take(op.operands[0], env, part)
    memory = machine.descriptors.setdefault(key, Memory("a descriptor"))
    access = Access(f"the creation of {part.name}", True, False, ((0, 128),), [(part.name, part.tick())])
    memory.access(access, part.clock)


def scratch(machine: Machine, op: Operation, env: Env, part: Partition) -> None:
    """Memory for descriptors."""
    env[op.result] = (f"scratch {op.result.hint} {id(op)}", 0)


HANDLERS: dict[str, Callable[[Machine, Operation, Env, Partition], Iterator[object] | None]] = {
    "arith.constant": constant, "tt.get_program_id": program_id, "tt.get_num_programs": programs,
    "scf.for": loop, "scf.while": while_loop, "scf.if": branch, "ttg.warp_specialize": fork,
    "ttg.local_alloc": alloc, "ttg.local_dealloc": dealloc, "ttg.memdesc_index": index,
    "ttg.memdesc_subslice": subslice, "ttg.memdesc_trans": same_bytes, "ttg.memdesc_reshape": same_bytes,
    "ttg.memdesc_reinterpret": reinterpret, "ttg.local_store": local_store, "ttg.local_load": local_load,
    "ttng.fence_async_shared": fence, "ttng.init_barrier": init, "ttng.inval_barrier": inval,
    "ttng.wait_barrier": wait, "ttng.arrive_barrier": arrive, "ttng.barrier_expect": expect,
    "ttng.async_tma_copy_global_to_local": load_tile, "ttng.async_tma_copy_local_to_global": store_tile,
    "ttng.async_tma_store_wait": store_wait, "ttng.warp_group_dot": dot, "ttng.warp_group_dot_wait": dot_wait,
    "ttg.async_copy_global_to_local": copy_addresses, "ttg.async_commit_group": commit, "ttg.async_wait": group_wait,
    "ttng.async_copy_mbarrier_arrive": copies_arrive, "tt.load": load, "tt.atomic_rmw": atomic,
    "tt.make_tensor_descriptor": make_descriptor, "ttng.tensormap_create": write_descriptor,
    "ttng.reinterpret_tensor_descriptor": lambda m, op, env, part: env.__setitem__(op.result, env[op.operands[0]]),
    "ttg.global_scratch_alloc": scratch, "tt.reduce": reduce,
}  # fmt: skip
