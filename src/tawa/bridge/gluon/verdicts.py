"""What follows from the verdict on a Gluon kernel, which its record has (`tawa.bridge.gluon.check`)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tawa.bridge.driver.request import GluonPolicy, Request
from tawa.bridge.report import record
from tawa.declines import IN_GLUON
from tawa.errors import ProtocolError

_log = logging.getLogger("tawa")

LEFT = IN_GLUON.text(verdict="")


def judge(compiled: Any, request: Request | None) -> None:
    """Warns of a kernel that is refuted, or raises ProtocolError, as the request says.

    compiled: a `CompiledKernel`, just compiled or from the cache.
    """
    known: Mapping[str, Any] = getattr(compiled.metadata, record.KEY, None) or {}
    if request is None or request.gluon == "auto" or not known.get("gluon"):
        return
    found = known["verdict"]
    if (found["verdict"] if found is not None else "not checked") in _ACCEPTED[request.gluon]:
        return
    text = _complaint(compiled, found)
    if request.gluon == "warn":
        _log.warning("%s", text)
        return
    raise ProtocolError(text)


_ACCEPTED: Mapping[GluonPolicy, tuple[str, ...]] = {
    "warn": ("proved", "checked", "unknown", "not checked"),
    "raise": ("proved", "checked", "unknown", "not checked"),
    "checked": ("proved", "checked"),
    "proved": ("proved",),
}
"""The verdicts that are accepted without a word."""


def _complaint(compiled: Any, found: Mapping[str, Any] | None) -> str:
    """What is wrong with a kernel that is not proved, where, and how to see more."""
    from tawa.verify.witness import said_by

    name = compiled.metadata.name
    place = f"\n  at {found['location']}" if found and found["location"] else ""
    if found is None:
        return f"{name}: the protocol is not checked: TAWA_VERIFY=off{place}\n  cure: TAWA_VERIFY=fast, or full"
    more = f"tawa verify --cached {compiled.metadata.hash[:12]}"
    if found["verdict"] == "refuted":
        return f"{name}: the protocol is wrong: {said_by(found)}{place}\n  cure: {more} shows the run that goes wrong"
    if found["verdict"] == "checked":
        what = f"{said_by(found)}\n  not proved: {found['left']}"
        cure = f"{more} checks with more effort; or TAWA_GLUON=checked, which accepts a check of these runs"
        return f"{name}: the protocol is checked, not proved: {what}{place}\n  cure: {cure}"
    cure = f"{more} checks with more effort; or TAWA_GLUON=raise, which accepts what is not proved"
    return f"{name}: the protocol is not proved: {said_by(found)}{place}\n  cure: {cure}"
