"""Named operands and attributes of a declared operation, as class attributes of its `OpView`.

    class MemDescIndexOp(OpView):
        source = operand(0)          view.source                  →  op.operands[0]
        index = operand(1)           MemDescIndexOp.index.index   →  1

Each is a `property`, so it is as fast as a property written by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

from tawa.ir import Block, Operation, Value
from tawa.ir.attributes import read_array

_T = TypeVar("_T")
_SEGMENTS = "operandSegmentSizes"


class _View(Protocol):
    op: Operation


class Field(property, Generic[_T]):
    """A property whose type is known."""

    def __init__(self, read: Callable[[Any], _T]) -> None:
        super().__init__(read)

    if TYPE_CHECKING:

        @overload
        def __get__(self, view: None, owner: type, /) -> Self: ...
        @overload
        def __get__(self, view: object, owner: type | None = None, /) -> _T: ...
        def __get__(self, view: Any, owner: type | None = None, /) -> Any: ...


class Attribute(Field[_T]):
    """A property of the operation."""


class Operand(Field[Value]):
    """Operand `index`."""

    def __init__(self, index: int) -> None:
        def read(view: _View) -> Value:
            return view.op.operands[index]

        super().__init__(read)
        self.index = index


def operand(index: int) -> Operand:
    """The operand at `index`."""
    return Operand(index)


class Operands(Field[list[Value]]):
    """The operands from index `first` on."""

    def __init__(self, first: int, end: int | None) -> None:
        where = slice(first, end)

        def read(view: _View) -> list[Value]:
            return view.op.operands[where]

        super().__init__(read)
        self.first = first


def operands(first: int, end: int | None = None) -> Operands:
    """The operands from `first` on, up to `end` where it is given."""
    return Operands(first, end)


def optional_operand(place: int) -> Field[Value | None]:
    """The operand of group `place`, None where the group is empty.

    Groups are those of ``operandSegmentSizes``. Without that attribute every operand in front of it is present.
    """

    def read(view: _View) -> Value | None:
        found, sizes = view.op.operands, view.op.properties.get(_SEGMENTS)
        if sizes is None:
            return found[place] if place < len(found) else None
        present = read_array(sizes)
        return found[sum(present[:place])] if present[place] else None

    return Field(read)


def segment(place: int) -> Field[list[Value]]:
    """The operands of group `place` of ``operandSegmentSizes``."""

    def read(view: _View) -> list[Value]:
        sizes = read_array(view.op.properties[_SEGMENTS])
        start = sum(sizes[:place])
        return view.op.operands[start : start + sizes[place]]

    return Field(read)


def attribute(name: str, parse: Callable[[str], _T], default: str | None = None) -> Field[_T]:
    """Property `name` of the operation, read by `parse`; `default` is the text for a missing property."""

    def read(view: _View) -> _T:
        properties = view.op.properties
        return parse(properties[name] if default is None else properties.get(name, default))

    return Attribute(read)


def region(index: int) -> Field[Block]:
    """The only block of region `index`."""

    def read(view: _View) -> Block:
        return view.op.regions[index].block

    return Field(read)


def types_of(values: list[Value]) -> list[str]:
    """The types of values, which structure rules compare."""
    return [value.type for value in values]
