"""A worker that plays the comparison of bits: what a case does is decided by its name."""

from __future__ import annotations

import os
from typing import Any

from bench.workers import serve_jobs


def handle(job: dict[str, Any]) -> dict[str, Any]:
    """Two Plans, of which the second has other bits if the name says so."""
    if "dies" in job["case"]:
        os._exit(7)
    plans = [{"form": "as_written", "groups": groups, "rings": [], "loops": [], "operands": []} for groups in (1, 2)]
    found = {str(plan["groups"]): {"plan": plan, "equal": True, "moves": False} for plan in plans}
    found["2"]["equal"] = "differs" not in job["case"]
    return {"status": "ok", "found": found, "errors": {}, "refused": job["seed"]}


if __name__ == "__main__":
    serve_jobs(handle)
