"""The worker process that compiles what launches do not wait for.

python -m tawa.bridge.launch.first.compiler     reads questions from its standard input
"""

from __future__ import annotations

import os
from typing import Any

from tawa.bridge.driver.attach import attached
from tawa.bridge.driver.request import activate
from tawa.bridge.driver.tuning.recorded_source import recorded_source
from tawa.bridge.launch.first.compiles import launched_by_us
from tawa.bridge.launch.first.elsewhere import CompileJob, apply_settings, ranked
from tawa.processes import answers

_POLITE = 5
"""Added to the niceness of the process: the program that launches comes first."""


def compile_job(job: CompileJob) -> None:
    """Compiles a kernel, and writes it to Triton's cache under the key of the job."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import compiler

    slot: Any = compiler
    apply_settings(job.knobs, job.variables)
    source = recorded_source(job.source, job.name, job.signature, job.may_be_one)
    with attached(), activate(job.request), launched_by_us(function=source.fn):
        usual, slot.get_cache_key = slot.get_cache_key, lambda *_, **__: job.key
        try:
            triton.compile(source, target=GPUTarget(*job.target), options=dict(job.options))
        finally:
            slot.get_cache_key = usual


def main() -> None:
    """Answers jobs until the parent is gone."""
    os.nice(_POLITE)
    for data, say in answers():
        try:
            if "rank" in data:
                say({"made": ranked(data["rank"])})
            elif "hello" in data:
                say({"made": ""})
            else:
                compile_job(CompileJob.of(data["job"]))
                say({"made": ""})
        except Exception as error:
            say({"made": "", "failed": f"{type(error).__name__}: {error}"})


if __name__ == "__main__":
    main()
