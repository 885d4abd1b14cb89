"""Which Triton is installed, whether it was tested, and its version of the IR.

The pipeline writes the IR of Triton 3.6. `installed_text` translates it for the installed Triton, just before Triton
parses it.
"""

from __future__ import annotations

import functools
import importlib.metadata

from tawa.bridge.report.warned import warn_user
from tawa.bridge.triton.ir_compat import to_3_7, to_3_8
from tawa.declines import UNTESTED
from tawa.errors import CompileError, UnsupportedKernel
from tawa.ir import Module, parse_module, print_module
from tawa.remarks import Remark
from tawa.supported import TRITON, parse_version

NEWER_IR_FROM = (3, 7)
FLAT_DESCRIPTORS_FROM = (3, 8)
MOVED_SLICES_FROM = (3, 9)


@functools.cache
def triton_version() -> tuple[int, int, int]:
    """Returns (major, minor, patch) of the installed Triton without importing it; (0, 0, 0) without Triton."""
    try:
        text = importlib.metadata.version("triton")
    except importlib.metadata.PackageNotFoundError:
        return (0, 0, 0)
    return parse_version(text)


def why_not_importable() -> str:
    """Why Triton cannot be imported: it is not there, or a library that it needs; empty if it can."""
    try:
        import triton.language  # noqa: F401
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def untested_reason() -> str:
    """Why the installed Triton is not touched; empty when it was tested."""
    version = triton_version()
    if version in TRITON:
        return ""
    return f"Triton {'.'.join(map(str, version))} is outside the tested range {TRITON}"


def untested_remark() -> Remark | None:
    """`untested_reason` with its cure; None for a Triton that was tested."""
    reason = untested_reason()
    return UNTESTED.remark(None, TRITON.cure, version=reason) if reason else None


def refuse_pinned(pinned: bool, kernel: str) -> None:
    """Raises UnsupportedKernel if specialisation is demanded on an untested Triton."""
    remark = untested_remark()
    if pinned and remark is not None:
        raise UnsupportedKernel(kernel, remark)


def refuse_untested(what: str) -> None:
    """Raises CompileError if the installed Triton is untested. what: a clause that says what is not done."""
    reason = untested_reason()
    if reason:
        raise CompileError(f"{what}: {reason}. Cure: {TRITON.cure}")


@functools.cache
def warn_untested() -> None:
    """Warns once per process that on an untested Triton every kernel is compiled without Tawa."""
    warn_user(f"tawa: {untested_reason()}; kernels are compiled by stock Triton. Cure: {TRITON.cure}")


def nested_descriptors() -> bool:
    """Whether the installed Triton writes a tensor type inside the type of a descriptor."""
    return triton_version()[:2] < FLAT_DESCRIPTORS_FROM


def installed_text(barrier: str, module: Module | None) -> str:
    """The barrier level in the IR of the installed Triton.

    barrier: its text in the IR of Triton 3.6. module: the same program, changed in place if the installed Triton needs
    another IR; None: it is parsed from the text.
    """
    if triton_version()[:2] < NEWER_IR_FROM:
        return barrier
    module = module if module is not None else parse_module(barrier)
    to_3_7(module)
    if triton_version()[:2] >= FLAT_DESCRIPTORS_FROM:
        to_3_8(module, triton_version()[:2] >= MOVED_SLICES_FROM)
    return print_module(module)
