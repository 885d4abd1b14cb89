"""Ahead-of-time compiles of a case, stock and specialised, and their reports."""

from __future__ import annotations

import contextlib
import functools
import io
from dataclasses import dataclass
from typing import Any

from triton import knobs

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.driver import specialise
from tawa.bridge.driver.request import Request
from tawa.bridge.report.report import KernelReport, read_ptx, read_ptxas_log, report
from tawa.bridge.triton.signature import Signature
from tawa.flow import Outcome
from tawa.plan import Plan, PlanOptions
from tawa.verify.effort import Verification
from tests.cases.case import Specimen
from tests.support.fronts import front


def signature(case: Specimen) -> Signature:
    names = case.kernel.arg_names
    constants = {(names.index(name),): value for name, value in case.constants().items()}
    return Signature(case.signature(), constants, case.attributes())


def compile_case(case: Specimen, options: PlanOptions | None) -> Any:
    request = None if options is None else Request(options)
    return compile_kernel(case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=case.num_stages)


def compile_and_report(case: Specimen, options: PlanOptions | None) -> tuple[Any, KernelReport]:
    """The compiled kernel and its report, from the ptxas log of Triton's own run to avoid a second run of ptxas."""
    said = io.StringIO()
    with knobs.nvidia.scope(), contextlib.redirect_stdout(said):
        knobs.nvidia.dump_ptxas_log = True
        compiled = compile_case(case, options)
    log = said.getvalue()
    if log.count("Compiling entry function") != 1:  # a cached kernel, or the best of several candidates
        return compiled, report(compiled)
    return compiled, KernelReport(read_ptx(compiled.asm["ptx"]), read_ptxas_log(log), None)


@dataclass(frozen=True)
class Levels:
    """The texts of a kernel by level, with the interface of a compiled kernel."""

    asm: dict[str, str]


def attempted(
    case: Specimen, options: PlanOptions, plan: Plan | None = None, verification: Verification = "fast"
) -> tuple[Specialised | Outcome, Levels]:
    """The result for a case, without Triton's stages after TTGIR, which take most of the compile time."""
    made = front(case.kernel, signature(case), num_warps=case.num_warps, num_stages=case.num_stages)
    job = made.job(case.name)
    found = specialise(job, Request(options, plan, verification=verification))
    return found, Levels({"ttir": made.ttir, **job.texts})


def specialised_levels(case: Specimen, options: PlanOptions) -> Levels:
    """The levels of a case, which must be specialised."""
    found, levels = attempted(case, options)
    assert isinstance(found, Specialised), found.remarks
    return levels


def pinned(depth: int, mma_depth: int) -> PlanOptions:
    return PlanOptions(enable_warp_specialization=True, aref_depth=depth, mma_depth=mma_depth)


@functools.cache
def compiled_pair(name: str) -> tuple[Any, Any]:
    """The stock kernel, and the kernel of automatic mode."""
    from tests.cases.gemm.cases import find

    return compile_case(find(name), None), compile_case(find(name), PlanOptions())
