"""Times FlexAttention under torch.compile, stock and with ``tawa.install()``: ``python -m bench.attention.flex``.

B=4 H=16 S=4096 d=128 bf16: full, causal, a sliding window, documents, and a score modification. Each form runs in two
processes of its own under a watchdog (`bench.workers`). The first starts with empty caches, compiles a function for
each way (stock; Tawa as installed; Tawa wherever legal) and checks some heads against float32; the first processes of
all forms run in parallel. The second has warm caches, checks again, and times all ways round-robin; the second
processes run one at a time. The remarks of Tawa during the compiles are kept with the row.

Results: ``bench/results/flex.json``, or ``flex_NAME.json`` with ``--only``; and a table of the wanted ratios.
"""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.compiled import arguments_for, own_function, use_caches
from bench.harness import Report, Row, Timing, describe, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

SIZES = {"B": 4, "H": 16, "S": 4096, "D": 128}
WAYS: dict[str, dict[str, Any] | None] = {
    "stock": None,
    "Tawa": {},
    "Tawa, wherever legal": {"only_if_faster": False},
}
WINDOW = 512
CHECKED_HEADS = ((0, 0), (1, 7), (3, 15))
FACTOR = 2.0
LEAST = 2e-3  # of the largest value: a rounding to bf16 is 4e-3 of the value itself
LIMIT_S = 170.0


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of attention; wanted: Tawa's least rate over stock's."""

    mask: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None
    wanted: float = 0.0


def variants(length: int, device: str) -> dict[str, Variant]:
    """All forms by name, for sequences of a length."""
    import torch

    ends = torch.tensor([0.1, 0.15, 0.4, 0.45, 0.7, 1.0]) * length
    document = torch.bucketize(torch.arange(length), ends.to(torch.int64), right=True).to(device)

    def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
        return q >= k

    def window(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & (q - k <= WINDOW)

    def documents(b: Any, h: Any, q: Any, k: Any) -> Any:
        return (q >= k) & (document[q] == document[k])

    def distance(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return score - (q - k).abs() * 0.01

    return {
        "full": Variant(wanted=1.35),
        "causal": Variant(causal, wanted=1.35),
        "window": Variant(window, wanted=1.10),
        "documents": Variant(documents, wanted=1.10),
        "distance": Variant(score=distance, wanted=1.10),
    }


# --- the worker's side ---


def handle(job: Job) -> Answer:
    """Compiles and checks one form in every way; times it if the job asks."""
    use_caches(job["caches"])
    import torch

    sizes, variant = job["sizes"], variants(job["sizes"]["S"], job["device"])[job["variant"]]
    shape = tuple(sizes[name] for name in "BHSD")
    generator = torch.Generator(device=job["device"]).manual_seed(0)
    q, k, v = (torch.randn(shape, generator=generator, device=job["device"], dtype=torch.bfloat16) for _ in range(3))
    functions: dict[str, Callable[[], Any]] = {}
    said: dict[str, list[str]] = {}
    errors: dict[str, str] = {}
    wrong: dict[str, float] = {}
    for way, options in WAYS.items():
        try:
            functions[way], said[way] = compile_one(f"{job['variant']}_{len(said)}", variant, options, (q, k, v),
                                                    job["kernel_options"])  # fmt: skip
            wrong[way] = error_of(functions[way](), variant, q, k, v)
            if "stock" in wrong and wrong[way] > max(FACTOR * wrong["stock"], LEAST):
                raise ArithmeticError(f"wrong result: {wrong[way]:.2e}, stock has {wrong['stock']:.2e}")
        except Exception as error:
            functions.pop(way, None)
            errors[way] = describe(error)
    timings: dict[str, Timing] = {}
    if job["timed"] and job["device"] == "cuda":
        timings, failed = time_round_robin(functions, rounds=20)
        errors |= failed
    return {
        "status": "ok",
        "ms": {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()},
        "wrong": wrong,
        "errors": errors,
        "said": said,
        "flop": 4.0 * sizes["B"] * sizes["H"] * sizes["D"] * pairs_of(variant, sizes["S"], job["device"]),
    }


def compile_one(
    name: str, variant: Variant, options: dict[str, Any] | None, inputs: tuple[Any, Any, Any], kernel_options: Any
) -> tuple[Callable[[], Any], list[str]]:
    """The compiled function on its inputs, and the remarks of Tawa during the compile. options: of `tawa.install`.

    Tawa stays installed.
    """
    import torch
    from torch._inductor.codecache import PyCodeCache
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    import tawa

    q, k, v = inputs
    length = q.shape[2]
    block_mask = None
    if variant.mask is not None:
        block_mask = create_block_mask(variant.mask, None, None, length, length, device=str(q.device))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=variant.score, block_mask=block_mask, kernel_options=kernel_options)

    own = own_function(attend, f"attend_{name}")
    if options is not None:
        tawa.install(**options)
    PyCodeCache.cache_clear()
    with remarks() as said, torch.no_grad():
        compiled = torch.compile(own, dynamic=False, fullgraph=True)
        compiled(q, k, v)

    def run() -> Any:
        with torch.no_grad():
            return compiled(q, k, v)

    return run, said


@contextmanager
def remarks() -> Iterator[list[str]]:
    """The messages of the logger ``tawa`` inside the block, as a list."""
    said: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage()[:300])

    logger, handler = logging.getLogger("tawa"), Keeper()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def error_of(got: Any, variant: Variant, q: Any, k: Any, v: Any) -> float:
    """The largest error of some heads against float32, relative to the largest value."""
    import torch

    worst = 0.0
    rows = torch.arange(q.shape[2], device=q.device)
    for b, h in CHECKED_HEADS:
        b, h = b % q.shape[0], h % q.shape[1]
        s = q[b, h].float() @ k[b, h].float().t() * q.shape[3] ** -0.5
        if variant.score is not None:
            s = variant.score(s, b, h, rows[:, None], rows[None, :])
        if variant.mask is not None:
            s = s.masked_fill(~variant.mask(b, h, rows[:, None], rows[None, :]), float("-inf"))
        exact = torch.softmax(s, dim=1) @ v[b, h].float()
        error = float((got[b, h].float() - exact).abs().max() / exact.abs().max())
        worst = max(worst, error if error == error else float("inf"))
    return worst


def pairs_of(variant: Variant, length: int, device: str) -> float:
    """How many pairs of query and key are not masked."""
    import torch

    if variant.mask is None:
        return float(length * length)
    rows = torch.arange(length, device=device)
    return float(variant.mask(0, 0, rows[:, None], rows[None, :]).sum())


# --- the parent's side ---


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one form."""
    about = {"variant": job["variant"], **job["sizes"], "kernel_options": job["kernel_options"]}
    if answer["status"] != "ok":
        return [Row(about, "Tawa", error=f"{answer['status']}: {answer.get('message', '')}")]
    rows: list[Row] = []
    for way in WAYS:
        case = {**about, "said": answer["said"].get(way, [])}
        if way in answer["ms"]:
            rows.append(Row.timed(case, way, Timing(*answer["ms"][way]), answer["flop"], answer["wrong"].get(way)))
        else:
            rows.append(Row(case, way, error=answer["errors"].get(way) or answer["wrong"].get(way)))
    return rows


def print_wanted(rows: list[Row], wanted: dict[str, float]) -> bool:
    """Prints the ratios as a table; returns whether all wanted ones are reached."""
    reached = True
    print(f"\n{'attention':12} {'stock':>9} {'Tawa':>9} {'legal':>9}  Tawa/stock  wanted")
    for name, least in wanted.items():
        rates = {row.candidate: row.tflops for row in rows if row.tflops and row.case["variant"] == name}
        stock, ours = rates.get("stock"), rates.get("Tawa")
        ratio = ours / stock if ours and stock else 0.0
        reached &= ratio >= least
        texts = [f"{rates[way]:9.1f}" if way in rates else f"{'-':>9}" for way in WAYS]
        verdict = ("pass" if ratio >= least else "FAIL") if least else ""
        print(f"{name:12} {' '.join(texts)}  {ratio:10.3f}  {least or '':>6}  {verdict}")
    return reached


def main() -> int:
    """Runs the forms asked for."""
    names = ("full", "causal", "window", "documents", "distance")
    parser = arguments_for(__doc__, names, minutes=5.0)
    parser.add_argument("--tma", action="store_true", help="with FlexAttention's option USE_TMA")
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    chosen, start = arguments.only or list(names), time.monotonic()
    name = "_".join(["flex", *(["tma"] if arguments.tma else []), *(chosen if arguments.only else [])])
    report = Report(name)
    sizes = SIZES if arguments.device == "cuda" else {"B": 1, "H": 2, "S": 256, "D": 32}
    options = {"USE_TMA": True} if arguments.tma else None

    def take(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        if job["timed"] or answer["status"] != "ok":
            report.add(*rows)
        for row in rows:
            print(f"  {job['variant']:10} {row.candidate:22} {row.median_ms or '':>9} ms  {row.error}", flush=True)
            for text in row.case.get("said", []):
                print(f"      {text[:160]}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tawa-flex-") as folder:
        common = {"sizes": sizes, "device": arguments.device, "kernel_options": options}
        jobs = [{"variant": it, "timed": False, "caches": os.path.join(folder, it), **common} for it in chosen]
        end = start + arguments.minutes * 60
        run_jobs("bench.attention.flex", jobs, take, arguments.processes, LIMIT_S, end)
        # One at a time, each in a fresh process: a form must not find kernels that another has compiled.
        for job in jobs:
            run_jobs("bench.attention.flex", [{**job, "timed": True}], take, 1, LIMIT_S, end)
    report.note_clocks() if arguments.device == "cuda" else None
    wanted = {name: it.wanted for name, it in variants(sizes["S"], "cpu").items() if name in chosen}
    reached = print_wanted(report.rows, wanted)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
