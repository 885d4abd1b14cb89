"""The settings, each with where its value comes from."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tawa.cli.doctor.finding import Finding, Findings
from tawa.errors import PlanError, did_you_mean

_TRITONS = {
    "TRITON_INTERPRET": "kernels run in Triton's interpreter, and Tawa does nothing",
    "TRITON_ALWAYS_COMPILE": "nothing is taken from Triton's cache, so every process compiles all kernels",
    "TRITON_KERNEL_OVERRIDE": "kernels that are read from files are not specialised",
}
"""Variables of Triton that change what Tawa does, and how."""
_PATHS = ("TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_PTXAS_PATH", "CUDA_VISIBLE_DEVICES", "XDG_CACHE_HOME", "TMPDIR")


def settings(environment: Mapping[str, str] | None = None) -> Findings:
    """Every ``TAWA_*`` variable, those that are not known, and those of Triton that matter. None: `os.environ`."""
    from tawa.runtime.settings import Settings

    variables = os.environ if environment is None else environment
    known = Settings.from_environment({}).as_variables()
    for name, default in known.items():
        given = variables.get(name, "").strip()
        data = {"origin": "environment" if given else "default", "value": default}
        if not given:
            yield Finding(name, f"{default or 'not set'} (default)", data=data)
            continue
        try:
            value = Settings.from_environment({name: given}).as_variables()[name]
        except PlanError as error:
            value, _, allowed = str(error).removeprefix(f"{name}=").partition(": ")
            what, cure = f"{value} (environment): {allowed}", f"{name}={default}, or unset {name}"
            yield Finding(name, what, "red", cure, data=data)
            continue
        yield Finding(name, f"{value} (environment)", data={**data, "value": value})
    for name in sorted(set(variables) - set(known)):
        if name.startswith("TAWA_"):
            nearest = did_you_mean(name, known, f"the settings are {', '.join(known)}", show=str)
            what, data = f"{variables[name]} (environment): no setting has this name", {"origin": "environment"}
            yield Finding(name, what, "yellow", f"unset {name}; {nearest}", data=data)
    yield from _together(variables)
    yield from _of_others(variables)


def _together(variables: Mapping[str, str]) -> Findings:
    """Settings that contradict each other."""
    from tawa.runtime.settings import Settings

    try:
        found = Settings.from_environment(variables)
    except PlanError:  # one of them is wrong alone, and has its line
        return
    try:
        found.options()
    except PlanError as error:
        yield Finding("TAWA_AREF_DEPTH", str(error), "red", "unset TAWA_AREF_DEPTH TAWA_MMA_DEPTH")


def _of_others(variables: Mapping[str, str]) -> Findings:
    for name, what in _TRITONS.items():
        if variables.get(name, "").lower() in ("1", "true", "on", "yes", "y"):
            data = {"origin": "environment", "value": variables[name]}
            yield Finding(name, f"{variables[name]} (environment): {what}", "yellow", f"unset {name}", data=data)
    for name in _PATHS:
        if name in variables:
            data = {"origin": "environment", "value": variables[name]}
            yield Finding(name, f"{variables[name] or 'empty'} (environment)", data=data)
