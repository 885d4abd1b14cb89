from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import triton
from triton.runtime import driver as slot

import tawa
from tawa.runtime.history import recording
from tests.bridge import kernels


class Launching:
    """The driver of the bridge's tests, and launchers that only note that they were called."""

    def __init__(self, on_paper: Any) -> None:
        self.on_paper = on_paper
        self.launched: list[str] = []
        self.fails = False
        self.utils = SimpleNamespace(
            load_binary=self._load,
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            fill_tma_descriptor=lambda *about: about,
            fill_tma_descriptor_tiled=lambda *about: about,
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.on_paper, name)

    def _load(self, *args: Any) -> tuple[Any, ...]:
        if self.fails:
            raise RuntimeError("no memory")
        return ("module", "function", 32, 0, 1024)

    def launcher_cls(self, src: Any, metadata: Any) -> Any:
        return lambda *args: self.launched.append(metadata.name)


@pytest.fixture
def launcher(driver: None) -> Iterator[Launching]:
    on_paper = slot.active
    found = Launching(on_paper)
    slot.set_active(found)
    yield found
    slot._active = on_paper


@pytest.fixture(autouse=True)
def nothing_recorded() -> Iterator[None]:
    recording.RECORDER.forget()
    yield
    tawa.uninstall()
    recording.RECORDER.forget()


@pytest.fixture
def fill(launcher: Launching) -> Any:
    """Launches a kernel without a dot; with another block size it is another version."""
    kernel = triton.jit(kernels.softmax_rows.fn)
    tensors = [kernels.half_tensor(), kernels.half_tensor()]
    return lambda block=64: kernel[(1,)](*tensors, 100, BLOCK=block)
