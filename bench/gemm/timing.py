"""Times GEMM, 8192 x 8192 x K: ``python -m bench.gemm [--family NAME] [--ks 256,1024] [--minutes 9]``.

Candidates: cuBLAS; stock Triton, best of its configurations (which may be another kernel or tile than Tawa's best);
stock Triton with the configuration that Tawa is timed with; the same unmodified kernels through Tawa; the hand-written
Gluon kernel.

1. Every configuration is compiled, run and checked on a small problem in its own process under a watchdog. Those that
   fail or hang are excluded, with the reason on record. This also fills Triton's cache on disk.
2. For each K the configurations of each candidate are timed quickly, and the best is kept.
3. The winners run round-robin (`bench.harness.time_round_robin`). Only these times are reported.

Results: ``bench/results/gemm.json``, or ``gemm_FAMILY.json`` with ``--family``; and a table of the wanted ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.gemm.candidates import (
    Configuration,
    Family,
    cublas_calls,
    families,
    make_call,
    make_operands,
    sampled_error,
)
from bench.harness import Report, Row, describe, finite, time_round_robin, watchdog
from bench.workers import Answer, Job, run_jobs, serve_jobs

M = N = 8192
CHECKED = (4096, 4096, 512)  # M, N, K of the small problem: several waves of a persistent kernel
STALL_S = 150.0
KS = (256, 512, 1024, 2048, 4096, 8192, 16384)
NAMES = {"stock": "stock Triton", "tawa": "Tawa", "converter": "Tawa with a converter", "gluon": "Gluon by hand"}
TWIN = "stock Triton, same configuration"
LARGEST_ERROR = {"fp16": 2e-3, "fp8": 4e-3}  # a rounding to fp16 is 5e-4; fp8 sums keep 14 bits


@dataclass(frozen=True, slots=True)
class Wanted:
    """A ratio of rates that should be reached: Tawa over `peer`, for K in [least, most]."""

    family: str
    peer: str
    ratio: float
    least: int = 0
    most: int = 1 << 30


WANTED = (
    Wanted("tile_nt", "stock Triton", 1.15, least=1024),
    Wanted("tile_nt", TWIN, 1.15, least=1024),
    Wanted("tile_nn", "stock Triton", 1.00),
    Wanted("persistent_fp16", "cuBLAS", 1.00, least=2048),
    Wanted("persistent_fp16", "cuBLAS", 0.93, most=512),
    Wanted("persistent_fp16", "Gluon by hand", 0.99),
    Wanted("persistent_fp8", "cuBLAS", 1.00, least=4096),
    Wanted("persistent_fp8", "stock Triton", 1.18),
    Wanted("persistent_fp8", TWIN, 1.18),
)


# --- checking configurations in other processes ---


def handle(job: Job) -> Answer:
    """Compiles, runs and checks one configuration on a small problem."""
    import torch

    configuration = Configuration(**job["configuration"])
    operands = make_operands(job["dtype"], job["b_t"], *CHECKED)
    compiled = make_call(configuration, operands)()
    torch.cuda.synchronize()
    error = sampled_error(operands, rows=512)
    if error > LARGEST_ERROR[job["dtype"]]:
        return {"status": "failed", "message": f"wrong result: relative error {error:.2e}"}
    usage = {name: getattr(compiled, name, None) for name in ("n_regs", "n_spills")}
    return {"status": "ok", "shared": getattr(getattr(compiled, "metadata", None), "shared", None), **usage}


def check_all(family: Family, processes: int) -> tuple[dict[Configuration, Answer], dict[Configuration, str]]:
    """The configurations that passed, and those that did not with the reason."""
    jobs = [{"configuration": c.to_json(), "dtype": family.dtype, "b_t": family.b_t} for c in family.configurations]
    fit: dict[Configuration, Answer] = {}
    unfit: dict[Configuration, str] = {}

    def take(job: Job, answer: Answer) -> None:
        configuration = Configuration(**job["configuration"])
        if answer["status"] == "ok":
            fit[configuration] = answer
        else:
            unfit[configuration] = f"{answer['status']}: {answer.get('message', '')}"
            print(f"  out: {configuration.label}: {unfit[configuration]}", flush=True)

    run_jobs("bench.gemm", jobs, take, processes, limit_s=60)
    return {c: fit[c] for c in family.configurations if c in fit}, unfit


# --- timing ---


def bench_family(family: Family, ks: tuple[int, ...], report: Report, processes: int, deadline: float) -> None:
    """Checks, tunes and times one family."""
    print(f"{family.name}: {family.title}", flush=True)
    fit, unfit = check_all(family, processes)
    about = {"family": family.name, "dtype": family.dtype, "b_transposed": family.b_t}
    report.add(*(Row({**about, "configuration": c.label}, NAMES[c.kind], error=text) for c, text in unfit.items()))
    for k in ks:
        if time.monotonic() > deadline:
            report.add(Row({**about, "M": M, "N": N, "K": k}, "Tawa", error="skipped: out of time"))
            continue
        try:
            with watchdog(STALL_S, f"{family.name} K={k}"):
                report.add(*bench_problem(family, fit, k, about))
            report.note_clocks()
        except Exception as error:
            report.add(Row({**about, "M": M, "N": N, "K": k}, "Tawa", error=describe(error)))
            print(f"  K={k}: {describe(error)}", flush=True)


def bench_problem(family: Family, fit: Mapping[Configuration, Answer], k: int, about: Mapping[str, Any]) -> list[Row]:
    """Rows of one K: each candidate with its best configuration."""
    import torch

    operands = make_operands(family.dtype, family.b_t, M, N, k)
    case = {**about, "M": M, "N": N, "K": k}
    flop = 2.0 * M * N * k
    calls = {c.label: make_call(c, operands) for c in fit}
    quick, errors = time_round_robin(calls, rounds=5, burst_ms=3.0, rest_s=0.005)
    for label, text in errors.items():
        print(f"  K={k}: {label}: {text}", flush=True)
    winners: dict[str, Configuration] = {}
    for kind, name in NAMES.items():
        timed = [c for c in fit if c.kind == kind and c.label in quick]
        if timed:
            winners[name] = min(timed, key=lambda c: quick[c.label].median_ms)
    twin = same_configuration(winners.get(NAMES["tawa"]), [c for c in fit if c.label in quick])
    if twin:
        winners[TWIN] = twin
    finals = {**cublas_calls(operands), **{name: calls[c.label] for name, c in winners.items()}}
    wrong = {}
    for name, call in finals.items():
        operands.c.fill_(float("nan"))
        try:
            call()
            torch.cuda.synchronize()
            wrong[name] = sampled_error(operands)
        except Exception as error:
            print(f"  K={k}: {name}: {describe(error)}", flush=True)
    finals = {name: call for name, call in finals.items() if name in wrong}
    timings, errors = time_round_robin(finals)
    rows = []
    for name, timing in timings.items():
        used = {}
        if name in winners:
            usage = fit[winners[name]]
            used = {"configuration": winners[name].label, "registers": usage["n_regs"], "spills": usage["n_spills"]}
        rows.append(Row.timed({**case, **used}, name, timing, flop, finite(wrong[name])))
    rows.extend(Row(case, name, error=text) for name, text in errors.items())
    line = "  ".join(f"{row.candidate} {row.tflops}" for row in rows if row.tflops)
    print(f"  K={k:6}: {line}   [{winners['Tawa'].label if 'Tawa' in winners else 'no Tawa'}]", flush=True)
    return rows


def same_configuration(tawa: Configuration | None, timed: list[Configuration]) -> Configuration | None:
    """Stock Triton on the kernel, tile and warps with which Tawa is timed; `num_stages` is D or the nearest."""
    if tawa is None:
        return None
    alike = [
        c
        for c in timed
        if c.kind == "stock"
        and (c.kernel, c.BM, c.BN, c.BK, c.num_warps, c.programs, c.flatten)
        == (tawa.kernel, tawa.BM, tawa.BN, tawa.BK, tawa.num_warps, tawa.programs, tawa.flatten)
    ]
    return min(alike, key=lambda c: abs(c.num_stages - tawa.D), default=None)


def print_wanted(rows: list[Row]) -> bool:
    """Prints the wanted ratios as a table; returns whether all are reached."""
    rates = {(row.case["family"], row.case["K"], row.candidate): row.tflops for row in rows if row.tflops}
    reached = True
    print(f"\n{'family':18} {'K':>6}  {'ratio':34} {'is':>6} {'wanted':>7}")
    for wanted in WANTED:
        for family, k, candidate in sorted(rates):
            if candidate != "Tawa" or family != wanted.family or not wanted.least <= k <= wanted.most:
                continue
            peer = rates.get((family, k, wanted.peer))
            if not peer:
                continue
            ratio = (rates[family, k, "Tawa"] or 0) / peer
            reached &= ratio >= wanted.ratio
            verdict = "pass" if ratio >= wanted.ratio else "FAIL"
            print(f"{family:18} {k:6}  {'Tawa / ' + wanted.peer:34} {ratio:6.3f} {wanted.ratio:7.2f}  {verdict}")
    spilling = sorted({row.case["configuration"] for row in rows if row.candidate == "Tawa" and row.case.get("spills")})
    if spilling:
        print("spills: " + ", ".join(spilling))
    return reached and not spilling


def main() -> int:
    """Runs the families asked for."""
    known = families()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=sorted(known), action="append", help="only this one (may be repeated)")
    parser.add_argument("--ks", default=",".join(map(str, KS)))
    parser.add_argument("--minutes", type=float, default=9.0, help="begin no K after so many minutes")
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    start = time.monotonic()
    chosen = arguments.family or list(known)
    report = Report("gemm" if len(chosen) > 1 else f"gemm_{chosen[0]}")
    ks = tuple(int(k) for k in arguments.ks.split(","))
    for name in chosen:
        bench_family(known[name], ks, report, arguments.processes, start + arguments.minutes * 60)
    reached = print_wanted(report.rows)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0 if reached else 1
