"""Resolves a mapping against a program: looks up each name, and returns the partial Plan that says the same.

    [operands.k]             OperandPlan("k", 0, 0, path="host_descriptor", depth=2)
    path = "tma"      →
    ring = 2
    [loops.n]         →      LoopPlan(0, wanted=Wanted(stages=2))
    stages = 2

A name that the program does not have is a PlanError, with the kernel's line and the nearest names. Dependences are
checked where the Plan is carried out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as Table
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar, cast

from tawa.errors import PlanError
from tawa.mapping.mapping import ALL, Mapping, title_of
from tawa.mapping.program import Access, Loop, Program, short
from tawa.mapping.sections import OperandWords, Words, decided
from tawa.mapping.toml_text import value_text
from tawa.mapping.words import ELEMENTS, nearest
from tawa.plan.fields import LaunchPlan, LoopPlan, OperandPlan, PartitionPlan, PartitionRole, Path, RingPlan, StorePlan
from tawa.plan.plan import Plan
from tawa.plan.schedule import Wanted

_A = TypeVar("_A", Access, Loop)
_LINE = re.compile(r"line (\d+)")
_STEP = re.compile(r"(\d+): (.+)")
_GROUP = re.compile(r"(consumer|correction)\d*")
_ROLES: tuple[PartitionRole, ...] = ("producer", "converter", "mma", "storer", "correction", "consumer")
_UNSIGNED = re.compile(r"^(\*?)u(?=\d)")


def resolve(mapping: Mapping, program: Program, launched: bool = True) -> Plan:
    """The partial Plan that a mapping stands for.

    launched: whether Triton launches the kernel, so that the launcher can make descriptors.
    Raises PlanError for a name that the program does not have.
    """
    return _Resolver(mapping, program, launched).plan()


@dataclass(frozen=True, slots=True)
class _Resolver:
    mapping: Mapping
    program: Program
    launched: bool

    def plan(self) -> Plan:
        """The whole Plan."""
        kernel, groups = self.mapping.kernel, self.mapping.groups
        self._check_kernel()
        if kernel.specialised is False:
            return Plan(form="stock")
        taken = {**decided(kernel, Plan), **decided(groups, Plan)}
        if kernel.partitioned is False:
            if kernel.persistent:
                raise PlanError(
                    f"persistent = true{self._at('kernel', 'persistent')} needs partitions, and the mapping has "
                    f"partitioned = false{self._at('kernel', 'partitioned')}; cure: one of them"
                )
            taken["form"] = "unpartitioned"
        elif kernel.persistent is not None:
            taken["form"] = "persistent" if kernel.persistent else "as_written"
        if groups.split is not None:
            taken["split"] = self._split(groups.split)
        if kernel.launches is not None:
            taken["launches"] = LaunchPlan(**decided(kernel, LaunchPlan))
        self._check_sections()
        operands = self._spread("operand", self.mapping.operands, self.program.loads)
        loops = self._spread("loop", self.mapping.loops, self.program.loops)
        return Plan(
            **taken,
            partitions=self._partitions(),
            operands=tuple(self._operand(*it) for it in operands if replace(it[1], memory=None) != OperandWords()),
            stores=tuple(self._store(*it) for it in self._spread("store", self.mapping.stores, self.program.stores)),
            loops=tuple(self._loops(loops, operands)),
            rings=tuple(self._rings()),
        )

    def _check_kernel(self) -> None:
        kernel, program = self.mapping.kernel, self.program
        if kernel.name is not None and kernel.name != program.name:
            raise PlanError(
                f"the mapping is for the kernel {kernel.name}{self._at('kernel', 'name')}, not for {program.place}; "
                f'cure: name = "{program.name}", or the mapping of this kernel'
            )
        if kernel.signature is not None:
            for name, type in types_of(kernel.signature).items():
                if program.types.get(name, type) != type:
                    raise PlanError(
                        f"the mapping is for {name} of type {type}{self._at('kernel', 'signature')}, but "
                        f"{program.place} has {program.types[name]}; "
                        f'cure: signature = "{program.signature}", or leave it out'
                    )
        for name in kernel.unit_strides or ():
            self._known("argument", name, tuple(program.types), ("kernel", "unit_strides"))

    # -- names ---------------------------------------------------------------------------------------------------------

    def _at(self, *keys: str) -> str:
        """Where a word is written, for a message."""
        place = self.mapping.place(*keys)
        return f" ({place})" if place else ""

    def _known(self, what: str, name: str, known: Iterable[str], keys: tuple[str, ...], more: str = "") -> None:
        names = tuple(dict.fromkeys(known))
        if name not in names:
            raise PlanError(
                f"the mapping names the {what} {name!r}{self._at(*keys)}, which {self.program.place} does not have"
                f"{more}; {nearest(name, names)}"
            )

    def _spread(self, what: str, given: Table[str, Words], found: tuple[_A, ...]) -> list[tuple[_A | None, Words]]:
        """The words of each access or loop; a name without number stands for all of that name. None: the rest."""
        words: dict[int, Words] = {}
        for name in sorted((it for it in given if it != ALL), key=lambda it: "." in it or bool(_LINE.fullmatch(it))):
            places = [at for at, it in enumerate(found) if name in names_of(it)]
            if not places:
                self._unknown(what, name, found)
            for at in places:
                words[at] = _over(given[name], words[at]) if at in words else given[name]
        spread: list[tuple[_A | None, Words]] = [(found[at], it) for at, it in sorted(words.items())]
        return [*([(None, given[ALL])] if ALL in given else []), *spread]

    def _unknown(self, what: str, name: str, found: Iterable[Access | Loop]) -> None:
        """Raises PlanError for a name that nothing has."""
        stale, at = _LINE.fullmatch(name), self._at(f"{what}s", name)
        if what == "loop" and stale:
            lines = [f"line {short(it.line).rpartition(':')[2]} ({it.text})" for it in found]
            near = sorted((it for it in found if isinstance(it, Loop)), key=lambda it: _distance(it, int(stale[1])))
            cure = (
                " or ".join(dict.fromkeys(title_of("loops", it) for it in (near[0].text, _line_name(near[0]))))
                if near
                else "leave it out"
            )
            raise PlanError(
                f"the mapping names the loop at {name}{at}, but no loop with a dot begins there in "
                f"{self.program.place}: it has {', '.join(lines) or 'none'}; cure: {cure}"
            )
        if what == "loop" and name in self.program.plain:
            loops = [f"{title_of('loops', it.text)} ({short(it.line)})" for it in found]
            raise PlanError(
                f"the mapping names the loop {name!r}{at} of {self.program.place}, which has no dot of its own; "
                f"cure: {'one of ' * (len(loops) > 1)}{', '.join(loops) or 'leave it out'}"
            )
        shown = [f"{it.text}" for it in found]
        places = "; ".join(f"{it.text} at {short(it.line)}" for it in found if it.line)
        self._known(what, name, shown, (f"{what}s", name), f" ({places})" if places else "")

    # -- entries -------------------------------------------------------------------------------------------------------

    def _operand(self, access: Access | None, words: Words) -> OperandPlan:
        key, line = (access.key, access.line) if access else ((None, None, 0), "")
        own = {**decided(words, OperandPlan), "path": self._path(access, words.path)}
        if isinstance(words.ring, int):
            own = {**own, "ring": None, "depth": words.ring if access else None}
        return OperandPlan(*key, **own, line=line)

    def _path(self, access: Access | None, word: str | None) -> Path | None:
        if word in ("tma", "tma in kernel"):
            if access is None:
                raise PlanError(
                    f"{self._word(('operands', ALL), 'path', word)}: TMA is chosen for each operand of "
                    f"{self.program.place} by name; cure: {self._titles('operands', self.program.loads)}"
                )
            if access.tma and word == "tma in kernel" and not access.made:
                raise PlanError(
                    f"{self._word(self._keys('operands', access, 'path'), 'path', word)}: its descriptor is an "
                    f'argument ({short(access.line)}); cure: path = "tma"'
                )
            if access.tma:
                return "kernel_descriptor" if access.made else "host_descriptor"
            return "promoted" if self.launched and word == "tma" else "promoted_in_kernel"
        return cast("Path | None", word)

    def _store(self, access: Access | None, words: Words) -> StorePlan:
        path: Path | None = words.path
        if words.path == "tma":
            if access is None:
                raise PlanError(
                    f"{self._word(('stores', ALL), 'path', words.path)}: TMA is chosen for each store of "
                    f"{self.program.place} by name; cure: {self._titles('stores', self.program.stores)}"
                )
            path = ("kernel_descriptor" if access.made else "host_descriptor") if access.tma else "promoted"
        key, line = (access.key, access.line) if access else ((None, None, 0), "")
        if access is not None and words.path == "pointers" and access.tma:
            raise PlanError(
                f"{self._word(self._keys('stores', access, 'path'), 'path', words.path)}: it stores by TMA "
                f'({short(line)}); cure: path = "tma"'
            )
        return StorePlan(*key, **{**decided(words, StorePlan), "path": path}, line=line)

    def _loops(
        self, named: list[tuple[Loop | None, Words]], operands: list[tuple[Access | None, Words]]
    ) -> Iterable[LoopPlan]:
        memory = {access.key: words.memory for access, words in operands if access is not None and words.memory}
        entries = {(loop.number if loop else None): self._loop(loop, words) for loop, words in named}
        for access, words in operands:
            used = access is None or any(access.key in loop.left for loop in self.program.loops)
            if words.memory and not used:
                assert access is not None
                lefts = [
                    it.text for it in self.program.loads if any(it.key in loop.left for loop in self.program.loops)
                ]
                cure = f"memory of {' or '.join(lefts)}, or leave it out" if lefts else "leave it out"
                raise PlanError(
                    f"{self._word(self._keys('operands', access, 'memory'), 'memory', words.memory)}: it is not the "
                    f"left operand of a dot in a loop ({short(access.line)}); cure: {cure}"
                )
        for loop in self.program.loops:
            known = [at for at, key in enumerate(loop.left) if key in memory]
            if known and entries.get(loop.number, LoopPlan()).kept is None:
                kept = tuple(at for at in known if memory[loop.left[at]] == "registers")  # type: ignore[index]
                entries[loop.number] = replace(
                    entries.get(loop.number, LoopPlan(loop.number, line=loop.line)), kept=kept
                )
        return entries.values()

    def _loop(self, loop: Loop | None, words: Words) -> LoopPlan:
        number, line = (loop.number, loop.line) if loop else (None, "")
        place = f" ({short(line)})" if line else f" of {self.program.place}"
        said = self._word(self._keys("loops", loop, "steps"), "steps") + place
        steps = None if words.steps is None else tuple(_step(said, it) for it in words.steps)
        carry = None if words.carry is None else tuple((name, ELEMENTS[type]) for name, type in words.carry)
        if loop is None and (steps is not None or carry is not None):
            word = "carry" if steps is None else "steps"
            raise PlanError(
                f"{self._word(('loops', ALL), word)} belongs to one loop of {self.program.place}; "
                f"cure: {self._titles('loops', self.program.loops)}"
            )
        staged = 1 + max((it[0] for it in steps or ()), default=0)
        if steps is not None and words.stages is not None and words.stages != staged:
            raise PlanError(
                f"{self._word(self._keys('loops', loop, 'stages'), 'stages', words.stages)}: its steps have {staged}"
                f"{place}; cure: stages = {staged}"
            )
        wanted = Wanted(words.stages, carry, steps) if loop and (words.stages or carry or steps) else None
        stages = words.stages if steps is None else staged
        return LoopPlan(number, **{**decided(words, LoopPlan), "stages": stages}, line=line, wanted=wanted)

    def _rings(self) -> Iterable[RingPlan]:
        rest = self.mapping.operands.get(ALL, OperandWords()).ring
        if isinstance(rest, int):
            yield RingPlan(depth=rest)
        for name, words in self.mapping.rings.items():
            yield RingPlan("" if name == ALL else name, **decided(words, RingPlan))

    def _partitions(self) -> tuple[PartitionPlan, ...]:
        """The partitions. An entry for a role says that those that are named need not be all."""
        found = tuple(self._partition(*it) for it in self.mapping.partitions.items())
        alone = bool(found) and all(it.name for it in found)
        return (*found, PartitionPlan("", "producer", 0)) if alone else found

    def _partition(self, name: str, words: Words) -> PartitionPlan:
        role = words.role or next((it for it in _ROLES if name == it), None)
        if role is None and (group := _GROUP.fullmatch(name)):
            role = group[1]
        if role is None:
            known = (*_ROLES, "consumer0", "consumer1")
            raise PlanError(
                f"the mapping names the partition {name!r}{self._at('partitions', name)}, which {self.program.place} "
                f"does not have; {nearest(name, known)}, or a role"
            )
        own = "" if name in _ROLES else name
        return PartitionPlan(own, cast(PartitionRole, role), words.warps or 0, words.registers)

    def _split(self, text: str | None) -> Any:
        if text is None:
            return None
        word, of, operand = text.partition(" of ")
        known = [it for it in (self.program.lefts if word == "rows" else self.program.rights) if it]
        if of and operand not in known:
            side = "left" if word == "rows" else "right"
            near = nearest(operand, known).removeprefix("cure: ")
            raise PlanError(
                f"{self._word(('groups',), 'split', text)}: {operand!r} is not the {side} operand of a dot in "
                f'{self.program.place}; cure: "{word}"' + (f', or "{word} of" {near}' if known else "")
            )
        return word

    def _check_sections(self) -> None:
        for it in self.mapping.groups.ping_pong_sections or ():
            if len(it) != 2:
                raise PlanError(
                    f"{self._word(('groups',), 'ping_pong_sections')}: {list(it)} is not the first and the last dot of "
                    f"a section in {self.program.place}; cure: [0, 0]"
                )

    def _keys(self, section: str, it: Access | Loop | None, word: str) -> tuple[str, str]:
        """The section that has a word about an access or a loop."""
        names, own = names_of(it) if it is not None else (ALL,), getattr(self.mapping, section)
        return section, next((it for it in names if it in own and getattr(own[it], word) is not None), names[0])

    def _word(self, keys: tuple[str, ...], word: str, value: object = None) -> str:
        """A word as a mapping has it, and where that is: ``[loops.n] stages = 2 (fa.toml:12)``."""
        text = "" if value is None else f" = {value_text(value)}"
        return f"{title_of(*keys)} {word}{text}{self._at(*keys, word)}"

    def _titles(self, section: str, found: Iterable[Access | Loop]) -> str:
        """The sections of each one, for a message."""
        return ", ".join(title_of(section, it.text) for it in found) or "leave it out"


def types_of(signature: str) -> dict[str, str]:
    """A signature by name, without what a launch finds out: ``K=i32:16`` counts as ``i32``.

    Pointers and numbers without a sign count as those with one, since the IR does not tell them apart.
    """
    parts = re.split(r",(?![^\[]*\])", signature)
    pairs = (part.partition("=") for part in parts if "=" in part)
    types = {name.strip(): type.strip().partition(":")[0].replace(" ", "") for name, _, type in pairs}
    return {name: _UNSIGNED.sub(r"\1i", type) for name, type in types.items()}


def names_of(it: Access | Loop) -> tuple[str, ...]:
    """The names by which a mapping may have an access or a loop, the narrowest first."""
    whole = it.text.rpartition(".")[0] if re.search(r"\.\d+$", it.text) else it.text
    lines = [f"line {line}" for line in it.lines] if isinstance(it, Loop) else []
    return tuple(dict.fromkeys([*lines, it.text, whole]))


def _line_name(loop: Loop) -> str:
    return f"line {loop.lines[-1]}" if loop.lines else loop.text


def _distance(loop: Loop, line: int) -> int:
    return min((abs(it - line) for it in loop.lines), default=0)


def _over(first: Words, second: Words) -> Words:
    """The words of the first section, with those that it leaves open from the second."""
    own = {it.name: getattr(first, it.name) for it in fields(first)}
    return replace(second, **{name: value for name, value in own.items() if value is not None})


def _step(said: str, text: str) -> tuple[int, str]:
    found = _STEP.fullmatch(text)
    if found is None:
        raise PlanError(f'{said}: {text!r} is not "STAGE: OPERATION"; cure: start from tawa explain --emit mapping')
    return int(found[1]), found[2]
