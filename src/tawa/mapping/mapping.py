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
from collections.abc import Mapping as Table
from dataclasses import dataclass, field, fields
from pathlib import Path
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
    Section,
    StoreWords,
)
from tawa.mapping.words import nearest


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping: whole or partial. What it leaves open, the planner decides.

    kernel, groups: the kernel as a whole, its consumer groups. operands, stores, loops, rings, partitions: by name; the
    name "*" stands for all that have no section of their own. source: the file that it was read from.
    """

    kernel: KernelWords = field(default_factory=KernelWords)
    groups: GroupWords = field(default_factory=GroupWords)
    operands: Table[str, OperandWords] = field(default_factory=dict[str, OperandWords])
    stores: Table[str, StoreWords] = field(default_factory=dict[str, StoreWords])
    loops: Table[str, LoopWords] = field(default_factory=dict[str, LoopWords])
    rings: Table[str, RingWords] = field(default_factory=dict[str, RingWords])
    partitions: Table[str, PartitionWords] = field(default_factory=dict[str, PartitionWords])
    source: str = field(default="", compare=False)

    def __hash__(self) -> int:
        return hash(self.toml())

    @property
    def keeps_order(self) -> bool:
        """Whether every sum keeps its order: results have the bits of the unspecialised kernel."""
        late = self.kernel.sums == "after loops" or (self.kernel.programs_per_tile or 1) > 1
        return not late and not any(it.reordered or it.rows == "for next dot" for it in self.operands.values())

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

    @staticmethod
    def parse(text: str, source: str = "") -> Mapping:
        """Reads TOML; raises PlanError that names section, word and the nearest legal choice."""
        return _read(toml_text.parsed(text, source), source)

    @staticmethod
    def read(path: str | os.PathLike[str]) -> Mapping:
        """Reads a file; raises PlanError."""
        file = Path(os.fspath(path))
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise PlanError(
                f"mapping={str(file)!r}: no such file can be read ({why}); cure: a path, or TOML"
            ) from error
        return Mapping.parse(text, str(file))

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
        raise PlanError(f"mapping={value!r}: a Mapping, TOML, or a path is needed, not {type(value).__name__}")


_SECTIONS: dict[str, type[Section]] = {
    "kernel": KernelWords,
    "groups": GroupWords,
    "operands": OperandWords,
    "stores": StoreWords,
    "loops": LoopWords,
    "rings": RingWords,
    "partitions": PartitionWords,
}
_ALONE = ("kernel", "groups")


def _read(data: Table[str, Any], source: str) -> Mapping:
    found: dict[str, Any] = {}
    where = f" ({source})" if source else ""
    for name, value in data.items():
        if name not in _SECTIONS:
            raise PlanError(f"a mapping has no section [{name}]{where}: {nearest(name, tuple(_SECTIONS))}")
        if name in _ALONE:
            found[name] = _section(_SECTIONS[name], value, f"[{name}]", where)
        else:
            entries = _table(value, f"[{name}]", where)
            found[name] = {
                key: _section(_SECTIONS[name], it, f"[{name}.{toml_text.key(key)}]", where)
                for key, it in entries.items()
            }
    return Mapping(**found, source=source)


def _section(kind: type[Section], data: object, title: str, where: str) -> Section:
    values = _table(data, title, where)
    known = tuple(it.name for it in fields(kind))
    for name in values:
        if name not in known:
            raise PlanError(f"{title} has no word {name!r}{where}: {nearest(name, known)}")
    try:
        return kind(**values)
    except PlanError as error:
        _, _, rest = str(error).partition("] ")
        raise PlanError(f"{title} {rest}{where}") from None


def _table(data: object, title: str, where: str) -> dict[str, Any]:
    if not isinstance(data, Table):
        raise PlanError(f"{title} is {data!r}{where}: words and values are needed")
    return {str(name): value for name, value in cast(Table[object, Any], data).items()}


def _plain(value: Any) -> dict[str, Any]:
    """A section, or sections by name, as TOML data without words that are left open."""
    if isinstance(value, Table):
        entries = cast(Table[str, Any], value)
        return {name: _plain(it) for name, it in entries.items()}
    words = {it.name: getattr(value, it.name) for it in fields(value)}
    return {
        name: dict(it) if name == "carry" and it is not None else it for name, it in words.items() if it is not None
    }


__all__ = ["Mapping"]
