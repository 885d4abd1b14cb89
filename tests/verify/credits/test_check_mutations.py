"""Mutants of right programs at the aref level: what changes behaviour is refuted, what does not is listed.

Whether a mutant changes behaviour is decided by an interpreter that shares nothing with the check
(`tests.support.protocol`): it runs every pair of trip counts around D.
"""

from __future__ import annotations

import pytest

from tawa.ir import Module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tawa.verify.arefs import check_credits
from tawa.verify.verdict import Proved, Refuted
from tests.support.pipeline import specialise
from tests.support.protocol import run
from tests.support.sample import sample
from tests.verify.credits.test_check import DATA, aref
from tests.verify.mutations_aref import mutants
from tests.verify.mutations_reasons import reason_of

PLANS = {
    "tile": [(1, 0), (2, 1), (3, 1), (4, 2)],
    "persistent": [(2, 1)],
    "two_loops": [(3, 1)],
    "gate_up": [(2, 1)],
    "branching": [(1, 0)],
    "while": [(2, 1)],
    "nested": [(2, 1)],
    "guarded": [(2, 1)],
    "while_sum": [(2, 1)],
    "dynamic": [(2, 1), (3, 1)],
    "dynamic_by_tile": [(2, 1)],
}
CASES = [
    pytest.param(name, *plan, id=f"{name}-D{plan[0]}P{plan[1]}") for name, plans in PLANS.items() for plan in plans
]


def wrong(module: Module, depth: int, steps: tuple[int, ...] = ()) -> str:
    """What the interpreter finds for some trips; empty where all is right. steps: what m may be, where it is a step."""
    trips = sorted({0, 1, depth, depth + 1, 2 * depth + 1})
    for n in (*trips, -1) if steps else trips:
        for m in steps or trips:
            trace = run(module, {"n": n, "m": m})
            found = [reason for reason in trace.wrong if not reason.startswith("a store")]
            for ring in trace.rings():
                put, got, back = (trace.places(kind, ring) for kind in ("put", "get", "consumed"))
                if not (put == got == sorted(back) == list(range(len(put)))):
                    found.append(f"{ring}: puts {put}, gets {got}, releases {back}")
            if found:
                return f"n = {n}, m = {m}: {found[0]}"
    return ""


@pytest.mark.parametrize(("name", "depth", "mma_depth"), sample(CASES, 6))
def test_exactly_the_mutants_that_change_behaviour_are_refuted(name: str, depth: int, mma_depth: int) -> None:
    unlike: list[str] = []
    refuted = 0
    for mutant in mutants(aref(name, depth, mma_depth)):
        found = check_credits(mutant.module)
        label = f"{mutant}: {found}"
        if isinstance(found, Refuted):
            refuted += 1
            if not found.witness.message:
                unlike.append(f"no message: {label}")
        elif not isinstance(found, Proved) or reason_of(mutant) is None:
            unlike.append(f"not refuted: {label}")
        if "second" in mutant.kind or mutant.kind == "does not wait":
            # The interpreter knows one reader and one writer; and it sees a put that does not wait only where its
            # own rounds make it overtake, while the contract is that nobody has filled the slot before.
            continue
        reason = wrong(mutant.module, depth)
        if bool(reason) != isinstance(found, Refuted):
            unlike.append(f"interpreter: {reason or 'right'}; {label}")
    assert unlike == []
    assert refuted > 15


@pytest.mark.parametrize("file", ["tile_64x64.triton3_6", "persistent_while.triton3_9", "two_loops.triton3_6"])
def test_mutants_of_real_kernels_are_refuted_unless_their_kind_is_listed(file: str) -> None:
    text = (DATA / f"{file}.mlir").read_text()
    made = specialise(text, PlanOptions(enable_warp_specialization=True), Target(4, 3))
    for mutant in mutants(made.aref, 3):
        found = check_credits(mutant.module)
        if not isinstance(found, Refuted):
            assert isinstance(found, Proved) and reason_of(mutant) is not None, (str(mutant), found)
