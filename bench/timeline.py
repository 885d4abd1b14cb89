"""The picture of one SM at work, stock Triton above Tawa, on the simulator's clock: ``python bench/timeline.py``.

A persistent fp16 GEMM with four tiles of 128 x 256 and K = 512 for one program. No GPU: times come from the cost model
(`tawa.sim.cost`). Writes ``docs/images/timeline.png``, and into ``build`` the same as SVG and a Chrome trace of each.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from tawa.cli.demo import TIMED, compile_case, find_case  # noqa: E402
from tawa.cli.rehearsal import timelines  # noqa: E402
from tawa.sim import chrome_trace, render, summary  # noqa: E402

TITLES = {"stock Triton": "Stock Triton: software pipeline", "Tawa": "Tawa: warp-specialised"}


def main() -> None:
    """Compiles, simulates and draws."""
    case = find_case(TIMED)
    panels = timelines(case, compile_case(case), compile_case(case, enable_warp_specialization=False))
    build, images = ROOT / "build", ROOT / "docs" / "images"
    build.mkdir(exist_ok=True)
    for title, timeline in panels:
        print(f"{title}: {summary(timeline)}")
        (build / f"timeline {title}.json").write_text(chrome_trace(timeline, title))
    for path in (build / "timeline.svg", images / "timeline.png"):
        render([(TITLES[title], timeline) for title, timeline in panels], path)
        print(path)


if __name__ == "__main__":
    main()
