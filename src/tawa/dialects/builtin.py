"""`builtin`, `ub`, `llvm`, `gpu`, `cf`: the operations of other MLIR dialects that Triton uses."""

from __future__ import annotations

from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView
from tawa.dialects.declare.families import UnaryOp, YieldingOp
from tawa.dialects.declare.fields import operand, segment


class ModuleOp(OpView):
    """``builtin.module``: the whole file. Region: its functions."""

    NAME = "builtin.module"
    ISOLATED = True
    RECURSIVE = True


class CastOp(UnaryOp):
    """``builtin.unrealized_conversion_cast``: a value under another type that means the same in LLVM. Pure.

    Tawa casts a descriptor to one with narrower blocks, which are copied in the same boxes.
    """

    NAME = "builtin.unrealized_conversion_cast"


class PoisonOp(OpView):
    """``ub.poison``: an undefined value. Pure."""

    NAME = "ub.poison"


class AssumeOp(OpView):
    """``llvm.intr.assume``: states that an i1 is true.

    It has no effect, but it holds only where control flow reaches it, so it must not move.
    """

    NAME = "llvm.intr.assume"
    EFFECTS = (Effect("order"),)
    condition = operand(0)


class InlineAsmOp(OpView):
    """``llvm.inline_asm``: instructions with unknown effects."""

    NAME = "llvm.inline_asm"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True


class GpuBarrierOp(OpView):
    """``gpu.barrier``: synchronises all warps of the kernel."""

    NAME = "gpu.barrier"
    EFFECTS = (Effect("barrier"),)


class BranchOp(YieldingOp):
    """``cf.br``: jumps to another block; its operands become the block's arguments."""

    NAME = "cf.br"


class CondBranchOp(OpView):
    """``cf.cond_br``: jumps to one of two blocks. Operands: an i1, the arguments of each block."""

    NAME = "cf.cond_br"
    TERMINATOR = True
    condition = operand(0)
    true_operands, false_operands = segment(1), segment(2)
