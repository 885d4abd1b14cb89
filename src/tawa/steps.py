"""The steps of the pipeline that are decisions, or that combine a pass with a decision.

A decision fills in fields of the Plan and changes nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from tawa.analysis.names import drop_names, name_module
from tawa.declines import NO_EXCHANGE, NOT_OURS, SPLIT_K, SPLIT_WARPS, TILE_ORDER
from tawa.flow import Flow
from tawa.ir.attributes import int_attr
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan import Plan
from tawa.plan.decide.direct import choose_direct
from tawa.plan.decide.loops import choose_ahead, choose_kept, choose_schedules, choose_unrolled, scheduled
from tawa.plan.decide.orders import choose_orders
from tawa.plan.decide.paths import choose_promotions, choose_unit_strides
from tawa.plan.decide.ping_pong import choose_sections
from tawa.plan.decide.rings import MAX_REGISTERS, find_facts
from tawa.plan.decide.rings import decide_rings as choose_rings
from tawa.plan.decide.split import axis_of, choose_split
from tawa.plan.decide.sums import choose_sums
from tawa.plan.decide.tiles import choose_group
from tawa.plan.search.compiled import warps_of_group
from tawa.remarks import Remark
from tawa.symbolic.host.expr import Condition
from tawa.transforms.epilogue.direct_stores import DirectStores
from tawa.transforms.result import Pass, PassResult
from tawa.transforms.ttir.dynamic_tiles import DynamicTiles, forget_order
from tawa.transforms.ttir.exchange_operands import ExchangeOperands
from tawa.transforms.ttir.group_programs import GroupPrograms
from tawa.transforms.ttir.late_sums import LateSums
from tawa.transforms.ttir.make_persistent import MakePersistent
from tawa.transforms.ttir.order_rows import OrderRows
from tawa.transforms.ttir.promote_to_tma import PromoteToTma
from tawa.transforms.ttir.split_k import SplitK
from tawa.transforms.ttir.split_rows import SplitRows
from tawa.transforms.ttir.unit_strides import UNIT_STRIDE

R = TypeVar("R", bound=PassResult)

NOT_ALONE = "programs that share a tile have a grid of their own, which is neither persistent nor shared by groups"
NO_ORDER = "the kernel orders its tiles itself, since its form is not persistent"


def name(flow: Flow) -> None:
    """Names loads, stores and loops."""
    name_module(flow.module, persistent=flow.plan.form == "persistent")


def decide_strides(flow: Flow) -> None:
    """Decides which arguments the kernel assumes to be 1."""
    flow.strides = choose_unit_strides(flow.module, flow.launching, flow.plan)


def decide_promotions(flow: Flow) -> Remark | None:
    """Decides which pointer accesses TMA makes. Declines the kernel if the user asked for all, and not all can be."""
    name_module(flow.module)
    found = choose_promotions(flow.module, flow.options, flow.launching, flow.plan)
    if isinstance(found, Remark):
        flow.remarks.append(found)
    else:
        flow.promotion, flow.plan = found, found.plan.over(flow.plan)
        flow.why |= found.why
        return found.refusal
    return None


def promote_loads(flow: Flow) -> None:
    """Promotes the chosen accesses to TMA."""
    if flow.promotion is None:
        return
    made = PromoteToTma(flow.promotion.info, flow.promotion.loads, flow.promotion.stores).run(flow.module)
    flow.remarks += made.remarks
    if not made.promoted:
        return
    ones = tuple(Condition(it, UNIT_STRIDE, 1, 1) for it in flow.strides)
    flow.launch = replace(made.launch, conditions=(*ones, *made.launch.conditions))
    flow.remarks += [Remark("done", f"taken for granted: {'; '.join(made.taken)}")] if made.taken else []
    flow.promoted = made.promoted
    flow.plan = Plan(unit_strides=tuple(it.name for it in flow.strides)).over(flow.plan)
    flow.target = replace(flow.target, stock_copies="elements" if flow.strides else "rows")


def order_rows(flow: Flow) -> None:
    """Decides the order of the rows of operands, and loads them in that order."""
    name_module(flow.module)
    found = choose_orders(flow.module, flow.options, flow.launching, flow.launch, flow.plan)
    made = _carried_out(flow, OrderRows(found.ordered, flow.launch, flow.launching.nested))
    drop_names(flow.module)
    flow.launch, flow.plan = made.launch, found.plan.over(flow.plan)
    flow.remarks += made.remarks
    flow.why |= found.why


def _carried_out(flow: Flow, it: Pass[R]) -> R:
    """The result of a pass that may make another form of the kernel."""
    made = it.run(flow.module)
    flow.changed |= made.changed
    return made


def _launched(flow: Flow, it: Pass[R], choice: str) -> R | Remark:
    """The same for a form of which the launcher must know. The remark declines the kernel. choice: what asks for it."""
    if not flow.launching.ours:
        return NOT_OURS.remark(choice=choice)
    made = _carried_out(flow, it)
    return made if made.changed else made.remarks[0]


def split_k(flow: Flow) -> Remark | None:
    """Lets several programs share the loop of a tile, if the Plan says so."""
    shares = flow.plan.split_k or 1
    if shares < 2:
        return None
    if flow.launching.ours and (flow.plan.form == "persistent" or flow.plan.split == "programs"):
        return SPLIT_K.remark(None, "form='as_written', and no split='programs'", why=f"split_k={shares}: {NOT_ALONE}")
    made = _launched(flow, SplitK(shares, flow.target.num_warps, flow.launching.nested), "split_k")
    if isinstance(made, Remark):
        return made
    flow.launch = replace(flow.launch, shared=made.shared)
    flow.remarks += made.remarks
    return None


def make_persistent(flow: Flow) -> Remark | None:
    """Puts a loop over tiles around the kernel if its form is persistent."""
    if flow.plan.form != "persistent":
        if flow.plan.tile_order not in (None, "launch"):
            cure = "form='persistent', or leave tile_order out"
            return TILE_ORDER.remark(None, cure, order=repr(flow.plan.tile_order), why=NO_ORDER)
        return None
    group = choose_group(flow.module, flow.plan, flow.target.machine)
    plan = flow.plan.over(group).over(Plan(tile_order="launch", tiles="strided"))
    made = _launched(flow, MakePersistent(plan.tile_order or "launch", plan.tile_group or 1), "persistent=True")
    if isinstance(made, Remark):
        return made
    flow.launch, flow.plan = replace(flow.launch, axes=made.axes), plan
    return None


def take_tiles(flow: Flow) -> Remark | None:
    """Lets programs take their tiles from a counter, if the Plan says so."""
    dynamic = flow.plan.tiles == "dynamic"
    made = _launched(flow, DynamicTiles(), "tiles='dynamic'") if dynamic else None
    forget_order(flow.module)
    flow.launch = replace(flow.launch, counter=dynamic)
    return made if isinstance(made, Remark) else None


def group_programs(flow: Flow) -> Remark | None:
    """Makes several programs the consumer groups of one CTA, if the Plan splits the grid."""
    groups = flow.plan.groups or 1
    if flow.plan.split != "programs" or groups < 2:
        return None
    made = _launched(flow, GroupPrograms(groups), "split='programs'")
    if isinstance(made, Remark):
        return made
    flow.launch = replace(flow.launch, grouped=made.grouped)
    flow.target = replace(flow.target, groups=groups)
    return None


def split_rows(flow: Flow) -> Remark | None:
    """Turns the kernel into the program of one consumer group if several groups share a tile."""
    groups = flow.plan.groups or 1
    if groups < 2 or flow.plan.split == "programs":
        return None
    warps = warps_of_group(flow.target.num_warps, groups)
    if warps is None:
        enough = groups * WARP_GROUP
        return SPLIT_WARPS.remark(num_warps=flow.target.num_warps, groups=groups, size=WARP_GROUP, enough=enough)
    exchanges = flow.plan.exchange is not False and flow.plan.split != "columns"
    exchanges = exchanges and _carried_out(flow, ExchangeOperands(groups)).changed
    if not exchanges and flow.plan.exchange is not False and axis_of(flow.module, groups, flow.plan) == "columns":
        exchanges = _carried_out(flow, ExchangeOperands(groups, "columns")).changed
    if flow.plan.exchange and not exchanges:
        return NO_EXCHANGE.remark()
    found = choose_split(flow.module, groups, flow.plan)
    if isinstance(found, Remark):
        return found
    decided, info = replace(found[0], exchange=exchanges or None), found[1]
    _carried_out(flow, SplitRows(info))
    flow.plan = decided.over(flow.plan)
    flow.target = replace(flow.target, num_warps=warps, groups=groups)
    return None


def sum_late(flow: Flow) -> None:
    """Adds up running sums across threads after their loops, if that is allowed."""
    decided, sums = choose_sums(flow.module, flow.options, flow.plan)
    _carried_out(flow, LateSums(sums))
    flow.plan = decided.over(flow.plan)


def store_directly(flow: Flow) -> None:
    """Lets fp32 stores through pointers leave from the layout of the dot, where a conversion would take ring memory."""
    decided, stores = choose_direct(flow.module, flow.target.groups, flow.plan)
    flow.remarks += DirectStores(stores).run(flow.module).remarks
    flow.plan = decided.over(flow.plan)


def decide_rings(flow: Flow) -> Remark | None:
    """Makes all decisions except those about partitioned loops, or declines the kernel."""
    found = find_facts(flow.module, flow.target, flow.plan, flow.options)
    if isinstance(found, Remark):
        return found
    flow.facts = found
    made = choose_rings(flow.module, found, flow.options, flow.target, flow.plan, flow.pins, flow.pinned, flow.space)
    if isinstance(made, Remark):
        return made
    flow.plan, flow.why = made.plan, {**flow.why, **made.why}
    flow.notes += made.notes
    flow.module.op.attributes.pop(MAX_REGISTERS, None)  # of the launch: the Plan's cap takes its place
    if made.plan.max_registers:
        flow.module.op.attributes[MAX_REGISTERS] = int_attr(made.plan.max_registers)
    return None


def decide_kept(flow: Flow) -> None:
    """Decides which left operands stay in registers."""
    order = [it.key for it in flow.plan.loops]
    found = flow.plan.over(choose_kept(flow.module, flow.plan))
    flow.plan = replace(found, loops=tuple(sorted(found.loops, key=lambda it: order.index(it.key))))


def decide_ping_pong(flow: Flow) -> None:
    """Decides which dots are issued in one section, for ping-pong."""
    flow.plan = flow.plan.over(choose_sections(flow.module, flow.plan))


def decide_unrolled(flow: Flow) -> None:
    """Decides whether loops over masked rows become straight code."""
    flow.plan = flow.plan.over(choose_unrolled(flow.module, flow.plan))


def decide_ahead(flow: Flow) -> None:
    """Decides which loads of consumers are prefetched."""
    flow.plan = flow.plan.over(choose_ahead(flow.module, flow.plan, flow.target.spills))


def decide_loops(flow: Flow) -> None:
    """Decides schedules."""
    schedules = choose_schedules(flow.module, flow.plan)
    flow.plan = scheduled(flow.plan, schedules).over(flow.plan)
    flow.plan = replace(flow.plan, loops=tuple(replace(it, wanted=None) for it in flow.plan.loops))
    staged = {schedule.location for made in schedules.values() for schedule in made if schedule.location}
    # Drop the remarks about P = 0 for loops that have a schedule instead.
    flow.remarks = [remark for remark in flow.remarks if str(remark.location) not in staged]
