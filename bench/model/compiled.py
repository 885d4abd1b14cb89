"""What the model reads of each measured kernel: its TTIR, and the Plan that the compiler makes of it, without a GPU."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.model.points import Point


def compile_point(point: Point) -> dict[str, Any]:
    """The TTIR of a point's kernel, the complete Plan and the counts of ptxas; the error, if it does not compile.

    A point with a recorded Plan needs the TTIR only: stock Triton's kernel is compiled.
    """
    from tawa.bridge.driver.attach import attached
    from tawa.bridge.driver.compile import compile_kernel
    from tawa.bridge.driver.request import Request
    from tawa.bridge.launch.first.compiles import launched_by_us
    from tawa.bridge.launch.stock_facts import KEY, facts_of
    from tawa.bridge.triton.artifacts.ptxas_log import kept_log
    from tawa.bridge.triton.signature import Signature
    from tawa.plan import PlanOptions

    case = point.case
    names = case.kernel.arg_names
    constants = {(names.index(key),): value for key, value in case.constants().items()}
    signature = Signature(case.signature(), constants, case.attributes())
    request = None if point.options is None or point.plan else Request(PlanOptions.from_mapping(point.options))
    try:
        with attached(), launched_by_us(function=case.kernel), kept_log() as log:
            made = compile_kernel(case.kernel, signature, request, **case.options())
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:300]}
    record = getattr(made.metadata, "tawa", None) or {}
    facts = facts_of(made, log.text) if request is None else None
    return {
        "ttir": made.asm["ttir"],
        "plan": record.get("plan"),
        "reason": record.get("reason"),
        "shared": made.metadata.shared,
        "launch": record.get("launch"),
        "num_warps": made.metadata.num_warps,
        KEY: asdict(facts) if facts is not None else record.get(KEY),
    }


def compile_points(points: Iterable[Point], folder: Path, done: Any = None) -> dict[str, dict[str, Any]]:
    """What each point was compiled to, by `Point.compiled_as`; kept in a folder, so that a run can be resumed."""
    folder.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    for point in points:
        key = point.compiled_as
        if key in found:
            continue
        path = folder / (hashlib.sha256(key.encode()).hexdigest()[:16] + ".json")
        known = json.loads(path.read_text()) if path.exists() else None
        if known is not None and ("error" in known or known["plan"] is not None or "stock" in known):
            found[key] = known
        else:
            found[key] = compile_point(point)
            path.write_text(json.dumps(found[key]))
        if done is not None:
            done(point, found[key])
    return found
