"""Timing and results: the one helper that every bench uses.

Machines are shared and power-limited, so candidates are never timed one after the other. They are timed round-robin: in
each round, every candidate runs one short burst, with rests between (`time_round_robin`); only ratios of medians are
compared. A burst is one CUDA graph of many launches, so that the cost of launching from Python does not count. If a
candidate cannot be captured, no graph is used for any, and all are launched one by one (`Timing.captured`).

Every bench writes one schema (`Report`)::

    {device, clocks, driver, versions, date, command,
     rows: [{case: {...}, candidate, median_ms, p10_ms, p90_ms, tflops, error}]}

`error` is a number (largest error, where a bench checks results), a text (why there is no measurement), or null.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import math
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
CYCLES_PER_MS = 2e6
"""Of the fastest clock, about."""
LEAST_AHEAD_MS = 4.0
"""How long the GPU is busy before a burst without a graph, for all candidates alike: clocks rise with work."""
Candidate = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds of one launch: median, 10th and 90th percentile over the rounds. captured: by CUDA graphs."""

    median_ms: float
    p10_ms: float
    p90_ms: float
    captured: bool = True

    @staticmethod
    def of(samples: Sequence[float], captured: bool = True) -> Timing:
        """The timing of some samples (at least one)."""
        ordered = sorted(samples)

        def at(share: float) -> float:
            return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]

        return Timing(round(statistics.median(ordered), 6), round(at(0.1), 6), round(at(0.9), 6), captured)


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate on one case."""

    case: Mapping[str, Any]
    candidate: str
    median_ms: float | None = None
    p10_ms: float | None = None
    p90_ms: float | None = None
    tflops: float | None = None
    error: float | str | None = None

    @staticmethod
    def timed(case: Mapping[str, Any], candidate: str, timing: Timing, flop: float, error: float | None = None) -> Row:
        """A row with its rate; `flop` is the work of one launch (0: no rate)."""
        tflops = round(flop / timing.median_ms / 1e9, 2) if flop else None
        return Row(dict(case), candidate, timing.median_ms, timing.p10_ms, timing.p90_ms, tflops, error)


@dataclass
class Report:
    """A result file while it is written. `save` may be called after every row: an interrupted bench loses nothing.

    folder: of the file; None: ``bench/results``.
    """

    name: str
    rows: list[Row] = field(default_factory=list[Row])
    about: dict[str, Any] = field(default_factory=dict[str, Any])
    folder: Path | None = None

    def __post_init__(self) -> None:
        self.about = self.about or environment()

    @property
    def path(self) -> Path:
        """Of its file."""
        return (self.folder or RESULTS) / f"{self.name}.json"

    def add(self, *rows: Row) -> None:
        """Appends rows and writes the file."""
        self.rows.extend(rows)
        self.save()

    def earlier_rows(self) -> list[Row]:
        """The rows that its file has already. Of which runs they are is noted in `about`."""
        path = self.path
        if not path.exists():
            return []
        about, rows = read(path)
        if rows:
            run = {key: about.get(key) for key in ("device", "driver", "versions", "date", "command")}
            self.about["earlier"] = [*about.get("earlier", []), run]
        return rows

    def note_clocks(self) -> None:
        """Records the clocks of this moment, which should be right after work."""
        clocks = _query_gpu("clocks.sm", "clocks.mem", "power.draw")
        self.about["clocks"] = {
            **self.about["clocks"],
            **{f"{name} after work": value for name, value in clocks.items()},
        }

    def save(self) -> Path:
        """Writes ``NAME.json`` and returns its path."""
        path = self.path
        path.parent.mkdir(parents=True, exist_ok=True)
        head = json.dumps(self.about, indent=1)[:-2]
        # One line per row: result files are read in diffs.
        rows = ",\n  ".join(_without_folders(json.dumps(asdict(row))) for row in self.rows)
        part = path.with_suffix(".part")
        part.write_text(f'{head},\n "rows": [\n  {rows}\n ]\n}}\n')
        part.replace(path)
        return path


def read(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """A result file: what it says about the machine, and its rows."""
    data = json.loads(path.read_text())
    rows = [Row(**row) for row in data.pop("rows")]
    return data, rows


# --- timing ---


def time_round_robin(
    candidates: Mapping[str, Candidate],
    rounds: int = 20,
    burst_ms: float = 4.0,
    rest_s: float = 0.02,
    graphs: bool = True,
) -> tuple[dict[str, Timing], dict[str, str]]:
    """Times candidates round-robin in short bursts with rests; the order is rotated by one place each round.

    graphs: bursts are CUDA graphs if all candidates can be captured. Otherwise the GPU is kept busy until the host has
    launched the burst, so that the host's time is not counted.

    Returns timings by candidate, and error texts of those that failed (a failure drops only that candidate).
    """
    launches: dict[str, int] = {}
    errors: dict[str, str] = {}
    for name, candidate in candidates.items():
        try:
            launches[name] = _launches(candidate, burst_ms)
        except Exception as error:
            errors[name] = describe(error)
    bursts, captured = _bursts({name: candidates[name] for name in launches}, launches, graphs)
    ahead_ms = 0.0 if captured else max(LEAST_AHEAD_MS, *(_host_ms(burst) for burst in bursts.values()))
    samples: dict[str, list[float]] = {name: [] for name in bursts}
    names = list(bursts)
    for number in range(rounds):
        start = number % max(len(names), 1)
        for name in names[start:] + names[:start]:
            time.sleep(rest_s)
            samples[name].append(_elapsed_ms(bursts[name], ahead_ms) / launches[name])
    return {name: Timing.of(values, captured) for name, values in samples.items()}, errors


def judge(
    calls: Mapping[str, Candidate], excess: Callable[[str, Any], float], about: Mapping[str, Any]
) -> tuple[dict[str, Candidate], dict[str, float], list[Row]]:
    """The candidates whose results are right, the errors of those that ran, and a row for each of the others.

    excess: the error of a result over the allowed one, by the candidate's name. about: of the case.
    """
    fit, errors, rows = dict[str, Candidate](), dict[str, float](), list[Row]()
    for name, call in calls.items():
        try:
            errors[name] = excess(name, call())
        except Exception as error:  # a candidate that does not take the case
            rows.append(Row(dict(about), name, error=describe(error)))
            continue
        if errors[name] <= 1:
            fit[name] = call
        else:
            rows.append(Row(dict(about), name, error=f"wrong result: {errors[name]:.3g} times the allowed error"))
    return fit, errors, rows


def _launches(candidate: Candidate, burst_ms: float) -> int:
    """How many launches of a candidate take `burst_ms`. Also warms the candidate up."""
    import torch

    for _ in range(3):
        candidate()
    torch.cuda.synchronize()
    once = max(min(_elapsed_ms(candidate) for _ in range(3)), 1e-3)
    return max(1, min(200, round(burst_ms / once)))


def _bursts(
    candidates: Mapping[str, Candidate], launches: Mapping[str, int], graphs: bool
) -> tuple[dict[str, Candidate], bool]:
    """A callable for each candidate that launches it as often as asked, and whether they are CUDA graphs.

    Either all are graphs or none: launches from Python cost time that launches in a graph do not.
    """
    import torch

    bursts: dict[str, Candidate] = {}
    for name, candidate in candidates.items():
        if not graphs:
            return {name: _repeated(it, launches[name]) for name, it in candidates.items()}, False
        try:
            bursts[name] = _captured(candidate, launches[name])
        except Exception:  # a limit of PyTorch, or the operation waits for the GPU
            torch.cuda.synchronize()
            return {name: _repeated(it, launches[name]) for name, it in candidates.items()}, False
    return bursts, True


def _captured(candidate: Candidate, launches: int) -> Candidate:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(launches):
            candidate()
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def _repeated(candidate: Candidate, launches: int) -> Candidate:
    def repeat() -> None:
        for _ in range(launches):
            candidate()

    return repeat


def _host_ms(work: Candidate) -> float:
    """How long launches keep the host."""
    import torch

    start = time.perf_counter()
    work()
    spent = (time.perf_counter() - start) * 1e3
    torch.cuda.synchronize()
    return spent


def _elapsed_ms(work: Candidate, ahead_ms: float = 0.0) -> float:
    """The GPU's time. ahead_ms: the GPU waits about as long first, while the host launches the work."""
    import torch

    if ahead_ms:
        torch.cuda._sleep(int(ahead_ms * CYCLES_PER_MS))
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


@contextmanager
def watchdog(seconds: float, what: str) -> Iterator[None]:
    """Ends the process if the block takes longer: a hung kernel cannot be stopped from within. Saved results stay."""

    def end() -> None:
        print(f"hung: {what} took more than {seconds:.0f} s", flush=True)
        os._exit(3)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def finite(value: float) -> float | None:
    """The number rounded to four digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.3e}") if math.isfinite(value) else None


def describe(error: BaseException) -> str:
    """One line about a failure."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:300]}"


# --- about the machine ---


def environment() -> dict[str, Any]:
    """Device, clocks, driver, versions, date and command of this process; only reads, never sets."""
    gpu = _query_gpu("name", "driver_version", "power.limit")
    clocks = _query_gpu("clocks.sm", "clocks.max.sm", "clocks.mem", "clocks.max.mem")
    packages = ("triton", "torch", "numpy", "tawa")
    return {
        "device": gpu.get("name", "none"),
        "clocks": {**clocks, "power_limit": gpu.get("power.limit")} if clocks else {},
        "driver": gpu.get("driver_version", "none"),
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in packages}},
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": _command(sys.argv),
    }


def _query_gpu(*fields: str) -> dict[str, str]:
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader", "--id=0"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    return dict(zip(fields, (part.strip() for part in output.strip().split(",")), strict=False))


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        if package != "tawa":
            return None
        import tawa  # run from the source tree

        return tawa.__version__


def _without_folders(text: str) -> str:
    """Shortens the paths of source files: below ``src`` to the path from there, elsewhere to the name of the file."""
    return re.sub(r"(?<![\w.])/(?:[^\s\"':]*/)?((?:src/)?[^\s\"':/]+\.py)\b", _kept, text)


def _kept(match: re.Match[str]) -> str:
    _, below, rest = match[0].partition("/src/")
    return f"src/{rest}" if below else match[1]


def _command(arguments: Sequence[str]) -> str:
    """The command line without the folders of this machine; a module of the repository as ``python -m``."""
    script = _relative(arguments[0])
    module = script.removesuffix(".py").removesuffix("/__main__").replace("/", ".")
    what = f"-m {module}" if "/" in script else script
    return " ".join(["python", what, *(_relative(it) if it.startswith("/") else it for it in arguments[1:])])


def _relative(path: str) -> str:
    full = Path(path).resolve()
    return str(full.relative_to(ROOT)) if full.is_relative_to(ROOT) else full.name
