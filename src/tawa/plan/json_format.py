"""Plans as JSON: writes and reads complete and partial Plans.

The types of the values are those that the fields of the Plan and of its entries declare (`tawa.outside.read`).
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from tawa.errors import PlanError
from tawa.outside import Unfit, json_of, names_and_values, read_fields, shown

JSON_VERSION = 7
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
    """A Plan, the class `kind`, from JSON text; raises PlanError."""
    with refused_as_plan():
        return from_data(kind, json_of(text))


def from_data(kind: type[_T], data: object) -> _T:
    """A complete or partial Plan, the class `kind`, from plain JSON data; raises PlanError."""
    with refused_as_plan():
        given = names_and_values(data)
        version = given.pop("version", JSON_VERSION)
        if type(version) is not int or version != JSON_VERSION:
            raise Unfit(f"version {shown(version)} is not {JSON_VERSION}")
        return read_fields(kind, given)


def without_open_fields(data: dict[str, Any]) -> dict[str, Any]:
    """Plain JSON data of a Plan's fields, with the version, without the fields that the Plan leaves open."""
    kept = {name: it for name, it in _without_none(data).items() if it != [] or name not in _ENTRIES}
    return {"version": JSON_VERSION, **kept}


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
