"""The protocol of random nests of loops and branches, run on counts."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tawa.ir import parse_module
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.programs.nests import Branch, Loop, Statement, Step, fills, nests, text
from tests.support.pipeline import specialise
from tests.support.protocol import Trace, run
from tests.support.sample import examples
from tests.support.verdicts import passes

SETTINGS = settings(max_examples=examples(60))


def in_order(trace: Trace, depth: int, level: str) -> list[str]:
    """Violations of the rule that each slot is put, got and released once, in order."""
    wrong = [reason for reason in trace.wrong if not reason.startswith("a store while")]  # stores beside dots are fine
    for ring in trace.rings():
        total = len(trace.places("put", ring))
        pairs = [(index % depth, index // depth % 2) for index in range(total)]
        counts = {"put": pairs, "get": pairs, "consumed": [slot for slot, _ in pairs]}
        for kind, expected in counts.items():
            wanted = expected if level == "barrier" else list(range(total))
            if trace.places(kind, ring) != wanted:
                wrong.append(f"{ring}: {kind} at {trace.places(kind, ring)}")
    return wrong


# Runs long enough for rings to wrap around after the inner branch take too long; shorter ones must do.
FOUR_DEEP = (
    Loop("m", (Loop("n", (Loop("n", (Step(0),)), Step(0))), Branch((Branch((), (Step(0),)),), ()))),
    Loop("two", (Step(0),)),
)


@example((Loop("n", (Step(0), *FOUR_DEEP)),), (3, 2), 3, 1)
@given(nests(), st.sampled_from([(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (4, 2)]), st.integers(0, 4), st.integers(0, 4))
@SETTINGS
def test_no_nest_blocks_or_breaks_the_order(nest: tuple[Statement, ...], plan: tuple[int, int], n: int, m: int) -> None:
    depth, mma_depth = plan
    options = PlanOptions(enable_warp_specialization=True, aref_depth=depth, mma_depth=mma_depth)
    made = specialise(text(nest), options, Target(4, 3, 10**9))
    assert made.applied, made.remarks
    # Nests of many loops with small trip counts rarely exceed the limits of the credit check.
    assert passes(made.verdict) or "trips do not reach" in str(made.verdict), made.verdict
    for level, program in (("aref", made.aref), ("barrier", made.barrier)):
        trace = run(parse_module(program), {"n": n, "m": m})
        assert in_order(trace, depth, level) == []
        assert sum(event.kind == "put" for event in trace.events) == fills(nest, {"n": n, "m": m})
