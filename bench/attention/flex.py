"""Times FlexAttention under torch.compile, stock and with ``tawa.install()``: ``python -m bench.attention.flex``.

B=4 H=16 S=4096 d=128 bf16: full, causal, a sliding window, documents, a bias that grows with distance (ALiBi), and a
soft cap; each forward, and backward (the gradients of q, k and v, from the result of the forward kernel). Each form
runs in two processes of its own under a watchdog (`bench.workers`). The first starts with empty caches, compiles a
function for each way (stock; Tawa with specialised kernels from the first launch; Tawa as installed, whose launches
learn) and checks some heads against float32; the first processes of all forms run in parallel. The second has warm
caches, checks again, launches until nothing is left to learn, and times all ways round-robin; the second processes run
one at a time. The remarks of Tawa during the compiles are kept with the row.

Results: ``bench/results/flex.json``, or ``flex_NAME.json`` with ``--only``; and a table of the wanted ratios.
"""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from bench.compiled import arguments_for, learned, own_function, use_caches
from bench.harness import Report, Row, Timing, describe, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

SIZES = {"B": 4, "H": 16, "S": 4096, "D": 128}
WAYS: dict[str, dict[str, Any] | None] = {
    "stock": None,
    "Tawa, at once": {"start": "ready"},
    "Tawa": {},
}
DIRECTIONS = {"": 2.0, ", backward": 5.0}
"""What is added to the name of a form, and the number of its dots."""
WINDOW, CAP = 512, 20.0
CHECKED_HEADS = ((0, 0), (1, 7), (3, 15))
FACTOR = 2.0
LEAST = 2e-3  # of the largest value: a rounding to bf16 is 4e-3 of the value itself
LIMIT_S = 170.0


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of attention; wanted, backward: Tawa's least rate over stock's, forward and backward."""

    mask: Callable[..., Any] | None = None
    score: Callable[..., Any] | None = None
    wanted: float = 0.0
    backward: float = 0.98


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
        return score - (q - k).abs() * torch.exp2(-0.5 * (h + 1))

    def capped(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
        return CAP * torch.tanh(score / CAP)

    return {
        "full": Variant(wanted=1.35),
        "causal": Variant(causal, wanted=1.35),
        "window": Variant(window, wanted=1.10),
        "documents": Variant(documents, wanted=1.10),
        "distance": Variant(score=distance, wanted=1.10),
        "cap": Variant(score=capped, wanted=0.98),
    }


# --- the worker's side ---


def handle(job: Job) -> Answer:
    """Compiles and checks one form in every way; times it if the job asks."""
    use_caches(job["caches"])
    import torch

    import tawa

    sizes, variant = job["sizes"], variants(job["sizes"]["S"], job["device"])[job["variant"]]
    shape = tuple(sizes[name] for name in "BHSD")
    generator = torch.Generator(device=job["device"]).manual_seed(0)
    inputs = [torch.randn(shape, generator=generator, device=job["device"], dtype=torch.bfloat16) for _ in range(4)]
    functions: dict[str, dict[str, Callable[[], Any]]] = {direction: {} for direction in DIRECTIONS}
    answer: Answer = {"status": "ok", "pairs": pairs_of(variant, sizes["S"], job["device"])}
    answer |= {direction: {"ms": {}, "wrong": {}, "errors": {}, "said": {}} for direction in DIRECTIONS}
    for count, (way, options) in enumerate(WAYS.items()):
        made: dict[str, Callable[[], Any]] = {}
        try:
            made = compile_one(f"{job['variant']}_{count}", variant, options, inputs, job["kernel_options"])
        except Exception as error:
            for direction in DIRECTIONS:
                answer[direction]["errors"][way] = describe(error)
        for direction, run in made.items():
            found = answer[direction]
            try:
                with remarks() as said:
                    got = run()
                found["said"][way] = said
                found["wrong"][way] = wrong = error_of(got, variant, inputs)
                if way == "Tawa" and job["timed"]:
                    tawa.warmup(run)
                    found["learned"] = learned()["reason"]
                if "stock" in found["wrong"] and wrong > max(FACTOR * found["wrong"]["stock"], LEAST):
                    raise ArithmeticError(f"wrong result: {wrong:.2e}, stock has {found['wrong']['stock']:.2e}")
                functions[direction][way] = run
            except Exception as error:
                found["errors"][way] = describe(error)
    if job["timed"] and job["device"] == "cuda":
        for direction in DIRECTIONS:
            timings, failed = time_round_robin(functions[direction], rounds=20)
            answer[direction]["ms"] = {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()}
            answer[direction]["errors"] |= failed
    return answer


def compile_one(
    name: str, variant: Variant, options: dict[str, Any] | None, inputs: Sequence[Any], kernel_options: Any
) -> dict[str, Callable[[], Any]]:
    """The function of each direction, compiled where it is first called. options: of `tawa.install`.

    inputs: q, k, v, and the gradient of the result. Tawa stays installed.
    """
    import torch
    from torch._functorch import config
    from torch._inductor.codecache import PyCodeCache
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    import tawa

    *operands, gradient = inputs
    length = gradient.shape[2]
    block_mask = None
    if variant.mask is not None:
        block_mask = create_block_mask(variant.mask, None, None, length, length, device=str(gradient.device))

    def attend(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, score_mod=variant.score, block_mask=block_mask, kernel_options=kernel_options)

    if options is not None:
        tawa.install(**options)
    PyCodeCache.cache_clear()
    config.donated_buffer = False  # the backward kernel runs repeatedly after one forward kernel
    compiled = torch.compile(own_function(attend, f"attend_{name}"), dynamic=False, fullgraph=True)

    def forward() -> Any:
        with torch.no_grad():
            return (compiled(*operands),)

    made = {"": forward}
    if gradient.is_cuda:
        leaves = [it.detach().requires_grad_() for it in operands]
        results: list[Any] = []

        def backward() -> Any:
            if not results:
                results.append(compiled(*leaves))
            return torch.autograd.grad(results[0], leaves, gradient, retain_graph=True)

        made[", backward"] = backward
    return made


@contextmanager
def remarks() -> Iterator[list[str]]:
    """The messages of the logger ``tawa`` inside the block, as a list."""
    said: list[str] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(re.sub(r"\S*/", "", record.getMessage()[:300]))  # no folders of this machine

    logger, handler = logging.getLogger("tawa"), Keeper()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield said
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def error_of(got: tuple[Any, ...], variant: Variant, inputs: Sequence[Any]) -> float:
    """The largest error of some heads against float32, relative to the largest value.

    got: the result alone, or the gradients of q, k and v.
    """
    import torch

    worst = 0.0
    rows = torch.arange(inputs[0].shape[2], device=inputs[0].device)
    for b, h in CHECKED_HEADS:
        b, h = b % inputs[0].shape[0], h % inputs[0].shape[1]
        q, k, v, gradient = (it[b, h].float() for it in inputs)
        leaves = [it.requires_grad_(len(got) > 1) for it in (q, k, v)]
        s = q @ k.t() * q.shape[1] ** -0.5
        if variant.score is not None:
            s = variant.score(s, b, torch.tensor(h, device=s.device), rows[:, None], rows[None, :])
        if variant.mask is not None:
            s = s.masked_fill(~variant.mask(b, h, rows[:, None], rows[None, :]), float("-inf"))
        exact = (torch.softmax(s, dim=1) @ v,)
        if len(got) > 1:
            exact = torch.autograd.grad(exact[0], leaves, gradient)
        for one, other in zip(got, exact, strict=True):
            error = float((one[b, h].float() - other).abs().max() / other.abs().max())
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
    for direction, dots in DIRECTIONS.items():
        found = answer[direction]
        flop = 2.0 * dots * job["sizes"]["B"] * job["sizes"]["H"] * job["sizes"]["D"] * answer["pairs"]
        for way in WAYS:
            case = {**about, "variant": job["variant"] + direction, "said": found["said"].get(way, [])}
            case |= {"learned": found["learned"]} if way == "Tawa" and "learned" in found else {}
            if way in found["ms"]:
                rows.append(Row.timed(case, way, Timing(*found["ms"][way]), flop, found["wrong"].get(way)))
            else:
                rows.append(Row(case, way, error=found["errors"].get(way) or found["wrong"].get(way)))
    return rows


def print_wanted(rows: list[Row], wanted: dict[str, float]) -> bool:
    """Prints the ratios as a table; returns whether all wanted ones are reached."""
    reached = True
    print(f"\n{'attention':20} {'stock':>9} {'at once':>9} {'Tawa':>9}  Tawa/stock  wanted")
    for name, least in wanted.items():
        rates = {row.candidate: row.tflops for row in rows if row.tflops and row.case["variant"] == name}
        stock, ours = rates.get("stock"), rates.get("Tawa")
        ratio = ours / stock if ours and stock else 0.0
        reached &= ratio >= least
        texts = [f"{rates[way]:9.1f}" if way in rates else f"{'-':>9}" for way in WAYS]
        verdict = ("pass" if ratio >= least else "FAIL") if least else ""
        print(f"{name:20} {' '.join(texts)}  {ratio:10.3f}  {least or '':>6}  {verdict}")
    return reached


def main() -> int:
    """Runs the forms asked for."""
    names = ("full", "causal", "window", "documents", "distance", "cap")
    parser = arguments_for(__doc__, names, minutes=8.0)
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
            print(f"  {row.case['variant']:19} {row.candidate:22} {row.median_ms or '':>9} ms  {row.error}", flush=True)
            for text in [*row.case.get("said", []), *row.case.get("learned", "").split("; ")]:
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
    wanted: dict[str, float] = {}
    for form in chosen:
        it = variants(sizes["S"], "cpu")[form]
        wanted |= zip((form + direction for direction in DIRECTIONS), (it.wanted, it.backward), strict=True)
    reached = print_wanted(report.rows, wanted)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0 if reached else 1


if __name__ == "__main__":
    raise SystemExit(main())
