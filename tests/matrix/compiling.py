"""Compiling a case ahead of time, stock and specialised, and reading what came out."""

from __future__ import annotations

import functools
from typing import Any

from tawa.bridge.compile import compile_kernel
from tawa.bridge.request import Request
from tawa.bridge.signature import Signature
from tawa.kernels.case import Case
from tawa.plan import PlanOptions


def signature(case: Case) -> Signature:
    names = case.kernel.arg_names
    constants = {(names.index(name),): value for name, value in case.constants().items()}
    return Signature(case.signature(), constants, case.attributes())


def compile_case(case: Case, options: PlanOptions | None) -> Any:
    request = None if options is None else Request(options)
    return compile_kernel(case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=case.num_stages)


def pinned(depth: int, mma_depth: int) -> PlanOptions:
    return PlanOptions(enable_warp_specialization=True, aref_depth=depth, mma_depth=mma_depth)


@functools.cache
def compiled_pair(name: str) -> tuple[Any, Any]:
    """The stock kernel, and what automatic mode makes of it."""
    from tawa.kernels.gemm.cases import find

    return compile_case(find(name), None), compile_case(find(name), PlanOptions())
