"""What one compile works on (`Job`), and what it makes (`Specialised`)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from tawa.bridge.driver.spills import Spills
from tawa.bridge.driver.stock_run import StockRun
from tawa.bridge.triton.generic_print import read_ttir
from tawa.bridge.triton.stage_output import Stage, StageResult
from tawa.bridge.triton.stages import StageSplit
from tawa.flow import Flow, Outcome
from tawa.ir import Module
from tawa.machine.machines import SM_90
from tawa.plan.cost.budget import StockCopies
from tawa.plan.search.runs import BackEndRun
from tawa.symbolic.host.launch_spec import LaunchSpec


@dataclass
class Job:
    """One compile: the kernel, Triton's part of the work, and what is noted on the way, also if it fails.

    ttir, context, kernel, metadata: the text of the kernel, its MLIR context, its name, the metadata so far. options,
    capability: of Triton's backend. split: Triton's stage ``ttgir`` in parts; None if the kernel is not specialised.
    stock: the stock compile; empty for callers that stop at ``ttgir``. stock_copies: how stock Triton copies the tiles
    of its loads to shared memory. stage_ms: milliseconds by step; tawa_ms: of all that is not Triton's. texts: of the
    levels so far. forecast: what launches need to choose between forms of the kernel
    (`tawa.bridge.launch.forecasts`), or None.
    """

    ttir: str
    context: Any
    kernel: str
    metadata: dict[str, Any]
    options: Any = None
    capability: int = SM_90.capability
    split: StageSplit | None = None
    stock: StockRun = field(default_factory=lambda: StockRun(None, {}, {}, None))
    stock_copies: StockCopies = "tma"
    stage_ms: dict[str, float] = field(default_factory=dict[str, float])
    tawa_ms: float = 0.0
    texts: dict[str, str] = field(default_factory=dict[str, str])
    back_end_runs: list[BackEndRun] = field(default_factory=list[BackEndRun])
    forecast: dict[str, Any] | None = None

    @cached_property
    def program(self) -> Module:
        """The TTIR, parsed once. Passes that change it work on copies."""
        return read_ttir(self.ttir, self.context)

    @property
    def parts(self) -> StageSplit:
        """Triton's stage ``ttgir`` in parts, for a kernel that is being specialised."""
        assert self.split is not None
        return self.split

    @property
    def later(self) -> list[tuple[str, Stage]]:
        """Triton's stages after ``ttgir``, in order."""
        return list(self.stock.stages.items())[1:]

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


@dataclass(frozen=True, slots=True)
class Specialised:
    """A kernel that went through the back end.

    form: the form that it has. results: by stage, in order; empty where it was known what it spills, so that nothing
    was run. why: what feedback decided, by field of the Plan.
    """

    outcome: Outcome
    form: Flow
    spills: Spills = field(default_factory=Spills)
    results: dict[str, StageResult] = field(default_factory=dict[str, StageResult])
    shared_bytes: int = 0
    why: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def promoted(self) -> bool:
        """Whether pointer loads became TMA loads."""
        return self.form.promoted > 0

    @property
    def launch(self) -> LaunchSpec:
        """What the launcher then has to do."""
        spec, plan = self.form.launch, self.outcome.plan
        return replace(spec, on_one=plan.ctas_per_sm or 1) if spec.axes and plan is not None else spec
