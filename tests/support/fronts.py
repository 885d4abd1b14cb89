"""Kernels down to their TTIR, and what Triton brings to the rest of their compile."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource

from tawa.bridge.compile import hopper_target
from tawa.bridge.driver_data import Toolchain
from tawa.bridge.generic_print import parse_module as parse_with_triton
from tawa.bridge.generic_print import print_generic, read_ttir
from tawa.bridge.signature import Signature
from tawa.bridge.stages import split_make_ttgir
from tawa.flow import Flow, run
from tawa.ir import Module, parse_module, print_module
from tawa.pipeline import FORMS, PATHS, Target
from tawa.plan import Plan
from tawa.remarks import Remark


_JUMP = re.compile(r"\bcf\.(?:cond_)?br\b")


class _Enough(Exception):
    """Stops a compile once TTIR is there."""


@dataclass(frozen=True)
class Front:
    """A kernel's TTIR as Triton prints it, and what Triton brings to its compile."""

    ttir: str
    context: Any
    tools: Toolchain

    def whole_text(self) -> str:
        mod = parse_with_triton(self.ttir, self.context)
        self.tools.split.front(mod, {}, self.tools.options, self.tools.capability)
        return print_generic(mod)

    def whole(self) -> Module:
        return parse_module(self.whole_text())

    def split_text(self, groups: int = 2) -> str:
        """One group's share of the kernel, laid out."""
        flow, refusal = self._split(groups)
        assert refusal is None, refusal
        mod = parse_with_triton(print_module(flow.module), self.context)
        options = replace(self.tools.options, num_warps=flow.target.num_warps)
        self.tools.split.front(mod, {}, options, self.tools.capability)
        return print_generic(mod)

    def reason(self, groups: int = 2) -> str:
        """Why the rows are not split."""
        refusal = self._split(groups)[1]
        assert refusal is not None
        return refusal.reason

    def _split(self, groups: int) -> tuple[Flow, Remark | None]:
        target = Target(self.tools.options.num_warps, self.tools.options.num_stages)
        flow = Flow(read_ttir(self.ttir, self.context), Plan(groups=groups), target=target)
        return flow, run(flow, FORMS)


def structured(mod: Any) -> Any:
    """A kernel as Triton holds it, with `if`s in place of jumps, as early returns are."""
    if not _JUMP.search(text := str(mod)):
        return mod
    flow = Flow(read_ttir(text, mod.context))
    run(flow, PATHS, until="StructureFlow")
    return parse_with_triton(print_module(flow.module), mod.context)


def front(kernel: Any, signature: Signature, **options: Any) -> Front:
    """Compiles a kernel down to TTIR. options: launch options, such as num_warps (8 unless given)."""
    found: list[tuple[str, Any]] = []

    def hook(backend=None, stages=None, options=None, language=None, capability=None):  # called by name
        if stages is None:
            return ("row split", "row split")

        def stop(mod: Any, metadata: Any) -> Any:
            found.append((mod.str(), options))
            raise _Enough

        stages["ttgir"] = stop
        return None

    source = ASTSource(kernel, signature.types, signature.constants, signature.attributes)
    with knobs.compilation.scope(), knobs.runtime.scope():
        knobs.compilation.always_compile = True
        knobs.runtime.add_stages_inspection_hook = hook
        with contextlib.suppress(_Enough):
            triton.compile(source, target=hopper_target(), options={"num_warps": 8, **options})
    split = split_make_ttgir(CUDABackend)
    assert split is not None
    context = ir.context()
    ir.load_dialects(context)
    CUDABackend(hopper_target()).load_dialects(context)
    text, parsed = found[0]
    return Front(text, context, Toolchain(split, (), parsed, 90))
