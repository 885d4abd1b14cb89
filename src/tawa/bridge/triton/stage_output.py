"""The outputs of our stages, which take the place of Triton's module between two stages of a compile.

Triton writes ``str(result)`` of every stage to its cache and to ``compiled.asm``, and passes the result to the next
stage. A `StageOutput` has text for the first purpose and the module for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tawa.bridge.triton.generic_print import parse_module

Stage = Callable[[Any, dict[str, Any]], Any]
"""One of Triton's stages. Arguments: the result of the stage before, and the metadata, which it adds to."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """The result of one of Triton's stages, and the metadata after it."""

    value: Any
    metadata: dict[str, Any]


@dataclass(slots=True, eq=False)
class StageOutput:
    """A stage's result. text: to be stored. module: for the next stage. context: MLIR's, of the module.

    relocated: whether the module was read again from the stored text.
    """

    text: str
    module: Any
    context: Any
    relocated: bool = False

    def __str__(self) -> str:
        return self.text

    def create_location_snapshot(self, path: str) -> None:
        """For Triton's `USE_IR_LOC`: the stored text becomes the source, so the module is read again from it."""
        with open(path) as file:
            self.module = parse_module(file.read(), self.context)
        self.module.create_location_snapshot(path)
        self.relocated = True
