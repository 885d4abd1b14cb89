"""Reports on a compiled kernel, without a GPU: counts from its PTX and SASS, and the log of ptxas.

`read_ptx` is cheap (regular expressions). `run_ptxas` and `read_sass` start a program of the Triton wheel (0.1 to 1 s),
so they run only on demand. The ptxas is the one that Triton used for this kernel, with the same flags.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tawa.bridge.triton.surroundings import temporary_text
from tawa.bridge.triton.versions import refuse_untested, triton_version, untested_reason
from tawa.errors import CompileError
from tawa.machine.machines import SM_90


@dataclass(frozen=True, slots=True)
class PtxReport:
    """Counts of static instructions.

    wgmma_waits: `pendings` of each wait; setmaxnreg: registers; both in program order.
    mbarriers: how many operations of each kind (``init``, ``arrive``, ``try_wait``, ...).
    """

    wgmma_waits: tuple[int, ...]
    wgmmas: int
    setmaxnreg: tuple[int, ...]
    bar_syncs: int
    tma_loads: int
    tma_stores: int
    cp_asyncs: int
    mbarriers: dict[str, int]


@dataclass(frozen=True, slots=True)
class PtxasNote:
    """A performance note of ptxas, such as C7510 (wgmma serialised). count: how many times it was given."""

    code: str
    text: str
    count: int


@dataclass(frozen=True, slots=True)
class PtxasReport:
    """The output of ``ptxas -v``. registers: per thread, before setmaxnreg changes them."""

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    notes: tuple[PtxasNote, ...]
    version: str

    @property
    def spill_bytes(self) -> int:
        """Bytes of spill stores and loads."""
        return self.spill_store_bytes + self.spill_load_bytes


@dataclass(frozen=True, slots=True)
class SassReport:
    """Counts of static machine instructions. depbars: ``WARPGROUP.DEPBAR.LE gsb0, N`` in program order."""

    instructions: int
    hgmmas: int
    depbars: tuple[int, ...]
    bar_syncs: int
    tma_loads: int
    tma_stores: int
    local_accesses: int


@dataclass(frozen=True, slots=True)
class KernelReport:
    """Everything about one compiled kernel."""

    ptx: PtxReport
    ptxas: PtxasReport
    sass: SassReport | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self) | {"spill_bytes": self.ptxas.spill_bytes}


def report(compiled: Any, sass: bool = False) -> KernelReport:
    """Reads a kernel that Triton compiled; ``sass=True`` disassembles the cubin as well."""
    fusion = bool(getattr(compiled.metadata, "enable_fp_fusion", True))
    extra = getattr(compiled.metadata, "ptx_options", None) or ""
    machine = read_sass(compiled.asm["sass"]) if sass else None
    return KernelReport(read_ptx(compiled.asm["ptx"]), run_ptxas(compiled.asm["ptx"], fusion, extra), machine)


def read_ptx(ptx: str) -> PtxReport:
    """Counts the instructions that show how a kernel overlaps its work."""
    mbarriers = Counter(re.findall(r"^\s*(?:@!?%\w+\s+)?mbarrier\.(\w+)", _per_line(ptx), re.MULTILINE))
    return PtxReport(
        wgmma_waits=tuple(int(n) for n in re.findall(r"wgmma\.wait_group\.sync\.aligned\s+(\d+)", ptx)),
        wgmmas=len(re.findall(r"wgmma\.mma_async", ptx)),
        setmaxnreg=tuple(int(n) for n in re.findall(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)", ptx)),
        bar_syncs=len(re.findall(r"\bbar(?:rier)?(?:\.cta)?\.sync", ptx)),
        tma_loads=len(re.findall(r"cp\.async\.bulk\.tensor\.\S*shared::\w+\.global", ptx)),
        tma_stores=len(re.findall(r"cp\.async\.bulk\.tensor\.\S*global\.shared::cta", ptx)),
        cp_asyncs=len(re.findall(r"cp\.async\.c[ag]\.", ptx)),
        mbarriers=dict(sorted(mbarriers.items())),
    )


def run_ptxas(ptx: str, fp_fusion: bool = True, extra_options: str = "") -> PtxasReport:
    """Assembles the PTX once more with ``-v``, for the GPU that it names.

    Raises CompileError with the output of ptxas if it refuses.
    """
    gpu, capability = _gpu_of(ptx)
    tool = ptxas_of(capability)
    with temporary_text(ptx, ".ptx") as source:
        command = [tool.path, "-v", "-lineinfo", f"--gpu-name={gpu}", *extra_options.split()]
        command += [] if fp_fusion else ["--fmad=false"]
        command += ["--regAllocOptLevel=2"] if triton_version() >= (3, 7, 0) else []  # as Triton 3.7 does
        done = subprocess.run([*command, source, "-o", os.devnull], capture_output=True, text=True, check=False)
    if done.returncode:
        refuse_untested(f"ptxas refuses the kernel (status {done.returncode})")
        raise CompileError(f"ptxas refuses the kernel (status {done.returncode}):\n{done.stderr}{done.stdout}")
    return read_ptxas_log(done.stderr + done.stdout, tool.version)


def _gpu_of(ptx: str) -> tuple[str, int]:
    """The GPU that PTX names, and its compute capability: ``sm_100a``, 100."""
    found = re.search(r"^\s*\.target\s+(sm_(\d+)\w*)", ptx, re.MULTILINE)
    return (found[1], int(found[2])) if found else (f"{SM_90.name}a", SM_90.capability)


def ptxas_of(capability: int) -> Any:
    """The ptxas that Triton uses for a GPU, path and version. An untested Triton may keep it elsewhere."""
    from triton.backends.nvidia import compiler

    if not untested_reason():
        return compiler.get_ptxas(capability)
    find: Any = getattr(compiler, "get_ptxas", None)
    for arguments in ((capability,), ()):
        with suppress(Exception):
            return find(*arguments)
    path = Path(str(compiler.__file__)).with_name("bin") / "ptxas"
    if not path.is_file():
        refuse_untested(f"there is no {path}, which counts registers")
    return SimpleNamespace(path=str(path), version="")


def read_ptxas_log(log: str, version: str = "") -> PtxasReport:
    """Reads the output of ``ptxas -v``."""
    notes: Counter[tuple[str, str]] = Counter()
    for code, text in re.findall(r"\((C7\d+)\)\s*(.*)", log):
        notes[code, text.strip()] += 1
    return PtxasReport(
        registers=_number(r"Used (\d+) registers", log),
        spill_store_bytes=_number(r"(\d+) bytes spill stores", log),
        spill_load_bytes=_number(r"(\d+) bytes spill loads", log),
        stack_bytes=_number(r"(\d+) bytes stack frame", log),
        notes=tuple(PtxasNote(code, text, count) for (code, text), count in sorted(notes.items())),
        version=version,
    )


def read_sass(sass: str) -> SassReport:
    """Counts machine instructions; takes ``compiled.asm["sass"]`` or the output of cuobjdump."""
    return SassReport(
        instructions=sum(1 for line in sass.splitlines() if line.rstrip().endswith(";")),
        hgmmas=len(re.findall(r"\b[HQI]GMMA\.", sass)),
        depbars=tuple(int(n, 0) for n in re.findall(r"WARPGROUP\.DEPBAR\.LE\s+gsb0,\s*(0x[0-9a-f]+|\d+)", sass)),
        bar_syncs=len(re.findall(r"\bBAR\.SYNC", sass)),
        tma_loads=len(re.findall(r"\bUTMALDG", sass)),
        tma_stores=len(re.findall(r"\bUTMASTG", sass)),
        local_accesses=len(re.findall(r"\b(?:STL|LDL)\b", sass)),
    )


def _per_line(ptx: str) -> str:
    """PTX with one instruction a line: Triton's inline assembly puts several on one."""
    return re.sub(r"[;{]\s*", ";\n", ptx)


def _number(pattern: str, log: str) -> int:
    return max((int(n) for n in re.findall(pattern, log)), default=0)
