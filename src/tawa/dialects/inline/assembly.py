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

from tawa.dialects.inline.markers import GroupIndexOp, SameNumberOp
from tawa.dialects.tt import INLINE, ExternElementwiseOp
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
_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPERAND = re.compile(r"\$(?:\d+|\{\d+(?::[a-z])?\})")
_REGISTERS = re.compile(r"\.reg\s*(?:\.\w+\s*)+(?=[%\w])")
_TWO_WORDS = re.compile(r"[\w%.}]\s+[\w%.{]|\}\s*[\w%.]")
_PREDICATE = re.compile(r"@!?\s*[%\w]+\s+")
_OPCODE = re.compile(r"([a-z][a-z0-9]*)(?:\.[\w:]+)*(?=[\s;]|$)")
_THREAD = re.compile(r"%\s*(?:tid|ntid|laneid|warpid|nwarpid|lanemask_\w+|clock\w*|globaltimer\w*)\b")
_PLAIN = re.compile(r"[\w\s%.,:;{}@!<>|+*()~^&=?/-]*")
"""No brackets (memory), no strings, and no character that LLVM or the assembler treats specially."""


def only_registers(op: Operation) -> bool:
    """Whether an operation of `INLINE` provably only computes its results from its operands."""
    if ExternElementwiseOp.matches(op):
        return _is_libdevice(op)
    if GroupIndexOp.matches(op) or SameNumberOp.matches(op):
        return True
    return computes_on_registers(op.properties.get("asm_string", ""))


def effect_unknown(op: Operation) -> bool:
    """Whether an operation may have effects that no check models: named barriers, raw memory accesses."""
    return op.name in INLINE and not only_registers(op)


def reads_thread(op: Operation) -> bool:
    """Whether inline assembly reads a register that differs between threads: its number, its lane, a clock.

    So do the registers that say how many threads and warps the CTA has.
    """
    return _THREAD.search(_unescaped(op.properties.get("asm_string", '""'))) is not None


def shown(op: Operation) -> str:
    """The code of an operation of `INLINE`, in one short line."""
    text = op.properties.get("asm_string", op.properties.get("symbol", '""'))
    plain = " ".join(_unescaped(text).split())
    return plain if len(plain) <= 60 else f"{plain[:57]}..."


def computes_on_registers(quoted: str) -> bool:
    """Whether every instruction of PTX text, quoted as in an attribute, accesses only registers."""
    text = _unescaped(quoted).replace("\r\n", "\n")
    if re.search(r"[^\S \t\n]", text):
        return False  # other line breaks might end a comment
    text = _OPERAND.sub("r", _COMMENT.sub(" ", text))
    if _PLAIN.fullmatch(text) is None or "//" in text or "/*" in text:
        return False
    return all(_is_harmless(statement) for statement in text.split(";"))


def _unescaped(quoted: str) -> str:
    inner = quoted[1:-1] if len(quoted) > 1 else quoted
    return _ESCAPE.sub(lambda it: chr(int(it[1], 16)) if len(it[1]) == 2 else it[1], inner)


def _is_harmless(statement: str) -> bool:
    statement = statement.strip("{} \t\n")  # scopes; no statement starts with a register vector
    if not statement:
        return True
    if found := _REGISTERS.match(statement):
        return _is_list(statement[found.end() :])
    statement = statement[found.end() :] if (found := _PREDICATE.match(statement)) else statement
    opcode = _OPCODE.match(statement)
    return opcode is not None and opcode[1] in _REGISTERS_ONLY and _is_list(statement[opcode.end() :])


def _is_list(operands: str) -> bool:
    """Whether the operands are separated by commas; adjacent words, or a label, may hide another instruction."""
    return ":" not in operands and _TWO_WORDS.search(operands) is None


def _is_libdevice(op: Operation) -> bool:
    """Functions of NVIDIA's libdevice are pure; an operation with a `libpath` calls another library."""
    named = [op.properties.get(name, '""').strip('"') for name in ("libname", "libpath", "symbol")]
    return not named[1] and named[0] in ("", "libdevice") and named[2].startswith("__nv_")
