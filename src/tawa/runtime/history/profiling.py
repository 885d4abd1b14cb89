"""GPU time by kernel for a whole process, measured by Proton, the profiler that comes with Triton.

It sees everything that runs on the GPU, including kernels of other libraries and replays of CUDA graphs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tawa.runtime.history.recording import RECORDER

_TIME = "time (ns)"


@contextmanager
def profiled() -> Iterator[None]:
    """Profiles the block for `tawa.report`. The block also runs without a profiler; the report then says why."""
    with tempfile.TemporaryDirectory(prefix="tawa-profile-") as folder:
        name = Path(folder) / "profile"
        started = _start(str(name))
        try:
            yield
        finally:
            if started:
                _stop(name.with_suffix(".hatchet"))


def read_profile(data: Sequence[Any]) -> tuple[dict[str, float], dict[str, int]]:
    """Milliseconds and launches by kernel name, from Proton's call tree."""
    times: dict[str, float] = {}
    counts: dict[str, int] = {}
    for node in _nodes(data):
        metrics = node.get("metrics", {})
        if _TIME in metrics:
            name = node["frame"]["name"]
            times[name] = times.get(name, 0.0) + float(metrics[_TIME]) / 1e6
            counts[name] = counts.get(name, 0) + int(metrics.get("count", 0))
    return times, counts


def _nodes(found: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    for node in found:
        if isinstance(node, dict) and "frame" in node:
            yield node
            yield from _nodes(node.get("children", ()))


def _start(name: str) -> bool:
    try:
        from triton import profiler

        profiler.start(name, hook=None)
        return True
    except Exception as error:  # no driver, no CUPTI, another profiler: the block runs anyway
        text = " ".join(str(error).split())[:200]
        no_gpu = text.startswith("0 active drivers")
        RECORDER.note = "there is no GPU" if no_gpu else f"the profiler does not start: {text}"
        return False


def _stop(file: Path) -> None:
    try:
        from triton import profiler

        profiler.finalize()
        times, counts = read_profile(json.loads(file.read_text()))
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        RECORDER.note = f"the profile cannot be read: {type(error).__name__}: {text}"
        return
    if times:
        RECORDER.add_profile(times, counts)
    else:
        RECORDER.note = "nothing ran on the GPU"
