"""A kernel, from its source to its bits: compiled, proved, simulated, and launched where there is a Hopper GPU.

Nothing is read from Triton's cache, and nothing is left in it: the kernel is compiled into a folder of its own.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tawa.cli.doctor.finding import Finding, Findings
from tawa.errors import ISSUES_URL, PlanError
from tawa.runtime.progress import Tell, progress

_REPORT = f"this is a fault of Tawa or of this machine; please report it, with tawa doctor --json: {ISSUES_URL}"
_STEPS = 5


def self_test() -> Findings:
    """A line for each step; a step that fails ends the test."""
    from tawa.bridge.triton.versions import untested_reason, why_not_importable
    from tawa.runtime.settings import Settings
    from tawa.supported import TRITON

    reason = why_not_importable() or untested_reason()
    if reason:
        yield Finding("self-test", f"left out: {reason}", "yellow", TRITON.cure)
        return
    try:
        Settings.from_environment().options()
    except PlanError as error:
        yield Finding("self-test", f"left out: {error}", "yellow", "mend this setting")
        return
    with progress("testing", _STEPS) as tell, _own_cache():
        yield from _steps(tell)


def _steps(tell: Tell) -> Findings:
    from tawa.bridge.triton.read_module import read_levels
    from tawa.demo.exhibits import EXHIBITS
    from tawa.demo.rehearsal import rehearse
    from tawa.verify.check import check_levels
    from tawa.verify.verdict import Proved

    exhibit = EXHIBITS[1]
    tell(0, None, "a worker starts")
    yield _worker()
    tell(1, None, f"compiling {exhibit.title}")
    start = time.perf_counter()
    compiled, found = exhibit.explained()
    took = _since(start)
    if not found.applied:
        yield Finding("compile", f"{found.kernel}: not specialised: {found.reason}", "red", found.cure or _REPORT)
        return
    yield Finding("compile", f"{exhibit.title}, {found.kernel}: specialised", data=took)
    tell(2, None, "proving")
    start = time.perf_counter()
    verdict = check_levels(*read_levels(compiled))
    what = f"the protocol of {found.kernel} is {type(verdict).__name__.lower()}"
    state, cure = ("green", "") if isinstance(verdict, Proved) else ("red", _REPORT)
    yield Finding("proof", what, state, cure, data=_since(start))
    tell(3, None, "simulating")
    result = rehearse(exhibit, compiled)
    orders = ", ".join(result.equal)
    same = all(result.equal.values())
    what = f"{'the' if same else 'other'} bits {'of' if same else 'than'} the unspecialised kernel ({orders})"
    state, cure = ("green", "") if same else ("red", _REPORT)
    yield Finding("simulation", what, state, cure, data={"seconds": round(result.seconds, 2)})
    tell(4, None, "launching")
    yield from _launch(exhibit)


def _since(start: float) -> dict[str, float]:
    return {"seconds": round(time.perf_counter() - start, 2)}


def _worker() -> Finding:
    """Starts a process that compiles in the background, and waits for its answer."""
    from tawa.bridge.launch.first.background import try_worker
    from tawa.runtime.settings import Settings

    if Settings.from_environment().background == "off":
        return Finding("background worker", "off (TAWA_BACKGROUND): the first launch waits for the compile")
    with tempfile.NamedTemporaryFile(prefix="tawa-doctor-", suffix=".log") as log:
        try:
            seconds, most = try_worker(Path(log.name))
        except (EOFError, OSError, TimeoutError) as error:
            cure = "TAWA_BACKGROUND=off compiles before each first launch"
            return Finding("background worker", f"does not answer: {error}", "red", cure)
    data = {"seconds": round(seconds, 2), "workers": most}
    return Finding("background worker", f"answers; up to {most} at a time", data=data)


def _launch(exhibit: Any) -> Findings:
    """Launches the kernel on a Hopper GPU and compares its result. Without such a GPU nothing is yielded."""
    try:
        from tawa.demo.gpu_race import hopper_present, judge_launch
    except ImportError:
        return
    if not hopper_present():
        return
    import tawa

    kernel = tawa.jit(exhibit.kernel, only_if_faster=False)
    faults = judge_launch(exhibit, kernel)
    if faults:
        yield Finding("launch", f"wrong on this GPU: {faults[0]}", "red", _REPORT)
        return
    found = tawa.explain(kernel)
    how = "specialised" if found.applied else f"by stock Triton: {found.reason}"
    yield Finding("launch", f"right on this GPU, against float64 ({how})")


@contextmanager
def _own_cache() -> Iterator[None]:
    """Triton's cache is a folder for this block alone."""
    name = "TRITON_CACHE_DIR"
    before = os.environ.get(name)
    with tempfile.TemporaryDirectory(prefix="tawa-doctor-", ignore_cleanup_errors=True) as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before
