"""Stock Triton's compile of the same kernel: run at most once, and only on demand.

A specialised kernel that spills is accepted only if the stock kernel spills as much. If none is accepted, the results
of this compile are used, so nothing is compiled twice. The compile runs Triton's own stages on the module that Triton
passed in, so its results are what Triton makes without Tawa.

Triton's front half, which lays the kernel out, is run once for both kernels where the specialised one starts from the
kernel as written (`StockRun.front`). The stage ``ttgir`` then runs the rest.

If the specialised kernel is expected to spill, this compile begins in a thread while ptxas works on that kernel
(`StockRun.begin`); LLVM and ptxas run without Python's lock. The two share an MLIR context, so passes on MLIR never run
in both threads: the other thread first waits until this one has left MLIR (`StockRun.lowered`).
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

from tawa.bridge.driver.spills import find_spills
from tawa.bridge.launch.stock_facts import facts_of_log
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.stage_output import Stage, StageOutput, StageResult
from tawa.bridge.triton.stages import StageSplit
from tawa.bridge.triton.surroundings import folder_failure
from tawa.plan.cost.programs import ProgramFacts


class StockFailure(Exception):
    """Triton's own stages refuse the kernel; the stock compile reports that to the user."""


def stock_failure(error: Exception) -> Exception:
    """The `StockFailure` for an error of Triton's; for a folder that cannot be used, the error that names it."""
    return folder_failure(error) or StockFailure(str(error))


class StockRun:
    """The stages of one kernel from ``ttgir`` on. results: by stage, in order; empty until `spilled` runs them.

    module: Triton's own, which the stages change in place; None if there is no stock compile.
    """

    def __init__(self, module: Any, metadata: Mapping[str, Any], stages: Mapping[str, Stage], options: Any) -> None:
        self.module = module
        self.metadata = metadata
        self.stages = dict(stages)
        self.options = options
        self.results: dict[str, StageResult] = {}
        self.log = ""
        self._spilled: int | None = None
        self._error: Exception | None = None
        self._fronted = False
        self._thread: threading.Thread | None = None
        self._lowered = threading.Event()

    @property
    def unused(self) -> bool:
        """Whether the compile has not begun."""
        return self._thread is None and self._spilled is None and self._error is None

    def front(self, split: StageSplit, capability: int) -> Any:
        """The module after Triton's front half, for reading only. Raises StockFailure."""
        if not self._fronted:
            options = self.options
            try:
                self.module = split.front(self.module, dict(self.metadata), options, capability)
            except Exception as error:
                self._error = error
                raise stock_failure(error) from error

            def rest(mod: Any, metadata: dict[str, Any]) -> Any:
                return split.back(split.middle(mod, metadata, options, capability), metadata, options, capability)

            self.stages["ttgir"] = rest
            self._fronted = True
        return self.module

    def stage(self, name: str, before: Any) -> Stage | None:
        """What is left of a stage for the module `before`; None if the whole stage is."""
        return self.stages[name] if self._fronted and before is self.module else None

    def spilled(self) -> int:
        """Bytes that the stock kernel spills. Raises StockFailure."""
        if self.unused:
            self._attempt()
        self.finish()
        if self._spilled is None:
            assert self._error is not None
            raise stock_failure(self._error) from self._error
        return self._spilled

    def begin(self) -> None:
        """Begins the compile in a thread. Until `lowered` returns, nothing else may use the module's MLIR context."""
        if self.unused:
            self._thread = threading.Thread(target=copy_context().run, args=(self._attempt,), name="tawa stock compile")
            self._thread.start()

    def lowered(self) -> None:
        """Waits until a compile that was begun is done with MLIR."""
        if self._thread is not None:
            self._lowered.wait()

    def finish(self) -> None:
        """Waits for the end of a compile that was begun."""
        if self._thread is not None:
            self._thread.join()

    def facts(self) -> ProgramFacts | None:
        """What is known of the kernel that was compiled; None if it was not, or if the log of ptxas was not kept."""
        if not self.results:
            return None
        last = list(self.results.values())[-1]
        return facts_of_log(self.log, int(last.metadata.get("shared") or 0))

    def _attempt(self) -> None:
        try:
            self._spilled = self._run()
        except Exception as error:
            self._error = error
        finally:
            self._lowered.set()

    def result(self, name: str) -> StageResult | None:
        """The result of a stage, if it was run. If the run failed, raises that error again: the module is used up."""
        if name not in self.results and self._error is not None:
            raise self._error
        return self.results.get(name)

    def _run(self) -> int:
        metadata, value = dict(self.metadata), self.module
        with kept_log() as log:
            for name, stage in self.stages.items():
                value = stage(value, metadata)
                made = StageOutput(str(value), value, value.context) if name == "ttgir" else value
                self.results[name] = StageResult(made, dict(metadata))
                if isinstance(value, str):  # text of LLVM or PTX: MLIR is left behind
                    self._lowered.set()
        self.log = log.text
        ptx, cubin = (self.results[name].value if name in self.results else None for name in ("ptx", "cubin"))
        return find_spills(ptx, cubin, self.options, log.text).bytes
