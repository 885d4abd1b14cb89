"""What a user wants of the schedule of a loop: the number of stages, the carried tiles, or every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tawa.analysis.loops.dependences import DependenceInfo
from tawa.errors import PlanError
from tawa.machine.nvidia import WARP_GROUP
from tawa.plan.cost.labels import label_of
from tawa.plan.cost.loop_costs import Limits, LoopCosts
from tawa.plan.defaults import MAX_STAGES
from tawa.plan.pinned_schedule import check_schedule
from tawa.plan.schedule import Carried, Schedule, Wanted
from tawa.plan.scheduler import candidate_schedules, placed_schedule


def wanted_schedule(
    graph: DependenceInfo, limits: Limits, wanted: Wanted, loop: int, places: Sequence[str]
) -> Schedule:
    """The best schedule that has what is wanted. Raises PlanError with the dependence, the line and the nearest one.

    loop: its number. places: file:line of the loop and of each operation.
    """
    where = f"loop {loop} ({places[0]})" if places and places[0] else f"loop {loop}"
    if wanted.steps is not None:
        return _of_steps(graph, limits, wanted, loop, places, where)
    most = max(MAX_STAGES, wanted.stages or 0)
    found = candidate_schedules(graph, _with(limits, most), loop, places)
    counts = sorted({it.stages for it in found})
    staged = [it for it in found if wanted.stages in (None, it.stages)]
    if not staged:
        near = min(counts, key=lambda it: abs(it - (wanted.stages or 0)), default=0)
        raise PlanError(
            f"stages = {wanted.stages} in {where}: its dependences allow {_listed(map(str, counts)) or 'none'}; "
            f"cure: stages = {near}"
        )
    carrying = [it for it in staged if not _not_carried(wanted, it)]
    if not carrying:
        near = min(staged, key=lambda it: len(_not_carried(wanted, it)))
        name, type = next(iter(_not_carried(wanted, near)))
        raise PlanError(
            f"{where} does not carry {name}{f' as {type}' if type else ''} from one iteration to the next with "
            f"{near.stages} stage{'s' * (near.stages > 1)}; cure: {_nearest_carry(wanted, name, staged)}"
        )
    given = given_slots(graph)
    deep = next((it for it in carrying if _fits(it, given)), None)
    if deep is not None:
        return deep
    legal = [it.stages for it in found if _fits(it, given) and not _not_carried(wanted, it)]
    refuse_shallow(carrying[0], given, where, legal)
    raise AssertionError("a schedule that fits was found above")


def carries(carried: Iterable[Carried]) -> frozenset[tuple[str, str]]:
    """The carried tiles that have a name in the source: variable and element type."""
    named = (it for it in carried if " = " in it.label)
    return frozenset((it.label.partition(" = ")[0], it.type.rpartition("x")[2]) for it in named)


def given_slots(graph: DependenceInfo) -> dict[str, int]:
    """The slots of each ring of a loop."""
    return LoopCosts(graph, Limits(WARP_GROUP)).ring_slots()


def needed_slots(graph: DependenceInfo, schedule: Schedule) -> tuple[tuple[str, int], ...]:
    """The slots that each ring of a loop needs for a schedule, whatever the schedule itself says about them."""
    return LoopCosts(graph, Limits(WARP_GROUP)).ring_depths([op.stage for op in schedule.ops], schedule.sequence)


def refuse_shallow(schedule: Schedule, given: dict[str, int], where: str, legal: Sequence[int] = ()) -> None:
    """Raises PlanError if a ring has too few slots for a schedule. legal: the stages of schedules that would do."""
    near = min(legal, key=lambda it: abs(it - schedule.stages), default=None)
    for name, depth in schedule.ring_depths:
        slots = given.get(name, depth)
        if slots < depth:
            raise PlanError(
                f"D = {slots} of {name} is too few for {schedule.stages} stages in {where}: the producer would wait "
                f"for a slot that is released behind the next get; {depth} is the least; "
                f"cure: D = {depth}" + (f", or stages = {near}" if near is not None else "")
            )


def _of_steps(
    graph: DependenceInfo, limits: Limits, wanted: Wanted, loop: int, places: Sequence[str], where: str
) -> Schedule:
    names = step_names([label_of(graph, number) for number in range(len(graph.nodes))])
    steps = wanted.steps or ()
    given = [name for _, name in steps]
    if sorted(given) != sorted(names):
        missing = [it for it in names if it not in given]
        unknown = [it for it in given if it not in names]
        twice = [it for it in dict.fromkeys(given) if given.count(it) > 1]
        raise PlanError(
            f"the steps of {where} are not those of the loop: "
            + "; ".join(
                f"{what} {', '.join(map(repr, its))}"
                for what, its in (("missing", missing), ("unknown", unknown), ("twice", twice))
                if its
            )
            + "; cure: start from tawa explain --emit mapping"
        )
    sequence = [names.index(name) for name in given]
    stages = {names.index(name): stage for stage, name in steps}
    made = placed_schedule(graph, limits, [stages[at] for at in range(len(names))], sequence, loop, places)
    check_schedule(graph, made)
    if _not_carried(wanted, made):
        raise PlanError(f"the steps of {where} do not carry what `carry` says; cure: carry = {_carry_text([made])}")
    refuse_shallow(made, given_slots(graph), where)
    return made


def step_names(labels: Sequence[str]) -> list[str]:
    """The names of the steps of a loop in textual order: labels, numbered where there are several of one name."""
    found: list[str] = []
    for at, label in enumerate(labels):
        before = labels[:at].count(label)
        found.append(f"{label}.{before}" if before else label)
    return found


def _not_carried(wanted: Wanted, schedule: Schedule) -> list[tuple[str, str]]:
    """The tiles that should be carried and are not; a type that is left open fits all."""
    have = carries(schedule.carried)
    names = {name for name, _ in have}
    return [
        (name, type) for name, type in wanted.carry or () if ((name, type) not in have if type else name not in names)
    ]


def _nearest_carry(wanted: Wanted, name: str, schedules: Sequence[Schedule]) -> str:
    """What can be carried in place of a tile that cannot: the same variable in another type, or all that there is."""
    others = [it for it in wanted.carry or () if it[0] != name]
    rest = [it for it in schedules if not _not_carried(replace(wanted, carry=tuple(others)), it)] or schedules
    types = sorted({type for it in rest for own, type in carries(it.carried) if own == name})
    return " or ".join(f'{name} = "{it}"' for it in types) if types else f"of carry = {_carry_text(rest)}"


def _carry_text(schedules: Iterable[Schedule]) -> str:
    """What schedules carry."""
    pairs = sorted({pair for it in schedules for pair in carries(it.carried)})
    text = ", ".join(f'{name} = "{type}"' for name, type in pairs)
    return f"{{ {text} }}" if text else "{}"


def _fits(schedule: Schedule, given: dict[str, int]) -> bool:
    return all(depth <= given.get(name, depth) for name, depth in schedule.ring_depths)


def _with(limits: Limits, stages: int) -> Limits:
    return replace(limits, max_stages=stages, keeps=True)


def _listed(items: Iterable[str]) -> str:
    return ", ".join(items)
