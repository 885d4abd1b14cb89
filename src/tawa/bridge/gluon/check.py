"""The check of a Gluon kernel in its compile: its final TTGIR is verified, and the record keeps the verdict.

    stages     ttgir (Triton's own) → ttgir, then the check → llir → ptx → cubin
    metadata   tawa: {…, "verdict": {"verdict": "proved", …}, …}

The record is in Triton's cache. So a kernel is checked once, and `tawa.bridge.gluon.verdicts` finds the verdict of one
from the cache, too.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from tawa.bridge.driver.request import Request
from tawa.bridge.report import record
from tawa.bridge.triton.artifacts.cache_entries import overridden
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.stage_output import Stage
from tawa.declines import IN_GLUON
from tawa.flow import Outcome
from tawa.ir import Module, parse_module
from tawa.machine.machines import KNOWN, machine_for
from tawa.verify.check import check_levels
from tawa.verify.effort import Effort
from tawa.verify.verdict import Unknown, Verdict
from tawa.verify.witness import verdict_to_dict

_log = logging.getLogger("tawa")


def put_check_into(stages: dict[str, Stage], request: Request, options: Any, capability: int | None) -> None:
    """Changes Triton's stages of a Gluon kernel in place: the check runs after ``ttgir``."""
    started = time.perf_counter()
    own, last = stages["ttgir"], list(stages)[-1]
    final = stages[last]

    def checked(before: Any, metadata: dict[str, Any]) -> Any:
        made = own(before, metadata)
        began = time.perf_counter()
        verdict = _verdict(made, options, capability, request)
        taken = (time.perf_counter() - began) * 1000
        metadata[record.KEY] = _record(made.get_entry_func_name(), request, verdict, taken)
        return made

    def timed(before: Any, metadata: dict[str, Any]) -> Any:
        made = final(before, metadata)
        metadata[record.KEY]["compile_ms"] = round((time.perf_counter() - started) * 1000, 3)
        return made

    stages["ttgir"], stages[last] = checked, timed


def check_module(module: Module, effort: Effort) -> Verdict:
    """The verdict on a program; an error of a check is no proof, and no reason to stop a compile."""
    try:
        return check_levels(None, module, effort=effort)
    except Exception as error:
        return Unknown(f"the check failed: {type(error).__name__}: {error}")


def _verdict(made: Any, options: Any, capability: int | None, request: Request) -> Verdict | None:
    if request.verification == "off":
        return None
    if machine_for(capability) is None:
        return Unknown(f"made for compute capability {capability}; the checks know {KNOWN}")
    if overridden(options):
        return Unknown("a level of the kernel comes from a file of the user's (ir_override, TRITON_KERNEL_OVERRIDE)")
    try:
        module = parse_module(print_generic(made))
    except Exception as error:
        return Unknown(f"its TTGIR cannot be read: {type(error).__name__}: {error}")
    return check_module(module, request.verification)


def _record(kernel: str, request: Request, verdict: Verdict | None, taken_ms: float) -> record.Record:
    data = verdict_to_dict(verdict) if verdict is not None else None
    found = data["verdict"] if data is not None else "not checked"
    head = IN_GLUON.remark(verdict=f"; its protocol is {found}")
    outcome = Outcome(False, None, (head,))
    _log.info("%s: %s", kernel, head.reason)
    made = record.make_record(kernel, request, request.options, outcome, {"verify": taken_ms}, taken_ms)
    return {**made, "verdict": data, "mode": "automatic", "gluon": True}
