"""One compile under a request: Triton's stages with ours between them.

```
before   ttir -> ttgir -> llir -> ptx -> cubin
after    ttir -> aref -> barrier -> ttgir -> llir -> ptx -> cubin
```

The ``aref`` stage does all the work, on a *copy* of the TTIR and of the metadata: our passes, Triton's back half, and
every later stage down to the cubin. If all of that succeeds, the later stages return the results that exist already.
Otherwise they run Triton's own functions on the untouched module (or return the results of the stock compile, if the
attempt had to run it). So a kernel that is not specialised is byte for byte the stock kernel, and a failure of ours
leaves nothing half done. The one exception is an annotation that stock Triton fails on
(`tawa.bridge.driver.annotations`): it is removed before anything else reads the module.
"""

from __future__ import annotations

import locale
import logging
import time
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from tawa.analysis.memory.provenance import may_run_twice
from tawa.bridge.driver.annotations import annotation_remark, asked_by, beside_remark, without_annotations
from tawa.bridge.driver.data import Source, Specialised, Toolchain, Worksheet
from tawa.bridge.driver.driver import specialise, with_remarks
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.spills import facts_of_log
from tawa.bridge.driver.stock_overflow import refuse_overflow
from tawa.bridge.driver.stock_run import StockFailure, StockRun
from tawa.bridge.driver.tuning.tuning_facts import tuning_facts
from tawa.bridge.launch.added_arguments import launch_is_ours, stock_may_start
from tawa.bridge.launch.first.background import prepare
from tawa.bridge.launch.instead import plans_without
from tawa.bridge.launch.stock_facts import KEY as STOCK_FACTS
from tawa.bridge.mapping.mapped import MappedRequest
from tawa.bridge.report import record, reproducer
from tawa.bridge.triton.artifacts.cache_entries import CHECKSUMS, checksum, overridden, seal
from tawa.bridge.triton.artifacts.few_registers import FewRegisters, registers_that_were_too_few
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.generic_print import read_ttir
from tawa.bridge.triton.stage_output import Stage, StageOutput, StageResult
from tawa.bridge.triton.stages import StageSplit
from tawa.bridge.triton.surroundings import folder_failure
from tawa.dialects.tt import DotOp
from tawa.errors import InternalError, PlanError, ResourceError, SurroundingsError, UnsupportedKernel, report_it
from tawa.pipeline import Outcome
from tawa.plan import Plan
from tawa.plan.cost.ways import StockFacts
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec

_log = logging.getLogger("tawa")

_STOCK_FIRST = Remark(
    "declined", "start='stock': stock Triton's kernel is the first; a specialised one is made in the background",
    cure="start='ready' waits for it at the first launch",
)  # fmt: skip
_SERIALISED = Remark("note", "ptxas serialises the wgmmas of stock Triton's kernel: launches choose with that in mind")


class Compilation:
    """The stages of one kernel's compile. The hook makes it when Triton lists its stages; it serves one compile."""

    def __init__(
        self,
        request: Request,
        stages: dict[str, Stage],
        options: Any,
        capability: int,
        split: StageSplit | None,
        refusal: Remark | None,
    ) -> None:
        self.request = request
        self.stock = dict(stages)
        self.options = options
        self.capability = capability
        self.split = split
        self.refusal = refusal
        self.started = time.perf_counter()
        self.result: Specialised | None = None
        self.stock_run: StockRun | None = None
        self.stock_first = False
        self.aref = StageOutput("", None, None)

    def put_into(self, stages: dict[str, Stage]) -> None:
        """Changes Triton's stages in place: adds ours before ``ttgir``, and wraps it and every later one."""
        names = list(self.stock)
        at = names.index("ttgir")
        stages.clear()
        stages.update({name: self.stock[name] for name in names[:at]})
        stages["aref"] = self.aref_stage
        stages["barrier"] = self.barrier_stage
        stages.update({name: self._later_stage(name, last=name == names[-1]) for name in names[at:]})

    def aref_stage(self, mod: Any, metadata: dict[str, Any]) -> StageOutput:
        """Specialises the kernel, or records why not. The text of its result is the aref level."""
        stored = str(mod)  # before the module changes: later steps, and the stock compile, work on it in place
        asked, taken, failure = self.request, None, None
        try:
            mod, taken = without_annotations(mod)
        except Exception as error:  # the annotation stays, and Triton compiles the kernel
            failure = error
        if taken is not None:
            self.request = asked_by(taken, asked)
        source = Source(mod.str(), mod.context, mod.get_entry_func_name(), metadata)
        mapped, self.request = MappedRequest.of(self.request, source)
        wanted, unmeasured = self.request, None
        if self.request.options.mode == "measure":
            unmeasured = _why_not_measured(source)
            if unmeasured is not None:
                self.request = replace(self.request, options=replace(self.request.options, mode=None))
                asked = replace(asked, options=replace(asked.options, mode=None))
        sheet = Worksheet()
        try:
            with mapped.told:
                outcome, folder = self._try(mod, source, sheet, failure)
                mapped.check(outcome.outcome.plan if isinstance(outcome, Specialised) else None)
        except (PlanError, ResourceError, UnsupportedKernel) as error:
            if not mapped.is_shipped:
                raise
            wanted = self.request = mapped.without(error)
            outcome, folder = self._try(mod, source, sheet, failure)
        done = outcome.outcome if isinstance(outcome, Specialised) else outcome
        if taken is not None:
            done = with_remarks(done, (annotation_remark(taken, asked, done.applied),))
        if unmeasured is not None:
            done = with_remarks(done, (unmeasured,))
        done = with_remarks(done, mapped.remarks())
        self.result = replace(outcome, outcome=done) if isinstance(outcome, Specialised) else None
        options = self.result.options if self.result else self.request.options
        feedback = self.result.why if self.result else None
        made = record.make_record(
            source.kernel, self.request, options, done, sheet.stage_ms, sheet.tawa_ms, folder, feedback,
            [run.to_dict() for run in sheet.back_end_runs], mapped.words(done.plan),
        )  # fmt: skip
        measure = self.request.options.mode == "measure"
        spec = self.result.launch if self.result else LaunchSpec()
        launch = {
            **spec.to_json(),
            "forecast": sheet.forecast,
            "num_warps": self.options.num_warps,  # Triton's metadata has the warps of all partitions
            "options": asdict(self.request.options),
            "plan": self.request.plan.to_dict() if self.request.plan is not None else None,
            "measure": measure,
            "without": {it: plan.to_dict() for it, plan in plans_without(spec, self.request.plan or Plan()).items()},
            "annotated": taken is not None,
            "stock_first": self.stock_first,
            "learns": self.request.learns,
        }
        if (
            self.stock_first
            or self.request.learns
            or spec != LaunchSpec()
            or sheet.forecast
            or (self.result and (self.result.raised or measure))
        ):
            made["launch"] = launch
        if self.result is not None:
            made["spilled"] = self.result.spills.bytes
        if self.result is not None and self.stock_run is not None:
            self._note_stock(made, self.stock_run.facts())
        with suppress(Exception):  # the attempt has met the same error and reported it
            made["tuning"] = tuning_facts(
                source, wanted, self.options, self.result, taken is not None, self.stock_first
            )
        metadata[record.KEY] = made
        self._report(source, done)
        self.aref = StageOutput(_level(done, done.aref), mod, mod.context)
        self._sum("ttir", stored, metadata)
        self._sum("aref", self.aref, metadata)
        return self.aref

    def barrier_stage(self, before: Any, metadata: dict[str, Any]) -> StageOutput:
        """The text of its result is the barrier level, in the IR of Triton 3.6."""
        done = self.result.outcome if self.result else None
        text = done.barrier if done else self.aref.text
        self._sum("barrier", text, metadata)
        return StageOutput(text, before.module, before.context)

    def _sum(self, name: str, value: Any, metadata: dict[str, Any]) -> None:
        """Records the checksum of a level, to detect a damaged cache; not if users override levels by files."""
        if record.KEY in metadata and not overridden(self.options):
            metadata[record.KEY].setdefault(CHECKSUMS, {})[name] = checksum(value)

    def _try(
        self, mod: Any, source: Source, sheet: Worksheet, failure: Exception | None
    ) -> tuple[Specialised | Outcome, str]:
        """Attempts the specialisation. Returns the result, and the reproducer's path if an internal error declined it.

        failure: an error from before the attempt.
        """
        refusal = beside_remark() if self.request.beside else self.refusal
        refusal = refusal or _nothing_to_do(source)
        if refusal is None and self._starts_with_stock():
            self.stock_first, refusal = True, _STOCK_FIRST
        if refusal is not None or self.split is None:
            assert refusal is not None
            return self._declined(source, Outcome(False, None, (refusal,))), ""
        if failure is not None:
            return self._failed(source, sheet, failure)
        stages = dict(tuple(self.stock.items())[list(self.stock).index("ttgir") :])
        self.stock_run = StockRun(mod, dict(source.metadata), stages, self.options)
        tools = Toolchain(self.split, tuple(stages.items())[1:], self.options, self.capability, self.stock_run)
        try:
            result = specialise(tools, source, self.request, sheet)
        except (PlanError, ResourceError, UnsupportedKernel, SurroundingsError):
            raise
        except StockFailure as error:
            remark = Remark(
                "declined", f"Triton itself refuses the kernel: {error}", record.kernel_location(source.ttir)
            )
            return Outcome(False, None, (remark,)), ""
        except Exception as error:
            around = folder_failure(error)
            if around is not None:
                raise around from error
            few = registers_that_were_too_few(error)
            if few is not None:
                return self._too_few(source, few, error), ""
            return self._failed(source, sheet, error)
        if isinstance(result, Specialised):
            return result, ""
        sheet.tawa_ms += sheet.stage_ms.get("front", 0.0)  # of other forms of the kernel
        return self._declined(source, result), ""

    def _starts_with_stock(self) -> bool:
        options = self.request.options
        asked = options.start != "ready" and not self.request.pinned and not options.wherever_legal
        if not asked or not stock_may_start():
            return False
        prepare()
        return True

    def _declined(self, source: Source, outcome: Outcome) -> Outcome:
        if self.request.pinned:
            raise UnsupportedKernel(source.kernel, outcome.remarks[0])
        return outcome

    def _too_few(self, source: Source, registers: int, error: Exception) -> Outcome:
        reason = f"{registers} registers for each thread are too few for the instructions of the kernel"
        limit = self.options.maxnreg
        cure = "fewer consumer groups, fewer warps, or a smaller tile"
        cure = cure if limit is None else f"maxnreg above {limit}, or a launch without it; {cure}"
        if self.request.pinned:
            raise FewRegisters(f"{source.kernel}: {reason}; cure: {cure}") from error
        return Outcome(False, None, (Remark("declined", reason, record.kernel_location(source.ttir), cure),))

    def _failed(self, source: Source, sheet: Worksheet, error: Exception) -> tuple[Outcome, str]:
        written = reproducer.write(self.request, source, sheet, self.options, error)
        text = f"{type(error).__name__}: {error}"
        if self.request.pinned:
            raise InternalError(f"{source.kernel}: {text}", written.path, written.reason) from error
        cure = "; ".join(filter(None, (report_it(written.path), written.reason)))
        reason = f"internal error of Tawa, compiled by stock Triton: {text}"
        _log.warning("%s: %s; %s", source.kernel, reason, cure)
        remark = Remark("declined", reason, record.kernel_location(source.ttir), cure)
        return Outcome(False, None, (remark,)), str(written.path or "")

    def _later_stage(self, name: str, last: bool) -> Stage:
        """Returns the attempt's result if the stage before did so too; otherwise runs Triton's own stage."""

        def stage(before: Any, metadata: dict[str, Any]) -> Any:
            made = self._made(name)
            if made is not None and self._is_ours(name, before):
                metadata.update({key: value for key, value in made.metadata.items() if key != record.KEY})
                value = made.value
                if last and self.result is None and self.stock_run is not None:
                    self._note_stock(metadata[record.KEY], self.stock_run.facts())
            else:
                input = before.module if isinstance(before, StageOutput) else before
                rest = self.stock_run.stage(name, input) if self.stock_run is not None else None
                with kept_log() as log:
                    value = (rest or self.stock[name])(input, metadata)
                if record.KEY in metadata and (self.stock_run is not None or self.stock_first):
                    found = facts_of_log(log.text, int(metadata.get("shared") or 0))
                    self._note_stock(metadata[record.KEY], found)
                if name == "ttgir":
                    refuse_overflow(value, self.capability)
            self._sum(name, value, metadata)
            if last and record.KEY in metadata:
                metadata[record.KEY]["compile_ms"] = round((time.perf_counter() - self.started) * 1000, 3)
                seal(metadata)
            return value

        return stage

    def _note_stock(self, made: record.Record, facts: StockFacts | None) -> None:
        """Records what is known of stock Triton's kernel."""
        if facts is None:
            return
        made[STOCK_FACTS] = asdict(facts)
        about = (made.get("launch") or {}).get("forecast")
        if facts.serialised and about and about["stock"]:
            made["remarks"].append(record.remark_record(_SERIALISED))

    def _made(self, name: str) -> StageResult | None:
        """The stage's result if it exists: from the attempt, or from the stock compile that the attempt ran."""
        if self.result is not None:
            return self.result.results.get(name)
        return None if self.stock_run is None else self.stock_run.result(name)

    def _is_ours(self, name: str, before: Any) -> bool:
        """Whether `before` is our own result, and not one that Triton read back from a file (USE_IR_LOC)."""
        if name == "ttgir":
            return isinstance(before, StageOutput)
        names = list(self.stock)
        previous = self._made(names[names.index(name) - 1])
        return (
            previous is not None
            and before is previous.value
            and not (isinstance(before, StageOutput) and before.relocated)
        )

    def _report(self, source: Source, outcome: Outcome) -> None:
        verb = "specialised" if outcome.applied else "not specialised"
        reason = str(outcome.remarks[0]) if outcome.remarks else ""
        _log.info("%s: %s: %s", source.kernel, verb, reason)


def _level(outcome: Outcome, text: str) -> str:
    """The text of a level; for a declined kernel a comment that says why."""
    if outcome.applied:
        return text
    remark = str(outcome.remarks[0]) if outcome.remarks else "no reason given"
    text = "// not specialised: " + remark.replace("\n", "\n// ") + "\n"
    encoding = locale.getencoding()  # of the file that Triton writes it to
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _why_not_measured(source: Source) -> Remark | None:
    """Why launches do not measure the Plans of the kernel; None if they do, or if there is nothing to choose."""
    if DotOp.NAME not in source.ttir:
        return None
    reason = "a second run would change the results: the kernel reads what it writes, has an atomic, or prints"
    try:
        if may_run_twice(read_ttir(source.ttir, source.context)):
            reason = "" if launch_is_ours() else "the kernel is not launched by Triton in this process"
    except Exception:  # the attempt meets the same error and reports it
        return None
    cure = "tawa tune measures it on copies of its tensors"
    return Remark("note", f"mode='measure' measures nothing: {reason}", None, cure) if reason else None


def _nothing_to_do(source: Source) -> Remark | None:
    """Declines kernels without a dot, before any work is done."""
    if DotOp.NAME in source.ttir:
        return None
    reason = "no tl.dot in the kernel: there is nothing to feed by separate warps"
    return Remark("declined", reason, record.kernel_location(source.ttir))
