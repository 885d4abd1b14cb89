"""What the checks say of a program, as it is and with a fault."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.foreign.faults import ASSEMBLY, FAULTS
from bench.foreign.programs import Program
from bench.foreign.runs import oracle_of
from tawa.dialects.ttg import WarpSpecializeOp
from tawa.ir import parse_module
from tawa.sim.errors import UnsupportedOp
from tawa.verify.check import check_levels
from tawa.verify.verdict import Checked, Proved, Refuted, Unknown
from tests.verify.mutations_edits import Mutant
from tests.verify.mutations_oracle import Oracle
from tests.verify.mutations_reasons import reason_of
from tests.verify.mutations_sweep import check


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on one program: what is wrong or not modelled, and the seconds of the full check."""

    verdict: str
    why: str
    seconds: float


def verify(program: Program) -> Judged:
    """What ``tawa verify`` says of a program."""
    module = parse_module(program.text)
    start = time.perf_counter()
    verdict = check_levels(None, module)
    seconds = time.perf_counter() - start
    why = ""
    if isinstance(verdict, Refuted):
        why = f"{verdict.witness.kind}: {verdict.witness.message}"
    elif isinstance(verdict, Unknown):
        why = f"{verdict.reason}{f' ({verdict.location})' if verdict.location else ''}"
    return Judged(type(verdict).__name__.lower(), why, seconds)


def broken_by(job: tuple[Program, int]) -> list[Broken]:
    """The verdicts on a program with one of the faults, at each of its places."""
    program, number = job
    oracle = oracle_of(program)
    return [judge(mutant, oracle) for mutant in FAULTS[number].mutants(program.text)]


@dataclass(frozen=True, slots=True)
class Broken:
    """The verdict on a program with a fault. why: what was found; of a proved or checked one, why it is still right.

    explained: refuted; or proved or checked, for a reason, and right in every run of the simulator; a reason that rests
    on many runs explains nothing without them. simulated: whether it was run.
    """

    mutant: str
    verdict: str
    why: str
    explained: bool
    simulated: bool = False


def judge(mutant: Mutant, oracle: Oracle | None = None) -> Broken:
    """Verifies a program with a fault, and simulates it if no fault was found."""
    verdict = check("barrier", mutant.module)
    if isinstance(verdict, Refuted):
        return Broken(str(mutant), "refuted", str(verdict.witness.kind), True)
    if isinstance(verdict, Proved | Checked):
        reason = reason_of(mutant)
        name = reason.name if reason else "one partition" if _meets_nobody(mutant) else ""
        wrong, simulated = _simulated(mutant, oracle)
        why = wrong or name or "no known reason"
        explained = bool(name) and not wrong and (simulated or reason is None or reason.needs != "many")
        return Broken(str(mutant), type(verdict).__name__.lower(), why, explained, simulated)
    return Broken(str(mutant), "unknown", verdict.reason, False)


def _simulated(mutant: Mutant, oracle: Oracle | None) -> tuple[str, bool]:
    """The faulty run, if there is one, and whether the simulator knows the program."""
    try:
        return (oracle.wrong(mutant.module), True) if oracle is not None else ("", False)
    except UnsupportedOp:
        return "", False


def _meets_nobody(mutant: Mutant) -> bool:
    """A named barrier of a program without partitions: all its threads meet there, and there are no others."""
    names = {op.name for op in mutant.module.walk()}
    return mutant.site.target == ASSEMBLY and WarpSpecializeOp.NAME not in names
