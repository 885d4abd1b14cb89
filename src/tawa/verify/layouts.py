"""Whether a program computes what another one does, and only threads that hold elements differ.

    before                                   after
    %c = convert %t : #blocked to #mma       %n = addf %s, %t : #blocked        the same sums
    %n = addf %s, %c : #mma

A conversion changes where elements are, not what they are. So two programs compute the same if they are equal without
their conversions, and without the layouts of tiles whose elements are computed, loaded or stored each on its own.
Reductions, dots and accesses to shared memory keep their layouts: these decide the order of sums, and who reads what. A
sum keeps its product: LLVM rounds both together unless a conversion is between them.

Operations with effects, and those with regions, are compared in their order. Others are values, wherever they stand and
however often: what is computed from the same values is the same. So is what is loaded from memory that the kernel does
not write, also by way of shared memory:

    %b = local_alloc                                          %k = load %p, %m, 0
    %t = async_copy %p, %b mask %m; %g = async_commit %t  =
    %w = async_wait %g {num = 0}                              (where no other access is to %b)
    %k = local_load %b
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from tawa.dialects import tt
from tawa.dialects.arith import (
    AddFOp,
    AndIOp,
    CmpIOp,
    ConstantOp,
    MulFOp,
    Predicate,
    SubFOp,
    constant_int,
)
from tawa.dialects.builtin import PoisonOp
from tawa.dialects.declare.declaration import op_names
from tawa.dialects.effects import is_pure
from tawa.dialects.inline.markers import RoundedProductOp, SameNumberOp
from tawa.dialects.inline.rounding import rounds_alike
from tawa.dialects.memory.changing_loads import changing_loads
from tawa.dialects.scf import CONTROL, ENDS, ForOp, IfOp
from tawa.dialects.ttg import (
    AsyncCommitGroupOp,
    AsyncCopyGlobalToLocalOp,
    AsyncWaitOp,
    ConvertLayoutOp,
    LocalAllocOp,
    LocalLoadOp,
)
from tawa.ir import Block, Builder, Module, Operation, TensorType, Value, ValueMap, clone_op, parse_type
from tawa.machine.fused_products import ways_of_products

_SOURCES = op_names(ConstantOp, tt.MakeRangeOp, tt.SplatOp, PoisonOp)
_EACH = CONTROL | ENDS | _SOURCES | op_names(
    tt.AddPtrOp, tt.ApproxDivFOp, tt.BitcastOp, tt.BroadcastOp, tt.ClampFOp, tt.ExpandDimsOp, tt.FpToFpOp,
    tt.IntToPtrOp, tt.LoadOp, tt.MulhiUIOp, tt.PreciseDivFOp, tt.PreciseSqrtOp, tt.PtrToIntOp, tt.StoreOp,
)  # fmt: skip
_SUMS = op_names(AddFOp, SubFOp, tt.ReduceOp, tt.ScanOp)
_TENSOR = re.compile(r"tensor<([\dx]+)(!tt\.ptr<\w+>|\w+), .*>")
_NO_FASTMATH = "#arith.fastmath<none>"
_ROUNDED = "is rounded before it is added in one program only"


def difference(before: Module, after: Module) -> str:
    """What one program computes otherwise than another, in words; empty if they differ in layouts only."""
    still = _still_loads(before) | _still_loads(after)
    comparison = _Comparison(still, _Parked.of(before), _Parked.of(after))
    return comparison.of_blocks(before.body, after.body) or comparison.of_loads(before, after)


def _still_loads(module: Module) -> set[Operation]:
    """The loads that give the same wherever they stand: of memory that nothing changes while the kernel runs."""
    ops = list(module.walk())
    if any(op.name in tt.ATOMICS for op in ops):
        return set()
    return {op for op in ops if tt.LoadOp.matches(op)}.difference(changing_loads(ops))


@dataclass(slots=True)
class _Comparison:
    """still: loads that are values. own, parked: the loads by way of shared memory of each program.

    numbers: of values; equal ones have the same. known: the numbers of what is computed, by operation and operands.
    unsaid: the addresses and masks of loads of iterations that do not say what the mask leaves out.
    """

    still: set[Operation]
    own: _Parked
    parked: _Parked
    numbers: dict[Value, int] = field(default_factory=dict[Value, int])
    known: dict[object, int] = field(default_factory=dict[object, int])
    unsaid: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def of_blocks(self, one: Block, other: Block) -> str:
        """The first difference of two blocks."""
        if found := self._bound(one.args, other.args, layouts=False):
            return found
        for first, second in zip_longest(self._effects(one), self._effects(other)):
            if first is None or second is None:
                return "it has more or fewer operations"
            if found := self._of_ops(first, second):
                return f"{first.name}: {found}"
        return ""

    def of_loads(self, before: Module, after: Module) -> str:
        """Whether loads say what their masks leave out, if they did before."""
        new = self._unsaid(after.walk()) - self._unsaid(before.walk()) - self.unsaid
        return "a load no longer says what its mask leaves out" if new else ""

    def _unsaid(self, ops: Iterable[Operation]) -> set[tuple[int, int]]:
        loads = [load for op in ops if (load := tt.LoadOp.of(op)) and load.other is None]
        return {(self._number(it.pointers), self._number(it.mask)) for it in loads if it.mask is not None}

    def _effects(self, block: Block) -> Iterator[Operation]:
        """The operations of a block that are compared in their order; those between them become values."""
        for op in block.ops:
            if op in self.own.ops or op in self.parked.ops:
                continue
            if self._is_value(op):
                for result in op.results:
                    self._number(result)
            else:
                yield op

    def _is_value(self, op: Operation) -> bool:
        if op in self.still or op in self.own.copies or op in self.parked.copies:
            return True
        if (op.regions and not tt.ReduceOp.matches(op)) or op.successors or not op.results:
            return False
        return is_pure(op) or SameNumberOp.matches(op)

    def _of_ops(self, one: Operation, other: Operation) -> str:
        each = _is_of_each(one)
        if ForOp.matches(one) and IfOp.matches(other):
            return self._of_iterations(one, other)
        if one.name != other.name:
            return f"{other.name} stands in its place"
        if (one.properties, one.attributes) != (other.properties, other.attributes):
            return "it has other properties"
        if len(one.operands) != len(other.operands):
            return "it has more or fewer operands"
        for index, (mine, its) in enumerate(zip(one.operands, other.operands, strict=True)):
            if self._number(mine) != self._number(its):
                return f"operand {index} is another value{self._why(mine, its)}"
            if one.name in _SUMS and _holds_product(mine) != _holds_product(its):
                return f"operand {index} {_ROUNDED}"
            if not each and mine.type != its.type:
                return f"operand {index} has another layout"
        if list(map(_place, one.successors)) != list(map(_place, other.successors)):
            return "it jumps elsewhere"
        if [len(it.blocks) for it in one.regions] != [len(it.blocks) for it in other.regions]:
            return "it has other regions"
        for mine, its in zip(one.regions, other.regions, strict=True):
            for first, second in zip(mine.blocks, its.blocks, strict=True):
                if found := self.of_blocks(first, second):
                    return found
        return self._bound(one.results, other.results, layouts=not each)

    def _of_iterations(self, loop: Operation, choice: Operation) -> str:
        """Whether a choice is between the iterations of a loop, one after another, and the loop itself."""
        straight, other = (it.block for it in choice.regions)
        effects = self._effects(other)
        still = ForOp.of(next(effects))
        if still is None:
            return "otherwise, something else is done"
        if found := self._of_ops(loop, still.op):
            return f"otherwise, {found}"
        results, end = list(map(self._number, loop.results)), list(effects)
        if len(end) != 1 or list(map(self._number, end[0].operands)) != results:
            return "otherwise, its results are others"
        trips, end = _known_trips(IfOp(choice).condition, still), list(self._effects(straight))
        if trips is None or len(end) != 1 or len(list(self._effects(still.body))) != 1:
            return "the number of iterations is not known, or they do more than compute"
        if list(map(self._number, end[0].operands)) != self._after(still, trips):
            return "iterations give other values"
        if not rounds_alike(still) or not rounds_alike(still, straight):
            return "a known mask decides how a sum is rounded"
        for result, number in zip(choice.results, results, strict=True):
            self.numbers[result] = number
        return ""

    def _after(self, loop: ForOp, trips: int) -> list[int]:
        """The numbers of what a loop carries behind so many iterations."""
        block, carried = Block(), loop.inits
        builder = Builder.at_end(block)
        for count in range(trips):
            inside: ValueMap = dict(zip(loop.iter_args, carried, strict=True))
            inside[loop.induction] = builder.constant(count, loop.induction.type)
            for op in loop.body.ops[:-1]:
                copy = block.append(clone_op(op, inside))
                self.still |= {copy} if op in self.still else set()
            carried = [inside.get(it, it) for it in loop.yielded]
        self.unsaid |= self._unsaid(block.ops)
        return list(map(self._number, carried))

    def _bound(self, ones: Sequence[Value], others: Sequence[Value], layouts: bool) -> str:
        """Takes values as equal from now on."""
        if len(ones) != len(others):
            return "it has more or fewer results"
        for one, other in zip(ones, others, strict=True):
            if (one.type != other.type) if layouts else (_shape(one) != _shape(other)):
                return "a result has another type"
            self.numbers[one] = self.numbers[other] = self._next()
        return ""

    # -- values --------------------------------------------------------------------------------------------------------

    def _next(self) -> int:
        return len(self.numbers) + len(self.known)

    def _number(self, value: Value) -> int:
        """The number of a value, apart from its layout."""
        if value not in self.numbers:
            op = value.defining_op
            same = _same(op)
            if same is not None:
                self.numbers[value] = self._number(same)
            elif op is None or not self._is_value(op):  # what only one program has
                self.numbers[value] = self._next()
            else:
                key = self._key(op), value.index
                self.numbers[value] = self.known.setdefault(key, self._next())
        return self.numbers[value]

    def _key(self, op: Operation) -> object:
        """What an operation computes."""
        copy = self.own.copies.get(op) or self.parked.copies.get(op)
        load = tt.LoadOp.of(op)
        if copy is not None or load is not None:
            access = copy if copy is not None else load
            assert access is not None
            mask = self._number(access.mask) if access.mask is not None else None
            # What a mask leaves out is 0 in a copy, and anything in a load that does not say it.
            other = self._number(access.other) if access.other is not None and not _is_zero(access.other) else None
            return tt.LoadOp.NAME, self._number(access.pointers), mask, other, _shape(op.result)
        name, texts = (MulFOp.NAME, ()) if RoundedProductOp.matches(op) else (op.name, (op.properties, op.attributes))
        said = tuple(
            (key, _TENSOR.sub(r"\1\2", text))
            for it in texts for key, text in sorted(it.items()) if text != _NO_FASTMATH
        )  # fmt: skip
        numbers = tuple(map(self._number, op.operands))
        types = (
            tuple(map(_shape, op.results)) if _is_of_each(op) else tuple(it.type for it in (*op.operands, *op.results))
        )
        rounded = tuple(map(_holds_product, op.operands)) if op.name in _SUMS else ()
        return name, said, numbers, types, rounded, tuple(_text(block) for it in op.regions for block in it.blocks)

    def _why(self, mine: Value, its: Value) -> str:
        """More about two values that differ."""
        while True:
            mine, its = map(_unconverted, (mine, its))
            one, other = mine.defining_op, its.defining_op
            if one is None or other is None or not self._is_value(one) or not self._is_value(other):
                return ""
            if one.name != other.name:
                return f": {one.name} is {other.name}"
            pairs = list(zip(one.operands, other.operands, strict=False))
            pair = next((it for it in pairs if self._number(it[0]) != self._number(it[1])), None)
            if pair is None:
                if one.name in _SUMS and any(_holds_product(a) != _holds_product(b) for a, b in pairs):
                    return f": an operand of {one.name} {_ROUNDED}"
                return f": {one.name} has other properties or layouts"
            mine, its = pair


@dataclass(frozen=True, slots=True)
class _Parked:
    """Tiles that are copied to a buffer of their own, and read from it behind a wait for the copy.

    copies: the copy that a read of shared memory gives. ops: all that belongs to such copies, reads apart.
    """

    copies: dict[Operation, AsyncCopyGlobalToLocalOp] = field(default_factory=dict[Operation, AsyncCopyGlobalToLocalOp])
    ops: set[Operation] = field(default_factory=set[Operation])

    @staticmethod
    def of(module: Module) -> _Parked:
        """The tiles of a program whose buffer is filled once, by one copy, and only read behind a wait for it."""
        found = _Parked()
        for op in module.walk():
            if LocalAllocOp.matches(op) and not op.operands:
                found._add(op)
        return found

    def _add(self, allocation: Operation) -> None:
        block = allocation.parent
        users = allocation.result.users
        copies = [copy for it in users if (copy := AsyncCopyGlobalToLocalOp.of(it))]
        reads = [it for it in users if LocalLoadOp.matches(it)]
        if block is None or len(copies) != 1 or len(copies) + len(reads) != len(users) or not reads:
            return
        copy = copies[0]
        if copy.op.parent is not block or copy.buffer is not allocation.result:
            return
        commits = _next(copy.op.result, AsyncCommitGroupOp)
        waits = _next(commits.result, AsyncWaitOp) if commits is not None else None
        if commits is None or waits is None or {commits.parent, waits.parent} != {block} or AsyncWaitOp(waits).num:
            return
        if all(
            (beside := it.within(block)) is not None and block.index_of(beside) > block.index_of(waits) for it in reads
        ):
            self.copies.update(dict.fromkeys(reads, copy))
            self.ops.update((allocation, copy.op, commits, waits))


def _next(token: Value, kind: type[AsyncCommitGroupOp] | type[AsyncWaitOp]) -> Operation | None:
    """The one operation of a kind that takes a token."""
    users = [it for it in token.users if kind.matches(it)]
    return users[0] if len(users) == 1 else None


def _text(block: Block) -> object:
    """The operations of a block without regions, apart from the names of its values."""
    places: dict[Value, object] = {it: (it.index, it.type) for it in block.args}
    for place, op in enumerate(block.ops):
        places |= {it: (place, it.index, it.type, op.name) for it in op.results}
    return tuple(
        (op.name, tuple(sorted(op.properties.items())), tuple(places.get(it, it) for it in op.operands))
        for op in block.ops
    )


def _known_trips(condition: Value, loop: ForOp) -> int | None:
    """The iterations of a loop that counts from 0 by ones, where a condition is true; None if they are not known."""
    op = condition.defining_op
    if op is None or loop.unsigned or constant_int(loop.lower) != 0 or constant_int(loop.step) != 1:
        return None
    if AndIOp.matches(op):
        return next((it for operand in op.operands if (it := _known_trips(operand, loop)) is not None), None)
    compare = CmpIOp.of(op)
    equal = compare is not None and compare.predicate is Predicate.EQ and op.operands[0] is loop.upper
    return constant_int(op.operands[1]) if equal else None


def _is_of_each(op: Operation) -> bool:
    """Whether an operation computes, loads or stores each element on its own."""
    return op.name in _EACH or op.name.startswith(("arith.", "math.")) or RoundedProductOp.matches(op)


def _same(op: Operation | None) -> Value | None:
    """The operand that the result of an operation equals: of a conversion, or of an address to which 0 is added."""
    if convert := ConvertLayoutOp.of(op):
        return convert.source
    add = tt.AddPtrOp.of(op)
    number = SameNumberOp.of(add.offset.defining_op) if add else None
    return add.pointer if add and number and constant_int(number.source) == 0 else None


def _unconverted(value: Value) -> Value:
    while (same := _same(value.defining_op)) is not None:
        value = same
    return value


def _is_zero(value: Value) -> bool:
    constant = ConstantOp.of(value.defining_op)
    return constant is not None and bool(_ZERO.match(constant.text))


_ZERO = re.compile(r"(dense<)?(0|0\.0+e\+00|0\.0+)(>| :|$)")


def _place(block: Block) -> int:
    """The number of a block in its region."""
    return block.parent.blocks.index(block) if block.parent is not None else 0


def _shape(value: Value) -> object:
    type = parse_type(value.type)
    return (type.shape, type.element) if isinstance(type, TensorType) else value.type


def _holds_product(value: Value) -> bool:
    """Whether a sum with this value may be rounded together with a product."""
    return bool(ways_of_products(value))
