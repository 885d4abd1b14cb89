"""A finding of `tawa doctor`: one line, green, yellow or red, with its cure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tawa.errors import ISSUES_URL, TawaError

State = Literal["green", "yellow", "red"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line.

    green: as it should be. yellow: works, with less than Tawa can do. red: Tawa does not work, or not as it was told.
    cure: what to do; of a green line empty. hint: what else can be done, such as clearing a cache. data: for --json.
    """

    name: str
    found: str
    state: State = "green"
    cure: str = ""
    hint: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        if bool(self.cure) == (self.state == "green"):
            raise ValueError(f"{self.name}: a line has a cure unless it is green")

    def to_dict(self) -> dict[str, Any]:
        """JSON data."""
        known = {"name": self.name, "state": self.state, "found": self.found}
        return {**known, "cure": self.cure or None, "hint": self.hint or None, **self.data}


Findings = Iterator[Finding]
Check = Callable[[], Findings]


def guarded(name: str, check: Check) -> Findings:
    """The findings of a check. If it fails itself, that is a finding, too: the others are still made."""
    from tawa.cli.failures import split_message

    try:
        yield from check()
    except TawaError as error:
        what, _, cure = split_message(str(error))
        yield Finding(name, what, "red", cure or f"if this is a fault of Tawa, please report it: {ISSUES_URL}")
    except OSError as error:
        cure = "folders that can be written, on a disk that is not full: TMPDIR, TRITON_CACHE_DIR, XDG_CACHE_HOME"
        yield Finding(name, f"the check failed: {error}", "red", cure)
    except Exception as error:
        what = f"the check failed: {type(error).__name__}: {error}"
        yield Finding(name, what, "red", f"please report it, with this line: {ISSUES_URL}")
