"""Cache keys that tell stock kernels from specialised ones, in memory and on disk.

Triton keys a kernel by its source, options and environment, not by what a stage hook does. Each wrapper here appends to
Triton's key: the active request's suffix; whether the kernel is for a launch that may add arguments, and whether stock
Triton's may be the first (`added_arguments.py`); and on disk the file and line of the kernel (`places.py`) and the
mappings beside it. Without an active request the key is Triton's own, so a stock kernel compiled before Tawa was
installed is still found.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any

from tawa.bridge.driver.request import activate, active_request, active_suffix, surrounding_request
from tawa.bridge.launch.first.compiles import launch_is_ours, stock_may_start
from tawa.bridge.mapping.beside import shipped_key
from tawa.bridge.triton.places import places_key

_asked: ContextVar[str] = ContextVar("tawa_cache_key", default="")
_only_compiled: ContextVar[bool] = ContextVar("tawa_only_compiled", default=False)


def warmup_suffix(only_compiled: bool) -> str:
    """The part of a key that tells a kernel that is only compiled from one for a launch with added arguments."""
    return "-warmup" if only_compiled else ""


def wrap_get_cache_key(original: Callable[..., str], before: Callable[[], None]) -> Callable[..., str]:
    """Wraps Triton's key of a kernel on disk. `before` runs first when a request is active."""

    def get_cache_key(src: Any, *args: Any, **kwargs: Any) -> str:
        request = active_request()
        if request is None:
            return original(src, *args, **kwargs)
        before()
        launched = "-launched" * launch_is_ours() + "-first" * stock_may_start()
        own = request.cache_suffix() + launched + shipped_key(request, src) + places_key(src)
        key = original(src, *args, **kwargs) + own
        _asked.set(key)
        return key

    return get_cache_key


def asked_key() -> str:
    """The key on disk that was asked for last: inside a compile, that of its kernel."""
    return _asked.get()


def wrap_compute_cache_key(original: Callable[..., str]) -> Callable[..., str]:
    """Wraps Triton's key of a kernel in memory. Every launch calls it, so it does little.

    Triton keeps its keys in `keys`, by what they are made of. So are ours: a text that is put together anew would be
    hashed anew.
    """

    def compute_cache_key(keys: dict[Any, str], specialization: Any, options: Any) -> str:
        suffix = active_suffix()
        if not suffix:
            return original(keys, specialization, options)
        only_compiled = _only_compiled.get()
        parts = (tuple(specialization), str(options), suffix, only_compiled)
        key = keys.get(parts)
        if key is None:
            key = original(keys, specialization, options) + suffix + warmup_suffix(only_compiled)
            keys[parts] = key
        return key

    return compute_cache_key


def wrap_warmup(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction.warmup`, to tell the kernels that it compiles from those of launches."""

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
    """Wraps `AsyncCompileMode.submit`, so that the compiling thread sees the request of the launching one."""

    def submit(mode: Any, key: str, compile_fn: Callable[[], Any], *rest: Any, **kwargs: Any) -> Any:
        request, context = surrounding_request(), copy_context()

        def compile_under_request() -> Any:
            with attached(), activate(request):
                return compile_fn()

        return original(mode, key, partial(context.run, compile_under_request), *rest, **kwargs)

    return submit


def wrap_env_vars(original: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """Wraps the key of a stored tuning result: the best configuration of stock kernels need not be the best of ours."""

    def get_cache_invalidating_env_vars() -> dict[str, Any]:
        request, variables = active_request(), original()
        return variables if request is None else {**variables, "TAWA": request.cache_suffix()}

    return get_cache_invalidating_env_vars
