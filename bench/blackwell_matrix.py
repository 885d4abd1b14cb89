"""The GEMM matrix of the tests for Blackwell (sm_100), without a GPU: ``python -m bench.blackwell_matrix``.

Every case that is specialised on Hopper, and the integer dots, are compiled to a cubin by the Triton of this
interpreter, with D = 2. Both levels are proved at full effort and compared. The simulator runs trip counts 0, 1, …,
2·D + 1 in eager, late and random order, and compares the bits with those of the unspecialised program. A row has what
was compiled (instructions of the tensor cores and of TMA, columns of tensor memory, spills) and the verdict; its error
is the first thing that is wrong, or null.

Rows of another Triton stay in the file, so that each environment adds its own. ``--only TEXT`` takes some cases.

Results: ``bench/results/blackwell_matrix.json``.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing import get_context
from typing import Any

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")  # there are as many processes as cores already

import triton  # noqa: E402

from bench.blackwell import structure  # noqa: E402
from bench.harness import Report, Row, describe  # noqa: E402
from tawa.bridge.driver.compile import compile_kernel  # noqa: E402
from tawa.bridge.driver.request import Request  # noqa: E402
from tawa.bridge.triton.read_module import read_levels  # noqa: E402
from tawa.machine.machines import SM_100  # noqa: E402
from tawa.plan import PlanOptions  # noqa: E402
from tawa.sim import SimulationError  # noqa: E402
from tawa.verify.check import check_levels  # noqa: E402
from tests.cases.case import Specimen  # noqa: E402
from tests.cases.gemm.cases import SPECIALISED  # noqa: E402
from tests.cases.gemm.transposed import INTEGERS, integers_case  # noqa: E402
from tests.cases.simulated import ORDERS, simulated, unspecialised  # noqa: E402
from tests.matrix.compiling import signature  # noqa: E402
from tests.verify.mutations_oracle import sizes_around  # noqa: E402

DEPTH = 2
CASES = (*SPECIALISED, *INTEGERS, integers_case(False, True))


def compiled(case: Specimen) -> Any:
    """The case for Blackwell with D = 2."""
    request = Request(PlanOptions(only_if_faster=False, aref_depth=DEPTH), verification="full")
    return compile_kernel(
        case.kernel, signature(case), request, num_warps=case.num_warps, num_stages=case.num_stages, target=SM_100
    )  # fmt: skip


def checked(case: Specimen) -> tuple[dict[str, Any], str | None]:
    """What is known of a case, and the first thing that is wrong with it."""
    made = compiled(case)
    record = made.metadata.tawa
    if not record["applied"]:
        return {}, f"not specialised: {record['reason']}"
    verdict = type(check_levels(*read_levels(made))).__name__.lower()
    known = {"cubin_bytes": len(made.asm["cubin"]), **structure(made), "verdict": verdict, "runs": 0}
    for label, order, same in _runs(case, made):
        known["runs"] += 1
        if not same:
            return known, f"other bits: {label}, {order}"
    return known, None if verdict == "proved" else f"the verdict is {verdict}"


def _runs(case: Specimen, made: Any) -> Iterator[tuple[str, str, bool]]:
    """The runs of the simulator: sizes, order, and whether the bits are those of the unspecialised program."""
    base, module = unspecialised(case, made), read_levels(made)[1]
    for sizes in sizes_around(case, DEPTH):
        sized = case.with_sizes(**sizes)
        wanted = simulated(sized, base)
        for order in ORDERS:
            label = " ".join(f"{name}={size}" for name, size in sizes.items())
            try:
                found = simulated(sized, module, order)
            except SimulationError as error:
                raise SimulationError(f"{label}, {order}: {describe(error)}") from error
            yield label, order, all(found[key].tobytes() == wanted[key].tobytes() for key in wanted)


def row(number: int) -> Row:
    """The row of one case."""
    case, start = CASES[number], time.perf_counter()
    try:
        known, error = checked(case)
    except Exception as failure:
        known, error = {}, describe(failure)
    about = {"name": case.name, **known, "seconds": round(time.perf_counter() - start, 1)}
    return Row(about, f"Triton {triton.__version__}", error=error)


def main() -> int:
    """Runs the cases; fails if one is not compiled, proved and right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    numbers = [number for number, case in enumerate(CASES) if arguments.only in case.name]
    names, mine = {CASES[number].name for number in numbers}, f"Triton {triton.__version__}"
    report = Report("blackwell_matrix")
    report.rows = [it for it in report.earlier_rows() if it.candidate != mine or it.case["name"] not in names]
    found: list[Row] = []
    with get_context("spawn").Pool(arguments.processes) as pool:
        for it in pool.imap_unordered(row, numbers):
            found.append(it)
            report.add(it)
            print(f"{it.case['name']:36}{it.case['seconds']:6} s   {it.error or 'right'}", flush=True)
    order = {case.name: place for place, case in enumerate(CASES)}
    report.rows.sort(key=lambda it: (it.candidate, order.get(it.case["name"], len(order))))
    print(report.save())
    fates = Counter("right" if it.error is None else "wrong" for it in found)
    print(", ".join(f"{count} {fate}" for fate, count in fates.items()), sum(it.case.get("runs", 0) for it in found))
    return 0 if set(fates) == {"right"} else 1


if __name__ == "__main__":
    raise SystemExit(main())
