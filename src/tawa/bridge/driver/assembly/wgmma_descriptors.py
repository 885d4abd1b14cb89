"""Descriptors of wgmma, on PTX: in loops they are computed beside the wgmma that reads them, not before the loop.

    add.s64 %rd36, %rd30, 4611686293305294850;        %own = shfl.sync (%rd30 + lane, from lane n) - n
    loop:                                        →    loop:
      wgmma.mma_async … %rd36, %rd37, …                 add.s64 %rd36, %own, 4611686293305294850;
                                                        wgmma.mma_async … %rd36, %rd37, …

The descriptor of a tile that stays in shared memory during a loop is a base plus a constant for each step along the
summed dimension. LLVM moves these sums out of the loop, and ptxas then keeps two registers for each, 16 for an operand
of 128 columns; in a loop with full registers it spills them. Beside its wgmma, a sum is one uniform addition.

Each loop gets an opaque copy of the base in front of it: the base plus the number of the lane, read from a lane that no
other copy uses, minus that number. Otherwise ptxas computes what two loops share once, in uniform registers, on the
path into the first loop or in it; if that loop has no trips, the second one reads registers that nobody wrote, or that
hold something else (`tawa.transforms.lowering.duplicate_slot_views`). A shuffle of the base alone is not opaque: the
base is the same in all lanes, and ptxas removes the shuffle. ptxas also shares what the first iterations of two loops
compute where they are peeled: each block that reads such a base outside of the loops gets a copy, too.
`unwritten` looks for such reads in the result.
Source: PTX ISA, "wgmma.mma_async" (matrix descriptors).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tawa.bridge.driver.assembly.natural_loops import natural_loops, preceding

_SUM = re.compile(r"\s*(?:add\.s64|or\.b64)\s+(%rd\d+), (%rd\d+), (-?\d+);\s*$")
_TARGET = re.compile(r"\s*(?:@!?%p\d+\s+)?[a-z][\w.:]*\s+(?:\{([^}]*)\}|(%\w+))(?:\||,)")
_REGISTER = re.compile(r"%rd\d+")
_FUNCTION = re.compile(r"\s*(?:\.visible |\.weak |\.extern )*\.(?:entry|func)\b")
_LABEL = re.compile(r"(\$L__BB\w+):")
_BRANCH = re.compile(r"\s*(@!?%p\d+\s+)?bra(?:\.uni)?\s+(\$L__BB\w+);")
_TABLE = re.compile(r"\s*(?:@!?%p\d+\s+)?brx\.idx")
_ROW = re.compile(r"\s*\$L__BB\w+[,;]")
_NAME = re.compile(r"\$L__BB\w+")
_ENDS = re.compile(r"\s*(?:ret|exit|trap);")
_DECLARATION = re.compile(r"\s*\.reg \.")
_WGMMA = "wgmma.mma_async"
LANES = 32


def place_descriptors(ptx: str) -> str:
    """The program with the sums of descriptors beside their wgmmas."""
    if _WGMMA not in ptx:
        return ptx
    lines = ptx.split("\n")
    starts = [number for number, line in enumerate(lines) if _FUNCTION.match(line)]
    parts = [lines[: starts[0]]] if starts else []
    parts += [_Function(lines[first:last]).placed() for first, last in zip(starts, [*starts[1:], None], strict=True)]
    return "\n".join(line for part in parts for line in part)


@dataclass(slots=True)
class _Block:
    """A basic block: its first line, the one behind its last, and the blocks that follow and precede it."""

    first: int
    end: int
    after: list[int] = field(default_factory=list[int])
    before: list[int] = field(default_factory=list[int])


@dataclass(frozen=True, slots=True)
class Read:
    """A wgmma at a line of a block reads a sum with a base.

    in_loop: whether it is in a loop that the sum is not in. place: the line in front of that loop; None if several
    blocks enter it.
    """

    line: int
    block: int
    sum: str
    base: str
    in_loop: bool
    place: int | None = None


class _Function:
    """One function, whose registers are its own."""

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.blocks = _blocks(lines)
        self.of_line = [number for number, block in enumerate(self.blocks) for _ in range(block.first, block.end)]
        self.loops = sorted(natural_loops([it.after for it in self.blocks]), key=lambda loop: len(loop[1]))

    def placed(self) -> list[str]:
        """Its lines, with the sums moved."""
        writes = Counter(register for line in self.lines for register in _written(line))
        sums = {
            found[1]: (number, found)
            for number, line in enumerate(self.lines)
            if (found := _SUM.match(line)) and writes[found[1]] == writes[found[2]] == 1
        }
        copies: dict[tuple[str, int], str] = {}
        made: dict[int, list[str]] = {}
        changed: dict[int, str] = {}
        sums_made: list[str] = []
        reads = [
            self._read(number, register, *sums[register])
            for number, line in enumerate(self.lines)
            for register in (dict.fromkeys(_REGISTER.findall(line)) if _WGMMA in line else ())
            if register in sums
        ]
        for number, register, base, place in copied(reads):
            if (base, place) not in copies:
                lane = len(copies) % LANES
                copies[base, place] = f"%tawa_base{len(copies)}"
                made.setdefault(place, []).extend(_copy(base, copies[base, place], lane))
            own, constant = f"%tawa_sum{len(sums_made)}", sums[register][1][3]
            sums_made.append(own)
            made.setdefault(number, []).append(f"\tadd.s64 \t{own}, {copies[base, place]}, {constant};")
            changed[number] = re.sub(rf"{register}\b", own, changed.get(number, self.lines[number]))
        if not changed:
            return self.lines
        return list(self._with(made, changed, [*copies.values(), *sums_made]))

    def _with(self, made: dict[int, list[str]], changed: dict[int, str], names: list[str]) -> Iterator[str]:
        declared = False
        for number, line in enumerate(self.lines):
            if not declared and _DECLARATION.match(line):
                declared = True
                yield f"\t.reg .b64 \t{', '.join(names)};"
                yield "\t.reg .b32 \t%tawa_low, %tawa_high, %tawa_lane;"
            yield from made.get(number, ())
            yield changed.get(number, line)

    def _read(self, wgmma: int, register: str, line: int, sum: re.Match[str]) -> Read:
        """The read of a sum; the loop is the innermost one that has the wgmma and not the sum."""
        inside, outside = self.of_line[wgmma], self.of_line[line]
        loop = next((it for it in self.loops if inside in it[1]), None)
        if loop is None or outside in loop[1]:
            return Read(wgmma, inside, register, sum[2], in_loop=False)
        return Read(wgmma, inside, register, sum[2], in_loop=True, place=self._in_front_of(*loop))

    def _in_front_of(self, header: int, body: set[int]) -> int | None:
        """The line in front of a loop, if control enters it from one block only."""
        entries = [it for it in self.blocks[header].before if it not in body]
        if len(entries) != 1 or len(self.blocks[entries[0]].after) != 1:
            return None
        block = self.blocks[entries[0]]
        last = block.end - 1
        while last > block.first and not self.lines[last].strip():
            last -= 1
        return last if _BRANCH.match(self.lines[last]) else block.end


def copied(reads: Sequence[Read]) -> list[tuple[int, str, str, int]]:
    """The reads of bases that loops read, with the lines of the copies behind which they stand.

    Nobody shares what loops and the code around them have in common: each block outside of loops has a copy, too.
    """
    first: dict[tuple[str, int], int] = {}
    for it in reads:
        first.setdefault((it.base, it.block), it.line)
    in_loops = {it.base for it in reads if it.in_loop}
    stay = {it.base for it in reads if it.in_loop and it.place is None}
    return [
        (it.line, it.sum, it.base, first[it.base, it.block] if it.place is None else it.place)
        for it in reads
        if it.base in in_loops - stay
    ]


def _copy(base: str, copy: str, lane: int) -> list[str]:
    """A copy of a number that is the same in all threads: lane n of a warp knows it plus n."""
    return [
        f"\tmov.b64 \t{{%tawa_low, %tawa_high}}, {base};",
        "\tmov.u32 \t%tawa_lane, %laneid;",
        "\tadd.u32 \t%tawa_low, %tawa_low, %tawa_lane;",
        f"\tshfl.sync.idx.b32 \t%tawa_low, %tawa_low, {lane}, 31, -1;",
        f"\tadd.u32 \t%tawa_low, %tawa_low, {-lane};",
        f"\tmov.b64 \t{copy}, {{%tawa_low, %tawa_high}};",
    ]


def _written(line: str) -> list[str]:
    """The 64-bit registers that an instruction may write."""
    found = _TARGET.match(line)
    return _REGISTER.findall(found.group(1) or found.group(2) or "") if found else []


def _blocks(lines: list[str]) -> list[_Block]:
    """The basic blocks, in order. Waiting loops in inline assembly are no blocks of their own."""
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    ends = [number + 1 for number, line in enumerate(lines) if any(it.match(line) for it in (_BRANCH, _TABLE, _ENDS))]
    tables = [line for line in lines if ".branchtargets" in line or _ROW.match(line)]
    indexed = {name for line in tables for name in _NAME.findall(line)}  # where an indexed branch may go
    cuts = sorted({0, len(lines), *labels.values(), *ends})
    blocks = [_Block(first, end) for first, end in pairwise(cuts)]
    at = {block.first: number for number, block in enumerate(blocks)}
    for number, block in enumerate(blocks):
        last = next((line for line in reversed(lines[block.first : block.end]) if line.strip()), "")
        branch = _BRANCH.match(last)
        if _TABLE.match(last):
            block.after += [at[labels[name]] for name in labels if name in indexed]
        elif branch:
            block.after.append(at[labels[branch[2]]])
        falls = not _ENDS.match(last) and not _TABLE.match(last) and not (branch and not branch[1])
        if falls and number + 1 < len(blocks):
            block.after.append(number + 1)
        block.after = list(dict.fromkeys(block.after))
    for block, before in zip(blocks, preceding([it.after for it in blocks]), strict=True):
        block.before = before
    return blocks
