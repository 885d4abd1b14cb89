"""The table that `Explanation` prints."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from tawa.machine.hopper import SHARED_BYTES

if TYPE_CHECKING:
    from tawa.plan.decided import Decision
    from tawa.runtime.explain.explanation import Explanation


def explanation_table(explanation: Explanation) -> RenderableType:
    """A table of facts and values; for a specialised kernel, the Plan below it."""
    table = Table(title=Text(f"{explanation.kernel}: {explanation.headline}"), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(explanation):
        table.add_row(Text(name), Text(value))
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


def _alike(decision: Decision) -> tuple[str, str, str, str]:
    """The key of decisions that share a row."""
    return decision.field.partition(".")[0], decision.value, decision.by, decision.reason


def as_text(renderable: Any, width: int = 100) -> str:
    """The text that a terminal of `width` columns would show, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().rstrip()


def tile(buffer: str) -> str:
    """``!ttg.memdesc<128x64xf16, #shared, …>`` → ``128x64xf16``."""
    found = re.search(r"(?:\d+x)+\w+", buffer)
    return found.group() if found else buffer


def plural(count: int, word: str) -> str:
    """``1 warp``, ``8 warps``."""
    return f"{count} {word if count == 1 else word + 's'}"


def protocol_text(explanation: Explanation) -> str:
    """The result of the checks, in one line."""
    found = explanation.verdict
    if found is None:
        return "not checked (TAWA_VERIFY=off)"
    assuming = f" (assuming {'; '.join(found['assumptions'])})" if found["assumptions"] else ""
    if found["verdict"] == "proved":
        return f"proved, {explanation.verification}: {found['bound']}{assuming}"
    return f"not proved, {explanation.verification}: {found['reason']}{assuming}"


def _rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    yield "reason", explanation.reason or "-"
    if explanation.resolved is not None and explanation.condition:
        found = explanation.resolved["found"]
        yield "specialised where", explanation.condition + (f" (here {found})" if found else "")
    if explanation.location:
        yield "at", explanation.location
    if explanation.cure:
        yield "cure", explanation.cure
    if explanation.applied:
        yield "protocol", protocol_text(explanation)
    yield "shared memory", f"{explanation.shared_bytes} bytes of {SHARED_BYTES}"
    yield "registers", f"{explanation.registers}, spills {explanation.spill_bytes} bytes"
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
