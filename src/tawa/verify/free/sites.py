"""What partitions ask about unknown numbers: sites, and what is known of the unknowns (`verify.free.questions`)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tawa.ir import Operation
from tawa.verify.skeleton.live import reached
from tawa.verify.skeleton.program import Code, Part, Program, Term

ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class Site:
    """A loop, branch or conditional release: queries whether its unknown has more than `start` trips.

    A loop goes on to query more than start + 1, start + 2, … and ends at `end` without a query. stage: the trips that
    the stages before took come before; None: it is not part of stages. cap: another unknown that is queried from
    `start` on; the answer is yes if both are.
    """

    unknown: int
    start: int = 0
    end: int = ENDLESS
    inverted: bool = False
    stage: int | None = None
    cap: int | None = None

    def shifted(self, by: int) -> Site:
        """The site if its unknown counts `by` more trips, which come first."""
        if not by:
            return self
        return replace(self, start=self.start + by, end=self.end if self.end == ENDLESS else self.end + by)


@dataclass(frozen=True, slots=True)
class Asked:
    """A number that is asked for: a condition, or the upper bound of a loop, with its lower bound and step (else 0)."""

    term: Term
    lower: int | Term = 0
    step: int | Term = 0


@dataclass(slots=True)
class Questions:
    """All sites, by partition and instruction. An instruction without a site has operands that the run computes."""

    sites: list[dict[int, Site]]
    flags: dict[int, int]  # unknowns that are conditions, 0 or 1: the number of loops around that they depend on
    constant: dict[int, int]  # unknowns with a constant trip count
    reach: list[list[int]]  # by partition and instruction: the unknowns that may still be queried, as bits
    least: dict[int, int]  # lower bounds of unknowns: of large constant trip counts, and by facts
    most: dict[int, int]  # upper bounds of unknowns, by facts
    fresh: int  # the bit in `reach` of a put that does not wait
    asked: dict[int, Asked] = field(default_factory=dict[int, Asked])
    """The number that an unknown comes from, if it is one: the upper bound of a loop, or a condition."""
    compared: tuple[Term, ...] = ()
    """All comparisons, also those that only take part in a condition."""
    positive: tuple[tuple[Term, Operation | None], ...] = ()
    """Steps that are positive only by the language's definition, each with a loop that has it."""
    remembered: dict[int, int] = field(default_factory=dict[int, int])
    """By unknown that a condition behind a loop asks for again: up to which number its trips are remembered."""
    conditions: dict[int, int] = field(default_factory=dict[int, int])
    """By unknown that conditions ask for: up to which number of trips they can tell."""
    loops: list[list[int]] = field(default_factory=list[list[int]])
    """By partition and instruction: the unknowns that loops may still query, as bits; other queries are conditions."""
    shares_memory: bool = False
    """Whether a number in memory is an unknown of several partitions."""


def is_condition(part: Part, at: int, site: Site) -> bool:
    """Whether the site of an instruction is a branch or a release, and no loop."""
    return part.code[at][0] in (Code.IF, Code.CONSUMED) and site.stage is None


def conditions_of(program: Program, sites: list[dict[int, Site]]) -> dict[int, int]:
    """By unknown that conditions ask for: the largest number of trips that they ask for."""
    found: dict[int, int] = {}
    for part, asking in zip(program.parts, sites, strict=True):
        for site in (site for at, site in asking.items() if is_condition(part, at, site)):
            found[site.unknown] = max(found.get(site.unknown, 0), site.start + 1)
    return found


def loops_of(part: Part, sites: dict[int, Site]) -> list[int]:
    """By instruction: the unknowns that loops may still query, as bits."""
    return reached(part.uses, asked_of(part, {at: it for at, it in sites.items() if not is_condition(part, at, it)}))


def asked_of(part: Part, sites: dict[int, Site]) -> dict[int, int]:
    """By instruction: the unknown that it queries, as a bit. A loop queries at its entry and at its back edge."""
    caps = {at: 0 if site.cap is None else 1 << site.cap for at, site in sites.items()}
    found = {at: 1 << site.unknown | caps[at] for at, site in sites.items()}
    loops = [at for at in sites if part.code[at][0] == Code.FOR]
    return found | {part.code[at][5] - 1: found[at] for at in loops}
