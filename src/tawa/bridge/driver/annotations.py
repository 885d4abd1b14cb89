"""``tl.range(..., warp_specialize=True)`` in a kernel is a request to Tawa, which stock Triton never sees.

The annotation is removed from the TTIR before any stage of Triton reads it, also for the stock kernel used in
comparisons, since Triton aborts on it on Hopper, or ignores it. It means ``only_if_faster=False``: specialise wherever
that is legal. Options of the launch, and of a scope or installation around it, take precedence. A declined kernel is
compiled by stock Triton without the annotation.

```
TTIR -Triton, generic form-> IR -TakeAnnotations-> IR -text-> TTIR
```
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tawa.bridge.driver.request import Request
from tawa.bridge.triton.generic_print import parse_module, read_ttir
from tawa.declines import LAUNCH_CONDITION
from tawa.ir import print_module
from tawa.remarks import Remark, SourceLocation
from tawa.transforms.ttir.take_annotations import ANNOTATION, ATTRIBUTE, TakeAnnotations

_WITHOUT = "stock Triton compiles the kernel without it"

STOCK_WITHOUT = Request(beside=True)
"""The request for the stock kernel, without annotations, that accompanies a specialised one."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A kernel without its annotations.

    asked: whether one of them asks for specialisation. location: of the first that does.
    """

    ttir: str
    asked: bool
    location: SourceLocation | None


def take_annotations(ttir: str, context: Any) -> Taken | None:
    """The kernel without annotations, in generic form; None where it has none. ttir: Triton's text, in any form."""
    if ATTRIBUTE not in ttir:
        return None
    module = read_ttir(ttir, context)
    result = TakeAnnotations().run(module)
    if not result.changed:
        return None
    first = result.remarks[0].location if result.remarks else None
    return Taken(print_module(module), bool(result.remarks), first)


def without_annotations(mod: Any) -> tuple[Any, Taken | None]:
    """Triton's module without annotations: `mod` itself where it has none."""
    taken = take_annotations(mod.str(), mod.context)
    return (mod, None) if taken is None else (parse_module(taken.ttir, mod.context), taken)


def asked_by(taken: Taken, request: Request) -> Request:
    """The request of a kernel with annotations; what the user says beside them takes precedence."""
    options = request.options
    if not taken.asked or request.pinned or options.only_if_faster is not None:
        return request
    return replace(request, options=replace(options, only_if_faster=False))


def annotation_remark(taken: Taken, request: Request, applied: bool) -> Remark:
    """What the annotations led to. request: as the user made it."""
    if not taken.asked:
        return Remark("note", "tl.range(warp_specialize=False) is left out")
    if request.pinned:
        meaning = "is not needed: the kernel is pinned"
    elif request.options.mode == "measure":
        meaning = "gives way to mode=measure"
    elif request.options.only_if_faster:
        meaning = "gives way to only_if_faster=True"
    else:
        meaning = "is taken as only_if_faster=False"
    return Remark("note", f"{ANNOTATION} {meaning}{'' if applied else f'; {_WITHOUT}'}", taken.location)


def beside_remark() -> Remark:
    """Why `STOCK_WITHOUT` is not specialised."""
    return LAUNCH_CONDITION.remark()
