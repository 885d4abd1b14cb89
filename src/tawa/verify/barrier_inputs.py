"""Which numbers to try: the arguments that control flow depends on, in steps that change a trip count.

    for k in range(0, K, 64)                      K = 0, 64, 128, …
    for t in range(0, (M + 127) / 128 · …)        M = 0, 128, 256

The unit of an argument is found by walking back from each loop bound: division by a constant multiplies it, and so
does a constant step. Outer loops (those around other loops of the protocol) are tried with fewer trips.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from tawa.dialects.arith import constant_int
from tawa.ir import MemDescType, Operation, Value, parse_type
from tawa.verify.barrier_trace import BarrierProgram

_NAME = re.compile(r'loc\("([^"]+)"\(')
_CONDITION = re.compile(r"\s*(\w+)\s*(<=|>=|==|!=|<|>|%)\s*(-?\d+)\s*(?:==\s*0\s*)?")
_OUTER_TRIPS = 2


@dataclass(frozen=True, slots=True)
class Choices:
    """Numbers to try for one argument, smallest first."""

    argument: Value
    name: str
    numbers: tuple[int, ...]


def argument_name(program: BarrierProgram, argument: Value) -> str:
    """What the user calls an argument, where the text knows; else `arg` and its number."""
    loc = program.module.locs.get(argument.loc, argument.loc)
    found = _NAME.match(loc)
    return found.group(1) if found else argument.hint or f"arg{argument.index}"


def deepest_ring(program: BarrierProgram) -> int:
    """The largest number of mbarriers in a row: D."""
    depth = 1
    for op in program.allocations:
        type = parse_type(op.result.type)
        if isinstance(type, MemDescType) and type.element == "i64" and len(type.shape) > 1:
            depth = max(depth, type.shape[0])
    return depth


def choices(program: BarrierProgram, arguments: Mapping[str, int], assume: Sequence[str], trips: int) -> list[Choices]:
    """For each argument that matters, the numbers to try that satisfy the assumptions about it."""
    units, outer = _units(program)
    compared = _compared(program)
    found: list[Choices] = []
    for leaf in program.leaves:
        name = argument_name(program, leaf)
        if name in arguments:
            found.append(Choices(leaf, name, (arguments[name],)))
            continue
        if leaf.type == "i1":
            numbers: Iterable[int] = (0, 1)
        else:
            most = min(trips, _OUTER_TRIPS) if leaf in outer else trips
            numbers = {unit * count for unit in units.get(leaf, {1}) for count in range(most + 1)}
            if leaf not in units or any(op.name == "llvm.intr.assume" for op in program.kept):
                numbers = numbers | {number for least in compared.get(leaf, ()) for number in (least, least + 1)}
            numbers = numbers | {least for least in _constants(name, assume) if least <= max(numbers)}
        kept = [number for number in sorted(numbers) if _satisfies(name, number, assume)]
        if not kept:
            top = max((abs(least) for least in _constants(name, assume)), default=0)
            unit = max(units.get(leaf, {1}))
            kept = [number for number in range(top, top + unit * (trips + 1), unit) if _satisfies(name, number, assume)]
        found.append(Choices(leaf, name, tuple(kept)))
    return found


def vectors(found: list[Choices]) -> Iterator[dict[Value, int]]:
    """All combinations, those with few trips first."""
    ranked = sorted(
        product(*(range(len(choice.numbers)) for choice in found)), key=lambda places: (sum(places), places)
    )
    for places in ranked:
        yield {choice.argument: choice.numbers[place] for choice, place in zip(found, places, strict=True)}


def _satisfies(name: str, number: int, assume: Sequence[str]) -> bool:
    for text in assume:
        for part in text.split(" and "):
            left, relation, right = _read(part)
            if left == name and not _HOLDS[relation](number, right):
                return False
    return True


def _constants(name: str, assume: Sequence[str]) -> list[int]:
    parts = [_read(part) for text in assume for part in text.split(" and ")]
    return [right for left, _, right in parts if left == name]


def _read(text: str) -> tuple[str, str, int]:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ValueError(f"not an assumption about an argument: {text!r} (write `L >= 128` or `K % 64 == 0`)")
    return found.group(1), found.group(2), int(found.group(3))


_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "%": lambda left, right: left % right == 0,
}


def _units(program: BarrierProgram) -> tuple[dict[Value, set[int]], set[Value]]:
    """For each argument: the steps in which it changes trip counts; and which arguments bound outer loops."""
    units: dict[Value, set[int]] = {}
    bounds: dict[str, set[Value]] = {"inner": set(), "outer": set()}
    for op in program.function.walk():
        if op not in program.kept or op.name not in ("scf.for", "scf.while"):
            continue
        kind = "outer" if _holds_loops(program, op) else "inner"
        if op.name == "scf.for":
            step = constant_int(op.operands[2]) or 1
            roots = op.operands[:2]
        else:
            step, roots = 1, op.regions[0].block.terminator.operands[:1]
        seen: set[Value] = set()
        for root in roots:
            _walk(program, root, step, units, bounds[kind], seen)
    return units, bounds["outer"] - bounds["inner"]


def _compared(program: BarrierProgram) -> dict[Value, list[int]]:
    """The constants that an argument itself is compared with."""
    found: dict[Value, list[int]] = {}
    for op in program.function.walk():
        if op.name == "arith.cmpi" and op in program.kept:
            for value, other in (op.operands, op.operands[::-1]):
                constant = constant_int(other)
                if value in program.leaves and constant is not None and constant >= 0:
                    found.setdefault(value, []).append(constant)
    return found


def _holds_loops(program: BarrierProgram, op: Operation) -> bool:
    return any(
        inner is not op and inner in program.kept and inner.name in ("scf.for", "scf.while") for inner in op.walk()
    )


def _walk(
    program: BarrierProgram,
    value: Value,
    unit: int,
    units: dict[Value, set[int]],
    reached: set[Value],
    seen: set[Value],
) -> None:
    if value in seen:
        return
    seen.add(value)
    if value in program.leaves:
        units.setdefault(value, set()).add(unit)
        reached.add(value)
    for source in program.carried.get(value, ()):
        _walk(program, source, unit, units, reached, seen)
    op = value.defining_op
    if op is None or not op.name.startswith("arith.") or not op.operands:
        return
    factor = constant_int(op.operands[-1])
    if op.name in ("arith.divsi", "arith.divui", "arith.ceildivsi", "arith.ceildivui", "arith.floordivsi") and factor:
        unit *= factor
    elif op.name == "arith.shrsi" and factor:
        unit <<= factor
    elif op.name == "arith.muli" and factor:
        unit = max(1, unit // factor)
    for operand in op.operands:
        _walk(program, operand, unit, units, reached, seen)
