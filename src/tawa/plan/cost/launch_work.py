"""Launch work: the duration of one program, as a function of the launch arguments.

    for k in range(0, K, 64): dot 128 x 64 by 64 x 128        (K + 63) // 64 * (512 + 350) cycles

A specialised kernel starts more slowly than a stock one: it initialises barriers, fetches descriptors and starts
partitions. In a short launch this outweighs the gain. The numbers are fitted to stock Triton's small GEMMs on an H200
(bench/pointers/small.py): a program alone on its SM waits for each dot and for each store.

    128 x 128 x 32, fp16, B transposed: 256 rows of 64 bytes an iteration, and 256 cycles of dots

TMA fetches a row of a box, or 128 bytes of it, at a time. If that takes as long as the dots, programs that share an SM
wait for its TMA unit, but stock Triton's copies keep up: 0.96 of stock at 2048³, though 1.06 at 4096³, for 128 x 64 x
32 (bench/results/small.json). A program alone on its SM gains nevertheless.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tawa.analysis.rings.loads import find_dots
from tawa.analysis.tma.host_sizes import HostSizes
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import DescriptorStoreOp, FuncOp, StoreOp
from tawa.ir import Module, Operation, Value
from tawa.machine.hopper import DOT_CYCLES, ROW_BYTES, STORE_CYCLES, fma_per_cycle
from tawa.machine.work import dot_counts
from tawa.symbolic.affine import Affine
from tawa.symbolic.host.expr import Apply, HostValue, Number, add, multiply
from tawa.symbolic.host.launch_spec import DescriptorSpec

_STORES = (StoreOp.NAME, DescriptorStoreOp.NAME)


def launch_work(module: Module) -> HostValue | None:
    """Cycles of one program if all branches are taken; None without dots, or if the host cannot compute them."""
    functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
    if len(functions) != 1 or not functions[0].structured:
        return None
    affine = Affine()
    host = HostSizes(module, functions[0], affine)
    dots = find_dots(module)
    stores = [op for op in module.walk() if op.name in _STORES and enclosing_loops(op)]
    parts: list[HostValue] = []
    for op in [*dots, *stores]:
        trips = [_trips(loop, host, affine) for loop in enclosing_loops(op)]
        known = [it for it in trips if it is not None]
        if len(known) < len(trips):
            return None
        parts.append(multiply(*known, Number(_cycles(op))))
    return add(*parts) if dots else None


def rows_outlast_dots(module: Module, descriptors: Sequence[DescriptorSpec]) -> bool:
    """Whether TMA takes at least as long to fetch a box of each descriptor as the tensor cores take for the dots."""
    rows = sum(math.prod(it.block[:-1]) * math.ceil(it.block[-1] * it.element_bytes / ROW_BYTES) for it in descriptors)
    return rows >= sum(_cycles(dot) - DOT_CYCLES for dot in find_dots(module))


def _trips(loop: Operation, host: HostSizes, affine: Affine) -> HostValue | None:
    counted = ForOp.of(loop)
    if counted is None:
        return None
    lower, upper, step = (_known(bound, host, affine) for bound in counted.bounds)
    if lower is None or upper is None or step is None:
        return None
    reach = add(upper, multiply(lower, Number(-1)), step, Number(-1))
    return Apply("largest", (Number(0), reach if step == Number(1) else Apply("divide", (reach, step))))


def _known(value: Value, host: HostSizes, affine: Affine) -> HostValue | None:
    poly = affine.poly(value)
    return host.value(poly) if all(host.in_size(atom) for atom in affine.atoms.of(poly)) else None


def _cycles(op: Operation) -> int:
    if op.name in _STORES:
        return STORE_CYCLES
    counts = dot_counts(op)
    if counts is None:
        return DOT_CYCLES
    return DOT_CYCLES + math.ceil(counts.batch * counts.products / fma_per_cycle(counts.element))
