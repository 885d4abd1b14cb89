"""Builds the `Request` of a compile from launch options, decorator arguments and settings.

For each option the first source that sets it wins: launch, decorator, scope or installation, ``TAWA_*`` variables.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from collections.abc import Mapping as Table
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypedDict

from tawa.bridge.driver.request import Request
from tawa.bridge.launch.host import Host
from tawa.errors import PlanError, did_you_mean
from tawa.mapping import Mapping
from tawa.plan import Plan, PlanOptions
from tawa.plan.option_conflicts import STOCK, check_agreement, contradictions
from tawa.runtime.pytorch.clock import capturing
from tawa.runtime.pytorch.scratch import allocate
from tawa.runtime.settings import Settings
from tawa.runtime.tuning.choices import choices_of

HOST = Host(allocate, choices_of, capturing)
"""PyTorch's services for launches."""


class LaunchOptions(TypedDict, total=False):
    """The options of a launch, a scope or an installation, for editors and type checkers: `OPTION_NAMES`."""

    enable_warp_specialization: bool | None
    aref_depth: int | None
    num_buffers_warp_spec: int | None
    mma_depth: int | None
    num_consumer_groups: int | None
    ping_pong: bool | None
    pointer_loads: Literal["tma", "cp.async"] | None
    persistent: bool | None
    mode: Literal["automatic", "measure"] | None
    only_if_faster: bool | None
    precision: Literal["exact", "relaxed"] | None
    compile_budget_s: float | None
    start: Literal["stock", "ready"] | None
    plan: Plan | Table[str, Any] | str | os.PathLike[str] | None
    mapping: Mapping | Table[str, Any] | str | os.PathLike[str] | None


OPTION_NAMES = frozenset((*PlanOptions.names(), "plan", "mapping"))


def take_options(kwargs: dict[str, Any], names: frozenset[str] = OPTION_NAMES) -> dict[str, Any]:
    """Removes Tawa's options from the keyword arguments of a launch and returns them.

    names: the options to remove. A kernel parameter with the name of an option stays with the kernel.
    """
    if names.isdisjoint(kwargs):
        return {}
    return {name: kwargs.pop(name) for name in [name for name in kwargs if name in names]}


def reject_unknown(given: Iterable[str], known: Iterable[str], whose: str) -> None:
    """Raises PlanError for a name that is neither in `known` nor an option of Tawa's.

    whose: what takes these options, for the message.
    """
    names = sorted(OPTION_NAMES.union(known))
    for name in given:
        if name not in names:
            hint = did_you_mean(name, names, f"{whose} takes {', '.join(names)}")
            raise PlanError(f"unknown option {name!r} of {whose}: {hint}")


def reject_near_misses(kwargs: Table[str, Any], known: Iterable[str]) -> None:
    """Raises PlanError if a keyword that neither the kernel nor Triton knows resembles an option of Tawa's."""
    for name in set(kwargs).difference(known):
        if hint := did_you_mean(name, OPTION_NAMES, cutoff=0.75):
            raise PlanError(f"unknown option {name!r}: {hint}")


def refuse_options(kernel: Any, given: Iterable[str]) -> None:
    """Raises PlanError if a Gluon kernel is given options: there is nothing to decide."""
    names = list(given)
    if names:
        raise PlanError(
            f"{', '.join(names)}: {kernel.__name__} is a Gluon kernel, which assigns work to warps explicitly; "
            f"cure: leave {'it' if len(names) == 1 else 'them'} out"
        )


def merge(options: PlanOptions, defaults: PlanOptions) -> PlanOptions:
    """The first with every None filled from the second; raises PlanError if they contradict each other."""
    values = {field.name: getattr(options, field.name) for field in fields(PlanOptions)}
    return PlanOptions(**{name: getattr(defaults, name) if value is None else value for name, value in values.items()})


def as_plan(plan: Any) -> Plan | None:
    """A Plan from anything that `Plan.of` takes, or None; a file is read immediately.

    Raises PlanError on anything else, on a number of consumer groups that no launch can have, and on a Plan for stock
    Triton that has other fields.
    """
    if plan is None:
        return None
    read = Plan.of(plan)
    if read.form == "stock" and read != STOCK:
        names = ", ".join(name for name in read.to_dict() if name not in ("version", "form"))
        raise PlanError(f"form='stock' in a Plan with {names}: stock Triton decides those; cure: leave them out")
    groups = read.groups or read.consumer_groups
    if groups & (groups - 1) and read.split != "programs":
        raise PlanError(
            f"a Plan of {groups} consumer groups: the warps of a launch, a power of two, cannot be divided among them; "
            "cure: a Plan of 1 or 2 consumer groups, or split='programs'"
        )
    return read


def as_mapping(mapping: Any, plan: Any = None) -> Mapping | None:
    """A mapping from anything that `Mapping.of` takes, or None; a file is read immediately. plan: given beside it.

    Raises PlanError on anything else, and if there is a Plan as well.
    """
    if mapping is None:
        return None
    if plan is not None:
        raise PlanError("mapping and plan say the same in two ways; cure: give one of them")
    return Mapping.of(mapping)


def make_request(given: Table[str, Any], defaults: Request | None, settings: Settings) -> Request:
    """Builds the request of a launch, a scope or an installation.

    given: options by name, including ``plan``. defaults: for options that `given` does not set, unless they contradict
    it.
    With ``TAWA_ENABLE=off`` the request is for stock Triton. Raises PlanError on a bad option.
    """
    known = {name: value for name, value in given.items() if name not in ("plan", "mapping")}
    options, plan = PlanOptions.from_mapping(known), as_plan(given.get("plan"))
    mapping = as_mapping(given.get("mapping"), plan)
    check_agreement(options, plan)
    rest = defaults or Request()
    rest = replace(rest, options=merge(rest.options, settings.options()))
    made = layered(Request(options, plan, settings.reproducer_dir, settings.verify, mapping=mapping), rest)
    check_agreement(options, made.plan)
    if settings.enable == "off":
        return Request(PlanOptions(enable_warp_specialization=False), off=True)
    waits = settings.background == "off" or settings.collect is not None
    if waits and made.options.start == "stock":
        made = replace(made, options=replace(made.options, start="ready"))
    host = replace(HOST, reproducer_dir=settings.reproducer_dir, start="ready" if waits else "stock")
    if settings.collect is not None:
        host = replace(host, choices=partial(_collector, settings.collect))
    return replace(
        made,
        reproducer_dir=settings.reproducer_dir,
        verification=settings.verify,
        gluon=settings.gluon,
        host=host,
        arch=settings.arch,
    )


def _collector(folder: Path, kernel: Any) -> Any:
    """Notes the launches of a kernel in `folder`."""
    from tawa.runtime.tuning.collect import Collector

    return Collector(kernel, folder)


def layered(first: Request, second: Request | None) -> Request:
    """The first request with every gap filled from the second; what the settings decide is the second's.

    Options of the second that contradict a Plan of the first are dropped. A demand to specialise and a demand for stock
    Triton exclude each other, whether an option or a Plan makes them; the first request that makes one wins.
    """
    if second is None:
        return first
    plan, options, demanded = second.plan, second.options, first.options.enable_warp_specialization
    given = first.plan is not None or first.mapping is not None
    mapping = second.mapping
    if given or first.stock or (demanded and second.stock):
        plan = mapping = None
    if first.plan is not None:
        dropped: dict[str, Any] = dict.fromkeys(contradictions(options, first.plan))
        options = replace(options, **dropped)
    options = merge(first.options, options)
    return Request(
        options, first.plan or plan, second.reproducer_dir, second.verification, gluon=second.gluon,
        mapping=first.mapping or mapping,
    )  # fmt: skip


def set_log_level(settings: Settings) -> None:
    """Sets the level of the logger ``tawa`` from the settings; a level that the program has set is kept."""
    logger = logging.getLogger("tawa")
    if logger.level == logging.NOTSET or settings.log != "warning":
        logger.setLevel(settings.log.upper())
    if settings.log in ("debug", "info") and not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("tawa: %(message)s"))
        logger.addHandler(handler)
