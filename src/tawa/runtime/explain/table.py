"""The table that `Explanation` prints."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tawa.machine.machines import MACHINES
from tawa.machine.nvidia import SHARED_BYTES
from tawa.verify.witness import said_by

if TYPE_CHECKING:
    from tawa.plan.reasons import Decision
    from tawa.runtime.explain.explanation import Explanation
    from tawa.runtime.explain.explicit import NamedProgram

_BY_COMMIT = frozenset(it.name for it in MACHINES if it.dot.completion == "commit")
"""Machines on which no partition waits for a number of dots."""


def explanation_table(explanation: Explanation) -> RenderableType:
    """A table of facts and values; for a specialised kernel, the Plan below it."""
    table = Table(title=Text(f"{explanation.kernel}: {explanation.headline}"), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in fact_rows(explanation):
        table.add_row(Text(name), Text(value))
    if explanation.program is not None:
        return Group(table, *program_tables(explanation.program))
    return Group(table, "", plan_table(explanation.decisions)) if explanation.decisions else table


def plan_table(decisions: Iterable[Decision]) -> Table:
    """The Plan, a row for each decision; adjacent decisions with the same value and reason share a row."""
    table = Table(title="Plan", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("decision", style="bold", overflow="fold", ratio=5)
    table.add_column("value", overflow="fold", ratio=6)
    table.add_column("by", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=8)
    for (_, value, by, reason), alike in groupby(decisions, _alike):
        table.add_row(*map(Text, ("\n".join(it.field for it in alike), value, by, reason)))
    return table


def program_tables(named: NamedProgram) -> Iterator[RenderableType]:
    """The partitions, rings and signals of an explicit program."""
    from tawa.runtime.explain.explicit import barrier_text

    parts = _headed("Partitions", "partition", "function", "warps", "registers per thread", "waits for")
    rest = "what is left" if any(it.registers is not None for it in named.program.partitions) else "as compiled"
    for it in named.program.partitions:
        registers = rest if it.registers is None else f"{it.registers} requested"
        waits = "\n".join(named.waits(it)) or "nothing"
        parts.add_row(*map(Text, (it.name, named.functions[it.name] or "-", str(it.warps), registers, waits)))
    yield ""
    yield parts
    rings = named.program.rings
    if rings:
        table = _headed("Rings", "ring", "slots", "of", "written by", "read by", "full after", "empty after", "made at")
        for ring in rings:
            how = "TMA of " if ring.by_copies else "threads of "
            tiles = f"{', '.join(ring.payload)}: {ring.slot_bytes} bytes"
            who = how + named.who(ring.writers), named.who(ring.readers)
            ends = barrier_text(ring.full), barrier_text(ring.empty), named.place(ring.tiles[0])
            table.add_row(*map(Text, (ring.name, str(ring.slots), tiles, *who, *ends)))
        yield ""
        yield table
    if named.program.signals:
        table = _headed("Signals", "signal", "barriers", "complete after", "arrived on by", "waited for by", "made at")
        for name, it in named.program.signals.items():
            who = named.who(it.arrivers), named.who(it.waiters)
            table.add_row(*map(Text, (name, str(it.slots), barrier_text(it), *who, named.place(it.allocation))))
        yield ""
        yield table


def _headed(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, name in enumerate(columns):
        table.add_column(name, style="bold" if number == 0 else "", overflow="fold", no_wrap=number == 0)
    return table


def _alike(decision: Decision) -> tuple[str, str, str, str]:
    """The key of decisions that share a row."""
    return decision.field.partition(".")[0], decision.value, decision.by, decision.reason


def as_text(renderable: Any) -> str:
    """The text that a terminal of 100 columns would show, without colours."""
    console = Console(file=io.StringIO(), width=100, color_system=None, force_jupyter=False)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip()


def plural(count: int, word: str) -> str:
    """``1 warp``, ``8 warps``."""
    return f"{count} {word if count == 1 else word + 's'}"


def protocol_text(explanation: Explanation) -> str:
    """The result of the checks, in one line."""
    found = explanation.verdict
    if found is None:
        return "not checked (TAWA_VERIFY=off)"
    assuming = f" (assuming {'; '.join(found['assumptions'])})" if found["assumptions"] else ""
    text = f"{found['verdict']}: {said_by(found)}{assuming}"
    if found["verdict"] in ("proved", "refuted"):
        return text
    longer = "; TAWA_VERIFY=full looks longer" if explanation.verification == "fast" else ""
    place = f" ({found['location']})" if found["location"] else ""
    left = f"; not proved: {found['left']}{place}" if found["left"] is not None else ""
    return f"{text}{left}{longer}"


def _shares(explanation: Explanation) -> str:
    """What an explicit program has shared memory for."""
    if explanation.program is None:
        return ""
    program = explanation.program.program
    rings = sum(it.slots * it.slot_bytes for it in program.rings)
    return f": {rings} for rings, {program.buffer_bytes} for other buffers"


def _moved(explanation: Explanation) -> str:
    """What becomes of the registers that a kernel begins with, if partitions take them from each other."""
    parts = explanation.plan.partitions if explanation.plan is not None else ()
    return " at the start, until partitions take those of the Plan" if any(it.registers for it in parts) else ""


def fact_rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """The facts of an explanation by name, as people read them."""
    if explanation.program is None:
        yield "reason", explanation.reason or "-"
    if explanation.resolved is not None and explanation.condition:
        found = explanation.resolved["found"]
        yield "specialised where", explanation.condition + (f" (here {found})" if found else "")
    if explanation.location:
        yield "at", explanation.location
    if explanation.cure:
        yield "cure", explanation.cure
    if explanation.section:
        yield "more", explanation.section
    if explanation.applied or explanation.program is not None:
        yield "protocol", protocol_text(explanation)
    yield "shared memory", f"{explanation.shared_bytes} bytes of {SHARED_BYTES}{_shares(explanation)}"
    yield (
        "registers",
        f"{explanation.registers} per thread{_moved(explanation)}, {explanation.spill_bytes} bytes spilled",
    )
    if explanation.wgmma_waits or explanation.target not in _BY_COMMIT:
        yield "wgmma waits", " ".join(map(str, explanation.wgmma_waits)) or "none"
    for note in explanation.report.ptxas.notes:
        yield f"ptxas {note.code}", f"{note.text} ({note.count}x)"
    if explanation.compile_ms is not None and explanation.tawa_ms is not None:
        yield "compile time", f"{explanation.compile_ms:.0f} ms, of which Tawa {explanation.tawa_ms:.1f} ms"
    for remark in explanation.remarks[1:]:
        if not any(it.summary.partition(", ")[2] in remark for it in explanation.schedules):  # the Plan shows it
            yield "remark", remark
    if explanation.reproducer:
        yield "reproducer", explanation.reproducer
    yield "versions", ", ".join(f"{name} {version}" for name, version in explanation.versions)
