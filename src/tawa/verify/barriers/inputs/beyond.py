"""Untried outcomes: decisions that had one outcome only in all runs so far, with inputs for the other outcome.

    arrive empty[s] if k != 1280        K ≤ 448: it always arrives → needs K of at least 1281, in runs of its own

The numbers tried first are chosen for small trip counts. Other constants that the program compares with are beyond
them. So after those runs, each untried outcome is propagated back to inputs (`inputs.targets`), which are tried as
well. If no inputs are found for a decision that depends on a constant, the verdict is unknown.

A slot that wraps around is a decision as well. It depends only on the trip count of a loop, which is tried as far as
its constants require; `depends_on` distinguishes such counters from unbounded numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tawa.dialects.arith import AndIOp, CmpIOp, SelectOp, XOrIOp
from tawa.dialects.control_flow import outgoing
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_int
from tawa.verify.assumptions import Assumption
from tawa.verify.barriers.inputs.choices import Choices, units_of
from tawa.verify.barriers.inputs.implied import Implied
from tawa.verify.barriers.inputs.sampling import EQUALITIES, samples
from tawa.verify.barriers.inputs.targets import MEMORY, Inputs, Targets, Wanted, merged
from tawa.verify.barriers.program.kernel import NUMBER_OPS, BarrierProgram, number_key
from tawa.verify.barriers.program.outcomes import (
    CHOICES,
    EQUAL,
    FIRST,
    NO,
    QUOTIENTS,
    REMAINDERS,
    SECOND,
    YES,
    joins_flags,
)
from tawa.verify.effort import Effort

Outcomes = Mapping[Operation, int]
_MOST_INPUTS: Mapping[Effort, int] = {"fast": 4, "full": 6}
_FEW = 1
"""Comparisons with 0 and 1 are tried with 0 and 1."""
_FAR_ENOUGH = 4096
"""How far to search for a number that satisfies the facts."""


@dataclass(frozen=True, slots=True)
class UntriedOutcome:
    """A decision, an untried outcome of it, and inputs that may lead to that outcome.

    needed: the verdict is unknown if the outcome remains untried. anew: it also needs a run of its own although other
    runs had the outcome: it requires one number, and if that occurs last, possibly no partition waits any more.
    """

    op: Operation
    outcome: int
    inputs: list[Inputs]
    needed: bool
    anew: bool = False

    @property
    def splits(self) -> bool:
        """Whether it requires one number, so that each of its inputs is a different case."""
        return self.outcome in (FIRST, SECOND) or (CmpIOp.matches(self.op) and _asks_for_one(self.op, self.outcome))


def untried_outcomes(
    program: BarrierProgram, outcomes: Outcomes, most: int, effort: Effort
) -> Iterator[UntriedOutcome]:
    """The untried outcomes, except impossible ones; lazily, so that it takes account of runs made meanwhile.

    most: the largest number that was tried for a loop, as trip count or argument. `fast` skips decisions that do not
    depend on a constant; `full` also tries operands of a comparison that are equal.
    """
    targets = Targets(program)
    implied = Implied(targets)
    for op in program.decisions:
        seen = outcomes.get(op, 0)
        if ForOp.matches(op):
            missing = [] if seen & YES else [YES]
        else:
            ways = (YES,) if op.name in QUOTIENTS or (op.name in REMAINDERS and op.result.type != "i1") else (YES, NO)
            again = _is_late(program, op, most)
            missing = [outcome for outcome in ways if again or not seen & outcome]
            if effort == "full" and CmpIOp.matches(op) and not seen & EQUAL:
                missing.append(EQUAL)
            if joins_flags(op) and _compares_late(program, op.result, most):
                missing += [outcome for outcome in (FIRST, SECOND) if not seen & outcome]
        constant = _has_constant(targets, op) or (joins_flags(op) and _compares_late(program, op.result, most))
        if not missing or (effort == "fast" and not constant):
            continue
        if _is_far(program, op) and not implied.unreachable(op):
            for outcome in missing:
                if implied.excludes(op, outcome):
                    continue
                now = outcomes.get(op, 0) & outcome
                asks = constant and not implied.asks_for_trips(op)
                if (not now or outcome in (YES, NO)) and (found := _open(program, op, outcome, outcomes, asks, most)):
                    yield found


def _is_late(program: BarrierProgram, op: Operation, most: int) -> bool:
    """Whether a comparison is with a constant near the largest number tried, or beyond it.

    Then it may have had its second outcome only at the end of a run, when no partition waits any more.
    """
    if not CmpIOp.matches(op):
        return False
    constant = max(abs(program.constants.get(operand, 0)) for operand in op.operands)
    return constant > _FEW and (read_int(op.properties["predicate"]) < EQUALITIES or 2 * constant > most)


def _compares_late(program: BarrierProgram, flag: Value, most: int) -> bool:
    op = flag.defining_op
    if op is not None and joins_flags(op):
        return any(_compares_late(program, operand, most) for operand in op.operands)
    return op is not None and _is_late(program, op, most)


def _is_far(program: BarrierProgram, op: Operation) -> bool:
    """Whether a decision depends on unbounded numbers, or on constants larger than twice around a ring."""
    loop = ForOp.of(op)
    values = loop.bounds if loop else op.operands
    constants, free = depends_on(program, values)
    return free or sum(abs(number) for number in constants) > 2 * program.depth + 1


def depends_on(program: BarrierProgram, values: list[Value]) -> tuple[set[int], bool]:
    """The constants that values are computed from, and whether unbounded numbers (not just trip counts) are as well."""
    constants, seen, work, free = set[int](), set[Value](), list(values), False
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.defining_op
        if value in program.constants:
            constants.add(program.constants[value])
            continue
        sources = program.carried.get(value, ())
        work += sources
        if op is None or op.name in NUMBER_OPS or program.is_loaded(op):
            free = free or not sources
        elif select := SelectOp.of(op):
            work += (select.true_value, select.false_value)
        elif not op.regions:
            work += op.operands
    return constants, free


def _open(
    program: BarrierProgram, op: Operation, outcome: int, outcomes: Outcomes, constant: bool, most: int
) -> UntriedOutcome | None:
    """The untried outcome; None if it is impossible, or if it has no known inputs and does not depend on a constant."""
    targets = Targets(program)
    inputs = _inputs(targets, op, outcome)
    inputs = [both for it in inputs for one in targets.reached(op, it) if (both := merged(one, it)) is not None]
    inputs = [it for it in inputs if _is_possible(it)]
    if joins_flags(op):
        constant = constant and _asks_for_numbers(op)
    needed = constant and not _only_bounds(program, op, outcomes)
    if outcome not in (YES, NO):
        needed = _decides_late(program, op, outcome, most)
    if not inputs and needed and targets.unsure:
        inputs = _sampled(program, op, outcome)
    if not needed:  # sizes are negative only if a constant requires it
        inputs = [it for it in inputs if all(wanted.number >= 0 for wanted in it.values())]
    anew = CmpIOp.matches(op) and bool(outcomes.get(op, 0) & outcome) and _asks_for_one(op, outcome)
    return UntriedOutcome(op, outcome, inputs, needed, anew) if inputs or (needed and targets.unsure) else None


def _asks_for_numbers(op: Operation) -> bool:
    """Whether one of the flags that `op` combines is a comparison for equality."""
    makers = [maker for operand in op.operands if (maker := operand.defining_op) is not None]
    return any(
        read_int(it.properties["predicate"]) < EQUALITIES
        if CmpIOp.matches(it)
        else joins_flags(it) and _asks_for_numbers(it)
        for it in makers
    )


def _decides_late(program: BarrierProgram, op: Operation, outcome: int, most: int) -> bool:
    """Whether the flag that determines this outcome requires one number, beyond those that were tried.

    An ordering comparison, in contrast, keeps its outcome in the iterations that follow.
    """
    if outcome not in (FIRST, SECOND):
        return False
    deciding = (outcome == SECOND) == (AndIOp.matches(op))  # of an `and`, the false one
    flags = op.operands if XOrIOp.matches(op) else [op.operands[0 if deciding else 1]]
    return any(_asks_for_late(program, flag, most) for flag in flags)


def _asks_for_late(program: BarrierProgram, flag: Value, most: int) -> bool:
    op = flag.defining_op
    if op is not None and joins_flags(op):
        return any(_asks_for_late(program, operand, most) for operand in op.operands)
    if op is None or not CmpIOp.matches(op) or read_int(op.properties["predicate"]) >= EQUALITIES:
        return False
    return _is_late(program, op, most)


def _asks_for_one(op: Operation, outcome: int) -> bool:
    return read_int(op.properties["predicate"]) == (0 if outcome == YES else 1)


def _sampled(program: BarrierProgram, op: Operation, outcome: int) -> list[Inputs]:
    """Inputs found by sampling; finding none is inconclusive."""
    try:
        found = samples(program, op, outcome == YES)
    except ValueError:
        return []
    if found is None:
        return []
    inputs: Inputs = {}
    for root, number in found.items():
        made = root.defining_op
        if made is not None and made.name in NUMBER_OPS:
            inputs[number_key(made)] = Wanted(number, True)
        elif root in program.leaves:
            inputs[root] = Wanted(number, True)
        elif made is not None and program.is_loaded(made):
            inputs[f"{MEMORY}{len(inputs)}"] = Wanted(number, True)
        else:
            return []  # a loop-carried value
    return [inputs] if _is_possible(inputs) else []


def _is_possible(inputs: Inputs) -> bool:
    """Whether program ids and numbers of programs are non-negative, and each id is below its number of programs."""
    for root, wanted in inputs.items():
        if not isinstance(root, str) or root.startswith(MEMORY):
            continue
        if wanted.number < 0:
            return False
        if root.startswith("num_programs"):
            index = inputs.get(f"program_id{root[12:]}")
            if wanted.number <= (index.number if index else 0):
                return False
    return True


def _only_bounds(program: BarrierProgram, decision: Operation, outcomes: Outcomes) -> bool:
    """Whether a decision only affects loop bounds, or comparisons that had both outcomes.

    Trip counts are tried anyway, whatever the bounds are computed from.
    """
    if ForOp.matches(decision) or decision.result.type == "i1":
        return False
    seen, work = set[Value](), [decision.result]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.op
            if op not in program.kept or (ForOp.matches(op) and use.index < 3):
                continue
            if CmpIOp.matches(op) and outcomes.get(op, 0) & (YES | NO) == YES | NO:
                continue
            fork = WarpSpecializeOp.of(op) or WarpSpecializeOp.of(op.parent_op)
            if fork and op is fork.capturing:
                work += outgoing(use)
            elif op.name.startswith("arith.") and not CmpIOp.matches(op) and op.result.type != "i1":
                work.append(op.result)
            else:
                return False
    return True


def _has_constant(targets: Targets, op: Operation) -> bool:
    """Whether a decision involves a constant other than 0 and 1, which the tried numbers cover."""
    if loop := ForOp.of(op):
        return (targets.constant(loop.lower) or 0) > 1
    numbers = [number for operand in op.operands if (number := targets.constant(operand)) is not None]
    if numbers and CmpIOp.matches(op) and read_int(op.properties["predicate"]) < EQUALITIES:
        return any(abs(number) > 1 for number in depends_on(targets.program, op.operands)[0])
    return any(abs(number) > 1 for number in numbers)


def _inputs(targets: Targets, op: Operation, outcome: int) -> list[Inputs]:
    if ForOp.matches(op):
        return targets.trips(op, 1)
    left, right = op.operands[:2]
    if outcome in (FIRST, SECOND):
        found: list[list[Inputs]] = []
        for flag, want in ((left, outcome == FIRST), (right, outcome == SECOND)):
            alone = Targets(targets.program)
            found.append(alone.truth(flag, want))
            if not found[-1] and not alone.unsure:
                targets.unsure = False
                return []  # it never has this value
            targets.unsure = targets.unsure or alone.unsure
        return targets.both(*found)
    if outcome == EQUAL:
        sides = [targets.constant(left), targets.constant(right)]
        return targets.apart(left, right, 0) if sides != [None, None] else []
    if op.name in CHOICES:
        return targets.above(right, left, 1) if outcome == YES else targets.above(left, right, 0)
    if op.name in QUOTIENTS or (op.name in REMAINDERS and op.result.type != "i1"):
        by = targets.divisor(op)
        if by is None:
            targets.unsure = True
        return targets.at_least(left, by or 1)
    return targets.truth(op.result, outcome == YES)


# -- runs of their own -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extension:
    """Numbers for one more run.

    memory: values of loaded numbers besides 0 and 1. far: the numbers are larger than the decision needs, so that the
    rings wrap around after it; such a run may be too long.
    """

    numbers: dict[Value, int]
    chosen: dict[str, int]
    memory: tuple[int, ...]
    far: bool


@dataclass(frozen=True, slots=True)
class Extensions:
    """Completes inputs to runs: their numbers, and for all other arguments those that are tried anyway."""

    program: BarrierProgram
    found: Sequence[Choices]
    facts: Sequence[Assumption]
    trips: Sequence[int]
    effort: Effort

    def of(self, decision: UntriedOutcome) -> Iterator[Extension]:
        """The runs for an outcome: beyond the decision, with other arguments at one trip or large; or just up to it."""
        many = decision.needed or decision.outcome in (FIRST, SECOND)
        for far, place in ((True, 1), (True, -1), (False, 0)) if decision.needed else ((True, -1),):
            for inputs in decision.inputs[: _MOST_INPUTS[self.effort] if many else 1]:
                made = self._made(inputs, far, place)
                if made is not None:
                    yield made

    def all_excluded(self, decision: UntriedOutcome) -> bool:
        """Whether facts about arguments exclude all of the inputs."""
        return all(self._made(inputs, False, 0) is None for inputs in decision.inputs)

    def _made(self, inputs: Inputs, far: bool, place: int) -> Extension | None:
        numbers: dict[Value, int] = {}
        for choice in self.found:
            wanted = inputs.get(choice.argument)
            if wanted is None:
                if not choice.numbers:
                    return None
                numbers[choice.argument] = choice.numbers[min(place, len(choice.numbers) - 1)]
                continue
            number = self._number(choice, wanted, far)
            if number is None:
                return None
            numbers[choice.argument] = number
        others = {root: it.number for root, it in inputs.items() if isinstance(root, str)}
        chosen = {root: number for root, number in others.items() if not root.startswith(MEMORY)}
        memory = tuple({number for root, number in others.items() if root.startswith(MEMORY)})
        return Extension(numbers, chosen, memory, far)

    def _number(self, choice: Choices, wanted: Wanted, far: bool) -> int | None:
        """The least number that the facts allow, or None. far: so large that rings wrap around twice afterwards."""
        if choice.fixed:
            fits = wanted.number == choice.numbers[0] if wanted.exact else wanted.number <= choice.numbers[0]
            return choice.numbers[0] if fits else None
        about = [fact for fact in self.facts if fact.name == choice.name]
        number = wanted.number
        if wanted.exact:
            return number if all(fact.holds(number) for fact in about) else None
        if far:
            known = {it.name: it.numbers[0] for it in self.found if it.fixed}
            unit = max(units_of(self.program, known, self.facts).get(choice.argument, {1}))
            number = -(-number // unit) * unit + unit * max(self.trips)
        for more in range(_FAR_ENOUGH):
            if all(fact.holds(number + more) for fact in about):
                return number + more
        return None
