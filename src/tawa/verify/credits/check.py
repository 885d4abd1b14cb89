"""The aref check: credits. Is every slot put, got and released in step, whatever the trip counts?

    check_credits(module)  →  Proved("all trip counts")  |  Refuted(witness)  |  Unknown(reason)

Arefs with one writer and known readers form a bounded Kahn network: every maximal run ends in the same state, so one
run for each vector of trip counts decides. Found: deadlock (D < P + 1, rings read in crossed order, a token that is
never given), puts, gets and releases out of step, a slot released while a wgmma reads it or read behind its release,
a put that does not wait although its slot is full, slots that are left full or borrowed at the end.

What is unknown: the bound of each loop and each condition, as the tree of operations that computes it, so that the
same expression is the same number in every partition.

First with every number free (`tawa.verify.credits.free`): how long a loop is has nothing to do with any other loop, nor
with the same loop another time. That is more runs than there are, but few states, each visited once; where all are
right, so are all runs, without any assumption. Protocols seldom rest on what relates numbers, so this proves nearly
every kernel. A fault may be one of the runs that there are not; then come numbers.

With numbers (`tawa.verify.credits.search`): vectors in the order of their total size, hence the first that fails is a
smallest one. All trip counts: let i < j be two heads of one loop, in the partition that leads, with the others as far
as they get. If the state relative to the leader is the same at both and nobody has left the loop, then a run of
N + (j − i) trips is right if one of N trips is: cut out the iterations from i to j. So where the longest runs of every
loop show such a recurrence, the runs within the bound prove all. Counts matter by their differences alone; hence the
period is often 1 where slots and parities have 2·D. What is decided by how far a loop is, is not covered: then the
verdict states the bound.

Source: G. Kahn, "The semantics of a simple language for parallel programming" (1974); arXiv 2510.14719, section 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.ir import Module, source_of
from tawa.verify.assumptions import parse_assumptions
from tawa.verify.credits.facts import Facts, check_names
from tawa.verify.credits.free import MOST, prove_free
from tawa.verify.credits.program import compile_skeleton
from tawa.verify.credits.search import ALL, FAST, FULL, Search
from tawa.verify.credits.skeleton import MAIN, UnsupportedError
from tawa.verify.effort import Effort
from tawa.verify.not_modelled import not_modelled
from tawa.verify.verdict import Proved, Refuted, Unknown, Verdict, Witness


def check_credits(
    module: Module, *, assume: Sequence[str] = (), effort: Effort = "full", budget: int | None = None
) -> Verdict:
    """Checks every ring of an aref-level module.

    assume: facts about integer arguments of the kernel, each ``L >= 128``, ``K % 64 == 0`` or several joined by
    ``and``; the verdict states those that it used. effort: "fast" takes a few milliseconds for usual kernels. budget:
    instructions of the skeleton that all runs together may take, instead of what the effort grants. A module without
    rings is proved. Raises AssumptionError where an assumption names no integer argument.
    """
    assumptions = parse_assumptions(assume)
    check_names(module, assumptions)
    if (stop := not_modelled(module)) is not None:
        return Unknown(f"not understood: {stop.reason}", source_of(module, stop.op))
    try:
        program = compile_skeleton(module)
    except UnsupportedError as error:
        return Unknown(str(error), source_of(module, error.op))
    if program is None:
        return Proved(ALL)
    for ring in program.rings:
        writers = [name for name in ring.writers if name != MAIN]
        if len(writers) > 1:
            message = f"{ring.name} has {len(writers)} writers ({', '.join(writers)}), not one"
            return Refuted(Witness("order", message, {}, ()))
    if budget is None:
        budget = FAST if effort == "fast" else FULL
    facts = Facts(program, assumptions)
    free = prove_free(program, min(budget, MOST))
    if free is not None:
        for step, loop in free.positive:
            facts.take_positive(step, loop)
        return Proved(ALL, tuple(facts.used))
    return Search(program, facts, budget).verdict()


__all__ = ["ALL", "check_credits"]
