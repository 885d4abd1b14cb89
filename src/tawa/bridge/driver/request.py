"""Requests: who asked Tawa for what, while Triton compiles.

Triton has no place to pass our options through, so a launch makes its `Request` active around the compile. A request
is looked up in the current context first (`activate`: one launch, one `scope`), then in the process
(`set_process_request`). No active request means that Triton works as if Tawa were not installed.
"""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from tawa.plan import Plan, PlanOptions
from tawa.verify.effort import Verification


@dataclass(frozen=True, slots=True)
class Request:
    """What one compile is asked for.

    options: launch options. plan: what is pinned of the Plan, or None. reproducer_dir: where a failure of ours is
    written down; None: nowhere. verification: how the specialised kernel is checked before it is handed out.
    beside: asks for the kernel that stands beside a specialised one: stock Triton's, without
    ``tl.range(warp_specialize=True)``.
    off: whether it is ``TAWA_ENABLE=off`` that asks for stock Triton.
    """

    options: PlanOptions = PlanOptions()
    plan: Plan | None = None
    reproducer_dir: Path | None = None
    verification: Verification = "fast"
    beside: bool = False
    off: bool = field(default=False, compare=False)
    _suffix: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)

    @property
    def pinned(self) -> bool:
        """Whether to specialise or raise; otherwise Tawa decides and stock Triton is the way out."""
        return not self.stock and (self.options.pinned or self.plan is not None)

    @property
    def stock(self) -> bool:
        """Whether the user asked for stock Triton: ``enable_warp_specialization=False``, or a Plan of that form."""
        return self.options.enable_warp_specialization is False or (self.plan is not None and self.plan.form == "stock")

    @property
    def depth_pinned(self) -> bool:
        """Whether the user fixed D, so that Tawa must not lower it to make a kernel fit."""
        depths = [ring.depth for ring in self.plan.rings] if self.plan is not None else []
        return self.options.aref_depth is not None or (bool(depths) and None not in depths)

    def cache_suffix(self) -> str:
        """Text for Triton's cache keys: equal for equal requests to equal versions of Tawa. Asked at every launch."""
        if not self._suffix:
            plan = self.plan.to_json() if self.plan is not None else ""
            text = f"{self.options.key()}|{plan}|{self.verification}|{self.beside}|{source_hash()}"
            self._suffix.append(f"-tawa:{hashlib.sha256(text.encode()).hexdigest()}")
        return self._suffix[0]


class _Unset:
    pass


_UNSET = _Unset()
_context_request: ContextVar[Request | _Unset | None] = ContextVar("tawa_request", default=_UNSET)
_process_request: Request | None = None
_process_suffix = ""


def active_request() -> Request | None:
    """The request that a compile started now must follow; None leaves the compile to stock Triton."""
    request = surrounding_request()
    return None if request is None or request.stock else request


def active_suffix() -> str:
    """The cache suffix of the active request; empty if there is none. Asked at every launch."""
    request = _context_request.get()
    if isinstance(request, _Unset):
        return _process_suffix
    return "" if request is None or request.stock else request.cache_suffix()


def surrounding_request() -> Request | None:
    """What the scope or the installation around this code says, also if it asks for stock Triton."""
    request = _context_request.get()
    return _process_request if isinstance(request, _Unset) else request


class activate:
    """Makes `request` the active one in this context (thread, task); None means stock Triton, whatever is installed."""

    __slots__ = ("_request", "_token")

    def __init__(self, request: Request | None) -> None:  # a class: half of what a generator costs a launch
        self._request = request

    def __enter__(self) -> None:
        self._token = _context_request.set(self._request)

    def __exit__(self, *_: object) -> None:
        _context_request.reset(self._token)


def set_process_request(request: Request | None) -> Request | None:
    """Makes `request` the one of the whole process, all threads; returns the one it replaces."""
    global _process_request, _process_suffix
    previous, _process_request = _process_request, request
    _process_suffix = "" if request is None or request.stock else request.cache_suffix()
    return previous


@functools.cache
def source_hash() -> str:
    """A hash of every source file of the package: another Tawa never gets this one's cached kernels.

    Where there are no sources, of what was compiled of them; of the version in any case.
    """
    from tawa import __version__

    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256(__version__.encode())
    for path in sorted(root.rglob("*.py")) or sorted(root.rglob("*.pyc")):
        digest.update(str(path.relative_to(root)).encode())
        with suppress(OSError):  # a link to nowhere, as editors leave them
            digest.update(path.read_bytes())
    return digest.hexdigest()
