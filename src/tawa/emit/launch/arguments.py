"""The function `run` of an emitted file: it makes the arguments of the kernel, and launches it.

DescriptorSpec(base a_ptr, (M, K), (stride_am, 1))      a_desc = TensorDescriptor(a_ptr, [M, K], [stride_am, 1], …)
Shared(shares=4, …)                                     workspace = torch.empty(…)
"""

from __future__ import annotations

from collections.abc import Sequence

from tawa.dialects.parameters import SEMAPHORES, TILE_COUNTER, WORKSPACE
from tawa.emit.launch.checks import domain_of
from tawa.emit.launch.grid import grid_of
from tawa.emit.launch.made import Made
from tawa.emit.launch.table import WIDTH
from tawa.emit.parameters import Parameter
from tawa.symbolic.host.conditions import Clause, narrowed
from tawa.symbolic.host.expr import HostValue, Number, named
from tawa.symbolic.host.launch_spec import DescriptorSpec
from tawa.symbolic.host.text import python_text


def run_of(made: Made, parameters: Sequence[Parameter], kernel: str, options: str, scratch: bool) -> list[str]:
    """The statements of the function. scratch: whether the kernel makes descriptors."""
    device = _device(made)
    lines, grid = grid_of(made.launch, device)
    shared = made.launch.shared
    passed: list[str] = []
    for it in parameters:
        passed.append(it.name)
        spec = next((spec for spec in made.launch.descriptors if spec.argument == it.index), None)
        if spec is not None:
            lines.append(_made_descriptor(made, spec, it))
        elif it.box is not None:
            name, box = made.passed[it.index], it.box
            lines.append(
                f"{it.name} = TensorDescriptor(\n    {name}.base, list({name}.shape), list({name}.strides), "
                f"{list(box.block)}, {box.layout}.value, {name}.padding\n)"
            )
        elif it.added == TILE_COUNTER:
            lines.append(f"{it.name} = torch.zeros(1, dtype=torch.int32, device={device})")
        elif it.added == WORKSPACE and shared is not None:
            size = f"tiles * {shared.shares * shared.elements}"
            lines.append(f"{it.name} = torch.empty({size}, dtype=torch.float32, device={device})")
        elif it.added == SEMAPHORES:
            lines.append(f"{it.name} = torch.zeros(tiles, dtype=torch.int32, device={device})")
        elif not it.added:
            passed[-1] = made.passed[it.index]
        elif it.added.startswith("tawa_grid_") and it.added[-1].isdigit():
            passed[-1] = "xyz"[int(it.added[-1])]
        else:
            passed[-1] = "programs"
    call = f"{kernel}[{grid}]({', '.join(passed)}{', ' * bool(options)}{options})"
    if scratch:
        lines += [
            "context = contextvars.copy_context()  # descriptors that the kernel makes get memory from PyTorch",
            f"context.run(triton.set_allocator, lambda size, *_: torch.empty(size, dtype=torch.int8, device={device}))",
            f"return context.run(lambda: {call})",
        ]
    else:
        lines.append(f"return {call}")
    return lines if not any("torch." in line for line in lines) else ["import torch", "", *lines]


def _made_descriptor(made: Made, spec: DescriptorSpec, parameter: Parameter) -> str:
    """The descriptor of what a pointer points to."""
    domain = narrowed(domain_of(made), map(Clause.of, made.launch.conditions))
    box = parameter.box
    assert box is not None

    def text(value: HostValue, factor: bool = False) -> str:
        return python_text(named(value, made.value_of), domain, factor)

    base = made.passed[spec.base]
    base = base if made.types[base].startswith("*") else f"{base}.base"
    element = parameter.type.partition("<")[2].partition("[")[0]
    same = made.types[made.passed[spec.base]].partition("[")[0].lstrip("*").removeprefix("tensordesc<") == element
    if spec.offset != Number(0) or not same:
        offset = f" + {spec.element_bytes} * {text(spec.offset, factor=True)}" * (spec.offset != Number(0))
        base = f'Memory({base}.data_ptr(){offset}, "{element}")'
    shape, strides = (", ".join(map(text, it)) for it in (spec.shape, spec.strides))
    inner = f"{base}, [{shape}], [{strides}], {list(box.block)}, {box.layout}.value"
    line = f"{parameter.name} = TensorDescriptor({inner})"
    return line if len(line) <= WIDTH else f"{parameter.name} = TensorDescriptor(\n    {inner}\n)"


def _device(made: Made) -> str:
    """The device of the tensors."""
    for name, type in made.types.items():
        if type.startswith(("*", "tensordesc<")):
            return f"{name}.device" if type.startswith("*") else f"{name}.base.device"
    return '"cuda"'
