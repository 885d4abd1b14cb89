"""Compile time under Tawa over that of stock Triton, for each kernel of our cases and of the corpus, without a GPU.

A job compiles the kernels of one case, or of one entry of the corpus, alternately: stock, automatic, wherever legal.
Each compile is timed by Triton's own clock, from the source to the cubin, without any cache; the least of the rounds
counts, since other work on the machine only adds to it. The processor time of all threads and of ptxas is kept beside
it: it depends less on other work, but does not show what runs at the same time. `bench.compile_time` runs the jobs and
writes their rows.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.harness import Row, Timing
from bench.workers import Answer, Job, run_jobs, say_alive, serve_jobs

MODES = ("stock", "automatic", "legal")
CORPUS_MODES = {"stock": "stock", "automatic": "tawa", "legal": "legal"}
WANTED_MEDIAN, WANTED_WORST, WANTED_DECLINED = 1.6, 3.0, 1.15
WANTED = (
    f"median <= {WANTED_MEDIAN}, worst <= {WANTED_WORST} where specialised; median <= {WANTED_DECLINED} where declined"
)
LIMIT_S = 600.0

CASES = (
    "gemm: tile_fp16_nn", "gemm: persistent_8warps", "gemm: two_loops", "gemm: gate_up_8warps", "gemm: split_epilogue",
    "gemm: batched_desc_nt", "attention: two_loops_fp16_d64_causal", "attention: two_loops_fp16_d128_causal",
    "attention: two_loops_fp16_d256_full", "attention: one_loop_fp8e4nv_d128_full",
    "attention: branch_fp16_d128_causal", "attention: two_loops_tile128x64_4warps",
    "attention: persistent_fp16_d128_full", "attention: varlen_fp16_d96_full", "attention: tutorial_fp16_d128_causal",
    "attention: flex_d64", "attention: flex_d256", "attention: dkdv_fp16_d64_full", "attention: dkdv_fp16_d128_causal",
    "attention: dq_fp16_d128_full", "attention: dkdv_4warps",
)  # fmt: skip
ENTRIES = (
    "parallel_attn B=2 T=1024 H=8", "parallel_attn B=4", "chunk_gla B=4", "chunk_retention B=2 T=1024 H=8",
    "chunk_gated_delta_rule B=4", "chunk_kda B=2 T=1024 H=8", "fused_moe T=512 E=8 H=256", "mlp T=2048",
    "mm_int8int2 M=1024", "neighborhood_attention B=1", "GemLiteLinear M=512", "mixed_precision_gemm M=1024",
    "scaled_gemm M=1024",
)  # fmt: skip


@dataclass
class Compiled:
    """One kernel version in one mode.

    seconds, cpu: of each round, elapsed and of processors. runs: Plans that went through the back end.
    """

    kernel: str
    seconds: list[float] = field(default_factory=list[float])
    cpu: list[float] = field(default_factory=list[float])
    applied: bool = False
    reason: str = ""
    runs: int = 0
    stages: dict[str, float] = field(default_factory=dict[str, float])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return vars(self)


# --- the worker's side ------------------------------------------------------------------------------------------------


class Listener:
    """Triton's compilation listener: collects compiles by mode; the n-th of a mode is the same in every round."""

    def __init__(self) -> None:
        self.mode = ""
        self.found: dict[str, list[Compiled]] = defaultdict(list)
        self.at = 0
        self.cpu = 0.0

    def begin(self, mode: str) -> None:
        """Begins a round in a mode."""
        self.mode, self.at = mode, 0

    def __call__(self, *, src: Any, metadata: Mapping[str, Any], times: Any, **_: Any) -> None:
        """Called by Triton after each compile."""
        say_alive()
        done, record = self.found[self.mode], metadata.get("tawa") or {}
        if self.at == len(done):
            done.append(Compiled(src.name))
        made = done[self.at]
        self.at += 1
        made.seconds.append(times.total / 1e6)
        made.cpu.append(self.cpu)
        made.applied, made.reason = bool(record.get("applied")), record.get("reason", "")
        made.runs = len(record.get("back_end_runs", ()))
        made.stages = record.get("stage_ms") or {name: us / 1e3 for name, us in times.lowering_stages}


_listener = Listener()
_ready = False


def handle(job: Job) -> Answer:
    """Does one job: ``{of, modes, repeat, configs}``."""
    _prepare(corpus=job["corpus"])
    _listener.found.clear()
    for _ in range(job["repeat"]):
        for mode in job["modes"]:
            _listener.begin(mode)
            (_run_entry if job["corpus"] else _run_case)(job, mode)
    return {
        "status": "done",
        "found": {mode: [it.to_json() for it in kernels] for mode, kernels in _listener.found.items()},
    }


def _prepare(corpus: bool) -> None:
    """Once for each worker: no cache, a first compile in each mode, which costs more than later ones, a listener."""
    global _ready
    if _ready:
        return
    _ready = True
    from triton import knobs

    if corpus:
        from bench.corpus.modes import keep_tunings_apart
        from bench.corpus.without_gpu import pretend

        pretend()
        keep_tunings_apart(bench=False)
    knobs.compilation.always_compile = True
    for mode in MODES:
        _run_case({"of": "gemm: tile_fp16_nn"}, mode)
    knobs.compilation.listener = _listener
    _count_processor_time()


def _count_processor_time() -> None:
    """Makes Triton's timer of a compile tell the listener the processor time as well."""
    from triton.compiler import compiler

    class Timer(compiler.CompileTimer):
        def __init__(self) -> None:
            super().__init__()
            self.began = _processor_time()

        def end(self) -> Any:
            _listener.cpu = _processor_time() - self.began
            return super().end()

    compiler.CompileTimer = Timer


def _processor_time() -> float:
    """Seconds of this process and of the processes that it waited for, such as ptxas."""
    return sum(os.times()[:4])


def _run_case(job: Mapping[str, Any], mode: str) -> None:
    from bench.compile_time import signature
    from tawa.bridge.driver.compile import compile_kernel
    from tawa.bridge.driver.request import Request
    from tawa.plan import PlanOptions

    case = find_case(job["of"])
    requests = {"stock": None, "automatic": Request(), "legal": Request(PlanOptions(only_if_faster=False))}
    compile_kernel(
        case.kernel, signature(case), requests[mode], num_warps=case.num_warps, num_stages=case.num_stages
    )  # fmt: skip


def find_case(name: str) -> Any:
    """The case called ``room: name``."""
    import importlib

    room, _, case = name.partition(": ")
    return importlib.import_module(f"tests.cases.{room}.cases").find(case)


def _run_entry(job: Mapping[str, Any], mode: str) -> None:
    from bench.corpus.modes import Tuning, begin_tuning, switch_to
    from bench.corpus.packages import find_entry
    from bench.corpus.running import evaluate, forget_compiled, make_inputs

    package, _, key = job["of"].partition(": ")
    entry = find_entry(package, key)[1]
    begin_tuning(Tuning(job["configs"]))
    switch_to(CORPUS_MODES[mode])
    forget_compiled()
    evaluate(entry, make_inputs(entry, "cpu", 0), entry.run)


# --- the parent's side ------------------------------------------------------------------------------------------------


def jobs(packages: str, only: Sequence[str], repeat: int, configs: int, modes: Sequence[str] = MODES) -> Iterator[Job]:
    """Cases first; entries of the corpus if there is a folder of packages, or they are installed ("")."""
    from bench.corpus.__main__ import chosen

    rest: dict[str, Any] = {"repeat": repeat, "configs": configs, "modes": list(modes)}
    named = [{"of": name, "corpus": False, **rest} for name in CASES]
    if packages:
        entries = [f"{package.name}: {entry.key}" for package, entry in chosen(list(ENTRIES))]
        named += [{"of": name, "corpus": True, **rest} for name in entries]
    yield from (job for job in named if not only or any(text in job["of"] for text in only))


def run(todo: Sequence[Job], packages: str, take: Any, seconds: float | None = None) -> None:
    """Runs jobs one after the other; corpus jobs have a worker of their own, whose driver is a stand-in."""
    end = None if seconds is None else time.monotonic() + seconds
    for corpus in (False, True):
        part = [job for job in todo if job["corpus"] is corpus]
        if part:
            run_jobs("bench.compile_ratio", part, take, 1, LIMIT_S, end, [packages] if packages else [])


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """A row for each kernel version and mode; `median_ms` is the least of its rounds."""
    if answer["status"] != "done":
        return [Row({"of": job["of"]}, "compile", error=f"{answer['status']}: {answer.get('message', '')}"[:300])]
    found, rows = answer["found"], list[Row]()
    stock = found.get("stock", [])
    for mode in job["modes"]:
        for at, it in enumerate(found.get(mode, ())):
            same = at < len(stock) and stock[at]["kernel"] == it["kernel"] and len(found[mode]) == len(stock)
            case: dict[str, Any] = {"of": job["of"], "kernel": it["kernel"], "number": at, "mode": mode}
            if mode != "stock":
                case |= {"applied": it["applied"], "runs": it["runs"]}
                if same:
                    case["ratio"] = round(min(it["seconds"]) / min(stock[at]["seconds"]), 3)
                    case["cpu_ratio"] = round(min(it["cpu"]) / max(min(stock[at]["cpu"]), 1e-3), 3)
                case |= {} if it["applied"] else {"reason": it["reason"]}
            best = min(it["seconds"]) * 1e3
            rows.append(
                Row.timed(
                    case, "compile", Timing(round(best, 1), round(best, 1), round(max(it["seconds"]) * 1e3, 1)), 0
                )
            )
    return rows


@dataclass(frozen=True, slots=True)
class Summary:
    """Ratios to stock of the kernels of one mode and verdict."""

    mode: str
    applied: bool
    ratios: tuple[float, ...]
    worst: str
    runs: int
    cpu: tuple[float, ...]

    @property
    def good(self) -> bool:
        """Whether they are as wanted."""
        if not self.applied:
            return statistics.median(self.ratios) <= WANTED_DECLINED
        return statistics.median(self.ratios) <= WANTED_MEDIAN and max(self.ratios) <= WANTED_WORST

    def row(self) -> Row:
        """The summary as a row; its ratios are in the case."""
        case = {
            "of": "all", "mode": self.mode, "applied": self.applied, "kernels": len(self.ratios),
            "median": round(statistics.median(self.ratios), 3), "worst": max(self.ratios), "worst_kernel": self.worst,
            "most_runs": self.runs, "cpu_median": round(statistics.median(self.cpu), 3), "cpu_worst": max(self.cpu),
        }  # fmt: skip
        return Row(case, "compile over stock")

    def __str__(self) -> str:
        what = "specialised" if self.applied else "declined"
        return (
            f"{self.mode:10} {what:12} {len(self.ratios):4} kernels   median {statistics.median(self.ratios):5.2f}   "
            f"worst {max(self.ratios):5.2f} ({self.worst})   of processors: median {statistics.median(self.cpu):5.2f}, "
            f"worst {max(self.cpu):5.2f}   most runs {self.runs}"
        )


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """A summary for each mode and verdict that occurs."""
    groups: dict[tuple[str, bool], list[Row]] = defaultdict(list)
    for row in rows:
        if "ratio" in row.case:
            groups[row.case["mode"], row.case["applied"]].append(row)
    found: list[Summary] = []
    for (mode, applied), group in sorted(groups.items()):
        worst = max(group, key=lambda row: row.case["ratio"]).case
        ratios = tuple(row.case["ratio"] for row in group)
        runs, cpu = max(row.case["runs"] for row in group), tuple(row.case["cpu_ratio"] for row in group)
        found.append(Summary(mode, applied, ratios, f"{worst['of']}: {worst['kernel']}", runs, cpu))
    return found


if __name__ == "__main__":
    assert "--worker" in sys.argv, "run python -m bench.compile_time"
    serve_jobs(handle)
