"""What operators have to know about a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from tawa.machine.machines import SM_90
from tawa.plan.cost.tile_time import Device

HOPPER = (9, 0)
"""Its compute capability."""
Result = TypeVar("Result")


def on_device(index: int | None, launch: Callable[..., Result], *arguments: object) -> Result:
    """Calls a function that launches kernels, with a CUDA device as the current one. None: there is no such device."""
    if index is None or index == torch.cuda.current_device():
        return launch(*arguments)
    with torch.cuda.device(index):
        return launch(*arguments)


def multiprocessors(device: torch.device) -> int:
    """How many SMs a device has; without a GPU, under Triton's interpreter, those of an H200."""
    if device.type != "cuda":
        return SM_90.processors
    return torch.cuda.get_device_properties(device).multi_processor_count


def is_hopper(device: torch.device) -> bool:
    """Whether Tawa specialises kernels for a device."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) == HOPPER


def device_of(device: torch.device) -> Device:
    """What the model of time knows about a GPU; the DRAM is that of an H100 where the driver does not tell."""
    dram = SM_90.dram
    if device.type == "cuda":
        about = torch.cuda.get_device_properties(device)
        clock, width = getattr(about, "memory_clock_rate", 0), getattr(about, "memory_bus_width", 0)  # kHz, bits
        dram = 2 * clock / 1000 * width / 8 or dram
    return Device(multiprocessors(device), dram)
