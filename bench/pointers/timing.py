"""Times kernels with pointer loads: ``python -m bench.pointers [--only NAME] [--minutes 6]``.

Candidates: the library call where there is one; stock Triton, best of the list of configurations; stock Triton with the
configuration that Tawa is timed with; the same unmodified kernels through Tawa in automatic mode, and wherever
specialisation is legal.

1. Every configuration is compiled, run and checked against float64 on a small problem in its own process under a
   watchdog. Those that fail or hang are excluded, with the reason on record. This also fills Triton's cache on disk.
2. On each problem all configurations are timed quickly, and the best of each kind is kept.
3. The winners run round-robin (`bench.harness.time_round_robin`). Only these times are reported.

Results: ``bench/results/pointers.json``, or ``pointers_NAME.json`` with ``--only``; and a table of the wanted ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from typing import Any

from bench.harness import Report, Row, describe, finite, time_round_robin, watchdog
from bench.pointers.families import NAMES, OPTIONS, SMS, Configuration, Family, Sizes, families, groups_of
from bench.workers import Answer, Job, run_jobs, serve_jobs

STALL_S = 180.0  # a first launch may compile further forms of each configuration
LARGEST_DIFFERENCE = (
    0.01  # allowed difference from the first candidate, relative to the largest value: a few roundings to fp16
)
TWIN = "stock Triton, same configuration"
Calls = dict[str, Callable[[], Any]]
_ours: dict[Any, Any] = {}
"""The kernels under `tawa.jit`, each wrapped once, as the wrapper keeps what is compiled."""


# --- checking configurations in other processes ---


def handle(job: Job) -> Answer:
    """Compiles, runs and checks one configuration on a small problem."""
    from tests.cases import launch
    from tests.cases.check import judge_all

    launch.allow_device_descriptors()
    family, configuration = families()[job["family"]], Configuration(**job["configuration"])
    case = family.build(configuration, family.checked)
    tensors = launch.make_tensors(case, seed=1)
    compiled = call_of(case, configuration, tensors)()
    outputs = {name: tensors[name].clone() for name in launch.outputs(case)}
    verdict = judge_all(case, tensors, [outputs])
    if verdict.faults:
        return {"status": "failed", "message": f"wrong result: {'; '.join(verdict.faults)}"}
    record = getattr(compiled.metadata, "tawa", None) or {}
    if configuration.kind == "pinned":
        groups = sum(part["role"] == "consumer" for part in record["plan"]["partitions"])
        depths = {ring["depth"] for ring in record["plan"]["rings"]}
        asked = OPTIONS["pinned"]
        if groups != asked["num_consumer_groups"] or depths != {asked["num_buffers_warp_spec"]}:
            return {"status": "failed", "message": f"{groups} consumer groups and D = {sorted(depths)}, not as pinned"}
    return {
        "status": "ok",
        "shared": getattr(compiled.metadata, "shared", None),
        "registers": getattr(compiled, "n_regs", None),
        "spills": getattr(compiled, "n_spills", None),
        "applied": record.get("applied"),
        "reason": record.get("reason"),
    }


def call_of(case: Any, configuration: Configuration, tensors: Mapping[str, Any]) -> Callable[[], Any]:
    """A callable that launches the configuration once and returns the compiled kernel."""
    import tawa
    from tests.cases import launch

    stock = configuration.kind == "stock"
    if not stock and case.kernel not in _ours:
        _ours[case.kernel] = tawa.jit(case.kernel)
    kernel = case.kernel if stock else _ours[case.kernel]
    options = {**case.options(), **({} if stock else OPTIONS[configuration.kind])}
    arguments, grid = launch.bind(case, tensors), case.launch_grid()
    return lambda: kernel[grid](**arguments, **options)


def check_all(chosen: list[Family], report: Report, processes: int) -> dict[str, dict[Configuration, Answer]]:
    """The configurations that passed, by family; those that did not are recorded with the reason."""
    jobs = [{"family": f.name, "configuration": c.to_json()} for f in chosen for c in f.configurations]
    fit: dict[str, dict[Configuration, Answer]] = {family.name: {} for family in chosen}

    def take(job: Job, answer: Answer) -> None:
        configuration = Configuration(**job["configuration"])
        if answer["status"] == "ok":
            fit[job["family"]][configuration] = answer
            return
        text = f"{answer['status']}: {answer.get('message', '')}"
        about = {"family": job["family"], "configuration": configuration.label}
        report.add(Row(about, NAMES[configuration.kind], error=text))
        print(f"  out: {job['family']} {configuration.label}: {text[:200]}", flush=True)

    run_jobs("bench.pointers", jobs, take, processes, limit_s=60)
    return fit


# --- timing ---


def bench_family(family: Family, fit: dict[Configuration, Answer], report: Report, deadline: float) -> None:
    """Times one family on all its problems."""
    print(f"{family.name}: {family.title}", flush=True)
    kept = {c: fit[c] for c in family.configurations if c in fit}
    for sizes in family.problems:
        about = {"family": family.name, **sizes}
        if time.monotonic() > deadline:
            report.add(Row(about, "Tawa", error="skipped: out of time"))
            continue
        try:
            with watchdog(STALL_S, f"{family.name} {sizes}"):
                report.add(*bench_problem(family, kept, sizes, about))
            report.note_clocks()
        except Exception as error:
            report.add(Row(about, "Tawa", error=describe(error)))
            print(f"  {sizes}: {describe(error)}", flush=True)


def bench_problem(
    family: Family, kept: dict[Configuration, Answer], sizes: Sizes, about: Mapping[str, Any]
) -> list[Row]:
    """Rows of one problem, each candidate with its best configuration."""
    from tests.cases import launch

    cases = {c: family.build(c, sizes) for c in kept}
    tensors = launch.make_tensors(next(iter(cases.values())), seed=0)
    calls = {c.label: call_of(case, c, tensors) for c, case in cases.items()}
    quick, errors = time_round_robin(calls, rounds=4, burst_ms=2.0, rest_s=0.003)
    for label, text in errors.items():
        print(f"  {sizes}: {label}: {text}", flush=True)
    if not quick:
        return [Row(about, "Tawa", error="no configuration ran")]
    ranked = sorted((c for c in kept if c.label in quick), key=lambda c: quick[c.label].median_ms)
    by_kind = {kind: [c for c in ranked if c.kind == kind] for kind in NAMES}
    winners = {NAMES[kind]: timed[0] for kind, timed in by_kind.items() if timed}
    judged = winners.get(NAMES[family.judged])
    twin = next((c for c in by_kind["stock"] if judged and same_place(c, judged)), None)
    if twin:
        winners[TWIN] = twin
    finals = {**library_calls(family, tensors, sizes), **{name: calls[c.label] for name, c in winners.items()}}
    found, failed = differences(finals, cases[ranked[0]], tensors)
    timings, errors = time_round_robin({name: finals[name] for name in found}, rounds=16)
    rows: list[Row] = []
    for name, timing in timings.items():
        used = {}
        if name in winners:
            answer = kept[winners[name]]
            used = {"configuration": winners[name].label, **{key: answer.get(key) for key in (
                "registers", "spills", "applied", "reason")}}  # fmt: skip
        rows.append(Row.timed({**about, **used}, name, timing, family.flop(sizes), finite(found[name])))
    rows.extend(Row(about, name, error=text) for name, text in {**failed, **errors}.items())
    line = "  ".join(f"{row.candidate} {row.tflops}" for row in rows if row.tflops)
    print(f"  {' '.join(f'{key}={size}' for key, size in sizes.items())}: {line}", flush=True)
    return rows


def same_place(one: Configuration, other: Configuration) -> bool:
    """Whether two configurations have the same tile and warps."""
    return (one.tile, one.num_warps) == (other.tile, other.num_warps)


def differences(finals: Calls, case: Any, tensors: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
    """The difference of each candidate from the first, relative to the largest value, and what is wrong."""
    import torch

    from tests.cases import launch

    name = "o" if "o" in tensors else "c"
    found: dict[str, float] = {}
    failed: dict[str, str] = {}
    first: Any = None
    for candidate, call in finals.items():
        launch.poison(case, tensors)
        try:
            result = call()
            torch.cuda.synchronize()
        except Exception as error:
            failed[candidate] = describe(error)
            continue
        got = result if isinstance(result, torch.Tensor) else tensors[name]
        got = got.double().reshape(-1).clone()
        first = got if first is None else first
        difference = float((got - first).abs().max() / first.abs().max())
        if difference <= LARGEST_DIFFERENCE:
            found[candidate] = difference
        else:  # also where it is NaN
            failed[candidate] = f"wrong result: {difference:.2e} of the largest value"
            print(f"  {candidate}: {failed[candidate]}", flush=True)
    return found, failed


def library_calls(family: Family, tensors: Mapping[str, Any], sizes: Sizes) -> Calls:
    """The library's own call, where it has one."""
    import torch

    t = tensors
    if family.library == "product":
        b = t["b"].t() if family.b_t else t["b"]
        if t["a"].dtype == torch.float16:
            return {"cuBLAS": lambda: torch.matmul(t["a"], b, out=t["c"])}
        one = torch.ones((), device="cuda")
        return {"cuBLAS": lambda: torch._scaled_mm(t["a"], b, one, one, out_dtype=torch.float16, use_fast_accum=True)}
    if family.library == "attention":
        causal = family.name.endswith("causal")
        attend = torch.nn.functional.scaled_dot_product_attention
        return {"PyTorch attention": lambda: attend(t["q"], t["k"], t["v"], is_causal=causal)}
    if family.library == "grouped":
        return {"cuBLAS, one group after the other": grouped_call(t, sizes, family.b_t)}
    return {}


def grouped_call(t: Mapping[str, Any], sizes: Sizes, transposed: bool) -> Callable[[], Any]:
    """A product for each group."""
    import torch

    parts: list[tuple[Any, Any, Any]] = []
    at = {"a": 0, "b": 0, "c": 0}
    for m, n, k in groups_of(sizes):
        shapes = {"a": (m, k), "b": (n, k) if transposed else (k, n), "c": (m, n)}
        views = {}
        for name, shape in shapes.items():
            count = shape[0] * shape[1]
            views[name] = t[name][at[name] : at[name] + count].view(shape)
            at[name] += count
        parts.append((views["a"], views["b"].t() if transposed else views["b"], views["c"]))

    def run() -> None:
        for a, b, c in parts:
            torch.matmul(a, b, out=c)

    return run


def print_wanted(rows: list[Row], chosen: list[Family]) -> bool:
    """Prints the wanted ratios as a table; returns whether all are reached."""
    reached = True
    print(f"\n{'family':18} {'problem':30} {'Tawa / stock':>12} {'wanted':>7}")
    for family in chosen:
        for sizes in family.problems:
            rates = {
                row.candidate: row.tflops
                for row in rows
                if row.tflops
                and row.case["family"] == family.name
                and all(row.case.get(k) == v for k, v in sizes.items())
            }
            ours, stock = rates.get(NAMES[family.judged]), rates.get(NAMES["stock"])
            text = " ".join(f"{key}={size}" for key, size in sizes.items())
            if not ours or not stock:
                reached &= not family.wanted
                print(
                    f"{family.name:18} {text:30} {'-':>12} {family.wanted or '':>7}  {'FAIL' if family.wanted else ''}"
                )
                continue
            ratio = ours / stock
            reached &= ratio >= family.wanted
            verdict = ("pass" if ratio >= family.wanted else "FAIL") if family.wanted else ""
            print(f"{family.name:18} {text:30} {ratio:12.3f} {family.wanted or '':>7}  {verdict}")
    return reached


def main() -> int:
    """Runs the families asked for."""
    known = families()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=sorted(known), action="append", help="only this one (may be repeated)")
    parser.add_argument("--minutes", type=float, default=5.5, help="begin no problem after so many minutes")
    parser.add_argument("--processes", type=int, default=14)
    parser.add_argument("--dry", action="store_true", help="list what would be compiled and timed; needs no GPU")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(handle)
        return 0
    chosen = [known[name] for name in arguments.only or known]
    if arguments.dry:
        return list_all(chosen)
    from tests.cases import launch

    start = time.monotonic()
    launch.allow_device_descriptors()
    report = Report("_".join(["pointers", *(arguments.only or [])]))
    fit = check_all(chosen, report, arguments.processes)
    print(f"checked in {time.monotonic() - start:.0f} s on {SMS} SMs", flush=True)
    for family in chosen:
        bench_family(family, fit[family.name], report, start + arguments.minutes * 60)
    reached = print_wanted(report.rows, chosen)
    print(f"{report.save()}  {time.monotonic() - start:.0f} s", flush=True)
    return 0 if reached else 1


def list_all(chosen: list[Family]) -> int:
    """Builds every case and prints how many there are."""
    for family in chosen:
        for sizes in (family.checked, *family.problems):
            for configuration in family.configurations:
                case = family.build(configuration, sizes)
                assert case.signature() and case.launch_grid() and case.options()
                assert all(case.shape(tensor) for tensor in case.tensors)
        print(f"{family.name}: {len(family.configurations)} configurations, {len(family.problems)} problems, "
              f"{family.flop(family.problems[-1]) / 1e12:.2f} Tflop in the last")  # fmt: skip
    return 0
