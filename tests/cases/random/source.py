"""Recipes of random Triton kernels: a `Recipe` is a handful of choices, `case_of` makes a case of its kernel.

The choices are: the nesting of tiles and loops, the origin of addresses, how operands are loaded, which dots feed
which, and the operations before, between and after them. `text.render` writes the kernel as a user would.
"""

from __future__ import annotations

import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hypothesis import strategies as st

from tests.cases.case import Argument, Descriptor, Expectation, Number, Pointer, Specimen, Tensor

LIST_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Recipe:
    """The choices of one program.

    dots: "one" to "three" that share A, or a "chain" S = A @ B^T, then P(S) @ U, as in attention. order: of tiles.
    nest: of the loops over K. offset: how the position in K is computed. trips: the trip count, an argument or computed
    in the kernel. guard: an `if` in or around the loop. exit: a return before the loop, in programs with one tile.
    before, between, behind: the operations on A, on the sums in the loop, and on the sums after it. beside: a row that
    is loaded in the loop and feeds no dot. loads: how operands are loaded. edges: how pointer loads treat rows and
    columns out of bounds; fill: the value of other elements out of bounds. advanced: the loop carries the pointers.
    narrow: B is int8, widened before the dot. spare: columns and rows after the last whole tile.
    """

    dtype: Literal["fp16", "bf16"]
    tile: tuple[int, int, int]
    warps: int
    dots: Literal["one", "gate", "three", "chain", "softmax"]
    order: Literal["tile", "for", "while"]
    nest: Literal["one", "two", "nested", "while"]
    offset: Literal["induction", "carried", "listed", "backwards"]
    trips: Literal["given", "triangular", "loaded"]
    count: int
    guard: Literal["none", "around", "every other", "late"]
    exit: Literal["none", "rows", "loaded", "instead", "branch", "behind a store"]
    before: Literal["none", "scale", "relu"]
    between: Literal["none", "scale", "clip"]
    behind: tuple[Literal["bias", "relu", "normalise", "centre", "scan", "square"], ...]
    beside: bool
    loads: Literal["descriptors", "pointers", "mixed"]
    edges: Literal["masked", "wrapped", "clamped"]
    fill: int
    advanced: bool
    narrow: bool
    stored: Literal["descriptor", "pointer"]
    transposed: bool
    spare: int
    depth: int | None
    mma_depth: int | None
    groups: int | None

    @property
    def chained(self) -> bool:
        """Whether one dot feeds another."""
        return self.dots in ("chain", "softmax")

    @property
    def totals(self) -> int:
        """How many sums there are."""
        return {"gate": 2, "three": 3}.get(self.dots, 1)

    def carries_pointers(self, name: str) -> bool:
        """Whether the loop carries the pointers to an operand."""
        return self.advanced and self.offset == "carried" and by_pointer(self, name) and not self.chained


BEHIND = ("bias", "relu", "normalise", "centre", "scan", "square")


@st.composite
def recipes(draw: st.DrawFn, loads: tuple[str, ...] = ("descriptors", "descriptors", "pointers", "mixed")) -> Recipe:
    """Any valid recipe."""

    def one(*choices: Any) -> Any:
        return draw(st.sampled_from(choices))

    depth, warps = one(None, None, 1, 2, 3), one(4, 4, 8)
    return Recipe(
        dtype=one("fp16", "bf16"),
        tile=one((64, 64, 32), (64, 64, 64), (128, 64, 64), (128, 128, 64), (64, 128, 32)),
        warps=warps,
        dots=one("one", "one", "gate", "three", "chain", "softmax"),
        order=one("tile", "for", "while"),
        nest=one("one", "one", "two", "nested", "while"),
        offset=one("induction", "carried", "listed", "backwards"),
        trips=one("given", "given", "triangular", "loaded"),
        count=draw(st.integers(0, 4)),
        guard=one("none", "none", "around", "every other", "late"),
        exit=one("none", "none", "none", "rows", "loaded", "instead", "branch", "behind a store"),
        before=one("none", "none", "none", "scale", "relu"),
        between=one("none", "none", "scale", "clip"),
        behind=tuple(draw(st.lists(st.sampled_from(BEHIND), max_size=2, unique=True))),
        beside=one(False, False, True),
        loads=one(*loads),
        edges=one("masked", "wrapped", "clamped"),
        fill=one(0, 0, 0, 1),
        advanced=draw(st.booleans()),
        narrow=one(False, False, False, True),
        stored=one("descriptor", "pointer"),
        transposed=draw(st.booleans()),
        spare=one(0, 0, 16, 40),
        depth=depth,
        mma_depth=None if depth is None else one(None, *range(min(depth, 3))),
        groups=one(None, None, 1, 2) if warps == 8 else None,
    )


def by_pointer(recipe: Recipe, name: str) -> bool:
    """Whether an operand is loaded through pointers."""
    return recipe.loads == "pointers" or (recipe.loads == "mixed" and name in ("a", "w"))


def operands_of(recipe: Recipe) -> dict[str, tuple[tuple[str, str], tuple[str, str]]]:
    """Shape and box of each operand."""
    if recipe.chained:
        return {"a": (("M", "BK"), ("BM", "BK")), "b": (("K", "BK"), ("BK", "BK")), "u": (("K", "N"), ("BK", "BN"))}
    kind = (("N", "K"), ("BN", "BK")) if recipe.transposed else (("K", "N"), ("BK", "BN"))
    names = ("b", "u", "w")[: recipe.totals]
    return {"a": (("M", "K"), ("BM", "BK")), **dict.fromkeys(names, kind)}


def arguments_of(recipe: Recipe) -> dict[str, Argument]:
    """The arguments by name."""
    found: dict[str, Argument] = {}
    for name, (_, box) in operands_of(recipe).items():
        pointer = by_pointer(recipe, name)
        found[f"{name}_{'ptr' if pointer else 'desc'}"] = Pointer(name) if pointer else Descriptor(name, box)
    found |= {"c_desc": Descriptor("c", ("BM", "BN"))} if recipe.stored == "descriptor" else {"c_ptr": Pointer("c")}
    found |= {"bias_ptr": Pointer("bias")} if "bias" in recipe.behind else {}
    found |= {"side_ptr": Pointer("side")} if recipe.beside else {}
    found |= {"list_ptr": Pointer("list")} if recipe.offset == "listed" else {}
    exits = recipe.exit == "loaded" and recipe.order == "tile"
    found |= {"trips_ptr": Pointer("trips")} if recipe.trips == "loaded" or exits else {}
    return found | {name: Number(name) for name in ("M", "N", "K", "TRIPS")}


def constants_of(recipe: Recipe) -> dict[str, int]:
    """The constants by name."""
    bm, bn, bk = recipe.tile
    return {"BM": bm, "BN": bn, "BK": bk, **({} if recipe.order == "tile" else {"PROGRAMS": 3})}


def case_of(recipe: Recipe, kernel: Any, name: str) -> Specimen:
    """The kernel with its tensors: two rows and two columns of tiles, and `spare` more rows and columns."""
    bm, bn, bk = recipe.tile
    sizes = {"M": 2 * bm + recipe.spare, "N": bn + recipe.spare, "K": recipe.count * bk - (recipe.spare > 16) * 24}
    sizes = {**sizes, "K": max(sizes["K"], 0), "TRIPS": recipe.count, "PROGRAMS": 3, "L": LIST_LENGTH}
    tensors = {key: Tensor(shape, recipe.dtype) for key, (shape, _) in operands_of(recipe).items()}
    if recipe.narrow:
        tensors["b"] = Tensor(tensors["b"].shape, "i8", "integers", span=(-8, 8))
    tensors |= {
        "c": Tensor(("M", "N"), recipe.dtype, "nan"),
        "bias": Tensor(("N",), "fp32"),
        "side": Tensor(("L", "BN"), "fp32"),
        "list": Tensor(("L",), "i32", "values", values=tuple(i * 3 % max(recipe.count, 1) for i in range(LIST_LENGTH))),
        "trips": Tensor(
            ("L",), "i32", "values", values=tuple((i + 1) % (recipe.count + 1) for i in range(LIST_LENGTH))
        ),
    }
    return Specimen(
        name,
        kernel,
        arguments_of(recipe),
        tensors,
        constants_of(recipe),
        sizes,
        "tiles_2d" if recipe.order == "tile" else "programs",
        "",
        Expectation("either"),
        num_warps=recipe.warps,
    )


def load_kernel(source: str, folder: Path) -> Any:
    """The kernel of a source text; Triton reads it from a file."""
    name = "program_" + hashlib.sha256(source.encode()).hexdigest()[:12]
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel
