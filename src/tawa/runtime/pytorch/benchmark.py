"""``mode="measure"``: times two kernels at the first launch, and stores which is faster.

Both run alternately in short bursts on the arguments of that launch. The smaller median wins; a tie goes to the
specialised kernel. The result is for one compile (source, constants, types, alignment), measured at the sizes of the
first launch. During a CUDA graph capture nothing can be timed: the specialised kernel runs, and a later launch is
measured.

The result is stored for this kind of GPU in ``$XDG_CACHE_HOME/tawa/measured/<key>.json`` (normally under ``~/.cache``).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tawa.bridge.launch.host import Form

ROUNDS = 7
BURST_MS = 2.0
MOST_LAUNCHES = 100

Launch = Callable[[], None]


def benchmark(key: str, name: str, stock: Launch, ours: Launch) -> Form | None:
    """The faster of two launches of the same work; None while a CUDA graph is being captured."""
    import torch

    cuda: Any = torch.cuda
    if capturing():
        return None
    device = cuda.get_device_name()
    known = recall(key, device)
    if known is None:
        times = time_both(stock, ours, _Clock())
        known = {"kernel": name, "device": device, "stock_ms": times[0], "tawa_ms": times[1]}
        remember(key, known)
    return "stock" if known["stock_ms"] < known["tawa_ms"] else "tawa"


def capturing() -> bool:
    """Whether PyTorch is capturing launches into a CUDA graph; False if PyTorch is not loaded."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


class _Clock:
    """GPU time of a number of launches, in milliseconds."""

    def __call__(self, launch: Launch, count: int) -> float:
        import torch

        cuda: Any = torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            launch()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end)


def time_both(stock: Launch, ours: Launch, clock: Callable[[Launch, int], float]) -> tuple[float, float]:
    """Median milliseconds of one launch of each, timed alternately after a warm-up."""
    launches = (stock, ours)
    once = [min(clock(launch, 1) for _ in range(3)) for launch in launches]
    counts = [max(1, min(MOST_LAUNCHES, round(BURST_MS / max(ms, 1e-3)))) for ms in once]
    samples: list[list[float]] = [[], []]
    for turn in range(ROUNDS):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            samples[which].append(clock(launches[which], counts[which]) / counts[which])
    return statistics.median(samples[0]), statistics.median(samples[1])


def folder() -> Path:
    """The folder of stored measurements."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "tawa" / "measured"


def recall(key: str, device: str) -> dict[str, Any] | None:
    """The stored measurement of a kernel on this kind of GPU; None without one, or if its file is damaged."""
    try:
        known: dict[str, Any] = json.loads((folder() / f"{key}.json").read_text())
        return known if known["device"] == device and known["stock_ms"] > 0 and known["tawa_ms"] > 0 else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def remember(key: str, known: dict[str, Any]) -> None:
    """Writes a measurement atomically. If that fails, the next process measures again."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
        handle, path = tempfile.mkstemp(dir=folder(), suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            json.dump(known, file)
        os.replace(path, folder() / f"{key}.json")
    except OSError:
        return
