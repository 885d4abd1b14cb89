"""The candidates of one kernel: stock, automatic, what the model ranks first, some at random, and the usual forms.

The set is the same for a kernel on every machine: random Plans have a seed of the kernel's name.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tawa.plan.search import candidate
    from tests.cases.case import Case

RANKED, RANDOM = 8, 4
PREPARING = 4  # calls until all forms are compiled: the second loads the first form, and asks for the others
FORMS: dict[str, dict[str, Any]] = {
    "legal": {"only_if_faster": False, "persistent": False},
    "legal, persistent": {"only_if_faster": False, "persistent": True},
    "legal, one group": {"only_if_faster": False, "num_consumer_groups": 1, "persistent": False},
}
"""What a user would try by hand."""
MEASURED = {"name": "measured", "options": {"mode": "measure"}, "predicted_us": None}
"""The first launch measures and chooses. Only run where nothing else uses the GPU."""
LEARNED = {"name": "learned", "options": {"start": "stock"}, "predicted_us": None}
"""What launches have learned, as under `tawa.install`."""


def learn(step: Callable[[], Any], alone: bool) -> None:
    """Calls a step until its kernels have learned.

    alone: whether nothing else is at work; otherwise times teach nothing, and the forms are only compiled.
    """
    import tawa

    tawa.warmup(step) if alone else tawa.warmup(step, PREPARING)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One candidate. options: of the launch; ``{"plan": …}`` pins a Plan. predicted_us: for usual launches, or None."""

    name: str
    options: dict[str, Any]
    predicted_us: float | None = None


def candidates_of(case: Case, ranked: tuple[candidate.Candidate, ...]) -> list[Candidate]:
    """The candidates of a case. ranked: every Plan of its kernel, fastest first by the model."""
    found = [Candidate("stock", {"enable_warp_specialization": False}), Candidate("automatic", {})]
    found += pinned_candidates(case.name, ranked)
    return [*found, *(Candidate(name, options) for name, options in FORMS.items()), Candidate(**LEARNED)]


def pinned_candidates(seed: str, ranked: Sequence[candidate.Candidate], others: int = RANDOM) -> list[Candidate]:
    """The Plans that the model ranks first, and some random ones of the others. ranked: as for `candidates_of`."""
    own = [it for it in ranked if it.plan.form != "stock"]
    found = [_pinned(f"model {place}", it) for place, it in enumerate(own[:RANKED], 1)]
    rest = own[RANKED:]
    chosen = random.Random(seed).sample(rest, min(others, len(rest)))
    return found + [_pinned(f"random {place}", it) for place, it in enumerate(chosen, 1)]


def _pinned(name: str, it: candidate.Candidate) -> Candidate:
    return Candidate(f"{name}: {it.words}", {"plan": it.plan.to_dict()}, it.predicted_us)


def ranked_of(case: Case) -> tuple[candidate.Candidate, ...]:
    """Every Plan of a case's kernel in the order of the model, from its TTIR."""
    from bench.model.compiled import compile_point
    from bench.model.points import Point
    from tawa.bridge.driver.tuning.every_form import search_of
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tawa.bridge.triton.generic_print import read_ttir
    from tawa.bridge.triton.structured import new_context

    made = compile_point(Point("", case.name, "", "stock", case, None, 1.0))
    if "error" in made:
        return ()
    with launched_by_us(function=case.kernel):
        kernel = read_ttir(made["ttir"], new_context())
        search = search_of(kernel, case.num_warps, case.num_stages)
    return search.ranked() if search is not None else ()
