"""The barrier check: slots, parities, bytes, asynchronous lifetimes and proxies of a warp-specialised kernel.

    check_barriers(module)  →  Proved()  |  Checked(bound, left)  |  Refuted(witness)  |  Unknown(reason)

Works on any TTGIR with ``ttg.warp_specialize``, of Triton 3.6 to 3.9, from any producer. The skeleton
(`skeleton.compiler`) is that of the aref level, with events on barriers and memory instead of puts and gets. First
`free.proof` takes every unknown as any number: if no run has a fault, the program is proved. Otherwise
`numbers.search` looks for numbers that lead to a fault: a witness, or else runs of stated numbers without one.

Not modelled: which allocations Triton places at the same address, clusters, values of tiles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.ir import Module, source_of
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.effort import Effort, Told, untold
from tawa.verify.free.proof import Proof, prove
from tawa.verify.numbers.facts import Facts, check_names
from tawa.verify.numbers.search import Search
from tawa.verify.refinement import check_refinement
from tawa.verify.run.places import NotUnderstood
from tawa.verify.skeleton.compiler import compile_barriers
from tawa.verify.skeleton.counters import fewer_accesses
from tawa.verify.skeleton.program import Program, UnsupportedError
from tawa.verify.verdict import Proved, Unknown, Verdict

PROOF: Mapping[Effort, int] = {"fast": 60_000, "full": 300_000}
RUNS: Mapping[Effort, int] = {"fast": 8_000, "full": 300_000}
"""The most steps of the proof, and of the runs that look for a witness."""


def check_barriers(
    module: Module,
    *,
    arguments: Mapping[str, int] | None = None,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    max_trips: int | None = None,
    budget_states: int | None = None,
    told: Told = untold,
) -> Verdict:
    """Proves or refutes the barrier protocol of `module`.

    arguments: integer arguments with a fixed value, by name. assume: facts about arguments, each ``L >= 128``,
    ``K % 64 == 0`` or several joined by ``and``; raises AssumptionError if one cannot be parsed or is not about an
    integer argument. effort: how much is tried; see `PROOF` and `RUNS`. max_trips: the most trips of each loop in runs
    with numbers; by default 2·D + 1. budget_states: the limit of steps of the proof, and of the runs.
    told: of the steps so far.
    """
    texts = [*assume, *(f"{name} == {number}" for name, number in (arguments or {}).items())]
    assumptions = parse_assumptions(texts)
    check_names(module, assumptions)
    try:
        program = compile_barriers(module)
        facts = Facts(program, assumptions)
        if name := facts.contradiction():
            return Unknown(f"no number {name} satisfies the assumptions", None, tuple(texts))
        proof = prove(program, PROOF[effort] if budget_states is None else budget_states, facts, told)
        if proof.holds:
            for step, loop in proof.positive:
                facts.assume_positive(step, loop)
            return Proved(_assumptions(program, facts, proof))
        runs = RUNS[effort] if budget_states is None else budget_states
        found = Search(program, facts, runs, proof, max_trips, told).verdict()
    except NotUnderstood as stop:
        return Unknown(f"not understood: {stop.reason}", source_of(module, stop.op))
    except UnsupportedError as stop:
        return Unknown(f"not understood: {stop}", source_of(module, stop.op))
    return found


def _assumptions(program: Program, facts: Facts, proof: Proof) -> tuple[str, ...]:
    counts = [fewer_accesses(program)] if program.counters else []
    return (*facts.used, *proof.assumed, *counts)


__all__ = ["check_barriers", "check_refinement"]
