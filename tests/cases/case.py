"""`Case`: one kernel at one configuration, with everything needed to compile, simulate or launch it.

A case names the kind of each argument (host descriptor, pointer, number, absent). One description therefore gives the
signature for an ahead-of-time compile (no GPU, no torch), the arrays of a simulation (`tests.cases.arrays`) and the
tensors of a launch (`tests.cases.launch`). A size is a text over the names of the problem sizes and of the constexprs:
``"K"``, ``"Z*M"``, ``"BN/2"``. A `Specimen` is a case with what Tawa must make of it and what it must compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

Size = str | int
Grid = Literal["tiles", "tiles_2d", "tiles_3d", "tiles_batch", "programs", "rows", "queries", "keys", "sequences"]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of the problem.

    dtype: Triton's name of the element type. fill: the initial contents (outputs: NaN). mean: of the normal numbers.
    span: the range of random integers, upper bound excluded. values: the elements in row-major order if `fill` is
    "values". If `fill` is "addresses", each element is an address in the tensor `base`, and `values` has the indices of
    the elements that they point to.
    """

    shape: tuple[Size, ...]
    dtype: str
    fill: Literal["normal", "nan", "zero", "trips", "values", "integers", "addresses"] = "normal"
    mean: float = 0.0
    values: tuple[float, ...] = ()
    span: tuple[int, int] = (-128, 128)
    base: str = ""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """An argument that is a host tensor descriptor over `tensor` with the box `block`.

    shape, strides: of the descriptor, in elements; None for those of the tensor.
    """

    tensor: str
    block: tuple[Size, ...]
    shape: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] | None = None


@dataclass(frozen=True, slots=True)
class Pointer:
    """An argument that is a pointer to `tensor`, divisible by 16."""

    tensor: str


@dataclass(frozen=True, slots=True)
class Number:
    """An argument that is a number: an int32 size, or a float32."""

    value: Size | float


@dataclass(frozen=True, slots=True)
class Absent:
    """An argument passed as None, which a constexpr branch leaves unused."""


@dataclass(frozen=True, slots=True)
class One:
    """An argument that is 1, such as the innermost stride of a tensor: a launch makes it a constant."""


Argument = Descriptor | Pointer | Number | Absent | One


@dataclass(frozen=True, slots=True)
class Case:
    """One kernel at one configuration, on one problem.

    arguments, tensors, constexprs: by name. sizes: the problem sizes by name. grid: how the launch grid follows from
    the sizes. more_options: Triton's launch options other than `num_warps` and `num_stages`.
    """

    name: str
    kernel: Any
    arguments: Mapping[str, Argument]
    tensors: Mapping[str, Tensor]
    constexprs: Mapping[str, Any]
    sizes: Mapping[str, int]
    grid: Grid
    num_warps: int = field(default=4, kw_only=True)
    num_stages: int = field(default=3, kw_only=True)
    more_options: Mapping[str, Any] = field(default_factory=dict[str, Any], kw_only=True)

    def size(self, text: Size) -> int:
        """The value of a size text over the problem sizes and constexprs."""
        if isinstance(text, int):
            return text
        value = 1
        for factor in text.split("*"):
            name, _, divisor = factor.partition("/")
            known = self.sizes[name] if name in self.sizes else int(self.constexprs[name])
            value *= known // int(divisor or 1)
        return value

    def shape(self, tensor: str) -> tuple[int, ...]:
        """The allocated shape of a tensor: an empty dimension gets 16, as a descriptor cannot be empty."""
        return tuple(self.size(dim) or 16 for dim in self.tensors[tensor].shape)

    def signature(self) -> dict[str, str]:
        """Argument types in Triton's notation, constexprs included, in the order of the kernel's parameters."""
        types = {name: self._type_of(argument) for name, argument in self.arguments.items()}
        return {name: types.get(name, "constexpr") for name in self.kernel.arg_names}

    def constants(self) -> dict[str, Any]:
        """Every compile-time value: constexprs, None for absent arguments, 1 for those that are 1."""
        absent = {name: None for name, argument in self.arguments.items() if isinstance(argument, Absent)}
        ones = {name: 1 for name, argument in self.arguments.items() if isinstance(argument, One)}
        return {**absent, **ones, **self.constexprs}

    def attributes(self) -> dict[tuple[int], list[list[Any]]]:
        """Divisibility by 16, as the launcher would find it: all pointers, and the sizes where it holds."""
        marked = {
            index
            for index, name in enumerate(self.kernel.arg_names)
            if (argument := self.arguments.get(name)) is not None and self._divisible(argument)
        }
        return {(index,): [["tt.divisibility", 16]] for index in sorted(marked)}

    def options(self) -> dict[str, Any]:
        """Triton's launch options."""
        return {"num_warps": self.num_warps, "num_stages": self.num_stages, **self.more_options}

    def launch_grid(self) -> tuple[int, ...]:
        """The grid of a launch."""
        match self.grid:
            case "programs":
                return (self.sizes["PROGRAMS"],)
            case "rows":
                return (self._tiles("M", "BM"),)
            case "tiles_2d":
                return (self._tiles("M", "BM"), self._tiles("N", "BN"))
            case "tiles_3d":
                return (self._tiles("M", "BM"), self._tiles("N", "BN"), self.size("Z"))
            case "tiles":
                return (self._tiles("M", "BM") * self._tiles("N", "BN"),)
            case "tiles_batch":
                return (self._tiles("M", "BM") * self._tiles("N", "BN"), self.size("Z"))
            case "queries":
                return (self._tiles("SQ", "BM"), self.size("B*H"))
            case "keys":
                return (self._tiles("SK", "BN"), self.size("B*HK"))
            case "sequences":
                return (self._tiles("LONGEST", "BM"), self.size("H"), self.size("B"))

    def with_sizes(self, **sizes: int) -> Self:
        """The same kernel and configuration on another problem."""
        return replace(self, sizes={**self.sizes, **sizes})

    def _tiles(self, dim: str, block: str) -> int:
        return -(-self.sizes[dim] // self.size(block))

    def _type_of(self, argument: Argument) -> str:
        match argument:
            case Descriptor(tensor, block, _, _):
                box = ",".join(str(self.size(dim)) for dim in block)
                return f"tensordesc<{self.tensors[tensor].dtype}[{box}]>"
            case Pointer(tensor):
                return f"*{self.tensors[tensor].dtype}"
            case Number(value):
                return "fp32" if isinstance(value, float) else "i32"
            case Absent() | One():
                return "constexpr"

    def _divisible(self, argument: Argument) -> bool:
        match argument:
            case Pointer():
                return True
            case Number(value) if not isinstance(value, float):
                return self.size(value) % 16 == 0
            case _:
                return False


Verdict = Literal["specialised", "declined", "either"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """What Tawa must make of a case.

    verdict: "specialised", "declined" (byte for byte stock, with `reason` in the remark), or "either" (both are right).
    payloads: how many tensors each ring carries, in program order.
    sites: places in the program where a ring is written (and read); consecutive sites may share a ring.
    dots: dots of one iteration, by loop: ``(1,)`` one loop with one dot, ``(2,)`` gate and up, ``(1, 1)`` two loops.
    in_flight: whether wgmmas may stay in flight across iterations; otherwise P is 0 even if another P was asked for.
    copied: sites whose slots are read into registers only, and released at once.
    """

    verdict: Verdict
    reason: str = ""
    payloads: tuple[int, ...] = (2,)
    sites: int = 1
    dots: tuple[int, ...] = (1,)
    in_flight: bool = True
    copied: int = 0

    def releases(self, mma_depth: int) -> int:
        """The number of `aref.consumed` in the program: in the loop, and after it for each wgmma in flight."""
        return self.sites + (self.sites - self.copied) * mma_depth * self.in_flight

    def waits(self, mma_depth: int) -> list[int]:
        """The `pendings` of the wgmma waits, smallest first.

        One wait per loop, and one with 0 after the loop if any wgmma stays in flight; one wait per dot if dots may not
        overlap.
        """
        if not self.in_flight:
            return [0] * sum(self.dots)
        if mma_depth == 0:
            return [0] * len(self.dots)
        return sorted(pendings for dots in self.dots for pendings in (0, dots * mma_depth))


@dataclass(frozen=True, slots=True)
class Specimen(Case):
    """A case of the tests.

    reference: names the function of the references that computes its outputs; empty if none does. plans: the (D, P) it
    is run with. tags: properties that tests select by.
    """

    reference: str
    expect: Expectation
    plans: tuple[tuple[int, int], ...] = ((3, 1),)
    tags: frozenset[str] = field(default_factory=frozenset[str])
