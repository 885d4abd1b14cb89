"""The fate of a mutant: refuted with a witness, equivalent for a reason, or unclear.

refuted      the check of its level has a witness
equivalent   no fault found, in a class of `mutations_reasons`, and correct in every run of the simulator
unexplained  no fault found and correct in every run, but in no class
other values no fault found, and no run traps, but some compute other values: a wgmma reads another slot that is
             complete and not overwritten. The barrier check does not model values; for kernels with an aref level the
             refinement refutes it
unknown      the check is inconclusive
checked      runs of stated numbers found no fault, and the check says so; the simulator has a faulty run
missed       proved, but the simulator has a faulty run: a bug of the check, or a fault that its level does not model
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tawa.ir import Module, parse_module
from tawa.sim.errors import UnsupportedOp
from tawa.verify.arefs import check_credits
from tawa.verify.barriers import check_barriers, check_refinement
from tawa.verify.verdict import Checked, Refuted, Verdict
from tawa.verify.witness import describe
from tests.cases.case import Specimen
from tests.support.verdicts import passes
from tests.verify import mutations_aref, mutations_barrier, mutations_tensor_memory
from tests.verify.mutations_edits import Kind, Mutant, Site, break_at, sites
from tests.verify.mutations_oracle import FEW, MANY, ONE, Level, Oracle, Runs, Subject
from tests.verify.mutations_reasons import reason_of

Fate = Literal["refuted", "equivalent", "other values", "unexplained", "unknown", "checked", "missed"]
FATES: tuple[Fate, ...] = ("refuted", "equivalent", "other values", "unexplained", "unknown", "checked", "missed")


@dataclass(frozen=True, slots=True)
class Finding:
    """The fate of one mutant, and why: kind of fault, class of equivalence, or the faulty run."""

    subject: str
    level: Level
    kind: str
    mutant: str
    fate: Fate
    why: str


_INSTRUCTIONS = 200_000
"""The budget of the full credit check; kernels with a loaded trip count would take many seconds."""


def check(level: Level, module: Module) -> Verdict:
    """The check of a level: with fast effort first, and with full effort if that does not refute."""
    if level == "aref":
        verdict = check_credits(module, effort="fast")
        return verdict if isinstance(verdict, Refuted) else check_credits(module, budget=_INSTRUCTIONS)
    verdict = check_barriers(module, effort="fast")
    return verdict if isinstance(verdict, Refuted) else check_barriers(module)


def judge(mutant: Mutant, oracle: Oracle, thorough: bool = False) -> Finding:
    """Checks a mutant, and runs it in the simulator if it is not refuted.

    thorough: the simulator runs it even where the structure of the program is reason enough that it means the same.
    """
    subject = oracle.subject
    verdict = check(subject.level, mutant.module)
    if isinstance(verdict, Refuted) and verdict.witness.message:
        fate, why = "refuted", str(verdict.witness.kind)
    else:
        fate, why = _not_refuted(mutant, verdict, oracle, thorough)
    return Finding(subject.name, subject.level, mutant.kind, str(mutant), fate, why)


def _not_refuted(mutant: Mutant, verdict: Verdict, oracle: Oracle, thorough: bool) -> tuple[Fate, str]:
    reason = reason_of(mutant) if passes(verdict) else None
    wrong = ""
    try:
        if reason is None or reason.needs != "none" or thorough:
            runs = FEW if reason is None else _RUNS[reason.needs]
            wrong = oracle.wrong(mutant.module, runs if thorough else runs[: len(FEW)])
    except UnsupportedOp as error:
        return "unexplained", f"the simulator does not know {error.op}"
    if not passes(verdict):
        return "unknown", f"{verdict}; {wrong}"
    if wrong:
        return _other_values(mutant, oracle) or ("checked" if isinstance(verdict, Checked) else "missed", wrong)
    return ("equivalent", reason.name) if reason is not None else ("unexplained", describe(verdict))


def _other_values(mutant: Mutant, oracle: Oracle) -> tuple[Fate, str] | None:
    """The fate of a mutant of the barrier level that completes in every order; None if a run traps."""
    subject = oracle.subject
    if subject.level != "barrier" or oracle.traps(mutant.module):
        return None
    if not subject.aref:
        return "other values", "no run traps"
    verdict = check_refinement(parse_module(subject.aref), mutant.module)
    return ("refuted", "refinement") if isinstance(verdict, Refuted) else None


_RUNS: dict[str, Runs] = {"none": ONE, "one": ONE, "many": MANY}


def kinds(level: Level, tensor_memory: bool = False) -> tuple[Kind, ...]:
    """The kinds of a level; mutants with too small a D or too large a P are lowered to the barrier level."""
    of_barriers = mutations_tensor_memory.KINDS if tensor_memory else mutations_barrier.KINDS
    return mutations_aref.KINDS if level == "aref" else (*of_barriers, *mutations_aref.DEPTHS)


def all_sites(subject: Subject) -> tuple[Site, ...]:
    """All sites of a subject."""
    if subject.level == "aref":
        return sites(subject.text, mutations_aref.KINDS)
    lowered = sites(subject.aref, mutations_aref.DEPTHS) if subject.aref else ()
    found = mutations_tensor_memory.KINDS if "tensor_memory" in subject.text else mutations_barrier.KINDS
    return sites(subject.text, found) + lowered


def mutant_of(subject: Subject, site: Site) -> Mutant | None:
    """The mutant of one of `all_sites`; None if its kind does not apply there."""
    if subject.level == "barrier" and site.kind in mutations_aref.DEPTHS:
        broken = break_at(subject.aref, site)
        return mutations_aref.lowered(broken) if broken is not None else None
    return break_at(subject.text, site)


def family(case: Specimen) -> str:
    """The shape of a kernel: cases of one function share their protocol, except for layouts and sizes."""
    return case.kernel.__name__
