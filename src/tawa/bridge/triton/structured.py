"""A kernel from Triton's text as a structured module of ours."""

from __future__ import annotations

from typing import Any

from tawa.bridge.triton.generic_print import read_ttir
from tawa.flow import Flow, run
from tawa.ir import Module
from tawa.pipeline import KERNEL


def new_context() -> Any:
    """A context of Triton that knows its dialects."""
    from triton._C.libtriton import ir, nvidia

    context = ir.context()
    ir.load_dialects(context)
    nvidia.load_dialects(context)
    return context


def structured(module: Module) -> Module:
    """The kernel, changed in place: structured branches in place of jumps where possible, and none that always go."""
    run(Flow(module), KERNEL)
    return module


def read_kernel(ttir: str, context: Any) -> Module:
    """The same of Triton's text, in any form."""
    return structured(read_ttir(ttir, context))
