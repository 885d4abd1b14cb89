"""The attempt to specialise one kernel, within its compile (`tawa.bridge.driver.compilation`)."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from tawa.analysis.memory.provenance import may_run_twice
from tawa.bridge.driver.annotations import annotation_remark, asked_by, beside_remark, without_annotations
from tawa.bridge.driver.data import Job, Specialised
from tawa.bridge.driver.driver import specialise, with_remarks
from tawa.bridge.driver.nothing_to_do import why_nothing_to_do
from tawa.bridge.driver.stock_run import StockFailure, StockRun
from tawa.bridge.driver.tuning.tuning_facts import tuning_facts
from tawa.bridge.launch.first.compiles import launch_is_ours
from tawa.bridge.launch.instead import plans_without
from tawa.bridge.mapping.mapped import MappedRequest
from tawa.bridge.report import record, reproducer
from tawa.bridge.report.left import told
from tawa.bridge.triton.artifacts.few_registers import FewRegisters, registers_that_were_too_few
from tawa.bridge.triton.surroundings import folder_failure
from tawa.declines import INTERNAL, REFUSED_BY_TRITON, TOO_FEW_REGISTERS
from tawa.dialects.tt import DotOp
from tawa.errors import InternalError, PlanError, ResourceError, SurroundingsError, UnsupportedKernel, report_it
from tawa.flow import Outcome
from tawa.plan import Plan
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec

if TYPE_CHECKING:
    from tawa.bridge.driver.compilation import Compilation

_log = logging.getLogger("tawa")


def attempt(compilation: Compilation, mod: Any, metadata: dict[str, Any]) -> tuple[record.Record, str, Any]:
    """Specialises a kernel, or finds out why not.

    mod, metadata: Triton's, after its ``ttir`` stage. Returns the record, the text of the aref level, and the module
    for the next stages, without annotations. Raises what a pinned kernel raises.
    """
    return _Attempt(compilation).run(mod, metadata)


class _Attempt:
    def __init__(self, compilation: Compilation) -> None:
        self.compilation, self.request, self.options = compilation, compilation.request, compilation.options

    def run(self, mod: Any, metadata: dict[str, Any]) -> tuple[record.Record, str, Any]:
        asked, taken, failure = self.request, None, None
        try:
            mod, taken = without_annotations(mod)
        except Exception as error:  # the annotation stays, and Triton compiles the kernel
            failure = error
        if taken is not None:
            self.request = asked_by(taken, asked)
        about, within = (mod.str(), mod.context, mod.get_entry_func_name(), metadata), self.compilation
        job = Job(*about, within.options, within.capability, within.split)
        mapped, self.request = MappedRequest.of(self.request, job)
        wanted, unmeasured = self.request, None
        if self.request.options.mode == "measure":
            unmeasured = _why_not_measured(job)
            if unmeasured is not None:
                self.request = replace(self.request, options=replace(self.request.options, mode=None))
                asked = replace(asked, options=replace(asked.options, mode=None))
        try:
            with mapped.told:
                outcome, folder = self._try(mod, job, failure)
                mapped.check(outcome.outcome.plan if isinstance(outcome, Specialised) else None)
        except (PlanError, ResourceError, UnsupportedKernel) as error:
            if not mapped.is_shipped:
                raise
            wanted = self.request = mapped.without(error)
            outcome, folder = self._try(mod, job, failure)
        done = outcome.outcome if isinstance(outcome, Specialised) else outcome
        if taken is not None:
            done = with_remarks(done, (annotation_remark(taken, asked, done.applied),))
        if unmeasured is not None:
            done = with_remarks(done, (unmeasured,))
        done = with_remarks(done, mapped.remarks())
        result = replace(outcome, outcome=done) if isinstance(outcome, Specialised) else None
        self.compilation.result = result
        options = self.request.options
        feedback = result.why if result else None
        made = record.make_record(
            job.kernel, self.request, options, done, job.stage_ms, job.tawa_ms, folder, feedback,
            [run.to_dict() for run in job.back_end_runs], mapped.words(done.plan),
        )  # fmt: skip
        measure = self.request.options.mode == "measure"
        spec = result.launch if result else LaunchSpec()
        launch = {
            **spec.to_json(),
            "forecast": job.forecast,
            "num_warps": self.options.num_warps,  # Triton's metadata has the warps of all partitions
            "options": asdict(self.request.options),
            "plan": self.request.plan.to_dict() if self.request.plan is not None else None,
            "measure": measure,
            "without": {it: plan.to_dict() for it, plan in plans_without(spec, self.request.plan or Plan()).items()},
            "annotated": taken is not None,
            "learns": self.request.learns,
        }
        if self.request.learns or spec != LaunchSpec() or job.forecast or (result and (result.promoted or measure)):
            made["launch"] = launch
        if result is not None:
            made["spilled"] = result.spills.bytes
        if result is not None and self.compilation.stock_run is not None:
            self.compilation.note_stock(made, self.compilation.stock_run.facts())
        with suppress(Exception):  # the attempt has met the same error and reported it
            made["tuning"] = tuning_facts(job, wanted, self.options, result, taken is not None)
        text = done.aref if done.applied else told(done.remarks[0])
        return made, text, mod

    def _try(self, mod: Any, job: Job, failure: Exception | None) -> tuple[Specialised | Outcome, str]:
        """Attempts the specialisation. Returns the result, and the reproducer's path if an internal error declined it.

        failure: an error from before the attempt.
        """
        refusal = beside_remark() if self.request.beside else self.compilation.refusal
        refusal = refusal or why_nothing_to_do(job.ttir, self.request, self.request.learns)
        if refusal is not None or job.split is None:
            assert refusal is not None
            return self._declined(job, Outcome(False, None, (refusal,))), ""
        if failure is not None:
            return self._failed(job, failure)
        stock = self.compilation.stock
        stages = dict(tuple(stock.items())[list(stock).index("ttgir") :])
        self.compilation.stock_run = job.stock = StockRun(mod, dict(job.metadata), stages, self.options)
        try:
            result = specialise(job, self.request)
        except (PlanError, ResourceError, UnsupportedKernel, SurroundingsError):
            raise
        except StockFailure as error:
            remark = REFUSED_BY_TRITON.remark(record.kernel_location(job.ttir), error=error)
            return Outcome(False, None, (remark,)), ""
        except Exception as error:
            around = folder_failure(error)
            if around is not None:
                raise around from error
            few = registers_that_were_too_few(error)
            if few is not None:
                return self._too_few(job, few, error), ""
            return self._failed(job, error)
        if isinstance(result, Specialised):
            return result, ""
        job.tawa_ms += job.stage_ms.get("front", 0.0)  # of other forms of the kernel
        return self._declined(job, result), ""

    def _declined(self, job: Job, outcome: Outcome) -> Outcome:
        if self.request.pinned:
            raise UnsupportedKernel(job.kernel, outcome.remarks[0])
        return outcome

    def _too_few(self, job: Job, registers: int, error: Exception) -> Outcome:
        limit, cure = self.options.maxnreg, ""
        if limit is not None:
            cure = f"maxnreg above {limit}, or a launch without it; {TOO_FEW_REGISTERS.cure}"
        remark = TOO_FEW_REGISTERS.remark(record.kernel_location(job.ttir), cure, registers=registers)
        if self.request.pinned:
            raise FewRegisters(f"{job.kernel}: {remark.reason}; cure: {remark.cure}") from error
        return Outcome(False, None, (remark,))

    def _failed(self, job: Job, error: Exception) -> tuple[Outcome, str]:
        written = reproducer.write(self.request, job, error)
        text = f"{type(error).__name__}: {error}"
        if self.request.pinned:
            raise InternalError(f"{job.kernel}: {text}", written.path, written.reason) from error
        cure = "; ".join(filter(None, (report_it(written.path), written.reason)))
        remark = INTERNAL.remark(record.kernel_location(job.ttir), cure, error=text)
        _log.warning("%s: %s; %s", job.kernel, remark.reason, cure)
        return Outcome(False, None, (remark,)), str(written.path or "")


def _why_not_measured(job: Job) -> Remark | None:
    """Why launches do not measure the Plans of the kernel; None if they do, or if there is nothing to choose."""
    if DotOp.NAME not in job.ttir:
        return None
    reason = "a second run would change the results: the kernel reads what it writes, has an atomic, or prints"
    try:
        if may_run_twice(job.program):
            reason = "" if launch_is_ours() else "the kernel is not launched by Triton in this process"
    except Exception:  # the attempt meets the same error and reports it
        return None
    cure = "tawa tune measures it on copies of its tensors"
    return Remark("note", f"mode='measure' measures nothing: {reason}", None, cure) if reason else None
