"""`tawa.explain`: compiles a kernel, or takes a compiled one, and makes its explanation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.compile import compile_kernel, jit_function
from tawa.bridge.driver.request import Request, surrounding_request
from tawa.bridge.gluon.compile import compile_gluon, lower_gluon
from tawa.bridge.gluon.verdicts import LEFT
from tawa.bridge.launch.added_arguments import compiled_by_stock
from tawa.bridge.launch.answer import Answer, answer_for
from tawa.bridge.launch.first.compiles import launched_by_us, overflow_refused
from tawa.bridge.launch.launcher import states_of, taken_over
from tawa.bridge.launch.why_stock import why_stock
from tawa.bridge.mapping.mapped import program_of_text
from tawa.bridge.report import record as records
from tawa.bridge.report.report import KernelReport, report
from tawa.bridge.triton.device import backend_option_names, capability_of
from tawa.bridge.triton.jitted import default_constants, is_gluon
from tawa.bridge.triton.signature import Signature, as_signature
from tawa.declines import THIS_LAUNCH
from tawa.flow import Outcome
from tawa.ir import Module, parse_module
from tawa.machine.machines import SM_90, Machine, machine_named
from tawa.mapping.of_plan import mapping_text
from tawa.mapping.tasks import tasks_of
from tawa.plan.reasons import decision_of
from tawa.plan.search.prediction import EXPECTED
from tawa.runtime.explain.candidates import Candidates, candidates_of
from tawa.runtime.explain.explanation import Explanation
from tawa.runtime.explain.explicit import NamedProgram, checked, is_explicit, ring_ends
from tawa.runtime.explain.source import names_of_plan, source_of_kernel
from tawa.runtime.explain.timelines import SimulatedLaunch, timelines_of
from tawa.runtime.jit import is_under_tawa
from tawa.runtime.progress import progress
from tawa.runtime.requests import make_request, refuse_options, reject_unknown, take_options
from tawa.runtime.settings import Settings
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.rings import Rings


def explain(
    kernel: Any,
    signature: str | Signature | None = None,
    constexprs: Mapping[str, Any] | None = None,
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    sass: bool = False,
    arguments: Mapping[str, Any] | None = None,
    grid: Sequence[int] | None = None,
    arch: str = "",
    timeline: bool = False,
    **options: Any,
) -> Explanation:
    """Explains a kernel: what its launches get, why, and what it costs.

    kernel: a compiled kernel (what a launch or `compile_kernel` returns); or a jitted kernel that was launched, whose
    last launched version is explained; or, with `signature` and `constexprs`, a jitted kernel to compile now, without a
    GPU.
    signature: in Triton's notation, ``"a=tensordesc<fp16[128,64]>, p=*fp16:16, K=i32:16"``.
    arguments, grid: of one launch: numbers and tensors by name, one to three sizes. The answer is then for this launch,
    as far as they determine it.
    arch: the GPU to compile for, ``"sm_90"`` or ``"sm_100"``; by default the one whose operations a Gluon kernel has,
    else sm_90.
    timeline: also simulate a program of the kernel and of stock Triton's, for `Explanation.timelines`; sizes that
    `arguments` and `grid` leave open are guessed.
    options: Tawa's options, as at a launch, and further ones of Triton's backend. sass: also count machine
    instructions.

    Runs ptxas once (0.1 to 1 s), and compiles stock Triton's kernel once, for its prediction. Raises ValueError for a
    jitted kernel that has not been compiled yet.
    """
    if signature is not None:
        # As for a launch, which may get descriptors from the launcher and a persistent form.
        function = jit_function(kernel)
        with progress(f"compiling {function.__name__}"), overflow_refused(), launched_by_us(function=function):
            kernel = compile_with_options(
                kernel,
                signature,
                constexprs or {},
                num_warps=num_warps,
                num_stages=num_stages,
                target=machine_named(arch) if arch else None,
                **options,
            )
    compiled = kernel if hasattr(kernel, "asm") else last_compiled(kernel)
    numbers = {name: it for name, it in (arguments or {}).items() if isinstance(it, int | float)}
    simulated = SimulatedLaunch(numbers, grid=grid) if timeline else None
    return explain_compiled(compiled, sass, arguments, grid, simulated)


def compile_with_options(
    kernel: Any,
    signature: str | Signature,
    constexprs: Mapping[str, Any],
    *,
    num_warps: int = 4,
    num_stages: int = 3,
    target: Machine | None = None,
    **options: Any,
) -> Any:
    """Compiles ahead of time what a launch with these options would get; arguments as for `explain`.

    target: the GPU; None for the one that a Gluon kernel's operations need, else sm_90. Raises TargetError.
    """
    function = jit_function(kernel)
    if is_gluon(function):
        refuse_options(function, take_options(options))
        reject_unknown(options, backend_option_names(), "a compile")
        constants = {**default_constants(function, num_warps), **constexprs}
        signature = as_signature(signature, constants, function.arg_names)
        first, options = target or SM_90, {"num_warps": num_warps, **options}
        try:
            return compile_gluon(function, signature, target=first, **options)
        except Exception:
            needed, _ = lower_gluon(function, signature, target, **options)  # raises if the reason is not the GPU
            if needed is first:
                raise
        return compile_gluon(function, signature, target=needed, **options)
    request = request_of(function, take_options(options))
    reject_unknown(options, backend_option_names(), "a compile")
    fixed = [it.name for it in function.params if it.is_constexpr]
    signature = as_signature(signature, constexprs, function.arg_names, fixed)
    sizes = {"num_warps": num_warps, "num_stages": num_stages}
    return compile_kernel(function, signature, request, **sizes, target=target or SM_90, **options)


def request_of(function: Any, ours: dict[str, Any]) -> Request:
    """The request of a launch of a jitted function with these options of Tawa's."""
    if is_under_tawa(function):
        return function.request_for(ours)
    return make_request(ours, surrounding_request(), Settings.from_environment())


def last_compiled(kernel: Any) -> Any:
    """The kernel that a jitted function launched last, or compiled last; raises ValueError before the first."""
    function = jit_function(kernel)
    compiled = getattr(function, "last_kernel", None)
    if compiled is None:
        caches = [kernels for kernels, *_ in getattr(function, "device_caches", {}).values()]
        compiled = next((kernel for kernels in caches for kernel in reversed(kernels.values())), None)
    if compiled is None:
        raise ValueError(
            f"{function.__name__} has not been compiled yet; cure: launch it first, or give a signature and constexprs"
        )
    return compiled.result() if hasattr(compiled, "result") else compiled


def explain_compiled(
    compiled: Any, sass: bool = False, arguments: Mapping[str, Any] | None = None, grid: Sequence[int] | None = None,
    simulated: SimulatedLaunch | None = None,
) -> Explanation:  # fmt: skip
    """Explains Triton's `CompiledKernel`, also one from the cache on disk. arguments, grid: of one launch.

    simulated: the launch of the timelines; None for none.
    """
    if is_explicit(compiled):  # every launch gets the same
        return _explain_explicit(compiled, sass, simulated)
    launched, compiled = compiled, taken_over(compiled)
    data: Mapping[str, Any] = getattr(compiled.metadata, records.KEY, None) or _stock_record(compiled)
    answer = answer_for(compiled, arguments, grid)
    candidates = candidates_of(compiled, answer, arguments, grid)
    left = answer.decision == "declined" and (data["applied"] or bool(answer.reason))
    # explains the kernel that such launches get
    if left and data["applied"]:
        compiled = compiled_by_stock(compiled, attached)
    elif answer.compiled is not None:
        compiled = answer.compiled
        form: Mapping[str, Any] = getattr(compiled.metadata, records.KEY)
        data = {**form, **{name: data[name] for name in _ASKED}, "decisions": _of_launch(form, asked=data)}
    seen = report(compiled, sass)
    found = Explanation(
        kernel=data["kernel"],
        applied=data["applied"],
        reason=data["reason"],
        location=data["location"],
        cure=data["cure"],
        mode=data["mode"],
        plan=records.plan_of(data),
        **_measures(compiled, data, seen),
        remarks=(
            *(_remark_text(it) for it in _with_facts(data["remarks"], candidates)),
            *([_UNMARKED.format(", ".join(answer.unmarked))] if answer.unmarked else []),
            *states_of(launched),
        ),
        reproducer=data["reproducer"],
        verification=data["verification"],
        verdict=data["verdict"],
        decision=answer.decision,
        condition=answer.condition,
        resolved=_resolved(answer),
        wherever_legal=data.get("wherever_legal", False),
        decisions=tuple(map(decision_of, data.get("decisions", ()))),
        back_end_runs=tuple(data.get("back_end_runs", ())),
        candidates=candidates,
    )
    found = _left_to_stock(found, answer) if left else _with_mapping(found, compiled)
    module = parse_module(compiled.asm["barrier"]) if found.applied and "barrier" in compiled.asm else None
    names = names_of_plan(found.plan) if found.plan is not None else {}
    return _with_pictures(found, compiled, module, names, simulated)


def _with_pictures(
    found: Explanation, compiled: Any, module: Module | None, names: Mapping[str, str],
    simulated: SimulatedLaunch | None,
) -> Explanation:  # fmt: skip
    """The explanation with the kernel's source, and with timelines if they are asked for.

    module: the program that runs; None for one without partitions. names: of its partitions.
    """
    place = records.kernel_location(compiled.asm.get("ttir", compiled.asm.get("ttgir", "")))
    source = source_of_kernel(module, names, str(place) if place is not None else None)
    ends = ring_ends(Rings(Accesses(module.op)), names, found.plan is not None) if module is not None else ()
    timelines, note = timelines_of(compiled, simulated, module) if simulated is not None else ((), "")
    return replace(found, source=source, ring_ends=ends, timelines=timelines, timeline_note=note)


def _of_launch(form: Mapping[str, Any], asked: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The decisions of the form that a launch gets: what the launcher's Plan pins is not what the user asked for."""
    own = {it["field"] for it in asked.get("decisions", ()) if it["by"] != "planner"}
    chosen = {"by": "planner", "reason": "this launch gets the form that is predicted to be the fastest"}
    return [
        {**it, **chosen} if it["by"] == "user" and it["field"] not in own else it for it in form.get("decisions", ())
    ]


_UNMARKED = (
    "compiled without ':16' for {}, which keeps stock Triton's loads narrow; every launch whose argument is a multiple "
    "of 16 is compiled with it: put ':16' behind the type to see what such launches get"
)
_ASKED = ("mode", "wherever_legal")
"""How the user asked for a kernel; the launcher asks for its other forms by Plans."""


def _measures(compiled: Any, data: Mapping[str, Any], seen: KernelReport) -> dict[str, Any]:
    """The fields of an explanation that are read from the compiled kernel, in any language."""
    return {
        "shared_bytes": compiled.metadata.shared,
        "registers": seen.ptxas.registers,
        "spill_bytes": seen.ptxas.spill_bytes,
        "wgmma_waits": seen.ptx.wgmma_waits,
        "compile_ms": data["compile_ms"],
        "tawa_ms": data["tawa_ms"],
        "stage_ms": tuple(data["stage_ms"].items()),
        "versions": tuple(data["versions"].items()),
        "report": seen,
        "target": f"sm_{capability_of(compiled)}",
    }


def _explain_explicit(compiled: Any, sass: bool, simulated: SimulatedLaunch | None) -> Explanation:
    """Explains a Gluon kernel, which is compiled as it is."""
    data: Mapping[str, Any] = getattr(compiled.metadata, records.KEY, None) or _stock_record(compiled)
    module, verification, verdict = checked(compiled)
    found = verdict["verdict"] if verdict is not None else "unknown"
    seen = report(compiled, sass)
    program = NamedProgram.of(module)
    explanation = Explanation(
        kernel=data["kernel"],
        applied=False,
        reason=LEFT,
        location=verdict["location"] if verdict is not None and found != "proved" else None,
        cure="tawa verify shows the run that goes wrong" if found == "refuted" else "",
        mode=data["mode"],
        plan=None,
        **_measures(compiled, data, seen),
        remarks=(LEFT,),
        verification=verification,
        verdict=verdict,
        decision="explicit",
        program=program,
    )
    return _with_pictures(explanation, compiled, module, program.names, simulated)


def _with_mapping(found: Explanation, compiled: Any) -> Explanation:
    """The explanation with the Plan in the kernel's own words."""
    if found.plan is None or "ttir" not in compiled.asm:
        return found
    program = program_of_text(compiled.asm["ttir"])
    text = mapping_text(found.plan, program, found.decisions)
    return replace(found, mapping=text, tasks=tasks_of(found.plan, program))


def _resolved(answer: Answer) -> dict[str, Any] | None:
    if answer.known is None:
        return None
    return {"known": dict(answer.known), "found": answer.found or None, "reason": answer.reason or None}


def _left_to_stock(found: Explanation, answer: Answer) -> Explanation:
    """The explanation of a launch that gets the stock kernel, without the facts about the specialised one."""
    which = "this launch is" if answer.known is not None else "all launches are"
    reason = THIS_LAUNCH.text(which=which, why=answer.reason)
    return replace(
        found, applied=False, reason=reason, location=None, cure=answer.cure, plan=None, remarks=(reason,),
        verdict=None, compile_ms=None, tawa_ms=None, stage_ms=(), decisions=(), back_end_runs=(),
        mapping="", tasks=(),
    )  # fmt: skip


def _stock_record(compiled: Any) -> records.Record:
    """The record of a kernel that was compiled without Tawa."""
    request = Request()
    declined = Outcome(False, None, (why_stock(compiled, off=Settings.from_environment().enable == "off"),))
    data = records.make_record(compiled.metadata.name, request, request.options, declined, {}, 0.0)
    return data | {"tawa_ms": None, "mode": "stock"}


def _with_facts(remarks: Sequence[Mapping[str, Any]], candidates: Candidates) -> list[Mapping[str, Any]]:
    """The remarks of a compile; its prediction as it is now, with what is known of the compiled stock kernel."""
    return [
        {**it, "reason": candidates.expected} if candidates.expected and it["reason"].startswith(EXPECTED) else it
        for it in remarks
    ]


def _remark_text(remark: Mapping[str, Any]) -> str:
    where = f" ({remark['location']})" if remark["location"] else ""
    cure = f"; cure: {remark['cure']}" if remark["cure"] else ""
    return f"{remark['reason']}{where}{cure}"
