"""A kernel as Triton lowers it to TTGIR, and no further: what checks and the simulator read.

    source → (ttir →) ttgir            in a child process, which returns the texts
    LLVM, ptxas                        do not run: LLVM ends the process at what a GPU does not have

The texts are read in this process without Triton. Nothing is kept in Triton's cache.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tawa.bridge.driver.request import activate
from tawa.bridge.triton.apart import text_apart
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.read_module import unspecialised_text
from tawa.bridge.triton.structured import new_context
from tawa.ir import Module, parse_module
from tawa.machine.target import Target
from tawa.remarks import SourceLocation


@dataclass(frozen=True)
class Lowered:
    """A kernel before LLVM. ttir: Triton's text; empty for Gluon. ttgir: the final one, in MLIR's generic form.

    named: the kernel in messages, and where it is defined.
    """

    named: tuple[str, SourceLocation]
    target: Target
    ttir: str
    ttgir: str

    @cached_property
    def module(self) -> Module:
        """The final TTGIR."""
        return parse_module(self.ttgir)

    def unspecialised(self, *, num_warps: int, num_stages: int) -> Module:
        """The TTGIR before Triton's pipeliner. num_warps, num_stages: of the compile. Raises as `lowered`."""

        def work() -> str:
            return unspecialised_text(self.ttir, self.target, num_warps=num_warps, num_stages=num_stages)

        return parse_module(text_apart(work, *self.named, self.target))


def lowered(source: Any, named: tuple[str, SourceLocation], target: Target, options: Mapping[str, Any]) -> Lowered:
    """Lowers a kernel. source: what `triton.compile` takes. named: the kernel, and its place. options: of the backend.

    Raises CompileError if Triton refuses the kernel or ends the process, and what Triton's front end raises.
    """
    text = text_apart(lambda: json.dumps(_texts(source, target, options)), *named, target)
    return Lowered(named, target, *json.loads(text))


def _texts(source: Any, target: Target, options: Mapping[str, Any]) -> tuple[str, str]:
    """The TTIR and the TTGIR: the first stages of `triton.compile`."""
    from triton.compiler.compiler import make_backend

    gpu = gpu_target(target)
    backend: Any = make_backend(gpu)
    parsed = backend.parse_options({**options, **source.parse_options()})
    context = new_context()
    module = source.make_ir(gpu, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    with activate(None):
        backend.add_stages(stages, parsed, source.language)
    names, ttir = list(stages), ""
    metadata = {"target": gpu, **vars(parsed)}
    for name in names[names.index(source.ext) : names.index("ttgir") + 1]:
        module = stages[name](module, metadata)
        if name == "ttir":
            ttir = str(module)
    return ttir, print_generic(module)


__all__ = ["Lowered", "lowered"]
