"""This machine: its GPUs, the driver, and the programs that Triton runs."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections import Counter

from tawa.cli.doctor.finding import Finding, Findings
from tawa.cli.doctor.versions import installed
from tawa.machine.machines import MACHINES, SM_90, machine_for
from tawa.supported import PYTORCH, parse_version


def machine() -> Findings:
    """The GPUs as the driver and PyTorch see them, the driver, ptxas, and a C compiler."""
    found, ptxas = gpus(), ptxas_versions()
    yield from _gpus(found)
    yield _driver(found, ptxas)
    if found and installed("torch"):
        yield _seen_by_pytorch()
    yield from _ptxas(ptxas)
    yield _compiler(bool(found))


def gpus() -> list[dict[str, str]]:
    """The GPUs that the driver lists: name, compute capability, memory, driver. Empty without a driver."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    fields = ("name", "compute_cap", "memory.total", "driver_version")
    command = [tool, f"--query-gpu={','.join(fields)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in done.stdout.splitlines() if line.strip()]
    names = ("name", "compute_capability", "memory", "driver")
    return [dict(zip(names, row, strict=False)) for row in rows]


def _gpus(found: list[dict[str, str]]) -> Findings:
    if not found:
        cure = f"launch on a machine with {SM_90}"
        yield Finding("GPU", "none: kernels are compiled, proved and simulated, not launched", "yellow", cure)
    for row, count in Counter(tuple(it.items()) for it in found).items():
        gpu = dict(row)
        major, _, minor = gpu.get("compute_capability", "").partition(".")
        capability = int(major + minor) if (major + minor).isdecimal() else None
        text = f"{f'{count} × ' if count > 1 else ''}{gpu['name']}, {gpu.get('memory', '?')}, sm_{capability or '?'}"
        data, known = {**gpu, "count": count}, machine_for(capability)
        if known is SM_90:
            yield Finding("GPU", text, data=data)
        elif known is not None:
            asked = os.environ.get("TAWA_ARCH", "").strip().removesuffix("a") in (known.name, str(known.capability))
            state, cure = ("green", "") if asked else ("yellow", f"TAWA_ARCH={known.name} asks for specialised kernels")
            more = "specialised on request (TAWA_ARCH)" if asked else "kernels are left to stock Triton"
            yield Finding("GPU", f"{text}: {more}; their speed was not measured", state, cure, data=data)
        else:
            text = f"{text}: every kernel is left to stock Triton"
            yield Finding("GPU", text, "yellow", f"a machine with {SM_90}", data=data)


def driver_cuda() -> tuple[int, int] | None:
    """The version of CUDA that the driver has; None without a driver."""
    version = ctypes.c_int(0)
    try:
        library = ctypes.CDLL("libcuda.so.1")
        if library.cuDriverGetVersion(ctypes.byref(version)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    return version.value // 1000, version.value % 1000 // 10


def _driver(found: list[dict[str, str]], ptxas: dict[str, tuple[str, str]]) -> Finding:
    cuda = driver_cuda()
    if cuda is None:
        what = "none, or it cannot be loaded (libcuda.so.1)"
        cure = "give the container the GPU (--gpus all)" if found else "install NVIDIA's driver on a machine with a GPU"
        return Finding("driver", what, "red" if found else "yellow", f"to launch kernels, {cure}")
    number = found[0].get("driver", "?") if found else "?"
    text, data = f"{number}, CUDA {cuda[0]}.{cuda[1]}", {"version": number, "cuda": f"{cuda[0]}.{cuda[1]}"}
    _, version = ptxas.get(SM_90.name, ("", ""))
    if cuda[0] < parse_version(version)[0]:
        what = f"{text}: older than the CUDA {version} of Triton's ptxas, whose machine code it cannot load"
        cure = f"a driver of CUDA {parse_version(version)[0]}.0 or newer, or TRITON_PTXAS_PATH=… of CUDA {cuda[0]}"
        return Finding("driver", what, "red", cure, data=data)
    return Finding("driver", text, data=data)


def _seen_by_pytorch() -> Finding:
    from tawa.runtime.pytorch.clock import built_for_cuda, gpu_seen

    seen, version = gpu_seen(), built_for_cuda()
    if seen:
        return Finding("PyTorch's GPU", seen)
    if os.environ.get("CUDA_VISIBLE_DEVICES") == "":
        return Finding("PyTorch's GPU", "hidden by CUDA_VISIBLE_DEVICES", "yellow", "unset CUDA_VISIBLE_DEVICES")
    if not version:
        cure = f"a PyTorch with CUDA: {PYTORCH.cure}, from the index without +cpu"
        return Finding("PyTorch's GPU", "this PyTorch is built without CUDA", "red", cure)
    what = f"none, although the driver lists one; PyTorch is built for CUDA {version}"
    return Finding("PyTorch's GPU", what, "red", f"a driver of CUDA {version} or newer, or a PyTorch for an older CUDA")


def ptxas_versions() -> dict[str, tuple[str, str]]:
    """Triton's ptxas by machine: path and version. Without Triton, and of an unknown one, none."""
    try:
        from tawa.bridge.report.report import ptxas_of

        found = {it.name: ptxas_of(it.capability) for it in MACHINES}
        return {name: (str(tool.path), str(tool.version)) for name, tool in found.items()}
    except Exception:  # an untested Triton keeps it elsewhere, or it does not run
        return {}


def _ptxas(found: dict[str, tuple[str, str]]) -> Findings:
    if not found:
        what = "Triton has no ptxas that runs: it cannot compile"
        yield Finding("ptxas", what, "red", "reinstall Triton, or set TRITON_PTXAS_PATH to the ptxas of a CUDA toolkit")
    for (path, version), names in _by_value(found).items():
        yield Finding("ptxas", f"{version} for {', '.join(names)}, {path}", data={"path": path, "version": version})


def _by_value(found: dict[str, tuple[str, str]]) -> dict[tuple[str, str], list[str]]:
    names: dict[tuple[str, str], list[str]] = {}
    for name, it in found.items():
        names.setdefault(it, []).append(name)
    return names


def _compiler(needed: bool) -> Finding:
    """The C compiler, with which Triton builds what launches its kernels."""
    given = os.environ.get("CC", "").strip()
    found = shutil.which(given) if given else shutil.which("gcc") or shutil.which("clang")
    if found:
        return Finding("C compiler", f"{found}{', by CC' if given else ''}", data={"path": found})
    what = f"CC={given} is not there" if given else "neither gcc nor clang is there"
    cure = "unset CC" if given else "apt install gcc, or set CC"
    return Finding("C compiler", f"{what}: no kernel can be launched", "red" if needed else "yellow", cure)
