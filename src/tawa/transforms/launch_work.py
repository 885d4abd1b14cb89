"""Launch work: how long the tensor cores are busy with one program, in terms of what a launch knows.

    for k in range(0, K, 64): dot 128 x 64 by 64 x 128        (K + 63) // 64 * 256 cycles

A specialised kernel begins later than a stock one: barriers are set up, descriptors fetched, partitions started. Where
a launch is over soon, that is all that is left of it.
"""

from __future__ import annotations

import math

from tawa.analysis.affine import Affine
from tawa.analysis.costs import fma_per_cycle
from tawa.analysis.launch_values import Apply, HostValue, Number, add, multiply
from tawa.analysis.loads import find_dots
from tawa.dialects.scf import ForOp, enclosing_loops
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, Operation, TensorType, Value, parse_type
from tawa.transforms.host_sizes import HostSizes


def launch_work(module: Module) -> HostValue | None:
    """Cycles of the tensor cores for one program, branches taken; None where the host cannot tell."""
    functions = [view for op in module.body.ops if (view := FuncOp.of(op))]
    if len(functions) != 1 or not functions[0].structured:
        return None
    affine = Affine()
    host = HostSizes(module, functions[0], affine)
    parts: list[HostValue] = []
    for dot in find_dots(module):
        factors: list[HostValue] = [Number(_cycles(dot))]
        for loop in enclosing_loops(dot):
            trips = _trips(loop, host, affine)
            if trips is None:
                return None
            factors.append(trips)
        parts.append(multiply(*factors))
    return add(*parts) if parts else None


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


def _cycles(dot: Operation) -> int:
    a, b = (parse_type(operand.type) for operand in dot.operands[:2])
    if not isinstance(a, TensorType) or not isinstance(b, TensorType):
        return 0
    return math.ceil(math.prod(a.shape) * b.shape[-1] / fma_per_cycle(a.element))
