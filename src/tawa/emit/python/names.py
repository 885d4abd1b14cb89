"""Python names for the values of one function, from the names of the user's variables.

A name is taken again, as a user would assign a variable again, where nothing needs its old value.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tawa.ir import Block, Value

TAKEN = {
    "gl", "gluon", "tl", "tma", "mbarrier", "range", "float", "list", "dict", "zip", "getattr", "hasattr", "ValueError",
    "warpgroup_mma", "warpgroup_mma_wait", "tma_load", "tma_store", "thread_barrier", "fence_async_shared", "launch",
    "unfit", "TensorDescriptor", "Ring", "mbarriers", "advance", "aggregate", "triton", "contextvars", "len", "sum",
    "TensorMemoryLayout", "allocate_tensor_memory", "tcgen05_mma", "tcgen05_commit", "reinterpret",
    "TensorMemoryScalesLayout", "tcgen05_copy", "tcgen05_mma_scaled",
}  # fmt: skip
_NAME = re.compile(r"[^0-9A-Za-z_]")


@dataclass
class Holder:
    """The value that a variable holds, and the block in which it was assigned."""

    value: Value
    block: Block


@dataclass
class Names:
    """Gives each value one expression: its name, a constant, or what is written in place of it.

    used: names that are not free. holders: of names that may be taken again.
    """

    used: set[str]
    sources: dict[Value, str] = field(default_factory=dict[Value, str])
    holders: dict[str, Holder] = field(default_factory=dict[str, Holder])

    def fresh(self, wish: str) -> str:
        """An unused name like `wish`."""
        name = next(it for it in _like(wish) if it not in self.used and it not in TAKEN)
        self.used.add(name)
        return name

    def again(self, wish: str, free: Callable[[Holder], bool]) -> str | None:
        """A name like `wish` whose value is dead; None if there is no such name."""
        for name in _like(wish):
            if name not in self.used and name not in TAKEN:
                return None
            if name in self.holders and free(self.holders[name]):
                return name
        return None

    def give(self, value: Value, name: str, block: Block | None = None) -> None:
        """Makes this the name of a value; block: where it is assigned, if the name may be taken again."""
        self.sources[value] = name
        if block is None:
            self.holders.pop(name, None)
        else:
            self.holders[name] = Holder(value, block)

    def __getitem__(self, value: Value) -> str:
        return self.sources[value]

    def __contains__(self, value: Value) -> bool:
        return value in self.sources


def _like(wish: str) -> Iterator[str]:
    base = _NAME.sub("_", wish).strip("_") or "x"
    if base[0].isdigit() or keyword.iskeyword(base):
        base = f"x_{base}"
    yield base
    number = 1
    while True:
        number += 1
        yield f"{base}_{number}"
