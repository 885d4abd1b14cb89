"""Adds the times of an entry to its result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bench.corpus.report.results import Microseconds, Result, Verdict, right, told

KERNELS = "kernels "  # what a job has reached that times kernels one by one; the rest of its answer follows
FARTHEST_FROM_STOCK = 2.0  # tolerances: as far as two results can be apart of which each is within its own


def without_kernels(reached: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a process that died while it timed kernels one by one, as far as it was known."""
    note = f"kernels not timed: {answer['status']}: {answer['message']}"
    return {**json.loads(reached[len(KERNELS) :]), "note": note}


def with_times(result: Result, answer: Mapping[str, Any], reached: str) -> Result:
    """A checked result with its times."""
    status = answer["status"]
    if status in ("hung", "crashed", "failed"):
        text = f"while timed, in {reached}: {answer['message']}"
        fault = "hung" if status == "hung" else "crashed"
        return replace(result, status="ok" if reached in ("stock", "import") else fault, message=text)
    if status != "done":
        return replace(result, message=f"not timed: {answer.get('message', status)}")
    errors = [f"{mode} not timed: {text}" for mode, text in answer["errors"].items()]
    notes = errors or [result.message] * bool(result.message)
    if not answer["captured"]:
        notes.append("timed without CUDA graphs: launches from Python count")
    if answer.get("note"):
        notes.append(answer["note"])
    far = [mode for mode, apart in answer["apart"].items() if too_far(apart)]
    off = answer["off"]
    notes += [
        f"while timed, the error of {mode} is {told(off[mode])} of the tolerance, that of stock {told(off['stock'])}"
        for mode in far
    ]
    wrong = [mode for mode in far if not right(off[mode], off["stock"], False)]
    times = {mode: (it[0], it[1], it[2]) for mode, it in answer["timings"].items()}
    kernels = {**result.kernels, **_timed_kernels(answer)}
    status = "wrong" if wrong else result.status
    return replace(result, status=status, times=times, kernels=kernels, message="; ".join(notes))


def too_far(apart: float | None) -> bool:
    """Whether two results cannot both be within their tolerance. apart: in tolerances; None: infinitely."""
    return apart is None or apart > FARTHEST_FROM_STOCK


def _timed_kernels(answer: Mapping[str, Any]) -> dict[str, tuple[Verdict, ...]]:
    """The verdict on each kernel in the configuration that was timed, and its time."""
    us = {mode: {name: Microseconds(*it) for name, it in of.items()} for mode, of in answer.get("us", {}).items()}
    found = {
        mode: tuple(Verdict(**it, us=us.get(mode, {}).get(it["kernel"])) for it in verdicts)
        for mode, verdicts in answer["kernels"].items()
    }
    stock = us.get("stock", {})
    found["stock"] = tuple(Verdict(name, False, "stock Triton", None, 0, 0, it) for name, it in stock.items())
    return found
