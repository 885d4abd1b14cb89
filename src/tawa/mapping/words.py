"""The words of a mapping: what a value may be, and the field of the Plan that it stands for.

A word is a field of a section (`tawa.mapping.sections`) with a kind in its metadata (`tawa.plan.decision`). A section
checks its values when it is made: a bad one is a PlanError that names section, word and the nearest legal value.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, cast

from tawa.errors import PlanError
from tawa.mapping.toml_text import value_text
from tawa.plan.decision import Kind, OneOf

KIND, FIELD = "kind", "plan"


@dataclass(frozen=True, slots=True)
class Types:
    """Names with types: { p = "float32" }."""

    def read(self, value: object) -> tuple[tuple[str, str], ...]:
        """Pairs of name and Triton's name of the element type, or "any"."""
        if isinstance(value, tuple):
            value = dict(cast(Sequence[tuple[str, str]], value))
        if not isinstance(value, Mapping):
            raise ValueError('names with types: { p = "float32" }')
        pairs = cast(Mapping[str, object], value)
        return tuple((name, str(OneOf(tuple(ELEMENTS)).read(type))) for name, type in pairs.items())


ELEMENTS = {
    "any": "", "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16", "float8e4nv": "f8E4M3FN",
    "float8e5": "f8E5M2", "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "int1": "i1",
}  # fmt: skip
"""Element types by the names that kernels use."""


def word(kind: Kind, plan: str = "") -> Any:
    """A field of a section. plan: the field of the Plan that it stands for."""
    return field(default=None, metadata={KIND: kind, FIELD: plan})


def read_words(section: object, title: str) -> None:
    """Checks the values of a section in place; raises PlanError."""
    for it in fields(cast(Any, section)):
        value = getattr(section, it.name)
        if value is None or KIND not in it.metadata:
            continue
        object.__setattr__(section, it.name, read_word(it, value, title))


def read_word(it: Field[Any], value: object, title: str, place: str = "") -> Any:
    """The value of a word; raises PlanError with the nearest legal one. place: where it is written."""
    try:
        return it.metadata[KIND].read(value)
    except ValueError as error:
        raise PlanError(f"{title} {it.name} = {value_text(value)} is not legal{place}; cure: {error}") from None


def nearest(name: str, names: Iterable[str]) -> str:
    """The known names nearest to one that does not exist, for a message."""
    known = list(names)
    if not known:
        return "cure: leave it out, it has none"
    close = difflib.get_close_matches(name, known, n=2, cutoff=0.5)
    if not close or len(known) == 1:
        return f"cure: {'one of ' * (len(known) > 1)}{', '.join(known)}"
    return f"cure: {' or '.join(close)} (of {', '.join(known)})"
