"""The recorder behind `tawa.report`: from `tawa.install` on it sees each kernel that Triton compiles or loads.

Two methods of Triton's `CompiledKernel` are wrapped while recording:

| method | tells |
|---|---|
| `__init__` | a kernel is there, compiled now or found in the cache; Tawa's record of it is in its metadata |
| `_init_handles` | it is about to be launched: its launcher gets a counter in front, about 0.1 µs a launch |
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tawa.bridge.driver.annotations import beside_remark
from tawa.bridge.launch.why_stock import NOT_ASKED, why_stock
from tawa.bridge.report import record as records
from tawa.remarks import Remark
from tawa.runtime.history import KernelHistory, ProcessReport, Verdict, by_launches, ordered

_STATIC_LAUNCHER = "torch._inductor.runtime.static_triton_launcher"


class _Version:
    """One compiled kernel, in the making of the history; `launches` is counted by its launcher."""

    __slots__ = ("launches", "name", "record")

    def __init__(self, name: str, record: Mapping[str, Any]) -> None:
        self.name = name
        self.record = record
        self.launches = 0


def _counted(version: _Version, launcher: Callable[..., Any]) -> Callable[..., Any]:
    """Triton's launcher of one kernel with a counter in front."""

    def launch(*args: Any) -> Any:
        version.launches += 1
        return launcher(*args)

    return launch


_lock = threading.Lock()
_versions: list[_Version] = []
_originals: tuple[Callable[..., Any], Callable[..., Any]] | None = None
_profile: tuple[dict[str, float], dict[str, int]] | None = None
_note = ""
_reason: Remark | None = None


def start_recording() -> None:
    """Records from now on; again is harmless."""
    global _originals
    from triton.compiler.compiler import CompiledKernel

    with _lock:
        if _originals is not None:
            return
        kernel_class: Any = CompiledKernel
        _originals = (kernel_class.__init__, kernel_class._init_handles)
        kernel_class.__init__ = _recording_init(kernel_class.__init__)
        kernel_class._init_handles = _counting_handles(kernel_class._init_handles)


def stop_recording() -> None:
    """Records no more; what was recorded stays. A wrapper that someone else has wrapped since stays in place, idle."""
    global _originals
    with _lock:
        if _originals is None:
            return
        from triton.compiler.compiler import CompiledKernel

        kernel_class: Any = CompiledKernel
        for name, original in zip(("__init__", "_init_handles"), _originals, strict=True):
            if getattr(getattr(kernel_class, name), "_tawa_original", None) is original:
                setattr(kernel_class, name, original)
        _originals = None


def forget() -> None:
    """Empties the history."""
    global _profile, _note
    with _lock:
        _versions.clear()
        _profile, _note = None, ""


def _begin_anew() -> None:
    """Of a forked process, which would count its parent's kernels again; a thread of the parent may hold the lock."""
    global _lock
    _lock = threading.Lock()
    forget()


os.register_at_fork(after_in_child=_begin_anew)


def report() -> ProcessReport:
    """What became of the kernels compiled since `tawa.install`, in this process."""
    with _lock:
        versions = list(_versions)
        profile, note = _profile, _note
    times, counts = profile if profile is not None else ({}, {})
    groups: dict[str, dict[tuple[Any, ...], list[_Version]]] = {}
    for version in versions:
        key = tuple(version.record[name] for name in ("applied", "reason", "location", "cure"))
        groups.setdefault(version.name, {}).setdefault(key, []).append(version)
    kernels = [
        KernelHistory(name, _verdicts(found, counts.get(name, 0)), times.get(name, 0.0) if profile else None)
        for name, found in groups.items()
    ]
    reason = "" if _reason is None else f"{_reason.reason}; cure: {_reason.cure}"
    return ProcessReport(ordered(kernels), sum(times.values()) if profile else None, note, reason=reason)


def set_profile(times: Mapping[str, float], counts: Mapping[str, int]) -> None:
    """Adds what a profiler saw: milliseconds and launches by kernel name, of everything that ran on the GPU."""
    global _profile
    _profile = (dict(times), dict(counts))


def set_reason(reason: Remark | None) -> None:
    """Sets why nothing is recorded though it was asked for; None where kernels are recorded."""
    global _reason
    _reason = reason


def set_note(note: str) -> None:
    """Says why there is no profile."""
    global _note
    _note = note


def _recording_init(original: Callable[..., None]) -> Callable[..., None]:
    def __init__(self: Any, src: Any, *args: Any, **kwargs: Any) -> None:
        original(self, src, *args, **kwargs)
        if _originals is None:
            return
        record = getattr(self.metadata, records.KEY, None) or _stock_record(self)
        version = _Version(self.metadata.name, record)
        self._tawa_version = version
        with _lock:
            _versions.append(version)

    __init__._tawa_original = original  # type: ignore[attr-defined]
    return __init__


def _counting_handles(original: Callable[..., None]) -> Callable[..., None]:
    def _init_handles(self: Any) -> None:
        if self.module is not None:
            return
        original(self)
        version = getattr(self, "_tawa_version", None)
        if version is not None and self._run is not None:
            self._run = _counted(version, self._run)

    _init_handles._tawa_original = original  # type: ignore[attr-defined]
    return _init_handles


def _stock_record(kernel: Any) -> Mapping[str, Any]:
    """A record for a kernel that Tawa had no part in, with the reason as far as it shows."""
    remark = why_stock(kernel)
    if remark is NOT_ASKED and any(it.name == kernel.metadata.name and it.record.get("launch") for it in _versions):
        remark = beside_remark()
    return {
        "applied": False, "reason": remark.reason, "location": None, "cure": remark.cure, "compile_ms": None,
        "tawa_ms": None,
    }  # fmt: skip


def _verdicts(groups: Mapping[tuple[Any, ...], list[_Version]], profiled: int) -> tuple[Verdict, ...]:
    """The verdicts of one kernel. profiled: launches that a profiler saw, which may be more than Triton's own."""
    verdicts: list[Verdict] = []
    for (applied, reason, location, cure), versions in groups.items():
        launches: int | None = sum(version.launches for version in versions)
        if len(groups) == 1 and profiled:
            launches = profiled
        elif launches == 0 and _launched_by_pytorch():
            launches = None
        compile_ms = sum(version.record["compile_ms"] or 0.0 for version in versions)
        tawa_ms = sum(version.record["tawa_ms"] or 0.0 for version in versions)
        verdicts.append(
            Verdict(applied, reason, location, cure, len(versions), launches, round(compile_ms, 3), round(tawa_ms, 3))
        )
    return by_launches(verdicts)


def _launched_by_pytorch() -> bool:
    """Whether PyTorch's own launcher of compiled kernels is loaded: what it launches passes Triton by."""
    return _STATIC_LAUNCHER in sys.modules
