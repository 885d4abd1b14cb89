"""Compiles kernels to TTIR, and keeps the state of Triton that the rest of the compile needs."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource

from tawa.bridge.driver.compile import hopper_target
from tawa.bridge.driver.data import Source, Toolchain, Worksheet
from tawa.bridge.driver.forms import JUMPS, front_half, lay_out
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import read_ttir
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.stages import split_make_ttgir
from tawa.bridge.triton.structured import read_kernel
from tawa.flow import Flow
from tawa.ir import Module, parse_module
from tawa.pipeline import Target
from tawa.plan import Plan
from tawa.remarks import Remark


class _Enough(Exception):
    """Stops a compile once TTIR is there."""


@dataclass(frozen=True)
class Front:
    """A kernel's TTIR as Triton prints it, with the context and the toolchain of its compile."""

    ttir: str
    context: Any
    tools: Toolchain

    def source(self, name: str = "") -> Source:
        """The kernel as input of the driver."""
        return Source(self.ttir, self.context, name, {})

    def whole_text(self) -> str:
        """The kernel with layouts, without further changes."""
        return front_half(self.tools, self.source(), parse_with_triton(self.ttir, self.context), Worksheet())

    def whole(self) -> Module:
        return parse_module(self.whole_text())

    def structured_text(self) -> str:
        """The kernel with layouts and structured control flow."""
        if not any(jump in self.ttir for jump in JUMPS):
            return self.whole_text()
        text = self._laid_out(read_kernel(self.ttir, self.context), Plan())
        assert isinstance(text, str), text
        return text

    def split(self, groups: int = 2) -> str | Remark:
        """The program of one consumer group with layouts, or the remark that declines the split."""
        return self._laid_out(read_ttir(self.ttir, self.context), Plan(groups=groups))

    def split_text(self, groups: int = 2) -> str:
        text = self.split(groups)
        assert isinstance(text, str), text
        return text

    def reason(self, groups: int = 2) -> str:
        remark = self.split(groups)
        assert isinstance(remark, Remark)
        return remark.reason

    def _laid_out(self, module: Module, plan: Plan) -> str | Remark:
        options = self.tools.options
        flow = Flow(module, plan, target=Target(options.num_warps, options.num_stages))
        return lay_out(self.tools, self.source(), flow, Worksheet())


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
