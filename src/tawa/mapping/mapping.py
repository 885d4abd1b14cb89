"""The mapping of a kernel to the machine, in the kernel's own words, kept apart from the kernel.

    [groups]
    count = 2

    [operands.k]
    ring = 2

    [loops.n]
    stages = 2

It says the same as a partial Plan (`tawa.plan.Plan`), but names operands by argument, loops by induction variable, and
partitions by name. `tawa.mapping.resolve` looks the names up in a program and returns the Plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as Table
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePath
from typing import Any, cast

from tawa.errors import PlanError
from tawa.mapping import toml_text
from tawa.mapping.sections import (
    GroupWords,
    KernelWords,
    LoopWords,
    OperandWords,
    PartitionWords,
    RingWords,
    StoreWords,
    Words,
    reorders,
)
from tawa.mapping.words import FIELD, nearest, read_word
from tawa.outside import Unfit, names_and_values, shown, text_of


@dataclass(frozen=True, slots=True)
class Given:
    """A word that a mapping has. keys: its section. place: where it is written, empty for one in Python."""

    keys: tuple[str, ...]
    word: str
    value: object
    place: str

    def __str__(self) -> str:
        text = f"{title_of(*self.keys)} {self.word} = {toml_text.value_text(self.value)}"
        return f"{text} ({self.place})" if self.place else text


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping: whole or partial. What it leaves open, the planner decides.

    kernel, groups: the kernel as a whole, its consumer groups. operands, stores, loops, rings, partitions: by name; the
    name "*" stands for all that have no section of their own. source: the file that it was read from. lines: the
    line of each section and word in that text, by its key; empty if it was not read from TOML.
    """

    kernel: Words = field(default_factory=KernelWords)
    groups: Words = field(default_factory=GroupWords)
    operands: Table[str, Words] = field(default_factory=dict[str, Words])
    stores: Table[str, Words] = field(default_factory=dict[str, Words])
    loops: Table[str, Words] = field(default_factory=dict[str, Words])
    rings: Table[str, Words] = field(default_factory=dict[str, Words])
    partitions: Table[str, Words] = field(default_factory=dict[str, Words])
    source: str = field(default="", compare=False)
    lines: Table[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int], compare=False, repr=False)

    def __post_init__(self) -> None:
        words = [it.word for it in self.given("kernel")]
        others = [self.groups != GroupWords(), self.operands, self.stores, self.loops, self.rings, self.partitions]
        if self.kernel.specialised is False and (words != ["specialised"] or any(others)):
            said = next(it for it in self.given("kernel") if it.word == "specialised")
            raise PlanError(
                f"{said} asks for stock Triton's kernel, to which no other word applies; cure: leave the others out"
            )

    def __hash__(self) -> int:
        return hash(self.toml())

    @property
    def keeps_order(self) -> bool:
        """Whether every sum keeps its order: results have the bits of the unspecialised kernel."""
        return not any(map(reorders, (self.kernel, self.groups, *self.operands.values())))

    @property
    def needs_launch(self) -> bool:
        """Whether it needs a launch by Triton, whose launcher adds arguments or chooses between kernels."""
        kernel = self.kernel
        return (
            bool(kernel.persistent)
            or bool(kernel.unit_strides)
            or kernel.launches in ("predicted", "specialised")
            or (kernel.programs_per_tile or 1) > 1
            or self.groups.split == "programs"
            or any(it.rows == "for next dot" for it in self.operands.values())
        )

    def toml(self) -> str:
        """The mapping as TOML that `parse` reads back."""
        return toml_text.written(self.toml_data())

    def toml_data(self) -> dict[str, Any]:
        """The sections as plain data, without words that are left open."""
        return {name: _plain(getattr(self, name)) for name in _SECTIONS}

    def given(self, section: str, names: Iterable[str] = ()) -> Iterator[Given]:
        """The words that a section gives, each once.

        names: of one operand, store, loop, ring or partition, the most specific first. A word is taken from the first
        section of these names that has it, else from the section "*".
        """
        own = getattr(self, section)
        sections = (
            {(section,): own}
            if section in _ALONE
            else {(section, it): own[it] for it in dict.fromkeys((*names, ALL)) if it in own}
        )
        seen: set[str] = set()
        for keys, words in sections.items():
            for it in fields(words):
                value = getattr(words, it.name)
                if value is not None and it.name not in seen and it.metadata.get(FIELD):
                    seen.add(it.name)
                    yield Given(keys, it.name, value, self.place(*keys, it.name))

    def place(self, *keys: str) -> str:
        """Where a section or a word is written: ``fa.toml:12``, ``line 12 of the mapping``; empty for one in Python."""
        return _place(self.source, self.lines, keys)

    @staticmethod
    def parse(text: str, source: str = "") -> Mapping:
        """Reads TOML; raises PlanError that names section, word and the nearest legal choice."""
        return _read(toml_text.parsed(text, source), source, toml_text.lines_of(text))

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Mapping:
        """Reads a file; raises PlanError."""
        file = Path(os.fspath(path))
        try:
            return Mapping.parse(text_of(file), str(file))
        except (OSError, Unfit) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise PlanError(
                f"mapping={str(file)!r}: no such file can be read ({why}); cure: a path, or TOML"
            ) from error

    @staticmethod
    def of(value: object) -> Mapping:
        """A mapping from a Mapping, data as TOML has it, TOML text, or the path of a file; raises PlanError."""
        if isinstance(value, Mapping):
            return value
        if isinstance(value, Table):
            return _read(cast(Table[str, Any], value), "")
        if isinstance(value, str) and (not value.strip() or "\n" in value or value.lstrip().startswith("[")):
            return Mapping.parse(value)
        if isinstance(value, str | os.PathLike):
            return Mapping.read(cast(Any, value))
        raise PlanError(
            f"mapping={shown(value)}: it is of type {type(value).__name__}; cure: a Mapping, TOML, a path or a dict"
        )


_SECTIONS: dict[str, type[Words]] = {
    "kernel": KernelWords,
    "groups": GroupWords,
    "operands": OperandWords,
    "stores": StoreWords,
    "loops": LoopWords,
    "rings": RingWords,
    "partitions": PartitionWords,
}
_ALONE = ("kernel", "groups")
ALL = "*"
"""The name of a section for all that have none of their own."""


def _read(data: Table[str, Any], source: str, lines: Table[tuple[str, ...], int] | None = None) -> Mapping:
    return _Reader(source, lines or {}).mapping(data)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes sections of data as TOML has it. Its errors name the line of what is wrong."""

    source: str
    lines: Table[tuple[str, ...], int]

    def mapping(self, data: Table[str, Any]) -> Mapping:
        found: dict[str, Any] = {}
        for name, value in data.items():
            if name not in _SECTIONS:
                raise PlanError(f"a mapping has no section [{name}]{self._at(name)}; {nearest(name, _SECTIONS)}")
            if name in _ALONE:
                found[name] = self._section(value, (name,))
            else:
                entries = self._table(value, (name,), f"names of {name}, each with its words")
                found[name] = {key: self._section(it, (name, key)) for key, it in entries.items()}
        return Mapping(**found, source=self.source, lines=self.lines)

    def _section(self, data: object, keys: tuple[str, ...]) -> Words:
        kind, title = _SECTIONS[keys[0]], title_of(*keys)
        known = tuple(it.name for it in fields(kind))
        values = self._table(data, keys, f"words with values, of {', '.join(known)}")
        for name in values:
            if name not in known:
                raise PlanError(f"{title} has no word {name!r}{self._at(*keys, name)}; {nearest(name, known)}")
        for it in fields(kind):
            if it.name in values:
                read_word(it, values[it.name], title, self._at(*keys, it.name))
        return kind(**values)

    def _table(self, data: object, keys: tuple[str, ...], needed: str) -> dict[str, Any]:
        try:
            return names_and_values(data, title_of(*keys))
        except Unfit:
            raise PlanError(f"{title_of(*keys)} is {shown(data)}{self._at(*keys)}; cure: {needed}") from None

    def _at(self, *keys: str) -> str:
        place = _place(self.source, self.lines, keys) or self.source
        return f" ({place})" if place else ""


def title_of(section: str, name: str = "") -> str:
    """The head of a section: ``[operands."k.1"]``."""
    return f"[{section}.{toml_text.key(name)}]" if name else f"[{section}]"


def _place(source: str, lines: Table[tuple[str, ...], int], keys: tuple[str, ...]) -> str:
    """The line of a word, of its section where the word has none."""
    line = next((lines[keys[:count]] for count in range(len(keys), 0, -1) if keys[:count] in lines), None)
    if line is None:
        return ""
    return f"{PurePath(source).name}:{line}" if source else f"line {line} of the mapping"


def _plain(value: Any) -> dict[str, Any]:
    """A section, or sections by name, as TOML data without words that are left open."""
    if isinstance(value, Table):
        entries = cast(Table[str, Any], value)
        return {name: _plain(it) for name, it in entries.items()}
    words = {it.name: getattr(value, it.name) for it in fields(value)}
    return {
        name: dict(it) if name == "carry" and it is not None else it for name, it in words.items() if it is not None
    }
