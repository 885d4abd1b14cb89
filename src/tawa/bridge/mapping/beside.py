"""Mappings in files beside the module of a kernel, for every compile: under `tawa.jit` and of installed Tawa.

They are read when the kernel is compiled, and their text is part of its key on disk.
"""

from __future__ import annotations

import hashlib
import linecache
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tawa.bridge.driver.request import Request
from tawa.bridge.report import record
from tawa.mapping import Mapping
from tawa.mapping.shipped import shipped_mappings
from tawa.remarks import SourceLocation

if TYPE_CHECKING:
    from tawa.bridge.driver.data import Job

_DEFINITION = re.compile(r"\s*def (\w+)")


def shipped_with(request: Request, source: Job) -> tuple[Mapping, ...]:
    """The mappings beside the module of a kernel that is compiled; none if the request has a Plan or a mapping."""
    return shipped_at(request, record.kernel_location(source.ttir), source.kernel)


def shipped_at(request: Request, place: SourceLocation | None, kernel: str = "") -> tuple[Mapping, ...]:
    """The same for a kernel that is defined there. kernel: its name, if the file cannot be read."""
    if place is None or not _may_be_mapped(request):
        return ()
    named = _DEFINITION.match(linecache.getline(place.file, place.line))  # its name in the IR may be another (`repr`)
    return _mappings(place.file, named[1] if named else kernel)


def shipped_key(request: Request, source: Any) -> str:
    """Text for Triton's key on disk. source: what is compiled, Triton's `ASTSource` or `IRSource`."""
    code = getattr(getattr(getattr(source, "fn", None), "fn", None), "__code__", None)
    if code is None or not _may_be_mapped(request):
        return ""
    texts = [it.toml() for it in _mappings(code.co_filename, code.co_name)]
    return f"-mapped:{hashlib.sha256(repr(texts).encode()).hexdigest()}" if texts else ""


def _may_be_mapped(request: Request) -> bool:
    given = request.plan is not None or request.mapping is not None
    return not (given or request.stock or request.beside)


def _mappings(file: str, kernel: str) -> tuple[Mapping, ...]:
    """Those for a kernel; none for a kernel without a file."""
    return () if file.startswith("<") else shipped_mappings(Path(file).parent, kernel)
