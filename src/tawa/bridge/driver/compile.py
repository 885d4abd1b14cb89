"""Ahead-of-time compile on a machine without a GPU."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.request import Request, activate
from tawa.bridge.triton.apart import compiled_apart
from tawa.bridge.triton.artifacts.cache_entries import repaired
from tawa.bridge.triton.device import gpu_target, whole_options
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.surroundings import surroundings_named, temporary_text
from tawa.bridge.triton.versions import refuse_pinned, refuse_untested
from tawa.errors import CompileError, KernelError
from tawa.machine.machines import SM_90, Machine


def jit_function(kernel: Any) -> Any:
    """The `triton.jit` function under autotuners, heuristics and wrappers; raises KernelError without one."""
    from triton.runtime.jit import JITFunction

    inner = kernel
    while not isinstance(inner, JITFunction):
        inner = getattr(inner, "fn", None)
        if inner is None:
            raise KernelError(f"{kernel!r} is not a Triton kernel: a function under @triton.jit is needed")
    return inner


def compile_kernel(
    kernel: Any,
    signature: Signature,
    request: Request | None,
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    target: Machine = SM_90,
    **backend_options: Any,
) -> Any:
    """Compiles one kernel; no GPU and no driver are needed.

    kernel: a `triton.jit` function, also under autotune or heuristics, whose configurations are ignored.
    signature: types, constants and attributes of its arguments (`tawa.bridge.triton.signature.parse_signature`).
    request: None compiles with stock Triton. target: the GPU, which is thereby asked for.
    backend_options: further options of Triton's backend (``maxnreg``, ``enable_fp_fusion``, ...).

    Returns Triton's `CompiledKernel`; ``asm`` has ttir, ttgir, llir, ptx, cubin, sass, and under a request aref and
    barrier. Raises UnsupportedKernel, PlanError, ResourceError, InternalError as described in `tawa.errors`;
    CompileError if Triton refuses the kernel, SurroundingsError if a folder cannot be used.
    """
    import triton
    from triton.compiler import ASTSource

    function = jit_function(kernel)
    refuse_pinned(request is not None and request.pinned, function.__name__)
    options = whole_options({"num_warps": num_warps, "num_stages": num_stages, **backend_options})
    request = replace(request, arch=target.name) if request is not None and target is not SM_90 else request
    try:
        with surroundings_named(function), attached() if request is not None else nullcontext(), activate(request):
            source = ASTSource(function, signature.types, signature.constants, signature.attributes)
            return repaired(lambda: triton.compile(source, target=gpu_target(target), options=options))
    except Exception as error:
        # An untested Triton may take kernels in another way; the error itself would not help a user.
        refuse_untested(f"{function.__name__} is not compiled ({type(error).__name__}: {error})")
        if isinstance(error, CompileError) and error.location is not None:  # in the kernel
            cure = f"change the kernel, or the types that it is compiled for: {signature}"
            raise CompileError(error.what, error.location, error.calls, cure) from (error.__cause__ or error)
        raise


def compile_ttir(
    text: str, request: Request | None, *, num_warps: int, num_stages: int, file: Path = Path("ttir.mlir")
) -> Any:
    """Compiles a kernel from the text of its TTIR, as `compile_kernel` does from source. Used to replay a reproducer.

    file: where messages say that the text is.
    """
    import triton

    refuse_untested(f"{file.name} is not compiled")
    options = whole_options({"num_warps": num_warps, "num_stages": num_stages})
    with (
        surroundings_named(file.name),
        temporary_text(text, ".ttir") as source,  # the suffix tells Triton the level
        attached() if request is not None else nullcontext(),
        activate(request),
    ):
        try:
            return compiled_apart(
                lambda: repaired(lambda: triton.compile(source, target=gpu_target(SM_90), options=options)),
                file.name,
            )
        except CompileError as error:
            place = error.location
            if place is None or place.file != source:
                raise
            raise CompileError(error.what, replace(place, file=str(file))) from error
