"""Export of timelines as Chrome traces, and times under several cost models."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("triton")


from tawa.sim import CostModel, Timeline, chrome_trace
from tawa.sim.machine.cta import Order
from tawa.sim.time.timeline import TENSOR_CORES
from tests.cases.case import Specimen
from tests.cases.gemm.cases import find
from tests.sim.problems import level_module, make_arrays, run

PERSISTENT = find("persistent_8warps").with_sizes(M=256, N=512, K=512, PROGRAMS=1)


def timed(
    case: Specimen, module: Any, order: Order = "eager", seed: int = 0, model: CostModel | None = None
) -> Timeline:
    result = run(case, module, make_arrays(case), order, seed, programs=[(0, 0, 0)], timing=True)
    return result.timeline() if model is None else result.timeline(model=model)


def persistent(depth: int, mma_depth: int) -> Timeline:
    return timed(PERSISTENT, level_module("persistent_8warps", "barrier", depth, mma_depth))


def test_one_run_can_be_timed_under_several_models() -> None:
    case = find("tile_64x64").with_sizes(M=64, N=64, K=512)
    result = run(case, level_module("tile_64x64", "barrier"), make_arrays(case), timing=True)
    far = result.timeline(model=CostModel(memory_latency_cycles=5000))
    assert far.cycles > result.timeline().cycles
    with pytest.raises(ValueError, match="did not run"):
        result.timeline((7, 0, 0))
    with pytest.raises(ValueError, match="timing=True"):
        run(case, level_module("tile_64x64", "barrier"), make_arrays(case)).timeline()


def test_a_chrome_trace_holds_every_span_under_its_row() -> None:
    timeline = persistent(2, 1)
    events = json.loads(chrome_trace(timeline, "a title"))["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert list(names.values()) == list(timeline.rows)
    spans = [event for event in events if event["ph"] == "X"]
    assert len(spans) == len(timeline.spans)
    assert {names[event["tid"]] for event in spans if event["cat"] == "wgmma"} >= {"consumer", TENSOR_CORES}
    last = max(event["ts"] + event["dur"] for event in spans)
    assert last == pytest.approx(timeline.cycles / (timeline.clock_ghz * 1000), rel=1e-3)
    assert any("slot" in event["args"] and "source" in event["args"] for event in spans)
