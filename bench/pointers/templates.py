"""Checks and times Inductor's matmul templates, with and without Tawa: ``python -m bench.pointers.templates``.

``torch.compile(mode="max-autotune-no-cudagraphs")`` with Triton as the only choice: a plain product, one with bias and
activation, a batch, the persistent template that loads by TMA, scaled fp8, groups, and int8 weights that are cast
before the product. Inductor compiles in worker processes.

Each form runs in three processes, one after the other:

1. *cold*: Inductor's and Triton's caches on disk are empty; compiles stock, then with Tawa, then stock again;
2. *warm*: uses the caches of the first process;
3. *timed*: Inductor's caches are empty again, so that it tunes its configurations anew, alone on the GPU; both ways are
   timed round-robin.

The first two steps of all forms run in parallel. In each, results are compared with float64 on random rows, and
`tawa.report` must say that the kernels were Tawa's while it was installed, and only then.

Results: ``bench/results/templates.json``, or ``templates_NAME.json`` with ``--only``.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.compiled import arguments_for, own_function, use_caches
from bench.harness import Report, Row, Timing, describe, time_round_robin
from bench.workers import Answer, Job, run_jobs, serve_jobs

SIZE = 4096
GROUPS = 8
ROWS = 64
TOLERANCE = 2.0  # times the error of PyTorch without a compiler
LEAST = 4e-3  # of the largest value: the error of rounding to bf16
LIMIT_S = 280.0


@dataclass(frozen=True, slots=True)
class Form:
    """One product. make: size, device → the tensors; run: what is compiled; exact: chosen rows in float64."""

    make: Callable[[int, str], dict[str, Any]]
    run: Callable[..., Any]
    exact: Callable[[dict[str, Any], Any], Any]
    config: dict[str, Any]
    dtype: str = "bf16"


def forms() -> dict[str, Form]:
    """All forms by name."""
    import torch

    persistent = {"triton.enable_persistent_tma_matmul": True}

    def random(*shape: int, device: str, dtype: Any = torch.bfloat16) -> Any:
        return torch.randn(shape, device=device).to(dtype)

    def plain(n: int, device: str) -> dict[str, Any]:
        return {"a": random(n, n, device=device), "b": random(n, n, device=device)}

    def with_bias(n: int, device: str) -> dict[str, Any]:
        return {**plain(n, device), "bias": random(n, device=device)}

    def batched(n: int, device: str) -> dict[str, Any]:
        half = n // 2
        return {"a": random(8, half, half, device=device), "b": random(8, half, half, device=device)}

    def scaled(n: int, device: str) -> dict[str, Any]:
        e4m3 = torch.float8_e4m3fn
        a, b = random(n, n, device=device, dtype=e4m3), random(n, n, device=device, dtype=e4m3)
        scale = torch.tensor(0.5, device=device)
        return {"a": a, "b": b.t(), "scale_a": scale, "scale_b": scale.clone()}

    def grouped(n: int, device: str) -> dict[str, Any]:
        ends = torch.linspace(0, n, GROUPS + 1)[1:].to(torch.int32).to(device)
        experts = random(GROUPS, n // 2, n, device=device).transpose(1, 2)
        return {"a": random(n, n, device=device), "b": experts, "ends": ends}

    def weights(n: int, device: str) -> dict[str, Any]:
        return {"a": random(n, n, device=device), "b": torch.randint(-128, 128, (n, n), device=device).to(torch.int8)}

    def product(t: dict[str, Any], rows: Any) -> Any:
        return t["a"][rows].double() @ t["b"].double()

    def grouped_product(t: dict[str, Any], rows: Any) -> Any:
        group = torch.searchsorted(t["ends"].to(rows.dtype), rows, right=True)
        return torch.stack([t["a"][row].double() @ t["b"][g].double() for row, g in zip(rows, group, strict=True)])

    return {
        "mm": Form(plain, lambda a, b: a @ b, product, {}),
        "addmm_relu": Form(
            with_bias,
            lambda a, b, bias: torch.relu(torch.addmm(bias, a, b)),
            lambda t, rows: torch.relu(product(t, rows) + t["bias"].double()),
            {},
        ),
        "bmm": Form(batched, lambda a, b: a @ b, lambda t, rows: t["a"][:, rows].double() @ t["b"].double(), {}),
        "persistent": Form(plain, lambda a, b: a @ b, product, persistent),
        "scaled": Form(
            scaled,
            lambda a, b, scale_a, scale_b: torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16),
            lambda t, rows: product(t, rows) * 0.25,
            persistent,
            "fp8e4nv",
        ),
        "grouped": Form(
            grouped, lambda a, b, ends: torch._grouped_mm(a, b, offs=ends), grouped_product, persistent
        ),
        "weights": Form(weights, lambda a, b: a @ b.to(torch.bfloat16), product, {}, "bf16 x int8"),
    }  # fmt: skip


NAMES = ("mm", "addmm_relu", "bmm", "persistent", "scaled", "grouped", "weights")


# --- the worker's side ---


def handle(job: Job) -> Answer:
    """One process of one form: compiles, checks, and (the last one) times."""
    use_caches(job["caches"], "inductor_timed" if job["stage"] == "timed" else "inductor")
    import torch
    from torch._inductor import config

    import tawa

    form = forms()[job["form"]]
    torch.manual_seed(time.time_ns() % 2**31)
    tensors = form.make(job["size"], job["device"])
    options = {"max_autotune_gemm_backends": "TRITON", **form.config} if job["device"] == "cuda" else {}
    functions: dict[str, Callable[[], Any]] = {}
    seconds: dict[str, float] = {}
    seen: dict[str, list[str]] = {}
    wrong: dict[str, float] = {}
    errors: dict[str, str] = {}
    with torch.no_grad(), config.patch(options):
        plain_error = error_of(form, tensors, form.run(**tensors))
        for way in ("stock", "Tawa", *(["stock again"] if job["stage"] == "cold" else [])):
            if way == "Tawa":
                tawa.install(start="ready")
            before, start = known_versions(tawa), time.monotonic()
            try:
                functions[way] = compile_one(form, way, tensors)
                wrong[way] = error_of(form, tensors, functions[way]())
                if wrong[way] > max(TOLERANCE * plain_error, LEAST):
                    raise ArithmeticError(f"wrong result: {wrong[way]:.2e}, PyTorch has {plain_error:.2e}")
            except Exception as error:
                functions.pop(way, None)
                errors[way] = describe(error)
            seconds[way] = round(time.monotonic() - start, 1)
            seen[way] = sorted(known_versions(tawa) - before)
            if way == "Tawa":
                tawa.uninstall()
        timings: dict[str, Timing] = {}
        if job["stage"] == "timed" and job["device"] == "cuda":
            timings, failed = time_round_robin(functions)
            errors |= failed
    if job["device"] == "cuda":
        errors |= stale(seen)
    return {
        "status": "ok",
        "ms": {way: [it.median_ms, it.p10_ms, it.p90_ms] for way, it in timings.items()},
        "wrong": wrong,
        "errors": errors,
        "seconds": seconds,
        "seen": seen,
        "flop": flop_of(job["form"], job["size"]),
    }


def compile_one(form: Form, way: str, tensors: dict[str, Any]) -> Callable[[], Any]:
    """The compiled function on its tensors."""
    import torch

    own = own_function(form.run, f"product_{way.replace(' ', '_')}")
    compiled = torch.compile(own, mode="max-autotune-no-cudagraphs", dynamic=False, fullgraph=True)
    values = list(tensors.values())
    compiled(*values)

    def run() -> Any:
        with torch.no_grad():
            return compiled(*values)

    return run


def known_versions(tawa: Any) -> set[str]:
    """Every compiled kernel that Tawa has seen in this process, with its verdict."""
    return {
        f"{kernel.name}: {'specialised' if verdict.applied else verdict.reason} ({verdict.versions})"
        for kernel in tawa.report().kernels
        for verdict in kernel.verdicts
    }


def stale(seen: dict[str, list[str]]) -> dict[str, str]:
    """Ways in which other kernels ran than should have: stale ones from a cache."""
    wrong = {way: "Tawa saw kernels that it was not installed for" for way in seen if way != "Tawa" and seen[way]}
    if not seen.get("Tawa"):
        wrong["Tawa"] = "no kernel came to Tawa: what ran was an earlier one"
    return wrong


def error_of(form: Form, tensors: dict[str, Any], got: Any) -> float:
    """The largest error of some rows against float64, relative to the largest value."""
    import torch

    rows = torch.randint(0, got.shape[-2], (ROWS,), device=got.device)
    exact = form.exact(tensors, rows)
    error = float((got[..., rows, :].double() - exact).abs().max() / exact.abs().max())
    return error if error == error else float("inf")


def flop_of(form: str, size: int) -> float:
    """Floating-point operations of one run."""
    if form == "bmm":
        return 2.0 * 8 * (size // 2) ** 3
    if form == "grouped":
        return 2.0 * size * size * (size // 2)
    return 2.0 * size**3


# --- the parent's side ---


def rows_of(job: Job, answer: Answer) -> list[Row]:
    """The rows of one process."""
    about = {"form": job["form"], "size": job["size"], "stage": job["stage"]}
    if answer["status"] != "ok":
        return [Row(about, "Tawa", error=f"{answer['status']}: {answer.get('message', '')}")]
    rows: list[Row] = []
    for way, seconds in answer["seconds"].items():
        case = {**about, "compile_s": seconds, "kernels": answer["seen"][way]}
        error = answer["errors"].get(way) or answer["wrong"].get(way)
        if way in answer["ms"] and not isinstance(error, str):
            rows.append(Row.timed(case, way, Timing(*answer["ms"][way]), answer["flop"], error))
        else:
            rows.append(Row(case, way, error=error))
    return rows


def print_table(rows: list[Row]) -> None:
    """Prints the speed-up of each form."""
    print(f"\n{'form':12} {'stock':>9} {'Tawa':>9}  Tawa/stock")
    for name in dict.fromkeys(row.case["form"] for row in rows):
        rates = {row.candidate: row.tflops for row in rows if row.tflops and row.case["form"] == name}
        stock, ours = rates.get("stock"), rates.get("Tawa")
        if stock and ours:
            print(f"{name:12} {stock:9.1f} {ours:9.1f}  {ours / stock:10.3f}")


def main() -> int:
    """Runs the forms asked for. Exit status 1: a result was wrong or stale, or a process failed."""
    arguments = arguments_for(__doc__, NAMES, minutes=8.0).parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    chosen, start = arguments.only or list(NAMES), time.monotonic()
    report = Report("_".join(["templates", *(chosen if arguments.only else [])]))

    def take(job: Job, answer: Answer) -> None:
        rows = rows_of(job, answer)
        report.add(*rows)
        for row in rows:
            case = row.case
            print(f"  {case['form']:10} {case['stage']:5} {row.candidate:12} {row.median_ms or '':>9} ms  "
                  f"compiled in {case.get('compile_s')} s  {row.error}", flush=True)  # fmt: skip
            for text in case.get("kernels", []):
                print(f"      {text[:160]}", flush=True)

    with tempfile.TemporaryDirectory(prefix="tawa-templates-") as folder:
        size = SIZE if arguments.device == "cuda" else 64
        common = {"size": size, "device": arguments.device}
        jobs = [{"form": form, "caches": os.path.join(folder, form), **common} for form in chosen]
        end = start + arguments.minutes * 60
        for stage in ("cold", "warm"):
            staged = [{**job, "stage": stage} for job in jobs]
            run_jobs("bench.pointers.templates", staged, take, arguments.processes, LIMIT_S, end)
        for job in jobs:
            run_jobs("bench.pointers.templates", [{**job, "stage": "timed"}], take, 1, LIMIT_S, end)
    if arguments.device == "cuda":
        report.note_clocks()
    print_table(report.rows)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 1 if any(isinstance(row.error, str) for row in report.rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
