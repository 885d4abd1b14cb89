"""The Plan: one frozen value that holds every decision of the compiler for one kernel.

The kernel keeps its sequential meaning whatever the Plan says; the Plan is the mapping to the machine.
A user can print it, edit it (`dataclasses.replace`, or its JSON) and pin it with ``plan=``.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tawa.dialects.aref import Fill
from tawa.errors import PlanError
from tawa.plan.schedule import Schedule

PartitionRole = Literal["producer", "consumer"]

JSON_VERSION = 4
"""Of the fields below; 1 had neither schedules nor what goes with them, 2 rings for TMA only, 3 no operands kept."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """One partition (warp group). `registers` per thread; None leaves it to Triton's even split."""

    name: str
    role: PartitionRole
    num_warps: int
    registers: int | None = None

    def __post_init__(self) -> None:
        _check_numbers(self, "num_warps", "registers")


@dataclass(frozen=True, slots=True)
class RingPlan:
    """One ring: `payload` are the types of a slot's buffers, `depth` is D, `slot_bytes` of one slot.

    copies: rings like it, one for each consumer group, where its tiles are rows of the group; else 1.
    fill: how the producer fills a slot: "tma", "cp.async", or from its "registers".
    """

    name: str
    payload: tuple[str, ...]
    depth: int
    slot_bytes: int
    copies: int = 1
    fill: Fill = "tma"

    def __post_init__(self) -> None:
        _check_numbers(self, "depth", "slot_bytes", "copies")
        if self.fill not in get_args(Fill):
            raise PlanError(f"fill={self.fill!r} in a Plan: one of {', '.join(get_args(Fill))} is needed")

    @property
    def total_bytes(self) -> int:
        """Shared memory of all slots, barriers not counted."""
        return self.depth * self.slot_bytes * self.copies


@dataclass(frozen=True, slots=True)
class Plan:
    """Every decision for one kernel.

    mma_depth: P. staged_stores: TMA stores leave from a staging buffer whose wait is deferred to its next use.
    max_registers: cap on registers a thread at kernel entry, so that several CTAs fit on one SM; None leaves it to
        Triton.
    early_puts: E, slots of each ring that are filled before the partitions start.
    schedules: of loops whose dots are staged, those of each consumer group by itself. A pinned Plan pins them; a loop
        without one gets its own from `tawa.plan.scheduler`.
    max_stages: the most stages of a schedule that a loop gets of its own; 1 changes only the order, 0 leaves loops as
        they are.
    ping_pong: consumer groups issue their dots by turns.
    keep_operands: left operands that a loop does not change wait in registers, where the loop's tiles leave room.

    Its JSON has the same names, and `version`, which counts their changes; what is left out has its default.
    """

    partitions: tuple[PartitionPlan, ...]
    rings: tuple[RingPlan, ...]
    mma_depth: int
    staged_stores: bool = True
    max_registers: int | None = None
    early_puts: int = 0
    schedules: tuple[Schedule, ...] = ()
    max_stages: int = 2
    ping_pong: bool = False
    keep_operands: bool = False

    def __post_init__(self) -> None:
        _check_numbers(self, "mma_depth", "max_registers", "early_puts", "max_stages")
        _check_flag("ping_pong", self.ping_pong)
        _check_flag("keep_operands", self.keep_operands)

    @property
    def consumer_groups(self) -> int:
        """How many partitions consume."""
        return sum(part.role == "consumer" for part in self.partitions)

    def to_json(self) -> str:
        """The Plan as JSON text that `from_json` reads back."""
        return json.dumps({"version": JSON_VERSION, **asdict(self)}, indent=2)

    @staticmethod
    def from_json(text: str) -> Plan:
        """Reads a Plan written by `to_json`; raises PlanError on anything else."""
        try:
            data: dict[str, Any] = json.loads(text)
            version = data.pop("version", JSON_VERSION)
            if version not in range(1, JSON_VERSION + 1):
                raise ValueError(f"version {version!r} is not one of 1 to {JSON_VERSION}")
            partitions = tuple(PartitionPlan(**part) for part in data.pop("partitions"))
            rings = tuple(replace(RingPlan(**ring), payload=tuple(ring["payload"])) for ring in data.pop("rings"))
            schedules = tuple(Schedule.from_dict(schedule) for schedule in data.pop("schedules", ()))
            return Plan(partitions, rings, schedules=schedules, **data)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise PlanError(f"not a Plan: {error}; cure: start from print(explanation.plan.to_json())") from error


def _check_numbers(value: PartitionPlan | RingPlan | Plan, *names: str) -> None:
    """Raises PlanError when a field that counts something is no whole number (or None, where it may be left out)."""
    optional = ("registers", "max_registers")
    for name in names:
        number: object = getattr(value, name)
        if number is None and name in optional:
            continue
        if isinstance(number, bool) or not isinstance(number, int):
            raise PlanError(f"{name}={number!r} in a Plan: a whole number is needed, not {type(number).__name__}")


def _check_flag(name: str, value: object) -> None:
    """Raises PlanError when a field, as it was given, is not True or False."""
    if not isinstance(value, bool):
        raise PlanError(f"{name}={value!r} in a Plan: True or False is needed, not {type(value).__name__}")
