"""A decision is declared once: as a field of the Plan or of one of its entries.

    split_k: int | None = decision(Whole(1), "form", word="kernel.programs_per_tile", reorders=lambda it: it > 1)

From this follow the check of its values, the word that mappings have for it (`tawa.mapping.sections`), whether results
keep the bits of stock Triton's kernel, what contradicts an option (`tawa.plan.option_conflicts`), and its line in
explanations (`tawa.plan.reasons`). Its type is read from JSON by `tawa.plan.json_format`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, Literal, Protocol, cast, get_args

from tawa.errors import PlanError
from tawa.outside import is_unicode

Stage = Literal["form", "paths", "partitions", "rings", "loops", "stores", "launches"]
"""Who takes a decision, in this order."""


class Kind(Protocol):
    """What a value may be."""

    def read(self, value: object) -> Any:
        """The value, of one type; raises ValueError with what is legal."""
        ...


@dataclass(frozen=True, slots=True)
class Flag:
    """True or false."""

    def read(self, value: object) -> bool:
        """A bool."""
        if isinstance(value, bool):
            return value
        raise ValueError("true or false")


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number of at least `least`, and a power of two if `power`."""

    least: int = 0
    power: bool = False

    def read(self, value: object) -> int:
        """An int."""
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"a whole number, {self.least} or more")
        if value < self.least:
            raise ValueError(f"{self.least} or more")
        if self.power and value & (value - 1):
            raise ValueError("a power of two")
        return value


@dataclass(frozen=True, slots=True)
class Text:
    """Any text."""

    def read(self, value: object) -> str:
        """A str."""
        if isinstance(value, str) and is_unicode(value):
            return value
        raise ValueError("a text, in quotes")


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of a few words. Underscores count as spaces."""

    words: tuple[str, ...]

    def read(self, value: object) -> str:
        """One of the words."""
        known = {word.replace("_", " "): word for word in self.words}
        if isinstance(value, str) and value.replace("_", " ") in known:
            return known[value.replace("_", " ")]
        listed = ", ".join(f'"{word}"' for word in self.words)
        close = difflib.get_close_matches(str(value), self.words, n=1, cutoff=0.6)
        raise ValueError(f'"{close[0]}" (of {listed})' if close else f"one of {listed}")

    @property
    def spoken(self) -> OneOf:
        """The same words with spaces, as people write them."""
        return OneOf(tuple(word.replace("_", " ") for word in self.words))


@dataclass(frozen=True, slots=True)
class Split:
    """What groups divide; rows and columns may name an operand: "rows of q"."""

    words: tuple[str, ...]

    def read(self, value: object) -> str:
        """The text as it is."""
        word, of, operand = value.partition(" of ") if isinstance(value, str) else ("", "", "")
        if word not in self.words or (of and (word == "programs" or not operand)):
            raise ValueError('"rows", "columns", "programs", or "rows of" a left operand, "columns of" a right one')
        return str(value)


@dataclass(frozen=True, slots=True)
class Slots:
    """The number of slots, or the name of a ring in [rings]."""

    def read(self, value: object) -> int | str:
        """An int of at least 1, or a str."""
        if isinstance(value, str) and value and is_unicode(value):
            return value
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError("a number of slots, or the name of a ring")
        if value < 1:
            raise ValueError("1 slot or more")
        return value


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list."""

    kind: Kind

    def read(self, value: object) -> tuple[Any, ...]:
        """A tuple."""
        if not isinstance(value, list | tuple):
            raise ValueError("a list")
        return tuple(self.kind.read(it) for it in cast(Sequence[object], value))


def one_of(literal: Any) -> OneOf:
    """The words of a `Literal`."""
    return OneOf(get_args(literal))


def _spoken(value: Any) -> str:
    return str(value).replace("_", " ")


def _never(value: Any) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of a field. name, kind: of the field.

    by: who takes the decision; None for a field that is no decision: a key, or a fact about the kernel. word: the
    section and the word of mappings; spoken: its kind there, if it is another one. option: the launch option that asks
    for it. plain: its value for a kernel as it is written. reorders: whether a value changes the order of a sum, so
    that results are rounded otherwise. shown: the value in explanations; empty: not shown. usual: why it is so, if
    nobody said another reason. always: whether it is explained even where it is open.
    """

    name: str
    kind: Kind
    by: Stage | None = None
    word: str = ""
    spoken: Kind | None = None
    option: str = ""
    plain: object = None
    reorders: Callable[[Any], bool] = _never
    shown: Callable[[Any], str] = _spoken
    usual: str | Callable[[Any], str] = ""
    always: bool = False

    @property
    def of_word(self) -> Kind:
        """What the word of mappings may be."""
        if self.spoken is not None:
            return self.spoken
        return self.kind.spoken if isinstance(self.kind, OneOf) else self.kind

    def said(self, value: Any) -> Any:
        """A value as mappings have it: "longest_first" → "longest first"."""
        return value.replace("_", " ") if isinstance(self.kind, OneOf) and value is not None else value

    def meant(self, said: Any) -> Any:
        """The value that a mapping has: "longest first" → "longest_first"."""
        return said.replace(" ", "_") if isinstance(self.kind, OneOf) and said is not None else said

    def reason(self, value: Any) -> str:
        """Why a value is usual."""
        return self.usual if isinstance(self.usual, str) else self.usual(value)


_KEY = "declared"


def decision(
    kind: Kind, by: Stage, word: str = "", spoken: Kind | None = None, option: str = "", plain: object = None,
    reorders: Callable[[Any], bool] = _never, shown: Callable[[Any], str] = _spoken,
    usual: str | Callable[[Any], str] = "", always: bool = False,
) -> Any:  # fmt: skip
    """A field that is a decision; None leaves it to the planner. The arguments are those of `Declared`."""
    about = Declared("", kind, by, word, spoken, option, plain, reorders, shown, usual, always)
    return field(default=None, metadata={_KEY: about})


def part(kind: Kind, word: str = "", spoken: Kind | None = None, **default: Any) -> Any:
    """A field that is no decision: a key, or a fact about the kernel. default: as for `dataclasses.field`."""
    return field(**default, metadata={_KEY: Declared("", kind, word=word, spoken=spoken)})


@cache
def declared(owner: type[Any]) -> tuple[Declared, ...]:
    """The declarations of a class, in order."""
    return tuple(replace(it.metadata[_KEY], name=it.name) for it in fields(owner) if _KEY in it.metadata)


def check_values(entry: Any) -> None:
    """Checks the values of a Plan or an entry, and gives them one type. Raises PlanError."""
    for it in declared(cast("type[Any]", type(entry))):
        value = getattr(entry, it.name)
        if value is None:
            continue
        try:
            read = it.kind.read(value)
        except ValueError as error:
            raise PlanError(f"{it.name}={value!r} in a Plan; cure: {error}") from None
        if read is not value:
            object.__setattr__(entry, it.name, read)


def reordering(entry: Any) -> list[str]:
    """The decisions of a Plan or an entry that change the order of a sum: ``split_k=4``."""
    values = ((it, getattr(entry, it.name)) for it in declared(cast("type[Any]", type(entry))))
    return [f"{it.name}={value!r}" for it, value in values if value is not None and it.reorders(value)]
