"""One compile under a request: Triton's stages with ours between them.

```
before   ttir -> ttgir -> llir -> ptx -> cubin
after    ttir -> aref -> barrier -> ttgir -> llir -> ptx -> cubin
```

What need not be attempted (nothing to do, or stock Triton's kernel is the first) is left to stock Triton before the
compiler is loaded. Otherwise the ``aref`` stage does all the work (`tawa.bridge.driver.attempt`), on a *copy* of the
TTIR and of the metadata: our passes, Triton's back half, and every later stage down to the cubin. If all of that
succeeds, the later stages return the results that exist already. Otherwise they run Triton's own functions on the
untouched module (or return the results of the stock compile, if the attempt had to run it). So a kernel that is not
specialised is byte for byte the stock kernel, and a failure of ours leaves nothing half done. The one exception is an
annotation that stock Triton fails on (`tawa.bridge.driver.annotations`): it is removed before anything else reads the
module.
"""

from __future__ import annotations

import logging
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from tawa.bridge.driver.nothing_to_do import why_nothing_to_do
from tawa.bridge.driver.request import Request
from tawa.bridge.driver.tuning.tuning_key import tuning_key
from tawa.bridge.launch.first.compiles import stock_may_start
from tawa.bridge.launch.stock_facts import KEY as STOCK_FACTS
from tawa.bridge.launch.stock_facts import facts_of_log
from tawa.bridge.mapping.beside import shipped_at
from tawa.bridge.report import record
from tawa.bridge.report.left import told
from tawa.bridge.triton.artifacts.cache_entries import CHECKSUMS, checksum, overridden, seal
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.stage_output import Stage, StageOutput, StageResult
from tawa.bridge.triton.stages import StageSplit
from tawa.declines import STOCK_FIRST
from tawa.plan.cost.programs import ProgramFacts
from tawa.remarks import Remark
from tawa.symbolic.host.launch_spec import LaunchSpec

if TYPE_CHECKING:
    from tawa.bridge.driver.data import Specialised
    from tawa.bridge.driver.stock_run import StockRun

_log = logging.getLogger("tawa")

ANNOTATION = "tt.warp_specialize"
_STOCK_FIRST = STOCK_FIRST.remark()
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
        ttir = mod.str()
        left = self._why_left(ttir)
        if left is not None:
            made, text = self._left(mod.get_entry_func_name(), ttir, left), told(left)
        else:
            from tawa.bridge.driver.attempt import attempt

            made, text, mod = attempt(self, mod, metadata)
        metadata[record.KEY] = made
        verb = "specialised" if made["applied"] else "not specialised"
        _log.info("%s: %s: %s", made["kernel"], verb, made["reason"])
        self.aref = StageOutput(text, mod, mod.context)
        self._sum("ttir", stored, metadata)
        self._sum("aref", self.aref, metadata)
        return self.aref

    def _why_left(self, ttir: str) -> Remark | None:
        """Why the kernel is left to stock Triton without an attempt; None if it is attempted."""
        place = record.kernel_location(ttir)
        if self.request.beside or ANNOTATION in ttir:
            return None
        asked = stock_may_start() and not self.request.pinned and not self.request.options.wherever_legal
        remark = self.refusal or why_nothing_to_do(ttir, self.request, asked or self.request.learns)
        if remark is not None:
            return None if self.request.pinned or self.request.mapping is not None else remark
        if not asked or shipped_at(self.request, place):
            return None
        self.stock_first = True
        return _STOCK_FIRST

    def _left(self, kernel: str, ttir: str, remark: Remark) -> record.Record:
        """The record of a kernel that is left to stock Triton."""
        made = record.left_record(kernel, self.request, remark)
        if self.stock_first:
            options, plan = asdict(self.request.options), self.request.plan
            made["launch"] = {
                **LaunchSpec().to_json(), "forecast": None,
                "stock_first": True, "num_warps": self.options.num_warps, "options": options, "annotated": False,
                "plan": plan.to_dict() if plan is not None else None,
            }  # fmt: skip
            key = tuning_key(ttir, self.options, self.request)
            made["tuning"] = {"key": key, "sizes": [], "writes": [], "measure": False}
        return made

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

    def _later_stage(self, name: str, last: bool) -> Stage:
        """Returns the attempt's result if the stage before did so too; otherwise runs Triton's own stage."""

        def stage(before: Any, metadata: dict[str, Any]) -> Any:
            made = self._made(name)
            if made is not None and self._is_ours(name, before):
                metadata.update({key: value for key, value in made.metadata.items() if key != record.KEY})
                value = made.value
                if last and self.result is None and self.stock_run is not None:
                    self.note_stock(metadata[record.KEY], self.stock_run.facts())
            else:
                input = before.module if isinstance(before, StageOutput) else before
                rest = self.stock_run.stage(name, input) if self.stock_run is not None else None
                with kept_log() as log:
                    value = (rest or self.stock[name])(input, metadata)
                if record.KEY in metadata and (self.stock_run is not None or self.stock_first):
                    found = facts_of_log(log.text, int(metadata.get("shared") or 0))
                    self.note_stock(metadata[record.KEY], found)
                if name == "ttgir":
                    from tawa.bridge.driver.stock_overflow import refuse_overflow

                    refuse_overflow(value, self.capability, str(metadata.get("hash", "")))
            self._sum(name, value, metadata)
            if last and record.KEY in metadata:
                metadata[record.KEY]["compile_ms"] = round((time.perf_counter() - self.started) * 1000, 3)
                seal(metadata)
            return value

        return stage

    def note_stock(self, made: record.Record, facts: ProgramFacts | None) -> None:
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
