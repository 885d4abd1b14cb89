"""The explanation of a Gluon kernel: its partitions, rings and waits as its IR has them, and the verdict on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tawa.bridge.gluon.check import check_module
from tawa.bridge.report import record as records
from tawa.bridge.triton.read_module import read_final
from tawa.ir import Module, Operation
from tawa.ir.locations import source_of
from tawa.runtime.explain.source import function_around
from tawa.runtime.settings import Settings
from tawa.verify.effort import Verification
from tawa.verify.skeleton.barrier_level import Accesses
from tawa.verify.skeleton.rings import Barriers, Partition, Ring, Rings, Wait
from tawa.verify.witness import verdict_to_dict


def checked(compiled: Any) -> tuple[Module, Verification, Mapping[str, Any] | None]:
    """The program of a Gluon kernel's `CompiledKernel`, the effort of its check, and the verdict as JSON data.

    The verdict is that of its record; a kernel that was compiled without Tawa is checked now.
    """
    known: Mapping[str, Any] = getattr(compiled.metadata, records.KEY, None) or {}
    module = read_final(compiled)
    if known:
        return module, known["verification"], known["verdict"]
    effort = Settings.from_environment().verify
    return module, effort, None if effort == "off" else verdict_to_dict(check_module(module, effort))


def is_explicit(compiled: Any) -> bool:
    """Whether a `CompiledKernel` is of a Gluon kernel."""
    known: Mapping[str, Any] = getattr(compiled.metadata, records.KEY, None) or {}
    language = getattr(getattr(compiled, "src", None), "language", None)
    return bool(known.get("gluon")) or getattr(language, "name", "") == "GLUON"


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A program, and the function of the source that each partition runs, by name of the partition."""

    module: Module
    program: Rings
    functions: Mapping[str, str]

    @staticmethod
    def of(module: Module) -> NamedProgram:
        """Finds the functions in the source files, as far as these are there."""
        program = Rings(Accesses(module.op))
        return NamedProgram(module, program, {it.name: _function_of(module, it.own) for it in program.partitions})

    @property
    def names(self) -> dict[str, str]:
        """The partitions by their functions, for people; by their own names if one function has them all."""
        own = [it.name for it in self.program.partitions]
        inlined = len(set(self.functions.values())) == 1 < len(own)
        return {name: name if inlined else self.who((name,)) for name in own}

    def who(self, names: tuple[str, ...]) -> str:
        """Partitions by their functions; those that share one with others are told apart: ``multiply (default)``."""
        shared = Counter(self.functions.values())
        texts = [
            name if not self.functions[name]
            else self.functions[name] if shared[self.functions[name]] == 1
            else f"{self.functions[name]} ({name})"
            for name in names
        ]  # fmt: skip
        return ", ".join(texts) or "nobody"

    def place(self, op: Operation) -> str:
        """``gemm.py:20``, or a dash."""
        place = source_of(self.module, op)
        return f"{Path(place.file).name}:{place.line}" if place else "-"

    def waits(self, part: Partition) -> Iterator[str]:
        """The waits of a partition with their lines, each text once: ``a slot of ring0 to be full (gemm.py:20)``."""
        yield from dict.fromkeys(f"{wait_text(it)} ({self.place(it.op)})".removesuffix(" (-)") for it in part.waits)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data: what the explanation of a specialised kernel has of its Plan, and the waits."""
        return {
            "partitions": [self._partition(it) for it in self.program.partitions],
            "rings": [self._ring(it) for it in self.program.rings],
            "signals": [{"name": name, **self._barriers(it)} for name, it in self.program.signals.items()],
            "buffer_bytes": self.program.buffer_bytes,
        }

    def _partition(self, part: Partition) -> dict[str, Any]:
        waits = dict.fromkeys((it.kind, it.target or None, it.pending, self._location(it.op)) for it in part.waits)
        return {
            "name": part.name,
            "function": self.functions[part.name] or None,
            "warps": part.warps,
            "registers": part.registers,
            "waits": [dict(zip(("for", "target", "pending", "location"), it, strict=True)) for it in waits],
        }

    def _ring(self, ring: Ring) -> dict[str, Any]:
        return {
            "name": ring.name,
            "payload": list(ring.payload),
            "depth": ring.slots,
            "bytes": ring.slots * ring.slot_bytes,
            "filled_by": "TMA" if ring.by_copies else "threads",
            "writers": list(ring.writers),
            "readers": list(ring.readers),
            "full": self._barriers(ring.full),
            "empty": self._barriers(ring.empty) if ring.empty is not None else None,
            "location": self._location(ring.tiles[0]),
        }

    def _barriers(self, barriers: Barriers) -> dict[str, Any]:
        return {
            "slots": barriers.slots,
            "arrivals": barriers.arrivals,
            "bytes": barriers.bytes,
            "arrivers": list(barriers.arrivers),
            "waiters": list(barriers.waiters),
            "location": self._location(barriers.allocation),
        }

    def _location(self, op: Operation) -> str | None:
        place = source_of(self.module, op)
        return str(place) if place else None


@dataclass(frozen=True, slots=True)
class RingEnds:
    """A ring and who waits at its ends, for a picture.

    payload: the tiles of a slot. writers: those that wait for an empty slot; all that fill one if nobody waits.
    readers: those that wait for a full one. full, empty: what completes a phase of the barriers, in words.
    """

    name: str
    payload: tuple[str, ...]
    slots: int
    slot_bytes: int
    by_copies: bool
    writers: tuple[str, ...]
    readers: tuple[str, ...]
    full: str
    empty: str


def ring_ends(program: Rings, names: Mapping[str, str], of_plan: bool) -> tuple[RingEnds, ...]:
    """The rings of a program by name. names: of its partitions. of_plan: whether barriers are named by the Plan."""
    found: list[RingEnds] = []
    for it in program.rings:
        hint = it.full.allocation.result.hint.removesuffix("_full")
        waiting = it.empty.waiters if it.empty is not None and it.empty.waiters else it.writers
        ends = waiting, it.readers
        writers, readers = (tuple(names.get(who, who) for who in end) for end in ends)
        full, empty = barrier_text(it.full), barrier_text(it.empty)
        name = hint if of_plan and hint else it.name
        found.append(RingEnds(name, it.payload, it.slots, it.slot_bytes, it.by_copies, writers, readers, full, empty))
    return tuple(sorted(found, key=lambda it: it.name))


def wait_text(wait: Wait) -> str:
    """What a wait is for, in words."""
    match wait.kind:
        case "full" | "empty":
            return f"a slot of {wait.target} to be {wait.kind}"
        case "signal":
            return wait.target
        case "wgmma" | "stores" | "cp.async":
            what = {"wgmma": "wgmmas", "stores": "TMA stores", "cp.async": "groups of cp.async"}[wait.kind]
            return f"all {what}" if wait.pending == 0 else f"all {what} but {wait.pending}"


def barrier_text(barrier: Barriers | None) -> str:
    """What completes a phase: ``1 arrival, 32768 bytes``."""
    if barrier is None:
        return "none"
    arrivals = f"{barrier.arrivals} arrival{'' if barrier.arrivals == 1 else 's'}"
    if barrier.waiters and not barrier.arrivers:
        arrivals += " by nobody"
    return f"{arrivals}, {barrier.bytes} bytes" if barrier.bytes else arrivals


def _function_of(module: Module, ops: tuple[Operation, ...]) -> str:
    """The function that most of the operations of a partition come from; empty if no source is there."""
    places = [source_of(module, op) for op in ops if "unknown" not in module.locs.get(op.loc, op.loc)]
    around = (function_around(place.file, place.line) for place in places if place)
    names = Counter(it.name for it in around if it is not None)
    return names.most_common(1)[0][0] if names else ""
