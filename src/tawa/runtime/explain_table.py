"""The table that `Explanation` prints."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tawa.analysis.resources import SHARED_BYTES

if TYPE_CHECKING:
    from tawa.runtime.explain import Explanation


def explanation_table(explanation: Explanation) -> Table:
    """A two-column table: what, and its value."""
    table = Table(title=Text(f"{explanation.kernel}: {explanation.headline}"), show_header=False, title_justify="left")
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(explanation):
        table.add_row(Text(name), Text(value))
    return table


def as_text(renderable: Any, width: int = 100) -> str:
    """What a terminal of `width` columns would show, without colours."""
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
    """What the checks found, in one line."""
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
    for part in explanation.partitions:
        registers = f", {part.registers} registers a thread" if part.registers is not None else ""
        yield f"partition {part.name}", f"{part.role}, {plural(part.num_warps, 'warp')}{registers}"
    for ring in explanation.rings:
        payload = ", ".join(map(tile, ring.payload))
        yield f"ring {ring.name}", f"D = {ring.depth} slots of ({payload}), {ring.total_bytes} bytes"
    if explanation.mma_depth is not None:
        yield "MMA depth P", str(explanation.mma_depth)
    for schedule in explanation.schedules:
        yield f"schedule of loop {schedule.loop}", schedule.summary
    if explanation.applied:
        yield "protocol", protocol_text(explanation)
    yield "shared memory", f"{explanation.shared_bytes} bytes of {SHARED_BYTES}"
    yield "registers", f"{explanation.registers}, spills {explanation.spill_bytes} bytes"
    yield "wgmma waits", " ".join(map(str, explanation.wgmma_waits)) or "none"
    for note in explanation.report.ptxas.notes:
        yield f"ptxas {note.code}", f"{note.text} ({note.count}x)"
    if explanation.compile_ms is not None and explanation.tawa_ms is not None:
        yield "compile time", f"{explanation.compile_ms:.0f} ms, of it Tawa {explanation.tawa_ms:.1f} ms"
    for remark in explanation.remarks[1:]:
        yield "remark", remark
    if explanation.reproducer:
        yield "reproducer", explanation.reproducer
    yield "versions", ", ".join(f"{name} {version}" for name, version in explanation.versions)
