"""What each step brings to attention: ``python -m bench.attention --ablation [--report]``.

fp16, d = 128, S = 16384, full and causal, blocks of 128 x 128. The steps are: stock Triton without and with its
software pipeline; specialised with one group that waits for each dot in its own iteration (the schedule of each loop is
pinned to one stage); the coarse-grained pipeline; rows split between two groups; ping-pong on the tensor cores; deeper
rings. Each step adds to the one before, but the last one is without ping-pong. All run round-robin. Writes
``bench/results/attention_ablation.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bench.attention.candidates import Configuration, Judge, Shape, make_call, make_tensors, peer_calls
from bench.attention.report import draw_ablation, print_ablation
from bench.harness import RESULTS, Report, Row, finite, read, time_round_robin, watchdog

NAME = "attention_ablation"
TILE = (128, 128, 8)
S = 16384
STALL_S = 60.0


def steps() -> dict[str, Configuration]:
    """The steps; each adds to the one before."""

    def step(flat: bool = False, **options: Any) -> Configuration:
        pinned = (("enable_warp_specialization", True), *options.items())
        return Configuration("tawa", "two_loops", *TILE, 2, pinned, flat)

    return {
        "no specialisation, no pipeline": Configuration("stock", "two_loops", *TILE, 1),
        "no specialisation": Configuration("stock", "two_loops", *TILE, 2),
        "cooperative, D = 1": step(True, num_consumer_groups=1, aref_depth=1),
        "+ coarse-grained pipeline": step(num_consumer_groups=1, aref_depth=1),
        "+ split rows": step(num_consumer_groups=2, aref_depth=1),
        "+ ping-pong": step(num_consumer_groups=2, aref_depth=1, ping_pong=True),
        "+ D = 2": step(num_consumer_groups=2, aref_depth=2, ping_pong=True),
        "D = 2, without ping-pong": step(num_consumer_groups=2, aref_depth=2),
    }


def run_ablation(processes: int, check_all: Callable[..., Any]) -> int:
    """Checks all steps in other processes, then times them."""
    report, chosen = Report(NAME), steps()
    names = {configuration: name for name, configuration in chosen.items()}
    shapes = [Shape("fp16", 128, causal, S) for causal in (False, True)]
    fit, unfit = check_all({shape: list(chosen.values()) for shape in shapes}, processes)
    for shape in shapes:
        failed = unfit.get(shape, {})
        report.add(*(Row({**shape.about, "step": names[c]}, names[c], error=text) for c, text in failed.items()))
        with watchdog(STALL_S, f"ablation {shape}"):
            report.add(*time_steps(shape, {name: c for name, c in chosen.items() if c in fit.get(shape, {})}))
        report.note_clocks()
    return report_ablation()


def time_steps(shape: Shape, chosen: Mapping[str, Configuration], peers: Sequence[str] = ()) -> list[Row]:
    """Rows of the steps of one problem. peers: names of libraries that are timed beside them, where they can run."""
    tensors = make_tensors(shape)
    calls = {name: make_call(shape, c, tensors) for name, c in chosen.items()}
    calls |= {name: call for name, call in peer_calls(shape, tensors).items() if name in peers}
    judge = Judge(shape, tensors)
    timings, failures = time_round_robin(calls, rounds=10)
    rows = [Row({**shape.about, "step": name}, name, error=text) for name, text in failures.items()]
    for name, timing in timings.items():
        tensors["o"].fill_(float("nan"))
        result = calls[name]()
        error = judge.error(result if hasattr(result, "isnan") else tensors["o"])
        case = {**shape.about, "step": name}
        if name not in chosen:
            rows.append(Row.timed(case, name, timing, shape.flop, finite(error)))
            continue
        case["configuration"] = chosen[name].label
        if error > judge.allowed:
            rows.append(Row(case, name, error=f"wrong result: relative error {error:.2e}"))
        else:
            rows.append(Row.timed(case, name, timing, shape.flop, finite(error)))
    return rows


def report_ablation() -> int:
    """Prints and draws the result file."""
    about, rows = read(RESULTS / f"{NAME}.json")
    print_ablation(rows)
    print(draw_ablation(about, rows))
    return 0
