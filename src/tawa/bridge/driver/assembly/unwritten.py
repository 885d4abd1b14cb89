"""Whether machine code reads a uniform register, or a word of the stack, that only some paths to the read write.

    if trips1:  UIADD3 UR14, …;  HGMMA gdesc[UR12]   the first loop, and what was computed ahead of it
    if trips2:  HGMMA gdesc[UR12]                    reads UR14 even if the first loop had no trips

ptxas 12.8 generates such code from correct PTX: it computes what two loops share once, on the path into the first
loop. If that loop has no trips, the second wgmma reads from a stale address. Or it spills a descriptor that a loop
carries, and stores it at the end of the body alone: the first iteration loads what nobody stored. Code that passes the
check writes every uniform register, and every word of the stack, before it reads it, on every path; and the upper half
of each descriptor of a wgmma comes, on every path, from instructions that can make one: constants, and sums with a
constant or with another upper half. A register that holds something else there, such as an address in memory, is a
stale value from an earlier use. And what a loop carries, if it is a copy of something that the loop does not change, is
a copy of that in the first iteration, too: ptxas may leave that out, and the first iteration reads a stale value.

    UIADD3 UR58, UR58, -0x1, URZ                     the base of a descriptor; nothing copies it to UR10
    loop:  UIADD3 UR14, UP0, URZ, UR10, URZ; …
           UMOV UR10, UR58

The check parses the output of nvdisasm. It assumes that a predicated write takes place. A stale value that is itself a
descriptor passes. A word of the stack that nobody wrote may be copied to a register: ptxas does so ahead of a
predicated write to this register. Computing with it is found, except that ptxas keeps predicates as bits of a register
and sets them one by one. What a load marks as its last use (``LDL.LU``) need not be in memory afterwards.
Source: CUDA Binary Utilities, "nvdisasm" and the instruction set of Hopper.
"""

from __future__ import annotations

import functools
import operator
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

from tawa.bridge.driver.assembly.natural_loops import natural_loops, preceding

_LABEL = re.compile(r"\s*(\.L_\w+):")
_SECTION = re.compile(r"\s*\.section\s+\.text\.")
_INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)(.*?);")
_WGMMA = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/.*gdesc\[", re.MULTILINE)
_NAME = re.compile(r"\.L_\w+")
_REGISTER = re.compile(r"\bUR(\d+)")
_TARGET = re.compile(r"\s*(?:!?U?P\w+,\s*)*UR(\d+)")
_ZERO = 63  # URZ
_WRITERS = ("U", "R2UR", "S2UR", "REDUX", "VOTEU", "LDCU", "ELECT")
_ONLY_READ = re.compile(r"UTMA|UBLK|UCGABAR|U\w*SETP|UPLOP3|UR2UP")
"""Bulk copies, and instructions that produce predicates: they read all of the uniform registers that they name."""
_COPY = re.compile(r"UTMA(LDG|STG|REDG)\.([1-5])D")
_ENDS = ("EXIT", "RET", "BPT")
_JUMPS = ("BRA", "BRX", "JMP", "CALL")
_A_IN_REGISTERS = re.compile(r"\s*R\d+,\s*R\d+")
_OPERAND = re.compile(r"(UR(?:\d+|Z))|(-?0x[0-9a-f]+)")
_VECTOR = re.compile(r"\bR(\d+)")
_COPIES = re.compile(r"(LDL|STL|R2UR|MOV|IMAD\.MOV)\b")
_BIT = re.compile(r"\s*R(\d+), R\1(?:\.reuse)?, 0x[0-9a-f]+, RZ,")
_STACK = re.compile(r"\[R1(?:\+(0x[0-9a-f]+))?\]")
_FIRST_VECTOR, _FIRST_WORD = 64, 64 + 256
"""The bits of the first register of a thread, and of the first word of the stack, behind the uniform registers."""
_VECTORS = (1 << _FIRST_WORD) - (1 << _FIRST_VECTOR)
_WIDE = {"128": 4, "M88.4": 4, "M88.2": 2, "64": 2, "WIDE": 2}
_TILE = re.compile(r"[A-Z]GMMA\.\d+x(\d+)x")
_MOVED = re.compile(r"(?:U?MOV|IMAD\.MOV\.U32)\s+(U?R\d+), (?:RZ, RZ, )?(U?R\d+)(?:\.reuse)?\s*$")
_MAKES_UPPER_HALVES = re.compile(r"UMOV|UIADD3\.(?:X|64)|ULOP3|R2UR")


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction: its text, the registers and words that it reads, writes and drops as bits, what may follow.

    copied: its sources, if it is a copy; a part of its target then counts as written only if that of the source is.
    upper: the upper halves of descriptors among those it reads. sources: the registers that must hold such a half for
    its result to be one; None if its result never is.
    """

    text: str
    reads: int
    writes: int
    copied: int
    drops: int
    after: tuple[int, ...]
    is_sure: bool
    upper: int
    sources: int | None


def unwritten(sass: str) -> list[str]:
    """The instructions that read a register or a word which some path does not write, or writes with something else.

    Also listed: a copy that a loop makes for its next iteration, but that nothing makes for the first one; and a jump
    to an unknown place, because nobody knows the paths behind it.
    """
    found: list[str] = []
    sections: list[list[str]] = []
    for line in sass.splitlines():
        if _SECTION.match(line) or not sections:
            sections.append([])
        sections[-1].append(line)
    for lines in sections:
        steps = _steps(lines)
        found += _unwritten(steps) + _late_copies(steps)
    return found


def disassembled(cubin: bytes) -> str | None:
    """What nvdisasm prints of a cubin; None if it cannot be run."""
    from triton import knobs

    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        try:
            ran = subprocess.run([knobs.nvidia.nvdisasm.path, "-c", file.name], capture_output=True, text=True)
        except (OSError, RuntimeError):
            return None
    return ran.stdout if ran.returncode == 0 else None


def is_sound(cubin: bytes) -> bool:
    """Whether `unwritten` finds nothing in code that has a wgmma; False if nvdisasm fails or prints no wgmma."""
    sass = disassembled(cubin)
    return sass is not None and _WGMMA.search(sass) is not None and not unwritten(sass)


def _steps(lines: list[str]) -> list[_Step]:
    found: list[tuple[str, str, str]] = []
    labels: dict[str, int] = {}
    for line in lines:
        if label := _LABEL.match(line):
            labels[label[1]] = len(found)
        elif made := _INSTRUCTION.match(line):
            found.append((made[1] or "", made[2], made[3]))
    return [
        _Step(
            f"{name}{operands}",
            *_uses(name, operands),
            _after(predicate, name, operands, [number + 1] if number + 1 < len(found) else [], labels),
            not predicate,
            _upper(operands),
            _sources(name, operands),
        )
        for number, (predicate, name, operands) in enumerate(found)
    ]


def _after(predicate: str, name: str, operands: str, following: list[int], labels: dict[str, int]) -> tuple[int, ...]:
    """The steps that may run after an instruction. following: the next one in the text, if there is one."""
    targets = [
        labels[target] for target in _NAME.findall(operands) if target in labels
    ]  # those of BRX are in a comment
    if name.startswith(_JUMPS):
        # BRA.DIV and BRA.CONV jump only if the threads of the warp diverge, or converge
        is_conditional = predicate or name.startswith(("BRA.", "CALL")) or re.match(r"\s*!?U?P", operands)
        return tuple(targets + following) if is_conditional else tuple(targets)
    return tuple(following) if predicate or not name.startswith(_ENDS) else ()


def _uses(name: str, operands: str) -> tuple[int, int, int, int]:
    """What an instruction reads, writes, copies and drops, as bits."""
    writes, rest = 0, operands.lstrip()
    if name.startswith(_WRITERS) and not _ONLY_READ.match(name) and (target := _TARGET.match(rest)):
        writes = (3 if ".64" in name or ".WIDE" in name else 1) << int(target[1])
        rest = rest[target.end() :]
    elif target := _VECTOR.match(rest):
        writes = _vectors(int(target[1]), _results(name))
        rest = rest[target.end() :]
    reads, listed = 0, rest.split(",")
    for place, operand in enumerate(listed):
        for register in _REGISTER.finditer(operand):
            if "gdesc[" in operand:  # two registers of A's descriptor, two of B's
                run = 0b1100 if _A_IN_REGISTERS.match(operands) else 0b1111
            else:
                run = (1 << _length(name, operand, place, place == len(listed) - 1)) - 1
            reads |= run << int(register[1])
    reads &= ~(1 << _ZERO)
    if name.startswith(("LDL", "STL")) and (stack := _STACK.search(rest)):
        size = _results(name)
        words = ((1 << size) - 1) << _FIRST_WORD + int(stack[1] or "0", 16) // 4
        if name.startswith("LDL"):
            return reads, writes, words, words if ".LU" in name else 0
        stored = _VECTOR.search(rest, stack.end())
        return reads, words, _vectors(int(stored[1]), size) if stored else 0, 0
    read = 0
    for register in _VECTOR.finditer(rest):
        read |= _vectors(int(register[1]), 1)
    if name.startswith("LOP3.LUT") and _BIT.match(operands):
        return reads, writes, 0, 0
    return (reads, writes, read, 0) if _COPIES.match(name) else (reads | read, writes, 0, 0)


def _vectors(first: int, count: int) -> int:
    """Registers of a thread, as bits."""
    return ((1 << count) - 1) << _FIRST_VECTOR + first & _VECTORS


def _results(name: str) -> int:
    """How many registers of a thread an instruction moves or computes."""
    if shape := _TILE.match(name):
        return int(shape[1]) // 2
    if name.startswith("CS2R"):
        return 1 if ".32" in name else 2
    return next((count for kind, count in _WIDE.items() if f".{kind}" in name), 1)


def _upper(operands: str) -> int:
    """The registers, as bits, with the upper halves of the descriptors that a wgmma reads."""
    found = re.search(r"gdesc\[UR(\d+)\]", operands)
    return (0b1000 if _A_IN_REGISTERS.match(operands) else 0b1010) << int(found[1]) if found else 0


def _sources(name: str, operands: str) -> int | None:
    """The registers, as bits, whose values must be upper halves of descriptors for the result to be one; None if none.

    A sum with a constant is one whatever else is added, since the constant of a descriptor is in it.
    """
    if not _MAKES_UPPER_HALVES.match(name):
        return None
    read = _OPERAND.findall(operands)[1:]
    if name.startswith(("R2UR", "ULOP3")) or (name.startswith(("UMOV", "UIADD3.X")) and any(it for _, it in read)):
        return 0
    registers = [int(it[2:]) for it, _ in read if it and it != "URZ"]
    return sum(1 << number + name.startswith("UIADD3.64") for number in dict.fromkeys(registers))


def _length(name: str, operand: str, place: int, is_last: bool) -> int:
    """How many consecutive registers an operand uses; it names the first of them."""
    if copy := _COPY.match(name):
        if place == 0:  # the address in shared memory, the barrier of a load, the coordinates
            return 1 + (copy[1] == "LDG") + int(copy[2])
        return 2 if "[" in operand else 1  # the tensor map
    if "desc[" in operand:
        return 2
    if ".64" in name:
        return 2 if name.startswith(("UIADD3", "UMOV")) or (name.startswith("SYNCS") and is_last) else 1
    return 2 if ".WIDE" in name and name.startswith("U") and is_last else 1


def _unwritten(steps: list[_Step]) -> list[str]:
    if not steps:
        return []
    states: list[tuple[int, int] | None] = [
        (_VECTORS, 0),
        *[None] * (len(steps) - 1),
    ]  # written; something else in them
    work = [0]
    while work:
        number = work.pop()
        step, (before_it, other) = steps[number], states[number] or (0, 0)
        known = (before_it & ~step.drops | step.writes) & ~_missing(step, step.copied & ~before_it)
        kept = other & ~step.writes if step.is_sure else other
        other = kept | (step.writes if step.sources is None or step.sources & other else 0)
        for following in step.after:
            before = states[following]
            now = (known, other) if before is None else (before[0] & known, before[1] | other)
            if now != before:
                states[following] = now
                work.append(following)
    return [
        it.text
        for it, state in zip(steps, states, strict=True)
        if state is not None
        and (it.reads & ~state[0] or it.upper & state[1] or (it.text.startswith(_JUMPS) and not it.after))
    ]


def _missing(step: _Step, sources: int) -> int:
    """The bits of a copy's targets that stay unwritten. sources: the bits of its sources that nothing has written."""
    if not sources or step.copied.bit_count() != step.writes.bit_count():
        return step.writes if sources else 0
    apart = step.writes.bit_length() - step.copied.bit_length()
    return sources << apart if apart >= 0 else sources >> -apart


def _late_copies(steps: list[_Step]) -> list[str]:
    """Copies of what a loop does not change, at the end of the body, which the first iteration needs as well."""
    if not steps:
        return []
    after = [it.after for it in steps]
    before, found = preceding(after), list[str]()
    for header, body in natural_loops(after):
        changed = functools.reduce(operator.or_, (steps[number].writes for number in body))
        moves = {it for number in body if (it := _moved(steps[number])) is not None and not changed >> it[1] & 1}
        latches = [number for number in before[header] if number in body]
        entries = [number for number in before[header] if number not in body]
        for target, source in sorted(moves):
            last = _writers(steps, latches, before, target, header)
            if any(_moved(it) != (target, source) for it in last) or not _is_read(steps, header, target):
                continue
            first, own = (_writers(steps, entries, before, register) for register in (target, source))
            if not _are_alike(first, own, target, source):
                found += [it.text for it in last]
    return found


def _are_alike(first: list[_Step], own: list[_Step], target: int, source: int) -> bool:
    """Whether a register begins a loop with the value of its source. first, own: what wrote the two."""
    if all(_moved(it) == (target, source) for it in first) or all(_moved(it) == (source, target) for it in own):
        return True
    made, known = ({re.sub(r"(?<=\s)U?R\d+", "", it.text, count=1) for it in them} for them in (first, own))
    return made == known  # both computed in one way


def _moved(step: _Step) -> tuple[int, int] | None:
    """Target and source of a copy of a register, as numbers of bits."""
    found = _MOVED.match(step.text) if step.is_sure else None
    return (_bit(found[1]), _bit(found[2])) if found else None


def _bit(register: str) -> int:
    return int(register[2:]) if register.startswith("U") else _FIRST_VECTOR + int(register[1:])


def _writers(
    steps: Sequence[_Step], ends: Sequence[int], before: Sequence[Sequence[int]], register: int, header: int = -1
) -> list[_Step]:
    """What wrote a register last, on the paths to some steps. header: of the loop in which the paths stay."""
    edges = [() if step.is_sure and step.writes >> register & 1 else before[n] for n, step in enumerate(steps)]
    if header >= 0:
        edges[header] = ()
    return [steps[number] for number in _reached(ends, edges) if steps[number].writes >> register & 1]


def _is_read(steps: Sequence[_Step], header: int, register: int) -> bool:
    """Whether a path from a step reads a register that no step writes before, with a predicate or without."""
    edges = [() if step.writes >> register & 1 else step.after for step in steps]
    return any((steps[it].reads | steps[it].copied) >> register & 1 for it in _reached([header], edges))


def _reached(starts: Sequence[int], edges: Sequence[Sequence[int]]) -> list[int]:
    """The steps that edges lead to, and the starts, in order."""
    found, work = set[int](), list(starts)
    while work:
        number = work.pop()
        if number not in found:
            found.add(number)
            work += edges[number]
    return sorted(found)
