"""The last part of ``tawa demo``: its kernels on a Hopper GPU, checked against float64 and timed round-robin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tawa.runtime.progress import progress
from tawa.supported import pytorch_beside

if TYPE_CHECKING:
    from rich.console import Console

    from tawa.demo.exhibits import Exhibit
    from tawa.runtime.case import Case

_SIDE = 8192
_HEADS = 64
_STOCK, _TAWA = "stock Triton", "Tawa"


def race_all(console: Console, exhibits: Sequence[Exhibit]) -> None:
    """Runs, checks and times the exhibits on a Hopper GPU. Without such a GPU it only prints a line."""
    import triton
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    try:
        from tawa.demo import gpu_race
    except ImportError as error:
        console.print(
            f"[dim]Nothing was run: {error.name or error} is not installed ({pytorch_beside(triton.__version__)}).[/]"
        )
        return
    if not gpu_race.hopper_present():
        console.print(
            "[dim]Nothing was run: PyTorch sees no Hopper GPU here. The kernels above are compiled all the same.[/]"
        )
        return
    table = Table(
        title="TFLOP/s, medians, alternately timed; every result checked against float64.\n"
        f"Attention: {_HEADS} heads, S queries and keys. Products: {_SIDE} x {_SIDE} x K.",
        caption="stock: stock Triton at the same configuration, which need not be its best one\n"
        "lib.: cuDNN for attention, cuBLAS for products; – where it has no such call",
        title_justify="left",
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("kernel", no_wrap=True)
    table.add_column("size", no_wrap=True)
    for heading in ("stock", "Tawa", "lib.", "/ stock", "/ lib.", "right"):
        table.add_column(heading, justify="right", no_wrap=True)
    timed = [exhibit for exhibit in exhibits if exhibit.length]
    with progress("running and timing", len(timed)) as tell:
        for number, exhibit in enumerate(timed):
            tell(number, None, exhibit.title)
            table.add_row(*_row(exhibit))
    console.print(table)


def _row(exhibit: Exhibit) -> list[str]:
    import tawa
    from tawa.demo.gpu_race import LIBRARY, race

    case, problem, flops = _problem(exhibit)
    laps = race(case, {_STOCK: case.kernel, _TAWA: tawa.jit(case.kernel)})
    rate = {name: 1e-9 * flops / lap.time_ms for name, lap in laps.items()}
    faults = laps[_TAWA].faults
    ratios = [f"[bold]{rate[_TAWA] / rate[other]:.2f}[/]" if other in rate else "–" for other in (_STOCK, LIBRARY)]
    rates = [f"{rate[name]:.0f}" if name in rate else "–" for name in (_STOCK, _TAWA, LIBRARY)]
    return [exhibit.title, problem, *rates, *ratios, f"[red]{faults[0]}[/]" if faults else "[green]yes[/]"]


def _problem(exhibit: Exhibit) -> tuple[Case, str, float]:
    """A large problem of an exhibit, its length as text, and its floating-point operations."""
    from tawa.demo.cases import flops, is_attention, with_lengths
    from tawa.demo.exhibits import find_case

    case, length = find_case(exhibit), exhibit.length
    if is_attention(case):
        case = with_lengths(case, length, length).with_sizes(B=_HEADS // case.size("H"))
        return case, f"S = {length}", flops(case)
    sizes = {"M": _SIDE, "N": _SIDE, "K": length} | ({"PROGRAMS": 132} if "PROGRAMS" in case.sizes else {})
    case = case.with_sizes(**sizes)
    return case, f"K = {length}", flops(case)
