"""The report of the demo: how each exhibit is specialised, the aref level of one, and the results of the simulator."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tawa.demo.exhibits import EXHIBITS, Exhibit
from tawa.demo.sketch import sketch
from tawa.remarks import SourceLocation
from tawa.runtime.explain.excerpt import excerpt
from tawa.runtime.explain.table import plural, protocol_text
from tawa.runtime.progress import progress

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from tawa.plan import PartitionPlan
    from tawa.plan.schedule import Schedule
    from tawa.runtime.explain.explanation import Explanation

Compiled = dict[Exhibit, tuple[Any, "Explanation"]]
"""By exhibit, Triton's `CompiledKernel` and its explanation."""

_SHOWN = EXHIBITS[1]
_TIMED = {EXHIBITS[0]: "one tile of queries", EXHIBITS[2]: "the same four tiles"}
_STRIP_CELLS = 72


def compile_all() -> Compiled:
    """Compiles every exhibit for Hopper; needs no GPU."""
    compiled: Compiled = {}
    with progress("compiling for Hopper (sm_90a); no GPU is needed", len(EXHIBITS)) as tell:
        for number, exhibit in enumerate(EXHIBITS):
            tell(number, None, exhibit.title)
            compiled[exhibit] = exhibit.explained()
    return compiled


def as_json(compiled: Compiled) -> str:
    """The explanations by title, as JSON text."""
    return json.dumps({exhibit.title: found.to_dict() for exhibit, (_, found) in compiled.items()}, indent=2)


def print_report(console: Console, compiled: Compiled) -> None:
    """Prints the whole report; on a Hopper GPU the kernels are also run and timed."""
    from tawa.demo.race import race_all

    _print_explanations(console, {exhibit: found for exhibit, (_, found) in compiled.items()})
    console.print()
    console.print(_aref_level(*compiled[_SHOWN]))
    console.print()
    _simulate_all(console, compiled)
    console.print()
    race_all(console, EXHIBITS)


# --- the report -------------------------------------------------------------------------------------------------------


def _print_explanations(console: Console, explanations: dict[Exhibit, Explanation]) -> None:
    from rich.padding import Padding
    from rich.text import Text

    console.print("\nUnmodified Triton kernels through Tawa, compiled for Hopper (sm_90a):", style="bold")
    for exhibit, found in explanations.items():
        verdict = ("specialised", "green") if found.applied else ("left to stock Triton, byte for byte", "yellow")
        console.print(Text.assemble("\n", (exhibit.title, "bold"), f", {found.kernel}: ", verdict))
        for line in _specialised(found) if found.applied else _declined(found):
            console.print(Padding(line, (0, 0, 0, 2)))


def _specialised(found: Explanation) -> list[Text]:
    from rich.text import Text

    lines = [
        Text.assemble((f"{part.name:9} ", "bold"), f"{plural(part.num_warps, 'warp'):7} ", _registers(part.registers))
        for part in found.partitions
    ]
    for ring in found.rings:
        tiles = " + ".join(ring.tiles)
        kib = f"{ring.total_bytes / 1024:.0f} KiB"
        lines.append(Text.assemble((f"{ring.name:9} ", "bold"), f"D = {ring.depth} of ({tiles}), {kib}"))
    verdict = protocol_text(found)
    colour = "green" if verdict.startswith("proved") else "red"
    protocol = Text.assemble(("protocol  ", "bold"), (verdict, colour), no_wrap=True, overflow="ellipsis")
    lines.append(protocol)
    waits = " ".join(map(str, found.wgmma_waits))
    spills = ("no spills", "green") if not found.spill_bytes else (f"{found.spill_bytes} bytes spilled", "red")
    in_flight = "stages" if found.schedules else f"P = {found.mma_depth}"
    how = _stages(found.schedules, found.partitions) if found.schedules else f"wgmma waits {waits}"
    lines.append(Text.assemble((f"{in_flight:9} ", "bold"), f"{how}; ", spills))
    shared = f"{found.shared_bytes / 1024:.0f} of 227 KiB shared memory"
    lines.append(Text(f"{shared}; Tawa took {found.tawa_ms:.0f} of {found.compile_ms:.0f} ms", style="dim"))
    return lines


def _stages(schedules: Sequence[Schedule], partitions: Sequence[PartitionPlan]) -> str:
    """How many stages, in how many loops of each consumer group; all groups have the same program."""
    groups = sum(part.role == "consumer" for part in partitions)
    counts = Counter(schedule.stages for schedule in schedules)
    of = "the consumer" if groups == 1 else "each consumer"
    return ", ".join(f"{count} in {plural(loops, 'loop')} of {of}" for count, loops in sorted(counts.items()))


def _registers(registers: int | None) -> str:
    return f"{registers:3} registers a thread" if registers else ""


def _declined(found: Explanation) -> list[Text]:
    from rich.text import Text

    lines = [Text(found.reason)]
    if found.location:
        file, _, line = found.location.rpartition(":")
        source = excerpt(SourceLocation(file, int(line))).splitlines()
        lines += [Text(text, style="dim", no_wrap=True, overflow="ellipsis") for text in source]
    if found.cure:
        lines.append(Text.assemble(("cure ", "bold green"), found.cure))
    return lines


def _aref_level(compiled: Any, found: Explanation) -> RenderableType:
    from rich.panel import Panel
    from rich.text import Text

    text = sketch(compiled.asm["aref"]) if found.applied else compiled.asm["aref"].strip()
    title = f"{found.kernel} at the aref level, types and index arithmetic left out"
    return Panel(Text(text, no_wrap=True), title=title, title_align="left", expand=False, padding=(0, 1))


# --- in the simulator -------------------------------------------------------------------------------------------------


def _simulate_all(console: Console, compiled: Compiled) -> None:
    """Runs each specialised exhibit in NumPy, and shows timelines of some."""
    from rich.text import Text

    from tawa.demo.rehearsal import ORDERS, rehearse

    console.print(
        "In the simulator, against the unspecialised kernel, asynchronous work landing in three orders:", style="bold"
    )
    console.print("  (M x N x K; of attention queries x keys x head)", style="dim")
    for exhibit, (kernel, found) in compiled.items():
        if not found.applied:
            continue
        with progress(f"simulating {exhibit.title}"):
            result = rehearse(exhibit, kernel)
        problem = " x ".join(map(str, result.problem))
        same = [order for order in ORDERS if result.equal[order]]
        other = [order for order in ORDERS if not result.equal[order]]
        bits = [(f"same bits: {', '.join(same)} ", "green")] if same else []
        bits += [(f"other bits: {', '.join(other)} ", "bold red")] if other else []
        console.print(Text.assemble(f"  {exhibit.title:24} {problem:15} ", *bits, (f"{result.seconds:.1f} s", "dim")))
    for exhibit, what in _TIMED.items():
        _show_timelines(console, exhibit, what, compiled[exhibit][0])


def _show_timelines(console: Console, exhibit: Exhibit, what: str, kernel: Any) -> None:
    from tawa.demo.rehearsal import timelines
    from tawa.demo.strips import strips

    with progress("timing on the simulator's clock"):
        panels = timelines(exhibit, kernel, exhibit.compiled(enable_warp_specialization=False))
    console.print(f"\nOne SM at work on {what} ({exhibit.title}), by the simulator's cost model:", style="bold")
    label = 4 + max(len(row) for _, timeline in panels for row in timeline.rows)
    for line in strips(panels, max(20, min(_STRIP_CELLS, console.width - label))):
        console.print(line)
