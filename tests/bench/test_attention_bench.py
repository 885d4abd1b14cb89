"""`bench/attention/timing.py` without a GPU: lists, what it does when cut short, tables; and the schedule's picture."""

from __future__ import annotations

import argparse
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench import harness
from bench.attention import ablation as attention_ablation
from bench.attention import items as attention_items
from bench.attention import report as attention_report
from bench.attention import schedule, schedule_picture
from bench.attention import timing as attention
from bench.attention.candidates import WAYS, WITH_CONVERTER, Configuration, Shape, configurations
from bench.harness import Report, Row, read
from tawa.plan import Plan

EVERY = [(dtype, d, causal) for dtype, d in attention.PARTS for causal in (False, True)]
ANY = argparse.Namespace(dtype=None, d=None, mask=None, quick=False, lengths="16384,8192,4096,2048,1024,512")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for module in (harness, attention):
        monkeypatch.setattr(module, "RESULTS", tmp_path)
    monkeypatch.setattr(harness, "_query_gpu", lambda *fields: {})
    return tmp_path


def rows_of(shape: Shape) -> list[Row]:
    """What a problem would give: Tawa at 700, stock Triton at 500, cuDNN at 650 TFLOP/s."""
    rates = {"stock Triton": 500.0, "Tawa": 700.0, "Tawa, best configuration": 705.0, "cuDNN": 650.0}
    case = {**shape.about, "configuration": "tawa two_loops 128x128 w8"}
    return [
        Row.timed(case, name, harness.Timing.of([shape.flop / rate / 1e9] * 3), shape.flop)
        for name, rate in rates.items()
    ]


def all_fit(wanted: Any, *rest: Any) -> Any:
    usage = {"n_regs": 168, "n_spills": 0, "applied": True}
    return {shape: dict.fromkeys(found, usage) for shape, found in wanted.items()}, {shape: {} for shape in wanted}


@pytest.mark.parametrize(("dtype", "d", "causal"), EVERY)
def test_labels_tell_configurations_apart_and_json_keeps_them(dtype: str, d: int, causal: bool) -> None:
    found = configurations(dtype, d, causal)
    assert len({it.label for it in found}) == len(found)
    assert [Configuration.from_json(json.loads(json.dumps(it.to_json()))) for it in found] == found
    by_hand = dtype != "fp8" and d != 96
    missing = {name for name, takes in attention_report.NAMES.items() if not any(takes(it) for it in found)}
    only_fp8 = set() if dtype == "fp8" else {WITH_CONVERTER}
    assert missing == (set() if by_hand else {"Gluon by hand"}) | only_fp8
    brief = configurations(dtype, d, causal, brief=True)
    assert brief == found[: len(brief)] and {it.kind for it in brief} == {"operator", "stock"}
    assert 6 <= sum(it.kind == "stock" for it in found) <= 7


@pytest.mark.parametrize(("brief", "calls"), [(False, 2), (True, 1)])
def test_the_whole_matrix_fits_a_few_calls_by_its_own_estimate(brief: bool, calls: int) -> None:
    shapes = attention.wanted_shapes(ANY, set())
    counts = {part: len(configurations(*part, brief=brief)) for part in EVERY}
    timing = sum(attention.estimate_s(shape, counts[shape.dtype, shape.d, shape.causal]) for shape in shapes)
    checking = attention.WORKER_START_S + attention.CHECK_S * sum(counts.values()) / 12
    assert len(shapes) == 120
    assert timing + checking < calls * 8.5 * 60
    assert checking < attention.CHECK_SHARE * calls * 8.5 * 60


def test_a_run_cut_short_goes_on_where_it_was(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = [shape for shape in attention.wanted_shapes(ANY, set()) if shape.d == 64 and shape.dtype == "fp16"]
    begun: list[Shape] = []

    def bench(shape: Shape, fit: Any) -> list[Row]:
        begun.append(shape)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return rows_of(shape)

    monkeypatch.setattr(attention, "check_all", all_fit)
    monkeypatch.setattr(attention, "bench_problem", bench)
    with pytest.raises(KeyboardInterrupt):
        attention.run_problems(shapes, attention.resumed("attention"), 1, attention.time.monotonic() + 1e6)
    report = attention.resumed("attention")
    done = attention.done_in(report.rows)
    assert done == {attention.key_of(shape.about) for shape in begun}  # with the one that ended the run
    left = [shape for shape in shapes if attention.key_of(shape.about) not in done]
    assert attention.run_problems(left, report, 1, attention.time.monotonic() + 1e6)
    about, rows = read(results / "attention.json")
    assert begun == shapes
    assert {row.case["run"] for row in rows} <= set(about["runs"])
    assert [row.error for row in rows if row.error] == [attention.ENDED]
    assert attention.about_timed(attention.resumed("attention")) in about["runs"].values()


def test_what_failed_by_itself_is_tried_again_and_what_broke_the_gpu_is_not() -> None:
    about = Shape("fp16", 128, True, 512).about
    assert not attention.done_in([Row(about, "Tawa", error="OutOfMemoryError: 3 GiB")])
    assert not attention.done_in([Row({"dtype": "fp16", "d": 128, "causal": True}, "tawa", error=attention.ENDED)])
    assert attention.done_in([Row(about, "Tawa", error="RuntimeError: CUDA error: unspecified launch failure")])


def test_a_fault_of_the_gpu_ends_the_run_and_time_that_is_short_leaves_problems_out(
    results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = attention.wanted_shapes(ANY, set())[:3]

    def bench(shape: Shape, fit: Any) -> list[Row]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(attention, "check_all", all_fit)
    monkeypatch.setattr(attention, "bench_problem", bench)
    report = attention.resumed("attention")
    assert attention.run_problems(shapes, report, 1, attention.time.monotonic() + 0.1)
    assert not report.rows
    assert not attention.run_problems(shapes, report, 1, attention.time.monotonic() + 1e6)
    assert len(report.rows) == 1


def test_what_is_not_fit_has_its_reason_on_record(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(script: Path, jobs: Any, take: Any, *rest: Any, **more: Any) -> None:
        for job in jobs:
            wrong = Configuration.from_json(job["configuration"]).kind == "tawa"
            take(job, {"status": "failed", "message": "wrong result"} if wrong else {"status": "ok"})

    monkeypatch.setattr(attention, "run_jobs", answers)
    monkeypatch.setattr(attention, "bench_problem", lambda shape, fit: rows_of(shape)[:1])
    shape = attention.wanted_shapes(ANY, set())[0]
    report = attention.resumed("attention")
    for _ in range(2):  # a second run does not double them
        attention.run_problems([shape], report, 1, attention.time.monotonic() + 1e6)
    wrong = [row for row in report.rows if row.error == "failed: wrong result"]
    assert len(wrong) == sum(it.kind == "tawa" for it in configurations("fp16", 128, False))


def test_tables_and_pictures_are_made_of_rows(tmp_path: Path, results: Path) -> None:
    report = Report("attention")
    for shape in attention.wanted_shapes(ANY, set()):
        report.rows += rows_of(shape)
    about = {**report.about, "device": "NVIDIA H200"}
    attention_report.print_tables(report.rows)
    text = "\n".join(attention_report.page_tables(about, report.rows))
    assert "| causal | 16384 | 700 | 500 (1.40) | 650 (1.08) |" in text
    assert "| fp8, d = 64, full | 700 (1.40) | 700 (1.40) | 700 (1.40) |" in text
    assert len(attention_report.draw_all(about, report.rows, tmp_path)) == 3
    assert attention_report.print_wanted([row for row in report.rows if row.candidate != "Gluon by hand"])


def test_the_ablation_adds_one_thing_at_a_time() -> None:
    steps = attention_ablation.steps()
    assert [step.label for step in steps.values()] == [
        "stock two_loops 128x128 w8 s1",
        "stock two_loops 128x128 w8 s2",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g1 D1 flat",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g1 D1",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g2 D1",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g2 D1 pp1",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g2 D2 pp1",
        "tawa two_loops 128x128 w8 enable_warp_specialization1 g2 D2",
    ]


def test_the_orders_of_tiles_are_plans() -> None:
    counted, ordered = (Plan.of(dict(WAYS[name].plan)) for name in ("counter, own loop", "counter, longest first"))
    assert counted == Plan(tiles="dynamic")
    assert ordered == Plan(form="persistent", tiles="dynamic", tile_order="longest_first")
    assert all(Plan.of(dict(way.plan)) for way in WAYS.values())


def test_each_item_is_one_more_than_the_base_and_the_last_has_several() -> None:
    for dtype, d, causal, _ in attention_items.PROBLEMS:
        found = attention_items.items_of(dtype, d, causal)
        assert next(iter(found)) == attention_items.BASE
        assert len({it.label for it in found.values()}) == len(found) > 2
        assert all(it.way in WAYS or not it.way for it in found.values())
        assert ("together" in found) == causal


def test_items_are_printed_and_drawn_beside_their_base(tmp_path: Path) -> None:
    shape = Shape("bf16", 128, True, 1024)
    rates = {"base": 400.0, "counter": 440.0}
    rows = [Row({**shape.about, "step": name}, name, 1.0, 0.9, 1.1, rate) for name, rate in rates.items()]
    assert attention_items.by_problem(rows) == {"bf16, d = 128, causal, S = 1024": rates}
    path = attention_items.draw_items({"device": "NVIDIA H200"}, rows, tmp_path)
    assert path is not None and path.stat().st_size > 1000
    assert attention_items.draw_items({"device": "NVIDIA H200"}, [], tmp_path) is None


@pytest.fixture(scope="module")
def staged() -> schedule.Staged:
    from tests.cases.attention.cases import bench_case

    case = bench_case("two_loops", "fp16", 128, False, 1024, tile=(128, 128, 8))
    return schedule.staged_kernel(case, {"enable_warp_specialization": True})


def test_schedules_are_those_of_the_compiler(staged: schedule.Staged) -> None:
    (loop,) = staged.loops
    assert (loop.schedule.loop, loop.schedule.stages, staged.plan.consumer_groups) == (0, 2, 2)
    labels = [op.label for op in loop.schedule.ops if op.stage == 1]
    assert [label for label in labels if "dot" in label] == ["acc = warp_group_dot"]


def test_the_picture_keeps_to_the_schedule(staged: schedule.Staged, tmp_path: Path) -> None:
    loop = staged.loops[0]
    bars = schedule_picture.replay(loop, staged.plan)
    for unit in schedule_picture.UNITS:  # a unit does one thing at a time
        mine = sorted((bar.begin, bar.end) for bar in bars if bar.unit == unit)
        assert all(before[1] <= behind[0] for before, behind in pairwise(mine))
    dots = [bar for bar in bars if bar.unit == "tensor cores" and bar.lane == 0]
    pairs = [(bar.stage, bar.iteration) for bar in sorted(dots, key=lambda bar: bar.begin)]
    assert pairs[:5] == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1)]
    for name in ("a.png", "b.svg"):
        schedule_picture.draw(loop, staged.plan, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 10_000


def test_a_flat_plan_has_one_stage_a_loop() -> None:
    from tawa.plan import Plan
    from tests.cases.attention.cases import bench_case

    case = bench_case("two_loops", "fp16", 64, True, 1024, tile=(128, 64, 8))
    options = {"enable_warp_specialization": True, "num_consumer_groups": 1, "aref_depth": 1}
    plan = Plan.from_json(schedule.flat_plan(case, options))
    assert [it.stages for it in plan.schedules] == [1, 1]
