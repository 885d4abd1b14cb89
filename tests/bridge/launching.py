"""A driver that launches nothing, below Triton's own launcher: all of the host's part of a launch is the real one."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from tawa.bridge.triton.device import gpu_target
from tawa.machine.machines import SM_90


def in_threads(count: int, work: Callable[[], None]) -> None:
    """Does the same work in so many threads at once, within a minute; raises the first error of any."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(count)]
    for it in threads:
        it.start()
    for it in threads:
        it.join(60)
    if failed:
        raise failed[0]
    assert not any(it.is_alive() for it in threads)


class Launching:
    """As Triton's CUDA driver. launched: the arguments of each launch, as Triton's function in C gets them."""

    def __init__(self, launcher: Any) -> None:
        self.launcher_cls = launcher
        self.launched: list[tuple[Any, ...]] = []
        self.encoded = 0
        self.utils = SimpleNamespace(
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            load_binary=lambda *args: ("module", 7, 32, 0, 1024),
            unload_module=lambda module: None,
            fill_tma_descriptor=self.encode,
            fill_tma_descriptor_tiled=self.encode,
            launch=self.launch,
            build_signature_metadata=tuple,
        )
        self.get_current_device = int
        self.get_current_stream = int

    def launch(self, *args: Any) -> None:
        """In place of the function in C."""
        self.launched.append(args)

    def encode(self, *about: Any) -> tuple[Any, ...]:
        """In place of a call of CUDA."""
        self.encoded += 1
        return about

    def get_current_target(self) -> Any:
        """An H100."""
        return gpu_target(SM_90)


@contextmanager
def launching(patch: pytest.MonkeyPatch) -> Iterator[Launching]:
    """Triton's driver in the ``with`` block."""
    from triton.backends.nvidia import driver as nvidia
    from triton.compiler import CompiledKernel
    from triton.runtime import driver as slot

    made = Launching(nvidia.CudaLauncher)
    for name, value in {
        "compile_module_from_src": lambda **_: SimpleNamespace(launch=made.launch),  # 3.6: C code for each kernel
        "PyKernelArg": lambda **about: about,
        "library_dirs": list,
    }.items():
        patch.setattr(nvidia, name, value, raising=False)
    before = slot._active
    slot._active = made
    try:
        yield made
    finally:
        if hasattr(CompiledKernel, "__del__"):  # from 3.8 on: kernels are unloaded, by the driver that is there then
            gc.collect()
        slot._active = before


def calls_of(launch: Callable[[], Any]) -> int:
    """How many functions a launch calls, of Python and in C; unlike its time the same on every machine."""
    launch()
    launch()
    count = 0

    def note(frame: Any, event: str, about: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        launch()
    finally:
        sys.setprofile(None)
    return count
