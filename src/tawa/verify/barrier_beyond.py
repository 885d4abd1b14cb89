"""Decisions that no run has seen go the other way, and the inputs that send them there.

    arrive empty[s] if k != 1280        K ≤ 448: it always arrives → K of at least 1281, and runs of their own

The numbers that are tried first make trip counts; constants that the program compares with something else are beyond
them. So after those runs each decision that went one way only is followed back to the inputs (`barrier_targets`), those
are tried too, and where none is found for a decision that depends on a constant, nothing is proved.

A slot that wraps around is a decision as well. It depends on how often a loop goes round alone, which is tried as far
as its constants go; `depends_on` tells such counters from numbers that can be any number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import Operation, Value
from tawa.verify.assumptions import Assumption
from tawa.verify.barrier_inputs import Choices, units_of
from tawa.verify.barrier_outcomes import CHOICES, EQUAL, NO, QUOTIENTS, REMAINDERS, YES
from tawa.verify.barrier_program import NUMBER_OPS, BarrierProgram, number_key
from tawa.verify.barrier_sampling import samples
from tawa.verify.barrier_targets import MEMORY, Inputs, Targets, Wanted, merged
from tawa.verify.effort import Effort

Outcomes = Mapping[Operation, int]
_MOST_INPUTS: Mapping[Effort, int] = {"fast": 3, "full": 6}
_FAR_ENOUGH = 4096
"""How far numbers are sought that satisfy the facts."""


@dataclass(frozen=True, slots=True)
class Open:
    """A decision and an outcome that was not seen; the inputs that may lead to it.

    needed: without this outcome nothing is proved.
    """

    op: Operation
    outcome: int
    inputs: list[Inputs]
    needed: bool


def open_decisions(program: BarrierProgram, outcomes: Outcomes, trips: int, neighbours: bool) -> Iterator[Open]:
    """What no run has seen, but for what cannot be; what runs that are made meanwhile see counts.

    trips: the most trips that were tried for a loop. neighbours: also numbers that are equal to what they are compared
    with.
    """
    for op in program.decisions:
        seen = outcomes.get(op, 0)
        if op.name == "scf.for":
            missing = [YES] if not seen & YES else []
        else:
            ways = (YES,) if op.name in QUOTIENTS or (op.name in REMAINDERS and op.result.type != "i1") else (YES, NO)
            missing = [outcome for outcome in ways if not seen & outcome]
            if neighbours and op.name == "arith.cmpi" and not seen & EQUAL:
                missing.append(EQUAL)
        if missing and _is_far(program, op, trips):
            for outcome in missing:
                if not outcomes.get(op, 0) & outcome and (found := _open(program, op, outcome, outcomes)) is not None:
                    yield found


def _is_far(program: BarrierProgram, op: Operation, trips: int) -> bool:
    """Whether a decision depends on numbers that can be any number, or on constants past the trips that were tried."""
    values = op.operands[:3] if op.name == "scf.for" else op.operands
    constants, free = depends_on(program, values)
    return free or sum(abs(number) for number in constants) > trips


def depends_on(program: BarrierProgram, values: list[Value]) -> tuple[set[int], bool]:
    """The constants that numbers are computed from, and whether anything else is but how often loops go round."""
    constants, seen, work = set[int](), set[Value](), list(values)
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
        if op is None or op.name in NUMBER_OPS or op.name == "tt.load":
            if not sources:
                return constants, True
        elif op.name == "arith.select":
            work += op.operands[1:]
        elif not op.regions:
            work += op.operands
    return constants, False


def _open(program: BarrierProgram, op: Operation, outcome: int, outcomes: Outcomes) -> Open | None:
    """None where no inputs lead there, or where no constant is in question and no inputs are known."""
    targets = Targets(program)
    inputs = _inputs(targets, op, outcome)
    if inputs:
        inputs = [both for one in targets.reached(op) for it in inputs if (both := merged(one, it)) is not None]
    inputs = [it for it in inputs if _is_possible(it)]
    constant = outcome != EQUAL and _has_constant(targets, op)
    needed = constant and not _only_bounds(program, op, outcomes)
    if not inputs and needed and targets.unsure:
        inputs = _sampled(program, op, outcome)
        needed = inputs is None or bool(inputs)
    return Open(op, outcome, inputs or [], needed) if inputs or (needed and targets.unsure) else None


def _sampled(program: BarrierProgram, op: Operation, outcome: int) -> list[Inputs] | None:
    """Inputs that samples found; none where no sample gets there, None where samples say nothing."""
    try:
        found = samples(program, op, outcome == YES)
    except ValueError:
        return None
    if found is None:
        return []
    inputs: Inputs = {}
    for root, number in found.items():
        made = root.defining_op
        if made is not None and made.name in NUMBER_OPS:
            inputs[number_key(made)] = Wanted(number, True)
        elif root in program.leaves:
            inputs[root] = Wanted(number, True)
        elif made is not None and made.name == "tt.load":
            inputs[f"{MEMORY}{len(inputs)}"] = Wanted(number, True)
        else:
            return None  # what a loop hands on
    return [inputs] if _is_possible(inputs) else None


def _is_possible(inputs: Inputs) -> bool:
    """Whether no number is negative, and the index of a program lies below the number of programs."""
    for root, wanted in inputs.items():
        if wanted.number < 0:
            return False
        if isinstance(root, str) and root.startswith("num_programs"):
            index = inputs.get(f"program_id{root[12:]}")
            if wanted.number <= (index.number if index else 0):
                return False
    return True


def _only_bounds(program: BarrierProgram, decision: Operation, outcomes: Outcomes) -> bool:
    """Whether what is decided goes into bounds of loops alone, or into comparisons that went both ways.

    How often a loop goes round is tried for itself, whatever its bounds are computed from.
    """
    if decision.name == "scf.for" or decision.result.type == "i1":
        return False
    seen, work = set[Value](), [decision.result]
    while work:
        value = work.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.op
            if op not in program.kept or (op.name == "scf.for" and use.index < 3):
                continue
            if op.name == "arith.cmpi" and outcomes.get(op, 0) & (YES | NO) == YES | NO:
                continue
            if op.name in ("ttg.warp_specialize", "ttg.warp_specialize.partitions"):
                fork = op if op.name == "ttg.warp_specialize" else op.parent_op
                work += [block.args[use.index] for block in WarpSpecializeOp(fork).partitions] if fork else []
            elif op.name.startswith("arith.") and op.name != "arith.cmpi" and op.result.type != "i1":
                work.append(op.result)
            else:
                return False
    return True


def _has_constant(targets: Targets, op: Operation) -> bool:
    """Whether a decision is one about a constant; a number of which only the sign counts is tried with 0 and 1."""
    if op.name == "scf.for":
        return (targets.constant(op.operands[0]) or 0) > 1
    numbers = [targets.constant(operand) for operand in op.operands]
    return any(number is not None and abs(number) > 1 for number in numbers)


def _inputs(targets: Targets, op: Operation, outcome: int) -> list[Inputs]:
    if op.name == "scf.for":
        return targets.trips(op, 1)
    left, right = op.operands[0], op.operands[1]
    if outcome == EQUAL:
        sides = [targets.constant(left), targets.constant(right)]
        return targets.apart(left, right, 0) if sides != [None, None] else []
    if op.name in CHOICES:
        ways = (-1,) if outcome == YES else (0, 1)
        return [it for way in ways for it in targets.apart(left, right, way)]
    if op.name in QUOTIENTS or (op.name in REMAINDERS and op.result.type != "i1"):
        by = targets.constant(right)
        if by is not None and op.name in ("arith.shrsi", "arith.shrui"):
            by = 1 << by
        if by is None:
            targets.unsure = True
        return targets.at_least(left, by or 1)
    return targets.truth(op.result, outcome == YES)


# -- runs of their own -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Extension:
    """Numbers for one more run. memory: what may be read from memory beside 0 and 1."""

    numbers: dict[Value, int]
    chosen: dict[str, int]
    memory: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Extensions:
    """Makes runs of inputs: what they say, and all other arguments as they are tried anyway."""

    program: BarrierProgram
    found: Sequence[Choices]
    facts: Sequence[Assumption]
    trips: Sequence[int]
    effort: Effort

    def of(self, decision: Open) -> Iterator[Extension]:
        """The runs of a decision: rings go round behind it, with all others large; just as far; with all others small."""
        most = _MOST_INPUTS[self.effort] if decision.needed else 1
        for inputs in decision.inputs[:most]:
            for far, place in ((True, -1), (False, -1), (False, 0)) if decision.needed else ((True, -1),):
                made = self._made(inputs, far, place)
                if made is not None:
                    yield made

    def all_excluded(self, decision: Open) -> bool:
        """Whether facts about arguments leave none of the inputs."""
        return all(self._made(inputs, False, 0) is None for inputs in decision.inputs)

    def _made(self, inputs: Inputs, far: bool, place: int) -> Extension | None:
        numbers: dict[Value, int] = {}
        for choice in self.found:
            wanted = inputs.get(choice.argument)
            if wanted is None:
                if not choice.numbers:
                    return None
                numbers[choice.argument] = choice.numbers[place]
                continue
            number = self._number(choice, wanted, far)
            if number is None:
                return None
            numbers[choice.argument] = number
        others = {root: it.number for root, it in inputs.items() if isinstance(root, str)}
        chosen = {root: number for root, number in others.items() if not root.startswith(MEMORY)}
        memory = tuple({number for root, number in others.items() if root.startswith(MEMORY)})
        return Extension(numbers, chosen, memory)

    def _number(self, choice: Choices, wanted: Wanted, far: bool) -> int | None:
        """The number that facts allow; None where there is none. far: so that rings go round twice behind it."""
        if choice.fixed:
            fits = wanted.number == choice.numbers[0] if wanted.exact else wanted.number <= choice.numbers[0]
            return choice.numbers[0] if fits else None
        about = [fact for fact in self.facts if fact.name == choice.name]
        number = wanted.number
        if wanted.exact:
            return number if all(fact.holds(number) for fact in about) else None
        if far:
            unit = max(units_of(self.program).get(choice.argument, {1}))
            number = -(-number // unit) * unit + unit * max(self.trips)
        for more in range(_FAR_ENOUGH):
            if all(fact.holds(number + more) for fact in about):
                return number + more
        return None
