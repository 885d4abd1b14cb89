"""Why stock Triton compiled a kernel without a record of Tawa: the version, a setting, or an explicit request."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from tawa import declines
from tawa.bridge.driver.request import Request, surrounding_request
from tawa.bridge.report.record import KEY
from tawa.bridge.triton.device import capability_of, why_left
from tawa.bridge.triton.versions import untested_remark
from tawa.remarks import Remark

OFF = declines.SWITCHED_OFF.remark()
_ASKED = declines.STOCK_ASKED.remark()
_ASKED_BY_PLAN = declines.STOCK_PLAN.remark()
NOT_ASKED = declines.NOT_ASKED.remark()

_asked: WeakKeyDictionary[Any, Remark] = WeakKeyDictionary()


def stock_remark(request: Request) -> Remark:
    """Why a request is for stock Triton."""
    if request.off:
        return OFF
    return _ASKED if request.plan is None and request.mapping is None else _ASKED_BY_PLAN


def note_stock(compiled: Any, request: Request | None) -> None:
    """Notes that a kernel was compiled or launched under a request for stock Triton."""
    if request is not None and request.stock:
        with suppress(TypeError):  # a launch may return None
            _asked[compiled] = stock_remark(request)


def note_surrounding(compiled: Any) -> None:
    """As `note_stock`, with the request of the launch, scope or installation around this code."""
    note_stock(compiled, surrounding_request())


def why_stock(compiled: Any, off: bool = False) -> Remark:
    """Why stock Triton compiled a kernel without a record. off: whether ``TAWA_ENABLE=off`` holds now."""
    language = getattr(getattr(compiled, "src", None), "language", None)
    untested = untested_remark()
    if untested is not None:
        return untested
    with suppress(KeyError, TypeError):
        return _asked[compiled]
    elsewhere = why_left(capability_of(compiled), asked=False)
    if elsewhere:
        return declines.OTHER_GPU.remark(gpu=elsewhere.removeprefix("made for "))
    if getattr(language, "name", "") == "GLUON":
        return declines.IN_GLUON.remark(verdict="")
    return OFF if off else NOT_ASKED


def why_not_specialised(compiled: Any) -> str:
    """Why stock Triton compiled a `CompiledKernel`; empty for a specialised one."""
    record = getattr(compiled.metadata, KEY, None)
    if record is None:
        return why_stock(compiled).reason
    return "" if record["applied"] else record["reason"]
