"""Fresh processes: forks that end as programs do, with caches of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PLAYED = """
import atexit, json, os, sys
from pathlib import Path
from bench.first_launch import process, worker

def measure(job):
    folder = Path(job["caches"])
    if job["workload"] == "dies":
        os._exit(7)
    if job["workload"] == "raises":
        raise RuntimeError("no")
    atexit.register((folder / "ended").touch)
    return {"status": "ok", "found": sorted(it.name for it in folder.iterdir()), "pid": os.getpid()}

process.measure = measure
for job in json.loads(sys.argv[1]):
    print(json.dumps({**worker.handle(job), "own": os.getpid()}))
"""


def answers(*jobs: dict[str, Any]) -> list[dict[str, Any]]:
    command = [sys.executable, "-c", PLAYED, json.dumps(jobs)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [json.loads(line) for line in told.splitlines()]


def test_a_process_begins_with_a_copy_of_the_template_and_ends_as_a_program(tmp_path: Path) -> None:
    template = tmp_path / "template"
    template.mkdir()
    (template / "driver").touch()
    fresh = {"workload": "", "caches": str(tmp_path / "own"), "template": str(template), "fork": True}
    first, second = answers(fresh, {**fresh, "template": ""})
    assert (first["found"], second["found"]) == (["driver"], ["driver", "ended"])  # what runs at exit has run
    assert first["pid"] not in (first["own"], second["pid"]) and first["own"] == second["own"]
    assert sorted(it.name for it in template.iterdir()) == ["driver"]


def test_a_process_that_fails_costs_no_other_its_answer(tmp_path: Path) -> None:
    job = {"template": "", "fork": True}
    names = ("dies", "raises", "right")
    found = answers(*({**job, "workload": name, "caches": str(tmp_path / name)} for name in names))
    assert [(it["status"], it.get("message")) for it in found] == [
        ("crashed", "the process ended with status 7"),
        ("failed", "RuntimeError: no"),
        ("ok", None),
    ]


IN_A_FORK = """
import os
from bench.first_launch import worker

worker.import_all()
if os.fork() == 0:
    import torch
    os._exit(torch.cuda._is_in_bad_fork())
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_what_a_worker_imports_leaves_cuda_to_the_forks() -> None:
    pytest.importorskip("torch")
    told = subprocess.run([sys.executable, "-c", IN_A_FORK], capture_output=True, text=True, check=True, timeout=120)
    assert told.stdout == "0\n"
