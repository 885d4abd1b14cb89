"""What a pass returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tawa.ir import Module
from tawa.plan import Plan
from tawa.remarks import Remark


@dataclass(frozen=True, slots=True)
class PassResult:
    """Whether the module changed, and what the pass has to say about it.

    decided: what the Plan left open and the pass found to be so, for want of another way.
    """

    changed: bool
    remarks: tuple[Remark, ...] = ()
    decided: Plan = Plan()


class Pass(Protocol):
    """A pass changes a module in place. Its fields are its options; it reads nothing else."""

    def run(self, module: Module) -> PassResult:
        """Changes `module`."""
        ...
