"""Attaching Tawa to Triton, and taking it off again without a trace.

While attached, eight slots of Triton hold wrappers of ours. Each does nothing but call the original when no request is
active:

| slot | why |
|---|---|
| `knobs.runtime.add_stages_inspection_hook` | our stages; an earlier hook is called first |
| `triton.compiler.compiler.get_cache_key` | the request is part of the key on disk |
| `triton.runtime.jit.get_cache_key` | the same, for Triton's asynchronous compiles |
| `triton.runtime.jit.compute_cache_key` | the request is part of the key in memory |
| `AsyncCompileMode.submit` | the request reaches the thread that compiles |
| `triton.runtime.autotuner.get_cache_invalidating_env_vars` | the request is part of the key of a tuning kept on disk |
| `JITFunction._do_compile` | says that the kernel is for a launch of its own: arguments may be added |
| `CompiledKernel.__init__` | kernels with added arguments make them when they are launched |

`attach` and `detach` count, so an installation, scopes and launches may overlap. A Triton that was not tested gets no
wrapper at all, since its slots may be others: it works as if Tawa were not there, with one warning.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tawa.bridge.driver.hook import StageHook
from tawa.bridge.launch.added_arguments import wrap_do_compile, wrap_kernel_init
from tawa.bridge.triton.cache import wrap_compute_cache_key, wrap_env_vars, wrap_get_cache_key, wrap_submit, wrap_warmup
from tawa.bridge.triton.versions import untested_reason, warn_untested

_lock = threading.RLock()
_count = 0
_patches: list[tuple[Any, str, Any, Any, bool]] = []


def attach() -> None:
    """Puts the wrappers in place, if they are not. Every `attach` needs one `detach`."""
    global _count
    with _lock:
        _count += 1
        if _count == 1:
            try:
                if untested_reason():
                    warn_untested()
                else:
                    _patch_all()
            except BaseException:
                _count = 0
                _unpatch_all()
                raise


def detach() -> None:
    """Undoes one `attach`; the last one gives every slot the very object it had before."""
    global _count
    with _lock:
        if _count == 0:
            raise RuntimeError("detach without attach")
        _count -= 1
        if _count == 0:
            _unpatch_all()


@contextmanager
def attached() -> Iterator[None]:
    """Attached inside the ``with`` block."""
    attach()
    try:
        yield
    finally:
        detach()


def attach_count() -> int:
    """How many `attach` calls are open."""
    return _count


def keep_hook_on_top() -> None:
    """Chains our stage hook again if someone set another one since: a key of ours must never name a stock kernel."""
    from triton import knobs

    with _lock:
        if _patches and not isinstance(knobs.runtime.add_stages_inspection_hook, StageHook):
            _patch(knobs.runtime, "add_stages_inspection_hook", StageHook(knobs.runtime.add_stages_inspection_hook))


def _patch_all() -> None:
    import triton.compiler.compiler
    import triton.runtime._async_compile
    import triton.runtime.autotuner
    import triton.runtime.jit
    from triton import knobs

    compiler, jit, tuner = triton.compiler.compiler, triton.runtime.jit, triton.runtime.autotuner
    mode = triton.runtime._async_compile.AsyncCompileMode
    _patch(compiler, "get_cache_key", wrap_get_cache_key(compiler.get_cache_key, keep_hook_on_top))
    _patch(jit, "get_cache_key", wrap_get_cache_key(jit.get_cache_key, keep_hook_on_top))
    _patch(jit, "compute_cache_key", wrap_compute_cache_key(jit.compute_cache_key))
    _patch(mode, "submit", wrap_submit(mode.submit, attached))
    variables = "get_cache_invalidating_env_vars"
    _patch(tuner, variables, wrap_env_vars(getattr(tuner, variables)))
    _patch(jit.JITFunction, "warmup", wrap_warmup(jit.JITFunction.warmup))
    _patch(jit.JITFunction, "_do_compile", wrap_do_compile(jit.JITFunction._do_compile))
    _patch(compiler.CompiledKernel, "__init__", wrap_kernel_init(compiler.CompiledKernel.__init__, attached))
    _patch(knobs.runtime, "add_stages_inspection_hook", StageHook(knobs.runtime.add_stages_inspection_hook))


def _patch(owner: Any, name: str, ours: Any) -> None:
    own = name in vars(owner)
    _patches.append((owner, name, getattr(owner, name), ours, own))
    setattr(owner, name, ours)


def _unpatch_all() -> None:
    """Restores in reverse order; a slot that someone else has taken since stays theirs (our wrapper in it is idle)."""
    while _patches:
        owner, name, original, ours, own = _patches.pop()
        if getattr(owner, name, None) is not ours:
            continue
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
