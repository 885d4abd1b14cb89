"""Compiling a kernel in a worker process, from the IR of Triton's front end, into the entry that a launch looks up.

    this process                                       worker process
    job_of(kernel, request) → CompileJob  ─────────→   compile_job(job)
    read from Triton's cache  ←────────── an answer    written to Triton's cache under the job's key

The user's code is not needed there, and not run again.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import pickle
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tawa.bridge.driver.request import Request
from tawa.bridge.launch.first.background import worker
from tawa.bridge.launch.forecasts import Forecasts
from tawa.bridge.launch.host import NO_HOST
from tawa.plan import Plan

_log = logging.getLogger("tawa")

LIMIT_S = 600.0
"""Seconds that one compile may take."""


class NotMade(Exception):
    """The worker did not make the kernel."""


class WorkerLost(NotMade):
    """The worker has ended or is silent, which says nothing about the kernel."""


@dataclass(frozen=True, slots=True)
class CompileJob:
    """One compile. source: the kernel's IR. name, signature, may_be_one: of it. key: of the entry in Triton's cache.

    options: Triton's. target: backend, architecture, warp size. knobs, variables: settings of Triton that the program
    has changed, and those of its environment.
    """

    name: str
    signature: Mapping[str, Any]
    may_be_one: tuple[str, ...]
    key: str
    options: Mapping[str, Any]
    target: tuple[Any, ...]
    request: Request
    knobs: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, str]
    source: str = field(repr=False)

    @staticmethod
    def of(text: str) -> CompileJob:
        """In the worker: the job that it is asked to do."""
        return _read(text)


def job_of(kernel: Any, options: Mapping[str, Any], may_be_one: frozenset[str], request: Request) -> CompileJob:
    """The compile of a kernel again, as the request that is active now asks for it.

    kernel: a `CompiledKernel`. options: Triton's. Raises NotMade if Triton kept no IR of its front end.
    """
    source = kernel.asm.get("source")
    if source is None:
        raise NotMade("Triton kept no IR of its front end")
    target, signature = kernel.metadata.target, {**kernel.src.signature}
    return CompileJob(
        kernel.src.name, signature, tuple(sorted(may_be_one)), _key(kernel, options), options,
        (target.backend, target.arch, target.warp_size), replace(request, host=NO_HOST), _changed_knobs(),
        dict(os.environ), source,
    )  # fmt: skip


def _key(kernel: Any, options: Mapping[str, Any]) -> str:
    """The key of an entry in Triton's cache, as `triton.compile` computes it."""
    from triton._C.libtriton import get_cache_invalidating_env_vars
    from triton.compiler import compiler

    backend = compiler.make_backend(kernel.metadata.target)
    parsed = backend.parse_options(dict(options, **kernel.src.parse_options()))
    return compiler.get_cache_key(kernel.src, backend, parsed, env_vars=get_cache_invalidating_env_vars())


def is_cached(job: CompileJob) -> bool:
    """Whether Triton's cache has the entry already."""
    from triton.runtime.cache import get_cache_manager

    folder = get_cache_manager(hashlib.sha256(job.key.encode()).hexdigest())
    name = f"{job.name[:150]}.json"
    return name in (folder.get_group(name) or {})


def make(job: CompileJob) -> None:
    """Lets the worker of this thread make the entry, unless it is there. Raises NotMade with the worker's reason."""
    if is_cached(job):
        return
    start = time.perf_counter()
    _asked("job", _text(job))
    _log.info("%s: compiled in the background in %.1f s", job.name, time.perf_counter() - start)
    if not is_cached(job):
        raise NotMade("the worker uses another cache")


def rank(
    forecasts: Forecasts, values: Sequence[Any], grid: Sequence[int]
) -> tuple[tuple[tuple[Plan | None, str], ...], bool]:
    """As `Forecasts.ranked`, by the worker of this thread: it reads the kernel, which takes up to a second."""
    numbers = [it if isinstance(it, int) else None for it in values]
    about = (forecasts.ttir, forecasts.about, forecasts.plan, forecasts.sizes, forecasts.processors, forecasts.facts)
    return _read(_asked("rank", _text((about, numbers, tuple(grid))))["made"])


def ranked(text: str) -> str:
    """In the worker: the answer of `rank`."""
    about, values, grid = _read(text)
    return _text(Forecasts(*about).ranked(values, grid))


def _asked(what: str, text: str) -> Mapping[str, Any]:
    try:
        answer = worker().ask({what: text}, LIMIT_S, lambda line: "made" in line)
    except (EOFError, OSError, TimeoutError) as error:
        raise WorkerLost(str(error)) from error
    if answer.get("failed"):
        raise NotMade(str(answer["failed"]))
    return answer


def _text(value: Any) -> str:
    return base64.b64encode(pickle.dumps(value)).decode()


def _read(text: str) -> Any:
    return pickle.loads(base64.b64decode(text))


def _changed_knobs() -> dict[str, dict[str, Any]]:
    """The settings of Triton that the program has changed, as far as they can be sent."""
    from triton import knobs

    found: dict[str, dict[str, Any]] = {}
    for group in _GROUPS:
        own = vars(getattr(knobs, group))
        found[group] = {name: it for name, it in own.items() if isinstance(it, str | int | float | bool | type(None))}
    return found


def apply_settings(changed: Mapping[str, Mapping[str, Any]], variables: Mapping[str, str]) -> None:
    """Makes the settings of Triton, and the environment, those of another process: nothing of an earlier job stays."""
    from triton import knobs

    for name in os.environ.keys() - variables.keys():
        del os.environ[name]
    os.environ.update(variables)
    for group, values in changed.items():
        own = vars(getattr(knobs, group))
        for name in own.keys() - values.keys():
            del own[name]
    for group, values in changed.items():
        for name, value in values.items():
            setattr(getattr(knobs, group), name, value)


_GROUPS = ("cache", "compilation", "language", "nvidia")
