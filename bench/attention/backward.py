"""Times the backward pass of attention: ``python -m bench.attention.backward [--only TEXT] [--ablation]``.

B * S = 16k tokens, 2048 hidden, bf16. Candidates: Tawa's operator, as it is and under
`torch.use_deterministic_algorithms`; cuDNN through PyTorch; FlashAttention's CuTe kernels and FlashAttention-3 where
they are installed. Each is the whole backward pass, through autograd: row sums, gradients, dQ in its type. TFLOP/s
count five products: 10 * B * H * S * S * d operations, half of them under a causal mask.

Gradients of the first and the last head are compared with float64 before anything is timed: at most twice PyTorch's
error, three times in a row, with outputs and buffers full of NaN.

Rows that are not timed anew stay in the file, also those of peers that are not installed; the file names their runs.

Launches are plain: cuDNN's backward pass cannot be captured. The rates are the GPU's; `host_us` of a case is the time
that a call keeps the host.
``--ablation`` times the operator with one mechanism less at a time, which Plans can say. ``--plans`` times it with the
Plans of a file, beside its own and the peers: a JSON object of ``{"d": 64, "mask": "full", "plan": {…}}`` by name, with
``S`` if it is for one length alone, with ``BM``, ``BN`` or ``num_warps`` if they are others than those of the operator,
and with ``"same_bits": true`` for the kernel that has the same bits each time. What all problems need is compiled
first, in parallel. Results:
``bench/results/attention_backward.json``, ``attention_backward_ablation.json`` and ``attention_backward_plans.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from bench.attention.candidates import CUTE, FLASH_3, flash_function
from bench.harness import Report, Row, finite, judge, time_round_robin, watchdog
from bench.workers import Answer, Job, run_jobs, serve_jobs
from tawa.ops.attention_ops import tiles

TOKENS, HIDDEN = 16384, 2048
STALL_S = 120.0
CALLS, ROUNDS = 20, 5
"""Calls in a row, and how often, for the time of the host: the least mean counts."""


@dataclass(frozen=True, slots=True)
class Problem:
    """S queries and keys in heads of d columns."""

    d: int
    S: int
    causal: bool

    def __str__(self) -> str:
        return f"d{self.d} S{self.S} {self.mask}"

    @property
    def mask(self) -> Literal["full", "causal"]:
        """By its word in the tables of tiles."""
        return "causal" if self.causal else "full"

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, S, d)."""
        return max(1, TOKENS // self.S), HIDDEN // self.d, self.S, self.d

    @property
    def flop(self) -> float:
        """Operations of five products."""
        batches, heads, length, d = self.shape
        return 10.0 * batches * heads * length * length * d * (0.5 if self.causal else 1.0)


PROBLEMS = tuple(Problem(d, S, causal) for d in (128, 64, 256) for S in (4096, 16384, 1024) for causal in (False, True))
ABLATED = tuple(Problem(d, 16384, False) for d in (128, 64, 256))
WITHOUT: dict[str, dict[str, Any]] = {
    "groups that exchange": {"groups": 1, "loops": []},  # one group has no lag
    "a warp that stores": {"stores": [{"store_warp": False}]},
    "waits by dataflow": {"loops": [{"stages": 0}]},
    "rows in the ring of their tile": {
        "operands": [{"argument": name, "loop": 0, "path": "pointers"} for name in ("lse_ptr", "delta_ptr")]
    },
    "staged reductions": {"stores": [{"staged": False}]},
    "a lag": {"loops": []},
    "one ring for both tiles": {"operands": []},
}
"""By mechanism, the Plan that does without it. Those that a Plan does not ask for are not left out."""


@contextmanager
def deterministic() -> Iterator[None]:
    """Bits that are the same each time."""
    import torch

    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def make_tensors(problem: Problem) -> tuple[Any, ...]:
    """Q, K, V and dO (B, H, S, d)."""
    import torch

    torch.manual_seed(0)
    made = tuple(torch.randn(problem.shape, device="cuda", dtype=torch.bfloat16) for _ in range(4))
    return *(x.requires_grad_() for x in made[:3]), made[3]


def make_calls(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The candidates: each returns dQ, dK and dV."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from tawa.ops import attention

    q, k, v, do = tensors

    def derived(o: Any, given: Any = do) -> Any:
        return torch.autograd.grad(o, (q, k, v), given, retain_graph=True)

    own = attention(q, k, v, causal=problem.causal)

    def same_bits() -> Any:
        with deterministic():
            return derived(own)

    found: dict[str, Callable[[], Any]] = {"Tawa": lambda: derived(own), "Tawa, same bits": same_bits}
    try:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            peer = scaled_dot_product_attention(q, k, v, is_causal=problem.causal)
        found["cuDNN"] = lambda: derived(peer)
    except RuntimeError:  # no kernel for the problem
        pass
    for name, modules in (("CuTe", CUTE), ("FlashAttention-3", FLASH_3[1:])):
        function = flash_function("flash_attn_func", modules)
        if function is not None:
            made = function(*(x.transpose(1, 2) for x in (q, k, v)), causal=problem.causal)
            o = (made[0] if isinstance(made, tuple) else made).transpose(1, 2)
            found[name] = lambda o=o: derived(o)
    return found


def excess(problem: Problem, tensors: tuple[Any, ...], gradients: Any) -> float:
    """The largest error of the first and the last head over what is allowed; infinite if there is a NaN."""
    import torch

    if not all(bool(it.isfinite().all()) for it in gradients):
        return float("inf")
    worst = 0.0
    batches, heads, _, _ = problem.shape
    for b, h in {(0, 0), (batches - 1, heads - 1)}:
        own = [it[b : b + 1, h : h + 1] for it in gradients]
        given = [it.detach()[b : b + 1, h : h + 1] for it in tensors]
        exact = _reference(problem, [it.double() for it in given])
        peer = _reference(problem, given)
        for one, other, wanted in zip(own, peer, exact, strict=True):
            allowed = 2 * (other.double() - wanted).abs().max().item()
            worst = max(worst, (one.double() - wanted).abs().max().item() / allowed)
        torch.cuda.empty_cache()
    return worst


def _reference(problem: Problem, tensors: list[Any]) -> Any:
    """dQ, dK and dV of one head by PyTorch's products, in the type of the tensors."""
    import torch

    q, k, v = (x.clone().requires_grad_() for x in tensors[:3])
    scores = q @ k.mT * problem.d**-0.5
    if problem.causal:
        scores = scores.masked_fill(
            ~torch.ones(scores.shape[-2:], device=q.device, dtype=torch.bool).tril(), -torch.inf
        )
    return torch.autograd.grad(scores.softmax(-1) @ v, (q, k, v), tensors[3])


@contextmanager
def poisoned() -> Iterator[None]:
    """What the operator allocates is full of NaN, or of the largest number."""
    import torch

    from tawa.ops.attention_ops import backward_launch, tensors

    own = backward_launch.unwritten

    def full(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
        value = float("nan") if dtype.is_floating_point else torch.iinfo(dtype).max
        return torch.full(shape, value, dtype=dtype, device=like.device)

    backward_launch.unwritten = tensors.unwritten = full
    try:
        yield
    finally:
        backward_launch.unwritten = tensors.unwritten = own


def host_us(call: Callable[[], Any]) -> float:
    """Microseconds that a call keeps the host, launches only."""
    import torch

    least = float("inf")
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        least = min(least, (time.perf_counter() - start) / CALLS * 1e6)
    torch.cuda.synchronize()
    return round(least, 1)


def bench_problem(
    problem: Problem, calls: Mapping[str, Callable[[], Any]], tensors: tuple[Any, ...], of_host: bool = True
) -> list[Row]:
    """The rows of one problem. of_host: whether the time of the host is measured, too."""
    about = {**asdict(problem), "dtype": "bf16"}

    def worst(name: str, first: Any) -> float:
        return max(excess(problem, tensors, it) for it in (first, calls[name](), calls[name]()))

    with poisoned():
        fit, errors, rows = judge(calls, worst, about)
    hosts = {name: {"host_us": host_us(call)} if of_host else {} for name, call in fit.items()}
    timings, failures = time_round_robin(fit, graphs=False)
    rows += [
        Row.timed({**about, **hosts[name]}, name, it, problem.flop, finite(errors[name]))
        for name, it in timings.items()
    ]
    return rows + [Row(about, name, error=text) for name, text in failures.items()]


def own_tile(problem: Problem) -> tiles.Tile:
    """What the operator chooses."""
    return tiles.backward_tiles(tiles.HOPPER, tiles.box_of(problem.d), False, problem.mask, False, problem.S)[0]


Asked = Mapping[str, Mapping[str, Any]]
"""By name, what is asked for instead of the operator's choice, as in a file of ``--plans``."""


def ablated(problem: Problem) -> Asked:
    """What the operator is asked for, without one mechanism each."""
    asked = json.loads(dict(own_tile(problem).options)["plan"])
    plans = {name: {**asked, **plan} for name, plan in WITHOUT.items()}
    return {
        f"without {name}": {"plan": plan}
        for name, plan in plans.items()
        if {key: value for key, value in plan.items() if value} != asked
    }


def of_problem(problem: Problem, asked: Asked) -> Asked:
    """The Plans of a file that are for a problem."""
    about = asdict(problem) | {"mask": problem.mask}
    return {name: it for name, it in asked.items() if all(it.get(key, about[key]) == about[key] for key in about)}


def with_plans(problem: Problem, tensors: tuple[Any, ...], asked: Asked) -> dict[str, Callable[[], Any]]:
    """The operator with other Plans."""
    import torch

    from tawa.ops import attention
    from tawa.ops.attention_ops import backward_launch
    from tawa.ops.calls.plain import KnownCalls
    from tawa.ops.calls.tables import plan as as_option

    q, k, v, do = tensors
    box, own = tiles.box_of(problem.d), own_tile(problem)
    o = attention(q, k, v, causal=problem.causal)
    found: dict[str, Callable[[], Any]] = {}

    def changed(tile: tiles.Tile, it: Mapping[str, Any]) -> tiles.Tile:
        sizes = {key: it[key] for key in ("BM", "BN", "num_warps") if key in it}
        return replace(tile, least=0, options=(as_option(**it["plan"]),) if "plan" in it else tile.options, **sizes)

    for name, it in asked.items():
        choice = {problem.mask: {box: (changed(own, it),)}}
        table = replace(tiles.HOPPER, gradients=choice, in_steps=choice)
        order = deterministic if it.get("same_bits") else nullcontext
        known = KnownCalls[Any]()

        def call(table: tiles.Tiles = table, known: KnownCalls[Any] = known, order: Any = order) -> Any:
            before = backward_launch.backwards, backward_launch.tiles_for
            backward_launch.backwards, backward_launch.tiles_for = known, lambda _: table
            try:
                with order():
                    return torch.autograd.grad(o, (q, k, v), do, retain_graph=True)
            finally:
                backward_launch.backwards, backward_launch.tiles_for = before

        found[name] = call
    return found


def is_of(problem: Problem, row: Row) -> bool:
    """Whether a row is of this problem."""
    return asdict(problem).items() <= row.case.items()


def compile_all(problems: list[Problem], asked: Asked) -> None:
    """Compiles in parallel what the problems need, into Triton's cache; one kernel serves all lengths with its tile."""
    firsts = {name: it for it in reversed(problems) for name in of_problem(it, asked)}
    jobs = [{"problem": asdict(it), "name": name, "asked": asked[name]} for name, it in firsts.items()]
    jobs += [
        {"problem": asdict(it), "name": "Tawa", "asked": None}
        for it in {(it.d, it.mask, own_tile(it)): it for it in problems}.values()
    ]

    def say(job: Job, answer: Answer) -> None:
        if answer["status"] != "ok":
            print(f"{job['name']}: {answer['status']}: {answer.get('message', '')}", flush=True)

    run_jobs("bench.attention.backward", jobs, say, min(len(jobs), os.cpu_count() or 1), STALL_S)


def compile_one(job: Job) -> Answer:
    """The worker's side: one call."""
    problem, asked = Problem(**job["problem"]), job["asked"]
    tensors = make_tensors(problem)
    calls = with_plans(problem, tensors, {job["name"]: asked}) if asked else make_calls(problem, tensors)
    calls[job["name"]]()
    return {"status": "ok"}


def line_of(problem: Problem, rows: Mapping[str, Row]) -> str:
    """One line about a problem: TFLOP/s and the host's time, or why there are none."""

    def text(row: Row) -> str:
        us = row.case.get("host_us")
        return str(row.error) if row.tflops is None else f"{row.tflops:.0f}" + (f" ({us:.0f} us)" if us else "")

    return f"{problem!s:20}" + "  ".join(f"{name} {text(row)}" for name, row in rows.items())


def main() -> int:
    """Times the problems asked for; returns 1 if a candidate of this project was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help=f"of names such as {PROBLEMS[0]}")
    parser.add_argument("--ablation", action="store_true", help="the operator, with one mechanism less at a time")
    parser.add_argument("--plans", type=Path, metavar="FILE", help="the operator, with the Plans of a JSON file")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        serve_jobs(compile_one)
        return 0
    what = "_ablation" if arguments.ablation else "_plans" if arguments.plans else ""
    report, sound = Report(f"attention_backward{what}"), True
    problems = [
        it for it in (ABLATED if arguments.ablation else PROBLEMS) if any(text in str(it) for text in arguments.only)
    ]
    asked: Asked = json.loads(arguments.plans.read_text()) if arguments.plans else {}
    if asked:
        problems = [it for it in problems if of_problem(it, asked)]
        compile_all(problems, asked)
    report.rows = report.earlier_rows()
    for problem in problems:
        with watchdog(STALL_S, str(problem)):
            tensors = make_tensors(problem)
            calls = make_calls(problem, tensors)
            if arguments.ablation:
                calls = {"Tawa": calls["Tawa"], **with_plans(problem, tensors, ablated(problem))}
            if asked:
                found = of_problem(problem, asked)
                calls |= with_plans(problem, tensors, found)
                if not any(it.get("same_bits") for it in found.values()):
                    del calls["Tawa, same bits"]
            rows = bench_problem(problem, calls, tensors, of_host=not asked)
        named = {row.candidate: row for row in rows}
        report.rows = [it for it in report.rows if it.candidate not in named or not is_of(problem, it)]
        report.add(*rows)
        sound = sound and named["Tawa"].tflops is not None
        print(line_of(problem, named), flush=True)
    report.note_clocks()
    report.save()
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
