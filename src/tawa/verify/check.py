"""Runs all checks of one kernel and combines their verdicts.

    aref level     → credits       puts, gets and releases of every slot match, in order
    barrier level  → barriers      slots, parities, bytes, asynchronous lifetimes, proxies
    both           → refinement    the barrier level makes the accesses of the aref level, in the same order

Refuted takes precedence over unknown, unknown over checked, and checked over proved: a kernel is proved only if every
check that ran proved it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from tawa.ir import Module
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.effort import Effort, Told, untold
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown, Verdict


def check_levels(
    aref: Module | None,
    barrier: Module | None,
    *,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    max_trips: int | None = None,
    told: Callable[[str, int, int], None] | None = None,
) -> Verdict:
    """Checks each level that is given, and the refinement if both are given.

    assume: facts about arguments (`tawa.verify.assumptions`). max_trips: the largest trip count tried for an innermost
    loop at the barrier level; with None the check chooses it. told: of each check while it runs: its name, how much of
    its budget is used, and the whole budget. Raises AssumptionError.
    """

    def of(check: str) -> Told:
        return untold if told is None else partial(told, check)

    found: dict[str, Verdict] = {}
    if aref is not None:
        found["credits"] = check_credits(aref, assume=assume, effort=effort, told=of("credits"))
    if barrier is not None:
        found["barriers"] = check_barriers(
            barrier, assume=assume, effort=effort, max_trips=max_trips, told=of("barriers")
        )
    if aref is not None and barrier is not None:
        found["refinement"] = check_refinement(aref, barrier, assume=assume, effort=effort, told=of("refinement"))
    return combine(found)


def combine(found: Mapping[str, Verdict]) -> Verdict:
    """Combines verdicts, given by the name of the check, into one that carries the assumptions of all."""
    assumptions = tuple(dict.fromkeys(text for verdict in found.values() for text in verdict.assumptions))
    for verdict in found.values():
        if isinstance(verdict, Refuted):
            return Refuted(verdict.witness, assumptions)
    for name, verdict in found.items():
        if isinstance(verdict, Unknown):
            return Unknown(f"{name}: {verdict.reason}", verdict.location, assumptions)
    checked = {name: verdict for name, verdict in found.items() if isinstance(verdict, Checked)}
    if not checked:
        return Proved(assumptions)
    bound = "; ".join(f"{name}: {verdict.bound}" for name, verdict in checked.items())
    first = next(iter(checked.values()))
    return Checked(bound, first.left, first.location, assumptions)


def trusted(found: Mapping[str, Verdict]) -> bool:
    """Whether automatic mode launches a kernel with these verdicts, given by the name of the check.

    It launches what is proved. It also launches a barrier level that is only checked if the aref level is proved and
    the barrier level was compared with it.
    """
    verdict = combine(found)
    if isinstance(verdict, Checked):
        compared = isinstance(found.get("refinement"), Proved | Checked)
        return compared and isinstance(found.get("credits"), Proved)
    return isinstance(verdict, Proved)
