"""What Plans spill, remembered between processes: a Plan that was left once is not compiled again.

Triton's cache keeps the kernel that was chosen, for its source, file and line. If the kernel moves by a line, or is
generated again under another name, it is compiled again. The other Plans that were tried, and the stock kernel, then
need not be: what they spill is a function of their program. It is kept in Triton's cache, under a hash of the program
without names and locations, the options of the back end, and the versions of Triton, ptxas and Tawa. Only programs that
spill are kept.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tawa.bridge.driver.request import source_hash
from tawa.bridge.driver.spills import Spills
from tawa.ir import Module, print_module
from tawa.outside import json_of, read, text_of


class KnownSpills:
    """The spills of the programs of one kernel. options: of Triton's back end."""

    def __init__(self, kernel: str, options: Any, capability: int) -> None:
        self.kernel = kernel
        self.options = options
        self.capability = capability

    def of(self, program: str) -> Spills | None:
        """What a program spills, if that is known. program: its `key`."""
        from triton import knobs

        if knobs.compilation.always_compile:
            return None
        with suppress(Exception):  # a cache that cannot be read, or a file of something else: it is compiled
            path = self._folder().get_file(program)
            if path is not None:
                return read(Spills, json_of(text_of(Path(path))))
        return None

    def keep(self, program: str, spills: Spills) -> None:
        """Remembers what a program spills."""
        if spills.bytes:
            with suppress(OSError):  # the compile itself reports a cache that cannot be written
                self._folder().put(json.dumps(asdict(spills)), program, binary=False)

    def key(self, module: Module, num_warps: int, what: str = "specialised") -> str:
        """The key of a program, the name of a file. what: tells programs apart that are compiled in different ways."""
        text = print_module(module, locations=False).replace(f'"{self.kernel}"', '"kernel"')
        parts = (self.options.hash(), str(num_warps), what, text)
        return f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}.json"

    def _folder(self) -> Any:
        """One entry of Triton's cache for all kernels, with a file for each program."""
        from triton.runtime.cache import get_cache_manager

        about = chr(0).join(["tawa spills", source_hash(), *_versions(self.capability)])
        return get_cache_manager(hashlib.sha256(about.encode()).hexdigest())


def _versions(capability: int) -> tuple[str, ...]:
    from triton._C.libtriton import get_cache_invalidating_env_vars
    from triton.backends.nvidia.compiler import get_ptxas
    from triton.runtime.cache import triton_key

    return triton_key(), get_ptxas(capability).version, str(sorted(get_cache_invalidating_env_vars().items()))
