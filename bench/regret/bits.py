"""The bits of every Plan that keeps the order of sums, compared with those of stock Triton's kernel.

Launches may choose among such Plans (`Plan.keeps_order`), so each must give stock Triton's bits, in the same
configuration of the kernel. A job compiles the Plans of one case of the tests, or of one entry of the corpus: the first
of the model's order and some at random, automatic mode, and the usual forms. Each runs twice on random inputs, outputs
poisoned with NaN. If bits differ, the Plan is compared with the most similar one that has stock Triton's bits: what
is different between the two is to blame.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.compiled import tables_in
from bench.harness import Report, Row, describe
from bench.regret.candidates import FORMS, RANDOM, RANKED, Candidate, pinned_candidates, ranked_of
from bench.regret.measure import brief
from bench.workers import Answer, Job, is_fatal, run_jobs, say_alive

LIMIT_S = 240.0
OTHERS = 24  # random Plans at most, until enough were compared: some cannot be carried out
SHOWN = 60  # characters of a decision
WORKER = "bench.regret.bits"
Flat = dict[str, Any]


# --- Plans compared ---------------------------------------------------------------------------------------------------


def flat(plan: Mapping[str, Any]) -> Flat:
    """A Plan's decisions by name: ``loops[0].mma_depth``, ``rings[a].depth``."""
    found: Flat = {}
    for name, value in plan.items():
        if name == "version":
            continue
        if isinstance(value, (list, tuple)) and value and all(isinstance(it, Mapping) for it in value):
            for at, entry in enumerate(value):
                found |= {f"{name}[{_name_of(entry, at)}].{key}": it for key, it in flat(entry).items()}
        else:
            found[name] = value
    return found


def _name_of(entry: Mapping[str, Any], at: int) -> str:
    keys = [str(entry[key]) for key in ("name", "argument", "loop", "ordinal") if entry.get(key) is not None]
    return ", ".join(keys) or str(at)


def differences(plan: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The decisions in which a Plan differs from another, which comes second."""
    first, second = flat(plan), flat(other)
    names = [name for name in dict.fromkeys([*first, *second]) if first.get(name) != second.get(name)]
    return [f"{name}: {_shown(first.get(name))}, not {_shown(second.get(name))}" for name in names]


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def keeps_order(plan: Mapping[str, Any]) -> bool:
    """Whether a complete Plan keeps the order of every sum."""
    from tawa.plan import Plan

    return Plan.from_data(dict(plan)).keeps_order


def blamed(found: Mapping[str, Mapping[str, Any]]) -> dict[str, tuple[str, list[str]]]:
    """For each Plan with other bits, the most similar one with stock Triton's, and what is different.

    found: by candidate ``{plan, equal}``. Without a Plan that has the bits, the name is empty.
    """
    good = {name: it["plan"] for name, it in found.items() if it["equal"]}
    told: dict[str, tuple[str, list[str]]] = {}
    for name, it in found.items():
        if not it["equal"]:
            each = {other: differences(it["plan"], plan) for other, plan in good.items()}
            nearest = min(each, key=lambda other: len(each[other]), default="")
            told[name] = nearest, each.get(nearest, [])
    return told


# --- the worker's side ------------------------------------------------------------------------------------------------


def handle(job: Job) -> Answer:
    """Runs the candidates of one case; the answer has for each its Plan, and whether its bits are stock Triton's."""
    from triton.runtime.errors import OutOfResources

    import tawa
    from bench.compile_ratio import find_case
    from bench.launch_time import device
    from tawa.errors import TawaError
    from tests.cases import launch

    launch.allow_device_descriptors()
    case = find_case(job["case"])
    tensors = launch.make_tensors(case, job["seed"], device())
    bound, grid, names = launch.bind(case, tensors), case.launch_grid(), launch.outputs(case)

    def run(options: Mapping[str, Any]) -> tuple[Any, list[Any]]:
        """The compiled kernel, and the bits of two launches."""
        kernel, compiled, found = tawa.jit(case.kernel), None, list[Any]()
        for _ in range(2):
            launch.poison(case, tensors)
            compiled = kernel[grid](**bound, **case.options(), **options)
            found.append([_bits(tensors[name]) for name in names])
        say_alive()
        return compiled, found

    _, (wanted, again) = run({"enable_warp_specialization": False})
    if not _same(wanted, again):
        return {"status": "skipped", "message": "stock Triton's own bits differ from run to run"}
    candidates = [Candidate(name, options) for name, options in FORMS.items()]
    candidates += pinned_candidates(case.name, [it for it in ranked_of(case) if it.plan.keeps_order], OTHERS)
    found, errors, refused, fatal = dict[str, Any](), dict[str, str](), 0, False
    for it in candidates:
        if len(found) == len(FORMS) + RANKED + RANDOM:
            break
        try:
            with tempfile.TemporaryDirectory(prefix="bits-") as folder, tables_in(folder):
                compiled, runs = run(it.options)
            record = getattr(compiled.metadata, "tawa", None) or {}
            if record.get("applied"):
                equal = [_same(wanted, bits) for bits in runs]
                found[it.name] = {"plan": record["plan"], "equal": all(equal), "moves": not _same(*runs)}
        except (TawaError, OutOfResources):
            refused += 1
        except Exception as error:
            errors[it.name] = describe(error)
            if fatal := is_fatal(errors[it.name]):
                break
    return {"status": "ok", "found": found, "errors": errors, "refused": refused, "fatal": fatal}


def _bits(tensor: Any) -> Any:
    import torch

    return tensor.contiguous().view(torch.uint8).clone()


def _same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    import torch

    return all(torch.equal(*pair) for pair in zip(first, second, strict=True))


# --- the parent's side ------------------------------------------------------------------------------------------------


def rows_of(case: str, answer: Answer, **about: str) -> list[Row]:
    """A row with the counts of a case, and one for each Plan that keeps the order of sums and has other bits."""
    if answer["status"] != "ok":
        return [Row({"case": case, **about}, "all", error=f"{answer['status']}: {answer.get('message', '')}")]
    found = {name: it for name, it in answer["found"].items() if keeps_order(it["plan"])}
    told = blamed(found)
    counts = {"case": case, **about, "plans": len(found), "other bits": len(told), "refused": answer["refused"]}
    rows = [Row(counts, "all", error="; ".join(f"{name}: {it}" for name, it in answer["errors"].items()) or None)]
    for name, (nearest, decisions) in told.items():
        more = {"nearest": nearest, "decisions": decisions, "moves": found[name]["moves"],
                "plan": brief(found[name]["plan"])}  # fmt: skip
        rows.append(Row({"case": case, **about, **more}, name, error="other bits than stock Triton's"))
    return rows


def rows_of_entry(case: str, answer: Answer) -> list[Row]:
    """The same of the kernels of an entry (`bench.regret.corpus`), each by its name."""
    if answer["status"] == "skipped":
        return []
    about = {"source": "corpus", "entry": case}
    if answer["status"] != "done" or not answer["kernels"]:
        error = str(answer.get("note") or answer.get("message", answer["status"]))
        return [Row({"case": case, **about}, "all", error=error)]
    rows: list[Row] = []
    for kernel, candidates in answer["kernels"].items():
        found = {it["name"]: {**it["about"], "moves": False} for it in candidates if it["about"].get("applied")}
        answer = {"status": "ok", "found": found, "errors": {}, "refused": sum(bool(it["error"]) for it in candidates)}
        rows += rows_of(f"{case}: {kernel}", answer, **about)
    return rows


def measure(report: Report, names: Iterable[str], end: float, processes: int, seed: int, worker: str = WORKER) -> None:
    """Compares the cases of the tests that have no rows yet; rows are written after each.

    names: ``room: name``. end: `time.monotonic` after which no case is begun; what is not reached has no rows.
    """
    done = {row.case["case"] for row in report.rows}
    jobs = [{"case": name, "seed": seed} for name in names if name not in done]

    def take(job: Job, answer: Answer) -> None:
        if answer.get("message") == "out of time":
            return
        rows = rows_of(job["case"], answer)
        report.add(*rows)
        say(rows)

    run_jobs(worker, jobs, take, processes, LIMIT_S, end)


def say(rows: Iterable[Row]) -> None:
    """Prints what has other bits, and what failed."""
    for row in rows:
        if row.error:
            print(f"{row.case['case']}, {row.candidate}: {row.error}", *row.case.get("decisions", ()), sep="\n    ")


def summary_of(rows: Sequence[Row]) -> str:
    """How many Plans were compared, and which decisions differ where bits do."""
    whole = [row.case for row in rows if row.candidate == "all" and "plans" in row.case]
    bad = [row for row in rows if row.candidate != "all"]
    lines = [f"{sum(it['plans'] for it in whole)} Plans of {len(whole)} kernels, {len(bad)} with other bits"]
    counts: dict[str, int] = {}
    for row in bad:
        names = (text.partition(":")[0] for text in row.case["decisions"])
        for name in {name.rpartition("].")[2] for name in names}:
            counts[name] = counts.get(name, 0) + 1
    lines += [f"  {name}: {count}" for name, count in sorted(counts.items(), key=lambda it: -it[1])]
    return "\n".join(lines)


if __name__ == "__main__":
    from bench.workers import serve_jobs

    serve_jobs(handle)
