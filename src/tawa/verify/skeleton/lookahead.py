"""What the code from each instruction on depends on: registers, memory, and constant slots of rings.

    move %i ← %i0                  live: %i0         touches: tiles, full
    wait full[%i]                  live: %i          touches: tiles, full
    read tiles[%i]                 live: %i          touches: tiles
    end                            live: —           touches: —

The state of a run needs nothing else. What starts partitions depends on what they depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tawa.verify.run.events import Act
from tawa.verify.skeleton.barrier_level import WRITING, Accesses
from tawa.verify.skeleton.lifted import Expressions, blocked_by, expanded, lift_rings
from tawa.verify.skeleton.live import Live, Uses, reached
from tawa.verify.skeleton.program import Code, Part, Program

_END = (0, 0, False, -1)
"""The uses of an instruction that uses no register, and behind which nothing follows."""


def look_ahead(program: Program, accesses: Accesses | None) -> None:
    """Fills `uses` and `live` of each part; at the barrier level `touches`, `writes`, `fixed` and the lifted rings.

    Needs `program.kinds`.
    """
    for part in reversed(program.parts):
        part.uses = uses_of(part.code)
        for at, started in _forks(program, part):
            inside = 0
            for it in started:
                inside |= it.live.bits[0]
            part.uses[at] = inside, 0, True, -1
        part.live = Live(part.uses, program.kinds)
    if accesses is not None:
        _find_touched(program, accesses)
        _lift(program)


def _forks(program: Program, part: Part) -> list[tuple[int, list[Part]]]:
    """The instructions that start partitions, with these."""
    found = [(at, instruction[1]) for at, instruction in enumerate(part.code) if instruction[0] == Code.FORK]
    return [(at, [program.parts[place] for place in places]) for at, places in found]


def _find_touched(program: Program, accesses: Accesses) -> None:
    """The allocations that the code from each instruction on accesses."""
    for part in reversed(program.parts):
        touched: dict[int, int] = {}
        written: dict[int, int] = {}
        uses = list(part.uses)
        for at, instruction in enumerate(part.code):
            if instruction[0] == Code.ACT:
                touched[at] = _touched(accesses, instruction[1])
                written[at] = touched[at] if instruction[1].kind in WRITING else 0
            elif instruction[0] == Code.JOIN:
                uses[at] = _END
        for at, started in _forks(program, part):
            for it in started:
                touched[at] = touched.get(at, 0) | it.touches[0]
                written[at] = written.get(at, 0) | it.writes[0]
        part.touches, part.writes = reached(uses, touched), reached(uses, written)


def _touched(accesses: Accesses, act: Act) -> int:
    values = [it for it in (*act.op.operands, *act.op.results) if it.type.startswith("!ttg.memdesc")]
    found = {accesses.allocations[root] for value in values for root in accesses.roots_of(value)}
    if act.descriptor >= 0 or act.kind in ("describe", "descriptor"):
        found |= {accesses.allocations[it.defining_op] for it in accesses.described if it.defining_op is not None}
    bits = 1 if act.check is not None else 0
    for alloc in found:
        bits |= 2 << alloc
    return bits


def _lift(program: Program) -> None:
    """Lifts the rings, and keeps carried registers only as what is live."""
    expressions = Expressions(program)
    program.lifted = lift_rings(program, expressions)
    program.rotating = {it: place for place, ring in enumerate(program.lifted) for it in ring.registers}

    def shown(live: Iterable[int]) -> Iterable[int]:
        return expanded(live, expressions, program.kinds)

    for part in reversed(program.parts):
        part.live.shown = shown
        marks: dict[int, int] = {}
        for place, ring in enumerate(program.lifted):
            for at in blocked_by(ring, part, expressions, program.registers):
                marks[at] = marks.get(at, 0) | 1 << place
        for at, started in _forks(program, part):
            for it in started:
                marks[at] = marks.get(at, 0) | it.fixed[0]
        part.fixed = reached(part.uses, marks)


def uses_of(code: Sequence[tuple[Any, ...]]) -> list[Uses]:
    """The registers that each instruction reads and writes, and its successors."""
    return [_uses(instruction) for instruction in code]


def _uses(instruction: tuple[Any, ...]) -> Uses:
    match instruction:
        case (Code.SCALAR, _, ins, out, _):
            return _bits(ins), 1 << out, True, -1
        case (Code.ADVANCE, one, out):
            return 1 << one, 1 << out, True, -1
        case (Code.PUT, _, count, _, views):
            return 1 << count, _bits(views), True, -1
        case (Code.GET, _, count, _, views):
            return 1 << count, _bits(views), True, -1
        case (Code.ACQUIRE, _, count, views):
            return 1 << count, _bits(views), True, -1
        case (Code.PUBLISH, _, count):
            return 1 << count, 0, True, -1
        case (Code.CONSUMED, _, count, condition, _):
            return 1 << count | _bits((condition,)), 0, True, -1
        case (Code.DOT, views, _):
            return _bits(views), 0, True, -1
        case (Code.MOVE, sources, targets):
            return _bits(sources), _bits(targets), True, -1
        case (Code.FOR, lower, upper, step, induction, target):
            return _bits((lower, upper, step)), _bits((induction,)), True, target
        case (Code.NEXT, first, induction):  # the next number is that of this iteration and the step
            return _bits((induction,)), _bits((induction,)), True, first
        case (Code.IF, condition, target):
            return 1 << condition, 0, True, target
        case (Code.JUMP, target):
            return 0, 0, False, target
        case (Code.TEST, condition, target):
            return 1 << condition, 0, True, target
        case (Code.QUIET, target, results):
            return 0, _bits([register for register, _ in results]), False, target
        case (Code.ASSUME, condition):
            return 1 << condition, 0, True, -1
        case (Code.SEND, _, number):
            return 1 << number, 0, True, -1
        case (Code.RECEIVE, view, out):
            return 1 << view, 1 << out, True, -1
        case (Code.ACT, act):
            made = _bits((act.result, *(result for _, result in act.tiles), *((act.number,) if act.takes else ())))
            return _bits(act.inputs), made, True, -1
        case (Code.VIEW, source, slot, out):
            return _bits((source, slot)), 1 << out, True, -1
        case (Code.PICK, condition, one, other, out):
            return _bits((condition, one, other)), 1 << out, True, -1
        case (Code.END, *_):
            return _END
        case _:
            return 0, 0, True, -1


def _bits(registers: Iterable[int]) -> int:
    bits = 0
    for number in registers:
        if number >= 0:
            bits |= 1 << number
    return bits
