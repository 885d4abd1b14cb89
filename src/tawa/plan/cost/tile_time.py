"""The time of a kernel that sums products for tiles, from the shapes of its tiles: what operators choose by.

    128 x 256 of C, 64 of K at a time, 3000 programs that share 132 SMs, 1.2 GB through DRAM      412 us

The kernel need not be compiled: its phases are stated, and the model of time is asked as for any other kernel. What
all SMs together load takes its time in L2, and what the launch reads and writes once in DRAM. The rates were fitted to
the candidates of `bench.products` on an H100, as was `GATHERING`.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.work.workload import BlockWork, DotWork, LoadWork
from tawa.machine.machines import SM_90
from tawa.machine.work import NOTHING, Work
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program
from tawa.plan.cost.time_model import Phase, time_us

DRAM_SHARE = 0.85
"""Of the peak of DRAM, for long reads."""
L2_BYTES_PER_CYCLE = 42
"""From L2 to each SM, while all of them load: tiles of 64 x 64 reach 46 (`bench/results/batched_candidates.json`)."""
GATHERING = 0.85
"""How fast a loop is, of the same one with TMA, if threads copy the rows of A one by one."""


@dataclass(frozen=True, slots=True)
class Device:
    """What the time depends on. processors: SMs. dram: bytes that DRAM could move in a microsecond."""

    processors: int
    dram: float


@dataclass(frozen=True, slots=True)
class TileSum:
    """A program that sums products for a tile of rows x columns.

    columns: of each of its accumulators. inner: elements of K that a step loads. size: bytes of an element. steps: of
    the sum. stored_bytes: of the results. scaled: whether the CUDA cores multiply and add the dot of each step.
    gathered: whether threads copy the rows of A one by one.
    """

    rows: int
    columns: tuple[int, ...]
    inner: int
    size: int
    steps: float
    stored_bytes: int
    scaled: bool = False
    gathered: bool = False

    @property
    def phases(self) -> tuple[Phase, ...]:
        """The end of the program, and its loop."""
        elements = self.rows * sum(self.columns)
        dots = tuple(DotWork(self.rows, it, self.inner, 8 * self.size) for it in self.columns)
        loads = tuple(map(self._load, (self.rows, *self.columns)))
        steps = self.steps / GATHERING if self.gathered else self.steps
        adding = Work(slots=2 * elements) if self.scaled else NOTHING
        return (
            Phase(BlockWork(work=Work(conversions=elements), stored_bytes=self.stored_bytes)),
            Phase(BlockWork(dots, loads, adding, depth=1), steps, "steps", 1.0),
        )

    @property
    def loaded_bytes(self) -> float:
        """What one program loads."""
        return (self.rows + sum(self.columns)) * self.inner * self.size * self.steps

    def _load(self, rows: int) -> LoadWork:
        row = self.inner * self.size
        return LoadWork(None, rows * row, rows * self.inner, row, operand=True, tma=True)


def tile_us(tile: TileSum, programs: int, program: Program, device: Device, dram_bytes: float = 0.0) -> float:
    """Microseconds of a launch. dram_bytes: what it reads and writes, each once."""
    launch = Launch(programs, processors=device.processors)
    dram_us = dram_bytes / device.dram / DRAM_SHARE
    l2_us = programs * tile.loaded_bytes / (L2_BYTES_PER_CYCLE * SM_90.clock_ghz * 1e3 * device.processors)
    return max(time_us(tile.phases, launch, program), dram_us, l2_us)
