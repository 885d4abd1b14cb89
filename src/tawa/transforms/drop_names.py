"""Drop names: removes the names of loads, stores and loops (`tawa.analysis.names`). Only the planner needs them.

Requires: nothing. Ensures: no operation has a name.
"""

from __future__ import annotations

from dataclasses import dataclass

from tawa.analysis.names import drop_names
from tawa.ir import Module
from tawa.transforms.result import PassResult


@dataclass(frozen=True, slots=True)
class DropNames:
    """No options."""

    def run(self, module: Module) -> PassResult:
        """Removes all names."""
        drop_names(module)
        return PassResult(changed=False)
