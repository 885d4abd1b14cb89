"""Times attention beside FlashAttention, forward: ``python -m bench.attention.masks [--only TEXT …]``.

16k tokens. Full, causal, with a sliding window, and with grouped heads, in bf16 and fp8 (e4m3). Candidates: Tawa's
operator, `tawa.ops.attention`; FlashAttention-3's wheel and FlashAttention's CuTe kernels where they are installed, on
copies in their layout; cuDNN through PyTorch. In fp8, V has rows; one more candidate has V with its keys innermost.
TFLOP/s count 4 * d operations for each pair of a query and a key that it sees.

Each candidate's first result is compared with float64 in the first and the last head, with at most twice the error of
PyTorch in the same precision; in fp8, of its products with P in fp8. Then all run round-robin, in CUDA graphs.
Results: ``bench/results/attention_masks.json``; rows of problems that are not timed anew stay.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.attention.candidates import CUTE, flash_function
from bench.harness import Report, Row, finite, judge, time_round_robin, watchdog

TOKENS = 16384
STALL_S = 120.0


@dataclass(frozen=True, slots=True)
class Problem:
    """S queries and keys in heads of d columns. H, HK: heads of queries, and of keys. window: 0 for none."""

    dtype: str
    d: int
    S: int
    H: int
    HK: int
    causal: bool
    window: int = 0

    def __str__(self) -> str:
        mask = f"window {self.window}" if self.window else "causal" if self.causal else "full"
        heads = f"{self.H} heads" if self.H == self.HK else f"{self.H} heads on {self.HK}"
        return f"{self.dtype} d{self.d} {heads} S{self.S} {mask}"

    @property
    def about(self) -> dict[str, Any]:
        """The case of a result row."""
        return {
            "dtype": self.dtype, "d": self.d, "S": self.S, "B": TOKENS // self.S, "H": self.H, "HK": self.HK,
            "causal": self.causal, "window": self.window,
        }  # fmt: skip

    @property
    def flop(self) -> float:
        """Operations of two products, over the pairs that are not masked; half of them under a causal mask."""
        pairs = self.S * self.S * (0.5 if self.causal else 1.0)
        if self.window:
            pairs -= (self.S - self.window) ** 2 * 0.5
        return 4.0 * TOKENS // self.S * self.H * self.d * pairs


PROBLEMS = (
    *(Problem("bf16", 128, S, 32, 8, True) for S in (8192, 2048)),
    *(Problem("bf16", 128, S, 16, 16, True, 1024) for S in (8192, 16384)),
    *(Problem("fp8", 128, S, 16, 16, True) for S in (16384, 4096, 1024)),
    *(Problem("bf16", 64, S, 32, 32, True) for S in (16384, 8192, 4096, 1024)),
    *(Problem("bf16", 128, S, 16, 16, True) for S in (16384, 4096, 1024)),
    *(Problem("bf16", 256, S, 8, 8, True) for S in (16384, 4096)),
    *(Problem("bf16", d, 4096, 2048 // d, 2048 // d, False) for d in (128, 64, 256)),
)


def make_tensors(problem: Problem) -> tuple[Any, ...]:
    """Q, K and V (B, heads, S, d)."""
    import torch

    torch.manual_seed(0)
    dtype = {"bf16": torch.bfloat16, "fp8": torch.float8_e4m3fn}[problem.dtype]
    return tuple(
        torch.randn((TOKENS // problem.S, heads, problem.S, problem.d), device="cuda").to(dtype)
        for heads in (problem.H, problem.HK, problem.HK)
    )


def make_calls(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The candidates that are installed; each returns O (B, H, S, d)."""
    from tawa.ops import attention

    q, k, v = tensors
    fp8, window = problem.dtype == "fp8", problem.window or None
    layouts = {"Tawa": v, **({"Tawa, V with keys innermost": v.mT.contiguous().mT} if fp8 else {})}

    def own(values: Any) -> Callable[[], Any]:
        return lambda: attention(q, k, values, causal=problem.causal, window=window)

    found = {name: own(values) for name, values in layouts.items()}
    turned = tuple(x.transpose(1, 2).contiguous() for x in tensors)
    seen: dict[str, Any] = {"window_size": (problem.window - 1, 0)} if problem.window else {}
    for name, function in (
        ("FlashAttention-3", flash_function("flash_attn_func")),
        ("CuTe", flash_function("flash_attn_func", CUTE)),
    ):
        if function is None or (name == "CuTe" and fp8):
            continue

        def call(function: Any = function) -> Any:
            made = function(*turned, causal=problem.causal, **seen)
            return (made[0] if isinstance(made, tuple) else made).transpose(1, 2)

        found[name] = call
    return found if fp8 or problem.window else {**found, "cuDNN": _cudnn(problem, tensors)}


def _cudnn(problem: Problem, tensors: tuple[Any, ...]) -> Callable[[], Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def call() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(*tensors, is_causal=problem.causal, enable_gqa=problem.H != problem.HK)

    return call


def excess(problem: Problem, tensors: tuple[Any, ...], o: Any) -> float:
    """The largest error of the first and the last head over what is allowed; infinite if O has a NaN."""
    from tests.cases.arithmetic import Exact, SamePrecision
    from tests.ops.expected import expected

    if not bool(o.isfinite().all()):
        return float("inf")
    worst, group = 0.0, problem.H // problem.HK
    for b, h in {(0, 0), (TOKENS // problem.S - 1, problem.H - 1)}:
        q, k, v = (x[b : b + 1, at : at + 1] for x, at in zip(tensors, (h, h // group, h // group), strict=True))
        exact, peer = (
            expected(q, k, v, arithmetic, causal=problem.causal, window=problem.window or None)[0]
            for arithmetic in (Exact(), SamePrecision())
        )
        allowed = 2 * (peer.to(o.dtype).double() - exact).abs().max().item()
        worst = max(worst, (o[b : b + 1, h : h + 1].double() - exact).abs().max().item() / allowed)
    return worst


def bench_problem(problem: Problem) -> list[Row]:
    """The rows of one problem."""
    tensors = make_tensors(problem)
    calls = make_calls(problem, tensors)
    fit, errors, rows = judge(calls, lambda _, o: excess(problem, tensors, o), problem.about)
    timings, failures = time_round_robin(fit)
    rows += [Row.timed(problem.about, name, it, problem.flop, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(problem.about, name, error=text) for name, text in failures.items()]


def line_of(problem: Problem, rows: Mapping[str, Row]) -> str:
    """One line about a problem: TFLOP/s, or why there are none."""
    return f"{problem!s:36}" + "  ".join(f"{name} {row.tflops or row.error}" for name, row in rows.items())


def main() -> int:
    """Times the problems asked for; returns 1 if a candidate of this project was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help=f"of names such as {PROBLEMS[0]}")
    arguments = parser.parse_args()
    report, sound = Report("attention_masks"), True
    report.rows = report.earlier_rows()
    for problem in PROBLEMS:
        if not any(text in str(problem) for text in arguments.only):
            continue
        with watchdog(STALL_S, str(problem)):
            rows = bench_problem(problem)
        report.rows = [it for it in report.rows if it.case != problem.about]
        report.add(*rows)
        named = {row.candidate: row for row in rows}
        sound = sound and named["Tawa"].tflops is not None
        print(line_of(problem, named), flush=True)
        report.save()
    report.note_clocks()
    report.save()
    return 0 if sound else 1


if __name__ == "__main__":
    raise SystemExit(main())
