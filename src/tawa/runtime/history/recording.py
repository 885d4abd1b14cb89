"""The recorder behind `tawa.report`: after `tawa.install` it sees each kernel that Triton compiles or loads.

Two methods of Triton's `CompiledKernel` are wrapped while recording:

| method | what is recorded |
|---|---|
| `__init__` | a kernel was compiled or found in the cache; Tawa's record of it is in its metadata |
| `_init_handles` | the kernel is about to be launched: its launcher counts launches |
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any
from weakref import ref

from tawa.bridge.driver.annotations import beside_remark
from tawa.bridge.launch.launcher import states_of
from tawa.bridge.launch.straight import straight
from tawa.bridge.launch.why_stock import NOT_ASKED, why_stock
from tawa.bridge.report import record as records
from tawa.remarks import Remark
from tawa.runtime.history.process_report import KernelHistory, ProcessReport, Verdict, by_launches

_STATIC_LAUNCHER = "torch._inductor.runtime.static_triton_launcher"


class _Version:
    """One compiled kernel; `launches` is counted by its launcher."""

    __slots__ = ("kernel", "launches", "name", "record")

    def __init__(self, name: str, record: Mapping[str, Any], kernel: Any = None) -> None:
        self.name = name
        self.record = record
        self.kernel = ref(kernel) if kernel is not None else lambda: None
        self.launches = 0


class Recorder:
    """The kernels of this process, and what a profiler saw of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: list[_Version] = []
        self._originals: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self._profile: tuple[dict[str, float], dict[str, int]] | None = None
        self.note = ""
        """Why there is no profile."""
        self.reason: Remark | None = None
        """Why nothing is recorded though it was asked for; None where kernels are recorded."""

    def start(self) -> None:
        """Records from now on; a second call changes nothing."""
        from triton.compiler import CompiledKernel

        with self._lock:
            if self._originals is not None:
                return
            kernel_class: Any = CompiledKernel
            self._originals = (kernel_class.__init__, kernel_class._init_handles)
            kernel_class.__init__ = self._recording_init(kernel_class.__init__)
            kernel_class._init_handles = _counting_handles(kernel_class._init_handles)

    def stop(self) -> None:
        """Stops recording and keeps what was recorded. A wrapper that someone else has wrapped stays in place, idle."""
        with self._lock:
            if self._originals is None:
                return
            from triton.compiler import CompiledKernel

            kernel_class: Any = CompiledKernel
            for name, original in zip(("__init__", "_init_handles"), self._originals, strict=True):
                if getattr(getattr(kernel_class, name), "_tawa_original", None) is original:
                    setattr(kernel_class, name, original)
            self._originals = None

    def forget(self) -> None:
        """Empties the history."""
        with self._lock:
            self._versions.clear()
            self._profile, self.note = None, ""

    def begin_anew(self) -> None:
        """Starts over in a forked process, which must not count its parent's kernels again.

        The lock is replaced: a thread of the parent may have held it.
        """
        self._lock = threading.Lock()
        self.forget()

    def add_profile(self, times: Mapping[str, float], counts: Mapping[str, int]) -> None:
        """Adds what a profiler saw of everything that ran on the GPU: milliseconds and launches by kernel name."""
        self._profile = (dict(times), dict(counts))

    def report(self) -> ProcessReport:
        """What became of the kernels recorded so far."""
        with self._lock:
            versions = list(self._versions)
            profile, note = self._profile, self.note
        times, counts = profile if profile is not None else ({}, {})
        groups: dict[str, dict[tuple[Any, ...], list[_Version]]] = {}
        for version in versions:
            key = tuple(version.record[name] for name in ("applied", "reason", "location", "cure"))
            groups.setdefault(version.name, {}).setdefault(key, []).append(version)
        kernels = [
            KernelHistory(
                name, _verdicts(found, counts.get(name, 0)), times.get(name, 0.0) if profile else None, _states(found)
            )
            for name, found in groups.items()
        ]
        reason = "" if self.reason is None else f"{self.reason.reason}; cure: {self.reason.cure}"
        return ProcessReport(tuple(kernels), sum(times.values()) if profile else None, note, reason=reason)

    def _recording_init(self, original: Callable[..., None]) -> Callable[..., None]:
        recorder = self

        def __init__(self: Any, src: Any, *args: Any, **kwargs: Any) -> None:
            original(self, src, *args, **kwargs)
            if recorder._originals is not None:
                recorder._record(self)

        __init__._tawa_original = original  # type: ignore[attr-defined]
        return __init__

    def _record(self, kernel: Any) -> None:
        record = getattr(kernel.metadata, records.KEY, None) or self._stock_record(kernel)
        version = _Version(kernel.metadata.name, record, kernel)
        kernel._tawa_version = version
        with self._lock:
            self._versions.append(version)

    def _stock_record(self, kernel: Any) -> Mapping[str, Any]:
        """A record for a kernel without one, with the reason why stock Triton compiled it, as far as known."""
        remark, name = why_stock(kernel), kernel.metadata.name
        if remark is NOT_ASKED and any(it.name == name and it.record.get("launch") for it in self._versions):
            remark = beside_remark()
        return {
            "applied": False, "reason": remark.reason, "location": None, "cure": remark.cure, "compile_ms": None,
            "tawa_ms": None,
        }  # fmt: skip


RECORDER = Recorder()
"""The recorder of this process."""

os.register_at_fork(after_in_child=RECORDER.begin_anew)


def report() -> ProcessReport:
    """What became of the kernels compiled since `tawa.install`, in this process."""
    return RECORDER.report()


def _counting_handles(original: Callable[..., None]) -> Callable[..., None]:
    def _init_handles(self: Any) -> None:
        if self.module is not None:
            return
        original(self)
        version = getattr(self, "_tawa_version", None)
        if version is not None and self._run is not None:
            self._run = straight(self._run, version)

    _init_handles._tawa_original = original  # type: ignore[attr-defined]
    return _init_handles


def _verdicts(groups: Mapping[tuple[Any, ...], list[_Version]], profiled: int) -> tuple[Verdict, ...]:
    """The verdicts of one kernel. profiled: launches that a profiler saw; these may be more than Triton's own."""
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


def _states(groups: Mapping[tuple[Any, ...], list[_Version]]) -> tuple[str, ...]:
    """What the launches of one kernel have learned and are learning."""
    kernels = [version.kernel() for versions in groups.values() for version in versions]
    return tuple(dict.fromkeys(text for kernel in kernels for text in states_of(kernel)))


def _launched_by_pytorch() -> bool:
    """Whether PyTorch's own launcher of compiled kernels is loaded, which bypasses Triton's."""
    return _STATIC_LAUNCHER in sys.modules
