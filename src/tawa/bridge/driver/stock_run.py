"""Stock Triton's compile of the same kernel: run at most once, and only on demand.

A specialised kernel that spills is accepted only if the stock kernel spills as much. If none is accepted, the results
of this compile are used, so nothing is compiled twice. The compile runs Triton's own stages on the module that Triton
passed in, so its results are what Triton makes without Tawa.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.driver.spills import find_spills
from tawa.bridge.triton.artifacts.ptxas_log import kept_log
from tawa.bridge.triton.stage_output import Stage, StageOutput, StageResult
from tawa.bridge.triton.surroundings import folder_failure


class StockFailure(Exception):
    """Triton's own stages refuse the kernel; the stock compile reports that to the user."""


def stock_failure(error: Exception) -> Exception:
    """The `StockFailure` for an error of Triton's; for a folder that cannot be used, the error that names it."""
    return folder_failure(error) or StockFailure(str(error))


class StockRun:
    """The stages of one kernel from ``ttgir`` on. results: by stage, in order; empty until `spilled` runs them."""

    def __init__(self, module: Any, metadata: Mapping[str, Any], stages: Mapping[str, Stage], options: Any) -> None:
        self.module = module
        self.metadata = metadata
        self.stages = stages
        self.options = options
        self.results: dict[str, StageResult] = {}
        self._spilled: int | None = None
        self._error: Exception | None = None

    def spilled(self) -> int:
        """Bytes that the stock kernel spills. Raises StockFailure."""
        if self._spilled is None:
            try:
                self._spilled = self._run()
            except Exception as error:
                self._error = error
                raise stock_failure(error) from error
        return self._spilled

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
        ptx, cubin = (self.results[name].value if name in self.results else None for name in ("ptx", "cubin"))
        return find_spills(ptx, cubin, self.options, log.text).bytes
