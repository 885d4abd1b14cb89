"""Lets a file of Gluon kernels believe that it runs on an H100 or a B200, and records what it would launch.

Tensors of the CUDA device become tensors without data (PyTorch's meta device), so that a test costs no memory and no
time. A test may fail after its launch: only the launch counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from tawa.bridge.triton.device import gpu_target
from tawa.machine.machines import Machine


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch asks Triton to compile: types by name, constants and attributes by position.

    grid, arguments: of the launch; a tensor is its shape and its element type. Empty for a compile without a launch.
    """

    kernel: Any
    types: dict[str, str]
    constants: dict[tuple[int, ...], Any]
    attributes: dict[tuple[int, ...], list[list[Any]]]
    num_warps: int
    num_ctas: int
    grid: tuple[int, ...] = ()
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])

    def __str__(self) -> str:
        constants = ", ".join(f"{self.name_at(path)}={plain(it)}" for path, it in self.constants.items())
        types = ", ".join(f"{name}={kind}" for name, kind in self.types.items() if kind != "constexpr")
        return f"{types}; {constants}; {self.num_warps} warps"

    def name_at(self, path: tuple[int, ...]) -> str:
        """The parameter of a constant; a part of a tuple with its place."""
        return ".".join([list(self.types)[path[0]], *map(str, path[1:])])


def plain(value: Any) -> str:
    """A constant as text that has no address of memory in it."""
    value = getattr(value, "value", value)
    return str(getattr(value, "__name__", None) or getattr(value, "_fn_name", None) or value)


def described(value: Any) -> Any:
    """An argument as JSON data: a tensor, or that behind a descriptor, as ``[shape, element type]``."""
    descriptor = getattr(value, "block_shape", None) is not None
    tensor = value.base if descriptor else value
    if isinstance(tensor, int | float):
        return tensor
    if not hasattr(tensor, "shape"):
        return None
    return {"shape": list(tensor.shape), "type": str(tensor.dtype).removeprefix("torch."), "descriptor": descriptor}


@dataclass(frozen=True, slots=True)
class Driver:
    """What Triton asks of its driver before it compiles a kernel."""

    gpu: Machine

    def get_current_target(self) -> Any:
        """That of the GPU."""
        return gpu_target(self.gpu)

    def get_active_torch_device(self) -> Any:
        """The device of tensors that a benchmark makes."""
        import torch

        return torch.device("meta")

    def get_current_device(self) -> int:
        """The only one."""
        return 0

    def get_current_stream(self, device: int) -> int:
        """The default stream."""
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        """That of the GPU."""
        return divmod(self.gpu.capability, 10)

    def get_device_interface(self) -> Any:
        """PyTorch's module of the device."""
        import torch

        return torch.cuda


def install(launches: list[Launch], gpu: Machine) -> None:
    """Changes Triton and PyTorch in this process; launches and explicit compiles of Gluon kernels go to `launches`."""
    import torch
    import triton
    from triton.experimental.gluon._runtime import GluonASTSource
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    stand_in: Any = Driver(gpu)
    driver.set_active(stand_in)
    cuda: Any = torch.cuda
    cuda.get_device_capability = lambda device=None: divmod(gpu.capability, 10)
    name = f"NVIDIA {gpu.gpus.split(',')[0]}"
    cuda.get_device_properties = lambda device=None: SimpleNamespace(multi_processor_count=gpu.processors, name=name)
    cuda.get_device_name = lambda device=None: name
    cuda.current_device = lambda: 0
    cuda.synchronize = lambda device=None: None
    testing: Any = torch.testing
    testing.assert_close = lambda *args, **options: None
    benchmarks: Any = triton.testing
    for name in ("do_bench", "do_bench_cudagraph"):
        setattr(benchmarks, name, _once)

    functions: Any = JITFunction
    run, given = functions.run, dict[str, Any]()

    def note(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        given.update(grid=grid, arguments={**dict(zip(self.arg_names, args, strict=False)), **options})
        return run(self, *args, grid=grid, warmup=warmup, **options)

    def record(self: Any, key: Any, types: Any, device: Any, constants: Any, options: Any, attributes: Any, _: Any):
        if self.is_gluon():
            arguments = {name: it for name, it in given["arguments"].items() if types.get(name) != "constexpr"}
            grid: Any = given["grid"]
            grid = grid(given["arguments"]) if callable(grid) else grid
            about = tuple(grid), {name: described(it) for name, it in arguments.items() if name in types}
            launches.append(
                Launch(
                    self, dict(types), dict(constants), dict(attributes), options.num_warps, options.num_ctas, *about
                )
            )

    functions.run = note
    functions._do_compile = record
    compile_all: Any = triton.compile

    def compile_one(source: Any, target: Any = None, options: Any = None, **more: Any) -> Any:
        if isinstance(source, GluonASTSource):
            given = options or {}
            launches.append(
                Launch(
                    *(source.fn, dict(source.signature), dict(source.constants), dict(source.attrs)),
                    *(given.get("num_warps", 4), given.get("num_ctas", 1)),
                )
            )
        return compile_all(source, target=target, options=options, **more)

    compiler: Any = triton
    compiler.compile = compile_one


def _once(run: Any, *args: Any, **options: Any) -> float:
    run()
    return 1.0


@contextmanager
def tensors_without_data() -> Iterator[None]:
    """While it lasts, PyTorch makes tensors of the CUDA device on the meta device."""
    import torch
    from torch.overrides import TorchFunctionMode

    class OnMeta(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), options: Any = None) -> Any:
            named = {key: _moved(it) for key, it in (options or {}).items()}
            if getattr(function, "__name__", "") == "cuda":
                return args[0].to("meta")
            return function(*(_moved(it) for it in args), **named)

    def _moved(value: Any) -> Any:
        return torch.device("meta") if _on_cuda(value) else value

    def _on_cuda(value: Any) -> bool:
        if isinstance(value, torch.device):
            return value.type == "cuda"
        return isinstance(value, str) and value.partition(":")[0] == "cuda"

    with OnMeta():
        yield
