"""What inline assembly does besides computing on registers: a table of PTX instructions.

    bar.sync 8, 256;              a named barrier: 256 threads meet at number 8
    bar.arrive $1, 256;           arrives only; the number is an operand of the assembly
    fence.proxy.async;            a proxy fence
    prefetch.global.L2 [$1];      a hint: no effect on the protocol
    griddepcontrol.wait;          waits for earlier grids: no effect on the protocol
    ld.shared.b32 $0, [$1];       not in the table

An instruction outside the table, or one whose form is not certain, makes the whole operation `Unlisted`: it may do
anything. Two questions are asked of the table. The checks and the simulator ask for the effects on the protocol of
barriers and shared memory (`effects_of`): instructions that only add order (`membar`, `fence.acq_rel`) have none, since
no proof relies on them. Passes that move and copy operations ask what ties one to its place (`ties_of`): such an
instruction does, and a hint does not.

Source: PTX ISA, "Parallel Synchronization and Communication Instructions" (bar, barrier, membar, fence,
griddepcontrol, shfl.sync, vote.sync, match.sync, redux.sync), "Data Movement" (prefetch, prefetchu, createpolicy),
"Miscellaneous" (nanosleep, setmaxnreg).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tawa.dialects.declare.declaration import EffectKind
from tawa.dialects.inline.assembly import is_register_instruction, only_registers, shown
from tawa.dialects.inline.code import INLINE, ElementwiseInlineAsmOp, ExternElementwiseOp
from tawa.dialects.inline.markers import GroupIndexOp, SameNumberOp
from tawa.dialects.inline.ptx import Statement, statements, unescaped
from tawa.dialects.tt import FuncOp
from tawa.ir import Operation, Value
from tawa.ir.attributes import read_bool, read_string

NAMED_BARRIERS = 16
"""The named barriers of a CTA have the numbers 0 … 15."""


@dataclass(frozen=True, slots=True)
class NamedBarrier:
    """Each thread arrives at barrier `number`; with `waits`, until `threads` have arrived. threads: None for the CTA.

    A number is an integer, or an operand of the assembly.
    """

    number: int | Value
    threads: int | Value | None
    waits: bool


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """``fence.proxy.async``: orders generic and asynchronous accesses of shared memory."""


@dataclass(frozen=True, slots=True)
class Tie:
    """No effect on the protocol, but one that ties the assembly to its place, as in `tawa.dialects.declare`."""

    kind: EffectKind


_ANY, _HINT, _GRIDS = Tie("any"), Tie("hint"), Tie("grids")


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Assembly that may do anything. reason: which instruction, and why."""

    reason: str


Effect = NamedBarrier | ProxyFence
_Rule = Callable[[Statement, "_Operands"], "Effect | Tie | Unlisted"]


def effects_of(op: Operation) -> tuple[Effect, ...] | Unlisted:
    """The effects on the protocol of an operation of `INLINE`, in their order; empty for any other operation."""
    found = _found(op)
    if isinstance(found, Unlisted):
        return found
    effects = tuple(it for it in found if not isinstance(it, Tie))
    stop = _not_once(op) if effects else None
    return effects if stop is None else Unlisted(f"{_what(op)}: {stop}")


def ties_of(op: Operation) -> set[EffectKind]:
    """What ties an operation of `INLINE` to its place; empty if it only computes its results from its operands.

    The author of code that is declared pure vouches for it. Other code may read no special register (``%clock``).
    """
    if read_bool(op.properties.get("pure", "false")):
        return set()
    found = _found(op)
    if (
        isinstance(found, Unlisted)
        or SameNumberOp.matches(op)
        or "%" in unescaped(op.properties.get("asm_string", '""'))
    ):
        return {"any"}
    kinds: set[EffectKind] = {it.kind if isinstance(it, Tie) else "any" for it in found}
    alone = not op.operands and not any(result.uses for result in op.results)
    return {"any"} if "grids" in kinds and not alone else kinds


def _found(op: Operation) -> list[Effect | Tie] | Unlisted:
    """What the instructions of inline code do besides computing on registers."""
    if op.name not in INLINE or GroupIndexOp.matches(op) or SameNumberOp.matches(op):
        return []
    if ExternElementwiseOp.matches(op):
        if only_registers(op):
            return []
        return Unlisted(f"the external function that may do more than compute on registers ({shown(op)})")
    text = op.properties.get("asm_string")
    found = statements(text) if text is not None else None
    if found is None:
        return Unlisted(f"{_what(op)}: it is not a plain list of instructions")
    effects: list[Effect | Tie] = []
    for statement in found:
        effect = _effect(statement, _Operands(op))
        if isinstance(effect, Unlisted):
            return Unlisted(f"{_what(op)}: {effect.reason}")
        effects += [] if effect is None else [effect]
    return effects


def _what(op: Operation) -> str:
    return f"inline assembly that may do more than compute on registers ({shown(op)})"


def acts(op: Operation) -> bool:
    """Whether inline assembly takes part in the protocol of barriers and shared memory."""
    if not ElementwiseInlineAsmOp.matches(op):
        return False
    found = effects_of(op)
    return not isinstance(found, Unlisted) and bool(found)


def moved_operands(op: Operation) -> list[int | None]:
    """For each result of inline assembly the operand that it is a copy of; None if the assembly computes it."""
    operands, found = _Operands(op), statements(op.properties.get("asm_string", '""')) or ()
    copies: list[int | None] = []
    for place in range(len(op.results)):
        writes = [it for it in found if it.operands[:1] == (f"${place}",)]
        copy = writes[0] if len(writes) == 1 and writes[0].words[0] == "mov" and not writes[0].predicated else None
        source = operands.place(copy.operands[1]) if copy is not None and len(copy.operands) == 2 else None
        same = source is not None and op.operands[source].type == op.results[place].type
        copies.append(source if same else None)
    return copies


def _not_once(op: Operation) -> str | None:
    """Why it is not certain that each thread executes the assembly once, at this place."""
    if op.properties.get("pure", "false") != "false":
        return "it is declared pure, so that the compiler may remove, merge or move it; use is_pure=False"
    if any(value.type.startswith("tensor<") for value in (*op.operands, *op.results)):
        return "it is applied to a tile, and executed for each element; apply it to a scalar"
    if any(outer.name.startswith("tt.") and not FuncOp.matches(outer) for outer in op.ancestors()):
        return "it is part of an operation on tiles, and executed for their elements"
    return None


# --- the table --------------------------------------------------------------------------------------------------------


class _Operands:
    """The operands of the assembly, by the numbers that its text gives them: outputs first."""

    def __init__(self, op: Operation) -> None:
        constraints = read_string(op.properties.get("constraints", '""')).split(",")
        self.outputs = sum(it.strip().startswith("=") for it in constraints)
        self.inputs = op.operands

    def number(self, text: str) -> int | Value | None:
        """An integer, or the input that a text names; None for a register."""
        if re.fullmatch(r"0[0-7]*|[1-9]\d*|0[xX][0-9A-Fa-f]+", text):
            octal = text.startswith("0") and text.isdecimal()
            return int(text, 8 if octal else 0)
        place = self.place(text)
        return None if place is None else self.inputs[place]

    def place(self, text: str) -> int | None:
        """The place among the inputs of an operand of the text; None for anything else."""
        if not re.fullmatch(r"\$\d+", text):
            return None
        place = int(text[1:]) - self.outputs
        return place if 0 <= place < len(self.inputs) else None


def _effect(statement: Statement, operands: _Operands) -> Effect | Tie | Unlisted | None:
    if is_register_instruction(statement):
        return None
    rule = _TABLE.get(statement.words[0])
    return Unlisted(f"{statement.opcode} is not known") if rule is None else rule(statement, operands)


def _hint(statement: Statement, operands: _Operands) -> Tie:
    return _HINT


def _order(statement: Statement, operands: _Operands) -> Tie:
    return _ANY


def _for_all_lanes(statement: Statement, operands: _Operands) -> Tie | Unlisted:
    """An exchange between the lanes of a warp, all of which take part."""
    if "sync" not in statement.words or statement.predicated or not statement.operands:
        return Unlisted(f"{statement} may not be executed by whole warps")
    if operands.number(statement.operands[-1]) != 0xFFFFFFFF and statement.operands[-1] != "-1":
        return Unlisted(f"{statement} names lanes other than all 32")
    return _ANY


def _fence(statement: Statement, operands: _Operands) -> Effect | Tie | Unlisted:
    match statement.words[1:]:
        case ("proxy", "async") | ("proxy", "async", "shared::cta" | "shared::cluster"):
            if statement.predicated:
                return Unlisted(f"{statement} has a guard")
            return ProxyFence()
        case ("proxy", "async", "global") | ("proxy", "alias") | ("mbarrier_init", *_):
            return _ANY
        case ("acq_rel" | "sc" | "acquire" | "release", "cta" | "cluster" | "gpu" | "sys"):
            return _ANY
        case ("cta" | "cluster" | "gpu" | "sys",):
            return _ANY
        case _:
            return Unlisted(f"{statement.opcode} is not known")


def _grid(statement: Statement, operands: _Operands) -> Tie | Unlisted:
    """Programs of another grid.

    ``wait`` returns once all grids before this one have ended and their writes are visible. ``launch_dependents`` lets
    the next grid start, which waits in the same way for the end of this one.
    """
    match statement.words[1:]:
        case ("wait",) if not statement.predicated:
            return _GRIDS
        case ("launch_dependents",):
            return _HINT
        case ("wait",):
            return _ANY
        case _:
            return Unlisted(f"{statement.opcode} is not known")


def _registers(statement: Statement, operands: _Operands) -> Tie | Unlisted:
    """``setmaxnreg``: no effect on the protocol, if the amount is one that the hardware takes."""
    match statement.words[1:]:
        case ("inc" | "dec", "sync", "aligned", "u32") if not statement.predicated and len(statement.operands) == 1:
            amount = operands.number(statement.operands[0])
        case _:
            return Unlisted(f"{statement} is not known in this form")
    if not isinstance(amount, int) or amount % 8 or not 24 <= amount <= 256:
        return Unlisted(f"{statement}: the number of registers must be a multiple of 8 between 24 and 256")
    return _ANY


def _barrier(statement: Statement, operands: _Operands) -> Effect | Tie | Unlisted:
    """``bar{.cta}`` and ``barrier{.cta}``: .sync a{, b}; .arrive a, b; .red.op p, a{, b}, c."""
    words = tuple(word for word in statement.words[1:] if word not in ("cta", "aligned"))
    if words == ("warp", "sync"):
        return _for_all_lanes(Statement("bar.sync", statement.operands, statement.predicated), operands)
    parts = statement.operands
    match words:
        case ("sync",) if len(parts) in (1, 2):
            waits = True
        case ("arrive",) if len(parts) == 2:
            waits = False
        case ("red", "popc", "u32") | ("red", "and" | "or", "pred") if len(parts) in (3, 4):
            waits, parts = True, parts[1:-1]
        case _:
            return Unlisted(f"{statement} is not known in this form")
    if statement.predicated:
        return Unlisted(f"{statement} has a guard: it is not known which threads execute it")
    numbers = [operands.number(part) for part in parts]
    if None in numbers:
        return Unlisted(f"{statement}: its number and its threads must be integers or operands of the assembly")
    number, threads = numbers[0], numbers[1] if len(numbers) == 2 else None
    if isinstance(number, int) and number >= NAMED_BARRIERS:
        return Unlisted(f"{statement}: named barriers have the numbers 0 … {NAMED_BARRIERS - 1}")
    assert number is not None
    return NamedBarrier(number, threads, waits)


_TABLE: Mapping[str, _Rule] = {
    "bar": _barrier,
    "barrier": _barrier,
    "fence": _fence,
    "membar": _order,
    "griddepcontrol": _grid,
    "setmaxnreg": _registers,
    **dict.fromkeys(("nanosleep", "createpolicy", "prefetch", "prefetchu"), _hint),
    **dict.fromkeys(("shfl", "vote", "match", "redux"), _for_all_lanes),
}
