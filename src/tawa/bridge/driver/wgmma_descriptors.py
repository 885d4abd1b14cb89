"""Descriptors of wgmma: computed next to the wgmma that reads them, not before the loop.

    add.s64 %rd36, %rd30, 4611686293305294850;        loop:
    loop:                                        →      add.s64 %rd36, %rd30, 4611686293305294850;
      wgmma.mma_async … %rd36, %rd37, …                 wgmma.mma_async … %rd36, %rd37, …

The descriptor of a tile that stays in shared memory during a loop is a base plus a constant for each k step. LLVM moves
these sums out of the loop, and ptxas then keeps 16 registers for each such operand of a dot of 128 columns; in a loop
with full registers it spills them. Next to its wgmma, a sum is one uniform addition.
Source: PTX ISA, "wgmma.mma_async" (matrix descriptors).
"""

from __future__ import annotations

import re
from collections import Counter

_SUM = re.compile(r"\s*(?:add\.s64|or\.b64)\s+(%rd\d+), (%rd\d+), -?\d+;\s*$")
_TARGET = re.compile(r"\s*(?:@!?%p\d+\s+)?[a-z][\w.:]*\s+(?:\{([^}]*)\}|(%\w+))(?:\||,)")
_WGMMA = "wgmma.mma_async"
_REGISTER = re.compile(r"%rd\d+")
_FUNCTION = re.compile(r"\s*(?:\.visible |\.weak |\.extern )*\.(?:entry|func)\b")


def place_descriptors(ptx: str) -> str:
    """The program with the sums of descriptors moved to their wgmmas."""
    if _WGMMA not in ptx:
        return ptx
    lines = ptx.split("\n")
    starts = [number for number, line in enumerate(lines) if _FUNCTION.match(line)]
    parts = [lines[: starts[0]]] if starts else [lines]
    parts += [lines[first:last] for first, last in zip(starts, [*starts[1:], len(lines)], strict=True)]
    return "\n".join(line for part in parts for line in _placed(part))


def _placed(lines: list[str]) -> list[str]:
    """One function, whose registers are its own."""
    writes = Counter(register for line in lines for register in _written(line))
    sums = {found.group(1): line for line in lines if (found := _SUM.match(line)) and _is_fixed(found, writes)}
    elsewhere = {
        register
        for line in lines
        if _WGMMA not in line and "%rd" in line
        for register in _REGISTER.findall(line)
        if register in sums and line is not sums[register]
    }
    moved = {register: line for register, line in sums.items() if register not in elsewhere}
    lost = set(map(id, moved.values()))
    found: list[str] = []
    for line in lines:
        if _WGMMA in line:
            found += [moved[it] for it in dict.fromkeys(_REGISTER.findall(line)) if it in moved]
        if id(line) not in lost:
            found.append(line)
    return found


def _is_fixed(sum: re.Match[str], writes: Counter[str]) -> bool:
    """Whether neither the sum nor its base is written anywhere else."""
    return writes[sum.group(1)] == 1 and writes[sum.group(2)] == 1


def _written(line: str) -> list[str]:
    """The 64-bit registers that an instruction may write."""
    found = _TARGET.match(line)
    return _REGISTER.findall(found.group(1) or found.group(2) or "") if found else []


__all__ = ["place_descriptors"]
