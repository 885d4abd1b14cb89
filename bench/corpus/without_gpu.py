"""Compiling without a GPU: operations run on CPU tensors, and the launch of a kernel only compiles it.

Outputs keep the values they were allocated with, which are ones, but shapes are right. The operation therefore runs to
its end, backward pass included; if it reads intermediate results (such as the number of tiles), it reads ones. Queries
about the GPU are answered as on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any

from bench.corpus.modes import ignore

PROPERTIES = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "multiprocessor_count": 132,
    "warpSize": 32,
    "sm_clock_rate": 1980000,
    "mem_clock_rate": 3201000,
    "mem_bus_width": 6144,
}


class HopperOnPaper:
    """A driver with a target and with launchers that do nothing."""

    utils = SimpleNamespace(
        get_device_properties=lambda device: PROPERTIES,
        load_binary=lambda *args: ("module", 0, 168, 0, 1024),
        fill_tma_descriptor=lambda *args: "descriptor",
        fill_tma_descriptor_tiled=lambda *args: "descriptor",
    )

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """Launches nothing."""
        return lambda *args: None

    def get_current_device(self) -> int:
        """Device 0."""
        return 0

    def set_current_device(self, device: int) -> None:
        """Does nothing: there is only one device."""

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def get_current_target(self) -> Any:
        """Compute capability 9.0."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", 90, 32)

    def get_active_torch_device(self) -> Any:
        """The device of tensors."""
        import torch

        return torch.device("cpu")

    def get_device_interface(self) -> Any:
        """`torch.cuda`, as `pretend` left it."""
        import torch

        return torch.cuda


def pretend() -> None:
    """Installs this driver for the rest of the process. Call it before any package is imported."""
    from triton.runtime import driver
    from triton.runtime.autotuner import Autotuner

    from tawa.bridge.launch.tile_counters import TileCounters

    paper: Any = HopperOnPaper()
    driver.set_active(paper)
    counters: Any = TileCounters
    counters.address = lambda self, stream: 0
    tuners: Any = Autotuner
    tuners.do_bench = property(lambda tuner: partial(_launch_once, tuner), ignore)
    _answer_for_torch()


def _launch_once(tuner: Any, launch: Callable[[], object], quantiles: object) -> list[float]:
    """Replaces timing: compiles each configuration; those that fail are skipped, as on a GPU."""
    launch()
    return [1.0, 1.0, 1.0]


def _answer_for_torch() -> None:
    import torch

    cuda: Any = torch.cuda
    properties = SimpleNamespace(
        name="NVIDIA H200",
        major=9,
        minor=0,
        multi_processor_count=132,
        total_memory=141 << 30,
        shared_memory_per_block=49152,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=233472,
        L2_cache_size=50 << 20,
        warp_size=32,
    )
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "set_device": lambda device: None,
        "get_device_capability": lambda device=None: (9, 0),
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "synchronize": lambda device=None: None,
        "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0, synchronize=lambda: None),
        "device": lambda device: nullcontext(),
        "empty_cache": lambda: None,
        "manual_seed_all": lambda seed: None,
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    tensors: Any = torch.Tensor
    tensors.is_cuda = property(lambda self: True)
    tensors.cuda = lambda self, *args, **kwargs: self
    _on_cpu_mode().__enter__()
    _ones_mode().__enter__()


def _on_cpu_mode() -> Any:
    """Tensors that are made on, or moved to, a CUDA device stay on the CPU."""
    from torch.overrides import TorchFunctionMode

    class OnCpu(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kept = {key: _cpu_for(value) for key, value in (kwargs or {}).items()}
            return func(*(_cpu_for(value) for value in args), **kept)

    return OnCpu()


def _ones_mode() -> Any:
    """Fills uninitialised tensors with ones, and replaces PyTorch's own products by ones (they take minutes on a CPU).

    Works below autograd, so that backward passes are covered too.
    """
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    aten = torch.ops.aten
    fresh = {aten.empty.memory_format, aten.empty_like.default, aten.empty_strided.default, aten.new_empty.default}
    products = {aten.mm.default, aten.bmm.default, aten.addmm.default, aten.baddbmm.default}

    class Ones(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kept = kwargs or {}
            if func in products:
                return torch.ones_like(func(*(_shape_of(it) for it in args), **kept), device="cpu")
            made = func(*args, **kept)
            return made.fill_(1) if func in fresh else made

    return Ones()


def _shape_of(value: Any) -> Any:
    import torch

    return value.to("meta") if isinstance(value, torch.Tensor) else value


def _cpu_for(value: Any) -> Any:
    import torch

    if isinstance(value, str):
        return "cpu" if value.split(":")[0] == "cuda" else value
    return torch.device("cpu") if isinstance(value, torch.device) and value.type == "cuda" else value
