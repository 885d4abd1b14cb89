"""The errors Tawa raises, one class per cause.

Every text says three things: what is wrong (with the values), where (``file:line``), and how to cure it.
`InternalError` stands apart: it means that Tawa itself is wrong, and it carries the path of a reproducer.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tawa.remarks import Remark


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
    """A program breaks the protocol of its slots and barriers; the message holds the run that goes wrong.

    files: texts to look into, by file name: the refuted level, and the run as a Chrome trace.
    """

    def __init__(self, message: str, files: Mapping[str, str] | None = None) -> None:
        self.files = dict(files or {})
        super().__init__(message)


class ParseError(TawaError):
    """Text that is not MLIR generic form; the message shows the offending line."""


class CompileError(TawaError):
    """Triton or ptxas refused a kernel, specialised or not."""


class DeviceError(TawaError):
    """A kernel was launched where no CUDA device of the right kind is present."""


class InternalError(TawaError):
    """Tawa broke its own rules. `reproducer` is a folder that replays the failure."""

    def __init__(self, message: str, reproducer: Path | None = None) -> None:
        self.reproducer = reproducer
        cure = f"\n  replay: tawa replay {reproducer}" if reproducer else ""
        super().__init__(f"internal error: {message}{cure}")


class AssumptionError(TawaError):
    """An assumption about a scalar argument that cannot be read, or names no argument of the kernel."""
