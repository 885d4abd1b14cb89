"""Random loops around dots: steps and bounds of every kind, nested or consecutive loops, with several dots.

    for t0 in range(pid, T, tl.num_programs(0)):        a step: a constant, an argument, of the grid, computed, negative
        acc = zeros
        for t1 in range(LO, t0 + 1, 2 * S):             a bound: a constant, an argument, a loop around it, 64 bits
            acc = dot(a.load(…), b.load(…), acc)        one to three, written out or in a `tl.static_range`
            acc = dot(a.load(…), b.load(…), acc)
        c.store(…, acc)

`examine` compiles such a program, wherever that is legal or pinned, which also proves it, and simulates several
launches. ``python -m tests.cases.random.loops --count 150 --seed 1`` prints the outcome of each.
"""

from __future__ import annotations

import argparse
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tawa.bridge.driver.data import Specialised
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.errors import PlanError, ResourceError
from tawa.plan import PlanOptions
from tests.cases.case import Descriptor, Expectation, Number, Specimen, Tensor
from tests.cases.random.programs import TILES_ON, Finding
from tests.cases.random.source import load_kernel
from tests.cases.random.text import Lines
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import attempted
from tests.support.verdicts import passes

LAUNCHES: tuple[dict[str, int], ...] = (
    {"T": 5, "U": 3, "LO": -1, "S": 2, "PROGRAMS": 2},
    {"T": 0, "U": 0, "LO": 0, "S": 1, "PROGRAMS": 1},
    {"T": 1, "U": 7, "LO": 1, "S": 3, "PROGRAMS": 3},
    {"T": 7, "U": 2, "LO": -5, "S": 1, "PROGRAMS": 1},
)
LOWERS = ("0", "pid", "LO", "-3", "pid * 2", "LO + pid")
UPPERS = ("T", "U", "T - 1", "4", "T.to(tl.int64)", "min(T, U)")
STEPS = (
    "1", "2", "S", "S", "tl.num_programs(0)", "tl.num_programs(0)", "2 * S", "S + 1", "pid + 1",
    "tl.num_programs(0) * S", "S.to(tl.int64)", "-1", "-2",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Header:
    """One loop: bounds and step. A negative step counts down from the upper bound."""

    lower: str
    upper: str
    step: str

    @property
    def text(self) -> str:
        """The text after ``in``."""
        ends = (f"{self.upper} - 1", f"{self.lower} - 1") if self.step.startswith("-") else (self.lower, self.upper)
        return f"range({', '.join(ends)}, {self.step})"


@dataclass(frozen=True, slots=True)
class Nest:
    """Nested loops. anew: inside how many of them the sum begins and is stored; scaled: in how many it is scaled."""

    headers: tuple[Header, ...]
    dots: int
    unrolled: bool
    anew: int
    scaled: bool


@dataclass(frozen=True, slots=True)
class Loops:
    """One program: consecutive nests, its warps, and the options of the compile."""

    nests: tuple[Nest, ...]
    warps: int
    groups: int | None
    depth: int | None
    pinned: bool

    @property
    def options(self) -> PlanOptions:
        """Pinned, or wherever that is legal."""
        asked: dict[str, Any] = {"enable_warp_specialization": True} if self.pinned else {"only_if_faster": False}
        return PlanOptions(aref_depth=self.depth, num_consumer_groups=self.groups, **asked)


@st.composite
def headers(draw: st.DrawFn, outer: tuple[str, ...] = ()) -> Header:
    """Any loop inside the loops with the variables `outer`."""
    more = tuple(f"{name} + 1" for name in outer)
    lower = draw(st.sampled_from(LOWERS))
    return Header(lower, draw(st.sampled_from(UPPERS + more)), draw(st.sampled_from(STEPS)))


@st.composite
def programs(draw: st.DrawFn) -> Loops:
    """Any program."""
    nests: list[Nest] = []
    for _ in range(draw(st.sampled_from((1, 1, 2)))):
        depth = draw(st.sampled_from((1, 1, 2, 2, 3)))
        loops = tuple(draw(headers(tuple(f"t{it}" for it in range(level)))) for level in range(depth))
        dots = draw(st.integers(1, 3))
        nests.append(Nest(loops, dots, draw(st.booleans()), draw(st.integers(0, depth)), draw(st.booleans())))
    warps = draw(st.sampled_from((4, 8, 8)))
    groups = draw(st.sampled_from((None, 1, 2))) if warps == 8 else None
    return Loops(tuple(nests), warps, groups, draw(st.sampled_from((None, None, 1, 2))), draw(st.booleans()))


def render(program: Loops) -> str:
    """The source of the kernel called ``kernel``."""
    out = Lines()
    out("import triton", "import triton.language as tl", "", "", "@triton.jit")
    names = "a_desc, b_desc, c_desc, T, U, LO, S, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr"

    def body() -> None:
        out("pid = tl.program_id(0)")
        for number, nest in enumerate(program.nests):
            _level(out, nest, number, 0)

    out.block(f"def kernel({names}):", body)
    return "\n".join(out.lines) + "\n"


def _level(out: Lines, nest: Nest, number: int, level: int) -> None:
    if level == nest.anew:
        out("acc = tl.zeros((BM, BN), dtype=tl.float32)")
    if level == len(nest.headers):
        _dots(out, nest)
    else:
        out.block(f"for t{level} in {nest.headers[level].text}:", lambda: _level(out, nest, number, level + 1))
    if level == nest.anew:
        if nest.scaled:
            out("acc = acc * 0.5")
        row = f"(t{level - 1} + {number}).to(tl.int32) * BM" if level else "pid * BM"
        out(f"c_desc.store([{row}, (2 * pid + {number}) * BN], acc.to(tl.float16))")


def _dots(out: Lines, nest: Nest) -> None:
    first, last = "t0.to(tl.int32)", f"t{len(nest.headers) - 1}.to(tl.int32)"
    text = "acc = tl.dot(a_desc.load([{m} * BM, ({k} + {j}) * BK]), b_desc.load([({k} + {j}) * BK, 0]), acc)"
    if nest.unrolled:
        dots = [text.format(m=first, k=last, j="j")]
        out.block(f"for j in tl.static_range({nest.dots}):", lambda: out(*dots))
    else:
        out(*(text.format(m=first, k=last, j=j) for j in range(nest.dots)))


def case_of(program: Loops, folder: Path) -> Specimen:
    """The kernel with its tensors; out of bounds it loads zeros and stores nothing."""
    bm, bn, bk = 128 if program.groups == 2 else 64, 64, 32  # 64 rows a group
    arguments = {
        "a_desc": Descriptor("a", ("BM", "BK")),
        "b_desc": Descriptor("b", ("BK", "BN")),
        "c_desc": Descriptor("c", ("BM", "BN")),
        **{name: Number(name) for name in ("T", "U", "LO", "S")},
    }
    tensors = {
        "a": Tensor(("M", "K"), "fp16"),
        "b": Tensor(("K", "N"), "fp16"),
        "c": Tensor(("M", "N2"), "fp16", "nan"),
    }
    sizes = {**LAUNCHES[0], "M": 3 * bm, "K": 5 * bk, "N": bn, "N2": 6 * bn}  # two columns of tiles a program
    constants = {"BM": bm, "BN": bn, "BK": bk}
    kernel = load_kernel(render(program), folder)
    return Specimen(
        "loops",
        kernel,
        arguments,
        tensors,
        constants,
        sizes,
        "programs",
        "",
        Expectation("either"),
        num_warps=program.warps,
    )


def examine(program: Loops, folder: Path, tiles_on: int | None = None) -> Finding:
    """Compiles, proves and simulates one program. tiles_on: the number of programs of a persistent form."""
    case = case_of(program, folder)
    options = program.options if tiles_on is None else replace(program.options, persistent=True)
    try:
        plain = attempted(case, program.options)[1] if tiles_on else None
        with launched_by_us(tiles_on is not None):
            found, levels = attempted(case, options)
    except (PlanError, ResourceError) as error:
        return Finding("refused", str(error).splitlines()[0])
    except Exception as error:
        return Finding("failed", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
    if not isinstance(found, Specialised):
        return Finding("declined", found.remarks[0].reason)
    try:
        for sizes in LAUNCHES:
            launch = case.with_sizes(**sizes)
            wanted = simulated(launch, unspecialised(launch, levels if plain is None else plain))
            other = orders_with_other_bits(launch, levels, wanted, tiles_on)
            if other:
                return Finding("failed", f"other bits in the orders {', '.join(other)} for {sizes}")
    except Exception as error:
        return Finding("failed", f"{type(error).__name__}: {error}\n{traceback.format_exc(limit=-3)}")
    proved = passes(found.outcome.verdict)
    return Finding("specialised", "" if proved else f"not proved: {found.outcome.verdict}")


def every(count: int, number: int, visit: Callable[[Loops], None]) -> None:
    """Calls `visit` with `count` programs drawn from the seed `number`, each once."""
    seen: set[Loops] = set()

    @seed(number)
    @settings(max_examples=4 * count, database=None, phases=(Phase.generate,),
              suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
    @given(programs())
    def run(program: Loops) -> None:
        if program not in seen and len(seen) < count:
            seen.add(program)
            visit(program)

    run()


def main() -> int:
    """Examines many programs; returns 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=150)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--persistent", action="store_true", help=f"made persistent, on {TILES_ON} programs")
    arguments = parser.parse_args()
    counts, folder = Counter[str](), Path(tempfile.mkdtemp(prefix="tawa-loops-"))

    def visit(program: Loops) -> None:
        found = examine(program, folder, TILES_ON if arguments.persistent else None)
        counts[found.status] += 1
        print(
            f"{counts.total():4} {found.status:12} {found.reason.splitlines()[0] if found.reason else ''}", flush=True
        )
        if found.status == "failed" or found.reason.startswith("not proved"):
            print(program, render(program), found.reason, sep="\n", flush=True)

    every(arguments.count, arguments.seed, visit)
    print(dict(counts))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
