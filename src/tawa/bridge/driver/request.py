"""Requests: who asked Tawa for what, while Triton compiles.

Triton has no place to pass our options through, so a launch makes its `Request` active around the compile. The request
of the current context comes first (`activate`: one launch, one `scope`), then that of the process (`PROCESS`). Without
an active request Triton works as if Tawa were not installed.
"""

from __future__ import annotations

import functools
import hashlib
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Final, Literal

from tawa.bridge.launch.host import NO_HOST, Host
from tawa.mapping import Mapping
from tawa.plan import Plan, PlanOptions
from tawa.verify.effort import Verification

GluonPolicy = Literal["auto", "warn", "raise", "checked", "proved"]
"""What follows from the verdict on a Gluon kernel: a warning, or an error, if it is refuted; an error unless it is
checked or proved; an error unless it is proved. auto: a warning for kernels under `tawa.jit`; others are not
checked."""


@dataclass(frozen=True, slots=True)
class Request:
    """What one compile is asked for.

    options: launch options. plan: the pinned part of the Plan, or None. mapping: the same in names of the kernel, which
    the compile resolves to a Plan; or None. reproducer_dir: folder for reproducers of internal errors; None: none are
    written. verification: how the specialised kernel is checked before it is used.
    beside: asks for the stock kernel that accompanies a specialised one, without ``tl.range(warp_specialize=True)``.
    gluon: what follows from the verdict on a Gluon kernel; "auto" where it is not checked.
    learns: whether launches measure the kernel against stock Triton's: it is made unless that is hopeless, and keeps
    stock Triton's bits.
    off: whether ``TAWA_ENABLE=off`` asks for stock Triton. arch: the machine that ``TAWA_ARCH``, or a compile ahead of
    time, asks for beside Hopper.
    host: what the launcher of the compiled kernel gets; not part of any cache key.
    """

    options: PlanOptions = PlanOptions()
    plan: Plan | None = None
    reproducer_dir: Path | None = None
    verification: Verification = "fast"
    beside: bool = False
    gluon: GluonPolicy = "auto"
    mapping: Mapping | None = None
    learns: bool = False
    off: bool = field(default=False, compare=False)
    arch: str = ""
    host: Host = field(default=NO_HOST, compare=False, repr=False)
    _suffix: list[str] = field(default_factory=list[str], init=False, repr=False, compare=False)

    @property
    def pinned(self) -> bool:
        """Whether a kernel that cannot be specialised is an error; otherwise stock Triton compiles it."""
        given = self.plan is not None or self.mapping is not None
        return not self.stock and (self.options.pinned or given)

    @property
    def stock(self) -> bool:
        """Whether the user asked for stock Triton: ``enable_warp_specialization=False``, or a Plan of that form."""
        if self.mapping is not None and self.mapping.kernel.specialised is False:
            return True
        return self.options.enable_warp_specialization is False or (self.plan is not None and self.plan.form == "stock")

    @property
    def depth_pinned(self) -> bool:
        """Whether the user fixed D. Tawa then does not lower it to fit shared memory."""
        depths = [ring.depth for ring in self.plan.rings if ring.has_tiles] if self.plan is not None else []
        return self.options.aref_depth is not None or (bool(depths) and None not in depths)

    def cache_suffix(self) -> str:
        """Text for Triton's cache keys, equal for equal requests to the same version of Tawa. Read at every launch."""
        if not self._suffix:
            plan = self.plan.to_json() if self.plan is not None else ""
            plan += self.mapping.toml() if self.mapping is not None else ""
            asked = f"{self.options.key()}|{plan}|{self.verification}|{self.beside}|{self.gluon != 'auto'}"
            asked += "|learns" * self.learns + f"|{self.arch}" * bool(self.arch)
            text = f"{asked}|{source_hash()}"
            self._suffix.append(f"-tawa:{hashlib.sha256(text.encode()).hexdigest()}")
        return self._suffix[0]


class _Unset(Enum):
    UNSET = auto()


_UNSET: Final = _Unset.UNSET
_context_request: ContextVar[Request | _Unset | None] = ContextVar("tawa_request", default=_UNSET)


class ProcessRequest:
    """The request of the whole process, for all threads. A context variable would reach only threads started later.

    request: None while Tawa is not installed. suffix: its cache suffix, empty for a request for stock Triton.
    own_suffix: its cache suffix, also for such a request; None without one.
    """

    __slots__ = ("own_suffix", "request", "suffix")

    def __init__(self) -> None:
        self.request: Request | None = None
        self.suffix = ""
        self.own_suffix: str | None = None

    def replace(self, request: Request | None) -> None:
        """Makes `request` the one of the process; None takes it away."""
        self.request = request
        self.own_suffix = None if request is None else request.cache_suffix()
        self.suffix = "" if request is None or request.stock else request.cache_suffix()


PROCESS = ProcessRequest()
"""Written by `tawa.install` and `tawa.uninstall` only."""


def active_request() -> Request | None:
    """The request that a compile started here and now follows; None leaves the compile to stock Triton."""
    request = surrounding_request()
    return None if request is None or request.stock else request


def active_suffix() -> str:
    """The cache suffix of the active request, empty without a request. Every launch reads it."""
    request = _context_request.get()
    if request is _UNSET:
        return PROCESS.suffix
    return "" if request is None or request.stock else request.cache_suffix()


def surrounding_request() -> Request | None:
    """The request of the scope or the installation around this code, even one for stock Triton."""
    request = _context_request.get()
    return PROCESS.request if request is _UNSET else request


def surrounding_suffix() -> str | None:
    """The cache suffix of `surrounding_request`; None without one. Launches read it."""
    request = _context_request.get()
    if request is _UNSET:
        return PROCESS.own_suffix
    return None if request is None else request.cache_suffix()


class activate:
    """Makes `request` the active one in this context (thread, task); None means stock Triton, whatever is installed.

    A class, not a generator: entering and leaving it costs a launch half as much.
    """

    __slots__ = ("_request", "_token")

    def __init__(self, request: Request | None) -> None:
        self._request = request

    def __enter__(self) -> None:
        self._token = _context_request.set(self._request)

    def __exit__(self, *_: object) -> None:
        _context_request.reset(self._token)


@functools.cache
def source_hash() -> str:
    """A hash of the version and of every source file of the package: a cached kernel of another Tawa is never used.

    Where there are no sources, the bytecode files are hashed.
    """
    import tawa

    root = Path(tawa.__file__).resolve().parent
    digest = hashlib.sha256(tawa.__version__.encode())
    for path in sorted(root.rglob("*.py")) or sorted(root.rglob("*.pyc")):
        digest.update(str(path.relative_to(root)).encode())
        with suppress(OSError):  # editors leave dangling links
            digest.update(path.read_bytes())
    return digest.hexdigest()
