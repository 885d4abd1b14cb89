"""A worklist that gives each item once, and takes more while it is read.

work = Worklist([value])
for value in work:
    work += value.defining_op.operands      # those that were there before are left out
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Generic, Self, TypeVar

T = TypeVar("T", bound=Hashable)


class Worklist(Generic[T]):
    """The last item that was added comes first. given: the items that were given so far."""

    __slots__ = ("_left", "given")

    def __init__(self, items: Iterable[T]) -> None:
        self._left = list(items)
        self.given: set[T] = set()

    def __iadd__(self, items: Iterable[T]) -> Self:
        self._left += items
        return self

    def __iter__(self) -> Iterator[T]:
        while self._left:
            item = self._left.pop()
            if item not in self.given:
                self.given.add(item)
                yield item
