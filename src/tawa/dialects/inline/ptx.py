"""The statements of PTX text in inline assembly.

    "bar.sync 8, $1; @p mov.u32 $0, $1;"   →   bar.sync (8, $1);  @p mov.u32 ($0, $1)

Text that is not certain to be a plain list of instructions is not read at all: labels, strings, alternatives,
directives other than ``.reg``, line breaks that might end a comment.

Source: PTX ISA, "Syntax", "Instruction Statements"; LLVM Language Reference, "Inline Asm Template Argument".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_ESCAPE = re.compile(r"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_OPERAND = re.compile(r"\$(?:(\d+)|\{(\d+)(?::[a-z])?\})")
_NAME = "operand__"
_NAMED = re.compile(rf"\b{_NAME}(\d+)\b")
_REGISTERS = re.compile(r"\.reg\s*(?:\.\w+\s*)+(?=[%\w])")
_TWO_WORDS = re.compile(r"[\w%.}\]]\s+[\w%.{\[]|[}\]]\s*[\w%.\[]")
_PREDICATE = re.compile(r"@!?\s*[%\w]+\s+")
_OPCODE = re.compile(r"[a-z][a-z0-9]*(?:\.[\w:]+)*(?=[\s;]|$)")
_PLAIN = re.compile(r"[\w\s%.,:;{}@!<>|+*()~^&=?/\[\]-]*")
"""No strings, and no character that LLVM or the assembler treats specially."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One instruction.

    opcode: with its modifiers. operands: as written; those of the assembly are ``$0``, ``$1``, …. predicated: whether
    it has a guard (``@p``).
    """

    opcode: str
    operands: tuple[str, ...]
    predicated: bool

    @property
    def words(self) -> tuple[str, ...]:
        """The parts of the opcode: ``fence.proxy.async`` is (fence, proxy, async)."""
        return tuple(self.opcode.split("."))

    def __str__(self) -> str:
        return " ".join((self.opcode, ", ".join(self.operands))).strip()


@lru_cache(maxsize=256)
def statements(quoted: str) -> tuple[Statement, ...] | None:
    """The instructions of PTX text that is quoted as in an attribute; None if the text is not plain instructions."""
    text = unescaped(quoted).replace("\r\n", "\n")
    if re.search(r"[^\S \t\n]", text) or _NAME in text:
        return None  # other line breaks might end a comment
    text = _OPERAND.sub(lambda it: f"{_NAME}{it[1] or it[2]}", _COMMENT.sub(" ", text))
    if _PLAIN.fullmatch(text) is None or "//" in text or "/*" in text:
        return None
    found: list[Statement] = []
    for line in text.split(";"):
        line = line.strip("{} \t\n")  # scopes; no statement starts with a register vector
        if not line:
            continue
        if declared := _REGISTERS.match(line):
            if not _is_list(line[declared.end() :]):
                return None
            continue
        guard = _PREDICATE.match(line)
        line = line[guard.end() :] if guard else line
        opcode = _OPCODE.match(line)
        if opcode is None or not _is_list(line[opcode.end() :]):
            return None
        found.append(Statement(opcode[0], _operands(line[opcode.end() :]), guard is not None))
    return tuple(found)


def unescaped(quoted: str) -> str:
    """The text of a quoted attribute."""
    inner = quoted[1:-1] if len(quoted) > 1 else quoted
    return _ESCAPE.sub(lambda it: chr(int(it[1], 16)) if len(it[1]) == 2 else it[1], inner)


def _is_list(operands: str) -> bool:
    """Whether the operands are separated by commas; adjacent words, or a label, may hide another instruction."""
    return ":" not in operands and _TWO_WORDS.search(operands) is None


def _operands(text: str) -> tuple[str, ...]:
    """The operands, separated by the commas outside brackets."""
    parts, depth = [""], 0
    for character in _NAMED.sub(r"$\1", text):
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts) if text.strip() else ()
