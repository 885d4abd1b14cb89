"""A kernel as Triton lowers it to TTGIR, and no further: what checks and the simulator read.

    source → (ttir →) ttgir            in a child process, which returns the text
    LLVM, ptxas                        do not run: LLVM ends the process at what a GPU does not have

The text is read in this process without Triton. Nothing is kept in Triton's cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.driver.request import activate
from tawa.bridge.triton.apart import text_apart
from tawa.bridge.triton.device import gpu_target, whole_options
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.structured import new_context
from tawa.ir import Module, parse_module
from tawa.machine.machines import Machine
from tawa.remarks import SourceLocation


def lowered(source: Any, named: tuple[str, SourceLocation], target: Machine, options: Mapping[str, Any]) -> Module:
    """The final TTGIR of a kernel.

    source: what `triton.compile` takes. named: the kernel, and its place. options: of the backend.

    Raises CompileError if Triton refuses the kernel or ends the process, and what Triton's front end raises.
    """
    return parse_module(text_apart(lambda: _text(source, target, options), *named, target))


def _text(source: Any, target: Machine, options: Mapping[str, Any]) -> str:
    """The TTGIR: the first stages of `triton.compile`."""
    from triton.compiler.compiler import make_backend

    gpu = gpu_target(target)
    backend: Any = make_backend(gpu)
    parsed = backend.parse_options(whole_options({**options, **source.parse_options()}))
    context = new_context()
    module = source.make_ir(gpu, parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    with activate(None):
        backend.add_stages(stages, parsed, source.language)
    names = list(stages)
    metadata = {"target": gpu, **vars(parsed)}
    for name in names[names.index(source.ext) : names.index("ttgir") + 1]:
        module = stages[name](module, metadata)
    return print_generic(module)
