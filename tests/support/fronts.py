"""Compiles kernels to TTIR, and keeps the state of Triton that the rest of the compile needs."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import dataclass
from typing import Any

import triton
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource, compiler

from tawa.bridge.driver.data import Job
from tawa.bridge.driver.forms import JUMPS, front_half, lay_out
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import read_ttir
from tawa.bridge.triton.jitted import reachable
from tawa.bridge.triton.places import places_key
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.stages import StageSplit, split_make_ttgir
from tawa.bridge.triton.structured import read_kernel
from tawa.flow import Flow
from tawa.ir import Module, parse_module
from tawa.machine.machines import SM_90
from tawa.plan import Plan
from tawa.plan.decide.rings import Target
from tawa.remarks import Remark
from tests.support.kept import kept


class _Enough(Exception):
    """Stops a compile once TTIR is there."""


@dataclass(frozen=True)
class Front:
    """A kernel's TTIR as Triton prints it, with the context of its compile, Triton's stage ``ttgir`` and its options.

    key: what decides the TTIR; empty if that is not known.
    """

    ttir: str
    context: Any
    stages: StageSplit
    options: Any
    key: tuple[str, ...] = ()

    def job(self, name: str = "") -> Job:
        """The kernel as input of the driver."""
        return Job(self.ttir, self.context, name, {}, self.options, 90, self.stages)

    def whole_text(self) -> str:
        """The kernel with layouts, without further changes."""

        def lay_out() -> str:
            return front_half(self.job(), parse_with_triton(self.ttir, self.context))

        return kept(("ttgir", *self.key, self.ttir), lay_out, ours=True) if self.key else lay_out()

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
        target = Target(self.options.num_warps, self.options.num_stages)
        return lay_out(self.job(), Flow(module, plan, target=target))


def front(kernel: Any, signature: Signature, **options: Any) -> Front:
    """Compiles a kernel down to TTIR. options: launch options, such as num_warps (8 unless given)."""
    source = ASTSource(kernel, signature.types, signature.constants, signature.attributes)
    backend = CUDABackend(gpu_target(SM_90))
    parsed = backend.parse_options({"num_warps": 8, **options, **source.parse_options()})
    key = key_of(source, backend, parsed)
    text = kept(("ttir", *key), lambda: _ttir(source, options)) if key else _ttir(source, options)
    split = split_make_ttgir(CUDABackend)
    assert split is not None
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return Front(text, context, split, parsed, key)


def key_of(source: ASTSource, backend: CUDABackend, parsed: Any) -> tuple[str, ...]:
    """All that decides the TTIR of a kernel; empty if hashes are out of date because a global variable has changed."""
    key = compiler.get_cache_key(source, backend, parsed, compiler.get_cache_invalidating_env_vars())
    functions = list(reachable([source.fn, *source.constants.values()]))
    hashes = [it.cache_key for it in functions]  # finds the variables, too
    read = [it for function in functions for it in function.used_global_vals.items()]
    changed = any(where.get(name) != value for (name, _), (value, where) in read)
    values = [f"{name} = {value!r}" for (name, _), (value, _) in read]  # Triton's hashes have only some of them
    return () if changed else (key, *hashes, *values, places_key(source), sys.version)


def _ttir(source: ASTSource, options: dict[str, Any]) -> str:
    found: list[str] = []

    def hook(backend=None, stages=None, options=None, language=None, capability=None):  # called by name
        if stages is None:
            return ("row split", "row split")

        def stop(mod: Any, metadata: Any) -> Any:
            found.append(mod.str())
            raise _Enough

        stages["ttgir"] = stop
        return None

    with knobs.compilation.scope(), knobs.runtime.scope():
        knobs.compilation.always_compile = True
        knobs.runtime.add_stages_inspection_hook = hook
        with contextlib.suppress(_Enough):
            triton.compile(source, target=gpu_target(SM_90), options={"num_warps": 8, **options})
    return found[0]
