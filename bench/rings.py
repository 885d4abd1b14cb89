"""Times the kernels of ``examples/rings``: ``python -m bench.rings``.

The six steps of a Hopper GEMM beside cuBLAS, and attention with three groups beside PyTorch's. Each kernel is checked
on poisoned output before it is timed. Results: ``bench/results/rings.json``.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

from bench.harness import Report, Row, describe, time_round_robin
from examples.ladder import STEPS, TILE, launch
from examples.rings.attention_three_groups import GROUPS, ROWS, attention

if TYPE_CHECKING:
    import torch

SIZE = 8192
HEADS, LENGTH, HD, BN, D = 64, 6144, 64, 128, 2
CUBLAS, PYTORCH, RINGS = "cuBLAS", "PyTorch", "attention_three_groups"


def checked(case: dict[str, Any], ways: dict[str, Any], out: torch.Tensor, exact: Any, rows: Any) -> list[Row]:
    """Launches each way on poisoned output; rows for those that fail, which leave `ways`."""
    failed: list[Row] = []
    for name, run in list(ways.items()):
        out.fill_(float("nan"))
        try:
            run()
            found = out[rows].double()
            error = float((found - exact).abs().max() / exact.abs().max())
            assert error < 4e-3, f"the largest error is {error:.1e} of the largest value"
        except Exception as error:
            failed.append(Row(case, name, error=describe(error)))
            del ways[name]
    return failed


def timed(report: Report, case: dict[str, Any], ways: dict[str, Any], flop: float) -> None:
    """Times what is right, and prints it."""
    timings, errors = time_round_robin(ways)
    report.add(*(Row.timed(case, name, timing, flop) for name, timing in timings.items()))
    report.add(*(Row(case, name, error=text) for name, text in errors.items()))
    for row in report.rows:
        if row.case == case:
            print(f"{row.candidate:>24} {row.tflops or row.error}")


def products(report: Report) -> None:
    """C = A @ B, 8192 squared, in float16."""
    import torch

    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in "ab")
    c = torch.empty_like(a)
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    rows = torch.randint(0, SIZE, (64,), device="cuda")
    exact = a[rows].double() @ b.double()
    ways: dict[str, Any] = {step: launch(step, a, b, c, programs) for step in STEPS}
    ways[CUBLAS] = lambda: torch.mm(a, b, out=c)
    case = {"kernel": "gemm", "size": SIZE, **TILE}
    report.add(*checked(case, ways, c, exact, rows))
    timed(report, case, ways, 2.0 * SIZE**3)


def attentions(report: Report) -> None:
    """Full attention, 64 heads of dimension 64, in float16."""
    import torch

    q, k, v = (torch.randn(1, HEADS, LENGTH, HD, device="cuda", dtype=torch.float16) for _ in "qkv")
    o = torch.empty_like(q)
    scale = HD**-0.5
    boxes = (*((it, [ROWS.value if it is q else BN, HD]) for it in (q, k, v)), (o, [ROWS.value, HD]))
    made = [
        TensorDescriptor.from_tensor(it.view(-1, HD), box, gl.NVMMASharedLayout.get_default_for(box, gl.float16))
        for it, box in boxes
    ]
    grid = (LENGTH // (GROUPS.value * ROWS.value), HEADS)

    def ours() -> Any:
        return attention[grid](*made, scale * 1.4426950408889634, LENGTH, BN=BN, HD=HD, D=D, num_warps=4)

    ways: dict[str, Any] = {
        RINGS: ours,
        PYTORCH: lambda: o.copy_(torch.nn.functional.scaled_dot_product_attention(q, k, v)),
    }
    head = slice(5, 6)
    exact = torch.softmax(q[0, head].double() @ k[0, head].double().mT * scale, -1) @ v[0, head].double()
    case = {"kernel": "attention", "heads": HEADS, "length": LENGTH, "d": HD, "BN": BN, "D": D}
    report.add(*checked(case, ways, o[0], exact, head))
    ways[PYTORCH] = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)
    timed(report, case, ways, 4.0 * HEADS * LENGTH**2 * HD)


def main() -> None:
    """Checks and times all."""
    argparse.ArgumentParser(description=__doc__).parse_args()

    import torch

    torch.manual_seed(0)
    report = Report("rings")
    products(report)
    attentions(report)
    report.note_clocks()
    print(report.save())


if __name__ == "__main__":
    main()
