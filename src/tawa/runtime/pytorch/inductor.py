"""The changes to Inductor, the compiler of torch.compile, while `tawa.install` is in effect.

| slot | purpose of the wrapper |
|---|---|
| `AsyncCompile.triton` | compiles kernels with a dot in threads of this process: worker processes do not have Tawa |
| `CachingAutotuner._precompile_config` | marks launches of this process: arguments may be added; obeys `tawa.Config` |
| `CachingAutotuner.bench`, `BenchmarkRequest.benchmark` | measurements: launches start no work, twins take part |
| `TritonScheduling.benchmark_codegened_module` | the same without twins, since the times are kept in a file |
| `CachingAutotuner.autotune_to_one_config` | a tuning: its stored result is dropped when there are new twins |
| `PersistentCache.lookup` | another one, of ``max-autotune``; its timings are kept apart for each request |
| `FxGraphCache._write_to_local_cache` | a stored graph is dropped together with the timings that it was compiled by |

`tawa.bridge.launch.first.tuners` says what twins are.

Each change is a function that takes the module with the slot and returns how to undo it. A PyTorch without the slot is
left unchanged. Nothing here imports PyTorch.
"""

from __future__ import annotations

import contextvars
import copy
import functools
import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import nullcontext
from types import ModuleType
from typing import Any

from tawa.bridge.driver.request import activate, surrounding_request
from tawa.bridge.launch.first.compiles import launched_by_us, stock_first
from tawa.bridge.launch.first.tuners import Tuning, tuning, wrap_apart, wrap_bench
from tawa.runtime.requests import OPTION_NAMES, make_request
from tawa.runtime.settings import Settings

Undo = Callable[[], None]
ASYNC_COMPILE = "torch._inductor.async_compile"
CODE_CACHE = "torch._inductor.codecache"


def compile_dots_here(module: ModuleType) -> Undo | None:
    """Changes `AsyncCompile` of ``torch._inductor.async_compile``."""
    return _replace(module, "AsyncCompile", "triton", _dots_in_threads)


def own_launches(module: ModuleType) -> Undo | None:
    """Changes `CachingAutotuner` of ``torch._inductor.runtime.triton_heuristics``."""
    return _replace(module, "CachingAutotuner", "_precompile_config", _for_a_launch)


def own_measurements(module: ModuleType) -> Undo | None:
    """Changes `CachingAutotuner` of ``torch._inductor.runtime.triton_heuristics`` once more."""
    return _replace(module, "CachingAutotuner", "bench", wrap_bench)


def own_choices(module: ModuleType) -> Undo | None:
    """Changes `CachingAutotuner` of ``torch._inductor.runtime.triton_heuristics`` a third time."""
    return _replace(module, "CachingAutotuner", "autotune_to_one_config", _chosen)


def own_fusions(module: ModuleType) -> Undo | None:
    """Changes `TritonScheduling` of ``torch._inductor.codegen.triton``."""
    return _replace(module, "TritonScheduling", "benchmark_codegened_module", wrap_apart)


def own_graphs(module: ModuleType) -> Undo | None:
    """Changes `FxGraphCache` of ``torch._inductor.codecache``."""
    return _replace(module, "FxGraphCache", "_write_to_local_cache", _noted_graph)


def own_benchmarks(module: ModuleType) -> Undo | None:
    """Changes `BenchmarkRequest` of ``torch._inductor.autotune_process``."""
    return _replace(module, "BenchmarkRequest", "benchmark", wrap_bench)


def timings_by(tag: Callable[[], str]) -> Callable[[ModuleType], Undo | None]:
    """Changes `PersistentCache` of ``torch._inductor.codecache``. tag: text that names the request."""

    def change(module: ModuleType) -> Undo | None:
        return _replace(module, "PersistentCache", "lookup", functools.partial(_templates, tag))

    return change


def _replace(module: ModuleType, owner: str, name: str, wrap: Callable[[Any], Any]) -> Undo | None:
    """Wraps a method. The undo has no effect if someone else has wrapped it since."""
    holder = getattr(module, owner, None)
    original = vars(holder).get(name) if holder is not None else None
    if not callable(original):
        return None
    ours = wrap(original)
    setattr(holder, name, ours)

    def undo() -> None:
        if vars(holder).get(name) is ours:
            setattr(holder, name, original)

    return undo


def _dots_in_threads(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def triton(self: Any, kernel_name: str, source_code: str, *args: Any, **kwargs: Any) -> Any:
        kernels: Any = getattr(sys.modules[ASYNC_COMPILE], "CompiledTritonKernels", None)
        known = kernels is not None and kernels.get(source_code) is not None
        if "tl.dot" not in source_code or known or _interpreted() or not self.use_process_pool():
            return original(self, kernel_name, source_code, *args, **kwargs)
        serial = copy.copy(self)
        serial.use_process_pool = lambda: False  # on this object, hiding the class's own
        cache: Any = sys.modules[CODE_CACHE]

        # As Inductor does where it compiles in this process: PyTorch's ptxas, whose version is part of Triton's key.
        getattr(sys.modules[ASYNC_COMPILE], "_set_triton_ptxas_path", lambda: None)()

        def compile_only() -> None:
            getattr(cache.PyCodeCache.load(source_code), kernel_name).precompile(warm_cache_only=True)

        compiled = _started(self, functools.partial(contextvars.copy_context().run, compile_only))

        def finish() -> Any:
            compiled.result()
            return original(serial, kernel_name, source_code, *args, **kwargs)

        return cache.LambdaFuture(finish, future=compiled)

    return triton


def _started(compiler: Any, work: Callable[[], None]) -> Future[None]:
    """Starts the work in a thread of Inductor's; does it at once if Python's parser fails in threads."""
    if not parser_fails_in_threads():
        return compiler.pool().submit(work)
    done: Future[None] = Future()
    try:
        done.set_result(work())
    except Exception as error:
        done.set_exception(error)
    return done


def parser_fails_in_threads(version: tuple[int, ...] = tuple(sys.version_info[:3])) -> bool:
    """Whether this Python's `ast.parse`, with which Triton reads each kernel, is not thread-safe.

    Up to 3.11.7 and 3.12.1 its recursion depth counter is shared by all threads, and garbage collection may switch
    threads: SystemError, "AST constructor recursion depth mismatch" (CPython, gh-106905).
    """
    return version < (3, 11, 8) or (3, 12) <= version < (3, 12, 2)


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def _for_a_launch(original: Callable[..., Any]) -> Callable[..., Any]:
    installed_in = os.getpid()

    @functools.wraps(original)
    def precompile_config(self: Any, config_tried: Any, *args: Any, **kwargs: Any) -> Any:
        # If C++ launches the cubin, or a forked worker sends the kernel on, nothing would make the added arguments.
        config: Any = sys.modules.get("torch._inductor.config")
        stored = self.inductor_meta.get("store_cubin") or getattr(config, "cpp_wrapper", False)
        plain, ours = _split(config_tried, getattr(getattr(self, "fn", None), "arg_names", ()))
        request = make_request(ours, surrounding_request(), Settings.from_environment()) if ours else None
        here = not stored and os.getpid() == installed_in
        with launched_by_us(here, getattr(self, "fn", None)), activate(request) if ours else nullcontext():
            configs = getattr(self, "configs", None) or ()  # None: a tuner goes on from the best one
            chosen = len(configs) == 1  # of several, a tuner leaves out those that fail
            compile_it = functools.partial(original, self, plain, *args, **kwargs)
            result = stock_first(compile_it, chosen) if here else compile_it()
        if ours and hasattr(result, "config"):
            result.config = config_tried  # Inductor remembers the best one by it
        return result

    return precompile_config


def _split(config: Any, parameters: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """A configuration without Tawa's options, and these options. Parameters of the kernel are not options."""
    kwargs = getattr(config, "kwargs", {})
    ours = {name: kwargs[name] for name in OPTION_NAMES.difference(parameters).intersection(kwargs)}
    if not ours:
        return config, ours
    plain = copy.copy(config)
    plain.kwargs = {name: value for name, value in kwargs.items() if name not in ours}
    return plain, ours


def _templates(tag: Callable[[], str], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def lookup(self: Any, choices: Any, op: str, inputs: str, *args: Any, **kwargs: Any) -> Any:
        inputs = f"{inputs}{tag()}"
        with tuning() as whole:
            found = original(self, choices, op, inputs, *args, **kwargs)
        if whole.found:
            whole.is_stored(functools.partial(_drop_timings, self, op, inputs))
            _graph.tunings = [*_tunings_of_the_graph(), whole]
            whole.end(min(found.values()))
        return found

    return lookup


def _drop_timings(cache: Any, op: str, inputs: str) -> None:
    """Inputs may be followed by a hint for dynamic sizes."""
    every = cache.get_local_cache()
    known = every.get(op, {})
    for it in [it for it in known if it == inputs or it.startswith(f"{inputs}_")]:
        del known[it]
    cache.update_local_cache(every)


def _chosen(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def autotune_to_one_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        with tuning() as whole:
            found = original(self, *args, **kwargs)
        whole.is_stored(functools.partial(_drop_choice, getattr(self, "save_cache_hook", None)))
        whole.end()
        return found

    return autotune_to_one_config


def _drop_choice(save: Any) -> None:
    """save: `AutotuneCache.save`, bound to the object that knows the file."""
    _, path = getattr(getattr(save, "__self__", None), "local_cache", None) or (None, None)
    if path is not None:
        os.unlink(path)


_graph = threading.local()
"""tunings: of templates, in the graph that this thread compiles."""


def _tunings_of_the_graph() -> list[Tuning]:
    return getattr(_graph, "tunings", [])


def _noted_graph(original: Any) -> Any:
    @functools.wraps(original)
    def write_to_local_cache(key: str, *args: Any, **kwargs: Any) -> Any:
        found = original(key, *args, **kwargs)
        folder = sys.modules[CODE_CACHE].__dict__["FxGraphCache"]._get_tmp_dir_for_key(key)
        for whole in _tunings_of_the_graph():
            whole.is_stored(functools.partial(shutil.rmtree, folder, ignore_errors=True))
        _graph.tunings = []
        return found

    return staticmethod(write_to_local_cache)
