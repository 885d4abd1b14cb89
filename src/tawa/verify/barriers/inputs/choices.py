"""The numbers to try for the arguments that control flow depends on, in steps that change a trip count.

    for k in range(0, K, 64)                      K = 0, 64, 128, …
    for t in range(0, (M + 127) / 128 · …)        M = 0, 128, 256

The unit of an argument is found by walking back from each loop bound: division by a constant multiplies it, and so
does the loop's step. A step that is not a constant is evaluated for the smallest allowed arguments, and is at least 1.
Outer loops (those around other loops of the protocol) are tried with fewer trips. Numbers other than arguments (program
ids, loaded numbers) are tried in such steps as well if they bound innermost loops.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, islice, product

from tawa.dialects import arith
from tawa.dialects.arith import constant_int
from tawa.dialects.control_flow import deciding
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.inline.markers import SameNumberOp
from tawa.dialects.parameters import number_name
from tawa.dialects.scalars import width_of
from tawa.dialects.scf import ForOp
from tawa.errors import AssumptionError
from tawa.ir import Operation, Value
from tawa.verify.assumptions import Assumption, is_grid_size, parse_assumptions, positive_step
from tawa.verify.barriers.program.kernel import NUMBER_OPS, BarrierProgram, number_key
from tawa.verify.effort import Effort

OUTER_TRIPS = 2
BUDGET: Mapping[Effort, int] = {"fast": 2_000, "full": 60_000}
"""The limit of steps over all runs."""
MOST_CHOICES: Mapping[Effort, int] = {"fast": 6_000, "full": 400_000}
"""The limit of scalars computed between two chosen numbers, which limits the choices that are kept."""
_SAME_NUMBER = op_names(arith.ExtSIOp, arith.IndexCastOp, arith.TruncIOp)
_MOST_STEPS = 4096
"""How far to search for numbers that satisfy the facts, in steps of a loop."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Numbers to try for one argument, smallest first, and the facts that excluded others."""

    argument: Value
    name: str
    numbers: tuple[int, ...]
    facts: tuple[str, ...] = ()
    outer: bool = False  # it bounds an outer loop
    fixed: bool = False  # the caller gave the number


def argument_name(program: BarrierProgram, argument: Value) -> str:
    """The source name of an argument, or of a part of one; ``arg`` and its number if its location has none."""
    return number_name(program.module, argument, program.entry.args, f"arg{argument.index}")


def trips_to_try(program: BarrierProgram, effort: Effort, most: int | None) -> Sequence[int]:
    """The trip counts of an innermost loop: all up to 2·D + 1 (full), or 0, 1 and twice around each ring (fast).

    Once around exposes a missing release, twice a wrong parity; deferred releases need D + P + 1.
    """
    depth = program.depth
    if effort == "full":
        return range((2 * depth + 1 if most is None else most) + 1)
    around = depth + max(depth, program.most_in_flight) + 1
    return sorted({0, 1, around} if most is None else {0, min(1, most), min(around, most)})


def read_facts(program: BarrierProgram, assume: Sequence[str]) -> tuple[Assumption, ...]:
    """The caller's facts; raises AssumptionError if one is not about an integer argument of the kernel."""
    facts = parse_assumptions(assume)
    names = [argument_name(program, arg) for arg in program.entry.args if width_of(arg.type) is not None]
    for fact in facts:
        if fact.name not in names:
            there = f"its integer arguments are {', '.join(names)}" if names else "it has no integer argument"
            raise AssumptionError(f"{fact.name!r} in {str(fact)!r} is not an integer argument of the kernel: {there}")
    return facts


def choices(
    program: BarrierProgram, arguments: Mapping[str, int], facts: Sequence[Assumption], trips: Sequence[int]
) -> list[Choices]:
    """The numbers to try for each needed argument; they satisfy the facts about it.

    trips: the trip counts of an innermost loop; outer loops get those up to 2.
    """
    smallest = _Smallest(program, arguments, facts)
    units, around, within = _units(program, smallest)
    strides = {root for op in program.loops if op.name == ForOp.NAME and (root := smallest.root(op.operands[2]))}
    compared = _compared(program)
    found: list[Choices] = []
    for leaf in program.leaves:
        name = argument_name(program, leaf)
        about = [fact for fact in facts if fact.name == name]
        if name in arguments:
            found.append(Choices(leaf, name, (arguments[name],), fixed=True))
            continue
        wanted = _wanted(trips, leaf in around, leaf in within)
        steps = sorted(units.get(leaf, {1}))
        free = {unit * it for unit in steps for it in wanted}
        pool = {number for unit in steps for number in _steps(unit, wanted, about)}
        if leaf.type == "i1":
            free = pool = {0, 1}
        elif leaf not in units or program.assumes:
            pool.update(number for least in compared.get(leaf, ()) for number in (least, least + 1))
        used = tuple(str(fact) for fact in about if not all(fact.holds(number) for number in free | pool))
        if leaf in strides:
            used += (positive_step(name),) if _least(about) <= 0 and not is_grid_size(name) else ()
            pool = {number for number in pool if number > 0} | {smallest.of(leaf), smallest.of(leaf) + 1}
        found.append(
            Choices(leaf, name, tuple(number for number in sorted(pool) if _fits(about, number)), used, leaf in around)
        )
    return found


def _wanted(trips: Sequence[int], around: bool, within: bool) -> Sequence[int]:
    """Fewer trips for bounds of outer loops: rings wrap around across them, and runs would be many and long."""
    if not around:
        return trips
    most = min(max(trips), OUTER_TRIPS + within)
    return sorted({min(it, most) for it in trips})


def _steps(unit: int, trips: Sequence[int], facts: Sequence[Assumption]) -> Iterable[int]:
    """The numbers `trips` steps past the least one that the facts allow, and that one itself."""
    least = _least(facts)
    first = -(-max(least, 0) // unit) * unit
    multiples = (number for number in islice(count(first, unit), _MOST_STEPS) if _fits(facts, number))
    wanted = frozenset(trips)
    allowed = [number for at, number in enumerate(islice(multiples, max(trips) + 1)) if at in wanted]
    return allowed + [least] * (least > 0 and _fits(facts, least))


def _least(facts: Sequence[Assumption]) -> int:
    """The lower bound that the facts state for an argument; 0 by default."""
    bounds = [fact for fact in facts if fact.modulus is None and fact.relation in (">", ">=", "==")]
    return max((fact.number + (fact.relation == ">") for fact in bounds), default=0)


def _fits(facts: Sequence[Assumption], number: int) -> bool:
    return all(fact.holds(number) for fact in facts)


def vectors(found: list[Choices], effort: Effort = "full") -> Iterator[dict[Value, int]]:
    """All combinations, those with few trips first; `fast` leaves out those of `crowded`."""
    ranked = sorted(
        product(*(range(len(choice.numbers)) for choice in found)), key=lambda places: (sum(places), places)
    )
    many = crowded(found, effort)
    for places in ranked:
        pairs = list(zip(found, places, strict=True))
        if sum(choice in many and place == len(choice.numbers) - 1 for choice, place in pairs) < 2:
            yield {choice.argument: choice.numbers[place] for choice, place in pairs}


def crowded(found: list[Choices], effort: Effort) -> list[Choices]:
    """Bounds of outer loops; `fast` tries at most one of them at its largest number at a time."""
    return [choice for choice in found if choice.outer and len(choice.numbers) > 2] if effort == "fast" else []


def inner_numbers(
    program: BarrierProgram, arguments: Mapping[str, int], facts: Sequence[Assumption], trips: Sequence[int]
) -> Mapping[str, tuple[int, ...]]:
    """Numbers to try for other numbers that bound innermost loops, so that these wrap around their rings too.

    By name: ``program_id(0)``, ``num_programs(0)``, and ``*`` for all loaded numbers.
    """
    found: dict[str, set[int]] = {}
    for op, roots, step in _loops(program, _Smallest(program, arguments, facts)):
        if op not in program.outer_loops:
            reached = _Reached()
            for root in roots:
                _walk(program, root, step, reached)
            for name, units in reached.others.items():
                found.setdefault(name, set()).update(unit * it for unit in units for it in trips)
    return {name: tuple(sorted(numbers)) for name, numbers in found.items()}


class _Smallest:
    """Evaluates steps for the smallest arguments that the facts allow; a step is at least 1."""

    def __init__(self, program: BarrierProgram, arguments: Mapping[str, int], facts: Sequence[Assumption]) -> None:
        self.program, self.arguments, self.facts = program, arguments, facts

    def of(self, value: Value) -> int:
        """The step; 1 if it is less, or computed from anything but arguments and constants."""
        return max(self._of(value) or 1, 1)

    def root(self, value: Value) -> Value | None:
        """The argument that `value` is a cast or positive multiple of; else None."""
        if value in self.program.leaves:
            return value
        op, sources = value.defining_op, list(self.program.carried.get(value, ()))
        if op is not None and (op.name in _SAME_NUMBER or SameNumberOp.matches(op)):
            sources = op.operands
        elif op is not None and op.name == arith.MulIOp.NAME:
            sources = [it for it in op.operands if (constant_int(it) or 0) <= 0]
        return self.root(sources[0]) if len(sources) == 1 else None

    def _of(self, value: Value) -> int | None:
        if value in self.program.leaves:
            name = argument_name(self.program, value)
            about = [fact for fact in self.facts if fact.name == name]
            least = max(_least(about), 1)
            possible = (number for number in range(least, least + _MOST_STEPS) if _fits(about, number))
            return self.arguments.get(name) or next(possible, None)
        op, sources = value.defining_op, self.program.carried.get(value, ())
        if op is None:
            return self._of(sources[0]) if len(sources) == 1 else None
        if op.name in NUMBER_OPS:
            return 1 if NUMBER_OPS[op.name] == "num_programs" else 0
        compute = self.program.scalar(op)
        inputs = [self._of(operand) for operand in op.operands] if compute is not None else [None]
        return None if compute is None or None in inputs else compute(*inputs)


def units_of(
    program: BarrierProgram, arguments: Mapping[str, int], facts: Sequence[Assumption]
) -> Mapping[Value, set[int]]:
    """For each argument: the increments that change trip counts."""
    return _units(program, _Smallest(program, arguments, facts))[0]


def _units(program: BarrierProgram, smallest: _Smallest) -> tuple[dict[Value, set[int]], set[Value], set[Value]]:
    """For each argument the increments that change trip counts; the arguments that bound outer, and inner, loops."""
    units: dict[Value, set[int]] = {}
    outer, inner = set[Value](), set[Value]()
    for op, roots, step in _loops(program, smallest):
        reached = _Reached()
        for root in roots:
            _walk(program, root, step, reached)
        for leaf, steps in reached.leaves.items():
            units.setdefault(leaf, set()).update(steps)
        (outer if op in program.outer_loops else inner).update(reached.leaves)
    return units, outer, inner


def _loops(program: BarrierProgram, smallest: _Smallest) -> Iterator[tuple[Operation, list[Value], int]]:
    """The loops of the slice, each with the values that bound it and its step."""
    for op in program.loops:
        if op in program.ended_by_memory:
            continue
        decides = [use.value for use in deciding(op)]
        if ForOp.of(op):
            yield op, decides[:2], smallest.of(decides[2])
        else:
            yield op, decides, 1


def _compared(program: BarrierProgram) -> dict[Value, list[int]]:
    """The constants that each argument is directly compared with."""
    found: dict[Value, list[int]] = {}
    for op in program.ops:
        if op.name == arith.CmpIOp.NAME and op in program.kept:
            for value, other in (op.operands, op.operands[::-1]):
                constant = constant_int(other)
                if value in program.leaves and constant is not None and constant >= 0:
                    found.setdefault(value, []).append(constant)
    return found


@dataclass(slots=True)
class _Reached:
    """The numbers that a bound is computed from, and the increments of each that change the trip count.

    leaves: arguments. others: program ids and numbers of programs by name, and ``*`` for loaded numbers.
    """

    leaves: dict[Value, set[int]] = field(default_factory=dict[Value, set[int]])
    others: dict[str, set[int]] = field(default_factory=dict[str, set[int]])
    seen: set[Value] = field(default_factory=set[Value])


def _walk(program: BarrierProgram, value: Value, unit: int, reached: _Reached) -> None:
    if value in reached.seen:
        return
    reached.seen.add(value)
    if value in program.leaves:
        reached.leaves.setdefault(value, set()).add(unit)
    for source in program.carried.get(value, ()):
        _walk(program, source, unit, reached)
    op = value.defining_op
    if op is None:
        return
    if op.name in NUMBER_OPS or program.is_loaded(op):
        name = number_key(op) if op.name in NUMBER_OPS else "*"
        reached.others.setdefault(name, set()).add(unit)
    if not op.name.startswith("arith.") or not op.operands:
        return
    factor = constant_int(op.operands[-1])
    if (
        op.name
        in (
            arith.DivSIOp.NAME,
            arith.DivUIOp.NAME,
            arith.CeilDivSIOp.NAME,
            arith.CeilDivUIOp.NAME,
            arith.FloorDivSIOp.NAME,
        )
        and factor
    ):
        unit *= factor
    elif op.name == arith.ShRSIOp.NAME and factor:
        unit <<= factor
    elif op.name == arith.MulIOp.NAME and factor:
        unit = max(1, unit // factor)
    for operand in op.operands:
        _walk(program, operand, unit, reached)
