"""Plans as JSON: writes complete and partial Plans, reads every version of the format.

The types of the values are those that the fields of the Plan and of its entries declare (`tawa.outside.read`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from tawa.errors import PlanError
from tawa.outside import Unfit, json_of, names_and_values, read, read_fields, shown
from tawa.plan.entries import UNCAPPED, LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.plan.schedule import Schedule

JSON_VERSION = 6
"""Version 1 had no schedules, version 2 only rings for TMA, version 3 no operands in registers, version 4 no operands,
stores, loops, form or launches, version 5 three rules in place of the choice of a launch."""
_OLD = (1, 2, 3, 4)
_RULES = 5
_ENTRIES = ("partitions", "operands", "stores", "loops", "rings")

_T = TypeVar("_T")


@contextmanager
def refused_as_plan() -> Generator[None]:
    """Turns data that does not fit into a PlanError, with the cure."""
    try:
        yield
    except Unfit as error:
        raise PlanError(f"not a Plan: {error}; cure: start from what tawa compile --emit plan prints") from error


def from_text(kind: type[_T], text: str) -> _T:
    """A Plan, the class `kind`, from JSON text of any version; raises PlanError."""
    with refused_as_plan():
        return from_data(kind, json_of(text))


def from_data(kind: type[_T], data: object) -> _T:
    """A complete or partial Plan, the class `kind`, from plain JSON data of any version; raises PlanError."""
    with refused_as_plan():
        given = names_and_values(data)
        version = given.pop("version", JSON_VERSION)
        if type(version) is not int or version not in range(1, JSON_VERSION + 1):
            raise Unfit(f"version {shown(version)} is not one of 1 to {JSON_VERSION}")
        if version in _OLD:
            return kind(**_of_old_version(given))
        return read_fields(kind, _of_version_5(given) if version == _RULES else given)


def without_open_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON data of a Plan's fields, with the version, without the fields that the Plan leaves open."""
    data = _without_none(data)
    if data["numbering"] == "program":
        del data["numbering"]
    return {"version": JSON_VERSION, **{name: it for name, it in data.items() if it != [] or name not in _ENTRIES}}


def _of_version_5(data: dict[str, Any]) -> dict[str, Any]:
    """Version 5 left short and crowded launches to the stock kernel, and gave many programs the persistent form."""
    if data.get("launches") is None:
        return data
    launches = names_and_values(data["launches"], "launches")
    rules = [launches.pop(name, None) for name in ("short", "crowded", "many")]
    chosen = "predicted" if "stock" in rules or "persistent" in rules else "always"
    choice = {"choice": chosen} if any(it is not None for it in rules) else {}
    return {**data, "launches": {**launches, **choice}}


@dataclass(frozen=True)
class _OldPlan:
    """A Plan of versions 1 to 4: one P for all loops, no entries for operands and stores, and no form."""

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


def _of_old_version(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a Plan of versions 1 to 4."""
    old = read(_OldPlan, data)
    every = LoopPlan(None, old.mma_depth, old.max_stages, kept=None if old.keep_operands else ())
    return {
        "groups": sum(part.role == "consumer" for part in old.partitions),
        "partitions": tuple(replace(it, registers=it.registers or UNCAPPED) for it in old.partitions),
        "max_registers": UNCAPPED if old.max_registers is None else old.max_registers,
        # max_stages = 0 also prevented prefetching
        "operands": () if old.max_stages else (OperandPlan(prefetched=False),),
        "stores": (StorePlan(staged=old.staged_stores),),
        "loops": (every, *(LoopPlan(it.loop, stages=it.stages, schedule=it) for it in old.schedules)),
        # versions 1 and 2 had no copies and no fill
        "rings": tuple(replace(it, copies=it.copies or 1, fill=it.fill or "tma") for it in old.rings),
        "early_puts": old.early_puts,
        "ping_pong": old.ping_pong,
        "numbering": "staged" if old.schedules else "program",
    }


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        data = cast(dict[str, Any], value)
        for_all = "ordinal" in data and data.get("argument") is None  # a default entry has no ordinal
        open_names = (*_TEXTS, "ordinal") if for_all else _TEXTS
        kept = {name: it for name, it in data.items() if it is not None and (it or name not in open_names)}
        return {name: _without_none(it) for name, it in kept.items()}
    if isinstance(value, list | tuple):
        return [_without_none(it) for it in cast(list[Any], value)]
    return value


_TEXTS = ("line", "payload")
"""Fields that count as open if they are empty."""

__all__ = ["JSON_VERSION", "from_data", "from_text", "refused_as_plan", "without_open_fields"]
