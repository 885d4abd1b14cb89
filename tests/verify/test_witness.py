"""Witnesses as tables, JSON and Chrome traces."""

from __future__ import annotations

import json

from tawa.remarks import SourceLocation
from tawa.verify.verdict import ALL_RUNS, Checked, Proved, Refuted, Step, Unknown, Witness
from tawa.verify.witness import chrome_trace, describe, format_witness, step_text, verdict_to_dict

PLACE = SourceLocation("kernel.py", 12, 4)
CHECKED = Checked("up to 3 trips", "a loop that ends in its body", PLACE, ("n >= 1",))
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


def test_a_chrome_trace_has_a_row_per_partition_and_an_event_per_step() -> None:
    trace = json.loads(chrome_trace(WITNESS))
    names = [event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"]
    steps = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert names == ["producer", "consumer"]
    assert [(event["name"], event["tid"], event["ts"]) for event in steps] == [
        ("put 0 ring0[0]", 0, 0.0),
        ("get 0 ring0[0]", 1, 1.0),
        ("wait empty[1] parity 1", 0, 2.0),
    ]
    assert steps[0]["args"] == {"ring": "ring0", "slot": 0, "line": "kernel.py:12"}
    assert trace["otherData"] == {"message": "nobody moves", "inputs": {"n": 2}}


def test_every_verdict_has_its_name_in_its_text() -> None:
    assert describe(Proved(("n >= 1",))) == f"proved: {ALL_RUNS} (assuming n >= 1)"
    assert describe(CHECKED) == (
        "checked: up to 3 trips (assuming n >= 1)\n  not proved: a loop that ends in its body\n  at kernel.py:12"
    )
    assert describe(Refuted(WITNESS)).startswith("refuted (deadlock)\nnobody moves\n")
    assert describe(Unknown("no idea", PLACE)) == "unknown: no idea\n  at kernel.py:12"


def test_a_table_names_files_without_their_directories() -> None:
    far = Step("producer", "put 0", "ring0", 0, location=SourceLocation("/home/someone/project/kernel.py", 12, 4))
    assert step_text(far) == "put 0 ring0[0] kernel.py:12"


def test_columns_are_as_wide_as_their_longest_step() -> None:
    rows = format_witness(WITNESS).splitlines()[3:]
    assert {row.index(text) for row, text in ((rows[0], "consumer"), (rows[2], "get 0"))} == {32}
    assert all(row == row.rstrip() for row in rows)


def test_a_partition_whose_steps_are_cut_keeps_its_column() -> None:
    header = format_witness(WITNESS, most_rows=1).splitlines()[3]
    assert header.split() == ["#", "producer", "consumer"]


def test_every_event_of_a_trace_has_the_keys_that_viewers_need() -> None:
    events = json.loads(chrome_trace(WITNESS))["traceEvents"]
    for event in events:
        assert {"name", "ph", "pid", "tid"} <= event.keys() and event["name"]
        if event["ph"] == "X":
            assert event["dur"] > 0 and event["ts"] >= 0
    last = events[-1]
    assert (last["name"], last["ph"], last["ts"]) == ("deadlock", "i", 3.0)


KEYS = ["verdict", "bound", "left", "kind", "message", "reason", "location", "assumptions", "witness"]


def test_every_verdict_has_the_same_json_keys() -> None:
    proved = verdict_to_dict(Proved(("n >= 1",)))
    checked = verdict_to_dict(CHECKED)
    unknown = verdict_to_dict(Unknown("no idea", PLACE))
    wrong = verdict_to_dict(Refuted(WITNESS))
    assert list(proved) == list(checked) == list(unknown) == list(wrong) == KEYS
    assert {key: value for key, value in proved.items() if value is not None} == {
        "verdict": "proved",
        "assumptions": ["n >= 1"],
    }
    assert {key: value for key, value in checked.items() if value is not None} == {
        "verdict": "checked",
        "bound": "up to 3 trips",
        "left": "a loop that ends in its body",
        "location": "kernel.py:12",
        "assumptions": ["n >= 1"],
    }
    assert (unknown["verdict"], unknown["reason"], unknown["location"]) == ("unknown", "no idea", "kernel.py:12")
    assert (wrong["verdict"], wrong["kind"], wrong["message"]) == ("refuted", "deadlock", "nobody moves")
    assert json.loads(json.dumps(wrong)) == wrong


def test_a_witness_in_json_has_its_inputs_and_steps() -> None:
    witness = verdict_to_dict(Refuted(WITNESS))["witness"]
    assert witness["inputs"] == {"n": 2}
    assert witness["steps"][0] == {
        "partition": "producer",
        "action": "put 0",
        "target": "ring0",
        "slot": 0,
        "parity": None,
        "location": "kernel.py:12",
    }


def test_the_location_of_a_refuted_verdict_is_that_of_its_last_step() -> None:
    steps = (STEPS[1], STEPS[0])
    assert verdict_to_dict(Refuted(Witness("deadlock", "nobody moves", {}, steps)))["location"] == "kernel.py:12"
    assert verdict_to_dict(Refuted(WITNESS))["location"] is None
