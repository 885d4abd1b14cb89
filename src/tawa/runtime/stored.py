"""The protocol of a kernel in Triton's cache: what ran, whoever compiled it and whenever."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tawa.bridge.triton.artifacts.stored_kernels import StoredKernel
from tawa.bridge.triton.read_module import read_ttgir
from tawa.errors import AssumptionError, TawaError
from tawa.ir import Module
from tawa.machine.machines import KNOWN, machine_called
from tawa.verify.check import check_levels
from tawa.verify.verdict import Unknown, Verdict

_PLACE = re.compile(r"\n\s*at [^\n]+:(\d+)")


def check_stored(kernel: StoredKernel, *, assume: Sequence[str] = (), trips: int | None = None) -> Verdict:
    """The verdict on a kernel's final TTGIR; Unknown, with the reason, if it cannot be read. Raises AssumptionError."""
    module = read_stored(kernel)
    if isinstance(module, Unknown):
        return module
    try:
        return check_levels(None, module, assume=assume, max_trips=trips)
    except AssumptionError:
        raise
    except Exception as error:
        return Unknown(f"the check failed: {type(error).__name__}: {error}")


def read_stored(kernel: StoredKernel) -> Module | Unknown:
    """The final TTGIR of a kernel, or why it cannot be read."""
    if kernel.problem:
        return Unknown(kernel.problem)
    if machine_called(kernel.target) is None:
        return Unknown(f"made for {kernel.target}; the checks know {KNOWN}")
    try:
        return read_ttgir(kernel.ttgir)
    except TawaError as error:
        return Unknown(_unreadable(kernel, str(error)))
    except Exception as error:
        return Unknown(_unreadable(kernel, f"{type(error).__name__}: {error}"))


def _unreadable(kernel: StoredKernel, said: str) -> str:
    """Names the version that wrote the text, and how to read it."""
    version = kernel.triton_version or "of an unknown version"
    what = re.split(r"(?:;|\.|\n)\s*[Cc]ure: ", said, maxsplit=1)[0]
    cure = f". Cure: run tawa verify with Triton {kernel.triton_version}" if kernel.triton_version else ""
    what = _PLACE.sub(r" (line \1)", what)  # the line itself is of no help
    return f"compiled by Triton {version}, and {what}{cure}"
