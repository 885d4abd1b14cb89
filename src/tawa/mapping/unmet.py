"""Words of a mapping that have no effect on the kernel that was made: they are refused, with what there is instead.

[operands.bias] path = "cp.async": it feeds no dot through a ring: the consumer loads it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tawa.errors import PlanError
from tawa.mapping.mapping import ALL, Given, Mapping
from tawa.mapping.program import Access, Program, short
from tawa.mapping.resolve import names_of
from tawa.plan.plan import Plan

_IDLE = (None, False, "in order")
"""Values that ask for nothing."""
_GROUPED = ("grouped", "hilbert", "l2_halves")


def check_effect(mapping: Mapping, program: Program, plan: Plan) -> None:
    """Raises PlanError for the first word that has no effect. plan: complete."""
    for said in _Unmet(mapping, program, plan).all():
        raise PlanError(said)


@dataclass(frozen=True, slots=True)
class _Unmet:
    mapping: Mapping
    program: Program
    plan: Plan

    def all(self) -> Iterator[str]:
        """Messages about words without an effect."""
        if self.plan.form == "stock":
            return
        for access in self.program.loads:
            yield from self._operand(access)
        for access in self.program.stores:
            yield from self._store(access)
        yield from self._loops()
        yield from self._kernel()
        yield from self._groups()

    def _operand(self, access: Access) -> Iterator[str]:
        """About a load that no ring carries: the consumer loads it, as it is written or by TMA in place of pointers."""
        entry = self.plan.operand(access.key)
        if entry.ring is not None and entry.argument is not None and entry.path != "consumer":
            return
        promoted = entry.path in ("promoted", "promoted_in_kernel")
        own = "tma" if access.tma or promoted else "pointers"
        why = f"it feeds no dot through a ring, so the consumer loads it ({short(access.line)})"
        for given in self._given("operands", names_of(access)):
            match given.word:
                case "path" if given.value not in ("consumer", own):
                    yield f'{given}: {why}; cure: path = "consumer" or "{own}"'
                case "ring":
                    yield f"{given}: {why}; cure: leave it out{self._carried()}"
                case "hoisted" | "transposed" | "reordered" | "rows" if given.value not in _IDLE:
                    yield f"{given}: {why}; cure: leave it out{self._carried()}"
                case _:
                    pass

    def _given(self, section: str, names: tuple[str, ...]) -> Iterator[Given]:
        """The words about what has these names; those of "*" count only where they can be carried out."""
        return (it for it in self.mapping.given(section, names) if it.keys[-1] != ALL)

    def _carried(self) -> str:
        """The operands that rings carry, for a cure."""
        names = [it.text for it in self.program.loads if self.plan.operand(it.key).ring is not None]
        return f", or one of {', '.join(dict.fromkeys(names))}" if names else ""

    def _store(self, access: Access) -> Iterator[str]:
        if any(it.key == access.key for it in self.plan.stores):
            return
        why = f"the kernel stores through pointers ({short(access.line)}), and Tawa leaves that as it is"
        for given in self._given("stores", names_of(access)):
            if given.word != "path":
                yield f"{given}: {why}; cure: leave it out"
            elif given.value != "pointers":
                yield f'{given}: {why}; cure: path = "pointers"'

    def _loops(self) -> Iterator[str]:
        for loop in self.program.loops:
            entry = self.plan.loop(loop.number)
            for given in self._given("loops", names_of(loop)):
                if given.word == "joined" and given.value and entry.schedule is None:
                    yield f"{given}: the loop has no schedule ({short(loop.line)}); cure: joined = false, or stages = 2"

    def _kernel(self) -> Iterator[str]:
        for given in self.mapping.given("kernel"):
            if given.word == "order_group" and self.plan.tile_order not in _GROUPED:
                cure = 'persistent = true and order = "grouped", or leave it out'
                yield f"{given}: {self.program.place} does not take its tiles in groups; cure: {cure}"
            if given.word == "unit_strides" and given.value and all(it.tma for it in self.program.loads):
                yield f"{given}: {self.program.place} has no loads through pointers; cure: leave it out"

    def _groups(self) -> Iterator[str]:
        for given in self.mapping.given("groups"):
            if given.word == "split" and self.plan.groups == 1:
                yield f"{given}: {self.program.place} has one group; cure: count = 2, or leave it out"
            if given.word == "ping_pong_sections" and given.value and not self.plan.ping_pong:
                yield f"{given}: {self.program.place} has no ping-pong; cure: ping_pong = true with count = 2"
