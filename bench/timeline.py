"""The picture of one SM at work, stock Triton above Tawa, on the simulator's clock: ``python -m bench.timeline``.

A persistent fp16 GEMM with four tiles of 128 x 256 and K = 512 for one program. No GPU: times come from the cost model
(`tawa.sim.time.cost`). Writes ``docs/images/timeline.png``, and to ``build`` the same as SVG and two Chrome traces.
``--ladder``: the six steps of ``examples/rings`` instead (tiles of 128 x 128, K = 512), in ``docs/images/rings.png``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.harness import ROOT
from tawa.sim import chrome_trace, render, summary
from tests.cases.compiled import compile_case, timelines
from tests.cases.gemm import cases
from tests.rings import ladder

CASE = "persistent_8warps"
TITLES = {"stock Triton": "Stock Triton: software pipeline", "Tawa": "Tawa: warp-specialised"}


def main() -> None:
    """Compiles, simulates and draws."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="where the SVG and the traces go")
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images", help="where the PNG goes")
    parser.add_argument("--ladder", action="store_true", help="the steps of examples/rings")
    arguments = parser.parse_args()
    if arguments.ladder:
        panels = [
            (step, ladder.run(step, (256, 256, 512), "eager", D=5, timing=True).timeline()) for step in ladder.STEPS
        ]
        render(panels, arguments.images / "rings.png")
        for step, timeline in panels:
            print(f"{step}: {summary(timeline)}")
        return
    case = cases.find(CASE)
    panels = timelines(
        case, compile_case(case, only_if_faster=False), compile_case(case, enable_warp_specialization=False)
    )
    arguments.build.mkdir(exist_ok=True)
    for title, timeline in panels:
        print(f"{title}: {summary(timeline)}")
        (arguments.build / f"timeline {title}.json").write_text(chrome_trace(timeline, title))
    for path in (arguments.build / "timeline.svg", arguments.images / "timeline.png"):
        render([(TITLES[title], timeline) for title, timeline in panels], path)
        print(path)


if __name__ == "__main__":
    main()
