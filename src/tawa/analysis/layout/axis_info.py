"""Axis information: how many elements of a tile are contiguous or equal, and a divisor of the first of them.

    offs = make_range 0..64                 64 contiguous elements, the first divisible by 2³⁰
    p = addptr(splat(%ptr), offs)           64 contiguous addresses, aligned to 16 bytes if the argument is
    m = cmpi slt, offs, splat(%K)           groups of n equal lanes, where n is the known divisor of K

This is the part of Triton's axis analysis (`AxisInfo.cpp`) that decides how wide a cp.async may be. It supports fewer
operations, and it never finds more than Triton's back end does: a cp.async must not be wider than Triton can prove. For
that reason it is a separate interpretation and not a client of `tawa.symbolic.value_ranges`, which proves more than
Triton does.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd

from tawa.analysis.layout.layouts import tile_order
from tawa.dialects import arith
from tawa.dialects.control_flow import incoming
from tawa.dialects.hints import argument_divisibility, hint_of
from tawa.dialects.scf import CONTROL, ForOp
from tawa.dialects.tt import (
    AddPtrOp,
    BitcastOp,
    BroadcastOp,
    ExpandDimsOp,
    FuncOp,
    LoadOp,
    MakeRangeOp,
    SplatOp,
    UnsplatOp,
)
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Module, Operation, PointerType, ScalarType, TensorType, Value, parse_type
from tawa.ir.attributes import read_int

MOST = 1 << 30
"""The largest divisor that is recorded; it is also the divisor of 0."""
CHUNK_BYTES = 16
"""The width of the widest access."""
_DENSE = re.compile(r"(?:dense<)?(-?\d+|true|false)>?(?:\s*:.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AxisInfo:
    """Per dimension (a scalar has one).

    contiguity: length of runs of contiguous elements. divisibility: a divisor of the first element of each run.
    constancy: length of runs of equal elements. constant: the value of all elements, if known.
    """

    contiguity: tuple[int, ...]
    divisibility: tuple[int, ...]
    constancy: tuple[int, ...]
    constant: int | None = None

    @staticmethod
    def unknown(rank: int) -> AxisInfo:
        """Nothing is known."""
        return AxisInfo((1,) * rank, (1,) * rank, (1,) * rank)

    def join(self, other: AxisInfo) -> AxisInfo:
        """The information that holds for both values."""
        contiguity = _gcds(self.contiguity, other.contiguity)
        return AxisInfo(
            contiguity,
            _gcds(_starts(self, contiguity), _starts(other, contiguity)),
            _gcds(self.constancy, other.constancy),
            self.constant if self.constant == other.constant else None,
        )


class ModuleAxisInfo:
    """The axis information of all values of a module: a fixed point over its loops, computed once."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self._infos: dict[Value, AxisInfo] = {}
        for op in module.body.ops:
            function = FuncOp.of(op)
            if function and function.structured:
                for arg in function.body.args:
                    divisor = _power_of_two(argument_divisibility(function, arg))
                    self._infos[arg] = AxisInfo((1,), (divisor,), (1,))
                while self._visit(op):
                    pass

    def of(self, value: Value) -> AxisInfo:
        """The axis information of a value."""
        return self._infos.get(value) or _unknown(value)

    def vector_width(self, load: LoadOp) -> int:
        """How many contiguous elements of a load one access of at most 16 bytes may read."""
        assert load.tile is not None
        return self.vector_width_along(load, tile_order(self.module, load.tile.encoding)[0])

    def vector_width_along(self, load: LoadOp, fastest: int) -> int:
        """The same where layouts are not known yet. fastest: the dimension in which a thread holds neighbours."""
        tile = load.tile
        assert tile is not None
        element = parse_type(tile.element)
        bytes = max(1, element.bits // 8) if isinstance(element, ScalarType) else 8
        info = self.of(load.pointers)
        count = min(info.contiguity[fastest], max(1, info.divisibility[fastest] // bytes), CHUNK_BYTES // bytes)
        if load.mask is not None:
            count = min(count, self.of(load.mask).constancy[fastest])
        return _power_of_two(count)

    # -- the fixed point ---------------------------------------------------------------------------------------------

    def _visit(self, outer: Operation) -> bool:
        """One pass over the regions of an operation; whether anything changed."""
        changed = False
        for region in outer.regions:
            for block in region.blocks:
                if outer.name in CONTROL:
                    changed |= self._set((arg, self._argument(outer, arg)) for arg in block.args)
                for op in block.ops:
                    changed |= self._visit(op) if op.regions else False
                    changed |= self._set((result, self._result(op, result)) for result in op.results)
        return changed

    def _set(self, found: Iterable[tuple[Value, AxisInfo]]) -> bool:
        changed = False
        for value, info in found:
            if self._infos.get(value) != info:
                self._infos[value] = info
                changed = True
        return changed

    def _argument(self, holder: Operation, arg: Value) -> AxisInfo:
        """A block argument of a loop body."""
        loop = ForOp.of(holder)
        if loop is None or arg is not loop.induction:
            return self._join_incoming(arg)
        lower, _, step = (self.of(value) for value in loop.bounds)
        return AxisInfo((1,), _gcds(lower.divisibility, step.divisibility), (1,))

    def _result(self, op: Operation, result: Value) -> AxisInfo:
        if op.name in CONTROL:
            return self._join_incoming(result)
        rule = _RULES.get(op.name) if len(op.results) == 1 else None
        info = _unknown(result) if rule is None else rule(op, [self.of(operand) for operand in op.operands])
        return _hinted(op, info)

    def _join_incoming(self, value: Value) -> AxisInfo:
        """The join over the incoming values of control flow; values that are not visited yet are left out."""
        values = [use.value for use in incoming(value)]
        first, *others = [self._infos[it] for it in values if it in self._infos] or [self.of(values[0])]
        for info in others:
            first = first.join(info)
        return first


def _hinted(op: Operation, info: AxisInfo) -> AxisInfo:
    """The information with the user's hints: `tl.multiple_of`, `tl.max_contiguous`, `tl.max_constancy`."""
    return replace(
        info,
        contiguity=hint_of(op, "contiguity") or info.contiguity,
        divisibility=hint_of(op, "divisibility") or info.divisibility,
        constancy=hint_of(op, "constancy") or info.constancy,
    )


def _unknown(value: Value) -> AxisInfo:
    return AxisInfo.unknown(max(1, len(_shape(value))))


def _shape(value: Value) -> tuple[int, ...]:
    type = parse_type(value.type)
    return type.shape if isinstance(type, TensorType) else ()


def _gcds(one: Sequence[int], other: Sequence[int]) -> tuple[int, ...]:
    return tuple(gcd(left, right) for left, right in zip(one, other, strict=True))


def _power_of_two(number: int) -> int:
    """The largest power of two that divides a number."""
    return min(number & -number, MOST) if number else MOST


# -- transfer functions ------------------------------------------------------------------------------------------------

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
    divisor = gcd(*(_common_divisor(info, dim) for dim in range(len(info.contiguity))))
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
    width = _power_of_two(_pointee_bytes(op.result)) if AddPtrOp.matches(op) else 1
    first = _gcds(left.contiguity, right.constancy)
    second = _gcds(left.constancy, right.contiguity)
    contiguity = first if arith.SubIOp.matches(op) else tuple(max(pair) for pair in zip(first, second, strict=True))
    constants = (
        (left.constant, right.constant) if (arith.AddIOp.matches(op) or arith.SubIOp.matches(op)) else (None, None)
    )
    number = None
    if constants[0] is not None and constants[1] is not None:
        number = constants[0] + constants[1] * (-1 if arith.SubIOp.matches(op) else 1)
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
        min(_common_divisor(left, dim) * _common_divisor(right, dim), MOST) for dim in range(len(left.contiguity))
    )
    number = left.constant * right.constant if left.constant is not None and right.constant is not None else None
    return AxisInfo((1,) * len(divisors), divisors, _gcds(left.constancy, right.constancy), number)


def _common_divisor(info: AxisInfo, dim: int) -> int:
    """A divisor of every element; in a contiguous run, `divisibility` holds for the first element only."""
    return info.divisibility[dim] if info.contiguity[dim] == 1 else 1


def _starts(info: AxisInfo, contiguity: Sequence[int], width: int = 1) -> tuple[int, ...]:
    """The divisors of the first elements if runs are cut to `contiguity`; within a run, values increase by `width`."""
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


def _compare(op: Operation, infos: list[AxisInfo]) -> AxisInfo:
    """A contiguous run compared with a uniform value.

    The result is constant in groups; their size is a common divisor of the run's first element and that value.
    """
    left, right = infos
    predicate, shape = arith.CmpIOp(op).predicate, _shape(op.result) or (1,)
    constancy = list(_gcds(left.constancy, right.constancy))
    for dim, size in enumerate(shape):
        row, number = (left, right) if predicate.compare in (operator.lt, operator.ge) else (right, left)
        if predicate > arith.Predicate.NE and row.contiguity[dim] == size == number.constancy[dim]:
            equal = gcd(row.contiguity[dim], gcd(left.divisibility[dim], right.divisibility[dim]))
            constancy[dim] = max(constancy[dim], equal)
    return replace(AxisInfo.unknown(len(shape)), constancy=tuple(constancy))


def _lanes(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    """Bitwise operations keep constancy only."""
    constancy = infos[0].constancy
    for info in infos[1:]:
        constancy = _gcds(constancy, info.constancy)
    return replace(AxisInfo.unknown(len(constancy)), constancy=constancy)


def _extreme(_: Operation, infos: list[AxisInfo]) -> AxisInfo:
    left, right = infos
    return AxisInfo(
        (1,) * len(left.contiguity),
        tuple(gcd(_common_divisor(left, dim), _common_divisor(right, dim)) for dim in range(len(left.contiguity))),
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
        tuple(gcd(_common_divisor(left, dim), _common_divisor(right, dim)) for dim in range(len(joined.contiguity))),
        _gcds(joined.constancy, condition.constancy),
    )


_RULES: dict[str, Rule] = {
    arith.ConstantOp.NAME: _constant,
    MakeRangeOp.NAME: _range,
    SplatOp.NAME: _splat,
    UnsplatOp.NAME: lambda op, infos: AxisInfo.unknown(1),
    ExpandDimsOp.NAME: _expand_dims,
    BroadcastOp.NAME: _broadcast,
    AddPtrOp.NAME: _add,
    arith.AddIOp.NAME: _add,
    arith.SubIOp.NAME: _add,
    arith.MulIOp.NAME: _multiply,
    arith.RemSIOp.NAME: _remainder,
    arith.RemUIOp.NAME: _remainder,
    arith.DivSIOp.NAME: _divide,
    arith.DivUIOp.NAME: _divide,
    arith.CmpIOp.NAME: _compare,
    arith.ShLIOp.NAME: _shift_left,
    arith.SelectOp.NAME: _select,
    **dict.fromkeys((arith.AndIOp.NAME, arith.OrIOp.NAME, arith.XOrIOp.NAME), _lanes),
    **dict.fromkeys((arith.MinSIOp.NAME, arith.MaxSIOp.NAME, arith.MinUIOp.NAME, arith.MaxUIOp.NAME), _extreme),
    **dict.fromkeys(
        (
            arith.ExtSIOp.NAME,
            arith.ExtUIOp.NAME,
            arith.TruncIOp.NAME,
            arith.IndexCastOp.NAME,
            ConvertLayoutOp.NAME,
            BitcastOp.NAME,
        ),
        _same,
    ),
}
"""Transfer functions by operation name; the results of all other operations are unknown."""
