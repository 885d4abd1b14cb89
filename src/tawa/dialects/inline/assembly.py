"""Inline assembly and external functions: which of them provably access only registers.

    cvt.rn.bf16x2.f32 $0, $2, $1;            registers only
    { .reg .b32 t; shl.b32 t, $1, 4; lop3.b32 $0, t, $1, 15, 0xea; }   registers only
    bar.sync 8, 256;                         unknown: a barrier
    ld.shared.b32 $0, [$1];                  unknown: memory

The attribute ``pure`` is only a claim of the author. This module checks the text instruction by instruction; an
instruction, a directive or a spelling that is not listed here may have any effect.

Source: PTX ISA, "Instruction Set"; LLVM Language Reference, "Inline Asm Template Argument".
"""

from __future__ import annotations

import re

from tawa.dialects.inline.code import ExternElementwiseOp
from tawa.dialects.inline.markers import GroupIndexOp, SameNumberOp
from tawa.dialects.inline.ptx import Statement, statements, unescaped
from tawa.ir import Operation

_INTEGER = (
    "add addc sub subc mul mul24 mad mad24 madc sad div rem abs neg min max popc clz bfind fns brev bfe bfi szext bmsk "
    "dp4a dp2a"
)
_VIDEO = (
    "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 "
    "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4"
)
_FLOAT = "fma rcp sqrt rsqrt sin cos lg2 ex2 tanh copysign testp"
_LOGIC = "and or xor not cnot lop3 shf shl shr set setp selp slct"
_MOVES = "mov prmt cvt cvta isspacep"
_REGISTERS_ONLY = frozenset(" ".join((_INTEGER, _VIDEO, _FLOAT, _LOGIC, _MOVES)).split())
_THREAD = re.compile(r"%\s*(?:tid|ntid|laneid|warpid|nwarpid|lanemask_\w+|clock\w*|globaltimer\w*)\b")


def only_registers(op: Operation) -> bool:
    """Whether an operation of `INLINE` provably only computes its results from its operands."""
    if ExternElementwiseOp.matches(op):
        return _is_libdevice(op)
    if GroupIndexOp.matches(op) or SameNumberOp.matches(op):
        return True
    return computes_on_registers(op.properties.get("asm_string", ""))


def reads_thread(op: Operation) -> bool:
    """Whether inline assembly reads a register that differs between threads: its number, its lane, a clock.

    So do the registers that say how many threads and warps the CTA has.
    """
    return _THREAD.search(unescaped(op.properties.get("asm_string", '""'))) is not None


def shown(op: Operation) -> str:
    """The code of an operation of `INLINE`, in one short line."""
    text = op.properties.get("asm_string", op.properties.get("symbol", '""'))
    plain = " ".join(unescaped(text).split())
    return plain if len(plain) <= 60 else f"{plain[:57]}..."


def computes_on_registers(quoted: str) -> bool:
    """Whether every instruction of PTX text, quoted as in an attribute, accesses only registers."""
    found = statements(quoted)
    return found is not None and all(is_register_instruction(statement) for statement in found)


def is_register_instruction(statement: Statement) -> bool:
    """Whether an instruction only computes registers from registers."""
    return statement.words[0] in _REGISTERS_ONLY and not any("[" in operand for operand in statement.operands)


def _is_libdevice(op: Operation) -> bool:
    """Functions of NVIDIA's libdevice are pure; an operation with a `libpath` calls another library."""
    named = [op.properties.get(name, '""').strip('"') for name in ("libname", "libpath", "symbol")]
    return not named[1] and named[0] in ("", "libdevice") and named[2].startswith("__nv_")
