"""``tawa simulate … --timeline``: a timeline of the first program, by the simulator's cost model."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.cli.comparison import Subject, Values
from tawa.cli.failures import UsageError, require_folder
from tawa.cli.pages import tell_saved

if TYPE_CHECKING:
    from tawa.ir import Module
    from tawa.runtime.simulation import Panels
    from tawa.sim.time.timeline import Timeline

SUFFIXES = (".json", ".svg", ".png")


def check_timeline_path(path: Path) -> None:
    """Raises UsageError if the timeline cannot be written; called before the work begins."""
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"--timeline {path}: the suffix says the format",
            ".json (for chrome://tracing or Perfetto), .svg or .png",
        )
    if path.suffix != ".json" and importlib.util.find_spec("matplotlib") is None:
        raise UsageError(
            f"--timeline {path}: a picture needs matplotlib, which is not installed",
            f"pip install matplotlib, or give {path.with_suffix('.json')}",
        )
    require_folder("--timeline", path)


def take_timelines(subject: Subject, grid: tuple[int, ...], make_values: Callable[[], Values]) -> tuple[Panels, str]:
    """Times the first program of the subject, and those of stock Triton's kernel that do the same work."""
    from tawa.runtime.explain.timelines import share_of_a_program, timeline_of_ours
    from tawa.runtime.simulation import beside_stock
    from tawa.sim import simulate
    from tawa.sim.time.timeline import one_after_the_other
    from tawa.symbolic.host.launch_spec import LaunchSpec

    spec = subject.launch or LaunchSpec()
    share = share_of_a_program(grid, spec)

    def timed(module: Module, **options: Any) -> Timeline:
        if module is subject.module and subject.launch is not None:
            return timeline_of_ours(module, subject.names, make_values(), grid, spec)
        found = simulate(module, make_values(), grid, programs=share, timing=True, **options)
        return one_after_the_other([found.timeline(it) for it in share])

    return beside_stock(subject.title, subject.module, subject.stock, timed, bool(subject.maker))


def save_timelines(path: Path, panels: Panels) -> None:
    """Writes a Chrome trace or a picture, depending on the suffix, and says so; raises UsageError."""
    try:
        if path.suffix == ".json":
            path.write_text(_chrome_trace(panels))
        else:
            from tawa.sim.time.picture import render

            render(panels, path)
    except OSError as error:
        raise UsageError(f"--timeline {path}: {error.strerror}", "name a file that can be written") from error
    kind = "a trace for chrome://tracing or Perfetto" if path.suffix == ".json" else "a picture"
    tell_saved(path, f"the timelines of {' and '.join(title for title, _ in panels)}, {kind}")


def timeline_lines(panels: Panels) -> list[str]:
    """A line for each timeline: cycles, and utilisation of the units."""
    from tawa.sim.time.timeline import summary

    return [f"{title}: {summary(timeline)}" for title, timeline in panels]


def timeline_facts(panels: Panels) -> dict[str, Any]:
    """JSON data by title."""
    from tawa.sim.time.timeline import summary

    return {title: dataclasses.asdict(summary(timeline)) for title, timeline in panels}


def _chrome_trace(panels: Panels) -> str:
    """One trace, with a process for each timeline."""
    from tawa.sim.time.timeline import chrome_trace

    events: list[dict[str, Any]] = []
    for number, (title, timeline) in enumerate(panels):
        trace = json.loads(chrome_trace(timeline, title))
        events += [{**event, "pid": number} for event in trace["traceEvents"]]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})
