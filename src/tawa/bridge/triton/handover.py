"""Handovers: what travels between two stages of a compile in place of Triton's module.

Triton writes ``str(result)`` of every stage into its cache and into ``compiled.asm``, and passes the result on to the
next stage. A `Handover` is text for the first purpose and carries the module for the second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tawa.bridge.triton.generic_print import parse_module

Stage = Callable[[Any, dict[str, Any]], Any]
"""One of Triton's stages: what the stage before gave, and the metadata, which it adds to."""


@dataclass(frozen=True, slots=True)
class StageResult:
    """What one of Triton's stages gave, and the metadata after it."""

    value: Any
    metadata: dict[str, Any]


@dataclass(slots=True, eq=False)
class Handover:
    """A stage's result. text: what is stored. module: what the next stage works on. context: the module's context."""

    text: str
    module: Any
    context: Any
    relocated: bool = False

    def __str__(self) -> str:
        return self.text

    def create_location_snapshot(self, path: str) -> None:
        """Triton's `USE_IR_LOC`: the stored text becomes the source; so the module is read again from there."""
        with open(path) as file:
            self.module = parse_module(file.read(), self.context)
        self.module.create_location_snapshot(path)
        self.relocated = True
