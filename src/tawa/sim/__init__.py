"""A Hopper or Blackwell CTA in NumPy: partitions as coroutines, TMA, mbarriers, dots, two memory proxies, and a clock.

Runs programs at the ttgir, aref and barrier levels, including Triton's own pipelined kernels, and returns their
results and their timelines.

Modelled: the simulator traps reads of shared memory that is uninitialised, in flight or not fenced, and writes to
shared memory that an asynchronous operation may still read; the same for tensor memory, which has no proxies. A dot
sums in float64 and rounds once to float32; wgmma and tcgen05 truncate float32 operands to TF32; fp8 conversions
saturate; masked-off lanes without `other` read NaN (integers: -1).

Time: `cost` has the cost of each operation; `clock` computes the times of a run, which do not depend on the order in
which asynchronous work lands.

Not modelled: layouts, the finite precision of fp8 sums in wgmma and tcgen05, memory consistency between CTAs (they run
one after the other), the sharing of one address range by buffers with disjoint live ranges, where a buffer is among the
columns of tensor memory, and everything that `cost` lists as missing from its times.
"""

from tawa.machine.blackwell import B200
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
    "B200",
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
