"""The record of one compile: plain JSON data in Triton's metadata, so that explanations survive the cache on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tawa.bridge.driver.request import Request
from tawa.bridge.triton.versions import triton_version
from tawa.plan import Plan, PlanOptions
from tawa.remarks import Remark, SourceLocation

if TYPE_CHECKING:  # readers of a record need no compiler
    from tawa.flow import Outcome

KEY = "tawa"

Record = dict[str, Any]


def make_record(
    kernel: str,
    request: Request,
    options: PlanOptions,
    outcome: Outcome,
    stage_ms: dict[str, float],
    tawa_ms: float,
    reproducer: str = "",
    feedback: Mapping[str, str] | None = None,
    back_end_runs: Sequence[Record] = (),
    mapping: Mapping[str, str] | None = None,
) -> Record:
    """Builds the record; the first remark is the headline (reason, location, cure).

    feedback: decisions that trials of other Plans led to, by field of the Plan. back_end_runs: one for each Plan that
    went through the back end. mapping: the words that decided, by field of the Plan, where a mapping pinned it.
    Remarks about changes ("done") are left out for a declined kernel, since none was made.
    """
    from tawa import __version__
    from tawa.plan.reasons import decisions
    from tawa.verify.witness import verdict_to_dict

    remarks = tuple(it for it in outcome.remarks if outcome.applied or it.kind != "done")
    plan, pins = outcome.plan, request.plan or Plan()
    taken = decisions(plan, pins, request.options, outcome.why, feedback, mapping) if plan is not None else ()
    head = remarks[0] if remarks else Remark("applied" if outcome.applied else "declined", "")
    return {
        **_record(kernel, request, head, remarks, __version__),
        "applied": outcome.applied,
        "options": asdict(options),
        "plan": plan.to_dict() if plan is not None else None,
        "decisions": [decision.to_dict() for decision in taken],
        "verdict": verdict_to_dict(outcome.verdict) if outcome.verdict is not None else None,
        "stage_ms": {name: round(ms, 3) for name, ms in stage_ms.items()},
        "tawa_ms": round(tawa_ms, 3),
        "back_end_runs": list(back_end_runs),
        "reproducer": reproducer,
    }


def left_record(kernel: str, request: Request, remark: Remark) -> Record:
    """The record of a kernel that is left to stock Triton without an attempt."""
    from tawa import __version__

    return _record(kernel, request, remark, (remark,), __version__)


def _record(kernel: str, request: Request, head: Remark, remarks: Sequence[Remark], version: str) -> Record:
    """The record of a kernel that is not specialised."""
    return {
        "kernel": kernel,
        "mode": "pinned" if request.pinned else "automatic",
        "wherever_legal": request.options.wherever_legal,
        "applied": False,
        "reason": head.reason,
        "location": str(head.location) if head.location else None,
        "cure": head.cure,
        "remarks": [remark_record(remark) for remark in remarks],
        "options": asdict(request.options),
        "plan": None,
        "decisions": [],
        "verification": request.verification,
        "verdict": None,
        "stage_ms": {},
        "tawa_ms": 0.0,
        "back_end_runs": [],
        "compile_ms": None,
        "reproducer": "",
        "versions": {"tawa": version, "triton": ".".join(map(str, triton_version()))},
    }


def plan_of(record: Mapping[str, Any]) -> Plan | None:
    """The Plan of a specialised kernel's record; None for a kernel that is not specialised."""
    return Plan.from_data(record["plan"]) if record["plan"] is not None else None


def spilled_bytes(record: Mapping[str, Any]) -> int:
    """Bytes of spill stores and loads of a specialised kernel, counted statically; 0 for others."""
    return int(record.get("spilled", 0))


def remark_record(remark: Remark) -> Record:
    """A remark as JSON data; its location as ``"file:line"``."""
    return {
        "kind": remark.kind,
        "reason": remark.reason,
        "location": str(remark.location) if remark.location else None,
        "cure": remark.cure,
    }


def kernel_location(ttir: str) -> SourceLocation | None:
    """Where the kernel is defined, from the text of its TTIR: Triton's first location is the function's."""
    match = re.search(r'^#loc = loc\("([^"]+)":(\d+):(\d+)\)', ttir, re.MULTILINE)
    return SourceLocation(match[1], int(match[2]), int(match[3])) if match else None
