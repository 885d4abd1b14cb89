"""Facts about scalar arguments that a proof may use, in the form that users write: ``L >= 128``, ``K % 64 == 0``.

    parse_assumptions(["L >= 128 and K % 64 == 0", "0 < M <= 4096"])
      →  L >= 128   K % 64 == 0   M > 0   M <= 4096

Each fact compares one argument, named as in the kernel, with a number; of a descriptor, a part of its shape or strides,
as in ``a.shape[1] >= 64``. Facts that the program itself states (``tl.assume``, ``llvm.intr.assume``) are read by the
checks from the IR.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from tawa.dialects.parameters import GRID_SIZE
from tawa.errors import AssumptionError

POSITIVE_STEP = "a positive step"
"""Assumed of a loop whose step is known only at launch: a step of 0 or less is undefined (`scf.trips_of`)."""

_RELATIONS: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_RELATION = re.compile(r"(<=|>=|==|!=|<|>)")
_AND = re.compile(r"\s+and\s+|\s*,\s*|\s*&&\s*")
_NAME = re.compile(r"([A-Za-z_]\w*(?:\.(?:shape|strides)\[\d+\])?)(?:\s*%\s*(\d+))?")
_NUMBER = re.compile(r"[+-]?\d+")


@dataclass(frozen=True, slots=True)
class Assumption:
    """``name [% modulus] relation number``."""

    name: str
    relation: str
    number: int
    modulus: int | None = None

    def __str__(self) -> str:
        left = self.name if self.modulus is None else f"{self.name} % {self.modulus}"
        return f"{left} {self.relation} {self.number}"

    def holds(self, value: int) -> bool:
        """Whether the fact allows the argument to be `value`."""
        return _RELATIONS[self.relation](value if self.modulus is None else value % self.modulus, self.number)


def parse_assumptions(texts: Iterable[str]) -> tuple[Assumption, ...]:
    """Parses texts of one fact, or several joined by ``and`` or commas; raises AssumptionError on any other text."""
    return tuple(fact for text in texts for part in _AND.split(text.strip()) for fact in _facts(part, text))


def positive_step(name: str) -> str:
    """`POSITIVE_STEP` for a step that is the argument `name`."""
    return f"{name} > 0 (the step of a loop)"


def is_grid_size(name: str) -> bool:
    """Whether an argument is the size of the grid along an axis, which is at least 1.

    Names here lack the numeric suffix of the value: ``%tawa_grid_0`` is named tawa_grid.
    """
    return name.startswith(GRID_SIZE.rstrip("_"))


def _facts(part: str, text: str) -> list[Assumption]:
    """The facts of one comparison; ``0 < M <= 8`` states two."""
    pieces = [piece.strip() for piece in _RELATION.split(part)]
    if len(pieces) < 3:
        raise _unreadable(part, text)
    triples = [pieces[at : at + 3] for at in range(0, len(pieces) - 2, 2)]
    return [_fact(left, relation, right, text) for left, relation, right in triples]


def _fact(left: str, relation: str, right: str, text: str) -> Assumption:
    if _NUMBER.fullmatch(left):
        left, relation, right = right, _MIRRORED[relation], left
    name = _NAME.fullmatch(left)
    if name is None or not _NUMBER.fullmatch(right):
        raise _unreadable(f"{left} {relation} {right}", text)
    modulus = int(name[2]) if name[2] else None
    if modulus == 0:
        raise _unreadable(f"{left} {relation} {right}", text)
    return Assumption(name[1], relation, int(right), modulus)


def _unreadable(part: str, text: str) -> AssumptionError:
    where = "" if part.strip() == text.strip() else f" in {text!r}"
    return AssumptionError(
        f"{part.strip()!r}{where} is not an assumption: it must compare one argument with a number. "
        "Cure: write L >= 128, K % 64 == 0, 0 < M <= 4096, a.shape[1] >= 64, or several joined by 'and'"
    )
