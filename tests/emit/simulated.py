"""Programs in TTGIR and what becomes of them in Gluon, compared bit by bit in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tawa.bridge.gluon.emit import load_emitted
from tawa.bridge.triton.device import gpu_target
from tawa.bridge.triton.generic_print import print_generic
from tawa.bridge.triton.structured import new_context
from tawa.dialects.tt import FuncOp
from tawa.emit.module import Emitted, gluon_source
from tawa.ir import Module, parse_module
from tawa.machine.machines import SM_90
from tawa.sim import simulate
from tests.emit.random_ir import LAUNCHES, SIGNATURE, arguments


def ttgir_of(kernel: Any, types: Mapping[str, str], num_warps: int = 4) -> Module:
    """Compiles a `gluon.jit` function only up to its final TTGIR. types: of the parameters, in Triton's notation."""
    from triton.backends.compiler import Language
    from triton.compiler.compiler import make_backend
    from triton.experimental.gluon._runtime import GluonASTSource

    target = gpu_target(SM_90)
    backend: Any = make_backend(target)
    options = backend.parse_options({"num_warps": num_warps})
    source, context = GluonASTSource(kernel, dict(types)), new_context()
    functions, modules = backend.get_codegen_implementation(options), backend.get_module_map()
    module = source.make_ir(target, options, functions, modules, context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, Language.GLUON)
    return parse_module(print_generic(stages["ttgir"](module, {})))


def compiled_again(emitted: Emitted, types: Mapping[str, str] = SIGNATURE) -> Module:
    """The final TTGIR of an emitted file, whose parameters have their names, also where a variable became another."""
    names = [it.name for it in emitted.parameters]
    module = ttgir_of(load_emitted(emitted)[emitted.kernel], {name: types[name] for name in names})
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    for argument, name in zip(function.body.args, names, strict=True):
        argument.loc = f'loc("{name}"(unknown))'
    return module


def same_bits(text: str) -> str:
    """Emits a program with the parameters of `random_ir`; returns the text. Raises AssertionError for other bits."""
    module = parse_module(text)
    emitted = gluon_source(module)
    again = compiled_again(emitted)
    for launch in LAUNCHES:
        wanted, found = arguments(launch), arguments(launch)
        simulate(module, wanted, (1,))
        simulate(again, found, (1,))
        for name, values in wanted.items():
            assert np.asarray(values).tobytes() == np.asarray(found[name]).tobytes(), f"{name}\n{emitted.text}"
    return emitted.text


__all__ = ["compiled_again", "same_bits", "ttgir_of"]
