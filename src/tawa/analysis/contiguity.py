"""Contiguity: how many elements of a tile of addresses surely lie side by side, and start at a multiple of what.

    offs = make_range 0..64                 64 side by side, the first divisible by 2³⁰
    p = addptr(splat(%ptr), offs)           64 side by side, at multiples of 16 bytes if the argument is
    m = cmpi slt, offs, splat(%K)           as many lanes alike as K is surely divisible by

This is the part of Triton's axis analysis (`AxisInfo.cpp`) that decides how wide a cp.async may be. It knows fewer
operations, and where it knows one it says the same or less: what is found here Triton's back end finds too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tawa.analysis.layout.layouts import tile_order
from tawa.dialects.scf import ForOp, IfOp, WhileOp
from tawa.dialects.tt import FuncOp, LoadOp
from tawa.ir import Block, Module, Operation, PointerType, ScalarType, TensorType, Value, parse_type
from tawa.ir.attributes import attribute_of, read_int

MOST = 1 << 30
CHUNK_BYTES = 16
_DENSE = re.compile(r"(?:dense<)?(-?\d+|true|false)>?(?:\s*:.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """By dimension (one for a scalar): elements side by side, the divisor of the first of them, elements alike."""

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    @staticmethod
    def unknown(rank: int) -> AxisInfo:
        """Nothing is known."""
        return AxisInfo((1,) * rank, (1,) * rank, (1,) * rank)

    def join(self, other: AxisInfo) -> AxisInfo:
        """What holds of a value that is one or the other."""
        contiguity = _gcds(self.contiguity, other.contiguity)
        return AxisInfo(
            contiguity,
            _gcds(_starts(self, contiguity), _starts(other, contiguity)),
            _gcds(self.constancy, other.constancy),
            self.constant if self.constant == other.constant else None,
        )


class Contiguity:
    """What is known of every number and address of a module; found once, to a fixed point over its loops."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.infos: dict[Value, AxisInfo] = {}
        for op in module.body.ops:
            function = FuncOp.of(op)
            if function and function.structured:
                self._arguments(function)
                while self._visit(op):
                    pass

    def of(self, value: Value) -> AxisInfo:
        """What is known of a value."""
        return self.infos.get(value) or AxisInfo.unknown(max(1, len(_shape(value))))

    def side_by_side(self, load: LoadOp) -> int:
        """Elements that surely lie side by side and may be read with one access of at most 16 bytes."""
        tile = load.tile
        assert tile is not None
        element, fastest = parse_type(tile.element), tile_order(self.module, tile.encoding)[0]
        bytes = max(1, element.bits // 8) if isinstance(element, ScalarType) else 8
        info = self.of(load.pointers)
        count = min(info.contiguity[fastest], max(1, info.divisibility[fastest] // bytes), CHUNK_BYTES // bytes)
        if load.mask is not None:
            count = min(count, self.of(load.mask).constancy[fastest])
        return _power_of_two(count)

    # -- the walk ----------------------------------------------------------------------------------------------------

    def _arguments(self, function: FuncOp) -> None:
        for arg in function.body.args:
            divisor = read_int(function.attributes_of(arg).get("tt.divisibility", "1"))
            self.infos[arg] = AxisInfo((1,), (_power_of_two(divisor),), (1,))

    def _visit(self, outer: Operation) -> bool:
        """One pass over what an operation holds; whether anything changed."""
        changed = False
        repeat = WhileOp.of(outer)
        for region in outer.regions:
            for block in region.blocks:
                changed |= self._enter_half(repeat, block) if repeat else False
                for op in block.ops:
                    loop = ForOp.of(op)
                    if loop:
                        changed |= self._enter(loop)
                    if op.regions:
                        changed |= self._visit(op)
                    for result, info in zip(op.results, self._results(op), strict=False):
                        changed |= self._set(result, info)
        return changed

    def _set(self, value: Value, info: AxisInfo) -> bool:
        if self.infos.get(value) == info:
            return False
        self.infos[value] = info
        return True

    def _enter(self, loop: ForOp) -> bool:
        lower, _, step = (self.of(value) for value in loop.bounds)
        changed = self._set(loop.induction, AxisInfo((1,), _gcds(lower.divisibility, step.divisibility), (1,)))
        for arg, init, yielded in zip(loop.iter_args, loop.inits, loop.yielded, strict=True):
            changed |= self._set(arg, self._either([init, yielded]))
        return changed

    def _enter_half(self, repeat: WhileOp, block: Block) -> bool:
        """What the deciding half is given at first and later, or the working half by the deciding one."""
        end = repeat.before.terminator.operands
        given = list(zip(repeat.op.operands, repeat.after.terminator.operands, strict=True))
        handed = given if block is repeat.before else [(value,) for value in end[1:]]
        found = [self._set(arg, self._either(values)) for arg, values in zip(block.args, handed, strict=True)]
        return any(found)

    def _either(self, values: Sequence[Value]) -> AxisInfo:
        """The join of those of which something is known by now; a value not yet seen does not count."""
        known = [self.infos[value] for value in values if value in self.infos] or [self.of(values[0])]
        found = known[0]
        for info in known[1:]:
            found = found.join(info)
        return found

    def _results(self, op: Operation) -> list[AxisInfo]:
        loop, branch, repeat = ForOp.of(op), IfOp.of(op), WhileOp.of(op)
        if repeat:
            return [self._either((value,)) for value in repeat.before.terminator.operands[1:]]
        if loop:
            return [self._either(pair) for pair in zip(loop.inits, loop.yielded, strict=True)]
        if branch:
            handed = [block.terminator.operands for block in branch.branches]
            return [self._either([values[index] for values in handed]) for index in range(len(op.results))]
        if len(op.results) != 1:
            return [AxisInfo.unknown(max(1, len(_shape(result)))) for result in op.results]
        rule = _RULES.get(op.name)
        if rule is None:
            info = AxisInfo.unknown(max(1, len(_shape(op.result))))
        else:
            info = rule(op, [self.of(operand) for operand in op.operands])
        return [_hinted(op, info)]


def _hinted(op: Operation, info: AxisInfo) -> AxisInfo:
    """What the user says: `tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy`."""
    for name in ("contiguity", "divisibility", "constancy"):
        text = attribute_of(op.attributes, f"tt.{name}")
        if text is not None:
            rank = len(info.contiguity)
            numbers = [int(number) for number in re.findall(r"\d+", text.partition(":")[0])]
            if len(numbers) in (1, rank):
                info = replace(info, **{name: tuple(numbers * rank if len(numbers) == 1 else numbers)})
    return info


def _shape(value: Value) -> tuple[int, ...]:
    type = parse_type(value.type)
    return type.shape if isinstance(type, TensorType) else ()


def _gcds(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(gcd(left, right) for left, right in zip(one, other, strict=True))


def _power_of_two(number: int) -> int:
    """The largest power of two that divides a number."""
    return min(number & -number, MOST) if number else MOST


# -- what operations do ------------------------------------------------------------------------------------------------

Rule = Callable[[Operation, list[AxisInfo]], AxisInfo]


def _constant(op: Operation, _: list[AxisInfo]) -> AxisInfo:
    shape = _shape(op.result) or (1,)
    found = _DENSE.fullmatch(op.properties["value"].strip())
    if found is None:
        return replace(
            AxisInfo.unknown(len(shape)), constancy=shape if "[" not in op.properties["value"] else (1,) * len(shape)
        )
    number = {"true": 1, "false": 0}.get(found.group(1))
    number = int(found.group(1)) if number is None else number
    return AxisInfo((1,) * len(shape), (_power_of_two(number),) * len(shape), shape, number)


def _range(op: Operation, _: list[AxisInfo]) -> AxisInfo:
    start, end = read_int(op.properties["start"]), read_int(op.properties["end"])
    return AxisInfo((end - start,), (_power_of_two(start),), (1,))


def _splat(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    shape = _shape(op.result)
    return AxisInfo((1,) * len(shape), (infos[0].divisibility[0],) * len(shape), shape, infos[0].constant)


def _expand_dims(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    axis, info = read_int(op.properties["axis"]), infos[0]
    divisor = gcd(*(_unless_side_by_side(info, dim) for dim in range(len(info.contiguity))))
    divisor = _power_of_two(info.constant) if info.constant is not None else divisor

    def put(numbers: tuple[int, ...], number: int) -> tuple[int, ...]:
        return (*numbers[:axis], number, *numbers[axis:])

    return AxisInfo(put(info.contiguity, 1), put(info.divisibility, divisor), put(info.constancy, 1), info.constant)


def _broadcast(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    info, source, target = infos[0], _shape(op.operands[0]), _shape(op.result)
    contiguity = tuple(1 if size == 1 else known for size, known in zip(source, info.contiguity, strict=True))
    constancy = tuple(
        wide if size == 1 else known for size, wide, known in zip(source, target, info.constancy, strict=True)
    )
    return AxisInfo(contiguity, info.divisibility, constancy, info.constant)


def _same(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    return infos[0]


def _add(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    width = _power_of_two(_pointee_bytes(op.result)) if op.name == "tt.addptr" else 1
    first = _gcds(left.contiguity, right.constancy)
    second = _gcds(left.constancy, right.contiguity)
    contiguity = first if op.name == "arith.subi" else tuple(max(pair) for pair in zip(first, second, strict=True))
    constants = (left.constant, right.constant) if op.name in ("arith.addi", "arith.subi") else (None, None)
    number = None
    if constants[0] is not None and constants[1] is not None:
        number = constants[0] + constants[1] * (-1 if op.name == "arith.subi" else 1)
    constancy = _gcds(left.constancy, right.constancy)
    offsets = tuple(min(start * width, MOST) for start in _starts(right, contiguity))
    return AxisInfo(contiguity, _gcds(_starts(left, contiguity, width), offsets), constancy, number)


def _pointee_bytes(value: Value) -> int:
    type = parse_type(value.type)
    pointer = parse_type(type.element) if isinstance(type, TensorType) else type
    element = parse_type(pointer.pointee) if isinstance(pointer, PointerType) else None
    return max(1, element.bits // 8) if isinstance(element, ScalarType) else 1


def _multiply(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    for one, other in ((left, right), (right, left)):
        if one.constant == 1:
            return replace(other, constancy=_gcds(left.constancy, right.constancy))
    divisors = tuple(
        min(_unless_side_by_side(left, dim) * _unless_side_by_side(right, dim), MOST)
        for dim in range(len(left.contiguity))
    )
    number = left.constant * right.constant if left.constant is not None and right.constant is not None else None
    return AxisInfo((1,) * len(divisors), divisors, _gcds(left.constancy, right.constancy), number)


def _unless_side_by_side(info: AxisInfo, dim: int) -> int:
    """The divisor of every element: that of the first says nothing of those beside it."""
    return info.divisibility[dim] if info.contiguity[dim] == 1 else 1


def _starts(info: AxisInfo, contiguity: Sequence[int], width: int = 1) -> tuple[int, ...]:
    """The divisors of the first of shorter rows: inside of a row of `info` numbers go up by `width`."""
    return tuple(
        gcd(divisor, size * width) if size < known else divisor
        for divisor, known, size in zip(info.divisibility, info.contiguity, contiguity, strict=True)
    )


def _remainder(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    shape = _shape(op.result) or (1,)
    divisors = _gcds(left.divisibility, right.divisibility)
    contiguity = tuple(
        gcd(left.contiguity[dim], divisors[dim]) if left.contiguity[dim] == size == right.constancy[dim] else 1
        for dim, size in enumerate(shape)
    )
    starts = _gcds(_starts(left, contiguity), _starts(right, contiguity))
    return AxisInfo(contiguity, starts, _gcds(left.constancy, right.constancy))


def _divide(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    if right.constant == 1:
        return left
    shape = _shape(op.result) or (1,)
    divisors = _gcds(left.divisibility, right.divisibility)
    constancy = list(_gcds(left.constancy, right.constancy))
    for dim, size in enumerate(shape):
        if left.contiguity[dim] == size == right.constancy[dim]:
            constancy[dim] = max(constancy[dim], gcd(left.contiguity[dim], divisors[dim]))
    return replace(AxisInfo.unknown(len(shape)), constancy=tuple(constancy))


_LESS, _AT_MOST, _GREATER, _AT_LEAST = ((2, 6), (3, 7), (4, 8), (5, 9))  # arith.cmpi: signed, unsigned


def _compare(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    """A row of numbers against one: as many lanes alike as the row's start and that number have in common."""
    left, right = infos
    predicate, shape = read_int(op.properties["predicate"]), _shape(op.result) or (1,)
    constancy = list(_gcds(left.constancy, right.constancy))
    for dim, size in enumerate(shape):
        row, number = (left, right) if predicate in _LESS + _AT_LEAST else (right, left)
        known = predicate in _LESS + _AT_LEAST + _GREATER + _AT_MOST
        if known and row.contiguity[dim] == size == number.constancy[dim]:
            alike = gcd(row.contiguity[dim], gcd(left.divisibility[dim], right.divisibility[dim]))
            constancy[dim] = max(constancy[dim], alike)
    return replace(AxisInfo.unknown(len(shape)), constancy=tuple(constancy))


def _lanes(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    """Bit by bit: only lanes alike stay alike."""
    constancy = infos[0].constancy
    for info in infos[1:]:
        constancy = _gcds(constancy, info.constancy)
    return replace(AxisInfo.unknown(len(constancy)), constancy=constancy)


def _extreme(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    return AxisInfo(
        (1,) * len(left.contiguity),
        tuple(
            gcd(_unless_side_by_side(left, dim), _unless_side_by_side(right, dim))
            for dim in range(len(left.contiguity))
        ),
        _gcds(left.constancy, right.constancy),
    )


def _shift_left(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    if right.constant is None or not 0 <= right.constant < 31:
        return _lanes(op, infos)
    return _multiply(
        op,
        [
            left,
            replace(right, constant=1 << right.constant, divisibility=(1 << right.constant,) * len(right.divisibility)),
        ],
    )


def _select(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    condition, left, right = infos
    joined = left.join(right)
    if len(condition.constancy) != len(joined.constancy) or condition.constant is not None:
        return AxisInfo.unknown(len(joined.contiguity)) if condition.constant is None else joined
    return AxisInfo(
        _gcds(joined.contiguity, condition.constancy),
        tuple(
            gcd(_unless_side_by_side(left, dim), _unless_side_by_side(right, dim))
            for dim in range(len(joined.contiguity))
        ),
        _gcds(joined.constancy, condition.constancy),
    )


_RULES: dict[str, Rule] = {
    "arith.constant": _constant,
    "tt.make_range": _range,
    "tt.splat": _splat,
    "tt.unsplat": lambda op, infos: AxisInfo.unknown(1),
    "tt.expand_dims": _expand_dims,
    "tt.broadcast": _broadcast,
    "tt.addptr": _add,
    "arith.addi": _add,
    "arith.subi": _add,
    "arith.muli": _multiply,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.cmpi": _compare,
    "arith.shli": _shift_left,
    "arith.select": _select,
    **dict.fromkeys(("arith.andi", "arith.ori", "arith.xori"), _lanes),
    **dict.fromkeys(("arith.minsi", "arith.maxsi", "arith.minui", "arith.maxui"), _extreme),
    **dict.fromkeys(
        ("arith.extsi", "arith.extui", "arith.trunci", "arith.index_cast", "ttg.convert_layout", "tt.bitcast"), _same
    ),
}
"""By name; of what is not here nothing is known."""
