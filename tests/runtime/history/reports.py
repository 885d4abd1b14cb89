"""Reports of made-up kernels."""

from __future__ import annotations

from tawa.runtime.history.process_report import KernelHistory, Verdict


def verdict(applied: bool, launches: int | None, reason: str = "why", cure: str = "") -> Verdict:
    return Verdict(applied, reason, "pack/gemm.py:7", cure, 1, launches, 10.0, 1.0)


GEMM = KernelHistory("gemm", (verdict(True, 8), verdict(False, 1, "too small", "larger blocks")), 30.0)
FILL = KernelHistory("fill", (verdict(False, 90, "no tl.dot"),), 5.0)
