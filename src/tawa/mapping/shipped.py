"""Mappings that are shipped with a kernel: files beside its module, found by kernel name and signature.

    package/flash.py                     @tawa.jit @triton.jit def attention(…)
    package/attention.mapping.toml       for attention
    package/attention.fp8.mapping.toml   for attention; [kernel] signature says for which types

The files of a kernel are read in the order of their names; the first whose name and signature fit is taken.
"""

from __future__ import annotations

import logging
from pathlib import Path

from tawa.errors import PlanError
from tawa.mapping.mapping import Mapping
from tawa.mapping.program import Program
from tawa.mapping.resolve import types_of

SUFFIX = ".mapping.toml"
_log = logging.getLogger("tawa")


def shipped_mappings(folder: Path, kernel: str) -> tuple[Mapping, ...]:
    """The mappings in a folder for the kernel of this name. A file that cannot be read is logged and ignored."""
    found: list[Mapping] = []
    try:
        names = sorted(it.name for it in folder.iterdir() if it.name.endswith(SUFFIX))
    except OSError:  # a kernel without a file: a notebook, a module in an archive
        return ()
    for name in names:
        if name.split(".")[0] != kernel:
            continue
        try:
            mapping = Mapping.read(folder / name)
        except PlanError as error:
            _log.warning("%s", error)
            continue
        if mapping.kernel.name in (None, kernel):
            found.append(mapping)
    return tuple(found)


def is_for(mapping: Mapping, program: Program) -> bool:
    """Whether a mapping is for this kernel: by name, and by the types of the arguments that its signature names."""
    types = types_of(mapping.kernel.signature or "")
    named = mapping.kernel.name in (None, program.name)
    return named and all(program.types.get(name) == type for name, type in types.items())
