"""What Triton's back end makes of a kernel, kept as `tests.support.kept` describes: many tests compile the same kernel.

    TTGIR → LLVM IR → PTX       stages of `CUDABackend`, by their input, the options and the version of Triton
    ptxas, nvdisasm             programs, by themselves, their options and their input
    the key of Triton           a hash of half a gigabyte, by the sizes and times of the files

Each is a function of its input, and each input is made anew by the test. Errors are not kept.

Tests of what lies above PTX (programs, proofs, bits) do without it: `without_ptx`. Their kernels are still translated
to LLVM IR, which counts shared memory. Tests of PTX do without ptxas: `without_cubin`.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import os
import subprocess
from collections import ChainMap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import triton
from triton._C.libtriton import llvm, nvidia
from triton.backends.nvidia.compiler import CUDABackend, get_ptx_version_from_options, get_ptxas
from triton.compiler.compiler import get_cache_invalidating_env_vars
from triton.runtime import cache

from tests.support.kept import FOLDER, kept
from tests.support.sample import EVERY_CASE

_PROGRAMS = ("ptxas", "ptxas-blackwell", "nvdisasm")
_UNDERSTOOD = {"capture_output", "check", "close_fds", "stderr", "text"}
_EMPTY = """\
.version {version}
.target {target}
.address_size 64
.visible .entry {name}() {{ ret; }}
"""
_run = subprocess.run
_triton_key = cache.triton_key


@functools.cache
def triton_key() -> str:
    """Triton's hash of its own files."""
    files = sorted(it for it in Path(triton.__file__).parent.rglob("*") if it.suffix in (".py", ".so"))
    state = [(str(it), it.stat().st_size, it.stat().st_mtime_ns) for it in files]
    return kept(("triton_key", repr(state)), _triton_key)


@functools.cache
def keep_back_end() -> None:
    """Replaces the stages, `subprocess.run` and the key of Triton in this process."""
    cache.triton_key = triton_key
    llvm.init_targets()  # which `make_llir` does for `make_ptx`, too
    getattr(nvidia, "set_short_ptr", bool)()  # likewise, up to Triton 3.8
    for name in ("make_llir", "make_ptx"):
        setattr(CUDABackend, name, keeping(getattr(CUDABackend, name)))
    subprocess.run = functools.wraps(_run)(run)


def keeping(make: Callable[..., str], folder: Path = FOLDER) -> Callable[..., str]:
    """The stage, with its text and what it notes in the metadata kept."""

    @functools.wraps(make)
    def stage(self: Any, src: Any, metadata: dict[str, Any], options: Any, capability: int) -> str:
        def made() -> str:
            noted: dict[str, Any] = {}
            text = make(self, src, ChainMap(noted, metadata), options, capability)
            return json.dumps([text, noted])

        # The hash stands for the ptxas of its first use; a package may name another one since.
        ptxas = get_ptxas(capability).version
        decided_by = (triton_key(), self.hash(), ptxas, options, capability, get_cache_invalidating_env_vars())
        text, noted = json.loads(kept((make.__name__, repr(decided_by), str(src)), made, folder=folder))
        metadata.update(noted)
        return text

    return stage


@contextlib.contextmanager
def without_ptx() -> Iterator[None]:
    """Leaves out LLVM's optimisations and code: ptxas gets an empty kernel, without spills. Not in `make nightly`."""
    if EVERY_CASE:
        yield
        return
    own_hash, lowered = CUDABackend.hash, getattr(CUDABackend.make_llir, "__wrapped__", CUDABackend.make_llir)

    def make_llir(self: Any, src: Any, metadata: dict[str, Any], *others: Any) -> str:
        metadata["name"] = src.get_entry_func_name()
        lowered(self, src, metadata, *others)
        return "; not optimised"

    def make_ptx(self: Any, src: str, metadata: dict[str, Any], options: Any, capability: int) -> str:
        return _empty(metadata, options, capability)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CUDABackend, "hash", lambda self: f"{own_hash(self)}-without-ptx")  # apart in Triton's cache
        patch.setattr(llvm, "optimize_module", lambda *arguments, **keywords: None)
        patch.setattr(CUDABackend, "make_llir", make_llir)
        patch.setattr(CUDABackend, "make_ptx", make_ptx)
        yield


@contextlib.contextmanager
def without_cubin() -> Iterator[None]:
    """Leaves out ptxas, which gets an empty kernel, without spills. Not in `make nightly`."""
    if EVERY_CASE:
        yield
        return
    own_hash, assembled = CUDABackend.hash, CUDABackend.make_cubin

    def make_cubin(self: Any, src: str, metadata: dict[str, Any], options: Any, capability: int) -> bytes:
        return assembled(self, _empty(metadata, options, capability), metadata, options, capability)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CUDABackend, "hash", lambda self: f"{own_hash(self)}-without-cubin")  # apart in Triton's cache
        patch.setattr(CUDABackend, "make_cubin", make_cubin)
        yield


def _empty(metadata: dict[str, Any], options: Any, capability: int) -> str:
    """The PTX of a kernel that does nothing."""
    version, target = divmod(get_ptx_version_from_options(options, capability), 10), f"sm_{capability}a"
    return _EMPTY.format(version=".".join(map(str, version)), target=target, name=metadata["name"])


class Refused(Exception):
    """A program refuses its input, or dies."""


class Call(NamedTuple):
    """A call of a program. key: the program and its options. target: the file that is written; empty for none."""

    key: tuple[str, ...]
    source: str
    target: str


def call_of(command: Any) -> Call | None:
    """A call of one of the programs with one file as input; None for another command."""
    if not isinstance(command, list) or Path(str(command[0])).name not in _PROGRAMS:
        return None
    names = [str(it) for it in command]
    at = names.index("-o") if "-o" in names else len(names)
    target, rest = "".join(names[at + 1 : at + 2]), names[1:at] + names[at + 2 :]
    sources = [it for it in rest if os.path.isfile(it)]
    if len(sources) != 1:
        return None
    tool = os.stat(names[0])
    options = (it for it in rest if it not in sources)
    key = (names[0], str(tool.st_size), str(tool.st_mtime_ns), *options, f"to a file: {target != os.devnull}")
    return Call(key, sources[0], "" if target == os.devnull else target)


def run(command: Any, *arguments: Any, folder: Path = FOLDER, **keywords: Any) -> Any:
    """`subprocess.run`, which looks up what a program made of the same input before."""
    call = None if arguments or keywords.keys() - _UNDERSTOOD else call_of(command)
    if call is None:
        return _run(command, *arguments, **keywords)
    source = Path(call.source).read_bytes().hex()
    try:
        made = json.loads(kept((*call.key, source), lambda: _made(command, call), folder=folder))
    except Refused:
        return _run(command, **keywords)
    if call.target:
        Path(call.target).write_bytes(base64.b64decode(made["target"]))
    printed, said = (made[it].replace("{source}", call.source) for it in ("printed", "said"))
    if keywords.get("capture_output"):
        texts = (printed, said) if keywords.get("text") else (printed.encode(), said.encode())
        return subprocess.CompletedProcess(command, 0, *texts)
    print(printed, end="")
    if keywords.get("stderr") is not None:
        os.write(keywords["stderr"].fileno(), said.encode())
    return subprocess.CompletedProcess(command, 0)


def _made(command: list[str], call: Call) -> str:
    """What the program writes and prints."""
    done = _run(command, capture_output=True, text=True)
    if done.returncode:
        raise Refused
    target = base64.b64encode(Path(call.target).read_bytes()).decode() if call.target else ""
    printed, said = (text.replace(call.source, "{source}") for text in (done.stdout, done.stderr))
    return json.dumps({"target": target, "printed": printed, "said": said})
