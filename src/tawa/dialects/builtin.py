"""`builtin`, `ub`, `llvm`, `gpu`, `cf`: what Triton takes from MLIR's other dialects."""

from __future__ import annotations

from tawa.dialects.declare.declaration import ANY_EFFECT, Effect, OpView
from tawa.dialects.declare.families import YieldingOp
from tawa.dialects.declare.fields import operand, segment


class ModuleOp(OpView):
    """``builtin.module``: the whole file. Region: its functions."""

    NAME = "builtin.module"
    ISOLATED = True
    RECURSIVE = True
    __slots__ = ()


class PoisonOp(OpView):
    """``ub.poison``: an undefined value. Pure."""

    NAME = "ub.poison"
    __slots__ = ()


class AssumeOp(OpView):
    """``llvm.intr.assume``: says that an i1 holds.

    Changes nothing, but is only as good as the place it stands at: it stays where its operand is.
    """

    NAME = "llvm.intr.assume"
    EFFECTS = (Effect("order"),)
    __slots__ = ()
    condition = operand(0)


class InlineAsmOp(OpView):
    """``llvm.inline_asm``: instructions of which nothing is known."""

    NAME = "llvm.inline_asm"
    EFFECTS = ANY_EFFECT
    RECURSIVE = True
    OPAQUE = True
    __slots__ = ()


class GpuBarrierOp(OpView):
    """``gpu.barrier``: synchronises all warps of the kernel."""

    NAME = "gpu.barrier"
    EFFECTS = (Effect("barrier"),)
    __slots__ = ()


class BranchOp(YieldingOp):
    """``cf.br``: goes on in another block, with its operands as arguments."""

    NAME = "cf.br"
    __slots__ = ()


class CondBranchOp(OpView):
    """``cf.cond_br``: goes on in one of two blocks. Operands: an i1, the arguments of either block."""

    NAME = "cf.cond_br"
    TERMINATOR = True
    __slots__ = ()
    condition = operand(0)
    true_operands, false_operands = segment(1), segment(2)
