"""A Hopper CTA in NumPy: partitions as coroutines, TMA, mbarriers, wgmma groups, two memory proxies.

Runs programs of the ttgir, aref and barrier levels. Not modelled: layouts, the finite precision of fp8 sums in wgmma,
memory consistency between CTAs (they run one after the other), and the reuse of shared memory that has died.
"""

from tawa.sim.errors import SimulationError, UnsupportedOp
from tawa.sim.formats import from_floats, to_floats
from tawa.sim.launch import Descriptor, SimulationResult, simulate
from tawa.sim.machine import Event

__all__ = [
    "Descriptor",
    "Event",
    "SimulationError",
    "SimulationResult",
    "UnsupportedOp",
    "from_floats",
    "simulate",
    "to_floats",
]
