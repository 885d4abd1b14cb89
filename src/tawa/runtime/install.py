"""Tawa for code that nobody edits: a whole process (`install`), or a block (`scope`)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tawa.bridge.driver.attach import attach, attached, detach
from tawa.bridge.driver.request import activate, set_process_request, surrounding_request
from tawa.bridge.launch.why_stock import stock_remark
from tawa.bridge.triton.versions import refuse_pinned, untested_remark
from tawa.runtime.recording import set_reason, start_recording, stop_recording
from tawa.runtime.report_file import write_at_exit
from tawa.runtime.requests import make_request, set_log_level
from tawa.runtime.settings import Settings
from tawa.runtime.torch_compile import TorchCompileReach

_lock = threading.Lock()
_installed = False
_torch_compile = TorchCompileReach()


def install(**options: Any) -> None:
    """Puts every Triton kernel that this process compiles from now on, in any thread, under Tawa; torch.compile's too.

    options: Tawa's options (``aref_depth``, ``mma_depth``, ...) as defaults of every launch. A second call replaces
    them. Kernels that cannot be specialised are compiled by stock Triton. Raises PlanError on a bad option. On a Triton
    that was not tested it warns and does nothing else; it raises UnsupportedKernel if the options demand more.
    """
    global _installed
    settings = Settings.from_environment()
    request = make_request(options, None, settings)
    set_log_level(settings)
    untested = untested_remark()
    refuse_pinned(request.pinned, "every kernel")
    with _lock:
        if not _installed:
            attach()
            _installed = True
        set_process_request(request)
        set_reason(untested or (stock_remark(request) if request.stock else None))
        if request.stock or untested:
            _torch_compile.undo()
            stop_recording()
        else:
            _torch_compile.apply(request.cache_suffix())
            start_recording()
    if settings.report != "off":
        write_at_exit(settings.report)


def uninstall() -> None:
    """Takes `install` back: Triton is as it was before. Kernels already compiled stay in use where they are."""
    global _installed
    with _lock:
        if _installed:
            _torch_compile.undo()
            stop_recording()
            set_reason(None)
            set_process_request(None)
            detach()
            _installed = False


@contextmanager
def scope(**options: Any) -> Iterator[None]:
    """Puts the kernels launched inside the ``with`` block, in this thread or task, under Tawa.

    options: as for `install`; what is not given comes from the scope or installation around it.
    ``enable_warp_specialization=False`` means stock Triton inside the block.
    """
    settings = Settings.from_environment()
    request = make_request(options, surrounding_request(), settings)
    set_log_level(settings)
    refuse_pinned(request.pinned, "every kernel")
    with attached(), activate(request):
        yield
