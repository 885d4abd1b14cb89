"""Witnesses in readable form: a table (time × partition), and a trace for chrome://tracing or Perfetto.

deadlock: producer waits for the release of 0 of ring0 (consumer holds 0); consumer waits for put 1 of ring0. …
with n = 2

  #  producer                          consumer
  1  put 0 ring0[0]        kernel:10
  2                                    get 0 ring0[0]        kernel:11
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any

from tawa.verify.verdict import ALL_RUNS, Checked, Proved, Refuted, Step, Unknown, Verdict, Witness

_STEP_US = 1.0


def describe(verdict: Verdict) -> str:
    """The verdict as text, with the table of its witness if it is refuted."""
    match verdict:
        case Proved(assumptions):
            return f"proved: {ALL_RUNS}{_assuming(assumptions)}"
        case Checked(bound, left, location, assumptions):
            where = f"\n  at {location}" if location else ""
            return f"checked: {bound}{_assuming(assumptions)}\n  not proved: {left}{where}"
        case Refuted(witness, assumptions):
            return f"refuted ({witness.kind}){_assuming(assumptions)}\n{format_witness(witness)}"
        case Unknown(reason, location, assumptions):
            where = f"\n  at {location}" if location else ""
            return f"unknown: {reason}{_assuming(assumptions)}{where}"


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON data. Every verdict has the same keys; those that do not apply are None.

    bound, left: which runs are correct, and what was not proved for all runs (checked). location: of what was not
    proved (checked), of the operation that is not modelled (unknown), or of the last step of the witness (refuted).
    """
    checked = verdict if isinstance(verdict, Checked) else None
    reason = verdict.reason if isinstance(verdict, Unknown) else None
    witness = verdict.witness if isinstance(verdict, Refuted) else None
    place = verdict.location if isinstance(verdict, Checked | Unknown) else None
    if witness and witness.steps:
        place = witness.steps[-1].location
    return {
        "verdict": type(verdict).__name__.lower(),
        "bound": checked.bound if checked else None,
        "left": checked.left if checked else None,
        "kind": witness.kind if witness else None,
        "message": witness.message if witness else None,
        "reason": reason,
        "location": str(place) if place else None,
        "assumptions": list(verdict.assumptions),
        "witness": _witness_to_dict(witness) if witness else None,
    }


def said_by(found: Mapping[str, Any]) -> str:
    """What a verdict (`verdict_to_dict`) says, in one line: the runs it is about, the fault, or why it is unknown."""
    return fault_of(found) or found["reason"] or found["bound"] or ALL_RUNS


def fault_of(found: Mapping[str, Any]) -> str:
    """What goes wrong in a refuted program, with its kind; else empty."""
    if not found["kind"]:
        return ""
    return f"{found['kind']}: {found['message'].removeprefix(found['kind'] + ': ')}"


def _witness_to_dict(witness: Witness) -> dict[str, Any]:
    steps = [
        {
            "partition": step.partition,
            "action": step.action,
            "target": step.target or None,
            "slot": step.slot,
            "parity": step.parity,
            "location": str(step.location) if step.location else None,
        }
        for step in witness.steps
    ]
    return {"inputs": dict(witness.inputs), "steps": steps}


def format_witness(witness: Witness, most_rows: int = 60) -> str:
    """The message, the inputs and the table with one row per step; a long run shows its last `most_rows` steps."""
    lines = [witness.message]
    if witness.inputs:
        lines.append("with " + ", ".join(f"{name} = {value}" for name, value in witness.inputs.items()))
    if not witness.steps:
        return "\n".join(lines)
    partitions = list(dict.fromkeys(step.partition for step in witness.steps))
    skipped = max(0, len(witness.steps) - most_rows)
    rows = [
        (str(number), [step_text(step) if step.partition == name else "" for name in partitions])
        for number, step in enumerate(witness.steps, 1)
        if number > skipped
    ]
    widths = [max(len(name), *(len(cells[column]) for _, cells in rows)) for column, name in enumerate(partitions)]
    first = max(len(number) for number, _ in rows)
    lines += ["", _row("#".rjust(first), partitions, widths)]
    if skipped:
        lines.append(f"{'…'.rjust(first)}  {skipped} steps before")
    lines += [_row(number.rjust(first), cells, widths) for number, cells in rows]
    return "\n".join(lines)


def step_text(step: Step) -> str:
    """One step as text: ``put 3 ring0[1] parity 0 kernel.py:12``, the file without its directory."""
    place = f" {PurePath(step.location.file).name}:{step.location.line}" if step.location else ""
    return _event_text(step) + place


def _event_text(step: Step) -> str:
    target = step.target + (f"[{step.slot}]" if step.slot is not None else "")
    parity = f"parity {step.parity}" if step.parity is not None else ""
    return " ".join(part for part in (step.action, target, parity) if part)


def chrome_trace(witness: Witness) -> str:
    """The run as a Chrome trace (JSON): one row per partition, one microsecond per step."""
    partitions = list(dict.fromkeys(step.partition for step in witness.steps))
    events: list[dict[str, Any]] = [
        {"name": kind, "ph": "M", "pid": 0, "tid": number, "args": args}
        for number, name in enumerate(partitions)
        for kind, args in (("thread_name", {"name": name}), ("thread_sort_index", {"sort_index": number}))
    ]
    for time, step in enumerate(witness.steps):
        details = {
            "ring": step.target,
            "slot": step.slot,
            "parity": step.parity,
            "line": str(step.location) if step.location else None,
        }
        events.append(
            {
                "name": _event_text(step),
                "cat": step.target or "step",
                "ph": "X",
                "ts": time * _STEP_US,
                "dur": _STEP_US,
                "pid": 0,
                "tid": partitions.index(step.partition),
                "args": {name: value for name, value in details.items() if value is not None},
            }
        )
    end = len(witness.steps) * _STEP_US
    events.append({"name": witness.kind, "ph": "i", "s": "g", "ts": end, "pid": 0, "tid": 0, "args": {}})
    other = {"message": witness.message, "inputs": dict(witness.inputs)}
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns", "otherData": other}, indent=1)


def _row(number: str, cells: list[str], widths: list[int]) -> str:
    return "  ".join((number, *(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))).rstrip()


def _assuming(assumptions: tuple[str, ...]) -> str:
    return f" (assuming {'; '.join(assumptions)})" if assumptions else ""
