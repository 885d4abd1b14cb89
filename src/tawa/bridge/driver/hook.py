"""The stage hook: decides, each time Triton lists its stages for a kernel, whether Tawa specialises or checks it."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from tawa.bridge.driver.request import Request, active_request
from tawa.bridge.launch.first.compiles import is_overflow_refused, launch_is_ours
from tawa.bridge.triton import versions
from tawa.bridge.triton.artifacts.cache import asked_key
from tawa.bridge.triton.artifacts.cache_entries import overridden
from tawa.bridge.triton.artifacts.shared_memory_error import raise_kept
from tawa.bridge.triton.device import refuse_elsewhere, why_left
from tawa.bridge.triton.stages import StageSplit, split_make_ttgir
from tawa.declines import CLUSTERS, COOPERATIVE, OTHER_HOOK, OVERRIDE, SANITIZER, UNKNOWN_PASSES
from tawa.remarks import Remark
from tawa.supported import TRITON

_inside: ContextVar[bool] = ContextVar("tawa_inside_hook", default=False)


class StageHook:
    """A value for `knobs.runtime.add_stages_inspection_hook`; calls the hook that was there before it.

    Triton calls it in two ways: with a backend and its stages, which the hook may change; and, since 3.9, for each key
    without arguments, to get ``(key, hash)``. There the earlier hook's answer is passed on;
    `tawa.bridge.triton.artifacts.cache` adds our own part of the keys in all versions.
    """

    def __init__(self, earlier: Callable[..., Any] | None) -> None:
        self.earlier = earlier

    def __call__(
        self,
        backend: Any = None,
        stages: dict[str, Any] | None = None,
        options: Any = None,
        language: Any = None,
        capability: int | None = None,
    ) -> Any:
        """Adds our stages to `stages` if a request is active; without arguments returns ``(key, hash)``."""
        if stages is None:
            return ("", "0") if self.earlier is None else self.earlier()
        stock_ttgir = stages.get("ttgir")
        nested = _inside.get()
        if self.earlier is not None:
            token = _inside.set(True)
            try:
                self.earlier(backend, stages, options, language, capability)
            finally:
                _inside.reset(token)
        request = active_request()
        if request is None or nested:  # nested: an outer hook of Tawa's adds the stages
            return None
        replaced = stages.get("ttgir") is not stock_ttgir
        _take_part(request, backend, stages, options, language, capability, replaced)
        return None


def _take_part(
    request: Request,
    backend: Any,
    stages: dict[str, Any],
    options: Any,
    language: Any,
    capability: int | None,
    replaced: bool,
) -> None:
    """Adds our stages, or leaves the kernel to Triton. Raises if a pinned kernel cannot be attempted at all."""
    if getattr(language, "name", "") not in ("TRITON", "GLUON") or "ttgir" not in stages or "llir" not in stages:
        return
    if versions.untested_reason():
        versions.warn_untested()
        versions.refuse_pinned(request.pinned, "every kernel")
        return
    if language.name == "GLUON":  # explicit already
        if request.gluon != "auto":
            from tawa.bridge.gluon.check import put_check_into

            put_check_into(stages, request, options, capability)
        return
    asked = request.pinned or request.options.wherever_legal or bool(request.arch)
    if capability is None or why_left(capability, asked):
        refuse_elsewhere(request.pinned, capability)
        return
    if launch_is_ours() and is_overflow_refused():
        raise_kept(asked_key())
    from tawa.bridge.driver.compilation import Compilation  # the compiler: a process that only reads caches needs none

    split = split_make_ttgir(type(backend))
    refusal = _refusal(options, split, replaced)
    Compilation(request, stages, options, capability, split, refusal).put_into(stages)


def _refusal(options: Any, split: StageSplit | None, replaced: bool) -> Remark | None:
    """Why this compile cannot be specialised, whatever the kernel is; None if it can be attempted."""
    if split is None:
        version = ".".join(map(str, versions.triton_version()))
        return UNKNOWN_PASSES.remark(None, f"use Triton {TRITON}", version=version)
    if replaced:
        return OTHER_HOOK.remark()
    if getattr(options, "num_ctas", 1) != 1:
        return CLUSTERS.remark(ctas=options.num_ctas)
    if getattr(options, "launch_cooperative_grid", False):
        return COOPERATIVE.remark()
    if overridden(options):
        return OVERRIDE.remark()
    if getattr(options, "instrumentation_mode", ""):
        return SANITIZER.remark(mode=repr(options.instrumentation_mode))
    return None
