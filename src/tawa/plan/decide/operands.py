"""The paths of a kernel's operands: how each load that feeds a dot reaches its users."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tawa.analysis.loops.prefetchable_loads import AheadLoads
from tawa.analysis.names import LOADS, STORES, Name, name_of, name_text
from tawa.analysis.rings.channels import ChannelInfo
from tawa.analysis.rings.loads import DotLoadInfo
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import DescriptorLoadOp, FuncOp, tma_store
from tawa.errors import PlanError
from tawa.ir import Module, Operation, TensorDescType, Value, parse_type, source_of
from tawa.plan.decide.transposed import transposed_entry
from tawa.plan.fields import OperandPlan, Path, RingPlan, StorePlan
from tawa.plan.plan import Plan
from tawa.symbolic.dim_relations import has_rows


def names_in(module: Module) -> tuple[list[Name], list[Name]]:
    """The names of all loads, and of all stores."""
    loads = [name_of(op) for op in module.walk() if op.name in LOADS]
    return loads, [name_of(op) for op in module.walk() if op.name in STORES]


def moved_loads(module: Module, loads: Sequence[DotLoadInfo], plan: Plan) -> list[DotLoadInfo]:
    """The loads that move to the producer, with their fill. Raises PlanError for an impossible path.

    A row that is loaded through pointers, beside tiles by TMA, stays with the consumer unless the Plan says otherwise:
    a producer of one warp then suffices, and the consumer can load the row one iteration ahead.
    """
    found: list[DotLoadInfo] = []
    beside = _rows_beside_tma(loads)
    for info in loads:
        path, own = plan.operand(name_of(info.load.op)).path, path_of(info, plan)
        if path == "registers" and own == "cp.async":
            info = replace(info, fill="registers")
        elif path == "pointers" and (not isinstance(info.load, DescriptorLoadOp) or _is_for_all(plan, info.load.op)):
            pass  # cp.async if possible, else registers
        elif path not in (None, own, "consumer"):
            raise PlanError(
                f"the Plan loads {_text(module, info.load.op)} by {path}, but it is loaded by {own}"
                f"{_why_not(path, own)}; cure: path={own!r} or 'consumer'"
            )
        if path != "consumer" and not (path is None and info in beside):
            found.append(info)
    if loads and not found:
        raise PlanError("the Plan leaves every load to the consumer, so the producer has no work; cure: form='stock'")
    return found


def _rows_beside_tma(loads: Sequence[DotLoadInfo]) -> list[DotLoadInfo]:
    """The rows through pointers that can be loaded one iteration ahead, if TMA loads everything else."""
    others = [info for info in loads if not isinstance(info.load, DescriptorLoadOp)]
    if not any(has_rows(info.load.op.result) for info in loads if info not in others):
        return []
    return others if all(_is_prefetchable(info.load.op) for info in others) else []


def _is_prefetchable(load: Operation) -> bool:
    loop = next(map(ForOp.of, enclosing_loops(load)), None)
    return loop is not None and load in [it.op for it in AheadLoads(loop).loads()]


def path_of(info: DotLoadInfo, plan: Plan) -> Path:
    """The default path of a tile. plan: says which descriptors replaced pointers."""
    load = info.load
    if not isinstance(load, DescriptorLoadOp):
        return "cp.async" if info.fill == "cp.async" else "registers"
    asked = plan.operand(name_of(load.op)).path
    if _is_made(load.descriptor):
        return "promoted_in_kernel" if asked == "promoted_in_kernel" else "kernel_descriptor"
    return "promoted" if _is_added(load.descriptor) else "host_descriptor"


def store_path(op: Operation) -> Path:
    """The path of a store."""
    store = tma_store(op)
    if store is None:
        return "pointers"
    if _is_made(store.descriptor):
        return "kernel_descriptor"
    return "promoted" if _is_added(store.descriptor) else "host_descriptor"


def rings_of(loads: Sequence[DotLoadInfo], plan: Plan) -> dict[Operation, str]:
    """The rings that the Plan pins for loads."""
    named = {info.load.op: plan.operand(name_of(info.load.op)).ring for info in loads}
    return {op: ring for op, ring in named.items() if ring is not None}


def with_depths(module: Module, channels: Sequence[ChannelInfo], plan: Plan) -> Plan:
    """The Plan with D of each ring, where it has D of the operands of the ring. Raises PlanError if they differ."""
    asked = {it.key: it.depth for it in plan.operands if it.depth is not None and it.argument}
    if not asked:
        return plan
    rings: dict[str, RingPlan] = {}
    carried: set[Name] = set()
    for channel in channels:
        loads = [info.load.op for site in channel.sites for info in site.loads]
        carried |= {name_of(op) for op in loads}
        depths = {op: asked[name_of(op)] for op in loads if name_of(op) in asked}
        if channel.converted or not depths:
            continue
        own = plan.ring(channel.name).depth
        given = sorted({it for it in (*depths.values(), own) if it is not None})
        if len(given) > 1:
            who = "; ".join(f"{_text(module, op)}: D = {depth}" for op, depth in depths.items())
            whole = f"; {channel.name}: D = {own}" if own is not None else ""
            raise PlanError(f"operands that share {channel.name} have different D: {who}{whole}; cure: D = {given[-1]}")
        rings[channel.name] = RingPlan(channel.name, depth=given[0])
    for key in asked:
        if key not in carried:
            raise _not_carried(module, f"D = {asked[key]}", key, carried)
    entries = tuple(replace(it, depth=None) for it in plan.operands)
    return Plan(rings=tuple(rings.values())).over(replace(plan, operands=entries))


def check_carried(module: Module, channels: Sequence[ChannelInfo], asked: Plan) -> None:
    """Raises PlanError if the Plan names the ring of a load that no ring carries."""
    carried = {name_of(info.load.op) for channel in channels for site in channel.sites for info in site.loads}
    known = {name_of(op) for op in module.walk() if op.name in LOADS}
    for it in asked.operands:
        if it.ring is not None and it.key in known - carried:
            raise _not_carried(module, f"a ring, {it.ring},", it.key, carried)


def _not_carried(module: Module, what: str, key: Name, carried: Collection[Name]) -> PlanError:
    place = next((_text(module, op) for op in module.walk() if name_of(op) == key), name_text(key))
    who = "; ".join(_text(module, op) for op in module.walk() if name_of(op) in carried)
    return PlanError(f"the Plan has {what} for {place}, which no ring carries; cure: leave it out, or one of {who}")


def check_sharing(module: Module, channels: Sequence[ChannelInfo]) -> None:
    """Raises PlanError if loads that the Plan puts into one ring cannot share it."""
    seen: dict[str, ChannelInfo] = {}
    for channel in channels:
        other = seen.setdefault(channel.name, channel)
        if other is not channel:
            first, second = (_text(module, it.sites[0].loads[0].load.op) for it in (other, channel))
            raise PlanError(
                f"the Plan puts {first} and {second} into {channel.name}: they are neither loaded "
                "together nor equal tiles loaded one after the other; cure: separate rings"
            )


def operands_of(module: Module, loads: Sequence[DotLoadInfo], channels: Sequence[ChannelInfo], plan: Plan) -> Plan:
    """An entry for each load that feeds a dot, with its path and its ring. Copies of a load share one."""
    moved = {
        info.load.op: (info, it.name) for it in channels if not it.converted for site in it.sites for info in site.loads
    }
    entries: dict[Name, OperandPlan] = {}
    for info in loads:
        op = info.load.op
        own, ring = moved.get(op, (info, None))
        path: Path = "consumer" if ring is None else path_of(own, plan)
        hoisted = plan.operand(name_of(op)).hoisted is True
        how = transposed_entry(module, own)
        made = replace(how, path=path, ring=ring, hoisted=hoisted, line=str(source_of(module, op) or ""))
        first = entries.setdefault(made.key, made)
        if first.ring != ring:
            entries[made.key] = replace(first, ring=None)
    return Plan(operands=tuple(it for it in entries.values() if it.argument is not None))


def stores_of(module: Module) -> list[StorePlan]:
    """An undecided entry for each store by TMA."""
    found = [op for op in module.walk() if tma_store(op)]
    return [StorePlan(*name_of(op), store_path(op), line=str(source_of(module, op) or "")) for op in found]


def _is_for_all(plan: Plan, load: Operation) -> bool:
    """Whether the path of a load comes from the default entry of the Plan."""
    return not any(it.key == name_of(load) and it.path is not None for it in plan.operands)


def _why_not(path: Path, own: Path) -> str:
    if path == "cp.async" and own == "registers":
        return ", because fewer than 4 bytes are contiguous, or masked elements are not zero"
    if path in ("promoted", "promoted_in_kernel") and own in ("cp.async", "registers"):
        return ", because the tile is not a box that TMA can load"
    return ""


def _text(module: Module, op: Operation) -> str:
    where = source_of(module, op)
    return name_text(name_of(op)) + (f" ({where})" if where else "")


def _is_made(descriptor: Value) -> bool:
    """Whether the kernel creates the descriptor, possibly as a loop-carried value."""
    return isinstance(descriptor.owner, Operation) or FuncOp.of(descriptor.owner.parent_op) is None


def _is_added(descriptor: Value) -> bool:
    """Whether the descriptor is an argument that the launcher adds in place of pointers."""
    function = None if isinstance(descriptor.owner, Operation) else FuncOp.of(descriptor.owner.parent_op)
    memory = function.memory_of(descriptor) if function is not None else None
    return memory is not None and not isinstance(parse_type(memory.type), TensorDescType)
