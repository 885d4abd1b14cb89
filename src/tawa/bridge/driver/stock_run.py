"""Stock Triton's compile of the kernel in hand: made at most once, and only where it is asked for.

What stock Triton spills tells whether a specialised kernel that spills is worth having. If none is, the same results
are what the kernel becomes: so nothing is compiled twice. It works on the module that Triton hands down, through
Triton's own stages, and so gives what Triton would have made without us.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tawa.bridge.driver.spills import find_spills
from tawa.bridge.triton.handover import Handover, Stage, StageResult
from tawa.bridge.triton.ptxas_log import kept_log
from tawa.bridge.triton.surroundings import folder_failure


class StockFailure(Exception):
    """Triton's own stages refuse the kernel; the stock compile will say so to the user."""


def stock_failure(error: Exception) -> Exception:
    """The `StockFailure` for what Triton raised; where a folder cannot be used, the error that says so."""
    return folder_failure(error) or StockFailure(str(error))


class StockRun:
    """The stages from ``ttgir`` on of one kernel. results: by stage, in order; empty until they are asked for."""

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
        """What a stage gave, if it was run; raises again what stopped it, since the module is used up."""
        if name not in self.results and self._error is not None:
            raise self._error
        return self.results.get(name)

    def _run(self) -> int:
        metadata, value = dict(self.metadata), self.module
        with kept_log() as log:
            for name, stage in self.stages.items():
                value = stage(value, metadata)
                made = Handover(str(value), value, value.context) if name == "ttgir" else value
                self.results[name] = StageResult(made, dict(metadata))
        ptx, cubin = (self.results[name].value if name in self.results else None for name in ("ptx", "cubin"))
        return find_spills(ptx, cubin, self.options, log.text).bytes
