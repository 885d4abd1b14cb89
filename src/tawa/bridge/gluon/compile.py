"""Gluon kernels, compiled ahead of time on a machine without a GPU. They are explicit: Tawa reads them as they are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tawa.bridge.triton.apart import compiled_apart
from tawa.bridge.triton.artifacts.cache_entries import repaired
from tawa.bridge.triton.device import gpu_target, whole_options
from tawa.bridge.triton.jitted import named
from tawa.bridge.triton.lowered import lowered
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.surroundings import surroundings_named
from tawa.bridge.triton.versions import refuse_untested
from tawa.errors import CompileError, TargetError
from tawa.ir import Module, Operation, source_of
from tawa.machine.machines import MACHINES, SM_90, Machine
from tawa.machine.needed import needed_target

_BARE = re.compile(r"tensordesc<(?P<element>\w+)\[(?P<shape>[\d,\s]+)\]>")


def compile_gluon(
    kernel: Any, signature: Signature, *, num_warps: int, target: Machine = SM_90, **backend_options: Any
) -> Any:
    """Compiles a `gluon.jit` function; returns Triton's `CompiledKernel`.

    signature: as for `compile_kernel`. A descriptor without a layout gets the default one of its box. num_warps: of
    the default partition. backend_options: further options of Triton's backend. Raises CompileError if Triton refuses
    the kernel.
    """
    import triton

    options = whole_options({"num_warps": num_warps, **backend_options})
    with _compiling(kernel):
        source = gluon_source(kernel, signature)
        return compiled_apart(
            lambda: repaired(lambda: triton.compile(source, target=gpu_target(target), options=options)),
            *named(kernel),
            target,
        )


def lower_gluon(
    kernel: Any, signature: Signature, asked: Machine | None, *, num_warps: int, **backend_options: Any
) -> tuple[Machine, Module]:
    """The final TTGIR of a `gluon.jit` function, and its target: the one whose own operations it has, else sm_90.

    LLVM, which ends the process at what another GPU has, does not run. signature, num_warps, backend_options: as for
    `compile_gluon`. asked: the target that the user names. Raises TargetError if the kernel has operations of another,
    CompileError if Triton refuses the kernel.
    """
    options = {"num_warps": num_warps, **backend_options}
    first = asked or SM_90
    refused: CompileError | None = None
    for target in (first, *(it for it in MACHINES if it != first)):
        try:
            with _compiling(kernel):
                module = lowered(gluon_source(kernel, signature), named(kernel), target, options)
        except CompileError as error:  # from 3.9 on, Triton refuses the operations of another GPU
            refused = refused or error
            continue
        needed = needed_target(module)
        if target == first and (needed is None or needed[0] == first):
            return target, module
        if needed is None or needed[0] == first:
            break  # what was refused has another cause
        if asked is not None:
            raise _of_another(kernel, module, *needed, asked)
        if needed[0] == target:
            return target, module
    assert refused is not None
    raise refused


def _of_another(kernel: Any, module: Module, needed: Machine, op: Operation, asked: Machine) -> TargetError:
    """The error for a kernel that cannot be compiled for the target that was named."""
    what = f"{kernel.__name__} cannot be compiled for {asked}: {op.name} is an operation of {needed}"
    cure = f"--arch {needed.name}, or leave it out: the target then follows from the operations"
    return TargetError(what, cure, source_of(module, op))


def gluon_source(kernel: Any, signature: Signature) -> Any:
    """The kernel as Triton's `compile` takes it."""
    from triton.experimental.gluon._runtime import GluonASTSource

    types = {name: with_layout(kind) for name, kind in signature.types.items()}
    return GluonASTSource(kernel, types, signature.constants, signature.attributes)


@contextmanager
def _compiling(kernel: Any) -> Iterator[None]:
    """Names what refuses a kernel: a folder, Triton, or a Triton that was not tested."""
    try:
        with surroundings_named(kernel):
            yield
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
