"""Python names for the values of one function, from the names of the user's variables."""

from __future__ import annotations

import keyword
import re

from tawa.ir import Value

TAKEN = {
    "gl", "gluon", "tl", "tma", "mbarrier", "range", "float", "list", "dict", "zip", "getattr", "hasattr", "ValueError",
    "warpgroup_mma", "warpgroup_mma_wait", "tma_load", "tma_store", "thread_barrier", "fence_async_shared", "launch",
    "unfit", "TensorDescriptor",
}  # fmt: skip
_NAME = re.compile(r"[^0-9A-Za-z_]")


class Names:
    """Gives each value one expression: its name, a constant, or what was written in place of it."""

    def __init__(self, taken: set[str]) -> None:
        self.used = {*TAKEN, *taken}
        self.sources: dict[Value, str] = {}

    def fresh(self, wish: str) -> str:
        """A name like `wish` that nothing else has."""
        base = _NAME.sub("_", wish).strip("_") or "x"
        if base[0].isdigit() or keyword.iskeyword(base):
            base = f"x_{base}"
        name, number = base, 1
        while name in self.used:
            number += 1
            name = f"{base}_{number}"
        self.used.add(name)
        return name

    def name(self, value: Value, wish: str = "") -> str:
        """Names a value, after the user's variable if it is known."""
        self.sources[value] = found = self.fresh(wish or value.hint or "x")
        return found

    def __getitem__(self, value: Value) -> str:
        return self.sources[value]

    def __contains__(self, value: Value) -> bool:
        return value in self.sources


__all__ = ["Names"]
