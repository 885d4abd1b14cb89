"""The driver's inputs (`Toolchain`, `Source`) and outputs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tawa.bridge.driver.spills import Spills
from tawa.bridge.driver.stock_run import StockRun
from tawa.bridge.triton.stage_output import Stage, StageResult
from tawa.bridge.triton.stages import StageSplit
from tawa.pipeline import Outcome
from tawa.plan import PlanOptions
from tawa.plan.cost.budget import StockCopies
from tawa.plan.trials import BackEndRun
from tawa.symbolic.host.launch_spec import LaunchSpec


@dataclass(frozen=True, slots=True)
class Toolchain:
    """Triton's part of a compile. later: its stages after ``ttgir``, in order.

    stock: the stock compile; empty for callers that stop at ``ttgir``.
    """

    split: StageSplit
    later: tuple[tuple[str, Stage], ...]
    options: Any
    capability: int
    stock: StockRun = field(default_factory=lambda: StockRun(None, {}, {}, None))


@dataclass(frozen=True, slots=True)
class Source:
    """The kernel: the text of its TTIR, its MLIR context, its name, and the metadata of the compile so far.

    stock_copies: how stock Triton copies the tiles of its loads to shared memory.
    """

    ttir: str
    context: Any
    kernel: str
    metadata: dict[str, Any]
    stock_copies: StockCopies = "tma"


@dataclass(frozen=True, slots=True)
class Specialised:
    """A specialised kernel.

    options: of the request. results: by stage, in order. spills: of the chosen Plan. raised: whether pointer loads
    became TMA loads. launch: what the launcher then has to do. why: what feedback decided, by field of the Plan.
    """

    outcome: Outcome
    options: PlanOptions
    results: dict[str, StageResult]
    shared_bytes: int
    spills: Spills = field(default_factory=Spills)
    raised: bool = False
    launch: LaunchSpec = field(default_factory=LaunchSpec)
    why: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class Worksheet:
    """Kept even if a compile fails: times of its steps in milliseconds, the texts so far, the runs of the back end.

    forecast: what launches need to choose between forms of the kernel (`tawa.bridge.launch.forecasts`), or None.
    """

    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    back_end_runs: list[BackEndRun] = field(default_factory=list[BackEndRun])
    texts: dict[str, str] = field(default_factory=dict[str, str])
    tawa_ms: float = 0.0
    forecast: dict[str, Any] | None = None

    @contextmanager
    def timed(self, name: str, ours: bool = True) -> Iterator[None]:
        """Adds the time of the block to `name`, and to Tawa's total if the work is not Triton's."""
        start = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - start) * 1000
            self.stage_ms[name] = self.stage_ms.get(name, 0.0) + elapsed
            self.tawa_ms += elapsed if ours else 0.0
