"""Reaching the kernels that torch.compile writes, while `tawa.install` is on.

Two things of PyTorch stand between an installation and its kernels:

- Inductor compiles in worker processes, which know nothing of Tawa. Kernels with a dot are compiled in this process
  instead (`AsyncCompile.triton`); all others, which Tawa would leave alone anyway, stay with the workers.
- Inductor keeps whole compiled graphs on disk under keys of its own. While installed, PyTorch's ``cache_key_tag``
  names the request, so that a graph with stock kernels is never served for one with specialised ones, nor the reverse.
  What it keeps in memory under the text of its code is forgotten.

Nothing here imports PyTorch. If it is imported later, the first is done then (by an import hook), and the second
through its environment variable.
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

_ASYNC_COMPILE = "torch._inductor.async_compile"
_CODE_CACHE = "torch._inductor.codecache"
_CONFIG = "torch.compiler.config"
_TAG_VARIABLE = "TORCH_COMPILE_CACHE_KEY_TAG"


class TorchCompileReach:
    """The changes to PyTorch of one installation. `apply` makes them or renews the tag, `undo` takes them back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []
        self._tag_before: tuple[str | None, str | None] | None = None

    def apply(self, tag: str) -> None:
        """Reaches torch.compile. tag: text that names the request."""
        if not self._undo:
            finder = _AfterImport(_ASYNC_COMPILE, self._patch)
            sys.meta_path.insert(0, finder)
            self._undo.append(lambda: sys.meta_path.remove(finder) if finder in sys.meta_path else None)
            loaded = sys.modules.get(_ASYNC_COMPILE)
            if loaded is not None:
                self._patch(loaded)
        self._set_tag(tag)

    def undo(self) -> None:
        """Gives PyTorch back what it had."""
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

    def _patch(self, module: ModuleType) -> None:
        owner = getattr(module, "AsyncCompile", None)
        original = getattr(owner, "triton", None)
        if owner is None or original is None:
            return
        owner.triton = _dots_in_this_process(original)
        self._undo.append(lambda: setattr(owner, "triton", original))


def _dots_in_this_process(original: Callable[..., Any]) -> Callable[..., Any]:
    def triton(self: Any, kernel_name: str, source_code: str, *args: Any, **kwargs: Any) -> Any:
        if "tl.dot" not in source_code:
            return original(self, kernel_name, source_code, *args, **kwargs)
        self.use_process_pool = lambda: False  # on this object, in front of the class's own
        try:
            return original(self, kernel_name, source_code, *args, **kwargs)
        finally:
            del self.use_process_pool

    return triton


def _forget_kernels() -> None:
    """Inductor finds kernels and modules of generated code in memory by their source, whatever they were compiled with.

    Functions that were compiled before keep what they have.
    """
    for module, name in ((_ASYNC_COMPILE, "CompiledTritonKernels"), (_CODE_CACHE, "PyCodeCache")):
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
        """Finds nothing itself: takes the real spec and prolongs its loader."""
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)  # the search below must not come back here
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            self.then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
