"""A CUDA driver that does nothing, so that the host time of a launch can be measured without a GPU.

`install` builds ``libcuda.so.1`` from `stand_in_driver.c` and loads it before Triton looks for its own: then everything
in Python and in C up to the call of the driver is what runs on a GPU machine, on tensors of the CPU. What PyTorch says
of a CUDA device (the current one, its stream, its capability) is answered here, so PyTorch itself is not needed; only
`install_for_operators` needs it. `last_launch` tells what the driver got.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from functools import partial
from operator import mul
from pathlib import Path
from types import SimpleNamespace
from typing import Any

SOURCE = Path(__file__).with_suffix(".c")
PROCESSORS, CAPABILITY = 132, (9, 0)
_KEEP_MEMORY = ((-4, 0), (-1, -1))
"""Options of glibc's `mallopt`: no maps, and nothing is given back. Addresses recur as PyTorch's of a GPU do."""


def library() -> Path:
    """The stand-in, built."""
    import triton

    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    made = Path(tempfile.mkdtemp(prefix="tawa-stand-in-")) / "libcuda.so.1"
    what = ["-shared", "-fPIC", "-O2", f"-Wl,-soname,{made.name}", f"-I{headers}", str(SOURCE), "-o", str(made)]
    subprocess.run([os.environ.get("CC", "gcc"), *what], check=True)
    return made


class Launch(ctypes.Structure):
    """What the driver got: how many launches so far; of the last one its grid, threads and bytes of shared memory."""

    _fields_ = (
        ("count", ctypes.c_uint), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint)
    )  # fmt: skip


def install() -> ctypes.CDLL:
    """Makes it Triton's driver in this process; returns the library."""
    made = library()
    os.environ["TRITON_LIBCUDA_PATH"] = str(made.parent)
    # who asks for libcuda.so.1 later gets this one, by its name
    loaded = ctypes.CDLL(str(made), mode=ctypes.RTLD_GLOBAL)
    from triton.backends.nvidia import driver
    from triton.runtime import driver as slot

    class StandIn(driver.CudaDriver):
        """Triton's driver; its constructor asks PyTorch for a GPU."""

        def __init__(self) -> None:
            self.utils, self.launcher_cls = driver.CudaUtils(), driver.CudaLauncher
            self.get_current_device = _current_device
            self.get_current_stream = partial(mul, 0)  # as PyTorch's, a function in C
            self.get_device_capability = lambda device=None: CAPABILITY

    slot.set_active(StandIn())
    return loaded


def last_launch(loaded: ctypes.CDLL) -> Launch:
    """What the driver got at the last launch."""
    return Launch.in_dll(loaded, "last_launch")


def _lazy_init() -> None:
    pass


def _current_device() -> int:
    """As `torch.cuda.current_device`: two calls of Python's, one of C."""
    _lazy_init()
    return 0


def install_for_operators() -> None:
    """Lets the operators of `tawa.ops` take tensors of the CPU for those of an H100. Before any of them is used."""
    import torch

    import tawa.ops
    import tawa.ops.calls.plain as plain
    from tawa.ops.calls import operators

    cuda, library = torch.cuda, operators.library
    answers: dict[str, Any] = {
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_properties": lambda device=None: SimpleNamespace(multi_processor_count=PROCESSORS),
        "current_stream": lambda device=None: SimpleNamespace(cuda_stream=0),
        "is_current_stream_capturing": lambda: False,
    }
    for name, answer in answers.items():
        setattr(cuda, name, answer)
    registered = library.impl

    def impl(name: str, run: Any, key: str, **options: Any) -> None:
        registered(name, run, key, **options)
        if key == "CUDA":
            registered(name, run, "CPU", **options)

    library.impl = impl  # type: ignore[method-assign]
    for name in tawa.ops.__all__:
        getattr(tawa.ops, name)
    replaced: dict[str, Any] = {
        "is_hopper": lambda device: True,
        "check_devices": lambda named: None,
        "allocate": lambda size, alignment, stream: torch.empty(size, dtype=torch.int8),
    }
    for name, module in list(sys.modules.items()):
        if name.startswith("tawa.ops."):
            for one in replaced.keys() & vars(module).keys():
                setattr(module, one, replaced[one])
    plain.other_keys = ~plain._keys_of("CPU")
    torch.Tensor.new_zeros = torch.Tensor.new_empty  # type: ignore[method-assign]  # no memory is filled on the host
    host = ctypes.CDLL(None)
    for option, value in _KEEP_MEMORY:
        host.mallopt(option, value)
