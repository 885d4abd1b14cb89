"""`tawa.emit_gluon`: a specialised kernel as a module in Gluon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.driver.compile import jit_function
from tawa.bridge.gluon import emit
from tawa.bridge.launch.first.compiles import launched_by_us, overflow_refused
from tawa.bridge.triton.signature import Signature
from tawa.runtime.explain.explaining import compile_with_options, last_compiled


def emit_gluon(
    kernel: Any,
    signature: str | Signature | None = None,
    constexprs: Mapping[str, Any] | None = None,
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    **options: Any,
) -> str:
    """The text of a Gluon module that does what a specialised kernel does, with a function `launch`.

    kernel, signature, constexprs, options: as for `tawa.explain`: a compiled kernel (what a launch returns); a jitted
    kernel that was launched; or, with a signature, one to compile now, as for a launch.

    Raises EmitError for a kernel that is not specialised, or that uses what Gluon has no word for; ValueError for a
    jitted kernel that has not been compiled yet.
    """
    if signature is not None:
        with overflow_refused(), launched_by_us(function=jit_function(kernel)):
            kernel = compile_with_options(
                kernel, signature, constexprs or {}, num_warps=num_warps, num_stages=num_stages, **options
            )
    compiled = kernel if hasattr(kernel, "asm") else last_compiled(kernel)
    return emit.emit_gluon(compiled).text
