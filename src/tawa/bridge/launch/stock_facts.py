"""What is known of stock Triton's kernel, for a kernel whose launches may get that one.

A compile that leaves the kernel to stock Triton records the facts. Where the kernel was specialised, they are learned
when the stock kernel is compiled for the first launch that gets it. They are kept in Triton's cache under a hash of the
stock kernel's PTX, so that a stock kernel that is read from the cache has the same facts as one that was compiled.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tawa.bridge.driver.request import source_hash
from tawa.bridge.report.report import PtxasReport, read_ptxas_log, run_ptxas
from tawa.outside import json_of, read, text_of
from tawa.plan.cost.programs import ProgramFacts

KEY = "stock"
"""The entry of a compile's record."""
_FILE = "facts.json"


def recorded_facts(record: Mapping[str, Any]) -> ProgramFacts | None:
    """The facts in the record of a compile; None if it has none."""
    return read(ProgramFacts, record[KEY]) if record.get(KEY) else None


_USED = "Used "
_SERIALISED = "wgmma.mma_async instructions are serialized"
"""In all notes that say so: C7510 to C7515, which tell why."""


def facts_of_log(log: str, shared_bytes: int) -> ProgramFacts | None:
    """What the log of ptxas says of stock Triton's kernel; None if the log was not kept. shared_bytes: of a CTA."""
    if _USED not in log:
        return None
    return facts_of_report(read_ptxas_log(log), shared_bytes)


def facts_of_report(found: PtxasReport, shared_bytes: int) -> ProgramFacts:
    """The same from a report."""
    serialised = any(_SERIALISED in it.text for it in found.notes)
    return ProgramFacts(serialised, found.registers, found.spill_bytes, shared_bytes)


def facts_of(kernel: Any, log: str = "") -> ProgramFacts | None:
    """The facts of a stock kernel; ptxas runs once more if neither they nor its log were kept.

    kernel: a `CompiledKernel`. log: of the ptxas that just compiled it. None if ptxas refuses.
    """
    with suppress(Exception):  # without facts, the times of the stock kernel are estimated
        ptx, shared = kernel.asm["ptx"], int(kernel.metadata.shared)
        folder = _folder(ptx, kernel.metadata)
        path = folder.get_file(_FILE) if not log else None
        if path is not None:
            return read(ProgramFacts, json_of(text_of(Path(path))))
        found = facts_of_log(log, shared) or facts_of_report(_assembled(ptx, kernel.metadata), shared)
        with suppress(OSError):
            folder.put(json.dumps(asdict(found)), _FILE, binary=False)
        return found
    return None


def _assembled(ptx: str, metadata: Any) -> Any:
    fusion = bool(getattr(metadata, "enable_fp_fusion", True))
    return run_ptxas(ptx, fusion, getattr(metadata, "ptx_options", None) or "")


def _folder(ptx: str, metadata: Any) -> Any:
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.runtime.cache import get_cache_manager

    about = [source_hash(), get_ptxas(metadata.target.arch).version, str(getattr(metadata, "ptx_options", None))]
    about += [str(getattr(metadata, "enable_fp_fusion", True)), str(metadata.shared), ptx]
    return get_cache_manager(hashlib.sha256(chr(0).join(["tawa stock facts", *about]).encode()).hexdigest())
