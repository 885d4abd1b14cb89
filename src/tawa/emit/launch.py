"""The part of an emitted file that launches the kernel with the arguments of the one it came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pprint import pformat
from typing import Any

LAUNCH = '''
PARAMETERS = {parameters}
"""Of the kernel that this one came from."""
CONSTANTS = {constants}
DIVISIBLE = {divisible}
"""Numbers and addresses that are multiples of 16."""
BOXES = {boxes}
"""Of each descriptor: the block of the one that is given, the block of the one that is passed, and its layout."""


def unfit(given):
    """What the kernel was not made for in these arguments, by name; None if it fits."""
    for name, value in CONSTANTS.items():
        if name in given and given[name] != value:
            return f"{{name}} is {{given[name]!r}}, and the kernel was made for {{value!r}}"
    for name in DIVISIBLE:
        value = given[name]
        if (value.data_ptr() if hasattr(value, "data_ptr") else value) % 16:
            return f"{{name}} is not divisible by 16"
    for name, (block, *_) in BOXES.items():
        if list(given[name].block_shape) != block:
            return f"{{name}} has blocks of {{given[name].block_shape}}, and the kernel was made for {{block}}"
    return None


def launch(grid, *args, fallback=None, **kwargs):
    """Launches the kernel with the arguments of the kernel that it came from.

    fallback: that kernel, for arguments that this one was not made for; without it they raise ValueError.
    """
    given = {{**dict(zip(PARAMETERS, args)), **kwargs}}
    if (reason := unfit(given)) is not None:
        if fallback is None:
            raise ValueError(reason)
        return fallback[grid](*args, **kwargs)
    passed = []
    for name in {passed}:
        value = given[name]
        if name in BOXES:
            _, block, layout = BOXES[name]
            value = TensorDescriptor(value.base, list(value.shape), list(value.strides), block, layout.value)
        passed.append(value)
    {run}
'''
SCRATCH = """import torch

    context = contextvars.copy_context()  # descriptors that the kernel makes get memory from PyTorch
    context.run(triton.set_allocator, lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    return context.run(lambda: {call})"""


@dataclass(frozen=True, slots=True)
class Made:
    """What a kernel was compiled for.

    constants, blocks: values of constexprs and blocks of descriptors, by parameter. divisible: by 16.
    """

    parameters: Sequence[str]
    constants: Mapping[str, Any]
    divisible: Sequence[str]
    blocks: Mapping[str, Sequence[int]]


def launch_source(
    made: Made,
    kernel: str,
    passed: Sequence[str],
    options: Mapping[str, int],
    boxes: Mapping[str, tuple[list[int], str]],
    scratch: bool = False,
) -> str:
    """The function `launch`.

    passed: parameters of the emitted kernel. options: of its launches. boxes: block and layout name, by descriptor.
    scratch: whether the kernel makes descriptors.
    """
    shown = "".join(
        f"    {name!r}: ({list(made.blocks[name])}, {block}, {layout}),\n" for name, (block, layout) in boxes.items()
    )
    call = f"{kernel}[grid](*passed, {', '.join(f'{name}={value}' for name, value in options.items())})"
    return LAUNCH.format(
        parameters=pformat(tuple(made.parameters), width=110),
        constants=pformat(dict(made.constants), width=110, sort_dicts=False),
        divisible=pformat(tuple(made.divisible), width=110),
        boxes=f"{{\n{shown}}}" if shown else "{}",
        passed=pformat(tuple(passed), width=100),
        run=SCRATCH.format(call=call) if scratch else f"return {call}",
    )


__all__ = ["Made", "launch_source"]
