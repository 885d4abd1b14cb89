"""Unroll masked rows: a loop over the rows of a chunk, whose terms a mask keeps for some rows, becomes straight code.

    for %j in 0 to min(16, %n):                      %c = %n >= 16 and all of %rows
      %t = f(row %j of memory, %tile) : #blocked     if %c { for each j: %t = f(row j, %tile) : #columns
      %m = select (range >= %j), %t, 0          →            %s = addf %s, select (range >= j), %t, 0 }
      %s = addf %s, %m                               else  { the loop }

Half of the terms of such a loop are masked, and computed all the same: a warp has some of the rows in its lanes, and
skips nothing. In `#columns`, a thread has whole columns (or every second row, where warps outnumber the columns): the
row of each of its registers is known, and so is the mask once the loop is unrolled. LLVM drops what is masked, and no
load waits for an iteration. For whole chunks, the masks of the loads are true, which LLVM learns from the condition.

Requires: TTGIR behind Triton's pipeliner; conversions have left the loops (`hoist_conversions`).
Ensures: each element is computed by the same operations in the same order; only the thread that computes it differs. A
masked term is still added, as a zero.
Declines: loops that `tawa.analysis.loops.masked_rows` does not find; sums of products that a mask alone
or an iteration of its own keeps from being rounded together; approximations of numbers that an iteration makes
known, which ptxas would compute (`tawa.dialects.inline.rounding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tawa.analysis.layout.layouts import SliceLayout
from tawa.analysis.layout.rebuilt import rebuild
from tawa.analysis.loops.loads_around import WrittenInfo
from tawa.analysis.loops.masked_rows import MaskedRows, find_masked_rows
from tawa.dialects import tt
from tawa.dialects.arith import AndIOp, CmpIOp, ConstantOp, Predicate
from tawa.dialects.inline.rounding import rounds_alike
from tawa.dialects.scf import ForOp, IfOp, YieldOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Block, Builder, Module, Region, TensorType, Value, clone_op, parse_type, source_of
from tawa.ir.encodings import fields_of
from tawa.machine.fused_products import products_of
from tawa.remarks import Remark
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class UnrollMasked:
    """num_warps: of the kernel."""

    num_warps: int

    def run(self, module: Module) -> PassResult:
        """Unrolls every innermost `scf.for` that qualifies."""
        written, remarks = WrittenInfo.of(module), list[Remark]()
        for loop in [loop for op in module.walk() if (loop := ForOp.of(op))]:
            rows = find_masked_rows(loop, written, self.num_warps)
            if rows is not None and rounds_alike(loop):
                place = source_of(module, loop.op)
                _Unrolling(module, loop, rows).run()
                remarks.append(Remark("done", f"{rows.trips} iterations without what a mask drops", place))
        return PassResult(bool(remarks), tuple(remarks))


# -- the rewrite -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Unrolling:
    """One loop. made: what the straight code rebuilds, by its layout."""

    module: Module
    loop: ForOp
    rows: MaskedRows
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
        condition = CmpIOp.create(builder, Predicate.EQ, bound, builder.constant(self.rows.trips, bound.type), "whole")
        rows = dict[Value, None]()
        for op in self.loop.body.ops:
            load = tt.LoadOp.of(op)
            if load is not None and load.mask is not None and self.rows.whole:
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
        return fields.get("parent") == self.rows.encoding and fields["dim"] == str(self.rows.columns)

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
        for count in range(self.rows.trips):
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
            while (convert := ConvertLayoutOp.of(value.defining_op)) and not products_of(convert.source):
                value = convert.source  # a product keeps its conversion, which rounds it
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
        if encoding == self.rows.encoding:
            return str(self.rows.layout)
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
