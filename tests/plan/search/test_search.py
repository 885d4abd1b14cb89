"""The form that one launch gets, by predicted times."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tawa.machine.coefficients import ErrorInfo
from tawa.plan import Plan, PlanOptions
from tawa.plan.cost.launches import Launch, launch_of
from tawa.plan.cost.programs import Program, ProgramFacts
from tawa.plan.option_conflicts import STOCK
from tawa.plan.search.prediction import Expectation
from tawa.plan.search.search import NOT_COMPILED, Forecast, Search
from tawa.plan.search.space import Space
from tests.cases.programs.workloads import by_descriptors, by_pointers, chained, workload
from tests.support.forms import form_plan
from tests.support.timed import changed, timed

GEMM = Space(8, 3, workload(by_descriptors(128, 256, 64)), persistent=True)
WRITTEN, PERSISTENT = form_plan(1), form_plan(1, persistent=True)


def beside(
    space: Space = GEMM, own: Plan | None = WRITTEN, stock: bool = True, options: PlanOptions = PlanOptions()
) -> Search:
    way = space.program(own) if own is not None else None
    return replace(Search.of(space, options=options).beside(own), program=way, stock=stock)


def launch(k: int, programs: int, space: Space = GEMM) -> Launch:
    known = [k if it.type == "i32" else None for it in space.workload.function.body.args]
    return launch_of(space.workload, known, (32, max(1, programs // 32)))


def test_many_short_programs_get_the_persistent_form() -> None:
    found = beside().choose(launch(512, 2048), {})
    assert found.plan is not None and found.plan.form == "persistent"
    assert found.expectation.verdict == "faster" and "persistent" in str(found)


def test_a_launch_that_does_not_gain_gets_stock_unless_the_user_wants_otherwise() -> None:
    slow = changed(GEMM.program(WRITTEN), slots=1, in_flight=0)
    only = Search(GEMM, (), WRITTEN, slow)
    assert only.choose(launch(4096, 2048), {}).plan == STOCK
    close = Forecast(STOCK, "stock Triton", Expectation(5.6, 5.4, ErrorInfo(0.2, 9), "dots"))
    assert str(close) == f"stock Triton: {close.why}" and "5.6 us for stock Triton's" in close.why
    assert close.why.startswith("5.4 us predicted for the specialised kernel") and "too close to tell" in close.why
    assert replace(only, stock=False).choose(launch(4096, 2048), {}).plan is None


def test_a_kernel_that_was_left_to_stock_stays_what_it_is_where_nothing_gains() -> None:
    slow = {it: changed(GEMM.program(it), slots=1, in_flight=0) for it in beside(own=None).forms}
    assert beside(own=None).choose(launch(4096, 2048), slow).plan is None
    assert beside(own=None).choose(launch(512, 2048), {}).plan in slow


def test_a_launch_that_gets_stock_is_told_of_the_form_that_was_better_until_it_was_compiled() -> None:
    slow, at = changed(GEMM.program(WRITTEN), slots=1, in_flight=0), launch(512, 2048)
    only = Search(GEMM, (PERSISTENT,), WRITTEN, slow)
    promised = only.choose(at, {})
    assert promised.words == "persistent, 1 group" and not promised.missed
    spills = replace(GEMM.program(PERSISTENT), facts=ProgramFacts(spilled=50_000))
    told = str(only.choose(at, {PERSISTENT: spills}))
    assert (
        told.startswith("stock Triton: ") and " us predicted for the specialised kernel (as written, 1 group)" in told
    )
    before = f"persistent, 1 group: {promised.expectation.own_text} us predicted before it was compiled, "
    assert before in told and told.endswith(" us after: it spills 50000 bytes of registers to local memory")
    failed = str(only.choose(at, {PERSISTENT: "it could not be compiled: no"}))
    assert failed.endswith(f"{promised.expectation.own_text} us predicted, but it could not be compiled: no")


def test_a_launch_that_gets_stock_is_told_of_a_better_form_that_is_not_compiled_any_more() -> None:
    slow, at = changed(GEMM.program(WRITTEN), slots=1, in_flight=0), launch(512, 2048)
    others = {form_plan(2, persistent=it): "no" for it in (False, True)}
    only = Search(GEMM, (PERSISTENT, *others), WRITTEN, slow)
    assert "persistent, 1 group" in only.choose(at, {}).words
    found = only.choose(at, others)
    assert found.plan == STOCK and f"us predicted, but {NOT_COMPILED}" in found.missed
    few = only.choose(at, dict(list(others.items())[:1]), at_hand=True)
    assert few.plan == STOCK and NOT_COMPILED not in few.missed  # it is compiled, once it may be


def test_what_is_compiled_needs_less_of_a_lead() -> None:
    """Of a form that is 2 % faster than the kernel, only if it is there already."""
    own = GEMM.program(WRITTEN)
    only = Search(GEMM, (PERSISTENT,), WRITTEN, own, stock=False)
    at = next(it for k in range(512, 65536, 512) if 1.0 < _lead(it := launch(k, 2048), own) < 1.025)
    assert only.choose(at, {}).plan is None
    assert only.choose(at, {PERSISTENT: GEMM.program(PERSISTENT)}).plan == PERSISTENT


def _lead(at: Launch, own: Program) -> float:
    from tawa.plan.search.prediction import expect

    stock = timed(False, num_warps=8)
    ours, persistent = (expect(GEMM.workload, at, way, stock) for way in (own, GEMM.program(PERSISTENT)))
    return persistent.gain / ours.gain


def test_a_form_that_failed_or_may_not_be_made_now_is_not_chosen() -> None:
    at = launch(512, 2048)
    chosen = beside(stock=False).choose(at, {}).plan
    assert chosen is not None
    assert beside(stock=False).choose(at, {chosen: "no"}).plan != chosen
    assert beside(stock=False).choose(at, {}, at_hand=True).plan is None


def test_a_launch_that_gains_nothing_gains_where_ptxas_serialises_the_wgmmas_of_stock() -> None:
    space = replace(GEMM, persistent=False)
    facts = ProgramFacts(False, 154, 0, 147480)
    plain, serialised = (
        beside(replace(space, facts=it), own=None).choose(launch(4096, 2048), {})
        for it in (facts, replace(facts, serialised=True))
    )
    assert plain.plan is None and plain.expectation.verdict != "faster"
    assert serialised.plan is not None and serialised.expectation.verdict == "faster"
    assert "(ptxas serialises its wgmmas)" in str(serialised)


def test_without_a_specialised_form_everything_gets_stock() -> None:
    found = Search(GEMM, ()).choose(launch(512, 2048), {})
    assert found.plan is None and found.words == "stock Triton"


@pytest.mark.parametrize(
    ("options", "forms"),
    [
        (PlanOptions(), [(1, True), (2, False), (2, True)]), (PlanOptions(num_consumer_groups=1), [(1, True)]),
        (PlanOptions(persistent=False), [(2, False)]), (PlanOptions(ping_pong=True), [(2, False), (2, True)]),
    ],
)  # fmt: skip
def test_options_close_forms(options: PlanOptions, forms: list[tuple[int, bool]]) -> None:
    assert [(it.groups, it.form == "persistent") for it in beside(options=options).forms] == forms


@pytest.mark.parametrize(
    ("own", "asked", "promoted"),
    [(None, None, True), (None, "cp.async", False), (form_plan(1, pointers=True), None, False)],
)
def test_loads_through_pointers_keep_their_way(own: Plan | None, asked: str | None, promoted: bool) -> None:
    space = Space(8, 3, workload(by_pointers()), promoted=True, persistent=True)
    options = PlanOptions(pointer_loads=asked)  # type: ignore[arg-type]
    assert {space.promotes(it) for it in beside(space, own, options=options).forms} == {promoted}


def test_unequal_programs_are_left_to_the_hardware() -> None:
    """The busiest SM of a persistent form gets several of the long programs in a row."""
    space = Space(8, 2, workload(chained()), persistent=True)
    own = form_plan(2)
    even = launch(4096, 1056, space)
    lopsided = replace(even, in_order=even.on_one * 1.0, strided=even.on_one * 1.5)
    only = Search(space, (replace(own, form="persistent"),), own, space.program(own), stock=False)
    assert only.choose(lopsided, {it: space.program(it) for it in only.forms}).plan is None


def test_one_program_for_each_sm_gets_no_loop_over_tiles() -> None:
    only = Search(GEMM, (PERSISTENT,), WRITTEN, changed(GEMM.program(WRITTEN), slots=1, in_flight=0), stock=False)
    assert only.choose(launch(4096, 132), {}).plan is None
    assert only.choose(launch(4096, 264), {}).plan == PERSISTENT


def test_another_number_of_groups_needs_a_larger_lead() -> None:
    """The other form is about 5 % faster than the kernel: enough for a persistent form, not for two groups."""
    at, own, stock = launch(4096, 264), GEMM.program(WRITTEN), timed(False, num_warps=8)
    slower = min((changed(own, slots=slots, in_flight=p) for slots in (1, 2, 3) for p in (0, 1) if p < slots),
                 key=lambda way: abs(_gain(at, own, stock) / _gain(at, way, stock) - 1.05))  # fmt: skip
    assert 1.03 < _gain(at, own, stock) / _gain(at, slower, stock) < 1.1
    for other, taken in ((PERSISTENT, True), (form_plan(2), False)):
        only = Search(GEMM, (other,), WRITTEN, slower, stock=False)
        assert (only.choose(at, {other: own}).plan is not None) is taken


def _gain(at: Launch, way: Program, stock: Program) -> float:
    from tawa.plan.search.prediction import expect

    return expect(GEMM.workload, at, way, stock).gain
