"""The three ways in which every entry is run, in one process, without one way's tuning deciding for another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

MODES: dict[str, dict[str, Any]] = {
    "stock": {"enable_warp_specialization": False},
    "tawa": {},  # automatic: what `tawa.install()` does
    "legal": {"only_if_faster": False},  # for correctness: whatever can be specialised
}

_current = ""  # as the process began: Triton, and nothing installed


def switch_to(name: str) -> None:
    """From now on everything, in any thread (autograd has its own), is compiled and tuned in this way."""
    global _current
    if name == _current:
        return
    import tawa

    _current = name
    tawa.install(**MODES[name])


def keep_tunings_apart(most_configs: int) -> None:
    """Gives each autotuner a choice for each mode, among at most `most_configs` of its configurations (0: all).

    The ones tried are spread evenly over the list, its first and last included. Choices are neither read from disk,
    where Triton keeps them for whoever asks (`cache_results`), whatever was compiled, nor written there.
    """
    from triton.runtime.autotuner import Autotuner

    tuner_class: Any = Autotuner
    tuner_class.cache = property(_get_cache, _set_cache)
    tuner_class.check_disk_cache = _tune
    prune = tuner_class.prune_configs
    tuner_class.prune_configs = lambda self, kwargs: spread(prune(self, kwargs), most_configs)


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
    return tuner.__dict__.setdefault("_caches", {}).setdefault(_current, {})


def _set_cache(tuner: Any, value: dict[Any, Any]) -> None:
    tuner.__dict__.setdefault("_caches", {})[_current] = value
