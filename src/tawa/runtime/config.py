"""`tawa.Config`: a `triton.Config` that autotunes over Tawa's options as well.

Stock `triton.Config` refuses unknown options. This class puts Tawa's options among the keyword arguments of the launch.
`tawa.jit` takes them out again, and Triton's cache of tuning results stores them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any
from weakref import WeakSet

import triton
from triton.runtime.autotuner import Autotuner

from tawa.errors import PlanError
from tawa.plan import Plan
from tawa.runtime.requests import OPTION_NAMES, as_mapping, as_plan, reject_unknown


class Config(triton.Config):
    """One configuration to try.

    kwargs: values of the kernel's constants, as for `triton.Config`. Further keywords are those of `triton.Config`
    (``num_warps``, ``num_stages``, ``pre_hook``, ...) and Tawa's options (``aref_depth``, ``mma_depth``,
    ``num_consumer_groups``, ``num_buffers_warp_spec``, ``enable_warp_specialization``, ``plan``).

    Raises PlanError on a bad value, and on an option that neither Triton nor Tawa knows. The tuned function must be
    under `tawa.jit`.
    """

    def __init__(self, kwargs: Mapping[str, Any], *args: Any, **options: Any) -> None:
        ours = {name: options.pop(name) for name in sorted(OPTION_NAMES.intersection(options))}
        _check(ours)
        reject_unknown(options, list(inspect.signature(triton.Config).parameters)[1:], "tawa.Config")
        super().__init__(
            {**kwargs, **{name: value for name, value in ours.items() if value is not None}}, *args, **options
        )

    def all_kwargs(self) -> dict[str, Any]:
        """The keyword arguments of a launch; raises PlanError if the tuned function cannot take them."""
        if not OPTION_NAMES.isdisjoint(self.kwargs):
            tuner = sys._getframe(1).f_locals.get("self")
            if isinstance(tuner, Autotuner) and tuner not in _checked:
                _check_tuned_function(tuner)
        return super().all_kwargs()


def _check(ours: dict[str, Any]) -> None:
    from tawa.plan import PlanOptions

    plan = as_plan(ours.get("plan"))
    if isinstance(plan, Plan):
        ours["plan"] = plan.to_json()  # text, so that tuning results can be stored
    mapping = as_mapping(ours.get("mapping"), plan)
    if mapping is not None:
        ours["mapping"] = mapping.toml() or "\n"
    PlanOptions.from_mapping({name: value for name, value in ours.items() if name not in ("plan", "mapping")})


_checked: WeakSet[Any] = WeakSet()
"""Autotuners of functions that take Tawa's options. They ask a configuration for its keywords at every launch."""


def _check_tuned_function(tuner: Autotuner) -> None:
    """Raises PlanError for a plain `triton.jit` function, which would only report an unknown keyword."""
    from triton.runtime.jit import JITFunction

    from tawa.runtime.jit import is_under_tawa

    function: Any = tuner.fn
    while function is not None and not isinstance(function, JITFunction):
        function = getattr(function, "fn", None)
    if function is not None and not is_under_tawa(function):
        name = getattr(function, "__name__", "the kernel")
        raise PlanError(
            f"tawa.Config tunes {name!r}, which is a plain triton.jit function and cannot take Tawa's options; "
            "cure: write @tawa.jit between @triton.autotune and @triton.jit"
        )
    _checked.add(tuner)
