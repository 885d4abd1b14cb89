"""The last part of ``tawa demo``: its kernels on a Hopper GPU, checked against float64 and timed round-robin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tawa.demo.exhibits import HEADS, SIDE
from tawa.runtime.progress import progress
from tawa.supported import pytorch_beside

if TYPE_CHECKING:
    from rich.console import Console

    from tawa.demo.exhibits import Exhibit, Launch

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
        f"Attention: {HEADS} heads, S queries and keys. Products: {SIDE} x {SIDE} x K.",
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
    timed = [(exhibit, exhibit.large) for exhibit in exhibits if exhibit.large is not None]
    with progress("running and timing", len(timed)) as tell:
        for number, (exhibit, launch) in enumerate(timed):
            tell(number, None, exhibit.title)
            table.add_row(*_row(exhibit, launch))
    console.print(table)


def _row(exhibit: Exhibit, launch: Launch) -> list[str]:
    import tawa
    from tawa.demo.gpu_race import LIBRARY, race

    laps = race(exhibit, launch, {_STOCK: exhibit.kernel, _TAWA: tawa.jit(exhibit.kernel)})
    rate = {name: 1e-9 * launch.flops / lap.time_ms for name, lap in laps.items()}
    faults = laps[_TAWA].faults
    ratios = [f"[bold]{rate[_TAWA] / rate[other]:.2f}[/]" if other in rate else "–" for other in (_STOCK, LIBRARY)]
    rates = [f"{rate[name]:.0f}" if name in rate else "–" for name in (_STOCK, _TAWA, LIBRARY)]
    return [exhibit.title, launch.size, *rates, *ratios, f"[red]{faults[0]}[/]" if faults else "[green]yes[/]"]
