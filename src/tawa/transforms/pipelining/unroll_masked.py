"""Unroll masked rows: a loop over the rows of a chunk, whose terms a mask keeps for some rows, becomes straight code.

    for %j in 0 to min(16, %n):                      %c = %n >= 16 and all of %rows
      %t = f(row %j of memory, %tile) : #blocked     if %c { for each j: %t = f(row j, %tile) : #columns
      %m = select (range >= %j), %t, 0          →            %s = addf %s, select (range >= j), %t, 0 }
      %s = addf %s, %m                               else  { the loop }

Half of the terms of such a loop are masked, and computed all the same: a warp has some of the rows in its lanes, and
skips nothing. In `#columns`, a thread has whole columns: the row of each of its registers is a constant, and so is the
mask once the loop is unrolled. LLVM drops what is masked, and no load waits for an iteration. The masks of the loads
are true for whole chunks, which LLVM learns from the condition.

Requires: TTGIR behind Triton's pipeliner; loops convert nothing (`HoistConversions`).
Ensures: each element is computed by the same operations in the same order; only the thread that computes it differs. A
masked term is still added, as a zero.
Declines: loops with stores, with loads of memory that the kernel may write, with sums of products that a mask alone
keeps from being rounded together; tiles with fewer columns than there are threads; long loops (`_MOST_ELEMENTS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tawa.analysis.layout.layouts import BlockedLayout, SliceLayout
from tawa.analysis.layout.rebuilt import rebuild
from tawa.analysis.loops.loads_around import WrittenInfo
from tawa.dialects import tt
from tawa.dialects.arith import (
    AddFOp,
    AndIOp,
    CmpIOp,
    ConstantOp,
    ExtSIOp,
    ExtUIOp,
    MinSIOp,
    MinUIOp,
    MulFOp,
    Predicate,
    SelectOp,
    SubFOp,
    constant_int,
)
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import (
    Block,
    Builder,
    Module,
    Region,
    TensorType,
    Value,
    clone_op,
    parse_type,
    shape_of,
    source_of,
)
from tawa.ir.encodings import fields_of
from tawa.remarks import Remark
from tawa.symbolic.dim_relations import FREE, SOURCES
from tawa.transforms.pipelining.hoist_conversions import products_of
from tawa.transforms.result import PassResult

_MOST_ELEMENTS = 512
"""The most elements of the masked tile that a thread computes in all iterations: some 3000 instructions."""
_SUMS = op_names(AddFOp, SubFOp)
_BODY = FREE | SOURCES | op_names(tt.BroadcastOp, tt.ExpandDimsOp)
_OF_RANGE = op_names(tt.MakeRangeOp, ConstantOp, tt.ExpandDimsOp, tt.BroadcastOp, ExtSIOp, ExtUIOp, ConvertLayoutOp)
_MINIMA = op_names(MinSIOp, MinUIOp)


@dataclass(frozen=True, slots=True)
class UnrollMasked:
    """num_warps: of the kernel."""

    num_warps: int

    def run(self, module: Module) -> PassResult:
        """Unrolls every innermost `scf.for` that qualifies."""
        written, remarks = WrittenInfo.of(module), list[Remark]()
        for loop in [loop for op in module.walk() if (loop := ForOp.of(op))]:
            trips = _most_trips(loop)
            layout = _masked_layout(loop, self.num_warps) if trips is not None and _is_plain(loop, written) else None
            if trips is None or layout is None:
                continue
            old, new = layout
            if prod(new.size_per_thread) * trips > _MOST_ELEMENTS:
                continue
            place = source_of(module, loop.op)
            _Unrolling(module, loop, trips, new.order[0], old, str(new)).run()
            remarks.append(Remark("done", f"{trips} iterations without what a mask drops", place))
        return PassResult(bool(remarks), tuple(remarks))


# -- which loops -------------------------------------------------------------------------------------------------------


def _most_trips(loop: ForOp) -> int | None:
    """The constant that bounds the iterations of a loop that counts from 0 by ones; None if there is none."""
    if loop.unsigned or constant_int(loop.lower) != 0 or constant_int(loop.step) != 1:
        return None
    op = loop.upper.defining_op
    bounds = [loop.upper] if op is None or op.name not in _MINIMA else [loop.upper, *op.operands]
    return next((it for bound in bounds if (it := constant_int(bound)) is not None), None)


def _is_plain(loop: ForOp, written: WrittenInfo) -> bool:
    """Whether a body only computes, and loads what nothing changes; no sum depends on a mask for its rounding."""
    for op in loop.body.ops[:-1]:
        load = tt.LoadOp.of(op)
        if load is not None:
            if not is_plain_load(op) or not written.may_move(load):
                return False
        elif not RoundedProductOp.matches(op) and (op.name not in _BODY or not is_pure(op)):
            return False
        if op.name in _SUMS and not all(map(_rounds_alike, op.operands)):
            return False
    return True


def _rounds_alike(operand: Value) -> bool:
    """Whether an operand of a sum is rounded as before, or together with the sum as before, where masks are known."""
    return not products_of(operand) or (MulFOp.matches(operand.defining_op) and len(operand.uses) == 1)


def _masked_layout(loop: ForOp, num_warps: int) -> tuple[str, BlockedLayout] | None:
    """The encoding of a tile of which an iteration keeps some rows, and the layout that gives threads whole columns."""
    for op in loop.body.ops:
        select = SelectOp.of(op)
        kind = parse_type(op.results[0].type) if select is not None else None
        if select is None or not isinstance(kind, TensorType) or len(kind.shape) != 2:
            continue
        dim = _compared_dim(select.condition, loop)
        if dim is None:
            continue
        across, threads = kind.shape[1 - dim], 32 * num_warps
        if across % threads:
            continue
        size, lanes, warps = [1, 1], [1, 1], [1, 1]
        size[dim], size[1 - dim], lanes[1 - dim], warps[1 - dim] = kind.shape[dim], across // threads, 32, num_warps
        layout = BlockedLayout(tuple(size), tuple(lanes), tuple(warps), (1 - dim, dim))
        return kind.encoding, layout
    return None


def _compared_dim(condition: Value, loop: ForOp) -> int | None:
    """The dimension whose indices a condition compares with the induction variable."""
    while (spread := tt.BroadcastOp.of(condition.defining_op)) is not None:
        condition = spread.op.operands[0]
    compare = CmpIOp.of(condition.defining_op)
    long = [dim for dim, size in enumerate(shape_of(condition)) if size > 1]
    if compare is None or len(long) != 1:
        return None
    counts = [_counts(it, loop) for it in compare.op.operands]
    ranges = [_is_range(it) for it in compare.op.operands]
    return long[0] if (counts, ranges) in (([True, False], [False, True]), ([False, True], [True, False])) else None


def _counts(value: Value, loop: ForOp) -> bool:
    """Whether a value is the induction variable, in each element."""
    op = value.defining_op
    return value is loop.induction or (op is not None and tt.SplatOp.matches(op) and _counts(op.operands[0], loop))


def _is_range(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name in _OF_RANGE and all(map(_is_range, op.operands))


# -- the rewrite -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Unrolling:
    """One loop. columns: their dimension. old, new: encodings. made: what the straight code rebuilds, by its layout."""

    module: Module
    loop: ForOp
    trips: int
    columns: int
    old: str
    new: str
    made: dict[tuple[Value, str], Value] = field(default_factory=dict[tuple[Value, str], Value])

    def run(self) -> None:
        """Replaces the loop."""
        loop, builder = self.loop.op, Builder.before(self.loop.op)
        condition = self._condition(builder)
        types = [self._wanted(it) for it in loop.results]
        straight, other = Block(), Block()
        hints = [it.hint for it in loop.results]
        choice = builder.create(
            IfOp.NAME, (condition,), types, regions=[Region([straight]), Region([other])], hints=hints
        )
        for result, chosen in zip(loop.results, choice.results, strict=True):
            for user in list(result.users):
                if ConvertLayoutOp.matches(user) and user.results[0].type == chosen.type:
                    user.results[0].replace_all_uses_with(chosen)
                    user.erase()
            result.replace_all_uses_with(chosen)
        at = Builder.at_end(straight, loop.loc)
        _end(at, self._iterations(at), types)
        other.append(loop.detach())
        _end(Builder.at_end(other, loop.loc), loop.results, types)

    def _condition(self, builder: Builder) -> Value:
        """Whether all iterations are executed, and the loads skip no row."""
        bound = self.loop.upper
        condition = CmpIOp.create(builder, Predicate.EQ, bound, builder.constant(self.trips, bound.type), "whole")
        rows = dict[Value, None]()
        for op in self.loop.body.ops:
            load = tt.LoadOp.of(op)
            if load is not None and load.mask is not None:
                rows |= dict.fromkeys(it for it in _conjuncts(load.mask) if self._is_of_rows(it))
        made = dict[tuple[Value, str], Value]()
        for mask in rows:
            whole = _all_of(builder, rebuild(mask, self._encoding(mask), builder, made))
            condition = AndIOp.create(builder, condition, whole, "whole")
        return condition

    def _is_of_rows(self, mask: Value) -> bool:
        """Whether each thread has the whole of a mask, which no iteration changes."""
        kind = parse_type(mask.type)
        if not isinstance(kind, TensorType) or len(kind.shape) != 1 or self._is_inside(mask):
            return False
        fields = fields_of(self.module.aliases, kind.encoding)
        return fields.get("parent") == self.old and fields["dim"] == str(self.columns)

    def _wanted(self, result: Value) -> str:
        """The layout of a result: that of all its uses, if they convert it."""
        types = {it.results[0].type if ConvertLayoutOp.matches(it) else result.type for it in result.users}
        return types.pop() if len(types) == 1 else result.type

    def _iterations(self, builder: Builder) -> list[Value]:
        """All iterations; returns the values that the loop carries behind them."""
        loop = self.loop
        ops = [op for op in loop.body.ops[:-1] if op.result.uses]
        outside = [it for op in (*ops, loop.body.terminator) for it in op.operands if not self._is_inside(it)]
        given = {it: self._given(it, builder) for it in (*loop.inits, *outside)}
        carried = [given[it] for it in loop.inits]
        for count in range(self.trips):
            values = {**given, **dict(zip(loop.iter_args, carried, strict=True))}
            values[loop.induction] = builder.constant(count, loop.induction.type)
            for op in ops:
                copy = builder.insert(clone_op(op, values))
                copy.result.type = self._type(op.result)
                if ConstantOp.matches(copy):
                    copy.properties["value"] = copy.properties["value"].replace(op.result.type, copy.result.type)
            carried = [values[it] for it in loop.yielded]
        return carried

    def _is_inside(self, value: Value) -> bool:
        op = value.defining_op
        return value.owner is self.loop.body or (op is not None and self.loop.op.is_ancestor_of(op))

    def _given(self, value: Value, builder: Builder) -> Value:
        """A value from outside of the loop, in its new layout. Floats are converted: they are computed once."""
        encoding = self._encoding(value)
        kind = parse_type(value.type)
        if not isinstance(kind, TensorType) or encoding == kind.encoding:
            return value
        if kind.element.startswith(("f", "bf")) and not ConstantOp.matches(value.defining_op):
            while convert := ConvertLayoutOp.of(value.defining_op):
                value = convert.source
            return _converted(builder, value, str(replace(kind, encoding=encoding)))
        return rebuild(value, encoding, builder, self.made)

    def _type(self, value: Value) -> str:
        kind = parse_type(value.type)
        if not isinstance(kind, TensorType):
            return value.type
        return str(replace(kind, encoding=self._encoding(value)))

    def _encoding(self, value: Value) -> str:
        kind = parse_type(value.type)
        return self._moved(kind.encoding) if isinstance(kind, TensorType) else ""

    def _moved(self, encoding: str) -> str:
        """The new layout, or its slice, in place of the old one."""
        if encoding == self.old:
            return self.new
        fields = fields_of(self.module.aliases, encoding)
        if "parent" not in fields:
            return encoding
        return str(SliceLayout(int(fields["dim"]), self._moved(fields["parent"])))


def _conjuncts(mask: Value) -> list[Value]:
    op = mask.defining_op
    return [it for operand in op.operands for it in _conjuncts(operand)] if op and AndIOp.matches(op) else [mask]


def _all_of(builder: Builder, mask: Value) -> Value:
    """Whether all elements of a row of i1 are true."""
    body = Block()
    ones = [body.add_arg("i1") for _ in range(2)]
    at = Builder.at_end(body, builder.loc)
    both = at.create(AndIOp.NAME, ones, ("i1",)).result
    at.create(tt.ReduceReturnOp.NAME, (both,))
    return builder.create(
        tt.ReduceOp.NAME, (mask,), ("i1",), properties={"axis": "0 : i32"}, regions=[Region([body])], hints=("all",)
    ).result


def _converted(builder: Builder, value: Value, type: str) -> Value:
    if value.type == type:
        return value
    return builder.create(ConvertLayoutOp.NAME, (value,), (type,), hints=(value.hint,)).result


def _end(builder: Builder, values: Sequence[Value], types: Sequence[str]) -> None:
    """Yields the values in these layouts."""
    builder.create(YieldOp.NAME, [_converted(builder, it, type) for it, type in zip(values, types, strict=True)])
