"""The GPUs that kernels are compiled for, as values.

sm_90, 90, sm_90a            SM_90     Hopper: H100, H200
sm_100, 100, sm_100a         SM_100    Blackwell: B200, GB200
ttg.target = "cuda:100"      SM_100    of a module
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tawa.errors import TargetError, did_you_mean
from tawa.ir.attributes import attribute_of

if TYPE_CHECKING:
    from tawa.ir import Module


@dataclass(frozen=True, slots=True)
class Target:
    """A GPU that kernels are compiled for.

    name: ``sm_100``. capability: its compute capability, 100. gpus: the products. own: what no other target has.
    """

    name: str
    capability: int
    gpus: str
    own: str

    def __str__(self) -> str:
        """``sm_100 (B200, GB200)``."""
        return f"{self.name} ({self.gpus})"


SM_90 = Target("sm_90", 90, "H100, H200", "wgmma")
"""NVIDIA Hopper."""
SM_100 = Target("sm_100", 100, "B200, GB200", "tensor memory")
"""NVIDIA Blackwell."""
TARGETS = (SM_90, SM_100)
"""Those that Tawa knows."""
SPECIALISED = (SM_90,)
"""Those that Triton's kernels are specialised for; elsewhere they are left to stock Triton."""
KNOWN = " and ".join(map(str, TARGETS))
"""All of them, for messages."""

_NAME = re.compile(r"(?:sm_?)?(\d+)a?", re.IGNORECASE)
_OTHERS = (70, 72, 75, 80, 86, 87, 88, 89, 101, 103, 110, 120, 121)


def target_of(text: str) -> Target:
    """The target of a name: ``sm_100``, ``sm_100a`` or ``100``. Raises TargetError for any other."""
    found = _NAME.fullmatch(text.strip())
    known = target_of_capability(int(found[1])) if found else None
    if known is not None:
        return known
    names = [it.name for it in TARGETS]
    cure = f"name one of {', '.join(map(str, TARGETS))}"
    if found and int(found[1]) in _OTHERS:
        raise TargetError(f"{text}: Tawa knows {' and '.join(names)}", cure)
    raise TargetError(f"{text}: no GPU of this name is known", did_you_mean(text.lower(), names, cure))


def target_of_capability(capability: int | None) -> Target | None:
    """The target of a compute capability; None for one that Tawa does not know."""
    return next((it for it in TARGETS if it.capability == capability), None)


def target_of_name(name: str) -> Target | None:
    """The target that Triton calls by this name, ``cuda:100``; None for one that Tawa does not know."""
    return next((it for it in TARGETS if name == f"cuda:{it.capability}"), None)


def target_of_module(module: Module) -> Target | None:
    """The target that a program with layouts was made for; None if it names none, or one that Tawa does not know."""
    return target_of_name((attribute_of(module.op.attributes, "ttg.target") or "").strip('"'))
