"""What a kernel was compiled to, why, and what it costs, as a value, a table and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from tawa.bridge.launch.answer import Decision
from tawa.bridge.report.report import KernelReport
from tawa.declines import section_of
from tawa.mapping.tasks import Task
from tawa.plan import PartitionPlan, Plan, RingPlan
from tawa.plan.reasons import Decision as Decided
from tawa.plan.schedule import Schedule
from tawa.runtime.explain.candidates import Candidates
from tawa.runtime.explain.explicit import NamedProgram, RingEnds
from tawa.runtime.explain.source import SourceFunction
from tawa.runtime.simulation import Panels


@dataclass(frozen=True, slots=True)
class Explanation:
    """One compiled kernel.

    applied: whether it was specialised; reason, location (``file:line``) and cure say why or why not.
    decision: what its launches get: "specialised", "declined" (stock Triton's kernel), or "depends", on `condition`;
    "explicit" for a Gluon kernel, which is compiled as it is: `program` has what its IR consists of.
    resolved: the arguments of the one launch that was asked about, and the values in the condition; else None.
    wherever_legal: whether it was compiled without asking if it pays.
    plan: the whole Plan; decisions: who made each, and why; partitions, rings, schedules, mma_depth: parts of the Plan.
    These are empty and None if not applied. shared_bytes: of one CTA, as allocated. registers: per thread, as ptxas
    counts them. wgmma_waits: wgmmas left in flight at each wait, in program order.
    verification: the effort of the checks; verdict: their result (``verdict``, ``bound``, ``reason``, …), None if
    nothing was checked. compile_ms, tawa_ms: the whole compile, and Tawa's share; stage_ms: by stage; None if Tawa took
    no part. mapping: the whole Plan as a mapping, in TOML; tasks: what each part of it reads and writes. back_end_runs:
    one for each Plan that went through Triton's back end; `remarks` name those that did not. target: the GPU that it
    was compiled for, ``sm_90``.
    """

    kernel: str
    applied: bool
    reason: str
    location: str | None
    cure: str
    mode: str
    plan: Plan | None
    shared_bytes: int
    registers: int
    spill_bytes: int
    wgmma_waits: tuple[int, ...]
    compile_ms: float | None
    tawa_ms: float | None
    stage_ms: tuple[tuple[str, float], ...]
    remarks: tuple[str, ...]
    versions: tuple[tuple[str, str], ...]
    report: KernelReport
    target: str
    reproducer: str = ""
    verification: str = "off"
    verdict: Mapping[str, Any] | None = None
    decision: Decision | Literal["explicit"] = "specialised"
    condition: str = ""
    resolved: Mapping[str, Any] | None = None
    wherever_legal: bool = False
    decisions: tuple[Decided, ...] = ()
    back_end_runs: tuple[Mapping[str, Any], ...] = ()
    program: NamedProgram | None = None
    mapping: str = ""
    tasks: tuple[Task, ...] = ()
    source: tuple[SourceFunction, ...] = ()
    ring_ends: tuple[RingEnds, ...] = ()
    candidates: Candidates = field(default_factory=Candidates)
    timelines: Panels = ()
    timeline_note: str = ""

    @property
    def keeps_order(self) -> bool | None:
        """Whether every sum keeps its order, so that results have the same bits; None if not applied."""
        return self.plan.keeps_order if self.plan is not None else None

    @property
    def section(self) -> str:
        """The section of the documentation on its reason, ``docs/declines.md#spills``; empty if it is specialised."""
        return "" if self.applied or self.program is not None else section_of(self.reason)

    @property
    def headline(self) -> str:
        """What launches of the kernel get under these options, in one line."""
        known = (self.resolved or {}).get("known") or {}
        numbers = ", ".join(f"{name} = {value}" for name, value in known.items())
        given = f" for {numbers}" if known else ""
        how = " (pinned)" if self.mode == "pinned" else " (wherever legal)" if self.wherever_legal else ""
        match self.decision:
            case "depends":
                which = f"depends on the launch{', with ' * bool(known)}{numbers}"
                return f"{which}: specialised where {self.condition}; stock Triton's kernel otherwise"
            case "specialised":
                where = f", where {self.condition}" if self.condition and self.resolved is None else ""
                return f"specialised{how}{where}{given}"
            case "declined":
                return f"declined{given}"
            case "explicit":
                found = self.verdict["verdict"] if self.verdict is not None else "not checked"
                return f"written in Gluon, compiled as it is; its protocol is {found}"

    @property
    def partitions(self) -> tuple[PartitionPlan, ...]:
        """The partitions of the Plan."""
        return self.plan.partitions if self.plan is not None else ()

    @property
    def rings(self) -> tuple[RingPlan, ...]:
        """The rings of the Plan."""
        return self.plan.rings if self.plan is not None else ()

    @property
    def schedules(self) -> tuple[Schedule, ...]:
        """The schedules of the Plan, of loops whose dots are staged."""
        return self.plan.schedules if self.plan is not None else ()

    @property
    def mma_depth(self) -> int | None:
        """P of the Plan."""
        return self.plan.mma_depth if self.plan is not None else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "kernel": self.kernel,
            "target": self.target,
            "headline": self.headline,
            "decision": self.decision,
            "condition": self.condition or None,
            "resolved": dict(self.resolved) if self.resolved is not None else None,
            "wherever_legal": self.wherever_legal,
            "applied": self.applied,
            "reason": self.reason,
            "location": self.location,
            "cure": self.cure,
            "section": self.section or None,
            "mode": self.mode,
            "plan": self.plan.to_dict() if self.plan is not None else None,
            "decisions": [decision.to_dict() for decision in self.decisions],
            "keeps_order": self.keeps_order,
            "mapping": self.mapping or None,
            "tasks": [asdict(task) for task in self.tasks],
            "partitions": [
                {"name": part.name, "role": part.role, "warps": part.num_warps, "registers": part.registers}
                for part in self.partitions
            ],
            "rings": [
                {"name": ring.name, "payload": list(ring.tiles), "depth": ring.depth, "bytes": ring.total_bytes}
                for ring in self.rings
            ],
            "mma_depth": self.mma_depth,
            "schedules": [
                {
                    "loop": it.loop,
                    "location": it.location,
                    "stages": it.stages,
                    "ii_cycles": it.ii_cycles,
                    "bounds": [{"what": bound.what, "cycles": bound.cycles} for bound in it.bounds],
                }
                for it in self.schedules
            ],
            "verification": self.verification,
            "verdict": dict(self.verdict) if self.verdict is not None else None,
            "shared_bytes": self.shared_bytes,
            "registers": self.registers,
            "spill_bytes": self.spill_bytes,
            "wgmma_waits": list(self.wgmma_waits),
            "compile_ms": self.compile_ms,
            "tawa_ms": self.tawa_ms,
            "stage_ms": dict(self.stage_ms),
            "back_end_runs": [dict(run) for run in self.back_end_runs],
            "remarks": list(self.remarks),
            "reproducer": self.reproducer,
            "candidates": self.candidates.to_dict(),
            "report": self.report.to_json(),
            "versions": dict(self.versions),
            **(self.program.to_dict() if self.program is not None else {}),
        }

    def to_json(self) -> str:
        """JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self) -> str:
        """One page with everything, a file of its own that needs no network (`tawa explain --html`)."""
        from tawa.runtime.page.explanation import explanation_page

        return explanation_page(self)

    def _repr_html_(self) -> str:
        """The facts and the Plan, for a notebook."""
        from tawa.runtime.page.explanation import explanation_cell

        return explanation_cell(self)

    def __repr__(self) -> str:
        return f"Explanation({self.kernel}: {self.headline})"

    def table(self) -> Any:
        """A rich table for a terminal."""
        from tawa.runtime.explain.table import explanation_table

        return explanation_table(self)

    def __str__(self) -> str:
        from tawa.runtime.explain.table import as_text

        return as_text(self.table())
