"""Compiled kernels in Triton's cache on disk, found by name or by hash.

<cache>/<key>/gemm.json     metadata: hash, target, num_warps, shared, triton_version, Tawa's record
<cache>/<key>/gemm.ttgir    the program that went to LLVM, as the Triton of that time prints it
<cache>/<key>/gemm.ttir     of Triton's kernels; those in Gluon begin with TTGIR
"""

from __future__ import annotations

import locale
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

from tawa.bridge.report import record
from tawa.bridge.triton.artifacts.cache_entries import why_damaged
from tawa.outside import Unfit, json_of, names_and_values, read, text_of

Maker = Literal["Tawa", "Triton", "Gluon", "unknown"]

_OWN_FILE_OF_A_GROUP = "__grp__"
_KINDS: dict[str, Any] = {
    "name": str | None, "hash": str | None, "triton_version": str | None, "target": Mapping[str, Any],
    "num_warps": int | None, "shared": int | None, record.KEY: Mapping[str, Any] | None,
}  # fmt: skip
"""The types of the metadata that are read here."""


@dataclass(frozen=True, slots=True)
class StoredKernel:
    """A kernel in the cache.

    entry: its folder. changed: when it was written, in seconds since 1970. metadata: Triton's, empty if it cannot be
    read; problem: why the kernel cannot be read, empty if it can.
    """

    name: str
    entry: Path
    changed: float
    metadata: Mapping[str, Any]
    problem: str = ""

    @property
    def ttgir(self) -> Path:
        """The file of its TTGIR."""
        return self.entry / f"{self.name}.ttgir"

    @property
    def hash(self) -> str:
        """What Triton names it by: the hash of its key, else the name of its folder."""
        return str(self.metadata.get("hash") or self.entry.name)

    @property
    def short_hash(self) -> str:
        """Enough of the hash to find it again."""
        return self.hash[:12]

    @property
    def triton_version(self) -> str:
        """The version of Triton that compiled it; empty if that is not known."""
        return str(self.metadata.get("triton_version") or "")

    @property
    def maker(self) -> Maker:
        """Who made it: Tawa, which specialised it; stock Triton; or the author, in Gluon."""
        if (self.metadata.get(record.KEY) or {}).get("applied"):
            return "Tawa"
        if (self.entry / f"{self.name}.ttir").is_file():
            return "Triton"
        return "Gluon" if (self.entry / f"{self.name}.source").is_file() else "unknown"

    @property
    def target(self) -> str:
        """What it was made for: ``cuda:90``."""
        target: Any = self.metadata.get("target")
        known: Mapping[str, Any] = target if isinstance(target, Mapping) else {}
        return f"{known.get('backend')}:{known.get('arch')}"


def cache_folder() -> Path:
    """Where Triton keeps compiled kernels."""
    from triton import knobs

    return Path(knobs.cache.dir)


def stored_kernels(folder: Path) -> Iterator[StoredKernel]:
    """The kernels in a cache, in no order. Entries of other kinds, and of compiles that failed, are left out."""
    for path in folder.glob("*/*.json"):
        if path.name.startswith(_OWN_FILE_OF_A_GROUP):
            continue
        kernel = _read(path)
        if kernel is not None:
            yield kernel


def find_stored(wanted: str, folder: Path) -> list[StoredKernel]:
    """Kernels with this name, newest first; otherwise those whose hash or cache folder begins with it."""
    every = list(stored_kernels(folder))
    found = [it for it in every if wanted in (it.name, it.metadata.get("name"))]
    if not found and wanted:
        text = wanted.lower()
        found = [it for it in every if it.hash.startswith(text) or it.entry.name.lower().startswith(text)]
    return sorted(found, key=lambda it: (-it.changed, it.hash))


def _read(path: Path) -> StoredKernel | None:
    """The kernel of a file of metadata; None if the file is of another kind."""
    changed = path.stat().st_mtime
    try:
        known = json_of(text_of(path, locale.getencoding()))
        if not isinstance(known, Mapping) or "target" not in known:
            return None
        facts = names_and_values(cast(object, known))
        for name, kind in _KINDS.items():
            read(kind, facts.get(name), name)
    except (OSError, Unfit) as error:
        reason = f"its metadata, {path.name}, cannot be read: {error}"
        return StoredKernel(path.stem, path.parent, changed, {}, reason)
    found = StoredKernel(path.stem, path.parent, changed, facts)
    return replace(found, problem=_problem(found))


def _problem(kernel: StoredKernel) -> str:
    try:
        text = text_of(kernel.ttgir, locale.getencoding())
    except FileNotFoundError:
        return "its TTGIR is not in the cache: TRITON_STORE_BINARY_ONLY=1 keeps the machine code only"
    except (OSError, Unfit) as error:
        return f"its TTGIR, {kernel.ttgir.name}, cannot be read: {error}"
    reason = why_damaged(kernel.metadata.get(record.KEY), {"ttgir": text})
    return f"the entry of the cache is damaged: {reason}" if reason else ""
