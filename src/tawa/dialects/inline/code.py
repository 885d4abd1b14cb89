"""The operations of `tt` that are foreign code: PTX, and functions of a library."""

from __future__ import annotations

from tawa.dialects.declare.declaration import ANY_EFFECT, OpView, op_names
from tawa.dialects.declare.fields import attribute
from tawa.ir.attributes import read_string


class _InlineOp(OpView):
    """Foreign code. Its text says which effects it has (`tawa.dialects.inline.effects`)."""

    EFFECTS = ANY_EFFECT
    OPAQUE = True


class ElementwiseInlineAsmOp(_InlineOp):
    """``tt.elementwise_inline_asm``: applies PTX to each element of tiles."""

    NAME = "tt.elementwise_inline_asm"
    asm = attribute("asm_string", read_string, '""')


class ExternElementwiseOp(_InlineOp):
    """``tt.extern_elementwise``: applies a library function to each element of tiles."""

    NAME = "tt.extern_elementwise"
    symbol = attribute("symbol", read_string, '""')


INLINE = op_names(ElementwiseInlineAsmOp, ExternElementwiseOp)
