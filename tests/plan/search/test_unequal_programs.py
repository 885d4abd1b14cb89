"""Where programs have different amounts of work, launches may get a loop whose tiles come from a counter."""

from __future__ import annotations

from dataclasses import replace

import pytest

pytest.importorskip("triton")

from bench.model.items import arguments_of
from tawa.analysis.work.workload import find_workload
from tawa.bridge.triton.structured import read_kernel
from tawa.plan import PlanOptions
from tawa.plan.cost.launches import Launch, launch_of, programs_differ
from tawa.plan.cost.time_model import predict
from tawa.plan.search.search import Forecast, Search
from tawa.plan.search.space import Space
from tests.cases.attention.builders import flex_case
from tests.cases.attention.cases import bench_case, find
from tests.cases.case import Specimen
from tests.matrix.compiling import signature
from tests.support.forms import form_plan
from tests.support.fronts import front


def asked(case: Specimen) -> tuple[Space, Launch]:
    """The forms of a case, and its launch."""
    made = front(case.kernel, signature(case), num_warps=8, num_stages=2)
    module = read_kernel(made.ttir, made.context)
    found = find_workload(module)
    assert found is not None
    launch = launch_of(found, arguments_of(case, module, found), case.launch_grid())
    return Space(8, 2, found, persistent=True), launch


def attention(length: int, causal: bool = True, dim: int = 128) -> tuple[Space, Launch]:
    return asked(bench_case("two_loops", "bf16", dim, causal, length, tile=(128, 64 if dim == 256 else 128, 8)))


def chosen(space: Space, launch: Launch, **options: bool) -> Forecast:
    """The forecast where the kernel was compiled as it is written."""
    own = form_plan(2)
    search = Search.of(space, options=PlanOptions(**options)).beside(own)  # type: ignore[arg-type]
    return replace(search, program=space.program(own), stock=False).choose(launch, {})


def test_a_counter_is_offered_only_where_programs_may_differ() -> None:
    causal, _ = attention(1024)
    full, _ = attention(1024, causal=False)
    listed, _ = asked(find("flex_d64"))
    assert programs_differ(causal.workload) and programs_differ(listed.workload) and not programs_differ(full.workload)
    assert {(it.tiles, it.tile_order) for it in causal.forms if it.form == "persistent"} == {
        (None, None), ("dynamic", None), ("dynamic", "longest_first"),
    }  # fmt: skip
    assert not any(it.tile_order == "longest_first" for it in listed.forms)
    assert not any(it.tiles == "dynamic" for it in (*full.forms, *replace(causal, persistent=False).forms))


def test_the_longest_first_leave_the_least_for_the_end() -> None:
    _, launch = attention(1024)
    mean = launch.programs / launch.processors
    assert launch.longest_first is not None and launch.in_order is not None and launch.strided is not None
    assert mean <= launch.longest_first < launch.in_order < launch.strided


def test_short_causal_sequences_get_a_counter_and_long_ones_stay() -> None:
    found = chosen(*attention(1024)).plan
    assert found is not None
    assert (found.form, found.tiles, found.tile_order) == ("persistent", "dynamic", "longest_first")
    assert chosen(*attention(16384)).plan is None


def test_a_ring_with_one_slot_costs_more_than_a_counter_gains() -> None:
    assert chosen(*attention(1024, dim=256)).plan is None


def test_who_wants_no_loop_over_tiles_gets_none() -> None:
    assert chosen(*attention(1024), persistent=False).plan is None


def test_a_counter_evens_out_what_only_memory_knows() -> None:
    space, launch = asked(flex_case("listed", dim=128, tile=(128, 64, 8)))
    launch = replace(launch, programs=2048)
    assert launch.visits.guessed
    strided, counted = (
        predict(space.workload, launch, space.program(form_plan(2, persistent=True, dynamic=dynamic)))
        for dynamic in (False, True)
    )
    assert counted < strided
    found = chosen(space, launch).plan
    assert found is not None and found.tiles == "dynamic"


@pytest.mark.parametrize("longest_first", [False, True])
def test_the_words_name_the_order(longest_first: bool) -> None:
    form = form_plan(2, persistent=True, dynamic=True, longest_first=longest_first)
    words = attention(1024)[0].words(form)
    assert "tiles from a counter" in words and ("longest first" in words) is longest_first
    assert form.tiles == "dynamic" and (form.tile_order == "longest_first") is longest_first
