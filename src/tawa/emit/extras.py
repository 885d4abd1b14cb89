"""Imports and combine functions that only some files need."""

from __future__ import annotations

from dataclasses import dataclass, field

ASYNC_COPY = (
    "from triton.experimental.gluon.language.nvidia.ampere import async_copy",
    'async_load = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared',
)
"""An import, and a name that differs between versions of Triton."""
REINTERPRET = (
    "from triton.experimental.gluon.language.nvidia.blackwell import tensor_memory_descriptor",
    'reinterpret = getattr(tensor_memory_descriptor, "reinterpret", None) or tensor_memory_descriptor._reinterpret',
)
SCALED = (
    "from triton.experimental.gluon.language.nvidia.blackwell import (\n"
    "    TensorMemoryScalesLayout, tcgen05_copy, tcgen05_mma_scaled,\n)",
    "",
)
MMA_V2 = ("from triton.experimental.gluon.language.nvidia.ampere import mma_v2", "")
HOPPER = ("hopper", "fence_async_shared, mbarrier, tma, warpgroup_mma, warpgroup_mma_wait,")
"""The module of Gluon for a machine, and what a file takes from it."""
BLACKWELL = (
    "blackwell",
    "TensorMemoryLayout, allocate_tensor_memory, fence_async_shared, mbarrier, tcgen05_commit, tcgen05_mma, tma,",
)


@dataclass
class Extras:
    """What the functions of a file need. combine: names of functions that combine two values, by their text.

    needs: the oldest Triton that has all of what the file uses, and what it is that an older one does not have.
    """

    taken: set[str] = field(default_factory=set[str])
    imported: dict[tuple[str, str], None] = field(default_factory=dict[tuple[str, str], None])
    combine: dict[str, str] = field(default_factory=dict[str, str])
    needs: tuple[tuple[int, int], str] = ((3, 6), "")

    def use(self, what: tuple[str, str]) -> None:
        """Notes an import."""
        self.imported[what] = None

    @property
    def imports(self) -> str:
        """The lines of the head that import."""
        return "".join(f"{line}\n" for line, _ in self.imported)

    @property
    def names(self) -> str:
        """The lines of the head that name what differs between versions."""
        return "".join(f"{line}\n" for _, line in self.imported if line)
