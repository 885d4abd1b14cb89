"""The modes in which every entry is run in one process; each mode tunes for itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench.corpus.configurations import watch_tuners

WARMUP_MS, REPEAT_MS = 5, 20  # of each configuration that an autotuner tries; Triton's are 25 and 100

MODES: dict[str, dict[str, Any]] = {
    "stock": {"enable_warp_specialization": False},
    "tawa": {"start": "ready"},  # automatic: what the model chooses, from the first launch on
    "legal": {"only_if_faster": False, "start": "ready"},  # for correctness: whatever can be specialised
    "same": {"start": "ready"},  # as "tawa", in the configurations that stock Triton chose in this job
    "learned": {"start": "stock"},  # as "same", but what launches have learned
    "later": {"start": "stock"},  # as "learned", in a later process: autotuners choose again, and know Tawa's kernels
}
LEARNING = ("learned", "later")  # the modes in which launches learn

Plans = Mapping[str, Any]  # by the name of the kernel: whatever `tawa.Plan.of` takes

_current = ""  # as the process began: Triton, and nothing installed
_plans: dict[str, Plans] = {}  # by mode
_requests: dict[tuple[str, str], Any] = {}  # by mode and kernel


def add_plan_mode(name: str, plans: Plans) -> None:
    """Adds a mode in which each kernel named is compiled under its Plan, complete or partial, and all others by stock.

    A kernel that cannot have its Plan is an error that says why. The configurations are those that stock Triton's
    autotuners chose in this job, as in the mode *same*: candidates are programs from one source. Raises ValueError for
    the name of a mode of another kind.
    """
    if name in MODES:
        raise ValueError(f"{name} is a mode of its own")
    _plans[name] = dict(plans)
    for mode, kernel in [it for it in _requests if it[0] == name]:
        del _requests[mode, kernel]


def current() -> str:
    """The current mode; empty before the first."""
    return _current


def switch_to(name: str) -> None:
    """Switches the mode of all further compiles and tunings, in every thread (autograd has its own)."""
    global _current
    if name == _current:
        return
    import tawa

    if name in _plans:
        _watch_launches()
    tawa.install(**MODES["same" if name in _plans else name])
    _current = name


_watching = False


def _watch_launches() -> None:
    """From now on, a launch in a mode with Plans is made under the Plan of its kernel."""
    global _watching
    if _watching:
        return
    from triton.runtime.jit import JITFunction

    from tawa.bridge.driver.request import activate

    functions: Any = JITFunction
    launch = functions.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _current not in _plans:
            return launch(self, *args, **kwargs)
        with activate(_request_of(_current, self.__name__)):
            return launch(self, *args, **kwargs)

    functions.run = run
    _watching = True


def _request_of(mode: str, kernel: str) -> Any:
    """The request of a kernel in a mode with Plans."""
    from tawa.runtime.requests import make_request
    from tawa.runtime.settings import Settings

    if (mode, kernel) not in _requests:
        plan = _plans[mode].get(kernel, {"form": "stock"})
        _requests[mode, kernel] = make_request({"plan": plan}, None, Settings.from_environment())
    return _requests[mode, kernel]


@dataclass(frozen=True, slots=True)
class Tuning:
    """How the autotuners of a job choose.

    configs: how many configurations of its list each tries at most (0: all). part, parts: of these, every `parts`-th
    from `part` on. trial: runs each only twice, to see that it works; the choice is then arbitrary.
    """

    configs: int = 0
    part: int = 0
    parts: int = 1
    trial: bool = False

    def picked(self, configs: Iterable[Any]) -> list[Any]:
        """The configurations to try; never none."""
        found = spread(list(configs), self.configs)
        return found[self.part :: self.parts] or found[:1]


_tuning = Tuning()
_job = 0
_again = False


def begin_tuning(tuning: Tuning) -> None:
    """Begins a job: forgets what autotuners chose in earlier jobs."""
    global _tuning, _job, _again
    _tuning, _again = tuning, False
    _job += 1


def tune_again(step: Callable[[], object]) -> None:
    """Makes autotuners choose as in a later process, whose caches have Tawa's kernels, if the mode is *later*.

    step: calls the operation. The first tuning asks for Tawa's kernels of the fastest configurations.
    """
    global _again
    if _current == "later":
        import tawa

        step()
        tawa.wait()
        _again = True
        step()


def keep_tunings_apart(bench: bool = True) -> None:
    """Makes each autotuner choose for each job and mode, among the configurations that `begin_tuning` allows.

    The configurations tried are spread evenly over the list, first and last included. Choices are neither read from
    disk nor written there: Triton's cache of choices (`cache_results`) does not tell modes apart. bench: whether there
    is a GPU to time them on.
    """
    from triton.runtime.autotuner import Autotuner

    tuner_class: Any = Autotuner
    tuner_class.cache = property(_get_cache, _set_cache)
    tuner_class.check_disk_cache = _tune
    prune = tuner_class.prune_configs
    tuner_class.prune_configs = lambda self, kwargs: _tuning.picked(prune(self, kwargs))
    if bench:
        tuner_class.do_bench = property(_benchmarker, ignore)
        watch_tuners(switch_to, lambda: _current)


def ignore(tuner: Any, benchmark: Any) -> None:
    """Sets nothing: a package may give its autotuners a benchmark of its own."""


def _benchmarker(tuner: Any) -> Callable[..., Any]:
    """The function that times a configuration: Triton's, with shorter times."""
    if _tuning.trial:
        return _try
    from triton.runtime import driver

    return partial(driver.active.get_benchmarker(), warmup=WARMUP_MS, rep=REPEAT_MS)


def _try(launch: Callable[[], object], quantiles: Sequence[float]) -> list[float]:
    """Launches twice: the first launch may compile, the second is timed, while other processes are at work."""
    import torch

    launch()
    torch.cuda.synchronize()
    start = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    return [(time.perf_counter() - start) * 1e3] * len(quantiles)


def spread(items: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of them (0: all), evenly spread, in order."""
    if most <= 0 or len(items) <= most:
        return list(items)
    if most == 1:
        return [items[0]]
    return [items[round(at * (len(items) - 1) / (most - 1))] for at in range(most)]


def _tune(tuner: Any, key: Any, configs: Any, bench: Callable[[], object]) -> bool:
    bench()
    return False


def _get_cache(tuner: Any) -> dict[Any, Any]:
    return tuner.__dict__.setdefault("_caches", {}).setdefault((_job, _chooser()), {})


def _set_cache(tuner: Any, value: dict[Any, Any]) -> None:
    tuner.__dict__.setdefault("_caches", {})[_job, _chooser()] = value


def _chooser() -> str:
    """Whose choices are used in the current mode: a mode's, or those of its second tuning."""
    if _current == "later":
        return "later, again" if _again else _current
    return "stock" if _current in ("same", "learned") or _current in _plans else _current
