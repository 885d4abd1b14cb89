"""Pairs: a protocol with one writer, as one smaller protocol for each of its readers.

    producer → ring0 → consumer0, consumer1      producer → ring0 → consumer0           producer → ring0 → consumer1
    producer → ring1 → consumer0              =  producer → ring1 → consumer0    and    producer → ring1
    producer → ring2 → consumer1                 producer → ring2                       producer → ring2 → consumer1

Readers that write nothing wait for the writer only. If the whole deadlocks, the writer waits for a release by some
reader, which waits for a later put. Up to there the writer has made the same puts with that reader alone, so the two
deadlock by themselves. All other faults concern one reader of a ring. Hence the whole is correct if all pairs are, and
the states of a pair do not multiply with those of other readers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tawa.verify.skeleton.program import Code, Part, Program, Ring

_READERS = {Code.GET: 3, Code.CONSUMED: 4}
"""The position of the reader's number in an instruction."""


def pairs_of(program: Program) -> list[Program]:
    """The pairs of the writer and each reader; the program itself without several readers of one writer."""
    main, *parts = program.parts
    writers = [part for part in parts if part.puts]
    readers = [part for part in parts if part not in writers]
    alone = len(writers) == 1 and len(readers) > 1 and not main.gets and not writers[0].gets
    if program.memories is not None:
        return [program]  # at the barrier level, partitions share barriers and memory beside the rings
    if not alone or any(not ring.readers for ring in program.rings):
        return [program]
    return [_pair(program, main, writers[0], reader) for reader in readers]


def _pair(program: Program, main: Part, writer: Part, reader: Part) -> Program:
    """The program without all other readers. Puts into rings that only they read never wait."""
    rings = [_read_by(ring, reader.name) for ring in program.rings]
    code = [_as_only_reader(instruction) for instruction in reader.code]
    alone = Part(reader.name, code, reader.ops, reader.puts, reader.gets, reader.uses, reader.live)
    forks = [(Code.FORK, (1, 2)) if it[0] == Code.FORK else it for it in main.code]
    return replace(program, parts=[replace(main, code=forks), writer, alone], rings=rings)


def _read_by(ring: Ring, name: str) -> Ring:
    reads = name in ring.readers
    return Ring(ring.name, ring.depth, [name] if reads else [], ring.writers, left_out=not reads)


def _as_only_reader(instruction: tuple[Any, ...]) -> tuple[Any, ...]:
    place = _READERS.get(instruction[0])
    return instruction if place is None else (*instruction[:place], 0, *instruction[place + 1 :])
