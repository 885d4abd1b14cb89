"""`OpView`: a typed reading of one operation. Views hold no state but the operation."""

from __future__ import annotations

from typing import ClassVar, Self

from tawa.ir import Operation


class OpView:
    """Base of all views; `NAME` is the operation it reads."""

    __slots__ = ("op",)
    NAME: ClassVar[str]

    def __init__(self, op: Operation) -> None:
        if op.name != self.NAME:
            raise ValueError(f"{type(self).__name__} reads {self.NAME}, not {op.name}")
        self.op = op

    @classmethod
    def of(cls, op: Operation | None) -> Self | None:
        """The view of `op`, or None when it is another operation."""
        return cls(op) if op is not None and op.name == cls.NAME else None
