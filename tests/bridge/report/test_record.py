"""The record of a compile is plain JSON data."""

from __future__ import annotations

import json

from tawa.bridge.driver.request import Request
from tawa.bridge.report.record import kernel_location, make_record, plan_of
from tawa.flow import Outcome
from tawa.plan import PlanOptions
from tawa.remarks import Remark, SourceLocation

NOTE = Remark("done", "a load became a TMA load")
WHY = Remark("declined", "a store in the way", SourceLocation("gemm.py", 12), "move it")


def test_the_first_remark_is_the_headline_and_changes_of_a_declined_kernel_are_left_out() -> None:
    found = make_record("gemm", Request(), PlanOptions(), Outcome(False, None, (WHY, NOTE)), {"front": 1.23456}, 2.0)
    assert (found["applied"], found["reason"], found["location"]) == (False, "a store in the way", "gemm.py:12")
    assert found["cure"] == "move it" and [it["reason"] for it in found["remarks"]] == [WHY.reason]
    assert found["stage_ms"] == {"front": 1.235} and plan_of(found) is None
    assert json.loads(json.dumps(found)) == found


def test_the_mode_is_pinned_where_the_request_is() -> None:
    request = Request(PlanOptions(enable_warp_specialization=True))
    found = make_record("gemm", request, request.options, Outcome(False, None, ()), {}, 0.0)
    assert (found["mode"], found["reason"]) == ("pinned", "")


def test_the_first_location_of_the_text_is_the_kernels() -> None:
    text = 'module {}\n#loc = loc("gemm.py":7:0)\n#loc1 = loc("gemm.py":9:4)\n'
    assert kernel_location(text) == SourceLocation("gemm.py", 7, 0)
    assert kernel_location("module {}") is None
