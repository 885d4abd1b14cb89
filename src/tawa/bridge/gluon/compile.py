"""Gluon kernels, compiled ahead of time on a machine without a GPU. They are explicit: Tawa reads them as they are."""

from __future__ import annotations

import re
from typing import Any

from tawa.bridge.driver.compile import hopper_target
from tawa.bridge.triton.apart import compiled_apart
from tawa.bridge.triton.artifacts.cache_entries import repaired
from tawa.bridge.triton.jitted import definition_of
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.surroundings import surroundings_named
from tawa.bridge.triton.versions import refuse_untested
from tawa.remarks import SourceLocation

_BARE = re.compile(r"tensordesc<(?P<element>\w+)\[(?P<shape>[\d,\s]+)\]>")


def compile_gluon(kernel: Any, signature: Signature, *, num_warps: int, **backend_options: Any) -> Any:
    """Compiles a `gluon.jit` function for Hopper; returns Triton's `CompiledKernel`.

    signature: as for `compile_kernel`. A descriptor without a layout gets the default one of its box. num_warps: of
    the default partition. backend_options: further options of Triton's backend. Raises CompileError if Triton refuses
    the kernel.
    """
    import triton
    from triton.experimental.gluon._runtime import GluonASTSource

    types = {name: with_layout(kind) for name, kind in signature.types.items()}
    try:
        with surroundings_named(kernel):
            source = GluonASTSource(kernel, types, signature.constants, signature.attributes)
            options = {"num_warps": num_warps, **backend_options}
            return compiled_apart(
                lambda: repaired(lambda: triton.compile(source, target=hopper_target(), options=options)),
                f"the kernel {kernel.__name__}",
                SourceLocation(kernel.fn.__code__.co_filename, definition_of(kernel)[0]),
            )
    except Exception as error:
        refuse_untested(f"{kernel.__name__} is not compiled ({type(error).__name__}: {error})")
        raise


def with_layout(kind: str) -> str:
    """A type in Gluon's notation: a descriptor names the layout of its tiles in shared memory."""
    found = _BARE.fullmatch(kind)
    if found is None:
        return kind
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.language import str_to_ty

    shape = [int(it) for it in found["shape"].split(",")]
    layout = NVMMASharedLayout.get_default_for(shape, str_to_ty(found["element"], None))
    return f"tensordesc<{found['element']}[{','.join(map(str, shape))}],{layout!r}>"
