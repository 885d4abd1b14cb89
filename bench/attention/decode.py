"""Times decoding over a cache of keys and values: ``python -m bench.attention.decode [--only TEXT]``.

bf16, d = 128; one or four queries of each sequence see the whole cache. Candidates: `tawa.ops.attention_decode`, with
the number of splits that it chooses and with others; the same kernels in stock Triton; FlashAttention-3's
`flash_attn_with_kvcache` if it is installed; cuDNN through PyTorch; and a kernel that only reads K and V, which shows
the rate of the memory. Results are GB/s of K and V (as TB/s in the column ``tflops`` of the rows).

Each candidate is checked on its first launch against float64, with at most twice the error of PyTorch in the same
precision. Then all run round-robin. Results: ``bench/results/attention_decode.json``, written after each problem, and
``docs/images/attention_decode.png``. ``--report`` draws the picture of the results that are there.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.attention.candidates import flash_function
from bench.harness import RESULTS, Report, Row, finite, judge, read, time_round_robin, watchdog

D = 128
STALL_S = 120.0
READ = "reads only"
SPLITS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is computed. batches of `keys` keys each, `queries` of each head; page: keys of a page, 0 without pages."""

    batches: int
    keys: int
    queries: int
    heads: int
    key_heads: int
    page: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of K and V."""
        return 2 * self.batches * self.keys * self.key_heads * D * 2

    def __str__(self) -> str:
        """As ``--only`` finds it."""
        pages = f" pages of {self.page}" if self.page else ""
        return f"{self.batches}x{self.keys} q{self.queries} {self.heads} heads on {self.key_heads}{pages}"


PROBLEMS = (
    Problem(1, 65536, 1, 32, 8),
    Problem(16, 8192, 1, 32, 8),
    Problem(64, 4096, 1, 32, 8),
    Problem(16, 8192, 4, 64, 8),
    Problem(4, 1024, 1, 32, 8),
    Problem(16, 8192, 1, 32, 8, page=64),
    Problem(16, 8192, 1, 32, 8, page=256),
)


def make_tensors(problem: Problem) -> tuple[Any, ...]:
    """Q, K and V (B, heads, S, D), and the paged cache with its table; K and V lie as (B, S, heads, D)."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)

    def normal(length: int, heads: int) -> Any:
        shape = problem.batches, length, heads, D
        return torch.randn(shape, generator=generator, device="cuda", dtype=torch.bfloat16).transpose(1, 2)

    q = normal(problem.queries, problem.heads)
    return q, normal(problem.keys, problem.key_heads), normal(problem.keys, problem.key_heads)


def in_pages(cache: Any, page: int) -> tuple[Any, Any]:
    """A cache (B, HK, S, D) as pages in a random order (pages, HK, page, D), and the table."""
    import torch

    batches, heads, keys, dim = cache.shape
    columns = keys // page
    order = torch.randperm(batches * columns, generator=torch.Generator().manual_seed(1)).to(cache.device)
    pages = torch.empty((batches * columns, page, heads, dim), dtype=cache.dtype, device=cache.device)
    pages[order] = cache.transpose(1, 2).reshape(batches * columns, page, heads, dim)
    return pages.transpose(1, 2), order.reshape(batches, columns).to(torch.int32)


def make_calls(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The candidates; each returns O (B, H, SQ, D), the reading kernel None."""
    from tawa.ops import attention_decode
    from tawa.ops.attention_ops import decode_launch

    q, k, v = tensors
    table = None
    if problem.page:
        k, table = in_pages(k, problem.page)
        v, _ = in_pages(v, problem.page)

    def stock() -> Any:
        under = decode_launch.attention_decode, decode_launch.merge_splits
        decode_launch.attention_decode, decode_launch.merge_splits = (
            decode_launch.decode.attention_decode, decode_launch.decode.merge_splits,
        )  # fmt: skip
        try:
            return attention_decode(q, k, v, block_table=table)
        finally:
            decode_launch.attention_decode, decode_launch.merge_splits = under

    calls: dict[str, Callable[[], Any]] = {
        "Tawa": lambda: attention_decode(q, k, v, block_table=table),
        **{
            f"Tawa, {count} splits": lambda count=count: attention_decode(q, k, v, block_table=table, splits=count)
            for count in SPLITS
            if problem.batches * problem.key_heads * count <= 1024
        },
        "stock Triton": stock,
        READ: reader(k, v),
    }
    return calls if problem.page else {**calls, **_peers(tensors)}


def reader(k: Any, v: Any) -> Callable[[], None]:
    """A kernel that reads K and V, and writes next to nothing."""
    import torch

    from bench.attention.reading import read_both

    programs = 132 * 8
    out = torch.empty(programs, device="cuda")
    a, b = (x.transpose(1, 2).reshape(-1).view(torch.int16) for x in (k, v))

    def call() -> None:
        read_both[(programs,)](a, b, out, a.numel(), BLOCK=4096, num_warps=8)

    return call


def _peers(tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """FlashAttention-3 and cuDNN."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = tensors
    found: dict[str, Callable[[], Any]] = {}

    def cudnn() -> Any:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    if q.shape[2] == 1:  # PyTorch aligns a causal mask at the top left
        found["cuDNN"] = cudnn
    function = flash_function("flash_attn_with_kvcache")
    if function is not None:
        rows = [x.transpose(1, 2) for x in tensors]
        lengths = torch.full((q.shape[0],), k.shape[2], dtype=torch.int32, device=q.device)

        def flash() -> Any:
            result = function(*rows, cache_seqlens=lengths, causal=True)
            return (result[0] if isinstance(result, tuple) else result).transpose(1, 2)

        found["FlashAttention-3"] = flash
    return found


def excess(problem: Problem, tensors: tuple[Any, ...], o: Any) -> float:
    """The largest error of the first and the last sequence, divided by the allowed one; infinite if O has a NaN."""
    from tests.cases.arithmetic import Exact, SamePrecision
    from tests.ops.expected import expected

    q, k, v = tensors
    if not bool(o.isfinite().all()):
        return float("inf")
    error = allowed = 0.0
    options = {"causal": True, "diagonal": problem.keys - problem.queries}
    for b in {0, problem.batches - 1}:
        parts = [x[b : b + 1] for x in (q, k, v)]
        exact, _ = expected(*parts, Exact(), **options)
        peer, _ = expected(*parts, SamePrecision(), **options)
        error = max(error, (o[b : b + 1].double() - exact).abs().max().item())
        allowed = max(allowed, 2 * (peer.to(o.dtype).double() - exact).abs().max().item())
    return error / allowed


def bench_problem(problem: Problem) -> list[Row]:
    """The rows of one problem."""
    tensors, about = make_tensors(problem), {**asdict(problem), "d": D, "dtype": "bf16"}
    calls = make_calls(problem, tensors)
    fit, errors, rows = judge(calls, lambda name, o: 0.0 if name == READ else excess(problem, tensors, o), about)
    timings, failures = time_round_robin(fit)
    rows += [Row.timed(about, name, it, problem.bytes, finite(errors[name])) for name, it in timings.items()]
    return rows + [Row(about, name, error=text) for name, text in failures.items()]


def line_of(problem: Problem, rows: Mapping[str, Row]) -> str:
    """One line about a problem: GB/s, or why there are none."""
    rates = (f"{name} {row.tflops * 1e3:.0f}" if row.tflops else f"{name} {row.error}" for name, row in rows.items())
    return f"{problem!s:44}" + "  ".join(rates)


def main() -> int:
    """Times the problems asked for; returns 1 if a candidate of this project was wrong or failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"problems with this in their names: {PROBLEMS[0]}")
    parser.add_argument("--report", action="store_true", help="draw the result file, time nothing")
    arguments = parser.parse_args()
    if arguments.report:
        print(draw())
        return 0
    report, sound = Report("attention_decode"), True
    for problem in (it for it in PROBLEMS if arguments.only in str(it)):
        with watchdog(STALL_S, str(problem)):
            rows = bench_problem(problem)
        report.add(*rows)
        named = {row.candidate: row for row in rows}
        sound = sound and named["Tawa"].tflops is not None
        print(line_of(problem, named), flush=True)
    report.note_clocks()
    report.save()
    print(draw())
    return 0 if sound else 1


def draw() -> Path:
    """Draws the result file as ``docs/images/attention_decode.png``."""
    from bench.attention.bars import draw_bars
    from bench.attention.page_tables import GB_PER_TB, OF_CACHES, by_cache

    about, rows = read(RESULTS / "attention_decode.json")
    title = f"Decoding, bf16, d = 128, {about['device']}: sequences × keys"
    return draw_bars("attention_decode", title, "GB/s of K and V", by_cache(rows), OF_CACHES, GB_PER_TB)


if __name__ == "__main__":
    raise SystemExit(main())
