"""What a Blackwell GPU (sm_100) would run, without one: the same kernels by stock Triton and by Tawa.

``python -m bench.blackwell``; no GPU is needed, and no time here was measured. Each kernel is compiled by stock Triton,
by stock Triton with ``tl.range(warp_specialize=True)``, and by Tawa. A row has what `ptxas` made (instructions of the
tensor cores and of TMA, columns of tensor memory, stores of spilled registers), the verdict of the proof, whether the
simulator's bits are those of the program before any pipelining, and the cycles of one CTA on the simulator's clock,
whose rates are public numbers or estimates (`tawa.machine.blackwell`).

On a machine with a GPU, ``python -m bench.blackwell --run`` (``make gpu``) launches the same kernels, compares them
with float64 results and times them round-robin. Nobody has done that on a B200 yet.

Results: ``bench/results/blackwell.json``, and ``blackwell_run.json`` with ``--run``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import triton
import triton.language as tl

from bench.harness import RESULTS, environment
from tawa.bridge.driver.annotations import STOCK_WITHOUT
from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.request import Request
from tawa.bridge.launch.why_stock import why_not_specialised
from tawa.bridge.triton.read_module import read_final, read_levels, read_unspecialised
from tawa.bridge.triton.signature import parse_signature
from tawa.ir import Module
from tawa.machine.machines import SM_100
from tawa.plan import PlanOptions
from tawa.sim import Descriptor, simulate
from tawa.sim.errors import SimulationError
from tawa.verify.barriers import check_barriers
from tawa.verify.check import check_levels
from tawa.verify.verdict import Refuted, Verdict

COUNTED = ("UTCHMMA", "UTMALDG", "UTCBAR", "LDTM", "STTM")


@triton.jit
def gemm(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    """One tile a program."""
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=WS):
        acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
    c.store([m, n], acc.to(tl.float16))


@triton.jit
def persistent(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, WS: tl.constexpr):
    """Some tiles a program, one after the other."""
    columns = tl.cdiv(N, BN)
    for t in tl.range(tl.program_id(0), tl.cdiv(M, BM) * columns, tl.num_programs(0), flatten=WS, warp_specialize=WS):
        m, n = t // columns * BM, t % columns * BN
        acc = tl.zeros((BM, BN), dtype=tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
        c.store([m, n], acc.to(tl.float16))


@triton.jit
def attention(
    q, k, v, o, scale, S, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr, WS: tl.constexpr
):
    """One block of queries a program; scale includes the logarithm of e to base 2."""
    m, base = tl.program_id(0) * BM, tl.program_id(1) * S
    rows = m + tl.arange(0, BM)
    queries = q.load([base + m, 0])
    acc = tl.zeros((BM, D), tl.float32)
    high = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    for n in tl.range(0, m + BM if CAUSAL else S, BN, warp_specialize=WS):
        s = tl.dot(queries, k.load([base + n, 0]).T) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= n + tl.arange(0, BN)[None, :], s, float("-inf"))
        new = tl.maximum(high, tl.max(s, 1))
        p = tl.exp2(s - new[:, None])
        factor = tl.exp2(high - new)
        total = total * factor + tl.sum(p, 1)
        acc = tl.dot(p.to(tl.float16), v.load([base + n, 0]), acc * factor[:, None])
        high = new
    o.store([base + m, 0], (acc / total[:, None]).to(tl.float16))


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel. grid: of its launch, in the simulator and on a GPU.

    arrays: makes its arguments, its output, and the float64 result, which is NaN where nothing is stored.
    """

    name: str
    kernel: Any
    signature: str
    constants: dict[str, Any]
    num_warps: int
    grid: tuple[int, ...]
    arrays: Callable[[], tuple[dict[str, Any], Any, Any]]


def _product(rows: int, columns: int, depth: int) -> Callable[[], tuple[dict[str, Any], Any, Any]]:
    def make() -> tuple[dict[str, Any], Any, Any]:
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(shape).astype(np.float16) for shape in ((rows, depth), (depth, columns)))
        c = np.full((rows, columns), np.nan, np.float16)
        given = {"a": Descriptor(a), "b": Descriptor(b), "c": Descriptor(c), "M": rows, "N": columns, "K": depth}
        return given, c, a.astype(float) @ b.astype(float)

    return make


def _attention(length: int, causal: bool, rows: int, width: int = 128) -> Callable[[], tuple[dict[str, Any], Any, Any]]:
    def make() -> tuple[dict[str, Any], Any, Any]:
        rng = np.random.default_rng(0)
        q, k, v = (rng.standard_normal((length, width)).astype(np.float16) for _ in range(3))
        o, scale = np.full((length, width), np.nan, np.float16), np.float32(width**-0.5 / np.log(2))
        s = q.astype(float) @ k.astype(float).T * float(scale)
        if causal:
            s = np.where(np.tri(length, dtype=bool), s, -np.inf)
        p = np.exp2(s - s.max(1, keepdims=True))
        given = {name: Descriptor(it) for name, it in (("q", q), ("k", k), ("v", v), ("o", o))}
        exact = p @ v.astype(float) / p.sum(1, keepdims=True)
        exact[rows:] = np.nan
        return {**given, "scale": scale, "S": length}, o, exact

    return make


_TILES = {"BM": 128, "BN": 256, "BK": 64}
_GEMM = (
    "a=tensordesc<fp16[128,64]>, b=tensordesc<fp16[64,256]>, c=tensordesc<fp16[128,256]>, M=i32:16, N=i32:16, K=i32:16"
)
_ATTENTION = (
    "q=tensordesc<fp16[{0},128]>, k=tensordesc<fp16[128,128]>, v=tensordesc<fp16[128,128]>, "
    "o=tensordesc<fp16[{0},128]>, scale=fp32, S=i32:16"
)


def _attention_case(name: str, rows: int, num_warps: int, grid: tuple[int, ...], *, causal: bool) -> Case:
    constants = {"BM": rows, "BN": 128, "D": 128, "CAUSAL": causal}
    return Case(
        name, attention, _ATTENTION.format(rows), constants, num_warps, grid, _attention(1024, causal, rows * grid[0])
    )


CASES = (
    Case("GEMM, one tile a program", gemm, _GEMM, _TILES, 8, (1, 1), _product(128, 256, 1024)),
    Case("GEMM, persistent", persistent, _GEMM, _TILES, 8, (1,), _product(256, 512, 512)),
    _attention_case("attention, 128 rows a program", 128, 4, (1, 1), causal=False),
    _attention_case("attention, 256 rows a program", 256, 8, (1, 1), causal=False),
    _attention_case("attention, causal, 256 rows a program", 256, 8, (4, 1), causal=True),
)


def compiled(case: Case, candidate: str) -> Any:
    """One kernel as a candidate compiles it for sm_100."""
    constants = {**case.constants, "WS": candidate == "stock, specialised"}
    signature = parse_signature(case.signature, constants, case.kernel.arg_names)
    sizes = {"num_warps": case.num_warps, "num_stages": 3}
    if candidate == "Tawa":
        request = Request(PlanOptions(enable_warp_specialization=True), verification="full")
        return compile_kernel(case.kernel, signature, request, target=SM_100, **sizes)
    request = STOCK_WITHOUT if candidate == "stock" else None
    return compile_kernel(case.kernel, signature, request, target=SM_100, **sizes)


def row(case: Case, candidate: str) -> dict[str, Any]:
    """What is known of one kernel by one candidate."""
    known: dict[str, Any] = {"kernel": case.name, "candidate": candidate}
    try:
        made = compiled(case, candidate)
    except Exception as error:
        return {**known, "error": f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"}
    specialised = candidate == "Tawa" and not why_not_specialised(made)
    program = read_final(made)
    found = check_levels(*read_levels(made)) if specialised else check_barriers(program)
    base = read_unspecialised(compiled(case, "stock"), num_warps=case.num_warps, num_stages=3)
    return {
        **known, **structure(made), "verdict": _told(found), **_simulated(case, program, base),
    }  # fmt: skip


def structure(made: Any) -> dict[str, Any]:
    """What the assembler made of a kernel."""
    lines = made.asm["sass"]
    counts = Counter(re.findall(rf"\b({'|'.join(COUNTED)})\b", lines))
    stored = re.findall(r"\bSTL(?:\.(\d+))?\b", lines)
    return {
        "warps": made.metadata.num_warps,
        "shared_bytes": made.metadata.shared,
        "tensor_columns": made.metadata.tmem_size,
        "spill_stores": len(stored),
        **{name: counts[name] for name in COUNTED},
    }


def largest_error(found: Any, exact: Any) -> float:
    """The largest absolute error; infinite if a result is missing, or was stored where nothing should be."""
    if not np.array_equal(np.isnan(found), np.isnan(exact)):
        return float("inf")
    return float(np.nanmax(np.abs(found - exact)))


def _told(found: Verdict) -> str:
    text = type(found).__name__.lower()
    return f"{text}: {found.witness.message}" if isinstance(found, Refuted) else text


def _simulated(case: Case, program: Module, base: Module) -> dict[str, Any]:
    """Whether the bits are those of the program before any pipelining, in three orders; cycles of the first CTA."""
    given, wanted, exact = case.arrays()
    simulate(base, given, case.grid)
    cycles, same = None, True
    for order in ("eager", "late", "random"):
        given, output, _ = case.arrays()
        try:
            made = simulate(program, given, case.grid, order, timing=order == "eager")  # type: ignore[arg-type]
        except SimulationError as error:
            return {"bits": f"{order}: {type(error).__name__}", "cycles": cycles}
        cycles = made.timeline().cycles if order == "eager" else cycles
        same = same and np.array_equal(output.view(np.uint16), wanted.view(np.uint16))
    error = largest_error(wanted.astype(float), exact)
    return {"bits": "same" if same else "other", "cycles": cycles, "error": round(error, 6)}


def run_on_gpu() -> list[dict[str, Any]]:
    """Launches the kernels on this machine's GPU, compares them with float64, and times them round-robin."""
    import torch

    if torch.cuda.get_device_capability()[0] not in (9, 10):
        sys.exit("this GPU is neither Hopper nor Blackwell (sm_90, sm_100)")
    return [it for case in CASES for it in _launched(case)]


def _launched(case: Case) -> list[dict[str, Any]]:
    """The rows of one kernel on this machine's GPU."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    import tawa
    from bench.harness import time_round_robin

    given, _, exact = case.arrays()
    tensors = {name: torch.as_tensor(it.array).cuda() for name, it in given.items() if isinstance(it, Descriptor)}
    output = tensors["c" if "c" in tensors else "o"]
    boxes = dict(re.findall(r"(\w)=tensordesc<fp16\[([\d,]+)\]>", case.signature))
    arguments: list[Any] = []
    for name, value in given.items():
        if name in tensors:
            value = TensorDescriptor.from_tensor(tensors[name], [int(it) for it in boxes[name].split(",")])
        arguments.append(value.item() if isinstance(value, np.generic) else value)

    def launching(kernel: Any, **options: Any) -> Callable[[], object]:
        return lambda: kernel[case.grid](*arguments, **case.constants, WS=False, num_warps=case.num_warps, **options)

    launches = {
        "stock": launching(case.kernel),
        "Tawa": launching(tawa.jit(case.kernel), enable_warp_specialization=True),
    }
    rows: dict[str, dict[str, Any]] = {}
    for candidate, launch in launches.items():
        output.fill_(float("nan"))
        launch()
        error = largest_error(output.double().cpu().numpy(), exact)
        rows[candidate] = {"kernel": case.name, "candidate": candidate, "error": error}
    for candidate, timing in time_round_robin(launches).items():
        rows[candidate]["ms"] = timing.median_ms
    return list(rows.values())


def main() -> None:
    """Compiles, proves and simulates; with ``--run``, launches."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", action="store_true", help="launch the kernels on this machine's GPU")
    arguments = parser.parse_args()
    if arguments.run:
        rows, path = run_on_gpu(), RESULTS / "blackwell_run.json"
    else:
        candidates = ("stock", "stock, specialised", "Tawa")
        rows = [row(case, candidate) for case in CASES for candidate in candidates]
        path = RESULTS / "blackwell.json"
    for it in rows:
        print(", ".join(f"{name} {value}" for name, value in it.items()))
    path.write_text(json.dumps({**environment(), "rows": rows}, indent=1) + "\n")
    print(Path(path).name)


if __name__ == "__main__":
    main()
