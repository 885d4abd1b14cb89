"""Whether the compile in progress is for a launch, and whether stock Triton's kernel may be the first."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

from tawa.bridge.driver.request import Request, activate, active_request
from tawa.bridge.launch.first.tuners import is_tuning

_log = logging.getLogger("tawa")

_ours: ContextVar[frozenset[str] | None] = ContextVar("tawa_launch_is_ours", default=None)
_overflow_refused: ContextVar[bool] = ContextVar("tawa_overflow_refused", default=False)
_stock_may_start: ContextVar[bool] = ContextVar("tawa_stock_may_start", default=False)


def launch_is_ours() -> bool:
    """Whether the compile in progress is for a launch through `CompiledKernel.run`."""
    return _ours.get() is not None


def may_be_one() -> frozenset[str]:
    """Parameters of a kernel compiled for such a launch that may be 1 without Triton folding them to a constant."""
    return _ours.get() or frozenset()


@contextmanager
def launched_by_us(ours: bool = True, function: Any = None) -> Iterator[None]:
    """Marks compiles inside the ``with`` block as for such a launch, or not. function: the `JITFunction`, if known."""
    token = _ours.set(_left_open(function) if ours else None)
    try:
        yield
    finally:
        _ours.reset(token)


@contextmanager
def overflow_refused() -> Iterator[None]:
    """Refuses kernels inside the ``with`` block that no launch could have, before Triton's back end works on them.

    For Triton's own launches, whose tuner skips what raises, and for commands that explain a kernel.
    """
    token = _overflow_refused.set(True)
    try:
        yield
    finally:
        _overflow_refused.reset(token)


def is_overflow_refused() -> bool:
    """Whether the compile in progress refuses a kernel that needs more shared memory than a CTA has."""
    return _overflow_refused.get()


def _left_open(function: Any) -> frozenset[str]:
    """Parameters that stay arguments when they are 1: annotated with a type, or not specialised on request."""
    parameters = [it for it in getattr(function, "params", ()) if not it.is_constexpr]
    return frozenset(it.name for it in parameters if it.do_not_specialize or it.annotation_type)


def wrap_do_compile(original: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `JITFunction._do_compile`, which launches the kernel that it compiles, except in a warmup."""

    def do_compile(self: Any, *args: Any, **kwargs: Any) -> Any:
        warmup = kwargs.get("warmup", args[-1] if args else False)
        compile_it = partial(original, self, *args, **kwargs)
        with launched_by_us(not warmup, self):
            if warmup:
                return compile_it()
            with overflow_refused():
                return stock_first(compile_it, not is_tuning())

    return do_compile


def stock_first(compile_it: Callable[[], Any], wanted: bool) -> Any:
    """Compiles a kernel whose launches need not wait for a specialised one, unless the request says so.

    wanted: whether what stock Triton cannot compile is compiled as if it were asked for at once.
    """
    request = active_request()
    if request is None or (request.options.start or request.host.start) == "ready" or _hook_of_the_user():
        return compile_it()
    token = _stock_may_start.set(True)
    try:
        return compile_it()
    except Exception as error:
        if not wanted:
            raise
        _log.info("stock Triton's kernel cannot be the first: %s: %s", type(error).__name__, error)
    finally:
        _stock_may_start.reset(token)
    with activate(at_once(request)):
        return compile_it()


def _hook_of_the_user() -> bool:
    """Whether the user has a stage hook of their own, which a worker process does not have."""
    from triton import knobs

    return getattr(knobs.runtime.add_stages_inspection_hook, "earlier", None) is not None


def stock_may_start() -> bool:
    """Whether the compile in progress is for a launch that need not wait for a specialised kernel."""
    return _stock_may_start.get()


def at_once(request: Request) -> Request:
    """The same request for a launch that waits for the specialised kernel."""
    return replace(request, options=replace(request.options, start="ready"))
