"""Cache keys: a stock kernel is never served for a specialised one, nor the reverse, in memory or on disk.

Triton keys a kernel by its source, options and environment, not by what a stage hook makes of it. Each wrapper here
appends the active request's suffix to Triton's key, whether the kernel is for a launch that may add arguments
(`added_arguments.py`), and on disk where the kernel stands (`places.py`). With no active request the key is Triton's
own, untouched, so a stock kernel compiled before Tawa was installed is still found.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from tawa.bridge.driver.request import activate, active_request, active_suffix, surrounding_request
from tawa.bridge.launch.added_arguments import launch_is_ours
from tawa.bridge.triton.places import places_key

_only_compiled: ContextVar[bool] = ContextVar("tawa_only_compiled", default=False)


def warmup_suffix(only_compiled: bool) -> str:
    """What tells a kernel that is only compiled from one for a launch, which may have added arguments."""
    return "-warmup" if only_compiled else ""


def wrap_get_cache_key(original: Callable[..., str], before: Callable[[], None]) -> Callable[..., str]:
    """Wraps Triton's key of a kernel on disk. `before` runs first when a request is active."""

    def get_cache_key(src: Any, *args: Any, **kwargs: Any) -> str:
        request = active_request()
        if request is None:
            return original(src, *args, **kwargs)
        before()
        launched = "-launched" if launch_is_ours() else ""
        return original(src, *args, **kwargs) + request.cache_suffix() + launched + places_key(src)

    return get_cache_key


def wrap_compute_cache_key(original: Callable[..., str]) -> Callable[..., str]:
    """Wraps Triton's key of a kernel in memory; called on every launch, so it is short."""

    def compute_cache_key(*args: Any, **kwargs: Any) -> str:
        suffix = active_suffix()
        return original(*args, **kwargs) + (suffix + warmup_suffix(_only_compiled.get()) if suffix else "")

    return compute_cache_key


def wrap_warmup(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction.warmup`: what it compiles is no kernel of a launch, nor the reverse."""

    def warmup(*args: Any, **kwargs: Any) -> Any:
        token = _only_compiled.set(True)
        try:
            return original(*args, **kwargs)
        finally:
            _only_compiled.reset(token)

    return warmup


def wrap_submit(
    original: Callable[..., Any], attached: Callable[[], AbstractContextManager[None]]
) -> Callable[..., Any]:
    """Wraps `AsyncCompileMode.submit`: the compile in another thread sees the request of the thread that launched."""

    def submit(mode: Any, key: str, compile_fn: Callable[[], Any], *rest: Any, **kwargs: Any) -> Any:
        request, context = surrounding_request(), copy_context()

        def compile_under_request() -> Any:
            with attached(), activate(request):
                return compile_fn()

        return original(mode, key, partial(context.run, compile_under_request), *rest, **kwargs)

    return submit


def wrap_env_vars(original: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Wraps what a tuning kept on disk is keyed by: the best configuration of stock kernels need not be ours."""

    def get_cache_invalidating_env_vars() -> dict[str, Any]:
        request, variables = active_request(), original()
        return variables if request is None else {**variables, "TAWA": request.cache_suffix()}

    return get_cache_invalidating_env_vars
