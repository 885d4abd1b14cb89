"""The file and line of a kernel and its helpers: part of the key on disk, since a compile writes them into its outputs.

Triton keys a kernel by its source. Two equal files would share one entry, whose remarks, levels and line table name
the file that was compiled first, even after it is deleted. The same holds for one file before and after a decorator
grew by a line. Files that do not exist (notebook cells, whose names differ in each session) are left out: nobody can
open them, and each session would compile again.

Code that ``torch.compile`` generates needs no exception: Inductor names such a file by a hash of its content, in the
folder that also holds Triton's cache, so a new file comes with an empty cache.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from tawa.bridge.triton.jitted import definition_of, reachable


def places_key(source: Any) -> str:
    """Text for Triton's key on disk. source: what is compiled, Triton's `ASTSource` or `IRSource`."""
    places = sorted(set(_places(source)))
    return f"-at:{hashlib.sha256(repr(places).encode()).hexdigest()}" if places else ""


def _places(source: Any) -> Iterator[tuple[str, int]]:
    """File and line of each function that is compiled; the file of a kernel that is read from IR."""
    path = getattr(source, "path", None)
    if path is not None:
        yield str(path), 0
    constants: Any = getattr(source, "constants", {})
    for function in reachable([getattr(source, "fn", None), *constants.values()]):
        file = function.fn.__code__.co_filename
        if os.path.isfile(file):
            yield file, definition_of(function)[0]
