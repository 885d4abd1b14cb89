"""Late sums: each thread carries the sum of its own columns through a loop; after it, the threads are summed once.

    for …, iter_args(%l: 64):                        for …, iter_args(%l: 64x8):
      %r = reduce(%p: 64x128, axis 1, addf)            %q = reshape %p : 64x16x8
      %m = mulf %l, %alpha                     →       %r = reduce(%q, axis 1, addf) : 64x8
      %n = addf %m, %r                                 %m = mulf %l, broadcast(expand_dims %alpha)
      yield %n                                         %n = addf %m, %r
                                                       yield %n
                                                     %sum = reduce(%l', axis 1, addf) : 64

The eight columns are those after which the layout of a dot's result repeats, so the reduction in the loop stays in the
registers of each thread: no shuffles. A loop that continues the sum of a loop before it takes over the columns.

The order of the sum changes, hence also its rounding: a user must allow it (``precision="relaxed"``).

Requires: TTIR without layouts. Ensures: the same sums in another order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from tawa.analysis.loops.running_sums import RunningSum
from tawa.dialects.arith import CmpIOp, ConstantOp, SelectOp
from tawa.dialects.scf import ForOp
from tawa.dialects.tt import BroadcastOp, ExpandDimsOp, MakeRangeOp, ReduceOp, ReshapeOp
from tawa.ir import Builder, Module, Operation, TensorType, Value, clone_op, parse_type, source_of
from tawa.ir.attributes import int_attr
from tawa.machine.machines import ACCUMULATOR_COLUMNS
from tawa.remarks import Remark
from tawa.transforms.result import PassResult

_ZERO = re.compile(r"dense<-?0(?:\.0*)?(?:[eE][-+]?0+)?> : .*")


@dataclass(frozen=True, slots=True)
class LateSums:
    """sums: those that leave their loops, found in the module."""

    sums: tuple[RunningSum, ...]

    def run(self, module: Module) -> PassResult:
        """Rewrites the sums."""
        rewrite = _Rewrite()
        for it in self.sums:
            rewrite.loop(it)
        rewrite.drop_unused()
        remarks = tuple(
            Remark("note", "the sum of a row is carried by columns; threads are summed after the loop",
                   source_of(module, it.reduces[0]))
            for it in self.sums
        )  # fmt: skip
        return PassResult(bool(self.sums), remarks)


@dataclass(slots=True)
class _Rewrite:
    """columns: for each sum that was moved behind its loop, the value by columns."""

    columns: dict[Value, Value] = field(default_factory=dict[Value, Value])

    def loop(self, found: RunningSum) -> None:
        """Rewrites one running sum."""
        loop = ForOp(found.loop)
        argument, result = loop.iter_args[found.index], found.loop.results[found.index]
        wide = _wide(argument.type)
        before = Builder.before(found.loop)
        found.loop.set_operand(ForOp.inits.first + found.index, self._start(before, loop.inits[found.index], wide))
        row = argument.type
        argument.type = result.type = wide
        for reduce in found.reduces:
            _keep_columns(reduce, wide)
        for op, summed in found.steps:
            for number in sorted(set(range(len(op.operands))) - set(summed)):
                op.set_operand(number, _spread(Builder.before(op), op.operands[number], 1, wide))
            op.result.type = wide
        users = list(result.uses)
        total = Builder.after(found.loop).insert(clone_op(found.reduces[0], {}))
        total.set_operand(0, result)
        total.result.type = row
        for use in users:
            use.op.set_operand(use.index, total.result)
        self.columns[total.result] = result

    def _start(self, builder: Builder, init: Value, wide: str) -> Value:
        """The initial value by columns: zeros, the columns of a sum before it, or the value in the first column."""
        known = self.columns.get(init)
        if known is not None:
            return known
        zeros = builder.create(ConstantOp.NAME, (), (wide,), properties={"value": f"dense<0.000000e+00> : {wide}"})
        constant = ConstantOp.of(init.defining_op)
        if constant is not None and _ZERO.fullmatch(constant.text):
            return zeros.result
        numbers = f"tensor<{ACCUMULATOR_COLUMNS}xi32>"
        shape = wide[len("tensor<") : wide.rindex("x")]
        bits = {"end": int_attr(ACCUMULATOR_COLUMNS), "start": int_attr(0)}
        column = builder.create(MakeRangeOp.NAME, (), (numbers,), properties=bits).result
        zero = builder.create(ConstantOp.NAME, (), (numbers,), properties={"value": f"dense<0> : {numbers}"}).result
        flags = f"tensor<{ACCUMULATOR_COLUMNS}xi1>"
        equal = {"predicate": "0 : i64"}
        first = builder.create(CmpIOp.NAME, (column, zero), (flags,), properties=equal).result
        flag = _spread(builder, first, 0, f"tensor<{shape}xi1>")
        return builder.create(SelectOp.NAME, (flag, _spread(builder, init, 1, wide), zeros.result), (wide,)).result

    def drop_unused(self) -> None:
        """Erases the totals of loops whose sums others continue."""
        for total in self.columns:
            if not total.uses and isinstance(total.owner, Operation):
                total.owner.erase()


def _keep_columns(reduce: Operation, wide: str) -> None:
    """Lets a reduction along rows add every eighth column only."""
    builder, source = Builder.before(reduce), ReduceOp(reduce).sources[0]
    type = parse_type(source.type)
    assert isinstance(type, TensorType)
    rows, columns = type.shape
    split = f"tensor<{rows}x{columns // ACCUMULATOR_COLUMNS}x{ACCUMULATOR_COLUMNS}x{type.element}>"
    reduce.set_operand(0, builder.create(ReshapeOp.NAME, (source,), (split,)).result)
    reduce.result.type = wide


def _spread(builder: Builder, value: Value, axis: int, type: str) -> Value:
    """A row or a column, repeated along a new dimension at `axis` to fill a tile of `type`."""
    of = parse_type(value.type)
    assert isinstance(of, TensorType)
    one = replace(of, shape=(*of.shape[:axis], 1, *of.shape[axis:]))
    properties = {"axis": int_attr(axis)}
    expanded = builder.create(ExpandDimsOp.NAME, (value,), (str(one),), properties=properties).result
    return builder.create(BroadcastOp.NAME, (expanded,), (type,)).result


def _wide(text: str) -> str:
    """The type of the sums of rows by columns."""
    type = parse_type(text)
    assert isinstance(type, TensorType)
    return str(replace(type, shape=(*type.shape, ACCUMULATOR_COLUMNS)))
