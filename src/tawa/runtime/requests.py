"""From what users write (launch options, decorator arguments, settings) to the `Request` that a compile follows.

The first that says something about an option wins: launch, decorator, scope or installation, ``TAWA_*`` variables.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from tawa.bridge.launcher import use_allocator, use_capture_check, use_referee
from tawa.bridge.request import Request
from tawa.errors import PlanError, did_you_mean
from tawa.plan import Plan, PlanOptions
from tawa.runtime.measure import capturing, referee
from tawa.runtime.scratch import allocate
from tawa.runtime.settings import Settings

use_allocator(allocate)
use_referee(referee)
use_capture_check(capturing)

OPTION_NAMES = frozenset((*PlanOptions.names(), "plan"))


def take_options(kwargs: dict[str, Any], names: frozenset[str] = OPTION_NAMES) -> dict[str, Any]:
    """Removes Tawa's options from the keyword arguments of a launch and returns them.

    names: the options meant; a parameter of the kernel that has the name of an option stays with the kernel.
    """
    if names.isdisjoint(kwargs):
        return {}
    return {name: kwargs.pop(name) for name in [name for name in kwargs if name in names]}


def reject_unknown(given: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raises PlanError for a name that is neither one of `known` nor one of our options.

    whose: what takes these options, for the message.
    """
    names = sorted(OPTION_NAMES.union(known))
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names, f"{whose} takes {', '.join(names)}")
            raise PlanError(f"unknown option {name!r} of {whose}: {hint}")


def reject_near_misses(kwargs: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises PlanError when a keyword that neither the kernel nor Triton knows is nearly one of our options."""
    for name in set(kwargs).difference(known):
        if hint := did_you_mean(name, OPTION_NAMES, cutoff=0.75):
            raise PlanError(f"unknown option {name!r}: {hint}")


def merge(options: PlanOptions, defaults: PlanOptions) -> PlanOptions:
    """The first with every gap (None) filled from the second; raises PlanError if they do not go together."""
    values = {field.name: getattr(options, field.name) for field in fields(PlanOptions)}
    return PlanOptions(**{name: getattr(defaults, name) if value is None else value for name, value in values.items()})


def as_plan(plan: Any) -> Plan | None:
    """A Plan, its JSON text, or None; raises PlanError on anything else, and on a Plan that no launch has warps for."""
    if plan is None:
        return None
    read = Plan.from_json(plan) if isinstance(plan, str) else plan
    if not isinstance(read, Plan):
        raise PlanError(f"plan={plan!r}: a tawa.Plan or its JSON text is needed, not {type(plan).__name__}")
    groups = read.consumer_groups
    if groups & (groups - 1):
        raise PlanError(
            f"a Plan of {groups} consumer groups: they share the warps of a launch, which Triton has in powers of two; "
            "cure: a Plan of 1 or 2 consumer groups"
        )
    return read


def make_request(given: Mapping[str, Any], defaults: Request | None, settings: Settings) -> Request:
    """Builds the request of a launch, a scope or an installation.

    given: options by name, ``plan`` among them. defaults: what holds where `given` is silent; a Plan and a refusal to
    specialise exclude each other, and the one that is given wins.
    With ``TAWA_ENABLE=off`` the request is for stock Triton. Raises PlanError on a bad option.
    """
    known = {name: value for name, value in given.items() if name != "plan"}
    options = PlanOptions.from_mapping(known)
    plan = as_plan(given.get("plan"))
    refused = options.enable_warp_specialization is False
    if defaults is not None:
        options = merge(options, defaults.options)
        plan = defaults.plan if plan is None and not refused else plan
    options = merge(options, settings.options())
    if given.get("plan") is not None and not refused and options.enable_warp_specialization is False:
        options = replace(options, enable_warp_specialization=None)
    _check_agreement(known, plan)
    if settings.enable == "off":
        return Request(PlanOptions(enable_warp_specialization=False), off=True)
    return Request(options, plan, settings.reproducer_dir, settings.verify)


def layered(first: Request, second: Request | None) -> Request:
    """The first request with every gap filled from the second; where and how to check comes from the second."""
    if second is None:
        return first
    plan = first.plan if first.plan is not None else second.plan
    return Request(merge(first.options, second.options), plan, second.reproducer_dir, second.verification)


def _check_agreement(known: Mapping[str, Any], plan: Plan | None) -> None:
    """Raises PlanError when a Plan and options beside it say different things."""
    asked = PlanOptions.from_mapping(known)
    if plan is None:
        return
    depths = {ring.depth for ring in plan.rings}
    if asked.aref_depth is not None and depths != {asked.aref_depth}:
        raise PlanError(f"aref_depth={asked.aref_depth} beside a plan with D = {sorted(depths)}; cure: give one")
    if asked.mma_depth is not None and asked.mma_depth != plan.mma_depth:
        raise PlanError(f"mma_depth={asked.mma_depth} beside a plan with P = {plan.mma_depth}; cure: give one")
    if asked.enable_warp_specialization is False:
        raise PlanError("enable_warp_specialization=False beside a plan, which pins; cure: give one")


def set_log_level(settings: Settings) -> None:
    """Lets the logger ``tawa`` speak as loudly as the settings say; a level that the program has set is kept."""
    logger = logging.getLogger("tawa")
    if logger.level == logging.NOTSET or settings.log != "warning":
        logger.setLevel(settings.log.upper())
    if settings.log in ("debug", "info") and not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tawa: %(message)s"))
        logger.addHandler(handler)
