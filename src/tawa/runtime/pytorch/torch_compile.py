"""Puts the kernels that torch.compile generates under Tawa, while `tawa.install` is in effect.

This takes two changes to PyTorch:

- Inductor compiles in worker processes, which do not have Tawa, and launches kernels by its own launcher. Kernels with
  a dot are compiled in this process instead; all others, which Tawa would not change, stay with the workers
  (`tawa.runtime.pytorch.inductor`).
- Inductor stores compiled graphs on disk under its own keys. While installed, PyTorch's ``cache_key_tag`` names the
  request, so that graphs with stock kernels and graphs with specialised ones are told apart. Kernels that Inductor
  caches in memory by the text of their code are dropped.

Nothing here imports PyTorch. If it is imported later, import hooks make the first change then, and an environment
variable makes the second.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from tawa.runtime.pytorch.inductor import (
    ASYNC_COMPILE,
    CODE_CACHE,
    Undo,
    compile_dots_here,
    own_benchmarks,
    own_choices,
    own_fusions,
    own_graphs,
    own_launches,
    own_measurements,
    timings_by,
)

_HEURISTICS = "torch._inductor.runtime.triton_heuristics"
_BENCHMARKS = "torch._inductor.autotune_process"
_FUSIONS = "torch._inductor.codegen.triton"
_CONFIG = "torch.compiler.config"
_TAG_VARIABLE = "TORCH_COMPILE_CACHE_KEY_TAG"


class TorchCompileReach:
    """The changes to PyTorch of one installation. `apply` makes them, or renews the tag; `undo` reverts them."""

    def __init__(self) -> None:
        self._undo: list[Undo] = []
        self._tag = ""
        self._tag_before: tuple[str | None, str | None] | None = None

    def apply(self, tag: str) -> None:
        """Makes the changes. tag: text that names the request."""
        self._tag = tag
        if not self._undo:
            self._reach(ASYNC_COMPILE, compile_dots_here)
            self._reach(_HEURISTICS, own_launches)
            self._reach(_HEURISTICS, own_measurements)
            self._reach(_HEURISTICS, own_choices)
            self._reach(_FUSIONS, own_fusions)
            self._reach(CODE_CACHE, own_graphs)
            self._reach(_BENCHMARKS, own_benchmarks)
            self._reach(CODE_CACHE, timings_by(lambda: self._tag))
        self._set_tag(tag)

    def undo(self) -> None:
        """Restores PyTorch."""
        while self._undo:
            self._undo.pop()()
        if self._tag_before is not None:
            variable, value = self._tag_before
            _set_variable(_TAG_VARIABLE, variable)
            config: Any = sys.modules.get(_CONFIG)
            if config is not None:
                config.cache_key_tag = (variable or "") if value is None else value
            self._tag_before = None
        _forget_kernels()

    def _set_tag(self, tag: str) -> None:
        config: Any = sys.modules.get(_CONFIG)
        if self._tag_before is None:
            self._tag_before = (os.environ.get(_TAG_VARIABLE), config.cache_key_tag if config is not None else None)
        variable, value = self._tag_before
        _set_variable(_TAG_VARIABLE, (variable or "") + tag)
        if config is not None:
            config.cache_key_tag = ((variable or "") if value is None else value) + tag
        _forget_kernels()

    def _reach(self, name: str, change: Callable[[ModuleType], Undo | None]) -> None:
        """Changes a module: now, or as soon as it is imported."""

        def now(module: ModuleType) -> None:
            undo = change(module)
            if undo is not None:
                self._undo.append(undo)

        loaded = sys.modules.get(name)
        if loaded is not None:
            now(loaded)
            return
        finder = _AfterImport(name, now)
        sys.meta_path.insert(0, finder)
        self._undo.append(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)


def _forget_kernels() -> None:
    """Empties Inductor's caches in memory. They find kernels and generated code by source, not by request.

    Functions that were compiled before keep their kernels.
    """
    for module, name in ((ASYNC_COMPILE, "CompiledTritonKernels"), (CODE_CACHE, "PyCodeCache")):
        found = getattr(sys.modules.get(module), name, None)
        if found is not None and hasattr(found, "cache_clear"):
            found.cache_clear()


def _set_variable(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


class _AfterImport(MetaPathFinder):
    """Calls `then` with one module right after it is imported for the first time."""

    def __init__(self, name: str, then: Callable[[ModuleType], None]) -> None:
        self.name = name
        self.then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Finds the real spec and extends its loader."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)  # so that the search below does not recurse
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
