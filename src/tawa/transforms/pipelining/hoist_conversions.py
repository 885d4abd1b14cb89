"""Hoist conversions: a loop carries and loads tiles in the layout in which it computes with them.

    for … iter_args(%s : #mma):                      %a = convert %init : #mma to #blocked
      %t = … : #blocked                              for … iter_args(%s : #blocked):
      %c = convert %t : #blocked to #mma       →       %t = … : #blocked
      %n = addf %s, %c : #mma                          %n = addf %s, %t : #blocked
      yield %n                                         yield %n
                                                     %r = convert … : #blocked to #mma

A conversion passes through shared memory, with a barrier of all warps before and behind it. Triton gives the result of
a dot the layout of the dot; a loop behind the dot that adds to this result then converts every term. And it keeps the
layout of a load unless the load has fewer elements than there are threads; in a program of one or two warps, every row
that a loop loads is therefore converted. Here, the tiles of one layout that depend on each other elementwise (a group)
get the layout that other operations of the loop have, if fewer bytes are then converted in the loop. The group grows
from each conversion, against and along the data flow, through elementwise operations, loop-carried values, and loads
and stores of rows; tiles of several rows are loaded and stored as before, since their layouts make the accesses wide.

Requires: TTGIR before anything is specialised.
Ensures: each element is computed by the same operations in the same order; only the thread that computes it differs.
An access moves to other threads only if no other access to its memory is left unordered with it (`own_rows`). A sum is
rounded together with a product if, and only if, it was before: a product whose conversion goes is rounded apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from tawa.analysis.memory.own_rows import AccessInfo
from tawa.dialects import tt
from tawa.dialects.arith import ConstantOp, MulFOp
from tawa.dialects.effects import is_plain_load, is_pure
from tawa.dialects.inline.markers import RoundedProductOp
from tawa.dialects.inline.rounding import UNROUNDED
from tawa.dialects.scf import ForOp
from tawa.dialects.ttg import ConvertLayoutOp
from tawa.ir import Builder, Module, Operation, TensorType, Use, Value, clone_op, parse_type, replace_op, shape_of
from tawa.machine.fused_products import CARRIED, products_of, ways_of_products
from tawa.symbolic.dim_relations import FREE, SOURCES, has_rows
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class HoistConversions:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Rewrites every `scf.for`, inner loops first."""
        changed, accesses = False, AccessInfo.of(module)
        for loop in reversed([loop for op in module.walk() if (loop := ForOp.of(op))]):
            while (group := next(_groups(loop, accesses), None)) is not None:
                group.move()
                changed = True
        return PassResult(changed)


def _groups(loop: ForOp, accesses: AccessInfo) -> Iterator[_Group]:
    """The groups of a loop whose other layout saves conversions."""
    for op in loop.body.ops:
        convert = ConvertLayoutOp.of(op)
        if convert is None or prod(shape_of(op.result)) == 1:  # all threads have the one element
            continue
        source, target = parse_type(convert.source.type), parse_type(op.result.type)
        assert isinstance(source, TensorType) and isinstance(target, TensorType)
        for seed, old, new in ((convert.source, source, target), (op.result, target, source)):
            group = _Group(loop, accesses, old.shape, old.encoding, new.encoding)
            if group.grow(seed) and group.saved > 0:
                yield group


@dataclass(slots=True)
class _Group:
    """Tiles of one shape and one layout in a loop, which may all get another layout.

    members: results of operations of the body, and loop-carried arguments. stores: of rows, from members. entering:
    operands of members and stores that would have to be converted in the loop; leaving: members that would. dropped:
    conversions that are not needed any more.
    """

    loop: ForOp
    accesses: AccessInfo
    shape: tuple[int, ...]
    old: str
    new: str
    members: dict[Value, None] = field(default_factory=dict[Value, None])
    stores: dict[Operation, None] = field(default_factory=dict[Operation, None])
    entering: dict[Value, None] = field(default_factory=dict[Value, None])
    leaving: dict[Value, None] = field(default_factory=dict[Value, None])
    dropped: dict[Operation, None] = field(default_factory=dict[Operation, None])

    # -- which tiles belong together -----------------------------------------------------------------------------------

    def grow(self, seed: Value) -> bool:
        """Adds all tiles that belong to the group of a tile; returns whether it belongs to a group itself."""
        work = [seed] if self._takes(seed) else []
        if self._comes_from(seed.defining_op):
            work = [it for use in seed.uses if (it := _made_by(use, self.loop)) is not None and self._takes(it)]
            work += [it for use in seed.uses if self._is_stored(use) for it in self._stored(use.op)]
        while work:
            value = work.pop()
            if value not in self.members:
                self.members[value] = None
                work += [it for it in self._operands(value) if self._enters(it)]
                work += self._taken_users(value)
        return bool(self.members or self.stores)

    def _is_tile(self, value: Value) -> bool:
        type = parse_type(value.type)
        return isinstance(type, TensorType) and (type.shape, type.encoding) == (self.shape, self.old)

    def _takes(self, value: Value) -> bool:
        """Whether a value can be a member."""
        if not self._is_tile(value):
            return False
        if value.owner is self.loop.body:
            return value.index > 0
        op = value.defining_op
        if op is None or op.parent is not self.loop.body or op.regions or len(op.results) != 1:
            return False
        return (op.name in FREE and is_pure(op)) or (is_plain_load(op) and self._is_row(op, value))

    def _is_row(self, access: Operation, value: Value) -> bool:
        """Whether an access of the body is one of a row that other threads may execute."""
        return not has_rows(value) and self.accesses.may_move(access, self.loop.op)

    def _is_stored(self, use: Use) -> bool:
        """Whether a use is part of a store of a row that can take the new layout."""
        inside = tt.StoreOp.matches(use.op) and use.op.parent is self.loop.body
        return inside and self._is_row(use.op, use.value)

    def _stored(self, store: Operation) -> list[Value]:
        """Adds a store; returns its operands that become members."""
        if store in self.stores:
            return []
        self.stores[store] = None
        return [it for it in store.operands if self._is_tile(it) and self._enters(it)]

    def _operands(self, member: Value) -> list[Value]:
        """The tiles that a member is computed from in the loop."""
        if member.owner is self.loop.body:
            return [self.loop.yielded[member.index - 1]]
        assert member.defining_op is not None
        return [it for it in member.defining_op.operands if self._is_tile(it)]

    def _enters(self, operand: Value) -> bool:
        """Whether an operand of a member becomes a member; notes what it costs if it does not."""
        if self._takes(operand):
            return True
        op = operand.defining_op
        if self._is_inside(operand) and not (op is not None and op.name in SOURCES):
            if self._comes_from(op):
                self.dropped[op] = None  # type: ignore[index]
            else:
                self.entering[operand] = None
        return False

    def _is_inside(self, value: Value) -> bool:
        op = value.defining_op
        return value.owner is self.loop.body or (op is not None and self.loop.op.is_ancestor_of(op))

    def _comes_from(self, op: Operation | None) -> bool:
        """Whether an operation converts a tile that has the new layout."""
        convert = ConvertLayoutOp.of(op)
        return convert is not None and _encoding(convert.source) == self.new

    def _taken_users(self, value: Value) -> list[Value]:
        """The uses of a member that become members; notes the others."""
        found: list[Value] = []
        for use in value.uses:
            user = use.op
            if user is self.loop.body.terminator:
                found.append(self.loop.iter_args[use.index])
            elif user.parent is self.loop.body and ConvertLayoutOp.matches(user):
                if _encoding(user.result) == self.new:
                    self.dropped[user] = None
            elif user.results and self._takes(user.results[0]):
                found.append(user.results[0])
            elif self._is_stored(use):
                found += self._stored(user)
            else:
                self.leaving[value] = None
        return found

    @property
    def saved(self) -> int:
        """Bytes that are not converted any more in an iteration; negative if more are, or if a sum rounds otherwise.

        Addresses are not converted.
        """
        crossing = [*self.entering, *self.leaving]
        fused = (ways_of_products(it) - {CARRIED} for it in crossing)
        if any("!tt.ptr" in it.type for it in crossing) or any(fused) or not all(map(_can_round, self._added)):
            return -1
        gone = sum(_bytes(op.result) for op in self.dropped if self._is_gone(op))
        return gone - sum(map(_bytes, crossing))

    def _is_gone(self, op: Operation) -> bool:
        """Whether nothing uses the result of a dropped conversion in its old layout."""
        return _encoding(op.result) == self.new or all(map(self._is_taken, op.result.uses))

    def _is_taken(self, use: Use) -> bool:
        """Whether a use makes a member, or is part of a store of the group."""
        return use.op in self.stores or _made_by(use, self.loop) in self.members

    @property
    def _added(self) -> list[Operation]:
        """The dropped conversions whose results may be added to something: those that are not only stored."""
        return [op for op in self.dropped if not all(it in self.stores for it in op.result.users)]

    # -- the rewrite ---------------------------------------------------------------------------------------------------

    def move(self) -> None:
        """Gives all members the new layout."""
        for product in dict.fromkeys(it for op in self._added for it in products_of(op.operands[0])):
            rounded = RoundedProductOp.create(Builder.before(product), product)
            self.members = {rounded if it is product.result else it: None for it in self.members}
            replace_op(product, [rounded])
        made: dict[Value, Value] = {}
        uses = [use for member in self.members for use in self._uses_by(member)]
        uses += [op.use(index) for op in self.stores for index in range(len(op.operands))]
        for use in uses:
            if self._is_tile(use.value) and use.value not in self.members:
                use.op.set_operand(use.index, self._in_new(use, made))
        for member in self.members:
            if member.owner is self.loop.body:
                self._leave(self.loop.op.results[member.index - 1], Builder.after(self.loop.op))
            elif member in self.leaving:
                assert member.defining_op is not None
                self._leave(member, Builder.after(member.defining_op))
        for member in self.members:
            if member in self.leaving and member.owner is self.loop.body:
                self._leave(member, Builder.at_start(self.loop.body, self.loop.op.loc))
            member.type = _with(member.type, self.new)
        for op in self.dropped:
            if _encoding(op.result) == self.new:
                op.result.replace_all_uses_with(op.operands[0])
            if not op.result.uses:
                op.erase()

    def _uses_by(self, member: Value) -> list[Use]:
        """The operands that a member is computed from."""
        if member.owner is self.loop.body:
            at = member.index - 1
            return [self.loop.op.use(3 + at), self.loop.body.terminator.use(at)]
        assert member.defining_op is not None
        return [member.defining_op.use(index) for index in range(len(member.defining_op.operands))]

    def _in_new(self, use: Use, made: dict[Value, Value]) -> Value:
        """An operand that is not a member, in the new layout."""
        value, op = use.value, use.value.defining_op
        if self._comes_from(op) and self._is_inside(value):
            assert op is not None
            return op.operands[0]
        if value not in made:
            builder = self._place(value)
            if op is not None and op.name in SOURCES:
                copy = clone_op(op, {})
                copy.result.type = _with(value.type, self.new)
                if ConstantOp.matches(copy):
                    copy.properties["value"] = copy.properties["value"].replace(value.type, copy.result.type)
                made[value] = builder.insert(copy).result
            else:
                made[value] = _converted(builder, value, self.new)
        return made[value]

    def _place(self, value: Value) -> Builder:
        """Where a value is converted: before the loop, or behind its definition in the loop."""
        if not self._is_inside(value):
            return Builder.before(self.loop.op)
        if value.defining_op is None:
            return Builder.at_start(self.loop.body, self.loop.op.loc)
        return Builder.after(value.defining_op)

    def _leave(self, value: Value, builder: Builder) -> None:
        """Gives a value the new layout, and those of its uses that are not members the old one."""
        old = value.type
        uses = [use for use in value.uses if not self._keeps(use)]
        value.type = _with(old, self.new)
        if uses:
            back = _converted(builder, value, self.old)
            for use in uses:
                use.op.set_operand(use.index, back)
        for user in value.users:
            if ConvertLayoutOp.matches(user) and user.result.type == value.type and user not in self.dropped:
                user.result.replace_all_uses_with(value)
                user.erase()

    def _keeps(self, use: Use) -> bool:
        """Whether a use takes the new layout: it converts, or the group has it."""
        return ConvertLayoutOp.matches(use.op) or self._is_taken(use)


def _can_round(convert: Operation) -> bool:
    """Whether the products that a conversion takes can be rounded where they are made.

    Nothing else uses them, and the conversion does not only rename registers: LLVM looks through that.
    """
    products = products_of(convert.operands[0])
    if ways_of_products(convert.result) - {CARRIED}:
        return False
    return all(it.result.type.endswith("f32") or "xf32," in it.result.type for it in products) and (
        not products or _is_only_used_by(convert.operands[0], convert)
    )


def _is_only_used_by(value: Value, user: Operation) -> bool:
    op = value.defining_op
    if op is None or [it.op for it in value.uses] != [user]:
        return not products_of(value)
    return MulFOp.matches(op) or op.name not in UNROUNDED or all(_is_only_used_by(it, op) for it in op.operands)


def _made_by(use: Use, loop: ForOp) -> Value | None:
    """What an operand becomes: the result of its operation, or a loop-carried argument."""
    if use.op is loop.body.terminator:
        return loop.iter_args[use.index]
    return use.op.results[0] if use.op.parent is loop.body and len(use.op.results) == 1 else None


def _converted(builder: Builder, value: Value, encoding: str) -> Value:
    return builder.create(ConvertLayoutOp.NAME, (value,), (_with(value.type, encoding),), hints=(value.hint,)).result


def _encoding(value: Value) -> str:
    type = parse_type(value.type)
    assert isinstance(type, TensorType)
    return type.encoding


def _with(type: str, encoding: str) -> str:
    tile = parse_type(type)
    assert isinstance(tile, TensorType)
    return str(replace(tile, encoding=encoding))


def _bytes(value: Value) -> int:
    type = parse_type(value.type)
    assert isinstance(type, TensorType)
    return type.bytes
