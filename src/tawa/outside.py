"""Data from outside: text is decoded here, and plain data is read into the types that dataclasses declare.

    @dataclass
    class RingPlan:
        name: str = ""
        depth: int | None = None

    read(RingPlan, {"name": "ring0", "depth": [1]}, "rings[0]")
    → Unfit: rings[0].depth is [1], not a whole number

Files may be damaged, or come from a stranger. What this module returns has the declared types, all the way down; it
never chooses a path, a module or code. Callers turn `Unfit` into the error of their kind of file, with the cure.
"""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin

from tawa.errors import did_you_mean

_T = TypeVar("_T")
_MOST_SHOWN = 80
_WHOLE = range(-(1 << 63), 1 << 63)


class Unfit(ValueError):
    """A text, or a value in it, that is not what its place needs. The message has the value, the place and the need."""


def text_of(path: Path, encoding: str = "utf-8") -> str:
    """The text of a file. Raises Unfit if it is not text, OSError if it cannot be read."""
    try:
        return path.read_text(encoding=encoding)
    except UnicodeDecodeError as error:
        raise Unfit(_undecodable(path.name, error)) from error
    except ValueError as error:  # a name with a zero byte
        raise Unfit(f"{str(path)!r} is no path: {error}") from error


def _undecodable(name: str, error: UnicodeDecodeError) -> str:
    at = error.start
    return f"{name} is not {error.encoding.upper()}: byte {error.object[at]:#04x} at offset {at}"


def json_of(text: str) -> object:
    """The data of JSON text; raises Unfit."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise Unfit(f"it is not JSON: {error}") from error
    except RecursionError:
        raise Unfit("it is not JSON: brackets are nested too deeply") from None


def read(kind: type[_T], value: object, where: str = "") -> _T:
    """A value of the declared type: a dataclass, a scalar, a `Literal`, a tuple, a mapping by text, or a union of them.

    A dataclass whose data has a format of its own has a static method `from_data`, which reads it.
    value: plain data, as JSON has it. where: what the value is called in messages: ``rings[0].depth``; empty: "it".
    Raises Unfit, and what the checks of the dataclasses raise.
    """
    return _read(kind, value, where)


def read_fields(kind: type[_T], value: object, where: str = "") -> _T:
    """As `read`, of a dataclass: from the values of its fields by name, also where it has a format of its own."""
    declared, data = _declared(kind), names_and_values(value, where)
    check_known(data, tuple(declared), where)
    for name, (_, is_needed) in declared.items():
        if is_needed and name not in data:
            raise Unfit(f"{_below(where, name)} is missing")
    return kind(**{name: _read(declared[name][0], it, _below(where, name)) for name, it in data.items()})


def names_and_values(value: object, where: str = "") -> dict[str, Any]:
    """A dictionary by text; raises Unfit."""
    if not isinstance(value, Mapping):
        raise _unfit(value, where, "names and values")
    found = cast(Mapping[object, Any], value)
    for name in found:
        _read(str, name, f"a name in {where or 'it'}")
    return dict(cast(Mapping[str, Any], value))


def check_known(data: Mapping[str, Any], known: Sequence[str], where: str = "") -> None:
    """Raises Unfit for a name that is not known."""
    for name in data:
        if name not in known:
            hint = did_you_mean(name, known, f"known: {', '.join(known)}")
            raise Unfit(f"{where or 'it'} has no {shown(name)}: {hint}")


def shown(value: object) -> str:
    """A value in a message, cut off where it is long."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an int of thousands of digits, a list that nests too deeply
        text = f"of type {type(value).__name__}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def is_unicode(text: str) -> bool:
    """Whether a text can be written: JSON may spell halves of characters."""
    return text.isascii() or not any("\ud800" <= it <= "\udfff" for it in text)


# -- by the declared type ----------------------------------------------------------------------------------------------


def _read(kind: Any, value: object, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, Union):
        return _one_of(get_args(kind), value, where, _needed(kind))
    if origin is Literal:
        return _fits(value, where, _needed(kind), any(it == value and type(it) is type(value) for it in get_args(kind)))
    if origin is tuple:
        return _tuple(get_args(kind), value, where, _needed(kind))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        entry = get_args(kind)[1]
        return {name: _read(entry, it, _below(where, name)) for name, it in names_and_values(value, where).items()}
    if is_dataclass(kind):
        of_its_own = getattr(kind, "from_data", None)
        return of_its_own(value) if of_its_own is not None else read_fields(cast(Any, kind), value, where)
    if kind is int:
        needed = "a whole number of 64 bits" if type(value) is int else _needed(kind)
        return _fits(value, where, needed, type(value) is int and value in _WHOLE)
    if kind is float:
        return _fits(value, where, _needed(kind), type(value) in (int, float))
    if kind is str:
        return _fits(value, where, _needed(kind), isinstance(value, str) and is_unicode(value))
    return _fits(value, where, _needed(kind), isinstance(value, kind))


@cache
def _declared(kind: type[Any]) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it has no default."""
    hints = {
        name: _evaluated(text, base.__module__)
        for base in reversed(kind.__mro__)
        for name, text in vars(base).get("__annotations__", {}).items()
    }
    return {
        it.name: (hints[it.name], it.default is MISSING and it.default_factory is MISSING)
        for it in fields(kind)
        if it.init
    }


@cache
def _evaluated(annotation: object, module: str) -> Any:
    """The type that an annotation names, as `typing.get_type_hints` has it, but each text is compiled only once."""
    return eval(annotation, vars(sys.modules[module])) if isinstance(annotation, str) else annotation


def _tuple(kinds: tuple[Any, ...], value: object, where: str, needed: str) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _unfit(value, where, needed)
    items = cast(Sequence[object], value)
    each = (kinds[0],) * len(items) if kinds[1:] == (...,) else kinds
    if len(items) != len(each):
        raise _unfit(value, where, needed)
    return tuple(_read(kind, it, f"{where}[{at}]") for at, (kind, it) in enumerate(zip(each, items, strict=True)))


def _one_of(kinds: tuple[Any, ...], value: object, where: str, needed: str) -> Any:
    """The value as the first type that it fits. Where only one type remains beside null, its own error is clearer."""
    others = [kind for kind in kinds if kind is not types.NoneType]
    if value is None and len(others) < len(kinds):
        return None
    if len(others) == 1:
        return _read(others[0], value, where)
    for kind in others:
        try:
            return _read(kind, value, where)
        except Unfit:
            continue
    raise _unfit(value, where, needed)


def _fits(value: object, where: str, needed: str, fits: bool) -> Any:
    if not fits:
        raise _unfit(value, where, needed)
    return value


def _unfit(value: object, where: str, needed: str) -> Unfit:
    return Unfit(f"{where or 'it'} is {shown(value)}, not {needed}")


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name


@cache
def _needed(kind: Any) -> str:
    """A type in words."""
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    if kind in names:
        return names[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if kind is types.NoneType:
        return "null"
    if origin in (types.UnionType, Union):
        return " or ".join(map(_needed, inner))
    if origin is Literal:
        return f"one of {', '.join(map(str, inner))}"
    if origin is tuple:
        return "a list" if inner[1:] == (...,) else f"a list of {len(inner)}"
    return "names and values"
