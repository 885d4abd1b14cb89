"""Which words of a mapping decided which part of a Plan, for explanations.

operands.k, loop 0    [operands.k] path, ring (fa.toml:12)
rings.ring0           [operands.k] ring (fa.toml:14)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from tawa.mapping.mapping import Given, Mapping, title_of
from tawa.mapping.program import Program
from tawa.mapping.resolve import names_of
from tawa.mapping.sections import GroupWords, KernelWords
from tawa.mapping.words import FIELD
from tawa.plan.plan import Plan
from tawa.plan.reasons import operand_field, rows_field, store_field

_FIELDS: dict[str, str] = {
    it.name: it.metadata.get(FIELD, "") for kind in (KernelWords, GroupWords) for it in fields(kind)
}
"""The fields of the Plan that words about the kernel and its groups stand for."""


def deciding_words(mapping: Mapping, program: Program, plan: Plan) -> dict[str, str]:
    """The words that decided, and where they are written, by field of the Plan. plan: complete."""
    found: dict[str, list[Given]] = {}
    for field, given in _Deciding(mapping, program, plan).all():
        found.setdefault(field, []).append(given)
    return {field: "; ".join(_texts(given, mapping.source)) for field, given in found.items()}


@dataclass(frozen=True, slots=True)
class _Deciding:
    mapping: Mapping
    program: Program
    plan: Plan

    def all(self) -> Iterator[tuple[str, Given]]:
        """Fields of the Plan, each with a word that decides it."""
        for section in ("kernel", "groups"):
            yield from ((_FIELDS[it.word], it) for it in self.mapping.given(section))
        yield from self._operands()
        for store in self.program.stores:
            yield from ((store_field(store.key), it) for it in self.mapping.given("stores", names_of(store)))
        for loop in self.program.loops:
            for it in self.mapping.given("loops", names_of(loop)):
                yield f"loops.{loop.number}" + (f".{it.word}" if it.word in ("kept", "joined") else ""), it
        for ring in self.plan.rings:
            yield from ((f"rings.{ring.name}", it) for it in self.mapping.given("rings", (ring.name,)))
        for part in self.plan.partitions:
            own = self.mapping.given("partitions", (part.name, part.role))
            yield from ((f"partitions.{part.name}", it) for it in own)

    def _operands(self) -> Iterator[tuple[str, Given]]:
        for load in self.program.loads:
            for it in self.mapping.given("operands", names_of(load)):
                match it.word:
                    case "rows":
                        yield rows_field(load.key), it
                    case "memory":
                        loops = [loop.number for loop in self.program.loops if load.key in loop.left]
                        yield from ((f"loops.{number}.kept", it) for number in loops)
                    case _:
                        yield operand_field(load.key), it
                if it.word == "ring" and isinstance(it.value, int):
                    yield f"rings.{self.plan.operand(load.key).ring}", it


def _texts(given: Iterable[Given], source: str) -> Iterator[str]:
    """Words by section, and the line of the first one of each."""
    by_section: dict[tuple[str, ...], list[Given]] = {}
    for it in given:
        own = by_section.setdefault(it.keys, [])
        if it not in own:
            own.append(it)
    for keys, own in by_section.items():
        place = own[0].place or source
        yield f"{title_of(*keys)} {', '.join(it.word for it in own)}" + (f" ({place})" if place else "")
