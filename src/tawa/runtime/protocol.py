"""The protocol of a kernel: its levels, and the verdict on them. Needs no GPU.

def test_gemm(assert_protocol):                       # the fixture of Tawa's pytest plugin
    assert_protocol(gemm, "a=tensordesc<fp16[128,64]>, …, K=i32:16", {"BM": 128, "BN": 128})
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tawa.bridge.driver.compile import compile_kernel
from tawa.bridge.gluon.compile import lower_gluon
from tawa.bridge.launch.first.compiles import launched_by_us, overflow_refused
from tawa.bridge.launch.why_stock import why_not_specialised
from tawa.bridge.triton.jitted import default_constants, is_gluon
from tawa.bridge.triton.read_module import read_final, read_levels
from tawa.bridge.triton.signature import Signature, as_signature
from tawa.bridge.triton.versions import refuse_untested
from tawa.ir import Module
from tawa.machine.machines import SM_90, Machine, machine_named
from tawa.runtime.explain.explaining import request_of
from tawa.runtime.progress import progress
from tawa.verify.check import check_levels
from tawa.verify.verdict import Accept, Checked, Proved, Refuted, Verdict
from tawa.verify.witness import format_witness


@dataclass(frozen=True, slots=True)
class Levels:
    """What is checked of a kernel. declined: why Tawa does not specialise it; then `barrier` is stock Triton's program.

    aref: of a specialised kernel only. specialised: None for a kernel in Gluon, which is explicit already. target: what
    it was compiled for.
    """

    aref: Module | None
    barrier: Module
    target: Machine
    declined: str = ""
    specialised: bool | None = None


def compile_unchecked(
    kernel: Any, signature: Signature, options: dict[str, Any], *, num_warps: int, num_stages: int,
    target: Machine = SM_90,
) -> Any:  # fmt: skip
    """Compiles as for a launch, but without verification, for those who check or run the levels.

    target: the GPU. Returns Triton's `CompiledKernel`. Raises CompileError on an untested Triton, whose levels may
    differ.
    """
    refuse_untested(f"{kernel.__name__} is not specialised")
    request = replace(request_of(kernel, options), verification="off")
    with overflow_refused(), launched_by_us(function=kernel):
        return compile_kernel(kernel, signature, request, num_warps=num_warps, num_stages=num_stages, target=target)


def levels_of(
    kernel: Any, signature: Signature, options: dict[str, Any], *, num_warps: int, num_stages: int,
    target: Machine | None = None,
) -> Levels:  # fmt: skip
    """The levels of a specialised kernel; stock Triton's program of a declined one; a Gluon kernel as it is.

    target: the GPU; None for the one that a Gluon kernel's operations need, else sm_90. Raises TargetError.
    """
    if is_gluon(kernel):
        found, module = lower_gluon(kernel, signature, target, num_warps=num_warps)
        return Levels(None, module, found)
    target = target or SM_90
    compiled = compile_unchecked(kernel, signature, options, num_warps=num_warps, num_stages=num_stages, target=target)
    declined = why_not_specialised(compiled)
    if declined:
        return Levels(None, read_final(compiled), target, declined, specialised=False)
    aref, barrier = read_levels(compiled)
    return Levels(aref, barrier, target, specialised=True)


def check_protocol(
    kernel: Any,
    signature: str | Signature,
    constexprs: Mapping[str, Any] | None = None,
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    assume: Sequence[str] = (),
    trips: int | None = None,
    arch: str = "",
    **options: Any,
) -> Verdict:
    """Checks that no run of a kernel deadlocks or races, for all interleavings of its warps and copies.

    Args:
        kernel: a function under `triton.jit`, `tawa.jit` or `gluon.jit`. Triton's are specialised wherever that is
            legal; stock Triton's program is checked of others.
        signature: the types of its arguments, as for `tawa.explain`.
        constexprs: the values of its constexpr parameters.
        num_warps: as it would be launched with.
        num_stages: the same.
        assume: facts about scalar arguments, such as ``"K >= 128"``.
        trips: the largest trip count tried for an innermost loop.
        arch: the GPU, ``"sm_90"`` or ``"sm_100"``; by default the one whose operations a Gluon kernel has, else sm_90.
        options: Tawa's launch options.

    Returns:
        A `Proved`, a `Checked` with the runs that were tried and what was not proved, a `Refuted` with the run that
        goes wrong, or an `Unknown`.

    Raises:
        CompileError: Triton refuses the kernel.
        PlanError: the signature, a constant or an option does not fit.
        TargetError: `arch` is not known, or the kernel has operations of another GPU.
    """
    target = machine_named(arch) if arch else None
    constants = {**default_constants(kernel, num_warps), **(constexprs or {})}
    types = as_signature(signature, constants, kernel.arg_names)
    wanted = {"only_if_faster": False, **options}
    with progress(f"compiling {kernel.__name__}"):
        found = levels_of(kernel, types, wanted, num_warps=num_warps, num_stages=num_stages, target=target)
    with progress(f"checking {kernel.__name__}") as tell:
        return check_levels(
            found.aref, found.barrier, assume=assume, max_trips=trips,
            told=lambda check, used, budget: tell(used, budget, check),
        )  # fmt: skip


def assert_protocol(
    kernel: Any,
    signature: str | Signature,
    constexprs: Mapping[str, Any] | None = None,
    *,
    accept: Accept = "proved",
    **more: Any,
) -> Proved | Checked:
    """As `check_protocol`; raises AssertionError, which shows the run or the reason, unless the protocol is proved.

    With ``accept="checked"``, runs of stated numbers without a fault are enough.
    """
    verdict = check_protocol(kernel, signature, constexprs, **more)
    name = getattr(kernel, "__name__", str(kernel))
    if isinstance(verdict, Proved) or (isinstance(verdict, Checked) and accept == "checked"):
        return verdict
    if isinstance(verdict, Refuted):
        kind, text = verdict.witness.kind, format_witness(verdict.witness)
        raise AssertionError(f"the protocol of {name} is wrong: {kind}: {text.removeprefix(f'{kind}: ')}")
    place = f" ({verdict.location})" if verdict.location else ""
    if isinstance(verdict, Checked):
        raise AssertionError(
            f"the protocol of {name} is checked, not proved: {verdict.bound}\n  not proved: {verdict.left}{place}\n"
            '  cure: accept="checked" accepts a check of these runs'
        )
    raise AssertionError(f"the protocol of {name} is not proved: {verdict.reason}{place}")
