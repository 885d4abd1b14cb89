"""What a kernel was compiled for, in the names of its parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tawa.symbolic.host.launch_spec import LaunchSpec


@dataclass(frozen=True, slots=True)
class Made:
    """What a kernel was compiled for.

    parameters: of the kernel in Triton. constants: values of parameters, or of parts of tuples (``pair[1]``).
    defaults: of constexprs, where the kernel has others than the constants. types: in Triton's notation, of what is no
    constant. divisible: what is a multiple of 16, numbers and addresses.
    values, passed: by argument of the kernel's function, its number (addresses of pointers) and its object; the object
    of a size or a stride of a descriptor is empty. launch: what Tawa's launcher adds. options: of launches, beside
    those that stand in the program.
    """

    parameters: Sequence[str]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    types: Mapping[str, str] = field(default_factory=dict[str, str])
    divisible: Collection[str] = ()
    values: Sequence[str] = ()
    passed: Sequence[str] = ()
    launch: LaunchSpec = field(default_factory=LaunchSpec)
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def value_of(self, index: int) -> str:
        """The number of an argument of the kernel's function."""
        return self.values[index]

    @property
    def functions(self) -> Mapping[str, str]:
        """Names of the functions among the constants, by parameter."""
        return {name: it.__name__ for name, it in self.constants.items() if callable(it) and hasattr(it, "__name__")}

    @property
    def plain_constants(self) -> Mapping[str, Any]:
        """The other constants that are parameters."""
        return {it: value for it, value in self.constants.items() if it.isidentifier() and it not in self.functions}
