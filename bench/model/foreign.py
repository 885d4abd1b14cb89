"""What the model reads of other packages' kernels: ``python -m bench.model.foreign``, no GPU.

Their code is not committed. What the model reads of it is: the work of each block, how often a launch executes it, and
what ptxas says of each candidate, in ``bench/results/foreign_work.json``. ``python -m bench.model.foreign`` writes that
file from the launches that the regret bench kept on this machine (`bench.corpus.launches`), without a GPU. Kernels
whose launches are not here stay as they are.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from typing import Any

from bench.corpus.launches import KEPT
from bench.harness import RESULTS, ROOT, Report, Row, read
from bench.model.items import Item, scattered
from bench.model.points import Point
from tawa.analysis.work.visits import Visits
from tawa.analysis.work.workload import BlockWork, DotWork, LoadWork, Workload
from tawa.ir import Block, Operation
from tawa.machine.work import Work
from tawa.plan.cost.launches import Launch
from tawa.plan.cost.programs import Program, ProgramFacts, stock_program
from tawa.plan.plan import Plan
from tawa.plan.thresholds import HEAVY_SPILL_BYTES

NAME = "foreign_work"
_FILE = RESULTS / f"{NAME}.json"
_NUMBERS = ("stored_bytes", "pointer_stored_bytes", "depth", "scalar_loads")
_PLACE = Operation("work")
"""Stands for operations of which only the work was kept."""


def foreign_items() -> list[Item]:
    """The items of all kernels whose work is known and whose launches in a run were all the same."""
    if not _FILE.exists():
        return []
    known = {(row.case["case"], row.case["kernel"]): row.case for row in read(_FILE)[1]}
    found: list[Item] = []
    for row in read(RESULTS / "regret.json")[1]:
        about = row.case
        told = known.get((about["case"], about["kernel"])) if about.get("source") == "corpus" else None
        if told is None or not row.median_ms or row.candidate == "automatic":  # whose launches choose between kernels
            continue
        workload, launch = restored(told["work"])
        if scattered(workload):
            continue
        point = Point("corpus", about["kernel"], about["case"], row.candidate, None, about["options"],
                      row.median_ms * 1e3 / told["times"])  # fmt: skip
        program = _program(row, told, workload)
        if program is not None:
            found.append(Item(point, workload, launch, program))
    return found


def _program(row: Row, told: Mapping[str, Any], workload: Workload) -> Program | None:
    if row.candidate == "stock":
        facts = ProgramFacts(**told["facts"]) if told["facts"] else None
        return stock_program(workload, told["num_warps"], told["num_stages"], facts)
    if not row.case.get("plan"):
        return None
    spilled = told["spilled"].get(row.candidate, 0)
    if spilled >= HEAVY_SPILL_BYTES:
        return None
    return Program(Plan.from_json(json.dumps(row.case["plan"])), ProgramFacts(spilled=spilled))


# --- what is kept of a launch -----------------------------------------------------------------------------------------


def kept(workload: Workload, launch: Launch) -> dict[str, Any]:
    """A workload and a launch as JSON data; blocks and loops are numbered."""
    loops = list(dict.fromkeys(loop for loop in workload.loops.values() if loop is not None))
    blocks = [
        {
            "work": _without_zeros(asdict(replace(work, loads=()))),
            "loads": [_without_zeros(asdict(replace(load, op=_PLACE)) | {"op": 0}) for load in work.loads],
            "loop": loops.index(loop) if (loop := workload.loops[block]) is not None else None,
            "visits": launch.visits.blocks.get(block, 0.0),
        }
        for block, work in workload.blocks.items()
    ]
    return {
        "blocks": blocks,
        "entries": [launch.visits.entries.get(loop, 0.0) for loop in loops],
        "guessed": launch.visits.guessed,
        "programs": launch.programs,
        "in_order": launch.in_order,
        "strided": launch.strided,
    }


def restored(data: Mapping[str, Any]) -> tuple[Workload, Launch]:
    """The workload and the launch that were kept. The workload has no function: no other launch can be asked about."""
    loops = [Operation("loop") for _ in data["entries"]]
    blocks: dict[Block, BlockWork] = {}
    around: dict[Block, Operation | None] = {}
    visits = Visits(guessed=data["guessed"])
    for it in data["blocks"]:
        block, work = Block(), it["work"]
        blocks[block] = BlockWork(
            tuple(DotWork(**dot) for dot in work.get("dots", ())),
            tuple(LoadWork(**{**load, "op": _PLACE}) for load in it["loads"]),
            Work(**work.get("work", {})),
            Work(**work.get("addresses", {})),
            **{key: work[key] for key in _NUMBERS if key in work},
        )
        around[block] = loops[it["loop"]] if it["loop"] is not None else None
        visits.blocks[block] = it["visits"]
    visits.entries.update(zip(loops, data["entries"], strict=True))
    launch = Launch(data["programs"], visits, in_order=data["in_order"], strided=data["strided"])
    return Workload(None, blocks, around), launch  # pyright: ignore[reportArgumentType]


def _without_zeros(data: dict[str, Any]) -> dict[str, Any]:
    """Work without what is 0, and without fields that are not set."""
    found = {key: _without_zeros(value) if isinstance(value, dict) else value for key, value in data.items()}
    always = ("rows", "columns", "inner", "bits", "op", "bytes", "elements", "row_bytes", "operand", "tma")
    return {key: value for key, value in found.items() if key in always or value not in (0, 0.0, {}, (), [])}


# --- writing the file -------------------------------------------------------------------------------------------------


def main() -> int:
    """Writes the file."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()

    from tawa.analysis.work.workload import find_workload
    from tawa.bridge.triton.structured import new_context, read_kernel
    from tawa.plan.cost.launches import launch_of

    rows = [row for row in read(RESULTS / "regret.json")[1] if row.case.get("source") == "corpus" and row.median_ms]
    report = Report(NAME)
    before = read(_FILE)[1] if _FILE.exists() else []
    launches = {}
    for path in sorted(KEPT.glob("*.json")):
        data = json.loads(path.read_text())
        launches.update({(data["case"], kernel): of for kernel, of in data["kernels"].items()})
    context, left = new_context(), 0
    found: list[Row] = []
    for (case, kernel), of in sorted(launches.items()):
        candidates = [row for row in rows if (row.case["case"], row.case["kernel"]) == (case, kernel)]
        text = KEPT / f"{of[0]['ttir']}.ttir" if len(of) == 1 else None
        workload = find_workload(read_kernel(text.read_text(), context)) if text is not None and candidates else None
        if workload is None or text is None:
            left += 1
            continue
        it = of[0]
        work = kept(workload, launch_of(workload, it["values"], it["grid"]))
        told = {key: it[key] for key in ("num_warps", "num_stages", "facts", "times")}
        found.append(Row({"case": case, "kernel": kernel, **told, "spilled": {}, "work": work}, "all"))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda row: row.case["spilled"].update(_spilled(row, rows, launches)), found))
    known = {(row.case["case"], row.case["kernel"]) for row in found}
    report.add(*found, *(row for row in before if (row.case["case"], row.case["kernel"]) not in known))
    print(f"{len(found)} kernels, {left} left out; {report.save().relative_to(ROOT)}")
    return 0


def _spilled(row: Row, rows: list[Row], launches: Mapping[Any, Any]) -> dict[str, int]:
    """The bytes that candidates of a kernel spill, all consumers together; those that spill nothing are left out."""
    found: dict[str, int] = {}
    it = launches[row.case["case"], row.case["kernel"]][0]
    for candidate in rows:
        same = (candidate.case["case"], candidate.case["kernel"]) == (row.case["case"], row.case["kernel"])
        plan = candidate.case["options"].get("plan")
        if same and plan:
            bytes = _compiled(it["ttir"], it["num_warps"], it["num_stages"], json.dumps(plan, sort_keys=True))
            if bytes:
                found[candidate.candidate] = bytes
    return found


def _compiled(ttir: str, num_warps: int, num_stages: int, plan: str) -> int:
    """The bytes that a kernel under a Plan spills; kept beside its launches. 0 if it does not compile."""
    import hashlib

    from tawa.bridge.driver.compile import compile_ttir
    from tawa.bridge.driver.request import Request
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tawa.bridge.launch.stock_facts import facts_of
    from tawa.plan import PlanOptions

    key = hashlib.sha256(f"{ttir} {num_warps} {num_stages} {plan}".encode()).hexdigest()[:16]
    path = KEPT / f"{key}.spilled"
    if path.exists():
        return int(path.read_text())
    try:
        with launched_by_us():
            request = Request(PlanOptions(), Plan.from_json(plan))
            made = compile_ttir(
                (KEPT / f"{ttir}.ttir").read_text(), request, num_warps=num_warps, num_stages=num_stages
            )
        facts = facts_of(made)
    except Exception as error:
        print(f"{ttir}: {type(error).__name__}: {str(error)[:100]}")
        facts = None
    path.write_text(str(facts.spilled if facts is not None else 0))
    return int(path.read_text())


if __name__ == "__main__":
    raise SystemExit(main())
