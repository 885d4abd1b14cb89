"""The aref check: credits. Is every slot put, got and released in order, for all trip counts?

    check_credits(module)  →  Proved()  |  Checked(bound, left)  |  Refuted(witness)  |  Unknown(reason)

Arefs with one writer and known readers form a bounded Kahn network: every maximal run ends in the same state, so one
run decides for each vector of trip counts. The check finds deadlocks (D < P + 1, rings read in crossed order, a token
that is never given); puts, gets and releases out of order; a slot released while a wgmma reads it, or read after its
release; a put that does not wait although its slot is full; slots that are still full or borrowed at the end.

The unknowns are loop bounds and conditions. Each is represented by the expression tree that computes it, so that the
same expression is the same number in every partition.

`tawa.verify.free.proof` treats every unknown as unconstrained: the trip count of a loop is independent of all other
loops, and of its own earlier executions. That over-approximates the possible runs, but has few states, each visited
once; if all of these runs are correct, so is every real run. A protocol seldom relies on relations between unknowns, so
this proves nearly every kernel. A fault may come from an infeasible run; then `tawa.verify.numbers.search` looks for
numbers that lead to it.

Source: G. Kahn, "The semantics of a simple language for parallel programming" (1974); arXiv 2510.14719, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tawa.ir import Module, source_of
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.effort import Effort, Told, untold
from tawa.verify.free.proof import prove
from tawa.verify.not_modelled import not_modelled
from tawa.verify.numbers.facts import Facts, check_names
from tawa.verify.numbers.search import Search
from tawa.verify.skeleton.compiler import compile_skeleton
from tawa.verify.skeleton.program import MAIN, UnsupportedError
from tawa.verify.verdict import Proved, Refuted, Unknown, Verdict, Witness

PROOF: Mapping[Effort, int] = {"fast": 60_000, "full": 300_000}
RUNS: Mapping[Effort, int] = {"fast": 15_000, "full": 250_000}
"""The most instructions of the proof, and of the runs that look for a witness."""


def check_credits(
    module: Module,
    *,
    assume: Sequence[str] = (),
    effort: Effort = "full",
    budget: int | None = None,
    told: Told = untold,
) -> Verdict:
    """Checks every ring of an aref-level module.

    assume: facts about integer arguments of the kernel, each ``L >= 128``, ``K % 64 == 0`` or several joined by
    ``and``; the verdict lists those that it used. effort: "fast" takes a few milliseconds for usual kernels. budget:
    the number of skeleton instructions that all runs together may execute; the default depends on the effort. told:
    of the instructions so far. A module without rings is proved. Raises AssumptionError if an assumption is about
    anything but an integer argument.
    """
    assumptions = parse_assumptions(assume)
    check_names(module, assumptions)
    if (stop := not_modelled(module, barriers=False)) is not None:
        return Unknown(f"not understood: {stop.reason}", source_of(module, stop.op))
    try:
        program = compile_skeleton(module)
    except UnsupportedError as error:
        return Unknown(str(error), source_of(module, error.op))
    if program is None:
        return Proved()
    for ring in program.rings:
        writers = [name for name in ring.writers if name != MAIN]
        if len(writers) > 1:
            message = f"{ring.name} has {len(writers)} writers ({', '.join(writers)}); a ring has one writer"
            return Refuted(Witness("order", message, {}, ()))
    facts = Facts(program, assumptions)
    if name := facts.contradiction():
        return Unknown(f"no number {name} satisfies the assumptions", None, tuple(assume))
    proof = prove(program, PROOF[effort] if budget is None else budget, facts, told)
    if proof.holds:
        for step, loop in proof.positive:
            facts.assume_positive(step, loop)
        return Proved(tuple(facts.used))
    return Search(program, facts, RUNS[effort] if budget is None else budget, proof, told=told).verdict()
