"""The result of a pass, and the protocol that every pass implements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from tawa.ir import Module
from tawa.plan import Plan
from tawa.remarks import Remark


@dataclass(frozen=True, slots=True)
class PassResult:
    """Whether the module changed, and the remarks of the pass.

    decided: Plan fields that were left open and that the pass had to settle because only one choice was legal. why: the
    reasons for them, by field.
    """

    changed: bool
    remarks: tuple[Remark, ...] = ()
    decided: Plan = Plan()
    why: Mapping[str, str] = field(default_factory=dict[str, str], kw_only=True)


Result = TypeVar("Result", bound=PassResult, covariant=True)


class Pass(Protocol[Result]):
    """A pass changes a module in place. Its fields are its options; it reads nothing else."""

    def run(self, module: Module) -> Result:
        """Changes `module`."""
        ...
