"""Plans as JSON: writes complete and partial Plans, reads every version of the format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from tawa.errors import PlanError, did_you_mean
from tawa.plan.entries import UNCAPPED, LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, RingPlan, StorePlan
from tawa.plan.schedule import Schedule, Wanted

JSON_VERSION = 6
"""Version 1 had no schedules, version 2 only rings for TMA, version 3 no operands in registers, version 4 no operands,
stores, loops, form or launches, version 5 three rules in place of the choice of a launch."""
_CURE = "start from what tawa compile --emit plan prints"
_OLD = (1, 2, 3, 4)
_RULES = 5
_OLD_FIELDS = (
    "partitions", "rings", "mma_depth", "staged_stores", "max_registers", "early_puts", "schedules", "max_stages",
    "ping_pong", "keep_operands",
)  # fmt: skip

_T = TypeVar("_T")


def parse(text: str) -> object:
    """The data of JSON text; raises PlanError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise PlanError(f"not a Plan: {error}; cure: {_CURE}") from error


def without_open_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON data of a Plan's fields, with the version, without the fields that the Plan leaves open."""
    data = _without_none(data)
    if data["numbering"] == "program":
        del data["numbering"]
    return {"version": JSON_VERSION, **{name: it for name, it in data.items() if it != [] or name not in _ENTRIES}}


def fields_of(data: object, known: Sequence[str]) -> dict[str, Any]:
    """The fields of a complete or partial Plan, from plain JSON data of any version; raises PlanError."""
    given = _names_and_values(data, "a Plan")
    version = given.pop("version", JSON_VERSION)
    if version not in range(1, JSON_VERSION + 1) or isinstance(version, bool):
        raise PlanError(f"not a Plan: version {version!r} is not one of 1 to {JSON_VERSION}; cure: {_CURE}")
    if version in _OLD:
        return _of_old_version(given)
    return _of_this_version(_of_version_5(given) if version == _RULES else given, known)


def _of_version_5(data: dict[str, Any]) -> dict[str, Any]:
    """Version 5 left short and crowded launches to the stock kernel, and gave many programs the persistent form."""
    if not isinstance(data.get("launches"), dict):
        return data
    launches = cast(dict[str, Any], data["launches"])
    rules = {name: launches[name] for name in ("short", "crowded", "many") if launches.get(name) is not None}
    choice = {"choice": "predicted" if {"stock", "persistent"} & set(rules.values()) else "always"} if rules else {}
    kept = {name: value for name, value in launches.items() if name not in ("short", "crowded", "many")}
    return {**data, "launches": {**kept, **choice}}


def _of_this_version(data: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
    values = dict(data)
    _known(values, known, "a Plan")
    for name, read in _ENTRIES.items():
        if name in values:
            values[name] = tuple(read(entry) for entry in _list(values[name], name))
    if values.get("launches") is not None:
        values["launches"] = _entry(LaunchPlan, values["launches"], "launches", conditions=_texts)
    if values.get("unit_strides") is not None:
        values["unit_strides"] = _texts(values["unit_strides"])
    if values.get("turns") is not None:
        values["turns"] = tuple(_pair(it) for it in _list(values["turns"], "turns"))
    return values


def _pair(value: object) -> tuple[int, int]:
    found = _numbers(value)
    if len(found) != 2:
        raise PlanError(f"not a Plan: a turn is {value!r}, a pair of dot numbers is needed; cure: {_CURE}")
    return found[0], found[1]


def _of_old_version(data: dict[str, Any]) -> dict[str, Any]:
    """Versions 1 to 4 have one P for all loops, and no entries for operands and stores, and no form."""
    _known(data, _OLD_FIELDS, "a Plan of version 1 to 4")
    if "partitions" not in data or "rings" not in data or "mma_depth" not in data:
        raise PlanError(f"not a Plan: partitions, rings and mma_depth are needed in versions 1 to 4; cure: {_CURE}")
    partitions = [_partition(part) for part in _uncapped(data["partitions"])]
    rings = [_old_ring(_ring(ring)) for ring in _list(data["rings"], "rings")]
    schedules = [_schedule(schedule) for schedule in _list(data.get("schedules", ()), "schedules")]
    keep, staged = data.get("keep_operands", False), data.get("staged_stores", True)
    for name, flag in (("keep_operands", keep), ("staged_stores", staged)):
        if not isinstance(flag, bool):
            raise PlanError(f"{name}={flag!r} in a Plan: True or False is needed, not {type(flag).__name__}")
    stages = data.get("max_stages", 2)
    every = LoopPlan(None, data["mma_depth"], stages, kept=None if keep else ())
    cap = data.get("max_registers")
    return {
        "groups": sum(part.role == "consumer" for part in partitions),
        "partitions": tuple(partitions),
        "max_registers": UNCAPPED if cap is None else cap,
        "operands": () if stages else (OperandPlan(prefetched=False),),  # max_stages = 0 also prevented prefetching
        "stores": (StorePlan(staged=staged),),
        "loops": (every, *(LoopPlan(it.loop, stages=it.stages, schedule=it) for it in schedules)),
        "rings": tuple(rings),
        "early_puts": data.get("early_puts", 0),
        "ping_pong": data.get("ping_pong", False),
        "numbering": "staged" if schedules else "program",
    }


def _uncapped(partitions: object) -> list[Any]:
    """Partitions of versions in which null left the registers to Triton."""
    found = [_names_and_values(it, "an entry of partitions") for it in _list(partitions, "partitions")]
    return [{**it, "registers": it.get("registers") or UNCAPPED} for it in found]


def _old_ring(ring: RingPlan) -> RingPlan:
    """A ring with the fields that version 1 and 2 did not have."""
    return replace(ring, copies=ring.copies or 1, fill=ring.fill or "tma")


# -- entries -----------------------------------------------------------------------------------------------------------


def _entry(kind: type[_T], data: object, name: str, **readers: Callable[[Any], Any]) -> _T:
    """One entry of a Plan; raises PlanError."""
    values = _names_and_values(data, f"an entry of {name}")
    known = [it.name for it in fields(kind)]  # type: ignore[arg-type]
    _known(values, known, f"an entry of {name}")
    for key, read in readers.items():
        if values.get(key) is not None:
            values[key] = read(values[key])
    try:
        return kind(**values)
    except TypeError as error:
        raise PlanError(f"not a Plan: an entry of {name} is {data!r}: {error}; cure: {_CURE}") from error


def _partition(data: object) -> PartitionPlan:
    return _entry(PartitionPlan, data, "partitions")


def _ring(data: object) -> RingPlan:
    return _entry(RingPlan, data, "rings", payload=_texts)


def _operand(data: object) -> OperandPlan:
    return _entry(OperandPlan, data, "operands")


def _store(data: object) -> StorePlan:
    return _entry(StorePlan, data, "stores")


def _loop(data: object) -> LoopPlan:
    return _entry(LoopPlan, data, "loops", schedule=_schedule, kept=_numbers, wanted=_wanted)


def _schedule(data: object) -> Schedule:
    return Schedule.from_dict(_names_and_values(data, "a schedule"))


def _wanted(data: object) -> Wanted:
    return Wanted.from_dict(_names_and_values(data, "wanted"))


_ENTRIES: dict[str, Callable[[object], Any]] = {
    "partitions": _partition,
    "operands": _operand,
    "stores": _store,
    "loops": _loop,
    "rings": _ring,
}


def _list(value: object, name: str) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise PlanError(f"not a Plan: {name} is {value!r}, a list is needed; cure: {_CURE}")
    return list(cast(Sequence[Any], value))


def _names_and_values(data: object, what: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise PlanError(f"not a Plan: {what} is {data!r}, names and values are needed; cure: {_CURE}")
    return {str(name): value for name, value in cast(Mapping[object, Any], data).items()}


def _texts(value: object) -> tuple[str, ...]:
    found = _list(value, "a list of names")
    if not all(isinstance(it, str) for it in found):
        raise PlanError(f"not a Plan: {value!r}, a list of names is needed; cure: {_CURE}")
    return tuple(found)


def _numbers(value: object) -> tuple[int, ...]:
    found = _list(value, "a list of numbers")
    if not all(type(it) is int for it in found):
        raise PlanError(f"not a Plan: {value!r}, a list of whole numbers is needed; cure: {_CURE}")
    return tuple(found)


def _known(data: Mapping[str, Any], names: Sequence[str], what: str) -> None:
    for name in data:
        if name not in names:
            hint = did_you_mean(name, names, f"known: {', '.join(names)}")
            raise PlanError(f"not a Plan: {what} has no {name!r}: {hint}; cure: {_CURE}")


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

__all__ = ["JSON_VERSION", "fields_of", "parse", "without_open_fields"]
