"""Tawa for unmodified code: for a process (`install`), or for a block (`scope`); `wait` waits for its compiles."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Unpack

from tawa.bridge.driver.attach import ATTACHMENT, attached
from tawa.bridge.driver.request import PROCESS, Request, activate, surrounding_request
from tawa.bridge.launch.first import background
from tawa.bridge.launch.why_stock import stock_remark
from tawa.bridge.triton.versions import refuse_pinned, untested_remark
from tawa.runtime.history.recording import RECORDER
from tawa.runtime.history.report_file import ExitReport
from tawa.runtime.progress import progress
from tawa.runtime.pytorch.torch_compile import TorchCompileReach
from tawa.runtime.requests import LaunchOptions, make_request, set_log_level
from tawa.runtime.settings import Settings


class Installation:
    """Tawa in this process, for all threads: attached to Triton, to torch.compile, and recording."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._installed = False
        self._torch_compile = TorchCompileReach()
        self._exit_report = ExitReport()

    def install(self, request: Request, settings: Settings) -> None:
        """Makes `request` the one of the process. A second call replaces it."""
        untested = untested_remark()
        with self._lock:
            if not self._installed:
                ATTACHMENT.attach()
                self._installed = True
            PROCESS.replace(request)
            RECORDER.reason = untested or (stock_remark(request) if request.stock else None)
            if request.stock or untested:
                self._torch_compile.undo()
                RECORDER.stop()
            else:
                self._torch_compile.apply(request.cache_suffix())
                RECORDER.start()
        if settings.report != "off":
            self._exit_report.write_to(settings.report)

    def uninstall(self) -> None:
        """Takes everything back that `install` did."""
        with self._lock:
            if self._installed:
                self._torch_compile.undo()
                RECORDER.stop()
                RECORDER.reason = None
                PROCESS.replace(None)
                ATTACHMENT.detach()
                self._installed = False


_INSTALLATION = Installation()


def install(**options: Unpack[LaunchOptions]) -> None:
    """Puts every Triton kernel that this process compiles from now on, in any thread, under Tawa; torch.compile's too.

    options: Tawa's options (``aref_depth``, ``mma_depth``, ...) as defaults of every launch. A second call replaces
    them. Kernels that cannot be specialised are compiled by stock Triton. Raises PlanError on a bad option. On a Triton
    outside the tested range it warns and does nothing else; it raises UnsupportedKernel if the options demand more.
    """
    settings = Settings.from_environment()
    request = make_request(options, None, settings)
    set_log_level(settings)
    refuse_pinned(request.pinned, "every kernel")
    _INSTALLATION.install(request, settings)


def uninstall() -> None:
    """Takes `install` back: Triton is as it was before. Kernels that are compiled already stay in use."""
    _INSTALLATION.uninstall()


@contextmanager
def scope(**options: Unpack[LaunchOptions]) -> Iterator[None]:
    """Puts the kernels launched inside the ``with`` block, in this thread or task, under Tawa.

    options: as for `install`; options that are not given come from the scope or installation around it.
    ``enable_warp_specialization=False`` means stock Triton inside the block.
    """
    settings = Settings.from_environment()
    request = make_request(options, surrounding_request(), settings)
    set_log_level(settings)
    refuse_pinned(request.pinned, "every kernel")
    with attached(), activate(request):
        yield


def wait(timeout: float | None = None) -> bool:
    """Waits until nothing is compiled in the background any more.

    timeout: in seconds; None: as long as it takes. Returns whether all has ended.
    """
    with progress("compiling in the background"):
        return background.wait(timeout)
