"""Why stock Triton compiled a kernel without a record of Tawa: the version, a setting, or an explicit request."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from tawa.bridge.driver.request import Request, surrounding_request
from tawa.bridge.gluon.verdicts import LEFT
from tawa.bridge.report.record import KEY
from tawa.bridge.triton.device import capability_of, why_left
from tawa.bridge.triton.versions import untested_remark
from tawa.remarks import Remark

OFF = Remark(
    "declined", "TAWA_ENABLE=off: stock Triton compiles every kernel", cure="TAWA_ENABLE=auto, or leave it out"
)
_ASKED = Remark(
    "declined",
    "stock Triton was asked for: enable_warp_specialization=False",
    cure="leave enable_warp_specialization out",
)
_ASKED_BY_PLAN = Remark(
    "declined", "stock Triton was asked for: the Plan has form='stock'", cure="leave the Plan out, or give another form"
)
NOT_ASKED = Remark(
    "declined",
    "compiled by stock Triton; Tawa was not asked",
    cure="put the kernel under tawa.jit, or call tawa.install() before it is compiled",
)

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
        return Remark("declined", elsewhere)
    if getattr(language, "name", "") == "GLUON":
        return Remark("declined", LEFT)
    return OFF if off else NOT_ASKED


def why_not_specialised(compiled: Any) -> str:
    """Why stock Triton compiled a `CompiledKernel`; empty for a specialised one."""
    record = getattr(compiled.metadata, KEY, None)
    if record is None:
        return why_stock(compiled).reason
    return "" if record["applied"] else record["reason"]
