"""Which words of a mapping decided which part of a Plan, for explanations.

operands.k, loop 0    [operands.k] path, ring (fa.toml:12)
rings.ring0           [operands.k] ring (fa.toml:14)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from tawa.mapping.mapping import Mapping, title_of
from tawa.mapping.program import Program
from tawa.mapping.resolve import ALL, names_of
from tawa.mapping.sections import GroupWords, KernelWords, Section
from tawa.mapping.words import FIELD
from tawa.plan.decided import operand_field, rows_field, store_field
from tawa.plan.plan import Plan

_Word = tuple[tuple[str, ...], str]
"""The keys of a section, and a word in it."""


def deciding_words(mapping: Mapping, program: Program, plan: Plan) -> dict[str, str]:
    """The words that decided, and where they are written, by field of the Plan. plan: complete."""
    found: dict[str, list[_Word]] = {}
    for field, word in _Deciding(mapping, program, plan).all():
        found.setdefault(field, []).append(word)
    return {field: "; ".join(_texts(mapping, words)) for field, words in found.items()}


@dataclass(frozen=True, slots=True)
class _Deciding:
    mapping: Mapping
    program: Program
    plan: Plan

    def all(self) -> Iterator[tuple[str, _Word]]:
        """Fields of the Plan, each with a word that decides it."""
        for name in ("kernel", "groups"):
            section: Section = getattr(self.mapping, name)
            for word in _given(section):
                yield _FIELDS[type(section), word], ((name,), word)
        yield from self._operands()
        for store in self.plan.stores:
            access = next((it for it in self.program.stores if it.key == store.key), None)
            for _, word in self._words("stores", names_of(access) if access else ()):
                yield store_field(store.key), word
        for entry in self.plan.loops:
            loop = self.program.loop(entry.loop)
            for name, word in self._words("loops", names_of(loop) if loop else ()):
                own = f".{name}" if name in ("kept", "joined") else ""
                yield f"loops.{entry.loop}{own}", word
        for ring in self.plan.rings:
            for _, word in self._words("rings", (ring.name,)):
                yield f"rings.{ring.name}", word
        for part in self.plan.partitions:
            for _, word in self._words("partitions", (part.name, part.role)):
                yield f"partitions.{part.name}", word

    def _operands(self) -> Iterator[tuple[str, _Word]]:
        entries = {it.key: it for it in self.plan.operands}
        for access in self.program.loads:
            entry = entries.get(access.key)
            for name, word in self._words("operands", names_of(access)):
                if name == "rows":
                    yield rows_field(access.key), word
                elif name == "memory":
                    yield from ((f"loops.{it.number}.kept", word) for it in self.program.loops if access.key in it.left)
                else:
                    yield operand_field(access.key), word
                if name == "ring" and entry is not None and isinstance(self._value(word), int):
                    yield f"rings.{entry.ring}", word

    def _words(self, section: str, names: Iterable[str]) -> Iterator[tuple[str, _Word]]:
        """The words about what has these names, each from the narrowest section that has it."""
        own: dict[str, Section] = getattr(self.mapping, section)
        seen: set[str] = set()
        for name in (*names, *([ALL] if names else [])):
            for word in _given(own[name]) if name in own else ():
                if word not in seen:
                    seen.add(word)
                    yield word, ((section, name), word)

    def _value(self, word: _Word) -> object:
        (section, name), own = word
        return getattr(getattr(self.mapping, section)[name], own)


def _texts(mapping: Mapping, words: Iterable[_Word]) -> Iterator[str]:
    """Words by section, and the line of the first one of each."""
    by_section: dict[tuple[str, ...], list[str]] = {}
    for keys, word in words:
        names = by_section.setdefault(keys, [])
        if word not in names:
            names.append(word)
    for keys, names in by_section.items():
        place = mapping.place(*keys, names[0]) or mapping.source
        yield f"{title_of(*keys)} {', '.join(names)}" + (f" ({place})" if place else "")


def _given(section: Section) -> list[str]:
    return [it.name for it in fields(section) if getattr(section, it.name) is not None and it.metadata.get(FIELD)]


_FIELDS: dict[tuple[type[Section], str], str] = {
    (kind, it.name): it.metadata.get(FIELD, "") for kind in (KernelWords, GroupWords) for it in fields(kind)
}

__all__ = ["deciding_words"]
