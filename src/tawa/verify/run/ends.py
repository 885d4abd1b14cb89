"""Messages, with a cure, for a deadlocked run and for a run that ends with full or borrowed slots."""

from __future__ import annotations

from collections.abc import Sequence

from tawa.verify.run.state import Channel, FaultError, Thread
from tawa.verify.skeleton.program import Program


def deadlock(program: Program, channels: Sequence[Channel], waiting: Sequence[Thread]) -> str:
    """The message of a deadlock: each waiting partition, what it waits for, and a cure."""
    texts: list[str] = []
    for thread in waiting:
        assert thread.waits is not None
        action, ring, count = thread.waits
        channel, name = channels[ring], program.rings[ring].name
        if action == "get":
            texts.append(f"{thread.part.name} waits for put {count} of {name}")
            continue
        holders = [
            (reader, sorted(held))
            for reader, held in zip(program.rings[ring].readers, channel.borrowed, strict=True)
            if held
        ]
        held = " and ".join(f"{reader} holds {', '.join(map(str, counts))}" for reader, counts in holders)
        texts.append(
            f"{thread.part.name} waits for the release of {count - channel.depth} of {name} ({held or 'never got'})"
        )
    return f"deadlock: {'; '.join(texts)}. {_cure(program, channels, waiting)}".strip()


def _cure(program: Program, channels: Sequence[Channel], waiting: Sequence[Thread]) -> str:
    puts = [it for it in waiting if it.waits and it.waits[0] == "put"]
    gets = [it for it in waiting if it.waits and it.waits[0] == "get"]
    for writer in puts:
        assert writer.waits is not None
        ring = writer.waits[1]
        channel, name = channels[ring], program.rings[ring].name
        for reader in gets:
            assert reader.waits is not None
            who = program.rings[ring].readers
            held = channel.borrowed[who.index(reader.part.name)] if reader.part.name in who else []
            if reader.waits[1] == ring and len(held) >= channel.depth:
                return (
                    f"{name} has D = {channel.depth}, but {reader.part.name} holds {len(held)} slots when it"
                    f" waits for the next: D ≥ {len(held) + 1} is needed (D ≥ P + 1, P iterations in flight)"
                )
            if reader.waits[1] != ring:
                return (
                    f"{name} and {program.rings[reader.waits[1]].name} are filled and read in crossed order: {name}"
                    f" needs more slots than D = {channel.depth}, or an earlier release"
                )
    if not puts and len(gets) > 1:
        return "each waits for a token or a tile that another partition puts only after its own wait"
    return ""


def check_end(program: Program, channels: Sequence[Channel]) -> None:
    """Raises `FaultError` if a slot is still full or borrowed at the end."""
    for number, channel in enumerate(channels):
        ring = program.rings[number]
        if channel.puts and not channel.readers and not ring.left_out:
            raise FaultError("leftover credit", f"{ring.name} is filled but has no reader", 0, None)
        for reader, got, held in zip(ring.readers, channel.gets, channel.borrowed, strict=True):
            if got != channel.puts:
                left = f"{channel.puts} puts but {got} gets by {reader}"
                raise FaultError("leftover credit", f"{ring.name}: {left}", 0, None)
            if held:
                counts = ", ".join(map(str, held))
                raise FaultError("leftover credit", f"{ring.name}: {reader} never releases {counts}", 0, None)
