"""Simulates a kernel with pointer loads, with and without promotion of its loads to TMA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tawa.analysis.tma.promotions import Make, find_promotions
from tawa.analysis.tma.unit_strides import find_unit_strides
from tawa.bridge.triton.generic_print import parse_module as parse_with_triton
from tawa.bridge.triton.generic_print import print_generic, print_generic_ttir
from tawa.bridge.triton.signature import Signature
from tawa.bridge.triton.versions import nested_descriptors
from tawa.dialects.parameters import parameter_name
from tawa.dialects.tt import FuncOp
from tawa.ir import Module, PointerType, parse_module, parse_type, print_module
from tawa.sim import Descriptor, simulate
from tawa.symbolic.host.launch_spec import LaunchSpec
from tawa.transforms.ttir.promote_to_tma import PromoteToTma, PromotionResult
from tawa.transforms.ttir.unit_strides import AssumeUnitStrides
from tests.support.fronts import Front, front

NESTED = nested_descriptors()
_TYPES = {"float16": "*fp16", "float32": "*fp32", "int32": "*i32", "uint8": "*fp8e4nv", "int64": "*i64", "int8": "*i8"}


@dataclass(frozen=True)
class Launch:
    """A kernel, its arguments by name (arrays and numbers) and its constexprs.

    told: whether the integer argument 1 is specialised as a constant; False for annotated parameters.
    """

    kernel: Any
    arguments: Mapping[str, Any]
    constants: Mapping[str, Any]
    grid: tuple[int, ...]
    aligned: bool = True
    told: bool = True

    def signature(self) -> Signature:
        """As Triton's launcher specialises it: 1 is a constant, and multiples of 16 have tt.divisibility."""
        names = self.kernel.arg_names
        constants = dict(self.constants)
        types, marked = {}, []
        for name, value in self.arguments.items():
            if isinstance(value, np.ndarray):
                types[name] = _TYPES[str(value.dtype)]
                marked += [name] if self.aligned else []
            elif isinstance(value, float):
                types[name] = "fp32"
            elif value == 1 and self.told:
                constants[name] = 1
            else:
                types[name] = "i32"
                marked += [name] if value % 16 == 0 else []
        return Signature(
            {name: types.get(name, "constexpr") for name in names},
            {(names.index(name),): value for name, value in constants.items()},
            {(names.index(name),): [["tt.divisibility", 16]] for name in marked},
        )

    def front(self) -> Front:
        """The kernel as TTIR."""
        return front(self.kernel, self.signature(), num_warps=4)


@dataclass(frozen=True)
class Promoted:
    """The result of the pass on a kernel. ttir: the kernel after the pass."""

    result: PromotionResult
    ttir: str
    made: Front

    def reasons(self) -> str:
        """All remarks in one text."""
        return "\n".join(str(remark) for remark in self.result.remarks)

    def ttgir(self) -> Module:
        """The kernel with layouts."""
        return lay_out(self.made, self.ttir)


def lay_out(made: Front, ttir: str, num_warps: int | None = None) -> Module:
    """TTIR through Triton's front half, optionally for another number of warps."""
    mod = parse_with_triton(ttir, made.context)
    options = made.options if num_warps is None else replace(made.options, num_warps=num_warps)
    made.stages.front(mod, {}, options, 90)
    return parse_module(print_generic(mod))


def promoted(launch: Launch, make: Make = "host", made: Front | None = None, persistent: bool = False) -> Promoted:
    """Runs the pass on a kernel."""
    made = made if made is not None else launch.front()
    module = parse_module(print_generic_ttir(parse_with_triton(made.ttir, made.context)))
    numbers = {name for name, value in launch.arguments.items() if isinstance(value, int)}
    units = find_unit_strides(module, frozenset(() if launch.told else numbers))
    asked = AssumeUnitStrides(units).run(module).conditions
    result = PromoteToTma(find_promotions(module, make, NESTED, persistent=persistent)).run(module)
    result = replace(result, launch=replace(result.launch, conditions=(*asked, *result.launch.conditions)))
    return Promoted(result, print_module(module), made)


def run(
    launch: Launch, module: Module, spec: LaunchSpec, order: Any = "eager", programs: int | None = None
) -> dict[str, Any]:
    """Simulates one launch and returns its arrays. programs: the grid of a persistent form; None uses the launch's."""
    arguments: dict[str, Any] = {}
    for name, value in launch.arguments.items():
        arguments[name] = value.copy() if isinstance(value, np.ndarray) else value
    given = addresses(module, arguments)
    for number, descriptor in enumerate(spec.descriptors):
        address, shape, strides = descriptor.evaluate(given)
        base = arguments[_names(module)[descriptor.base]].reshape(-1)
        start = (address - given[descriptor.base]) // descriptor.element_bytes
        arguments[f"tawa_desc_{number}"] = Descriptor(base[start:], shape, strides)
    arguments |= {f"tawa_grid_{axis}": size for axis, size in enumerate(launch.grid[: spec.axes])}
    simulate(module, arguments, launch.grid if programs is None else (programs,), order)
    return {name: value for name, value in arguments.items() if isinstance(value, np.ndarray)}


def addresses(module: Module, arguments: Mapping[str, Any]) -> list[int]:
    """The arguments of the function as integers: pointers are addresses."""
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    given: list[int] = []
    for arg in function.body.args:
        pointer = isinstance(parse_type(arg.type), PointerType)
        value = arguments.get(parameter_name(module, arg), 0)
        given.append((arg.index + 1) << 40 if pointer else value)
    return given


def _names(module: Module) -> list[str]:
    function = next(view for op in module.body.ops if (view := FuncOp.of(op)))
    return [parameter_name(module, arg) for arg in function.body.args]


def same_bits(launch: Launch, make: Make, promoted_loads: int | None = None) -> Promoted:
    """Runs the kernel with and without the pass and asserts that the outputs are bitwise equal."""
    stock = launch.front()
    changed = promoted(launch, make, stock)
    assert changed.result.changed, changed.reasons()
    if promoted_loads is not None:
        assert changed.result.promoted == promoted_loads, changed.reasons()
    module = changed.ttgir()
    broken = changed.result.launch.broken(addresses(module, launch.arguments))
    assert broken is None, str(broken)
    before = run(launch, stock.whole(), LaunchSpec())
    after = run(launch, module, changed.result.launch)
    for name, array in before.items():
        assert array.tobytes() == after[name].tobytes(), name
    return changed
