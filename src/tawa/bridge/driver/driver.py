"""The driver: a loop that tries Plans, each from the TTIR of a kernel down to its cubin.

```
candidates → Plan → TTIR lists → Triton's front half → TTGIR lists → Triton's back half, LLVM, ptxas → Trial → …
                    once for each form of the kernel        once for each Plan
```

It works on copies and changes nothing that Triton needs for the stock kernel.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from tawa.analysis.before_layouts import check_before_layouts
from tawa.analysis.live_registers import live_registers
from tawa.analysis.loops.chained_dots import has_chained_dots
from tawa.analysis.rings.loads import find_dots
from tawa.analysis.work.persistent import why_not_persistent
from tawa.bridge.driver.back_end import stock_spills, through_back_end
from tawa.bridge.driver.data import Job, Specialised
from tawa.bridge.driver.forms import FOR_ALL, Forms
from tawa.bridge.driver.known_spills import KnownSpills
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.spills import Spills
from tawa.bridge.driver.stock_run import StockFailure
from tawa.bridge.launch.first.compiles import launch_is_ours, may_be_one
from tawa.bridge.launch.forecasts import forecast_facts
from tawa.bridge.triton.generic_print import parse_module
from tawa.bridge.triton.structured import structured
from tawa.bridge.triton.versions import nested_descriptors
from tawa.declines import no_space
from tawa.dialects.scf import enclosing_loops
from tawa.dialects.tt import DOTS, LoadOp
from tawa.errors import PlanError, ProtocolError, ResourceError
from tawa.flow import Flow, Outcome, outcome_of, run
from tawa.ir import Module, copy_module, source_of
from tawa.ir import parse_module as read_module
from tawa.machine.machines import machine_of
from tawa.pipeline import PATHS, TTGIR, UNPARTITIONED
from tawa.plan import Plan
from tawa.plan.cost.shared_use import LIMIT_BYTES, SharedUse, overflow_text
from tawa.plan.decide.launches import choose_launches, launch_plan
from tawa.plan.decide.paths import BY_TMA, Launching
from tawa.plan.decide.rings import Target
from tawa.plan.decide.warps import check_other_warps, consumer_warps, why_not_wider, widened
from tawa.plan.legality import check_met, check_unpartitioned
from tawa.plan.plan import Form
from tawa.plan.search.candidate import Candidate
from tawa.plan.search.compiled import NO_STOCK, Question, Trial, candidates
from tawa.plan.search.prediction import is_expectation
from tawa.plan.search.runs import BackEndRun, BackEndRuns, described, keeps_dots_in_flight, must_spill, will_spill
from tawa.plan.search.search import Search
from tawa.plan.search.space import UNPARTITIONED as UNPARTITIONED_FORM
from tawa.plan.search.space import Space, form_of
from tawa.remarks import Remark, SourceLocation

_TILES = "tt.load of a tile"


def specialise(job: Job, request: Request) -> Specialised | Outcome:
    """Specialises one kernel by the first Plan that compiles, fits, does not spill, and is proved.

    Returns the specialised kernel, or the declining `Outcome`. Raises PlanError and ResourceError for pinned choices,
    StockFailure if Triton's front half refuses the kernel, and any other exception for an internal error.
    """
    with _garbage_uncollected():
        if request.learns:
            request = replace(request, options=replace(request.options, mode="measure"))
        return _Driver(job, request).run()


@contextmanager
def _garbage_uncollected() -> Iterator[None]:
    """Disables garbage collection: a compile makes many small objects, and each collection scans the whole process."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class _Driver:
    """One kernel."""

    def __init__(self, job: Job, request: Request) -> None:
        self.job, self.machine = job, machine_of(job.capability)
        if request.arch:  # the performance model was fitted on Hopper and cannot predict this GPU
            request = replace(request, options=replace(request.options, only_if_faster=False))
        self.request = request
        self.pins = request.plan or Plan()
        self.launching = Launching(launch_is_ours(), may_be_one(), nested_descriptors())
        self.runs = BackEndRuns.within(request.options.compile_budget_s)
        self.known = KnownSpills(job.kernel, job.options, job.capability)
        self.operations: dict[str, int] = {}
        self.not_by_tma: Remark | None = None

    def run(self) -> Specialised | Outcome:
        """The kernel; without partitions if a Plan asks for that, or if nothing else is left that launches may try."""
        self._look()
        if self.pins.form == "unpartitioned":
            made = self._unpartitioned(self.pins)
            return self._refused(made) if isinstance(made, Remark) else made
        found = self._specialised()
        if isinstance(found, Specialised) or not self.request.learns:
            return found
        with suppress(PlanError):  # nothing changes without partitions
            made = self._unpartitioned(Plan())
            if isinstance(made, Specialised):
                none_has = self.job.forecast is None  # what declined the kernel, declines every form with partitions
                self.job.forecast = self._forecast(made.outcome.plan, partitioned=not none_has)
                return made
        return found

    def _specialised(self) -> Specialised | Outcome:
        """Runs the loop over candidates."""
        self.pins = self.pins.over(Plan(form=self._usual_form()))
        refusal = self._refusal()
        if refusal is not None:
            return self._refused(refusal)
        search = candidates(self._question())
        try:
            candidate = next(search)
            while True:
                candidate = search.send(self._try(candidate))
        except StopIteration as end:
            return self._noted(self._taken(end.value))
        finally:
            self.job.stock.finish()
            self.job.back_end_runs += self.runs.made

    def _unpartitioned(self, pins: Plan) -> Specialised | Remark:
        """The kernel without partitions, or why it cannot be used. Raises PlanError if nothing would change."""
        check_unpartitioned(pins)
        launched = self.job.options.num_warps
        num_warps = pins.num_warps or launched
        if num_warps != launched:
            check_other_warps(self.kernel, launched, num_warps)
        flow = self._flow(read_module(self.forms.unpartitioned(num_warps)), pins.over(UNPARTITIONED_FORM))
        flow.changed = self.forms.folded
        flow.target = replace(flow.target, num_warps=num_warps, spills=stock_spills(self.job))
        outcome = outcome_of(flow, run(flow, UNPARTITIONED))
        if not outcome.applied or outcome.plan is None:
            return outcome.remarks[0]
        try:
            made = through_back_end(self.job, outcome, flow)
        finally:
            self.job.stock.finish()
        if isinstance(made, SharedUse):
            return no_space(overflow_text(self.job.kernel, made))
        if isinstance(made, Remark):
            return made
        plan = Plan(launches=launch_plan(flow.launch, "always")).over(outcome.plan)
        return replace(made, outcome=replace(made.outcome, plan=plan))

    def _noted(self, found: Specialised | Outcome) -> Specialised | Outcome:
        """The result with a note on every Plan that was not tried."""
        notes = self.runs.notes()
        if isinstance(found, Outcome):
            return with_remarks(found, notes)
        return replace(found, outcome=with_remarks(found.outcome, notes))

    # -- the kernel as Triton hands it down ----------------------------------------------------------------------------

    def _look(self) -> None:
        """Counts the kernel's operations. The counts tell which forms are possible, before there are layouts."""
        with self.job.timed("copy"):
            mod = self.job.stock.module or parse_module(self.job.ttir, self.job.context)

            def see(op: Any) -> None:
                name = op.get_name()
                self.operations[name] = self.operations.get(name, 0) + 1
                if name == LoadOp.NAME and str(op.get_result(0).get_type()).startswith("tensor"):
                    self.operations[_TILES] = 1

            mod.walk(see)

    @cached_property
    def kernel(self) -> Module:
        """The kernel as a structured module of ours. Passes that change it work on copies."""
        with self.job.timed("read"):
            return structured(copy_module(self.job.program))

    def _usual_form(self) -> Form:
        """The form of the kernel unless a Plan pins it. A dot that is in no loop gets one over tiles if possible."""
        asked = self.request.options.persistent
        if asked is not None or not self.launching.ours:
            return "persistent" if asked else "as_written"
        dots = find_dots(self.kernel)
        if not dots or any(enclosing_loops(dot) for dot in dots) or why_not_persistent(self.kernel) is not None:
            return "as_written"
        return "persistent"

    def _refusal(self) -> Remark | None:
        """Why the kernel is declined whatever its layouts are."""
        kernel, persistent = self.kernel, self.pins.form == "persistent"
        with self.job.timed("check"):
            found = next(iter(check_before_layouts(kernel, persistent)), None)
            launched, options = self.job.options.num_warps, self.request.options
            found = found or why_not_wider(kernel, launched, options, self.request.pinned)
        if found is None and options.pointer_loads == "tma" and self.paths is not None:
            return self.not_by_tma
        return found

    @cached_property
    def paths(self) -> Flow | None:
        """The kernel with pointer accesses promoted to TMA; None without such accesses, or if TMA is not wanted."""
        options = self.request.options
        asked = {it.path for it in self.pins.operands}
        left = self.pins.operand(FOR_ALL).path not in (None, *BY_TMA) and not asked & BY_TMA
        if options.pointer_loads == "cp.async" or _TILES not in self.operations or left:
            return None
        flow = self._flow(copy_module(self.kernel), self.pins)
        with self.job.timed("promote loads"):
            self.not_by_tma = run(flow, PATHS)
        return flow

    @cached_property
    def forms(self) -> Forms:
        """The forms of the kernel, with layouts."""
        return Forms(
            self.job, self.pins, self.kernel, self.paths, self.operations, self._flow
        )  # fmt: skip

    @cached_property
    def space(self) -> Space | None:
        """The forms of the kernel; None if its control flow is not structured."""
        launch = self.job.options
        promoted = self.paths.promoted if self.paths is not None else 0
        about = launch.num_warps, launch.num_stages, launch.maxnreg
        with self.job.timed("predict"):
            return Space.of(
                self.kernel, promoted, about, self.request.options, self.launching.ours, self.pins, self.machine
            )  # fmt: skip

    @property
    def expecting(self) -> Space | None:
        """The same where it decides; None if the user wants a specialised kernel whether it pays or not."""
        return None if self._forced else self.space

    @property
    def _forced(self) -> bool:
        """Whether launches get a specialised kernel whether it pays or not."""
        return self.request.pinned or (self.request.options.wherever_legal and not self.request.learns)

    @property
    def _search(self) -> Search | None:
        """The search among the forms, where their predictions decide."""
        space = self.expecting
        return Search.of(space, self.pins, self.request.options) if space is not None else None

    def _place(self) -> SourceLocation | None:
        """The first dot of the kernel."""
        dot = next((op for op in self.kernel.walk() if op.name in DOTS), None)
        return source_of(self.kernel, dot) if dot is not None else None

    def _flow(self, module: Module, plan: Plan) -> Flow:
        options, request = self.job.options, self.request
        target = Target(
            consumer_warps(options.num_warps), options.num_stages, LIMIT_BYTES, 1, self.job.stock_copies,
            launch_warps=options.num_warps, machine=self.machine,
        )  # fmt: skip
        return Flow(
            module, plan, request.options, target, request.pinned, request.verification, launching=self.launching
        )

    def _question(self) -> Question:
        groups = self.job.options.num_warps // 4
        may_be_chained = groups > 1 and sum(self.operations.get(it, 0) for it in DOTS) > 1
        return Question(
            self.request.options,
            self.pins,
            self.request.pinned,
            self.job.options.num_warps,
            promotable=self.paths is not None and self.paths.promoted > 0,
            chained=may_be_chained and has_chained_dots(self.kernel),
            search=self._search,
            allowed=self._stock_spills,
            facts=self.job.stock.facts,
            place=self._place(),
            learns=self.request.learns,
        )

    def _stock_spills(self) -> int:
        """Bytes that the kernel may spill: as many as the stock kernel; any number if Triton cannot compile that."""
        return self._allowed

    @cached_property
    def _allowed(self) -> int:
        program = self.known.key(self.kernel, self.job.options.num_warps, "stock")
        known = self.known.of(program) if self.job.stock.unused else None
        if known is not None:
            return known.bytes
        with self.job.timed("stock", ours=False), suppress(StockFailure):
            spilled = self.job.stock.spilled()
            self.known.keep(program, Spills(spilled))
            return spilled
        return NO_STOCK

    # -- one candidate -------------------------------------------------------------------------------------------------

    def _try(self, candidate: Candidate) -> Trial:
        """The trial of one candidate."""
        form = self.forms.of(candidate.plan)
        if form.refusal is not None:
            return Trial(refusal=form.refusal, candidate=candidate)
        with self.job.timed("specialise"):
            try:
                outcome = self._through(form, candidate.plan)
            except (PlanError, ResourceError) as error:
                return Trial(error=error, candidate=candidate)
            except ProtocolError as error:
                if self.request.plan is None:
                    raise
                text = f"the Plan cannot be carried out: {error}; cure: pin fewer fields"
                return Trial(error=PlanError(text), candidate=candidate)
        self.job.stage_ms.update({f"specialise.{name}": ms for name, ms in outcome.stage_ms.items()})
        if not outcome.applied or outcome.plan is None:
            return Trial(refusal=outcome.remarks[0], candidate=candidate, made=outcome)
        live = live_registers(outcome.module) if outcome.module is not None else 0
        left_out = self.runs.why_not(candidate.plan, live)
        if left_out is not None:
            return Trial(refusal=left_out, candidate=candidate)
        made = self._run_back_end(candidate, form, outcome, live)
        if isinstance(made, SharedUse):
            return Trial(outcome.plan, overflow=made, candidate=candidate)
        if isinstance(made, Remark):
            return Trial(refusal=made, candidate=candidate)
        return Trial(
            outcome.plan,
            spilled=made.spills.bytes,
            serialised=made.spills.serialised,
            in_flight=keeps_dots_in_flight(outcome.plan, outcome.module),
            must_spill=made.spills.bytes > 0 and must_spill(outcome.plan, outcome.module),
            trusted=outcome.trusted,
            made=made,
            candidate=candidate,
        )

    def _run_back_end(
        self, candidate: Candidate, form: Flow, outcome: Outcome, live: int
    ) -> Specialised | SharedUse | Remark:
        """Takes a candidate through the back end, unless it is known what it spills. live: registers, at wgmmas."""
        start, what = time.perf_counter(), described(candidate.plan)
        expected = will_spill(outcome.plan, live)
        spills = self.known.of(self._program(outcome, form)) if expected else None
        if spills is not None:
            self.runs.made.append(BackEndRun(what, 0.0, live, spills.bytes, known=True))
            return Specialised(outcome, form, spills)
        self.job.texts |= {"ttgir": form.text, "aref": outcome.aref, "barrier": outcome.barrier}
        made = through_back_end(self.job, outcome, form, expected)
        run_made = BackEndRun(what, (time.perf_counter() - start) * 1e3, live)
        if isinstance(made, SharedUse):
            self.runs.made.append(replace(run_made, complete=False))
            return made
        if isinstance(made, Remark):
            return made
        self.runs.made.append(replace(run_made, spilled=made.spills.bytes))
        if made.spills.bytes:
            self.known.keep(self._program(outcome, form), made.spills)
        return made

    def _program(self, outcome: Outcome, form: Flow) -> str:
        """The key of a specialised program: of its text, since the back end may change the module."""
        return self.known.key(read_module(outcome.barrier), form.target.num_warps)

    def _through(self, form: Flow, plan: Plan) -> Outcome:
        """Runs the pass lists for TTGIR."""
        flow = self._flow(read_module(form.text), plan.over(form.plan))
        flow.target, flow.launch = form.target, form.launch
        flow.pins = self.pins
        flow.space = self.expecting
        return outcome_of(flow, run(flow, TTGIR))

    # -- the choice ----------------------------------------------------------------------------------------------------

    def _taken(self, trial: Trial) -> Specialised | Outcome:
        """The Plan that the search chose, with what its launches need; or the declining outcome."""
        of_promotion = tuple(self.paths.remarks) if self.paths is not None else ()
        if trial.overflow is not None:
            return with_remarks(self._no_space(trial.overflow), of_promotion)
        if trial.refusal is not None:
            return with_remarks(self._refused(trial.refusal, trial), of_promotion)
        made: Specialised | SharedUse | Remark = trial.made
        if isinstance(made, Specialised) and not made.results:  # what it spills was known
            made = through_back_end(self.job, made.outcome, made.form)
        if isinstance(made, Remark):
            return with_remarks(self._refused(made), of_promotion)
        assert isinstance(made, Specialised) and made.results and trial.plan is not None
        form, notes = made.form, list(trial.notes)
        self.job.forecast = forecast = self._forecast(trial.plan, trial)
        wider = widened(self.kernel, self.job.options.num_warps)
        notes += [it for it in (wider,) if it is not None]
        if form.promoted or (self.paths is not None and not self.paths.promoted):
            notes += of_promotion
        chosen = "always" if forecast is None else "predicted" if forecast["stock"] else "specialised"
        plan = Plan(launches=launch_plan(form.launch, chosen)).over(trial.plan)
        check_met(plan, self.request.plan or Plan(), self.launching.ours)
        why = {**(self.paths.why if self.paths is not None else {}), **form.why, **made.outcome.why}
        outcome = replace(with_remarks(made.outcome, tuple(notes)), plan=plan, why=why)
        return replace(made, outcome=outcome, why=trial.candidate.why)

    def _refused(self, refusal: Remark, left: Trial | None = None) -> Outcome:
        """Declines the kernel; raises PlanError if a Plan asks for a form that it cannot have.

        left: the trial that was declined, perhaps because it spills.
        """
        asked = self.request.plan
        if asked is not None and (asked.another_form or asked.ping_pong):
            raise PlanError(f"{self.job.kernel}: the Plan cannot be carried out: {refusal}")
        if is_expectation(refusal):
            self.job.forecast = self._forecast(None, left)
        return Outcome(False, None, (refusal,))

    def _no_space(self, use: SharedUse) -> Outcome:
        """Declines a kernel that does not fit in shared memory; raises SharedMemoryError if it was pinned."""
        text = overflow_text(self.job.kernel, use)
        if self.request.depth_pinned or self.request.pinned:
            from tawa.bridge.triton.artifacts.shared_memory_error import PlanTooLarge, SharedMemoryError

            kind = SharedMemoryError if self.request.plan is None else PlanTooLarge
            raise kind(use.total_bytes, LIMIT_BYTES, text)
        return Outcome(False, None, (no_space(text),))

    def _forecast(
        self, plan: Plan | None, trial: Trial | None = None, partitioned: bool = True
    ) -> dict[str, Any] | None:
        """What launches need to choose between the forms of the kernel by prediction; None if all get this one.

        plan: of the specialised kernel; None for stock Triton's. trial: the one that was chosen, or declined for its
        spills. partitioned: whether a form may have partitions.
        """
        request = self.request
        given = {"ours": self.launching.ours, "planned": request.plan is not None, "forced": self._forced}
        choice = choose_launches(self.pins, plan, **given)
        space = self.space if choice != "always" else None
        if space is None:
            return None
        with self.job.timed("offer forms"):
            own = form_of(space, plan) if plan is not None else None
            tried = trial.plan if trial is not None and own is None else None
            spilled = trial.spilled if trial is not None else 0
            search = Search.of(space, options=request.options).beside(own, choice == "predicted")
            if not partitioned:
                search = replace(search, forms=tuple(it for it in search.forms if not it.partitioned))
            return forecast_facts(search, spilled, tried) if search.forms or partitioned else None


def with_remarks(outcome: Outcome, remarks: tuple[Remark, ...]) -> Outcome:
    """The outcome with further remarks after its own; the first stays the headline."""
    return replace(outcome, remarks=tuple(dict.fromkeys((*outcome.remarks, *remarks))))
