"""Attaching Tawa to Triton, and taking it off again without a trace.

While attached, these slots of Triton hold wrappers of ours. Without an active request each only calls the original:

| slot | purpose of the wrapper |
|---|---|
| `knobs.runtime.add_stages_inspection_hook` | adds our stages; an earlier hook is called first |
| `triton.compiler.compiler.get_cache_key` | the request is part of the key on disk |
| `triton.runtime.jit.get_cache_key` | the same, for Triton's asynchronous compiles |
| `triton.runtime.jit.compute_cache_key` | the request is part of the key in memory |
| `AsyncCompileMode.submit` | the request reaches the thread that compiles |
| `triton.runtime.autotuner.get_cache_invalidating_env_vars` | the request is part of the key of a tuning kept on disk |
| `JITFunction.warmup` | what it compiles is not for a launch: no arguments are added |
| `JITFunction._do_compile` | what it compiles is for a launch of its own: arguments may be added |
| `Autotuner.prune_configs`, `_bench`, `check_disk_cache` | a tuning; its launches start no work in the background |
| `triton.runtime.autotuner.get_cache_manager` | where the result of a tuning is stored |
| `triton.testing.do_bench` | waits for what is compiled in the background, outside of tuners |
| `triton.compiler.compiler.CompiledKernel` | a subclass, which makes added arguments when the kernel is launched |

`attach` and `detach` are counted, so an installation, scopes and launches may overlap. A Triton outside the tested
range gets no wrapper, since its slots may differ: it works as if Tawa were not installed, with one warning.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tawa.bridge.driver.hook import StageHook
from tawa.bridge.launch.added_arguments import kernel_class
from tawa.bridge.launch.first.background import THREAD
from tawa.bridge.launch.first.compiles import wrap_do_compile
from tawa.bridge.launch.first.stock_first import wrap_do_bench
from tawa.bridge.launch.first.tuners import wrap_bench, wrap_cache_manager, wrap_disk_cache, wrap_prune
from tawa.bridge.triton.artifacts.cache import (
    wrap_compute_cache_key,
    wrap_env_vars,
    wrap_get_cache_key,
    wrap_submit,
    wrap_warmup,
)
from tawa.bridge.triton.versions import untested_reason, warn_untested

_TUNINGS = {"prune_configs": wrap_prune, "_bench": wrap_bench, "check_disk_cache": wrap_disk_cache}


@dataclass(frozen=True, slots=True)
class _Patch:
    """One slot of Triton. own: whether `owner` held the original itself, rather than inheriting it."""

    owner: Any
    name: str
    original: Any
    ours: Any
    own: bool

    def undo(self) -> None:
        """Restores the slot, unless someone else has taken it since; our wrapper in theirs is then idle."""
        if getattr(self.owner, self.name, None) is not self.ours:
            return
        if self.own:
            setattr(self.owner, self.name, self.original)
        else:
            delattr(self.owner, self.name)


class Attachment:
    """The wrappers in the process's Triton.

    count: how many `attach` calls are open; apart: those of threads that work in the background.
    """

    def __init__(self) -> None:
        self.count = self.apart = 0
        self._lock = threading.RLock()
        self._patches: list[_Patch] = []

    def attach(self) -> None:
        """Puts the wrappers in place unless they are there already. Every `attach` needs one `detach`."""
        with self._lock:
            self.count += 1
            self.apart += threading.current_thread().name == THREAD
            if self.count == 1:
                try:
                    if untested_reason():
                        warn_untested()
                    else:
                        self._patch_all()
                except BaseException:
                    self.count = 0
                    self._unpatch_all()
                    raise

    def detach(self) -> None:
        """Undoes one `attach`; the last one restores in every slot the object that was there before."""
        with self._lock:
            if self.count == 0:
                raise RuntimeError("detach without attach")
            self.count -= 1
            self.apart -= threading.current_thread().name == THREAD
            if self.count == 0:
                self._unpatch_all()

    def forked(self) -> None:
        """In a child process: threads that work in the background, and what they hold, are not there."""
        self._lock = threading.RLock()
        self.count, self.apart = self.count - self.apart, 0
        if self.count == 0:
            self._unpatch_all()

    def keep_hook_on_top(self) -> None:
        """Chains our stage hook again if someone has set another one since: our key must never name a stock kernel."""
        from triton import knobs

        with self._lock:
            if self._patches and not isinstance(knobs.runtime.add_stages_inspection_hook, StageHook):
                self._patch_hook(knobs.runtime)

    def _patch_all(self) -> None:
        import triton.compiler.compiler
        import triton.runtime._async_compile
        import triton.runtime.autotuner
        import triton.runtime.jit
        import triton.testing
        from triton import knobs

        compiler, jit, tuner = triton.compiler.compiler, triton.runtime.jit, triton.runtime.autotuner
        mode = triton.runtime._async_compile.AsyncCompileMode
        self._patch(compiler, "get_cache_key", wrap_get_cache_key(compiler.get_cache_key, self.keep_hook_on_top))
        self._patch(jit, "get_cache_key", wrap_get_cache_key(jit.get_cache_key, self.keep_hook_on_top))
        self._patch(jit, "compute_cache_key", wrap_compute_cache_key(jit.compute_cache_key))
        self._patch(mode, "submit", wrap_submit(mode.submit, attached))
        variables = "get_cache_invalidating_env_vars"
        self._patch(tuner, variables, wrap_env_vars(getattr(tuner, variables)))
        self._patch(jit.JITFunction, "warmup", wrap_warmup(jit.JITFunction.warmup))
        self._patch(jit.JITFunction, "_do_compile", wrap_do_compile(jit.JITFunction._do_compile))
        for name, wrap in _TUNINGS.items():
            self._patch(tuner.Autotuner, name, wrap(getattr(tuner.Autotuner, name)))
        self._patch(tuner, "get_cache_manager", wrap_cache_manager(tuner.get_cache_manager))
        self._patch(triton.testing, "do_bench", wrap_do_bench(triton.testing.do_bench))
        self._patch(compiler, "CompiledKernel", kernel_class(compiler.CompiledKernel, attached))
        self._patch_hook(knobs.runtime)

    def _patch_hook(self, runtime: Any) -> None:
        hook = "add_stages_inspection_hook"
        self._patch(runtime, hook, StageHook(getattr(runtime, hook)))

    def _patch(self, owner: Any, name: str, ours: Any) -> None:
        self._patches.append(_Patch(owner, name, getattr(owner, name), ours, name in vars(owner)))
        setattr(owner, name, ours)

    def _unpatch_all(self) -> None:
        while self._patches:
            self._patches.pop().undo()


ATTACHMENT = Attachment()
"""There is one Triton in a process, so there is one attachment to it."""

os.register_at_fork(after_in_child=ATTACHMENT.forked)


@contextmanager
def attached() -> Iterator[None]:
    """Attached inside the ``with`` block."""
    ATTACHMENT.attach()
    try:
        yield
    finally:
        ATTACHMENT.detach()
