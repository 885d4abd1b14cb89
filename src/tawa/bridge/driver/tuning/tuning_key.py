"""The tuning key of a kernel.

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

from tawa.bridge.driver.request import Request

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
