"""How an operation is declared: one class that names its operands, attributes, traits, effects and structure rule.

    class StoreOp(OpView):
        NAME = "tt.store"
        EFFECTS = (Effect("write", "global", "pointers"),)
        pointers, source = operand(0), operand(1)
        mask = optional_operand(2)

A class with a ``NAME`` of its own declares that operation. A class without one is a family (`BinaryOp`) or views
some operations of its parent class (`Refinement`). All other modules look operations up by class: ``StoreOp.of(op)``,
``StoreOp.matches(op)``, ``op.name in op_names(LoadOp, StoreOp)``, ``by_name({ForOp: run_for})``.

An operation that no class declares is opaque, as is one whose class says `OPAQUE`: it may have any effect, must not be
copied, and nothing may move across it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar

from tawa.ir import Operation, Value

EffectKind = Literal["read", "write", "allocate", "order", "barrier", "hint", "grids", "any"]
Space = Literal["global", "shared", "tensor", "none"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. `operand` is the name of the address operand, None if the effect has no address.

    read, write: memory of `space`. allocate: new memory. order: visible outside, in program order (print, assert).
    barrier: synchronises all warps of the kernel. hint: advice to the hardware; it may be repeated. grids: waits for
    grids that were launched earlier; it may be repeated, and done earlier. any: unknown.
    """

    kind: EffectKind
    space: Space = "none"
    operand: str | None = None


ANY_EFFECT = (Effect("any"),)


class _WithoutState(type):
    """The class of declarations: their instances have no attributes of their own."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _WithoutState:
        """Makes a declaration."""
        return super().__new__(cls, name, bases, {"__slots__": (), **namespace})


class OpView(metaclass=_WithoutState):
    """Base of all declarations. An instance is a typed view of one operation and holds no state but the operation.

    NAME: the operation. EFFECTS: its effects, without those of nested operations. TERMINATOR: it ends a
    block. ISOLATED: its regions do not use values from outside. RECURSIVE: it also has the effects of nested
    operations. OPAQUE: its effects are unknown.
    """

    __slots__ = ("op",)
    NAME: ClassVar[str]
    EFFECTS: ClassVar[tuple[Effect, ...]] = ()
    TERMINATOR: ClassVar[bool] = False
    ISOLATED: ClassVar[bool] = False
    RECURSIVE: ClassVar[bool] = False
    OPAQUE: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "NAME" not in cls.__dict__:
            return
        if cls.NAME in _DECLARED:
            raise ValueError(f"{cls.NAME} is declared twice")
        _DECLARED[cls.NAME] = cls

    def __init__(self, op: Operation) -> None:
        if op.name != self.NAME:
            raise ValueError(f"{type(self).__name__} reads {self.NAME}, not {op.name}")
        self.op = op

    @classmethod
    def of(cls, op: Operation | None) -> Self | None:
        """The view of `op`, or None when it is another operation."""
        return cls(op) if op is not None and op.name == cls.NAME else None

    @classmethod
    def matches(cls, op: Operation | None) -> bool:
        """Whether `op` is this operation."""
        return op is not None and op.name == cls.NAME

    def effects(self) -> tuple[Effect, ...]:
        """The effects of this operation: `EFFECTS`, unless they depend on its attributes."""
        return self.EFFECTS

    def check(self) -> str | None:
        """The structure rule: why this operation is invalid; None if it is valid."""
        return None


class Refinement(OpView):
    """Base of views of some operations of another class: those for which `matches` is true.

    Named before the class that it refines: ``class GroupIndexOp(Refinement, ElementwiseInlineAsmOp)``.
    """

    def __init__(self, op: Operation) -> None:
        super().__init__(op)
        if not self.matches(op):
            raise ValueError(f"{type(self).__name__} does not read this {op.name}")

    @classmethod
    def of(cls, op: Operation | None) -> Self | None:
        """The view of `op`, or None when it is another operation."""
        return cls(op) if op is not None and op.name == cls.NAME and cls.matches(op) else None


_DECLARED: dict[str, type[OpView]] = {}


def op_class(name: str) -> type[OpView] | None:
    """The class that declares `name`; None where none does."""
    return _DECLARED.get(name)


def declared_ops() -> tuple[type[OpView], ...]:
    """Every declared operation, in the order of declaration."""
    return tuple(_DECLARED.values())


def is_opaque(name: str) -> bool:
    """Whether the effects of the operation are unknown."""
    declared = _DECLARED.get(name)
    return declared is None or declared.OPAQUE


def effects_by_name(name: str) -> tuple[Effect, ...]:
    """The declared effects of an operation."""
    declared = _DECLARED.get(name)
    return ANY_EFFECT if declared is None else declared.EFFECTS


def address_of(op: Operation, effect: Effect) -> Value | None:
    """The address operand of an effect that `op` itself has; None where the effect has none."""
    declared = _DECLARED.get(op.name)
    if declared is None or effect.operand is None:
        return None
    address: Value = getattr(declared(op), effect.operand)
    return address


def global_address(op: Operation) -> Value:
    """The address operand of an operation that touches global memory; raises ValueError for any other operation."""
    declared = _DECLARED.get(op.name)
    for effect in declared.EFFECTS if declared else ():
        if effect.space == "global" and (address := address_of(op, effect)) is not None:
            return address
    raise ValueError(f"{op.name} does not touch global memory")


def is_terminator(name: str) -> bool:
    """Whether the operation ends a block."""
    declared = _DECLARED.get(name)
    return declared is not None and declared.TERMINATOR


def op_names(*classes: type[OpView]) -> frozenset[str]:
    """The names of classes, for ``op.name in …`` in loops over many operations."""
    return frozenset(it.NAME for it in classes)


def by_name(table: Mapping[type[OpView], _T]) -> dict[str, _T]:
    """A dispatch table by class as a table by operation name: ``by_name({ForOp: run_for})[op.name]``."""
    return {declared.NAME: entry for declared, entry in table.items()}
