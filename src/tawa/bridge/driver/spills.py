"""What a compiled kernel spills to local memory for want of registers, and what else ptxas says of it.

ptxas decides. The stack frame in the cubin shows whether a kernel spills, and is cheap to read. The amount is in the
log of the ptxas that Triton ran (`ptxas_log`); if that log was not kept, ptxas runs once more.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tawa.bridge.report.report import read_ptxas_log, run_ptxas
from tawa.bridge.triton.artifacts.cubin import section_of

SERIALISED = ("C7511", "C7512")
"""Notes of ptxas that registers do not suffice for wgmmas in flight: it serialises them."""

_SPILLED = "bytes spill stores"
_INFO, _FRAME_SIZE = ".nv.info", 0x11
_WITH_PAYLOAD = 0x04


@dataclass(frozen=True, slots=True)
class Spills:
    """What a kernel spills.

    bytes: of spill stores and loads, counted statically. serialised: whether each wgmma is waited for by itself for
    want of registers, by ptxas or by the Plan.
    """

    bytes: int = 0
    serialised: bool = False


def find_spills(ptx: Any, cubin: Any, options: Any, log: str = "") -> Spills:
    """What a kernel spills.

    ptx, cubin: results of Triton's stages. options: of its backend. log: of that ptxas, if it was kept.
    """
    if not isinstance(ptx, str) or not isinstance(cubin, bytes) or frame_bytes(cubin) == 0:
        return Spills()
    if _SPILLED in log:
        found = read_ptxas_log(log)
    else:
        found = run_ptxas(ptx, options.enable_fp_fusion, getattr(options, "ptx_options", None) or "")
    return Spills(found.spill_bytes, any(note.code in SERIALISED for note in found.notes))


def frame_bytes(cubin: bytes) -> int | None:
    """The largest stack frame of a thread in a cubin; None if the file cannot be parsed.

    It is an attribute in the section `.nv.info`, a list of (format, name, size or value, payload).
    """
    try:
        return max(_frames(section_of(cubin, _INFO)), default=0)
    except (struct.error, ValueError, IndexError):
        return None


def _frames(info: bytes) -> list[int]:
    frames: list[int] = []
    at = 0
    while at + 4 <= len(info):
        form, name, size = struct.unpack_from("<BBH", info, at)
        at += 4
        if form == _WITH_PAYLOAD:
            if name == _FRAME_SIZE:
                frames.append(struct.unpack_from("<II", info, at)[1])
            at += size
    return frames
