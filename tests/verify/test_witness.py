"""Witnesses as tables and as Chrome traces."""

from __future__ import annotations

import json

from tawa.remarks import SourceLocation
from tawa.verify.verdict import Proved, Refuted, Step, Unknown, Witness
from tawa.verify.witness import chrome_trace, describe, format_witness

PLACE = SourceLocation("kernel.py", 12, 4)
STEPS = (
    Step("producer", "put 0", "ring0", 0, location=PLACE),
    Step("consumer", "get 0", "ring0", 0),
    Step("producer", "wait", "empty", 1, 1),
)
WITNESS = Witness("deadlock", "nobody moves", {"n": 2}, STEPS)


def test_a_witness_is_a_table_of_time_and_partition() -> None:
    assert format_witness(WITNESS).splitlines() == [
        "nobody moves",
        "with n = 2",
        "",
        "#  producer                     consumer",
        "1  put 0 ring0[0] kernel.py:12",
        "2                               get 0 ring0[0]",
        "3  wait empty[1] parity 1",
    ]


def test_a_long_run_shows_its_end() -> None:
    lines = format_witness(WITNESS, most_rows=1).splitlines()
    assert lines[-2].endswith("2 steps before")
    assert lines[-1].startswith("3")


def test_a_run_without_steps_is_its_message() -> None:
    assert format_witness(Witness("order", "two writers", {}, ())) == "two writers"


def test_a_chrome_trace_has_a_row_a_partition_and_an_event_a_step() -> None:
    trace = json.loads(chrome_trace(WITNESS))
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["ph"] == "M"]
    steps = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert names == ["producer", "consumer"]
    assert [(event["name"], event["tid"], event["ts"]) for event in steps] == [
        ("put 0", 0, 0.0),
        ("get 0", 1, 1.0),
        ("wait", 0, 2.0),
    ]
    assert steps[0]["args"] == {"ring": "ring0", "slot": 0, "line": "kernel.py:12"}
    assert trace["otherData"] == {"message": "nobody moves", "inputs": {"n": 2}}


def test_every_verdict_says_what_it_is() -> None:
    assert describe(Proved("all trip counts", ("n in 1…8",))) == "proved: all trip counts (assuming n in 1…8)"
    assert describe(Refuted(WITNESS)).startswith("refuted (deadlock)\nnobody moves\n")
    assert describe(Unknown("no idea", PLACE)) == "unknown: no idea\n  at kernel.py:12"
