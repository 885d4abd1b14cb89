"""Settings: the ``TAWA_*`` environment variables, read in one place. `tawa doctor` prints them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from tawa.bridge.driver.request import GluonPolicy
from tawa.errors import PlanError, TargetError
from tawa.machine.machines import machine_named
from tawa.plan import PlanOptions
from tawa.verify.effort import Verification

Enable = Literal["auto", "off"]
Background = Literal["on", "off"]
LogLevel = Literal["debug", "info", "warning", "error"]


def default_reproducer_dir() -> Path:
    """``$XDG_CACHE_HOME/tawa/reproducers``, normally under ``~/.cache``."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(cache) / "tawa" / "reproducers"


@dataclass(frozen=True, slots=True)
class Settings:
    """A field for each variable ``TAWA_<FIELD>``.

    enable: ``auto`` (Tawa specialises where the code asks for it) or ``off`` (stock Triton compiles every kernel).
    verify: how each specialised kernel is checked: ``fast`` (milliseconds, the default), ``full`` (up to seconds) or
    ``off``.
    compile_budget_s: seconds for trying further Plans if nothing else sets them; empty: two Plans at most.
    gluon: what follows from the verdict on a Gluon kernel. ``warn``: a warning if it is refuted; ``raise``: an error;
    ``checked``: an error unless it is checked or proved; ``proved``: an error unless it is proved; of all Gluon kernels
    under Tawa. ``auto`` (the default): a warning for those under `tawa.jit`; others are not checked.
    aref_depth, mma_depth: D and P if neither the launch nor the decorator sets them; empty: the planner decides.
    reproducer_dir: folder for reproducers of internal errors.
    log: ``info`` logs the decision for every kernel with its reason; ``warning`` (the default) only internal errors.
    report: a file or folder for the report of each process under `tawa.install`, written when it ends; ``off``: none.
    tune_budget: seconds that ``mode="measure"`` may take for one kernel and shape class, compiles included.
    collect: a folder that launches are noted in for `tawa tune`; empty: they are not.
    background: ``off``: nothing is compiled in the background, so ``start="stock"`` is ``start="ready"``.
    arch: ``sm_100`` also specialises kernels on Blackwell, where their speed was never measured; empty: Hopper only.
    """

    enable: Enable = "auto"
    verify: Verification = "fast"
    gluon: GluonPolicy = "auto"
    aref_depth: int | None = None
    mma_depth: int | None = None
    compile_budget_s: float | None = None
    reproducer_dir: Path = Path()
    log: LogLevel = "warning"
    report: str = "off"
    tune_budget: float = 2.0
    collect: Path | None = None
    background: Background = "on"
    arch: str = ""

    @staticmethod
    def from_environment(environment: Mapping[str, str] | None = None) -> Settings:
        """Reads ``TAWA_*``; raises PlanError, which names the variable, its value and the allowed values."""
        variables = os.environ if environment is None else environment
        readers: dict[str, Callable[[str, str], Any]] = {
            "TAWA_ENABLE": _one_of("auto", "off"),
            "TAWA_VERIFY": _one_of("off", "fast", "full"),
            "TAWA_GLUON": _one_of("auto", "warn", "raise", "checked", "proved"),
            "TAWA_AREF_DEPTH": _count(least=1),
            "TAWA_MMA_DEPTH": _count(least=0),
            "TAWA_COMPILE_BUDGET_S": _seconds,
            "TAWA_REPRODUCER_DIR": lambda _, value: Path(value).expanduser(),
            "TAWA_LOG": _one_of("debug", "info", "warning", "error"),
            "TAWA_REPORT": lambda _, value: value,
            "TAWA_TUNE_BUDGET": _seconds,
            "TAWA_COLLECT": lambda _, value: Path(value).expanduser(),
            "TAWA_BACKGROUND": _one_of("on", "off"),
            "TAWA_ARCH": _machine,
        }
        values: dict[str, Any] = {"reproducer_dir": default_reproducer_dir()}
        for name, read in readers.items():
            value = variables.get(name, "").strip()
            if value:
                values[name.removeprefix("TAWA_").lower()] = read(name, value)
        return Settings(**values)

    def options(self) -> PlanOptions:
        """The default options; raises PlanError if they contradict each other."""
        return PlanOptions(aref_depth=self.aref_depth, mma_depth=self.mma_depth, compile_budget_s=self.compile_budget_s)

    def as_variables(self) -> dict[str, str]:
        """Every variable with its present value, for `tawa doctor`."""
        values = {field.name: getattr(self, field.name) for field in fields(Settings)}
        return {f"TAWA_{name.upper()}": "" if value is None else str(value) for name, value in values.items()}


def _machine(name: str, value: str) -> str:
    try:
        return machine_named(value).name
    except TargetError as error:
        raise PlanError(f"{name}={value!r}: {error}") from error


def _one_of(*allowed: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value.lower() not in allowed:
            raise PlanError(f"{name}={value!r}: allowed are {', '.join(allowed)}")
        return value.lower()

    return read


def _count(least: int) -> Callable[[str, str], int]:
    def read(name: str, value: str) -> int:
        if not value.isdecimal() or int(value) < least:
            raise PlanError(f"{name}={value!r}: allowed are whole numbers, {least} or more")
        return int(value)

    return read


def _seconds(name: str, value: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise PlanError(f"{name}={value!r}: allowed are seconds, 0 or more")
    return seconds
