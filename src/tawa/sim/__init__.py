"""A Hopper CTA in NumPy: partitions as coroutines, TMA, mbarriers, wgmma groups, two memory proxies, and a clock.

Runs programs of the ttgir, aref and barrier levels, Triton's own pipelined kernels among them, and gives their results
and their timeline.

Modelled: reads of shared memory that nobody wrote, that has not landed or is not fenced are trapped, and so are writes
while an asynchronous reader is un-waited; a dot sums in float64 and rounds once to float32; wgmma cuts float32 operands
off to TF32; fp8 conversions saturate; masked-off lanes without `other` read NaN (integers: -1). Time: `cost` says what
an operation costs, `clock` how times follow from a run; they do not depend on the order in which work lands.

Not modelled: layouts, the finite precision of fp8 sums in wgmma, memory consistency between CTAs (they run one after
the other), the reuse of shared memory that has died, and in times whatever `cost` leaves out.
"""

from tawa.machine.hopper import H100, CostModel
from tawa.sim.errors import SimulationError, UnsupportedOp
from tawa.sim.formats import from_floats, to_floats
from tawa.sim.launch import Descriptor, SimulationResult, simulate
from tawa.sim.machine.addresses import Addresses
from tawa.sim.machine.cta import Event
from tawa.sim.time.cost import Cost, cycles
from tawa.sim.time.picture import render
from tawa.sim.time.timeline import Span, Summary, Timeline, chrome_trace, summary

__all__ = [
    "H100",
    "Addresses",
    "Cost",
    "CostModel",
    "Descriptor",
    "Event",
    "SimulationError",
    "SimulationResult",
    "Span",
    "Summary",
    "Timeline",
    "UnsupportedOp",
    "chrome_trace",
    "cycles",
    "from_floats",
    "render",
    "simulate",
    "summary",
    "to_floats",
]
