"""Random Triton kernels: whether they compile, are proved, and give the same bits when specialised.

`examine` compiles a program of `source.py` wherever that is legal (which verifies it). It simulates the unspecialised
program, and the specialised one in three orders.

``python -m tests.cases.random.programs --count 300 --seed 1`` writes ``bench/results/random_programs.json``: counts,
reasons, and the source of every program that failed. With ``--persistent`` each is made persistent first, and compared
with the original (``random_programs_persistent.json``); with ``--programs N``, N neighbours share a CTA
(``random_programs_grouped.json``).
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from hypothesis import HealthCheck, Phase, given, seed, settings

from tawa.bridge.driver.data import Specialised
from tawa.bridge.driver.stock_run import StockFailure
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.errors import PlanError, ResourceError
from tawa.plan import Plan, PlanOptions
from tawa.sim.errors import UnsupportedOp
from tests.cases.random.source import Recipe, case_of, load_kernel, recipes
from tests.cases.random.text import render
from tests.cases.simulated import orders_with_other_bits, simulated, unspecialised
from tests.matrix.compiling import attempted

TILES_ON = 2
Status = Literal["specialised", "declined", "refused", "not simulated", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a program; reason: of anything but success. fills: how each of its rings is filled."""

    status: Status
    reason: str = ""
    fills: tuple[str, ...] = ()


def options_of(recipe: Recipe) -> PlanOptions:
    """Specialise wherever that is legal, as the recipe asks."""
    return PlanOptions(
        aref_depth=recipe.depth,
        mma_depth=recipe.mma_depth,
        num_consumer_groups=recipe.groups,
        only_if_faster=False,
    )


def persistent_options(recipe: Recipe) -> PlanOptions:
    """The same for a persistent form, without descriptors made by the launcher, which are not simulated here."""
    return replace(options_of(recipe), persistent=True, pointer_loads="cp.async")


def grouped_options(recipe: Recipe) -> PlanOptions:
    """The same for programs that share a CTA, whose number the Plan has."""
    return replace(options_of(recipe), num_consumer_groups=None, pointer_loads="cp.async")


def examine(recipe: Recipe, folder: Path, tiles_on: int | None = None, programs: int = 0) -> Finding:
    """Compiles, verifies and simulates one program.

    tiles_on: the number of programs of a persistent form. programs: of the grid that share a CTA.
    """
    source, plan = render(recipe), Plan(groups=programs, split="programs") if programs else None
    options = options_of(recipe) if tiles_on is None else persistent_options(recipe)
    options = grouped_options(recipe) if programs else options
    ours = bool(tiles_on or programs)
    try:
        case = case_of(recipe, load_kernel(source, folder), "program")
        plain = attempted(case, options_of(recipe))[1] if ours else None
        with launched_by_us(ours):
            found, levels = attempted(case, options, plan)
    except (PlanError, ResourceError) as error:
        return Finding("refused", _first_line(error))
    except StockFailure as error:
        return Finding("failed", f"Triton refuses the program: {_first_line(error)}")
    except Exception as error:
        return Finding("failed", f"{type(error).__name__}: {_first_line(error)}\n{traceback.format_exc(limit=-3)}")
    if not isinstance(found, Specialised):
        remark = found.remarks[0].reason if found.remarks else "no reason given"
        internal = "internal" in remark
        return Finding("failed" if internal else "declined", remark)
    try:
        wanted = simulated(case, unspecialised(case, plain if plain is not None else levels))
        other = orders_with_other_bits(case, levels, wanted, tiles_on, found.launch)
    except UnsupportedOp as error:
        return Finding("not simulated", _first_line(error))
    except Exception as error:
        return Finding("failed", f"{type(error).__name__}: {_first_line(error)}\n{traceback.format_exc(limit=-3)}")
    if other:
        return Finding("failed", f"other bits in the orders {', '.join(other)}")
    plan = found.outcome.plan
    return Finding("specialised", fills=() if plan is None else tuple(ring.fill for ring in plan.rings))


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0][:300]


def every(count: int, number: int, visit: Callable[[Recipe], None], loads: tuple[str, ...]) -> None:
    """Calls `visit` with `count` recipes drawn from the seed `number`, each once."""
    seen: set[Recipe] = set()

    @seed(number)
    @settings(max_examples=4 * count, database=None, phases=(Phase.generate,),
              suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large))  # fmt: skip
    @given(recipes(loads))
    def run(recipe: Recipe) -> None:
        if recipe not in seen and len(seen) < count:
            seen.add(recipe)
            visit(recipe)

    run()


def main() -> int:
    """Examines many programs; returns 1 if one fails."""
    from bench.harness import Report, Row

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--loads", choices=("descriptors", "pointers", "mixed"), action="append", help="only these")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no program after this")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument("--persistent", action="store_true", help=f"made persistent, on {TILES_ON} programs")
    forms.add_argument("--programs", type=int, default=0, metavar="N", help="N programs of the grid share a CTA")
    arguments = parser.parse_args()
    loads = tuple(arguments.loads or ("descriptors", "pointers", "mixed"))
    form = "_persistent" if arguments.persistent else "_grouped" if arguments.programs else ""
    name = f"random_programs{form}"
    report, counts, reasons, fills = Report(name), Counter[str](), Counter[str](), Counter[str]()
    start, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="tawa-programs-"))

    def visit(recipe: Recipe) -> None:
        if time.monotonic() - start > arguments.minutes * 60:
            counts["skipped"] += 1
            return
        began = time.monotonic()
        found = examine(recipe, folder, TILES_ON if arguments.persistent else None, arguments.programs)
        counts[found.status] += 1
        fills.update(found.fills)
        if found.status in ("declined", "refused"):
            reasons[found.reason] += 1
        failed = found.status == "failed"
        about = {"number": counts.total(), "status": found.status, "seconds": round(time.monotonic() - began, 2)}
        more = {"source": render(recipe), "recipe": asdict(recipe)} if failed else {}
        report.rows.append(Row({**about, "loads": recipe.loads, "dots": recipe.dots, **more}, "tawa",
                               error=found.reason or None))  # fmt: skip
        print(
            f"{counts.total():4} {found.status:14} {found.reason.splitlines()[0] if found.reason else ''}", flush=True
        )

    every(arguments.count, arguments.seed, visit, loads)
    report.about |= {"counts": dict(sorted(counts.items())), "declined": dict(reasons.most_common()),
                     "rings": dict(sorted(fills.items()))}  # fmt: skip
    print(f"{report.save()}  {time.monotonic() - start:.0f} s: {dict(counts)}")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
