"""The errors Tawa raises, one class per cause.

Every message says three things: what is wrong (with the values), where (``file:line``), and how to cure it.
`InternalError` is different: it reports a fault of Tawa and carries the path of a reproducer.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from tawa.remarks import Remark, SourceLocation

ISSUES_URL = "https://github.com/tawa-compiler/tawa/issues"
"""Where to report a fault of Tawa; `pyproject.toml` has the same address."""


class TawaError(Exception):
    """Base of everything Tawa raises on purpose."""


class UnsupportedKernel(TawaError):
    """A pinned kernel cannot be specialised; `remark` says why, where and how to cure it."""

    def __init__(self, kernel: str, remark: Remark) -> None:
        self.kernel = kernel
        self.remark = remark
        super().__init__(f"{kernel}: cannot be warp-specialised\n{remark}")


class PlanError(TawaError):
    """An option or a pinned Plan has an unknown name or an impossible value."""


class ResourceError(TawaError):
    """A pinned Plan needs more shared memory or registers than one SM has."""


class ProtocolError(TawaError):
    """A program violates the protocol of its slots and barriers; the message has the witness.

    files: texts by file name: the refuted level, and the witness as a Chrome trace.
    """

    def __init__(self, message: str, files: Mapping[str, str] | None = None) -> None:
        self.files = dict(files or {})
        super().__init__(message)


class ParseError(TawaError):
    """Text that is not MLIR generic form; the message shows the offending line."""


class EmitError(TawaError):
    """A specialised kernel that cannot be written in another language; the message says what, and where."""


class KernelError(TawaError, TypeError):
    """The argument is not a kernel: a class, a lambda, a function without source, decorators in the wrong order."""


class CompileError(TawaError):
    """Triton or ptxas rejected a kernel, specialised or not.

    location: in the user's source, if known. calls: the call stack, innermost first. cure: what may be wrong, if known.
    """

    def __init__(
        self, what: str, location: SourceLocation | None = None, calls: Sequence[str] = (), cure: str = ""
    ) -> None:
        self.what = what
        self.location = location
        self.calls = tuple(calls)
        self.cure = cure
        place = f"\n  at {location}" if location else ""
        called = "".join(f"\n  called at {call}" for call in self.calls)
        super().__init__(what + place + called + (f"\n  cure: {cure}" if cure else ""))

    def __reduce__(self) -> tuple[type[CompileError], tuple[object, ...]]:
        return type(self), (self.what, self.location, self.calls, self.cure)


class SurroundingsError(TawaError, OSError):
    """A folder that a compile needs cannot be read or written: Triton's cache, the temporary folder."""

    def __str__(self) -> str:
        return str(self.args[0])  # without the error number that OSError prepends


class DeviceError(TawaError):
    """A kernel was launched where no CUDA device of the right kind is present."""


class TargetError(TawaError):
    """A GPU that Tawa does not know, or one that the kernel cannot be compiled for.

    location: where the kernel uses an operation of another GPU, if it does.
    """

    def __init__(self, what: str, cure: str, location: SourceLocation | None = None) -> None:
        self.what = what
        self.cure = cure
        self.location = location
        place = f"\n  at {location}" if location else ""
        super().__init__(f"{what}{place}\n  cure: {cure}")


class InternalError(TawaError):
    """A fault of Tawa. reproducer: a folder that replays the failure; None if nothing was written."""

    def __init__(self, message: str, reproducer: Path | None = None, unwritten: str = "") -> None:
        self.reproducer = reproducer
        self.unwritten = unwritten
        replay = f"\n  replay: tawa replay {reproducer}" if reproducer else unwritten and f"\n  {unwritten}"
        super().__init__(f"internal error: {message}{replay}\n  cure: {report_it(reproducer)}")


def report_it(reproducer: Path | None = None) -> str:
    """What to do about a fault of Tawa."""
    folder = f" with the folder {reproducer}, which holds the kernel's IR" if reproducer else ""
    return f"please report it{folder}: {ISSUES_URL}"


class TableError(TawaError):
    """A table of tuned kernels is damaged, or of another GPU or version; the message names the file and the cure."""


class AssumptionError(TawaError):
    """An assumption about a scalar argument is malformed, or names no argument of the kernel."""


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str = "", *, show: Callable[[str], str] = repr, cutoff: float = 0.6
) -> str:
    """A question that suggests the known name nearest to a misspelt one; `otherwise` if none is near.

    cutoff: the required similarity, from 0 (any name) to 1 (the same name).
    """
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {show(close[0])}?" if close else otherwise
