"""``tawa demo``: what Tawa makes of real kernels: compiled, proved, simulated; on a Hopper GPU also run and timed."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer

from tawa.cli.failures import excerpt, reports_failures
from tawa.cli.job import JsonFlag, triton_failures_named
from tawa.cli.sketch import sketch
from tawa.remarks import SourceLocation
from tawa.runtime.explain_table import plural, protocol_text, tile

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

    from tawa.kernels.case import Case
    from tawa.runtime.explain import Explanation


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One kernel of the demo. case: its name among the GEMM cases; k: K of the race at M = N = 8192; 0 for no race."""

    title: str
    case: str
    k: int = 0


EXHIBITS = (
    Exhibit("fp16, one tile a program", "tile_8warps_nt", 4096),
    Exhibit("fp16, persistent", "persistent_8warps", 1024),
    Exhibit("fp8 e4m3, persistent", "persistent_fp8e4nv", 8192),
    Exhibit("gate and up projection", "gate_up_8warps", 4096),
    Exhibit("operands through pointers", "pointer_gemm"),
)
_SHOWN = EXHIBITS[0]
TIMED = EXHIBITS[1]


@reports_failures
def demo_command(as_json: JsonFlag = False) -> None:
    """Show what becomes of real GEMM kernels: compile, prove, simulate; on a Hopper GPU also run and time them."""
    from rich.console import Console

    console = Console(highlight=False)
    compiled: dict[Exhibit, tuple[Any, Explanation]] = {}
    with _working("compiling for Hopper (sm_90a); no GPU is needed"):
        for exhibit in EXHIBITS:
            with triton_failures_named():
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
    _race_all(console)


def find_case(exhibit: Exhibit) -> Case:
    """The case behind an exhibit."""
    from tawa.kernels.gemm.cases import find

    return find(exhibit.case)


def compile_exhibit(exhibit: Exhibit) -> tuple[Any, Explanation]:
    """Compiles an exhibit as `tawa.jit` would; returns Triton's `CompiledKernel` and the explanation."""
    from tawa.runtime.explain import explain_compiled

    compiled = compile_case(find_case(exhibit))
    return compiled, explain_compiled(compiled)


def compile_case(case: Case, **options: Any) -> Any:
    """Compiles a case with Tawa's launch options."""
    from tawa.bridge.signature import Signature
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
    lines.append(Text.assemble((f"P = {found.mma_depth}     ", "bold"), f"wgmma waits {waits}; ", spills))
    shared = f"{found.shared_bytes / 1024:.0f} of 227 KiB shared memory"
    lines.append(Text(f"{shared}; Tawa took {found.tawa_ms:.0f} of {found.compile_ms:.0f} ms", style="dim"))
    return lines


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
    for exhibit, (kernel, found) in compiled.items():
        if not found.applied:
            continue
        with _working("simulating"):
            result = rehearse(find_case(exhibit), kernel)
        problem = " ".join(f"{name} = {size}" for name, size in result.sizes.items() if name in ("M", "N", "K"))
        same = [order for order in ORDERS if result.equal[order]]
        other = [order for order in ORDERS if not result.equal[order]]
        bits = [(f"same bits: {', '.join(same)}  ", "green")] if same else []
        bits += [(f"other bits: {', '.join(other)}  ", "bold red")] if other else []
        console.print(Text.assemble(f"  {exhibit.title:26} {problem:28} ", *bits, (f"{result.seconds:.1f} s", "dim")))
    _show_timelines(console, compiled[TIMED][0])


def _show_timelines(console: Console, kernel: Any) -> None:
    from tawa.cli.rehearsal import timelines
    from tawa.cli.strips import strips

    case = find_case(TIMED)
    with _working("timing on the simulator's clock"):
        panels = timelines(case, kernel, compile_case(case, enable_warp_specialization=False))
    console.print(
        f"\nOne SM at work on the same four tiles ({TIMED.title}), by the simulator's cost model:", style="bold"
    )
    for line in strips(panels):
        console.print(line, no_wrap=True)


# --- on a GPU ---------------------------------------------------------------------------------------------------------


def _race_all(console: Console) -> None:
    """Runs, checks and times the exhibits on a Hopper GPU; says so where there is none."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    try:
        from tawa.kernels import race
    except ImportError as error:
        console.print(f"[dim]Nothing was run: {error.name or error} is not installed (pip install torch).[/]")
        return
    if not race.hopper_present():
        console.print(
            "[dim]Nothing was run: PyTorch sees no Hopper GPU here. The kernels above are compiled all the same.[/]"
        )
        return
    table = Table(
        title="M = N = 8192, TFLOP/s, medians by turns; every result checked against float64",
        caption="stock Triton: the same kernel at the same configuration, which need not be its best one",
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    table.add_column("kernel", no_wrap=True)
    for heading in ("K", "stock", "Tawa", race.CUBLAS, "/ stock", f"/ {race.CUBLAS}", "right"):
        table.add_column(heading, justify="right")
    with console.status("running and timing"):
        for exhibit in EXHIBITS:
            if exhibit.k:
                table.add_row(*_race_row(exhibit))
    console.print(table)


def _race_row(exhibit: Exhibit) -> list[str]:
    import tawa
    from tawa.kernels.race import CUBLAS, race

    case = find_case(exhibit)
    sizes = {"M": 8192, "N": 8192, "K": exhibit.k} | ({"PROGRAMS": 132} if "PROGRAMS" in case.sizes else {})
    case = case.with_sizes(**sizes)
    stock, ours = "stock Triton", "Tawa"
    laps = race(case, {stock: case.kernel, ours: tawa.jit(case.kernel)})
    dots = case.expect.dots[0]
    rate = {name: 2e-9 * dots * sizes["M"] * sizes["N"] * sizes["K"] / lap.time_ms for name, lap in laps.items()}
    faults = laps[ours].faults
    ratios = [f"[bold]{rate[ours] / rate[other]:.2f}[/]" if other in rate else "–" for other in (stock, CUBLAS)]
    rates = [f"{rate[name]:.0f}" if name in rate else "–" for name in (stock, ours, CUBLAS)]
    return [exhibit.title, str(exhibit.k), *rates, *ratios, f"[red]{faults[0]}[/]" if faults else "[green]yes[/]"]
