"""What the check says of one program."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.harness import describe
from bench.predicates.draw import Drawn, program_at
from bench.predicates.programs import text
from tawa.ir import parse_module
from tawa.verify.check import check_levels
from tawa.verify.effort import Effort
from tawa.verify.verdict import Refuted, Unknown

FALSE = {("proved", "faulty"): "false proved", ("refuted", "right"): "false refuted"}


@dataclass(frozen=True, slots=True)
class Judged:
    """A program, the verdict on it, its reason, and the milliseconds of the check."""

    place: int
    drawn: Drawn
    verdict: str
    why: str
    ms: float

    @property
    def false(self) -> str:
        """Empty if the verdict is not the opposite of the truth."""
        return FALSE.get((self.verdict, self.drawn.known.truth), "failed" if self.verdict == "failed" else "")


def judge(seed: int, effort: Effort, place: int) -> Judged:
    """Draws one program and checks it."""
    drawn = program_at(seed, place)
    module = parse_module(text(drawn.program))
    start = time.process_time()
    try:
        verdict = check_levels(None, module, effort=effort)
        name, why = type(verdict).__name__.lower(), ""
        if isinstance(verdict, Refuted):
            inputs = ", ".join(f"{name} = {value}" for name, value in verdict.witness.inputs.items())
            why = f"{verdict.witness.kind} at {inputs}: {verdict.witness.message}"
        elif isinstance(verdict, Unknown):
            why = verdict.reason
    except Exception as failure:
        name, why = "failed", describe(failure)
    return Judged(place, drawn, name, why, (time.process_time() - start) * 1000)
