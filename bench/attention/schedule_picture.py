"""Draws a loop's `Schedule`: units by time, one lane for each consumer group, stages in colour.

The Schedule lists the operations of every group, in order and with their iterations. `replay` assigns times: each group
executes its operations in that order. It waits if one needs a dot that is not complete, or a unit (the tensor cores,
the CUDA cores, the special functions) that the other group occupies. The costs are those of the scheduler
(`tawa.analysis.loops.costs`). A TMA copy begins when every group has released the slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.analysis.loops.costs import OpCost, cost_of
from tawa.dialects.aref import ConsumedOp, GetOp
from tawa.dialects.ttng import WarpGroupDotOp
from tawa.machine.nvidia import LATENCY_CYCLES

if TYPE_CHECKING:
    from bench.attention.schedule import ScheduledLoop
    from tawa.ir import Operation
    from tawa.plan import Plan

TMA = "TMA (producer)"
UNITS = {"tensor cores": "tensor cores", "cuda cores": "CUDA cores", "special functions": "special functions"}
COPY_BYTES_PER_CYCLE = 64.0
"""The approximate rate of the L2 cache for one SM; the scheduler has no cost for copies."""
STAGES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
"""The palette of Okabe and Ito, by stage."""
WARM_UP, SHOWN = 4, 3
_WORDS = {"maxnumf": "max", "addf": "sum", "mulf": "×", "subf": "−", "truncf": "→"}
_LOW = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_INK, _GAP = "#222222", 0.35


@dataclass(frozen=True, slots=True)
class Bar:
    """A unit at work for some time. lane: the group, or the ring. iteration: of the loop, from 0."""

    unit: str
    lane: int
    begin: float
    end: float
    stage: int
    iteration: int
    label: str


@dataclass(slots=True)
class _Group:
    """The state of a group. ends: when the result of (node, iteration) is complete."""

    number: int
    now: float
    trip: int = 0
    place: int = 0
    ends: dict[tuple[int, int], float] = field(default_factory=dict[tuple[int, int], float])


class _Replay:
    """All groups executing one schedule."""

    def __init__(self, loop: ScheduledLoop, groups: int, trips: int) -> None:
        self.loop, self.trips = loop, trips
        self.ops, self.sequence = loop.schedule.ops, loop.schedule.sequence
        self.nodes, self.edges = loop.graph.nodes, loop.graph.edges
        self.costs: list[OpCost] = [cost_of(op, loop.limits.num_warps) for op in self.nodes]
        self.free = dict.fromkeys(UNITS, 0.0)
        self.groups = [_Group(number, number * loop.schedule.ii_cycles / groups) for number in range(groups)]
        self.bars: list[Bar] = []
        self.released: dict[tuple[str, int], float] = {}  # by ring and iteration: when the last group released it

    def run(self) -> list[Bar]:
        """Executes all groups; the operation that can begin first is always next."""
        while ready := [group for group in self.groups if group.trip < self.trips]:
            self._step(min(ready, key=lambda group: (self._begin(group), group.number)))
        return self.bars

    def _at(self, group: _Group) -> tuple[int, int]:
        node = self.sequence[group.place]
        return node, group.trip - self.ops[node].stage

    def _begin(self, group: _Group) -> float:
        node, iteration = self._at(group)
        found = [group.now]
        for edge in self.edges:
            if edge.target == node and edge.kind != "sum":
                found.append(group.ends.get((edge.source, iteration - edge.distance), 0.0))
        cost = self.costs[node]
        if not cost.tensor_cycles and cost.unit in self.free and cost.stream_cycles > 4:
            found.append(self.free[cost.unit])
        return max(found)

    def _step(self, group: _Group) -> None:
        node, iteration = self._at(group)
        cost, begin = self.costs[node], self._begin(group)
        group.now = end = begin + cost.stream_cycles
        if cost.tensor_cycles:
            begin = max(group.now, self.free["tensor cores"])
            end = self.free["tensor cores"] = begin + cost.tensor_cycles
            self._bar("tensor cores", group, begin, end, node, iteration)
            end += LATENCY_CYCLES
        elif cost.unit in self.free and cost.stream_cycles > 4:
            self.free[cost.unit] = end
            self._bar(cost.unit, group, begin, end, node, iteration)
        group.ends[node, iteration] = end
        released = ConsumedOp.of(self.nodes[node])
        if released:
            key = (released.ring.hint, iteration)
            self.released[key] = max(self.released.get(key, 0.0), begin)
        group.place += 1
        if group.place == len(self.sequence):
            group.place, group.trip = 0, group.trip + 1

    def _bar(self, unit: str, group: _Group, begin: float, end: float, node: int, iteration: int) -> None:
        if iteration >= 0:
            label = _label(self.nodes[node])
            self.bars.append(Bar(unit, group.number, begin, end, self.ops[node].stage, iteration, label))


def replay(loop: ScheduledLoop, plan: Plan) -> list[Bar]:
    """The bars of all units, copies included, for some iterations of every group of the Plan."""
    machine = _Replay(loop, plan.consumer_groups, WARM_UP + SHOWN + 2)
    bars = machine.run()
    rings = {ring.name: ring for ring in plan.rings}
    gets = [number for number, op in enumerate(loop.graph.nodes) if GetOp.of(op)]
    names = [GetOp(loop.graph.nodes[number]).ring.hint for number in gets]
    now = 0.0
    for (name, iteration), when in sorted(machine.released.items(), key=lambda item: item[1]):
        lane, ring = names.index(name), rings[name]
        begin = max(now, when)
        now = begin + ring.slot_bytes / COPY_BYTES_PER_CYCLE
        op, stage = loop.graph.nodes[gets[lane]], loop.schedule.ops[gets[lane]].stage
        bars.append(Bar(TMA, lane, begin, now, stage, iteration + ring.depth, _label(op)))
    return bars


def _label(op: Operation) -> str:
    """A short name: the result of a get or a dot, else the kind of operation."""
    if WarpGroupDotOp.of(op) or GetOp.of(op):
        return op.results[0].hint
    inner = [it.name for it in op.regions[0].block.ops if it.results] if op.regions else [op.name]
    name = inner[0].rpartition(".")[2]
    return _WORDS.get(name, name)


# --- the picture ---


def draw(loop: ScheduledLoop, plan: Plan, path: Path) -> None:
    """Draws `SHOWN` kernel iterations of the steady state. path: the suffix is the format (``.svg``, ``.png``)."""
    import matplotlib
    from matplotlib.figure import Figure

    bars = replay(loop, plan)
    starts = _starts(bars)
    begin, end = starts[WARM_UP], starts[WARM_UP + SHOWN]
    rows = _rows(bars)
    # A fixed salt: the same schedule gives the same file.
    with matplotlib.rc_context({"svg.hashsalt": "tawa", "svg.fonttype": "path", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(11.0, 4.5), dpi=160, facecolor="white")
        axes: Any = figure.add_axes((0.15, 0.175, 0.84, 0.745))
        for bar in bars:
            if bar.end > begin and bar.begin < end:
                _draw_bar(axes, bar, rows[bar.unit, bar.lane], begin, end)
        _draw_frame(axes, rows, (begin, end), starts, loop)
        _draw_words(figure, axes, bars, (begin, end), loop, plan)
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _starts(bars: Sequence[Bar]) -> dict[int, float]:
    """When the first dot of each iteration of the first group begins."""
    starts: dict[int, float] = {}
    for bar in bars:
        if bar.unit == "tensor cores" and bar.lane == 0 and bar.stage == 0:
            starts.setdefault(bar.iteration, bar.begin)
    return starts


def _rows(bars: Sequence[Bar]) -> dict[tuple[str, int], float]:
    """The height of each lane, from 0 downwards; a gap between units."""
    rows: dict[tuple[str, int], float] = {}
    place = 0.0
    for unit in (TMA, *UNITS):
        for lane in sorted({bar.lane for bar in bars if bar.unit == unit}):
            rows[unit, lane] = place
            place += 1.0
        place += _GAP
    return rows


def _draw_bar(axes: Any, bar: Bar, row: float, begin: float, end: float) -> None:
    from matplotlib.colors import to_rgb

    tint = 0.0 if bar.iteration % 2 == 0 else 0.38
    colour = tuple(part + (1 - part) * tint for part in to_rgb(STAGES[bar.stage % len(STAGES)]))
    left, right = max(bar.begin, begin), min(bar.end, end)
    axes.broken_barh([(left, right - left)], (row - 0.43, 0.86), facecolors=[colour], edgecolor="white", linewidth=0.7)
    width = (right - left) / (end - begin)
    text = f"{bar.label}{str(bar.iteration).translate(_LOW)}"
    if width <= 0.0085 * len(text):
        text = bar.label
    if width > 0.0085 * len(text):
        light = sum(colour) < 1.6
        axes.text(
            (left + right) / 2, row, text, ha="center", va="center_baseline", fontsize=8.5 if width > 0.05 else 7,
            color="white" if light else _INK, clip_on=True,
        )  # fmt: skip


def _draw_frame(
    axes: Any, rows: dict[tuple[str, int], float], window: tuple[float, float], starts: dict[int, float],
    loop: ScheduledLoop,
) -> None:  # fmt: skip
    """Lanes, units, and where the first group begins an iteration."""
    begin, end = window
    last = max(rows.values())
    gets = [op.results[0].hint for op in loop.graph.nodes if GetOp.of(op)]
    for (unit, lane), row in rows.items():
        axes.axhspan(row - 0.43, row + 0.43, color="#F3F3F3", zorder=0)
        name = f"ring of {gets[lane]}" if unit == TMA else f"group {lane}"
        axes.text(-0.008, row, name, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8,
                  color="#555555")  # fmt: skip
    for unit in (TMA, *UNITS):
        middle = [row for (of, _), row in rows.items() if of == unit]
        name = {TMA: "TMA\n(producer)", "special functions": "special\nfunctions", "tensor cores": "tensor\ncores",
                "cuda cores": "CUDA\ncores"}[unit]  # fmt: skip
        axes.text(-0.075, sum(middle) / len(middle), name, transform=axes.get_yaxis_transform(), ha="right",
                  va="center", fontsize=9.5, fontweight="bold", color=_INK)  # fmt: skip
    for trip in range(WARM_UP, WARM_UP + SHOWN + 1):
        axes.axvline(starts[trip], color="#777777", linewidth=0.9, linestyle=(0, (4, 2)), zorder=0.5)
    axes.set_xlim(begin, end)
    axes.set_ylim(last + 0.6, -0.6)
    axes.set_yticks([])
    ticks = list(range(0, int(end - begin) + 1, 1000))
    axes.set_xticks([begin + tick for tick in ticks], [f"{tick:,}" for tick in ticks], fontsize=8)
    axes.tick_params(axis="x", length=3, color="#888888", labelcolor=_INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color("#888888")
    axes.set_xlabel("cycles of one SM, by the scheduler's cost model", fontsize=8.5, color=_INK, labelpad=2)


def _draw_words(
    figure: Any, axes: Any, bars: Sequence[Bar], window: tuple[float, float], loop: ScheduledLoop, plan: Plan
) -> None:
    """Title, numbers, legend."""
    from matplotlib.patches import Patch

    begin, end = window
    busy = sum(max(0.0, min(bar.end, end) - max(bar.begin, begin)) for bar in bars if bar.unit == "tensor cores")
    schedule = loop.schedule
    axes.set_title(
        f"{SHOWN} iterations, {plan.consumer_groups} consumer groups, {schedule.stages} stages",
        loc="left", fontsize=11, fontweight="bold", color=_INK, pad=8,
    )  # fmt: skip
    length, share = (end - begin) / SHOWN, busy / (end - begin)
    numbers = f"{length:,.0f} cycles for an iteration of all groups, tensor cores busy {share:.0%}"
    axes.set_title(numbers, loc="right", fontsize=9, color=_INK, pad=8)
    words = ["stage 0: iteration j", *(f"stage {stage}: iteration j − {stage}" for stage in range(1, schedule.stages))]
    handles = [Patch(facecolor=STAGES[stage % len(STAGES)], label=word) for stage, word in enumerate(words)]
    handles.append(Patch(facecolor="#BBBBBB", label="light: odd iterations"))
    legend = {"loc": "lower center", "bbox_to_anchor": (0.56, 0.0), "frameon": False, "fontsize": 9, "labelcolor": _INK}
    figure.legend(handles=handles, ncols=len(handles), handlelength=1.3, columnspacing=2.0, **legend)
