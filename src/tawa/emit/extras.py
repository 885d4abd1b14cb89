"""Imports and combine functions that only some files need."""

from __future__ import annotations

from dataclasses import dataclass, field

ASYNC_COPY = (
    "from triton.experimental.gluon.language.nvidia.ampere import async_copy",
    'async_load = getattr(async_copy, "async_load", None) or async_copy.async_copy_global_to_shared',
)
"""An import, and a name that differs between versions of Triton."""
MMA_V2 = ("from triton.experimental.gluon.language.nvidia.ampere import mma_v2", "")


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


__all__ = ["ASYNC_COPY", "MMA_V2", "Extras"]
