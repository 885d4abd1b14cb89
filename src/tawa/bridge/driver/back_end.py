"""One run of the back end: a specialised module through Triton's back half, LLVM and ptxas."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

from tawa.analysis.memory.provenance import remakes_descriptors
from tawa.analysis.sums import uneven_sum
from tawa.bridge.driver.assembly.paired_products import paired_products
from tawa.bridge.driver.assembly.unwritten import is_sound
from tawa.bridge.driver.assembly.wgmma_descriptors import place_descriptors
from tawa.bridge.driver.data import Job, Specialised
from tawa.bridge.driver.spills import Spills, find_spills
from tawa.bridge.driver.stock_run import StockFailure
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.generic_print import parse_module, print_generic, without_temporary_places
from tawa.bridge.triton.stage_output import StageOutput, StageResult
from tawa.bridge.triton.stages import clean_up
from tawa.bridge.triton.versions import installed_text
from tawa.declines import REORDERED
from tawa.errors import PlanError, ProtocolError
from tawa.flow import Flow, Outcome
from tawa.ir import Module, copy_module, print_module, source_of
from tawa.ir import parse_module as read_module
from tawa.plan import Plan
from tawa.plan.cost.programs import ProgramFacts
from tawa.plan.cost.shared_use import LIMIT_BYTES, SharedUse, shared_use
from tawa.plan.decide.warps import check_sums
from tawa.remarks import Remark
from tawa.transforms.lowering.convert_first import ConvertFirst
from tawa.transforms.pipelining.hoist_conversions import HoistConversions
from tawa.transforms.pipelining.park_loads import ParkLoads
from tawa.transforms.pipelining.recompute_addresses import RecomputeAddresses
from tawa.transforms.pipelining.unroll_masked import UnrollMasked
from tawa.transforms.result import Pass, PassResult
from tawa.verify.check import trusted
from tawa.verify.layouts import difference
from tawa.verify.preserved import check_final
from tawa.verify.verdict import Checked, Refuted, Unknown
from tawa.verify.witness import chrome_trace, describe


def through_back_end(
    job: Job, outcome: Outcome, form: Flow, will_spill: bool = False
) -> Specialised | SharedUse | Remark:
    """Runs Triton's back half and later stages on our module. Returns the shared memory use if it is too large.

    A kernel without partitions goes through Triton's pipeliner too, and is rewritten behind it.
    Returns a remark that declines the kernel if it was proved, and can no longer be proved behind Triton's passes.
    Raises ProtocolError if these passes, or ours behind them, made it wrong; and PlanError for a kernel without
    partitions that would stay stock Triton's, or would round otherwise.
    will_spill: whether the kernel is expected to spill. The stock kernel, which it is then compared with, is compiled
    at the same time.
    """
    plan = outcome.plan
    assert plan is not None
    unpartitioned = plan.form == "unpartitioned"
    metadata = dict(job.metadata)
    options = replace(job.options, num_warps=form.target.num_warps)
    results: dict[str, StageResult] = {}
    with job.timed("ir_compat"):
        job.texts["installed"] = installed_text(outcome.barrier, outcome.module)
    with job.timed("parse"):
        mod = parse_module(job.texts["installed"], job.context)
    with job.timed("back", ours=False):
        if unpartitioned:
            mod = job.parts.middle(mod, metadata, options, job.capability)
        else:
            hoist = outcome.module is None or not remakes_descriptors(outcome.module)
            mod = clean_up(mod, job.capability, hoist=hoist)
        mod = job.parts.back(mod, metadata, options, job.capability)
    with job.timed("read final"):
        final = read_module(print_generic(mod))
    if unpartitioned and options.num_warps != job.options.num_warps:
        _check_sums(job, final, options.num_warps)
    with job.timed("conversions"):
        ahead = any(it.prefetched for it in plan.operands)
        rewritten, done = _rewritten(job, plan, final, options.num_warps) if unpartitioned else (False, ())
        outcome = replace(outcome, remarks=(*outcome.remarks, *done))
        if unpartitioned and not (rewritten or ahead or form.changed):
            raise PlanError(
                f"{job.kernel}: form='unpartitioned' changes nothing: no loop converts a tile that it need not, or "
                "loads rows that it may load ahead, and no tile is needed behind a loop only; cure: leave form out"
            )
        if ConvertFirst().run(final).changed or rewritten:
            mod = parse_module(print_module(final), job.context)
    text = without_temporary_places(str(mod))
    with job.timed("check final"):
        refusal = _refused(outcome, final, text)
    if refusal is not None:
        return refusal
    results["ttgir"] = StageResult(StageOutput(text, mod, job.context), dict(metadata))
    value: Any = mod
    said = ""
    for name, stage in job.later:
        with job.timed(name, ours=False), kept_log() as log:
            value = stage(value, metadata)
        said = said or log.text
        results[name] = StageResult(value, dict(metadata))
        if name == "llir":
            use = shared_use(int(metadata.get("shared") or 0), plan)
            if not use.fits():
                return use
            if will_spill:
                job.stock.begin()
    job.stock.lowered()
    if unpartitioned:
        _check_pairs(job, results, other_warps=options.num_warps != job.options.num_warps)
    ptx, cubin = (results[name].value if name in results else None for name in ("ptx", "cubin"))
    spills = find_spills(ptx, cubin, options, said)
    if spills.bytes:
        spills = _with_fewer_spills(job, results, options, spills)
    return Specialised(outcome, form, spills, results, int(metadata.get("shared") or 0))


def _check_sums(job: Job, final: Module, num_warps: int) -> None:
    """Raises PlanError if the kernel, which has other warps than its launch, may round otherwise than stock's."""
    made = job.stock.results.get("ttgir") if _has_stock(job) else None
    stock = read_module(print_generic(parse_module(made.value.text, job.context))) if made is not None else None
    check_sums(stock, final, job.options.num_warps, num_warps)


def _check_pairs(job: Job, results: dict[str, StageResult], other_warps: bool) -> None:
    """Raises PlanError if LLVM has paired sums of products otherwise than in stock Triton's kernel, as far as it ran.

    other_warps: whether the kernel has other warps than its launch: then nothing is known of pairs.
    """
    if "llir" not in results or "llir" not in job.stock.results:
        return
    own, theirs = (paired_products(str(it["llir"].value)) for it in (results, job.stock.results))
    if own != theirs or (own and other_warps):
        raise PlanError(
            f"{job.kernel}: LLVM pairs sums of products, and may round them otherwise than in stock Triton's kernel; "
            "cure: leave form and num_warps out"
        )


def _rewritten(job: Job, plan: Plan, final: Module, num_warps: int) -> tuple[bool, tuple[Remark, ...]]:
    """Rewrites a kernel without partitions; returns whether anything changed, and what was done.

    Raises ProtocolError if the program then computes something else, and PlanError if threads differ in their sums.

    Tiles wait in the shared memory that is left to the CTAs of an SM: stock Triton's kernel tells how many there are.
    """
    if (uneven := uneven_sum(final)) is not None:
        place = source_of(final, uneven)
        raise PlanError(
            f"{job.kernel}: form='unpartitioned' may give other bits: threads that have the same sum of products "
            f"round it in two ways{f' ({place})' if place else ''}; cure: leave form out"
        )
    before, facts = copy_module(final), _stock_facts(job)
    room = facts.room(job.options.num_warps) if facts is not None else LIMIT_BYTES
    spills = stock_spills(job)
    passes: list[Pass[PassResult]] = [ParkLoads(room, late=spills), HoistConversions()]
    if plan.unrolled:
        passes.append(UnrollMasked(num_warps))
    if spills:
        passes.append(RecomputeAddresses())
    results = [it.run(final) for it in passes]
    changed = any(it.changed for it in results)
    if changed and (found := difference(before, final)):
        raise ProtocolError(f"the program without partitions is another: {found}")
    return changed, tuple(remark for it in results for remark in it.remarks)


def stock_spills(job: Job) -> bool:
    """Whether stock Triton's kernel spills; False if Triton refuses it."""
    facts = _stock_facts(job)
    return facts is not None and facts.spilled > 0


def _stock_facts(job: Job) -> ProgramFacts | None:
    """What is known of stock Triton's kernel, which is compiled for that; None if Triton refuses it."""
    return job.stock.facts() if _has_stock(job) else None


def _has_stock(job: Job) -> bool:
    """Compiles stock Triton's kernel, if that is not done; False if Triton refuses it."""
    with job.timed("stock", ours=False), suppress(StockFailure):
        job.stock.spilled()
        return True
    return False


def _with_fewer_spills(job: Job, results: dict[str, StageResult], options: Any, spills: Spills) -> Spills:
    """Runs ptxas again with the descriptors of wgmma beside them; keeps its code if it spills less and is sound."""
    placed = place_descriptors(results["ptx"].value)
    if placed == results["ptx"].value:
        return spills
    metadata = dict(results["ptx"].metadata)
    with job.timed("cubin", ours=False), kept_log() as log:
        cubin = dict(job.later)["cubin"](placed, metadata)
    found = find_spills(placed, cubin, options, log.text)
    if found.bytes < spills.bytes and is_sound(cubin):
        results["ptx"] = replace(results["ptx"], value=placed)
        results["cubin"] = StageResult(cubin, metadata)
        return found
    return spills


def _refused(outcome: Outcome, final: Module, text: str) -> Remark | None:
    """Why the final program is not trusted, if the barrier level was. Raises ProtocolError if it is wrong.

    Triton's ``tritongpu-reorder-instructions`` moves reads of shared memory; it does not know who else writes a slot.
    """
    if not outcome.verdicts:  # the checks are off
        return None
    proved = outcome.module if outcome.module is not None else read_module(outcome.barrier)
    found = check_final(proved, final)
    if isinstance(found, Refuted):
        files = {"final.ttgir": text, "witness.json": chrome_trace(found.witness)}
        raise ProtocolError(f"the program that Triton's passes made of the kernel is {describe(found)}", files)
    if not isinstance(found, Checked | Unknown) or not outcome.trusted:
        return None
    if trusted({**outcome.verdicts, "barriers": found}):  # as far as the barrier level was
        return None
    why = found.reason if isinstance(found, Unknown) else found.left
    return REORDERED.remark(found.location, why=why)
