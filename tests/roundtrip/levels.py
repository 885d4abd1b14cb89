"""Compiles a case with a round trip of one level through `tawa.ir` and Triton's parser."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass
from typing import Any, Literal

import triton
from triton import knobs
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler import ASTSource

from tawa.bridge.driver.forms import JUMPS
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import parse_module, print_generic
from tawa.bridge.triton.stages import StageSplit, clean_up, split_make_ttgir
from tawa.bridge.triton.structured import read_kernel
from tawa.bridge.triton.versions import installed_text
from tawa.flow import Outcome
from tawa.ir import parse_module as read
from tawa.ir import print_module
from tawa.machine.machines import SM_90
from tawa.plan import PlanOptions
from tawa.plan.decide.rings import Target
from tests.cases.case import Specimen
from tests.support.pipeline import specialise

DEPTH = 2
"""D of every specialised kernel."""

Level = Literal["none", "ttir", "ttgir", "back", "barrier", "barrier twice"]


@dataclass(frozen=True, slots=True)
class Made:
    """The result of a compile. texts: the output of `tawa.ir`. ttgir: the input of specialisation."""

    ptx: str
    cubin: str
    texts: tuple[str, ...]
    shared_bytes: int = 0
    ttgir: str = ""


def compile_through(case: Specimen, level: Level) -> Made:
    """Compiles `case` for Hopper.

    none: stock. ttir, ttgir: stock, with that level read and printed (ttgir before Triton's pipeliner, back behind it).
    barrier: specialised. barrier twice: the same, with the barrier level printed by Triton and read once more.
    """
    texts: list[str] = []
    split = split_make_ttgir(CUDABackend)
    assert split is not None

    def again(mod: Any, text: str, *drop: str) -> Any:
        module = read(text)
        for name in drop:
            del module.op.attributes[name]
        texts.append(print_module(module))
        return parse_module(texts[-1], mod.context)

    def hook(
        backend: Any = None, stages: Any = None, options: Any = None, language: Any = None, capability: Any = None
    ) -> Any:
        if stages is None:
            return (level, hashlib.sha256(level.encode()).hexdigest())
        ttir = stages["ttir"]
        if level == "ttir":
            stages["ttir"] = lambda mod, metadata: _reread_ttir(ttir(mod, metadata), again)
        elif level != "none":
            stages["ttgir"] = lambda mod, metadata: _ttgir(level, split, mod, metadata, options, capability, again)
        return None

    source = ASTSource(case.kernel, case.signature(), _constants(case), case.attributes())
    with knobs.compilation.scope(), knobs.runtime.scope():
        knobs.compilation.always_compile = True
        knobs.runtime.add_stages_inspection_hook = hook
        compiled = triton.compile(source, target=gpu_target(SM_90), options=case.options())
    digest = hashlib.sha256(compiled.asm["cubin"]).hexdigest()
    before = getattr(compiled.metadata, "before", "")
    return Made(compiled.asm["ptx"], digest, tuple(texts), compiled.metadata.shared, before)


def _constants(case: Specimen) -> dict[tuple[int], Any]:
    names = case.kernel.arg_names
    return {(names.index(name),): value for name, value in case.constants().items()}


def _reread_ttir(mod: Any, again: Any) -> Any:
    """Makes Triton print the generic form by adding an attribute whose name has no dot; TTIR has none to replace."""
    from triton._C.libtriton import ir

    mod.set_attr("tawa", ir.builder(mod.context).get_string_attr("x"))
    text = mod.str()
    assert '"tt.func"' in text
    return again(mod, text, "tawa")


def _ttgir(level: Level, split: StageSplit, mod: Any, metadata: Any, options: Any, capability: int, again: Any) -> Any:
    text = str(mod)
    if level.startswith("barrier") and any(jump in text for jump in JUMPS):
        mod = parse_module(print_module(read_kernel(text, mod.context)), mod.context)
    mod = split.front(mod, metadata, options, capability)
    if level in ("ttgir", "back"):
        if level == "ttgir":
            mod = again(mod, print_generic(mod))
        mod = split.middle(mod, metadata, options, capability)
        if level == "back":
            mod = again(mod, print_generic(mod))
        return split.back(mod, metadata, options, capability)
    metadata["before"] = print_generic(mod)
    outcome = _specialised(metadata["before"], Target(options.num_warps, options.num_stages))
    mod = parse_module(installed_text(outcome.barrier, None), mod.context)
    if level == "barrier twice":
        mod = again(mod, print_generic(mod))
    return split.back(clean_up(mod, capability), metadata, options, capability)


@functools.cache
def _specialised(text: str, target: Target) -> Outcome:
    """Specialises once for both forms of the barrier level."""
    outcome = specialise(text, PlanOptions(aref_depth=DEPTH, mma_depth=1), target)
    assert outcome.applied, outcome.remarks
    assert print_module(read(outcome.aref), locations=False) == outcome.aref
    assert print_module(read(outcome.barrier)) == outcome.barrier
    return outcome
