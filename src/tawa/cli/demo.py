"""``tawa demo``: what Tawa makes of real kernels: compiled, proved, simulated; on a Hopper GPU also run and timed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tawa.cli.failures import excerpt, reports_failures
from tawa.cli.job import JsonFlag
from tawa.cli.sketch import sketch
from tawa.remarks import SourceLocation
from tawa.runtime.explain_table import plural, protocol_text, tile

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from tawa.plan import PartitionPlan
    from tawa.plan.schedule import Schedule
    from tawa.runtime.case import Case
    from tawa.runtime.explain import Explanation


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel of the demo.

    case: its name in `tawa.demo.cases`. length: K of a product, queries and keys of attention, in the race on a GPU; 0
    for no race.
    """

    title: str
    case: str
    length: int = 0


EXHIBITS = (
    Exhibit("attention, fp16, causal", "two_loops_fp16_d128_causal", 4096),
    Exhibit("fp16, one tile a program", "tile_8warps_nt", 4096),
    Exhibit("fp16, persistent", "persistent_8warps", 1024),
    Exhibit("fp8 e4m3, persistent", "persistent_fp8e4nv", 8192),
    Exhibit("gate and up projection", "gate_up_8warps", 4096),
    Exhibit("tiles from a counter", "dynamic_tiles"),
)
_SHOWN = EXHIBITS[1]
_TIMED = {EXHIBITS[0]: "one tile of queries", EXHIBITS[2]: "the same four tiles"}
_STRIP_CELLS = 72


@reports_failures
def demo_command(as_json: JsonFlag = False) -> None:
    """Show what becomes of real kernels: compile, prove, simulate; on a Hopper GPU also run and time them."""
    from rich.console import Console

    from tawa.bridge.triton.versions import refuse_untested
    from tawa.cli.demo_race import race_all

    refuse_untested("there is nothing to show")
    console = Console(highlight=False)
    compiled: dict[Exhibit, tuple[Any, Explanation]] = {}
    with _working("compiling for Hopper (sm_90a); no GPU is needed"):
        for exhibit in EXHIBITS:
            compiled[exhibit] = compile_exhibit(exhibit)
    explanations = {exhibit: explanation for exhibit, (_, explanation) in compiled.items()}
    if as_json:
        typer.echo(json.dumps({exhibit.title: found.to_dict() for exhibit, found in explanations.items()}, indent=2))
        return
    _print_report(console, explanations)
    console.print()
    console.print(_aref_level(compiled[_SHOWN][0], explanations[_SHOWN]))
    console.print()
    _simulate_all(console, compiled)
    console.print()
    race_all(console, EXHIBITS)


def find_case(exhibit: Exhibit) -> Case:
    """The case behind an exhibit."""
    from tawa.demo.cases import find

    return find(exhibit.case)


def compile_exhibit(exhibit: Exhibit) -> tuple[Any, Explanation]:
    """Compiles an exhibit as `tawa.jit` would; returns Triton's `CompiledKernel` and the explanation."""
    from tawa.runtime.explain import explain_compiled

    compiled = compile_case(find_case(exhibit))
    return compiled, explain_compiled(compiled)


def compile_case(case: Case, **options: Any) -> Any:
    """Compiles a case with Tawa's launch options."""
    from tawa.bridge.triton.signature import Signature
    from tawa.runtime.explain import compile_with_options

    position = {name: index for index, name in enumerate(case.kernel.arg_names)}
    constants = {(position[name],): value for name, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    return compile_with_options(case.kernel, signature, {}, **case.options(), **options)


def _working(what: str) -> AbstractContextManager[Any]:
    """Says on stderr what takes time."""
    from rich.console import Console

    return Console(stderr=True).status(what)


# --- the report -------------------------------------------------------------------------------------------------------


def _print_report(console: Console, explanations: dict[Exhibit, Explanation]) -> None:
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
        tiles = " + ".join(tile(buffer) for buffer in ring.payload)
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
    """How many, in how many loops of each consumer group; all groups have the same program."""
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


def _simulate_all(console: Console, compiled: dict[Exhibit, tuple[Any, Explanation]]) -> None:
    """Runs each specialised exhibit in NumPy, and shows where the time of one of them goes."""
    from rich.text import Text

    from tawa.cli.rehearsal import ORDERS, rehearse

    console.print(
        "In the simulator, against the unspecialised kernel, asynchronous work landing in three orders:", style="bold"
    )
    console.print("  (M x N x K; of attention queries x keys x head)", style="dim")
    for exhibit, (kernel, found) in compiled.items():
        if not found.applied:
            continue
        with _working("simulating"):
            result = rehearse(find_case(exhibit), kernel)
        problem = " x ".join(map(str, result.problem))
        same = [order for order in ORDERS if result.equal[order]]
        other = [order for order in ORDERS if not result.equal[order]]
        bits = [(f"same bits: {', '.join(same)} ", "green")] if same else []
        bits += [(f"other bits: {', '.join(other)} ", "bold red")] if other else []
        console.print(Text.assemble(f"  {exhibit.title:24} {problem:15} ", *bits, (f"{result.seconds:.1f} s", "dim")))
    for exhibit, what in _TIMED.items():
        _show_timelines(console, exhibit, what, compiled[exhibit][0])


def _show_timelines(console: Console, exhibit: Exhibit, what: str, kernel: Any) -> None:
    from tawa.cli.rehearsal import timelines
    from tawa.cli.strips import strips

    case = find_case(exhibit)
    with _working("timing on the simulator's clock"):
        panels = timelines(case, kernel, compile_case(case, enable_warp_specialization=False))
    console.print(f"\nOne SM at work on {what} ({exhibit.title}), by the simulator's cost model:", style="bold")
    label = 4 + max(len(row) for _, timeline in panels for row in timeline.rows)
    for line in strips(panels, max(20, min(_STRIP_CELLS, console.width - label))):
        console.print(line)
