"""Errors about a Plan that was a mapping, told in the words of mappings.

P = 2 with a ring of D = 2: … loop 0 (fa.py:12), ring1 → in_flight = 2 with a ring of 2 slots: … loop n (fa.py:12)
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from types import TracebackType

from tawa.errors import PlanError, ResourceError, UnsupportedKernel
from tawa.mapping import Mapping
from tawa.mapping.program import Program
from tawa.mapping.sections import DECISIONS
from tawa.mapping.words import ELEMENTS


@dataclass
class Told(AbstractContextManager["Told"]):
    """Errors that leave this context get the words of a mapping, a line and a cure.

    mapping: None until there is one; errors then stay as they are. program: the kernel that it is of.
    """

    mapping: Mapping | None = None
    program: Program | None = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.mapping is not None and isinstance(error, UnsupportedKernel):
            reason, cure = (
                mapping_words(it, self.program) for it in (error.remark.reason, error.remark.cure or _STOCK)
            )
            raise UnsupportedKernel(error.kernel, replace(error.remark, reason=reason, cure=cure)) from error
        if self.mapping is None or (kind is not PlanError and kind is not ResourceError):
            return  # subclasses are Triton's errors as well, which tuners look for
        raise kind(self._complete(mapping_words(str(error), self.program))) from error

    def _complete(self, text: str) -> str:
        """A message with the line of the kernel or of the mapping, and a cure."""
        text = _AT.sub(r" (\1)", text)  # a remark has its line and its cure below its text
        said, _, cure = text.replace("\n  cure: ", "; cure: ").partition("; cure: ")
        if not _PLACE.search(said):
            said += f" ({self._place(said)})"
        return f"{said}; cure: {cure or _CURE}"

    def _place(self, said: str) -> str:
        """Where the words that a message is about are written; the kernel, if the message has none of them."""
        mapping = self.mapping
        lines = mapping.lines if mapping is not None else {}
        found = [keys for keys in lines if re.search(rf"(?<![\w.]){re.escape(keys[-1])}(?!\w)", said)]
        if mapping is not None and found:
            return mapping.place(*max(found, key=len))
        return self.program.place if self.program is not None else "the mapping"


def mapping_words(text: str, program: Program | None = None) -> str:
    """A message about a Plan in the words of mappings."""
    for code, word in _WORDS:
        text = re.sub(code, word, text)
    for loop in program.loops if program is not None else ():
        text = re.sub(rf"\bloop {loop.number}\b", f"loop {loop.text}", text)
    return re.sub(_RINGS, lambda found: f"{found[1]} {_names(found[2])}, the kernel has {_names(found[3])}", text)


def _names(text: str) -> str:
    return ", ".join(re.findall(r"'(\w+)': \(", text))


_PLACE = re.compile(r"\w\.\w+:\d+\b|line \d+ of the mapping")
_AT = re.compile(r"\n  at (\S+)")
_STOCK = "[kernel] specialised = false, or no mapping"
_CURE = "leave a word out, or start from tawa explain --emit mapping"
_RINGS = r"(the mapping has rings) (\{.*?\}), the kernel has (\{.*\})"
_TYPES = tuple(
    (rf'( = "| as ){code}\b', rf"\g<1>{name}") for name, code in ELEMENTS.items() if code and code != name
)  # fmt: skip
_WORDS = (
    (r"\bin a Plan\b", "in a mapping"),
    (r"\bthe [Pp]lan\b", "the mapping"),
    (r"a ring of D = (\d+)", r"a ring of \1 slots"),
    (r"P iterations in flight need D >= P \+ 1", "a ring needs in_flight + 1 slots"),
    (r"[:;] aref_depth=\d+ needs", ": it needs"),
    (r"\baref_depth=(\d+)", r"ring = \1"),
    (r"\bmma_depth=(\d+)", r"in_flight = \1"),
    (r"\bP = (\d+)", r"in_flight = \1"),
    (r"\bD = (\d+)", r"ring = \1"),
    (r"\bnum_warps=(\d+) in the mapping", r"warps = \1 in the mapping"),
    (r"=False\b", " = false"),
    (r"path='(host_descriptor|kernel_descriptor|promoted)'", 'path = "tma"'),
    (r"path='promoted_in_kernel'", 'path = "tma in kernel"'),
    (r"path='([\w.]+)'( or '(\w+)')?", r'path = "\1"\2'),
    (r"(?<!partition )'consumer'(?! has)", '"consumer"'),
    (r" \(promoted\)| \(promoted_in_kernel\)", ""),
    (r"\bby (host_descriptor|kernel_descriptor|promoted)\b", "by tma"),
    (r"form='stock'", "[kernel] specialised = false"),
    (r"form='persistent'", "[kernel] persistent = true"),
    (r"form='unpartitioned'", "[kernel] partitioned = false"),
    (r"form='as_written'", "[kernel] persistent = false"),
    (r"(tile_)?order ?=? '(\w+)'", r'order = "\2"'),
    (r"\bgroups=(\d+)", r"[groups] count = \1"),
    (r"(\d+) iterations of dots in flight \(P\)", r"\1 iterations in flight"),
    (rf"\b({'|'.join(DECISIONS)})='(\w+)'", lambda found: f'{DECISIONS[found[1]]} = "{found[2].replace("_", " ")}"'),
    (rf"\b({'|'.join(DECISIONS)})=", lambda found: f"{DECISIONS[found[1]]} = "),
    (r"start from the kernel's own Plan", "start from tawa explain --emit mapping"),
    *_TYPES,
)
