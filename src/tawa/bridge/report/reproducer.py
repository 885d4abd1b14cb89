"""Reproducers: a folder that replays a failure of Tawa without the user's program.

```
ttir.mlir        the kernel before any pass; `tawa replay` compiles it again
ttgir.mlir       the input of our pipeline (generic form), if it got that far
barrier.mlir     its output, if it got that far
installed.mlir   the output in the IR of the installed Triton
aref.mlir        for a refuted protocol, the level that is wrong: this one or barrier.mlir …
witness.json     … and the run that goes wrong, for chrome://tracing or Perfetto
request.json     options, plan, warps, stages, versions
traceback.txt    the failure
```
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import shutil
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tawa.bridge.driver.data import Job
from tawa.bridge.driver.request import Request, source_hash
from tawa.bridge.triton.versions import triton_version
from tawa.errors import ProtocolError
from tawa.outside import Unfit, json_of, text_of
from tawa.outside import read as read_as
from tawa.plan import Plan, PlanOptions
from tawa.verify.effort import Verification

_log = logging.getLogger("tawa")
_MOST_STAGES = 100


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A folder read back. ttir: the text of the kernel's TTIR."""

    ttir: str
    request: Request
    num_warps: int
    num_stages: int
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Written:
    """The folder that was written. path: None if nothing was written. reason: why not; empty if not requested."""

    path: Path | None
    reason: str = ""


def write(request: Request, job: Job, error: BaseException) -> Written:
    """Writes the folder if one is wanted; never raises."""
    if request.reproducer_dir is None:
        return Written(None)
    try:
        return Written(_write(request.reproducer_dir, request, job, error))
    except Exception as problem:  # any failure: stock Triton still compiles the kernel
        _log.debug("no reproducer of %s", job.kernel, exc_info=True)
        why = getattr(problem, "strerror", None) or f"{type(problem).__name__}: {problem}"
        where = f"no reproducer: nothing was written to {request.reproducer_dir} ({why})"
        return Written(None, f"{where}; TAWA_REPRODUCER_DIR names another folder")


def _write(root: Path, request: Request, job: Job, error: BaseException) -> Path:
    name = re.sub(r"\W+", "_", job.kernel)
    digest = hashlib.sha256(f"{job.ttir}{request.cache_suffix()}".encode()).hexdigest()[:12]
    folder = root / f"{name}-{digest}"
    texts = {"ttir.mlir": job.ttir, **{f"{level}.mlir": text for level, text in job.texts.items()}}
    texts["request.json"] = json.dumps(_request_data(request, job), indent=2)
    if isinstance(error, ProtocolError):
        texts |= error.files
    texts["traceback.txt"] = "".join(traceback.format_exception(error))
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for filename, text in texts.items():
            scratch = folder / f".{filename}.{os.getpid()}"
            scratch.write_text(text, encoding="utf-8")
            scratch.replace(folder / filename)
    except OSError:
        if new:  # a partial folder cannot be replayed
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder


def read(folder: Path) -> Reproducer:
    """Reads a folder that `write` made; raises OSError, Unfit or PlanError if it is not one."""
    kept = read_as(_Kept, json_of(text_of(folder / "request.json")))
    return Reproducer(
        ttir=text_of(folder / "ttir.mlir"),
        request=Request(kept.options, kept.plan, verification=kept.verification),
        num_warps=kept.num_warps,
        num_stages=kept.num_stages,
        versions=kept.versions,
    )


@dataclass(frozen=True, slots=True)
class _Kept:
    """What ``request.json`` has."""

    kernel: str
    options: PlanOptions
    plan: Plan | None
    pinned: bool
    verification: Verification
    num_warps: int
    num_stages: int
    versions: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.num_warps not in (1, 2, 4, 8, 16, 32):
            raise Unfit(f"num_warps is {self.num_warps}, not a power of two up to 32")
        if not 1 <= self.num_stages <= _MOST_STAGES:
            raise Unfit(f"num_stages is {self.num_stages}, not from 1 to {_MOST_STAGES}")


def _request_data(request: Request, job: Job) -> dict[str, Any]:
    return {
        "kernel": job.kernel,
        "options": asdict(request.options),
        "plan": request.plan.to_dict() if request.plan is not None else None,
        "pinned": request.pinned,
        "verification": request.verification,
        "num_warps": job.options.num_warps,
        "num_stages": job.options.num_stages,
        "versions": {
            "triton": ".".join(map(str, triton_version())),
            "python": platform.python_version(),
            "tawa_source": source_hash(),
        },
    }
