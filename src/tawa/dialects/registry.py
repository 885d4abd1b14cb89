"""What is known of each operation: its effects on memory and its structural traits.

One `OpSpec` per operation name, declared in the file of its dialect. An operation that no file declares is opaque: it
may do anything (`UNKNOWN`), and nothing may be moved across it or copied.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

EffectKind = Literal["read", "write", "allocate", "order", "barrier", "any"]
Space = Literal["global", "shared", "none"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect. `operand` is the index of the address operand, None where there is none.

    read, write: memory of `space`. allocate: new memory. order: visible outside, in program order (print, assert).
    barrier: synchronises all warps of the kernel. any: unknown.
    """

    kind: EffectKind
    space: Space = "none"
    operand: int | None = None


@dataclass(frozen=True, slots=True)
class OpSpec:
    """What is known of one operation name."""

    name: str
    effects: tuple[Effect, ...] = ()
    terminator: bool = False
    isolated: bool = False
    recursive: bool = False  # the effects of the nested operations are its effects too


UNKNOWN = OpSpec("?", (Effect("any"),), recursive=True)

_SPECS: dict[str, OpSpec] = {}


def declare(*specs: OpSpec) -> None:
    """Adds specs; each name is declared once, by its own dialect."""
    for spec in specs:
        if spec.name in _SPECS:
            raise ValueError(f"{spec.name} is declared twice")
        _SPECS[spec.name] = spec


def declare_pure(prefix: str, names: str | Iterable[str]) -> None:
    """Declares operations without effects: `names` may be one string of words."""
    words = names.split() if isinstance(names, str) else names
    declare(*(OpSpec(f"{prefix}.{name}") for name in words))


def spec_of(name: str) -> OpSpec:
    """The spec of `name`, or `UNKNOWN`."""
    return _SPECS.get(name, UNKNOWN)


def all_specs() -> tuple[OpSpec, ...]:
    """Every declared spec, in the order of declaration."""
    return tuple(_SPECS.values())
