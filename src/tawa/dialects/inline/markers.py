"""Operations of Tawa in the form of inline assembly, so that Triton's passes carry them along unread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tawa.dialects.arith import constant_int
from tawa.dialects.declare.declaration import Refinement
from tawa.dialects.declare.fields import operand
from tawa.dialects.inline.code import ElementwiseInlineAsmOp
from tawa.ir import Builder, Operation, Value
from tawa.ir.attributes import int_attr, read_string, string_attr


class _MarkerOp(Refinement, ElementwiseInlineAsmOp):
    """Inline assembly whose text marks an operation of Tawa."""

    ASM: ClassVar[str]

    @classmethod
    def matches(cls, op: Operation | None) -> bool:
        """Whether `op` is inline assembly with this text."""
        if op is None or op.name != cls.NAME:
            return False
        return read_string(op.properties.get("asm_string", '""')) == cls.ASM

    @classmethod
    def make(cls, builder: Builder, operands: Sequence[Value], constraints: str, type: str, hint: str,
             pure: bool = True) -> Value:  # fmt: skip
        """Makes one at the builder's point. type, hint: of the result."""
        properties = {
            "asm_string": string_attr(cls.ASM),
            "constraints": string_attr(constraints),
            "packed_element": int_attr(1),
            "pure": "true" if pure else "false",
        }
        return builder.create(cls.NAME, operands, (type,), properties=properties, hints=(hint,)).result


class GroupIndexOp(_MarkerOp):
    """``tt.elementwise_inline_asm "tawa.group"``: the number of the consumer group that executes it, 0 … G - 1.

    Operand: a constant i32, the number of groups G. Result: i32. Pure. It occurs in a program whose tile is split among
    groups, and becomes a constant once each group has its own copy of the program. Triton's layout passes may merge
    and move it, but they neither fold it nor read the text. It is never assembled.
    """

    ASM = "tawa.group"
    groups = operand(0)

    @staticmethod
    def create(builder: Builder, groups: int) -> Value:
        """Makes one at the builder's point."""
        return GroupIndexOp.make(builder, (builder.constant(groups),), "=r,r", "i32", "group")


class SameNumberOp(_MarkerOp):
    """``tt.elementwise_inline_asm "shfl.sync.idx.b32"``: broadcasts a warp-uniform number from lane 0.

    Operand and result: i32. The result equals the operand, but LLVM and ptxas cannot tell. Not pure, so that two
    of them are never merged.
    """

    ASM = "shfl.sync.idx.b32 $0, $1, 0, 0x1f, 0xffffffff;"
    source = operand(0)

    @staticmethod
    def create(builder: Builder, number: Value) -> Value:
        """Makes one at the builder's point."""
        return SameNumberOp.make(builder, (number,), "=r,r", "i32", "slot", pure=False)


class RoundedProductOp(_MarkerOp):
    """``tt.elementwise_inline_asm "mul.rn.f32"``: a product of floats that is rounded before anything is added to it.

    Operands: two tiles of f32, or two numbers. LLVM and ptxas round ``arith.mulf`` and a sum together.
    """

    ASM = "mul.rn.f32 $0, $1, $2;"

    @staticmethod
    def create(builder: Builder, product: Operation) -> Value:
        """Makes one at the builder's point, of the operands of an ``arith.mulf``."""
        result = product.result
        return RoundedProductOp.make(builder, product.operands, "=f,f,f", result.type, result.hint)


class _OfGroupsOp(_MarkerOp):
    """A tile that all consumer groups together have; in the program for the whole tile the operand itself. Pure."""

    source = operand(0)

    @classmethod
    def create(cls, builder: Builder, tile: Value) -> Value:
        """Makes one at the builder's point."""
        return cls.make(builder, (tile,), "=r,r", tile.type, tile.hint)


class PartOfTileOp(_OfGroupsOp):
    """``tt.elementwise_inline_asm "tawa.part"``: of a whole tile, the part of the group that executes it."""

    ASM = "tawa.part"


class WholeTileOp(_OfGroupsOp):
    """``tt.elementwise_inline_asm "tawa.whole"``: the whole of a tile of which each group has computed its part."""

    ASM = "tawa.whole"


class OwnedTileOp(_MarkerOp):
    """``tt.elementwise_inline_asm "tawa.owned"``: the tile that one consumer group has computed for all of them.

    Operands: the tile, and a constant i32, the number of the group. Result: the tile. Pure.
    """

    ASM = "tawa.owned"
    source, owner = operand(0), operand(1)

    @property
    def group(self) -> int:
        """The number of the group."""
        found = constant_int(self.owner)
        assert found is not None
        return found

    @staticmethod
    def create(builder: Builder, tile: Value, group: int) -> Value:
        """Makes one at the builder's point."""
        return OwnedTileOp.make(builder, (tile, builder.constant(group)), "=r,r,r", tile.type, tile.hint)
