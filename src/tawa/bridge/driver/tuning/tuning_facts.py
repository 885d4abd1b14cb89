"""What a compiled kernel says about itself to those who measure its Plans: part of the record in Triton's metadata.

A kernel is known by its *tuning key*: a hash of its TTIR without locations, of Triton's launch options, and of what the
user asked Tawa for. The TTIR has the constants, the types and the alignment of the arguments in it. Lines that are
added above the kernel do not change the key; a changed kernel does.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from typing import Any

from tawa.analysis.loops.deciding_arguments import deciding_arguments
from tawa.analysis.memory.provenance import follows_addresses, may_run_twice, written_arguments
from tawa.bridge.driver.data import Source, Specialised
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.ranked_plans import ranked_plans
from tawa.bridge.launch.added_arguments import launch_is_ours, may_be_one
from tawa.bridge.triton.generic_print import read_ttir
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import DotOp

_LOCATION = re.compile(
    r'^#loc\d*(?: = .*)?\n|\s*loc\((?:#loc\d*|unknown|"[^"]*"(?:\([^()]*\)|:\d+:\d+)?)\)', re.MULTILINE
)
_VALUE = re.compile(r"%[\w$.-]+")
_PARAMETERS = re.compile(r"tt\.func[^@]*@[^(]*\((.*)")
_PARAMETER = re.compile(r"(%[\w$.-]+):")
_OF_THIS_MACHINE = ("extern_libs", "ir_override", "debug", "sanitize_overflow", "instrumentation_mode")
"""Options of Triton's backend that do not change the kernel, or that are paths."""
_NOT_ASKED = ("mode", "only_if_faster", "start")
"""Options that say how to choose; a table of measured Plans answers that question."""


def tuning_key(ttir: str, options: Any, request: Request) -> str:
    """The key of a kernel in tables of measured Plans. options: of Triton's backend."""
    backend = {name: str(value) for name, value in vars(options).items() if name not in _OF_THIS_MACHINE}
    asked = {name: value for name, value in asdict(request.options).items() if name not in _NOT_ASKED}
    plan = request.plan.to_dict() if request.plan is not None else None
    text = json.dumps([_program(ttir), backend, asked, plan], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _program(ttir: str) -> tuple[str, list[str]]:
    """The text without locations and with numbered values, and the names of the parameters, which Plans refer to.

    Triton names values after the user's variables, but forgets some names when it reads a text.
    """
    text = _LOCATION.sub("", ttir)
    header = _PARAMETERS.search(text)
    numbers: dict[str, str] = {}
    numbered = _VALUE.sub(lambda it: numbers.setdefault(it[0], f"%{len(numbers)}"), text)
    return numbered, _PARAMETER.findall(header[1]) if header else []


def tuning_facts(
    source: Source,
    request: Request,
    options: Any,
    result: Specialised | None,
    annotated: bool,
    stock_first: bool = False,
) -> dict[str, Any] | None:
    """The facts as JSON data; None for a kernel that is not launched by us, or that nobody would tune.

    request: as the user made it. result: what the compile chose. annotated: whether annotations were removed.
    stock_first: whether another compile of the kernel follows: only the key is needed now, and the kernel is not read.
    Only with ``mode="measure"`` the Plans to measure are listed.
    """
    if not launch_is_ours() or DotOp.NAME not in source.ttir:
        return None
    if stock_first:
        return {"key": tuning_key(source.ttir, options, request), "sizes": [], "writes": [], "measure": False}
    kernel = read_ttir(source.ttir, source.context)
    measure = request.options.mode == "measure"
    chosen = result.outcome.plan if result is not None else None
    asked = options.num_warps, options.num_stages, request, chosen, options.maxnreg
    ranked = ranked_plans(kernel, *asked) if measure else ()
    deciding = deciding_arguments(kernel.walk())
    return {
        "key": tuning_key(source.ttir, options, request),
        "sizes": [[it.index, parameter_name(kernel, it, f"argument {it.index}")] for it in deciding],
        "may_run_twice": may_run_twice(kernel),
        "writes": written_arguments(kernel),
        "follows_addresses": follows_addresses(kernel),
        "may_be_one": sorted(may_be_one()),
        "measure": measure,
        "ranked": [it.to_dict() for it in ranked],
        "num_warps": options.num_warps,
        "options": asdict(request.options),
        "plan": request.plan.to_dict() if request.plan is not None else None,
        "annotated": annotated,
    }


__all__ = ["tuning_facts", "tuning_key"]
