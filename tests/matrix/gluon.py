"""The hand-written Gluon kernels of the benches, compiled to TTGIR without a GPU."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.triton.generic_print import print_generic
from tawa.ir import Module, parse_module


class _Reached(Exception):
    """Stops the compile after TTGIR."""


def gluon_module(
    kernel: Any,
    boxes: Mapping[str, list[int]],
    constants: Mapping[str, Any],
    dtypes: Mapping[str, str],
    scalars: Mapping[str, str],
) -> Module:
    """Compiles a Gluon kernel.

    boxes, dtypes: of its descriptors. scalars: types of other arguments that are not i32. constants: of its constexprs.
    """
    import triton
    from triton import knobs
    from triton.backends.compiler import GPUTarget
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon._runtime import GluonASTSource

    kinds = {"fp16": gl.float16, "fp8e4nv": gl.float8e4nv}
    signature = {name: "constexpr" if name in constants else scalars.get(name, "i32") for name in kernel.arg_names}
    for name, block in boxes.items():
        layout = gl.NVMMASharedLayout.get_default_for(block, kinds[dtypes[name]])
        signature[name] = f"tensordesc<{dtypes[name]}[{','.join(map(str, block))}],{layout!r}>"
    values = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    printed: list[str] = []

    def hook(backend: Any = None, stages: Any = None, *rest: Any, **more: Any) -> Any:
        if stages is None:
            return "gluon", "gluon"
        original = stages["ttgir"]

        def stage(mod: Any, metadata: Any) -> Any:
            printed.append(print_generic(original(mod, metadata)))
            raise _Reached

        stages["ttgir"] = stage
        return None

    with knobs.runtime.scope(), knobs.compilation.scope():
        knobs.runtime.add_stages_inspection_hook = hook
        knobs.compilation.always_compile = True
        try:
            source = GluonASTSource(kernel, signature, values)
            triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": constants["num_warps"]})
        except _Reached:
            pass
    return parse_module(printed[0])
