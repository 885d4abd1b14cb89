"""Times attention over packed sequences: ``python -m bench.attention.varlen [--d 128] [--mask causal] [--mix mixed]``.

16k tokens in all and 2048 hidden, as `bench.attention`, in mixes of lengths; queries and keys are as long. Candidates:
Tawa's operator, `tawa.ops.attention_varlen`; the same kernel in stock Triton; FlashAttention-3's and FlashAttention-2's
`flash_attn_varlen_func` where they are installed; PyTorch's `torch.nn.attention.varlen`. TFLOP/s count 4 * H * d
operations for each pair of a query and a key of one sequence, half of them under a causal mask.

Each candidate is checked on its first launch: every sequence of the first and the last head against float64, with at
most twice the error of PyTorch in the same precision. Then all run round-robin. Results:
``bench/results/attention_varlen.json``, written after each problem, and ``docs/images/attention_varlen.png``.
``--report`` draws the picture of the results that are there.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.attention.candidates import flash_function
from bench.harness import RESULTS, Report, Row, finite, judge, read, time_round_robin, watchdog

TOKENS, HIDDEN = 16384, 2048
STALL_S = 120.0
MASKS = {"full": False, "causal": True}
MIXES = ("equal", "mixed", "short", "one_long")


def lengths_of(mix: str) -> tuple[int, ...]:
    """The lengths of a mix; they add up to TOKENS.

    equal: 16 of 1024. mixed: uniform between 1 and 2048, at random. short: uniform between 1 and 256. one_long: one of
    half the tokens among short ones.
    """
    match mix:
        case "equal":
            return (1024,) * 16
        case "mixed":
            return _uniform(2048, TOKENS)
        case "short":
            return _uniform(256, TOKENS)
        case "one_long":
            return (TOKENS // 2, *_uniform(256, TOKENS // 2))
        case _:
            raise ValueError(f"no mix {mix!r}; known: {', '.join(MIXES)}")


def _uniform(most: int, tokens: int) -> tuple[int, ...]:
    lot, found = random.Random(0), list[int]()
    while tokens:
        found.append(min(lot.randint(1, most), tokens))
        tokens -= found[-1]
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Problem:
    """What is computed. group: query heads per key head."""

    dtype: str
    d: int
    causal: bool
    mix: str
    group: int = 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """The length of each sequence."""
        return lengths_of(self.mix)

    @property
    def heads(self) -> int:
        """The number of query heads."""
        return HIDDEN // self.d

    @property
    def about(self) -> dict[str, Any]:
        """The case of a result row."""
        lengths = self.lengths
        return {
            "dtype": self.dtype, "d": self.d, "causal": self.causal, "mix": self.mix, "sequences": len(lengths),
            "longest": max(lengths), "H": self.heads, "HK": self.heads // self.group,
        }  # fmt: skip

    @property
    def flop(self) -> float:
        """Floating-point operations of one launch: two dots over the pairs that are not masked."""
        pairs = sum(length * length for length in self.lengths)
        return 4.0 * self.heads * self.d * pairs * (0.5 if self.causal else 1.0)


PARTS = (("bf16", 128, 1), ("fp16", 128, 4), ("bf16", 64, 1), ("bf16", 256, 1))
"""Element type, head dimension and query heads per key head, the most important first."""
PROBLEMS = tuple(
    Problem(dtype, d, causal, mix, group) for dtype, d, group in PARTS for causal in MASKS.values() for mix in MIXES
)


# --- candidates ---


def make_tensors(problem: Problem) -> tuple[Any, ...]:
    """Q, K, V and the offsets, on the GPU."""
    import torch

    generator = torch.Generator(device="cuda").manual_seed(0)
    dtype = {"fp16": torch.float16, "bf16": torch.bfloat16}[problem.dtype]
    tokens, key_heads = sum(problem.lengths), problem.heads // problem.group

    def normal(heads: int) -> Any:
        return torch.randn((tokens, heads, problem.d), generator=generator, device="cuda").to(dtype)

    cu = torch.tensor([0, *itertools.accumulate(problem.lengths)], dtype=torch.int32, device="cuda")
    return normal(problem.heads), normal(key_heads), normal(key_heads), cu


def make_calls(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    """The candidates that are installed; each returns O."""
    from tawa.ops import attention_varlen

    q, k, v, cu = tensors
    longest = max(problem.lengths)
    return {
        "Tawa": lambda: attention_varlen(q, k, v, cu, cu, longest, longest, causal=problem.causal),
        "stock Triton": _stock(problem, tensors),
        **_flash(problem, tensors),
        **_pytorch(problem, tensors),
    }


def _stock(problem: Problem, tensors: tuple[Any, ...]) -> Callable[[], Any]:
    from tawa.ops.attention_ops.options import Options
    from tawa.ops.attention_ops.varlen_launch import Varlen
    from tawa.ops.kernels.attention import varlen

    q, k, v, cu = tensors
    run = Varlen(q, k, v, cu, Options.of(problem.causal, 0, problem.d**-0.5, 0.0))
    run.attend.kernel, run.list.launches.kernel = (lambda: varlen.attention_varlen), (lambda: varlen.list_shares)
    return lambda: run(q, k, v, cu, cu)[0]


def _flash(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    q, k, v, cu = tensors
    functions = {"FlashAttention-3": flash_function("flash_attn_varlen_func"), "FlashAttention-2": _flash_2()}
    longest, found = max(problem.lengths), dict[str, Callable[[], Any]]()
    for name, function in functions.items():
        if function is None:
            continue

        def call(function: Any = function) -> Any:
            result = function(q, k, v, cu, cu, longest, longest, causal=problem.causal)
            return result[0] if isinstance(result, tuple) else result

        found[name] = call
    return found


def _flash_2() -> Callable[..., Any] | None:
    try:
        from flash_attn import flash_attn_varlen_func
    except ImportError:
        return None
    return flash_attn_varlen_func


def _pytorch(problem: Problem, tensors: tuple[Any, ...]) -> dict[str, Callable[[], Any]]:
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return {}
    q, k, v, cu = tensors
    longest, window = max(problem.lengths), (-1, 0) if problem.causal else (-1, -1)
    attend: Any = partial(varlen_attn, enable_gqa=True) if problem.group > 1 else varlen_attn
    return {"PyTorch": lambda: attend(q, k, v, cu, cu, longest, longest, window_size=window)}


# --- checking and timing ---


def excess(problem: Problem, tensors: tuple[Any, ...], o: Any) -> float:
    """The largest error of the first and the last head, divided by the allowed one; infinite if O has a NaN."""
    from tests.cases.arithmetic import Exact, SamePrecision
    from tests.ops.expected import expected

    q, k, v, _ = tensors
    if not bool(o.isfinite().all()):
        return float("inf")
    error = allowed = 0.0
    for first, end in itertools.pairwise((0, *itertools.accumulate(problem.lengths))):
        for h in (0, problem.heads - 1):
            of = h // problem.group
            one, keys, values, own = (
                x[first:end, at : at + 1].transpose(0, 1)[None] for x, at in ((q, h), (k, of), (v, of), (o, h))
            )
            exact, _ = expected(one, keys, values, Exact(), causal=problem.causal)
            peer, _ = expected(one, keys, values, SamePrecision(), causal=problem.causal)
            error = max(error, (own.double() - exact).abs().max().item())
            allowed = max(allowed, 2 * (peer.to(o.dtype).double() - exact).abs().max().item())
    return error / allowed


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
    title = f"{problem.dtype} d={problem.d} {'causal' if problem.causal else 'full'} {problem.mix}"
    return f"{title:28}" + "  ".join(f"{name} {row.tflops or row.error}" for name, row in rows.items())


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("fp16", "bf16"), help="only this element type")
    parser.add_argument("--d", type=int, choices=sorted({d for _, d, _ in PARTS}), help="only this head dimension")
    parser.add_argument("--mask", choices=sorted(MASKS), help="only this mask")
    parser.add_argument("--mix", choices=MIXES, help="only this mix of lengths")
    parser.add_argument("--report", action="store_true", help="draw the result file, time nothing")
    return parser.parse_args(arguments)


def wanted(arguments: argparse.Namespace) -> list[Problem]:
    """The problems to be timed, in their order."""
    return [
        it
        for it in PROBLEMS
        if arguments.dtype in (None, it.dtype)
        and arguments.d in (None, it.d)
        and arguments.mask in (None, "causal" if it.causal else "full")
        and arguments.mix in (None, it.mix)
    ]


def main() -> int:
    """Times the problems asked for; returns 1 if a candidate of this project was wrong or failed."""
    arguments = parse()
    if arguments.report:
        print(draw())
        return 0
    report, sound = Report("attention_varlen"), True
    for problem in wanted(arguments):
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
    """Draws the result file as ``docs/images/attention_varlen.png``."""
    from bench.attention.bars import draw_bars
    from bench.attention.page_tables import OF_MIXES, by_mix

    about, rows = read(RESULTS / "attention_varlen.json")
    problems = {f"{mix}, {mask}": found for (mix, mask), found in by_mix(rows).items()}
    title = f"Packed sequences, bf16, d = 128, {about['device']}"
    return draw_bars("attention_varlen", title, "TFLOP/s", problems, OF_MIXES)


if __name__ == "__main__":
    raise SystemExit(main())
