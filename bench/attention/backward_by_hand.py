"""Times attention backward for d = 256 by hand: ``python -m bench.attention.backward_by_hand [--names TEXT]``.

The kernels of `bench.peers.gluon_attention_backward`, beside the operator, whose plain kernel has the same form, and
cuDNN, on problems of `bench.attention.backward`, compared and timed as there. ``--compile`` only compiles them, on
any machine, into ``build/attention_backward_by_hand``; a run compiles what is not there before it begins. Results:
``bench/results/attention_backward_by_hand.json``.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

from bench.attention.backward import PROBLEMS, STALL_S, Problem, excess, make_calls, make_tensors
from bench.compiled import use_caches
from bench.harness import ROOT, Report, Row, finite, judge, time_round_robin, watchdog

CACHES = ROOT / "build" / "attention_backward_by_hand"
NAMED = {str(it): it for it in PROBLEMS if it.d == 256}
USUAL = ("S4096",)
RIVALS = ("Tawa", "cuDNN", "CuTe")
MODULE = "bench.attention.backward_by_hand"


def by_hand(problem: Problem, tensors: tuple[Any, ...], names: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Those by hand that are asked for; each returns dQ, dK and dV."""
    from bench.peers.gluon_attention_backward import prepare
    from tawa.ops import attention

    q, k, v, do = (it.detach() for it in tensors)
    o, lse = attention(q, k, v, causal=problem.causal, return_lse=True)
    lse *= math.log2(math.e)
    given = q, k, v, o, do, lse, problem.causal
    return {name: prepare(*given, variants_for(problem)[name])[0] for name in names}


def variants_for(problem: Problem) -> dict[str, Any]:
    """Those that a problem has, by name."""
    from bench.peers.gluon_attention_backward import VARIANTS

    return {name: variant for name, variant in VARIANTS.items() if not (problem.causal and variant.turn)}


def compile_one(problem: Problem, name: str) -> None:
    """Compiles the kernels of a variant; asks for no GPU."""
    from bench.corpus.without_gpu import pretend

    pretend()
    import torch

    from bench.peers.gluon_attention_backward import prepare

    tile = torch.empty((1, 1, problem.S, problem.d), dtype=torch.bfloat16)
    lse = torch.empty((1, 1, problem.S))
    tensors = *[tile] * 5, lse, problem.causal
    prepare(*tensors, variants_for(problem)[name])[1]()


def names_for(problem: Problem, among: Sequence[str]) -> list[str]:
    """The variants of a problem whose names contain one of these texts; all of them if there are none."""
    return [it for it in variants_for(problem) if not among or any(text in it for text in among)]


def compile_all(problems: list[Problem], among: Sequence[str]) -> None:
    """`compile_one` in processes side by side, once for all lengths."""
    kinds = {problem.causal: problem for problem in problems}.values()
    jobs = [(problem, name) for problem in kinds for name in names_for(problem, among)]

    def apart(job: tuple[Problem, str]) -> None:
        subprocess.run([sys.executable, "-m", MODULE, "--compile-one", *map(str, job)], cwd=ROOT, check=True)

    with ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        list(pool.map(apart, jobs))


def timed(problem: Problem, names: Sequence[str]) -> list[Row]:
    """The rows of one problem."""
    about = {**asdict(problem), "dtype": "bf16"}
    tensors = make_tensors(problem)
    calls = {name: it for name, it in make_calls(problem, tensors).items() if name in RIVALS}
    calls |= by_hand(problem, tensors, names)

    def worst(name: str, first: Any) -> float:
        found = excess(problem, tensors, first)
        for one in first:
            one.fill_(math.nan)
        return max(found, excess(problem, tensors, calls[name]()))

    fit, errors, rows = judge(calls, worst, about)
    timings, failures = time_round_robin(fit, rounds=12, graphs=False)
    rows += [Row.timed(about, name, it, problem.flop, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in failures.items()]


def main() -> int:
    """Times the problems asked for; returns 1 if a kernel by hand was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--only", nargs="+", default=USUAL, metavar="TEXT", help=f"of names such as {next(iter(NAMED))}"
    )
    parser.add_argument("--names", nargs="+", default=(), metavar="TEXT", help="candidates, by a part of their names")
    parser.add_argument("--compile", action="store_true", help="compile what a run needs, on any machine")
    parser.add_argument("--compile-one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    use_caches(str(CACHES))
    if arguments.compile_one:
        problem, name = arguments.compile_one
        compile_one(NAMED[problem], name)
        return 0
    problems = [it for name, it in NAMED.items() if any(text in name for text in arguments.only)]
    compile_all(problems, arguments.names)
    if arguments.compile:
        return 0
    report, sound = Report("attention_backward_by_hand"), True
    for problem in problems:
        with watchdog(STALL_S, str(problem)):
            rows = timed(problem, names_for(problem, arguments.names))
        report.add(*rows)
        print(problem, flush=True)
        for row in rows:
            said = row.error if row.tflops is None else f"{row.tflops:.0f} TFLOP/s, {row.error} of the allowed error"
            print(f"    {row.candidate}: {said}", flush=True)
            sound = sound and (row.candidate == "cuDNN" or row.tflops is not None)
    report.note_clocks()
    report.save()
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
