"""Errors about a Plan that was a mapping, told in the words of mappings.

P = 2 with a ring of D = 2: … loop 0 (fa.py:12), ring1 → in_flight = 2 with a ring of 2 slots: … loop n (fa.py:12)
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from tawa.errors import PlanError
from tawa.mapping.program import Program
from tawa.mapping.words import ELEMENTS


@dataclass
class Told(AbstractContextManager["Told"]):
    """Errors that leave this context get the words of mappings. program: for the names of loops, once it is known."""

    program: Program | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is PlanError:  # not its subclasses: those are Triton's errors as well, which tuners look for
            raise PlanError(mapping_words(str(error), self.program)) from error


def mapping_words(text: str, program: Program | None = None) -> str:
    """A message about a Plan in the words of mappings."""
    for code, word in _WORDS:
        text = re.sub(code, word, text)
    for loop in program.loops if program is not None else ():
        text = re.sub(rf"\bloop {loop.number}\b", f"loop {loop.text}", text)
    return re.sub(_RINGS, lambda found: f"{found[1]} {_names(found[2])}, the kernel has {_names(found[3])}", text)


def _names(text: str) -> str:
    return ", ".join(re.findall(r"'(\w+)': \(", text))


_RINGS = r"(the mapping has rings) (\{.*?\}), the kernel has (\{.*\})"
_TYPES = tuple(
    (rf'( = "| as ){code}\b', rf"\g<1>{name}") for name, code in ELEMENTS.items() if code and code != name
)  # fmt: skip
_WORDS = (
    (r"\bin a Plan\b", "in a mapping"),
    (r"\bthe Plan\b", "the mapping"),
    (r"a ring of D = (\d+)", r"a ring of \1 slots"),
    (r"P iterations in flight need D >= P \+ 1", "a ring needs in_flight + 1 slots"),
    (r"; aref_depth=\d+ needs|: aref_depth=\d+ needs", ": it needs"),
    (r"; the largest D that fits is 0", ""),
    (r"\bmma_depth=(\d+)", r"in_flight = \1"),
    (r"\bP = (\d+)", r"in_flight = \1"),
    (r"\bD = (\d+)", r"ring = \1"),
    (r"\bnum_warps=(\d+) in the mapping", r"warps = \1 in the mapping"),
    (r"=False\b", " = false"),
    (r"path='(host_descriptor|kernel_descriptor|raised)'", 'path = "tma"'),
    (r"path='raised_in_kernel'", 'path = "tma in kernel"'),
    (r"path='([\w.]+)'( or '(\w+)')?", r'path = "\1"\2'),
    (r"'consumer'(?! has)", '"consumer"'),
    (r"\(raised\)|\(raised_in_kernel\)", ""),
    (r"\bby (host_descriptor|kernel_descriptor|raised)\b", "by tma"),
    (r"form='stock'", "[kernel] specialised = false"),
    (r"form='persistent'", "[kernel] persistent = true"),
    (r"form='as_written'", "[kernel] persistent = false"),
    (r"split='programs'", 'split = "programs"'),
    (r"\bsplit_k=", "programs_per_tile = "),
    (r"(tile_)?order ?=? '(\w+)'", r'order = "\2"'),
    (r"\bgroups=(\d+)", r"[groups] count = \1"),
    (r"early_puts=", "early_slots = "),
    (r"ping_pong=", "take_turns = "),
    (r"(\d+) iterations of dots in flight \(P\)", r"\1 iterations in flight"),
    (r"\b(buffers|slices|max_registers|ctas_per_sm|prefetched)=", r"\1 = "),
    (r"start from the kernel's own Plan", "start from tawa explain --emit mapping"),
    *_TYPES,
)

__all__ = ["Told", "mapping_words"]
