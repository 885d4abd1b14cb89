"""Gluon's names, which move between releases of Triton: the one place that knows them."""

from __future__ import annotations

from typing import Any

from triton.experimental.gluon import language
from triton.experimental.gluon.language import _core
from triton.experimental.gluon.language.nvidia.hopper import tma
from triton.language import core

aggregate: Any = core._aggregate  # pyright: ignore[reportPrivateUsage]
"""Makes a class a value of Gluon; it has no public name yet.

It reads the annotations of the class at once: a module with one has no ``from __future__ import annotations``.
"""
tma_load: Any = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
tma_store: Any = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global
store_wait: Any = tma.store_wait
thread_barrier: Any = getattr(language, "barrier", None) or language.thread_barrier


@_core.builtin
def as_scalar(tensor: Any, _semantic: Any = None) -> Any:
    """The only element of a tensor, in every thread."""
    return _semantic.unsplat(tensor)
